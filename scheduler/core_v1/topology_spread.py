"""Topology spread constraints: how evenly pods are spread over the domains of a topology key.

Source: k8s.io/api core/v1 TopologySpreadConstraint; KEP-895, KEP-3022 (minDomains), KEP-3094 (policies), KEP-3243
(matchLabelKeys).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from allocator.api import names
from allocator.api.findings import FieldError
from scheduler.core_v1.host_ports import objects
from scheduler.core_v1.label_selector import Labels, LabelSelector, LabelSelectorFields, equal_labels, label_selector
from scheduler.core_v1.object_fields import Int32, ObjectFields, name_error

DO_NOT_SCHEDULE = "DoNotSchedule"
_IS_HARD = {DO_NOT_SCHEDULE: True, "ScheduleAnyway": False}
_POLICIES = ("Honor", "Ignore")


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint. selector: of the pods that are counted, in the pod's own namespace, by their labels.

    alike_in: keys of labels in which these have to be like the pod; merged into the selector by `with_labels`.
    is_hard: a node that breaks it is refused (DoNotSchedule), else it is worse; None where it has no effect.
    honors_affinity, honors_taints: whether nodes are left out that the pod's node affinity does not match, or whose
    taints it does not tolerate.
    """

    max_skew: int
    topology_key: str
    selector: LabelSelector
    is_hard: bool | None = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    alike_in: tuple[str, ...] = ()


class SpreadConstraintFields(ObjectFields):
    """An entry of spec.topologySpreadConstraints."""

    maxSkew: Int32 = 0  # noqa: N815 - the API's name
    topologyKey: str = ""  # noqa: N815 - the API's name
    whenUnsatisfiable: str = ""  # noqa: N815 - the API's name
    labelSelector: LabelSelectorFields | None = None  # noqa: N815 - the API's name
    minDomains: Int32 | None = None  # noqa: N815 - the API's name
    nodeAffinityPolicy: str | None = None  # noqa: N815 - the API's name
    nodeTaintsPolicy: str | None = None  # noqa: N815 - the API's name
    matchLabelKeys: list[str] | None = None  # noqa: N815 - the API's name


def spread_constraints(fields: Iterable[SpreadConstraintFields]) -> tuple[SpreadConstraint, ...]:
    """The constraints that the fields write."""
    return tuple(
        SpreadConstraint(
            one.maxSkew,
            one.topologyKey,
            label_selector(one.labelSelector),
            _IS_HARD.get(one.whenUnsatisfiable),
            1 if one.minDomains is None else one.minDomains,
            one.nodeAffinityPolicy in (None, "Honor"),
            one.nodeTaintsPolicy == "Honor",
            tuple(one.matchLabelKeys or ()),
        )
        for one in fields
    )


def constraint_errors(path: str, fields: SpreadConstraintFields) -> Iterator[FieldError]:
    """What no release allows. path: of the constraint."""
    if fields.maxSkew < 1:
        yield FieldError(f"{path}.maxSkew", fields.maxSkew, "must be at least 1")
    if fields.minDomains is not None and fields.minDomains < 1:
        yield FieldError(f"{path}.minDomains", fields.minDomains, "must be at least 1")
    yield from name_error(f"{path}.topologyKey", fields.topologyKey, names.label_key)


def unknown_words(spec: Mapping[str, Any]) -> Iterator[tuple[FieldError, str]]:
    """Unknown values in the constraints, which may be those of a later release, and their effect. spec: raw."""
    for position, raw in enumerate(objects(spec, "topologySpreadConstraints")):
        path = f"spec.topologySpreadConstraints[{position}]"
        if (action := raw.get("whenUnsatisfiable")) not in _IS_HARD:
            words = " or ".join(_IS_HARD)
            yield FieldError(f"{path}.whenUnsatisfiable", action, f"must be {words}"), "the constraint has no effect"
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := raw.get(name)) not in (None, *_POLICIES):
                yield FieldError(f"{path}.{name}", policy, f"must be {' or '.join(_POLICIES)}"), "it counts as Ignore"


def with_labels(constraints: tuple[SpreadConstraint, ...], labels: Labels) -> tuple[SpreadConstraint, ...]:
    """The constraints as they hold for a pod with these labels."""
    return tuple(_with_labels(one, labels) if one.alike_in else one for one in constraints)


def _with_labels(constraint: SpreadConstraint, labels: Labels) -> SpreadConstraint:
    if constraint.selector is None:
        return constraint
    alike = equal_labels({key: labels[key] for key in constraint.alike_in if key in labels})
    return replace(constraint, selector=tuple(dict.fromkeys((*constraint.selector, *alike))), alike_in=())
