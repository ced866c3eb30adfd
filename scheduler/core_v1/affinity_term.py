"""Affinity between pods: which other pods a pod requires in its topology domain, and which it keeps away.

Anti-affinity also applies to pods that come later, even if they have no terms themselves. The API server has rejected
invalid terms and merged `matchLabelKeys` into the selectors. A term that it could not have stored is a problem of the
pod, in kube-scheduler's words.
Source: k8s.io/api core/v1 PodAffinity, PodAntiAffinity, PodAffinityTerm.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator.api import names
from allocator.api.findings import FieldError
from scheduler.core_v1.label_selector import (
    Labels,
    LabelSelector,
    LabelSelectorFields,
    label_selector,
    selector_problem,
    selects,
)
from scheduler.core_v1.object_fields import Int32, ObjectFields, name_error

MAX_WEIGHT = 100


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
        is_looked_at = namespace in self.namespaces or selects(self.namespace_selector, namespace_labels)
        return is_looked_at and selects(self.selector, labels)

    def may_match(self, namespace: str, labels: Labels) -> bool:
        """The same where the labels of the namespace are not known: false only for a pod that it cannot match."""
        is_looked_at = namespace in self.namespaces or self.namespace_selector is not None
        return is_looked_at and selects(self.selector, labels)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preferred term; weight: 1 to 100."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """All that a pod says of other pods. problem: why some of it cannot be understood, in kube-scheduler's words."""

    required: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred_anti: tuple[WeightedTerm, ...] = ()
    problem: str = ""


NO_POD_AFFINITY = PodAffinity()


class _AffinityTermFields(ObjectFields):
    topologyKey: str = ""  # noqa: N815 - the API's name
    namespaces: list[str] | None = None
    labelSelector: LabelSelectorFields | None = None  # noqa: N815 - the API's name
    namespaceSelector: LabelSelectorFields | None = None  # noqa: N815 - the API's name


class _WeightedTermFields(ObjectFields):
    weight: Int32
    podAffinityTerm: _AffinityTermFields  # noqa: N815 - the API's name


class PodAffinityFields(ObjectFields):
    """spec.affinity.podAffinity or podAntiAffinity of a pod."""

    requiredDuringSchedulingIgnoredDuringExecution: list[_AffinityTermFields] | None = None  # noqa: N815 - the API's name
    preferredDuringSchedulingIgnoredDuringExecution: list[_WeightedTermFields] | None = None  # noqa: N815 - API's


def pod_affinity_errors(path: str, fields: PodAffinityFields | None) -> Iterator[FieldError]:
    """What no release allows; of selectors the API server keeps old ones that it would refuse today. path: of both."""
    for position, term in enumerate(_required(fields)):
        at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{position}].topologyKey"
        yield from name_error(at, term.topologyKey, names.label_key)
    for position, preferred in enumerate(_preferred(fields)):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        yield from weight_errors(at, preferred.weight)
        yield from name_error(
            f"{at}.podAffinityTerm.topologyKey", preferred.podAffinityTerm.topologyKey, names.label_key
        )


def weight_errors(path: str, weight: int) -> Iterator[FieldError]:
    """The problems of the weight of a preferred term. path: of the term."""
    if not 1 <= weight <= MAX_WEIGHT:
        yield FieldError(f"{path}.weight", weight, f"must be between 1 and {MAX_WEIGHT}")


def pod_affinity_of(
    affinity: PodAffinityFields | None, anti_affinity: PodAffinityFields | None, namespace: str
) -> PodAffinity:
    """What both say. namespace: of the pod. A list in which one term is invalid says nothing."""
    if affinity is None and anti_affinity is None:
        return NO_POD_AFFINITY
    required, preferred = _required(affinity), _preferred(affinity)
    required_anti, preferred_anti = _required(anti_affinity), _preferred(anti_affinity)
    lists = {
        "requiredAffinityTerms": required,
        "requiredAntiAffinityTerms": required_anti,
        "preferredAffinityTerms": [one.podAffinityTerm for one in preferred],
        "preferredAntiAffinityTerms": [one.podAffinityTerm for one in preferred_anti],
    }
    problems = {name: problem for name, terms in lists.items() if (problem := _problem(terms))}
    return PodAffinity(
        tuple(_term(one, namespace) for one in required if "requiredAffinityTerms" not in problems),
        tuple(_weighted(one, namespace) for one in preferred if "preferredAffinityTerms" not in problems),
        tuple(_term(one, namespace) for one in required_anti if "requiredAntiAffinityTerms" not in problems),
        tuple(_weighted(one, namespace) for one in preferred_anti if "preferredAntiAffinityTerms" not in problems),
        _joined([f"{name}: {problem}" for name, problem in problems.items()]),
    )


def _required(fields: PodAffinityFields | None) -> list[_AffinityTermFields]:
    return (fields.requiredDuringSchedulingIgnoredDuringExecution if fields else None) or []


def _preferred(fields: PodAffinityFields | None) -> list[_WeightedTermFields]:
    return (fields.preferredDuringSchedulingIgnoredDuringExecution if fields else None) or []


def _weighted(fields: _WeightedTermFields, namespace: str) -> WeightedTerm:
    return WeightedTerm(fields.weight, _term(fields.podAffinityTerm, namespace))


def _term(fields: _AffinityTermFields, namespace: str) -> AffinityTerm:
    named, selected = fields.namespaces, fields.namespaceSelector
    own = (namespace,) if not named and selected is None else ()
    namespaces = frozenset((*own, *(named or ())))
    return AffinityTerm(fields.topologyKey, namespaces, label_selector(fields.labelSelector), label_selector(selected))


def _problem(terms: Iterable[_AffinityTermFields]) -> str:
    """The problems of the first term that is invalid."""
    return next(filter(None, _problems(terms)), "")


def _problems(terms: Iterable[_AffinityTermFields]) -> Iterator[str]:
    for one in terms:
        yield selector_problem(label_selector(one.labelSelector))
        yield selector_problem(label_selector(one.namespaceSelector))


def _joined(problems: list[str]) -> str:
    return f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems)
