"""Topology spread constraints: how evenly pods like this one lie over the domains of a topology key.

Source: k8s.io/api core/v1 TopologySpreadConstraint; KEP-895, KEP-3022 (minDomains), KEP-3094 (policies), KEP-3243
(matchLabelKeys).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core_v1.fields import Fields
from scheduler.core_v1.label_selector import LabelSelector, LabelSelectorFields, equal_labels, label_selector

DO_NOT_SCHEDULE = "DoNotSchedule"


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint. selector: of the pods that are counted, in the pod's own namespace, by their labels.

    is_hard: a node that breaks it is refused (DoNotSchedule), else it is worse. honors_affinity, honors_taints: whether
    nodes are left out that the pod's node affinity does not match, or whose taints it does not tolerate.
    """

    max_skew: int
    topology_key: str
    selector: LabelSelector
    is_hard: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


class SpreadConstraintFields(Fields):
    """An entry of spec.topologySpreadConstraints."""

    maxSkew: int = 0  # noqa: N815 - the API's name
    topologyKey: str = ""  # noqa: N815 - the API's name
    whenUnsatisfiable: str = ""  # noqa: N815 - the API's name
    labelSelector: LabelSelectorFields | None = None  # noqa: N815 - the API's name
    minDomains: int | None = None  # noqa: N815 - the API's name
    nodeAffinityPolicy: str | None = None  # noqa: N815 - the API's name
    nodeTaintsPolicy: str | None = None  # noqa: N815 - the API's name
    matchLabelKeys: list[str] | None = None  # noqa: N815 - the API's name


def spread_constraints(
    fields: Iterable[SpreadConstraintFields], labels: Mapping[str, str]
) -> tuple[SpreadConstraint, ...]:
    """The constraints that the fields write. labels: of the pod, for `matchLabelKeys`."""
    return tuple(
        SpreadConstraint(
            one.maxSkew,
            one.topologyKey,
            _selector(one, labels),
            one.whenUnsatisfiable == DO_NOT_SCHEDULE,
            1 if one.minDomains is None else one.minDomains,
            one.nodeAffinityPolicy != "Ignore",
            one.nodeTaintsPolicy == "Honor",
        )
        for one in fields
    )


def _selector(fields: SpreadConstraintFields, labels: Mapping[str, str]) -> LabelSelector:
    selector = label_selector(fields.labelSelector)
    if selector is None:
        return None
    alike = {key: labels[key] for key in fields.matchLabelKeys or () if key in labels}
    return tuple(dict.fromkeys((*selector, *equal_labels(alike))))
