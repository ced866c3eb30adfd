"""Required anti-affinity between pods: the pods that a pod keeps away from the topology domain that it is in.

It binds pods that come later too, which need not say anything of it themselves. Terms are read as they come: the API
server has refused what makes no sense, and has merged `matchLabelKeys` into the selectors.
Source: k8s.io/api core/v1 PodAffinityTerm, meta/v1 LabelSelector.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from allocator.model import Requirement
from allocator.node_affinity import all_hold
from scheduler.core_v1.host_ports import objects

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Labels = Mapping[str, str]

LabelSelector = tuple[Requirement, ...] | None
"""All requirements have to hold, none of them for everything; None selects nothing."""


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of a pod's affinity. selector: of pods by their labels.

    It looks at pods of these namespaces, and of those whose labels namespace_selector selects. topology_key: the label
    that the nodes of a domain share.
    """

    topology_key: str
    namespaces: frozenset[str]
    selector: LabelSelector
    namespace_selector: LabelSelector = None

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """True for a pod of that namespace with these labels."""
        is_looked_at = namespace in self.namespaces or _selects(self.namespace_selector, namespace_labels)
        return is_looked_at and _selects(self.selector, labels)


def anti_affinity_of(spec: Mapping[str, Any], namespace: str) -> tuple[AffinityTerm, ...]:
    """The terms of required anti-affinity. spec: raw; namespace: of the pod."""
    affinity = spec.get("affinity")
    between = affinity.get("podAntiAffinity") if isinstance(affinity, dict) else None
    return tuple(_term(raw, namespace) for raw in objects(between, REQUIRED)) if isinstance(between, dict) else ()


def _term(raw: Mapping[str, Any], namespace: str) -> AffinityTerm:
    named, selected = raw.get("namespaces"), raw.get("namespaceSelector")
    own = (namespace,) if not named and selected is None else ()
    namespaces = frozenset((*own, *(named or ())))
    selector = _selector(raw.get("labelSelector"))
    return AffinityTerm(str(raw.get("topologyKey")), namespaces, selector, _selector(selected))


def _selector(raw: object) -> LabelSelector:
    if not isinstance(raw, dict):
        return None
    labels: Labels = raw.get("matchLabels") or {}
    alike = (Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))
    expressions = (
        Requirement(one["key"], one["operator"], tuple(one.get("values") or ()))
        for one in objects(raw, "matchExpressions")
    )
    return (*alike, *expressions)


def _selects(selector: LabelSelector, labels: Labels) -> bool:
    return selector is not None and all_hold(selector, labels)
