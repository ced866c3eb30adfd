"""Selectors of labels, and what selects with them: affinity terms and spread constraints."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from allocator.api import names
from allocator.api.findings import FieldError
from allocator.cluster.node_affinity import all_hold
from allocator.model import Requirement
from scheduler.core_v1.object_fields import Int32, ObjectFields, SelectorRequirementFields, name_error, requirements_of
from scheduler.core_v1.resources import objects

# Label selectors: which objects they select, by labels.
#
# Source: k8s.io/apimachinery meta/v1 LabelSelector, and its labels package for the texts.


Labels = Mapping[str, str]

LabelSelector = tuple[Requirement, ...] | None
"""All requirements have to hold, none of them for everything; None selects nothing."""

_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


class LabelSelectorFields(ObjectFields):
    """A LabelSelector."""

    matchLabels: dict[str, str] | None = None  # noqa: N815 - the API's name
    matchExpressions: list[SelectorRequirementFields] | None = None  # noqa: N815 - the API's name


def label_selector(fields: LabelSelectorFields | None) -> LabelSelector:
    """The selector that the fields write."""
    if fields is None:
        return None
    return (*equal_labels(fields.matchLabels or {}), *requirements_of(fields.matchExpressions))


def equal_labels(labels: Labels) -> tuple[Requirement, ...]:
    """The requirements that select objects with these labels."""
    return tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))


def selects(selector: LabelSelector, labels: Labels) -> bool:
    """True for an object with these labels."""
    return selector is not None and all_hold(selector, labels)


def selector_problem(selector: LabelSelector) -> str:
    """Why the selector is invalid, in the words of Kubernetes' own parser; empty if it is valid."""
    return next(filter(None, map(_problem, selector or ())), "")


def _problem(requirement: Requirement) -> str:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in _OPERATORS:
        return f'"{operator}" is not a valid label selector operator'
    if problem := names.label_key(key):
        return f'key: Invalid value: "{key}": {problem}'
    if operator in ("In", "NotIn") and not values:
        return "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    if operator in ("Exists", "DoesNotExist") and values:
        written = json.dumps(values, separators=(",", ":"))
        return f"values: Invalid value: {written}: values set must be empty for exists and does not exist"
    broken = ((number, value) for number, value in enumerate(values) if names.label_value(value))
    return next((f'values[{number}][{key}]: Invalid value: "{value}": {_LABEL_VALUE}' for number, value in broken), "")


# Label selectors as kubectl's `-l` takes them: `app=train,tier in (a,b),!old`.
#
# Source: k8s.io/apimachinery labels.Parse.


_KEY = r"(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>[A-Za-z0-9][-A-Za-z0-9_./]*)
        |{_KEY}(?:
            \s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
            |\s*(?P<comparison>==|!=|=|>|<)\s*(?P<value>[^\s,()=!<>]*)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_SPELLINGS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_NUMERIC = frozenset({"Gt", "Lt"})
_WRITTEN = "key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas"


class InvalidLabelQuery(ValueError):
    """A text that is no label selector."""


def requirements(query: str) -> tuple[Requirement, ...]:
    """The requirements that all have to hold; none for an empty text. Raises InvalidLabelQuery."""
    requirements_read: list[Requirement] = []
    position = 0
    while query[position:].strip():
        match = _REQUIREMENT.match(query, position)
        if match is None:
            raise InvalidLabelQuery(f"{query[position:].strip()!r} is not {_WRITTEN}")
        requirements_read.append(_requirement(match))
        position = match.end()
    if query.rstrip().endswith(","):
        raise InvalidLabelQuery(f"{query!r} ends with a comma: {_WRITTEN}")
    if problem := selector_problem(tuple(one for one in requirements_read if one.operator not in _NUMERIC)):
        raise InvalidLabelQuery(f"{query!r}: {problem}")
    return tuple(requirements_read)


def _requirement(match: re.Match[str]) -> Requirement:
    key, absent, comparison = match["key"], match["absent"], match["comparison"]
    if absent:
        return Requirement(absent, "DoesNotExist", ())
    if match["set"]:
        return Requirement(key, _SPELLINGS[match["set"]], tuple(one.strip() for one in match["values"].split(",")))
    if comparison is None:
        return Requirement(key, "Exists", ())
    operator = _SPELLINGS[comparison]
    if operator in _NUMERIC and not re.fullmatch(r"-?[0-9]+", match["value"]):
        raise InvalidLabelQuery(f"{match[0].strip(', ')!r}: {match['value']!r} is not a whole number")
    return Requirement(key, operator, (match["value"],))


# Affinity between pods: which other pods a pod requires in its topology domain, and which it keeps away.
#
# Anti-affinity also applies to pods that come later, even if they have no terms themselves. The API server has rejected
# invalid terms and merged `matchLabelKeys` into the selectors. A term that it could not have stored is a problem of the
# pod, in kube-scheduler's words. Source: k8s.io/api core/v1 PodAffinity, PodAntiAffinity, PodAffinityTerm.


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


def are_larger(selectors: Iterable[LabelSelector], most: int) -> bool:
    """Whether there are more requirements and values in them than so many. Cost: O(most), however many there are."""
    words = 0
    for selector in selectors:
        for requirement in selector or ():
            words += 1 + len(requirement.values)
            if words > most:
                return True
    return False


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preferred term; weight: 1 to 100."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """All that a pod says of other pods."""

    required: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred_anti: tuple[WeightedTerm, ...] = ()
    problem: str = ""
    """Why some of it cannot be understood, in kube-scheduler's words."""


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
    problems = {name: problem for name, terms in lists.items() if (problem := _problem_of_terms(terms))}
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
    own_namespace = (namespace,) if not named and selected is None else ()
    namespaces = frozenset((*own_namespace, *(named or ())))
    return AffinityTerm(fields.topologyKey, namespaces, label_selector(fields.labelSelector), label_selector(selected))


def _problem_of_terms(terms: Iterable[_AffinityTermFields]) -> str:
    """The problems of the first term that is invalid."""
    return next(filter(None, _problems(terms)), "")


def _problems(terms: Iterable[_AffinityTermFields]) -> Iterator[str]:
    for term in terms:
        yield selector_problem(label_selector(term.labelSelector))
        yield selector_problem(label_selector(term.namespaceSelector))


def _joined(problems: list[str]) -> str:
    return f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems)


# Topology spread constraints: how evenly pods are spread over the domains of a topology key.
#
# Source: k8s.io/api core/v1 TopologySpreadConstraint; KEP-895, KEP-3022 (minDomains), KEP-3094 (policies), KEP-3243
# (matchLabelKeys).


DO_NOT_SCHEDULE = "DoNotSchedule"
_IS_HARD = {DO_NOT_SCHEDULE: True, "ScheduleAnyway": False}
_POLICIES = ("Honor", "Ignore")


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint."""

    max_skew: int
    topology_key: str
    selector: LabelSelector
    """The pods that are counted, in the pod's own namespace, by their labels."""
    is_hard: bool | None = True
    """A node that breaks it is refused (DoNotSchedule), else it is worse; None where it has no effect."""
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether nodes are left out that the pod's node affinity does not match."""
    honors_taints: bool = False
    """Whether nodes are left out whose taints the pod does not tolerate."""
    alike_in: tuple[str, ...] = ()
    """Keys of labels in which the pods that are counted have to be like the pod; merged into the selector by
    `with_labels`.
    """


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
    if not fields.topologyKey:  # the API server takes every other text, also what no label can be called
        yield FieldError(f"{path}.topologyKey", None, "is required")


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
