"""Required anti-affinity between pods: the pods that a pod keeps away from the topology domain that it is in.

It binds pods that come later too, which need not say anything of it themselves. Terms are taken as they come: the API
server has refused what makes no sense, and has merged `matchLabelKeys` into the selectors.
Source: k8s.io/api core/v1 PodAffinityTerm, meta/v1 LabelSelector.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.cluster.node_affinity import all_hold
from allocator.model import Requirement
from scheduler.core_v1.fields import ObjectFields, RequirementFields, requirements_of

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


class _SelectorFields(ObjectFields):
    matchLabels: dict[str, str] | None = None  # noqa: N815 - the API's name
    matchExpressions: list[RequirementFields] | None = None  # noqa: N815 - the API's name


class _TermFields(ObjectFields):
    topologyKey: str = ""  # noqa: N815 - the API's name
    namespaces: list[str] | None = None
    labelSelector: _SelectorFields | None = None  # noqa: N815 - the API's name
    namespaceSelector: _SelectorFields | None = None  # noqa: N815 - the API's name


class AntiAffinityFields(ObjectFields):
    """spec.affinity.podAntiAffinity of a pod."""

    requiredDuringSchedulingIgnoredDuringExecution: list[_TermFields] | None = None  # noqa: N815 - the API's name


def anti_affinity_of(fields: AntiAffinityFields | None, namespace: str) -> tuple[AffinityTerm, ...]:
    """The terms of required anti-affinity. namespace: of the pod."""
    required = (fields.requiredDuringSchedulingIgnoredDuringExecution if fields else None) or ()
    return tuple(_term(one, namespace) for one in required)


def _term(fields: _TermFields, namespace: str) -> AffinityTerm:
    named, selected = fields.namespaces, fields.namespaceSelector
    own = (namespace,) if not named and selected is None else ()
    namespaces = frozenset((*own, *(named or ())))
    return AffinityTerm(fields.topologyKey, namespaces, _selector(fields.labelSelector), _selector(selected))


def _selector(fields: _SelectorFields | None) -> LabelSelector:
    if fields is None:
        return None
    alike = (Requirement(key, "In", (value,)) for key, value in sorted((fields.matchLabels or {}).items()))
    return (*alike, *requirements_of(fields.matchExpressions))


def _selects(selector: LabelSelector, labels: Labels) -> bool:
    return selector is not None and all_hold(selector, labels)
