"""Does a node selector match a node? One answer for slices, devices, claims and pods.

Terms are ORed, the requirements of a term are ANDed, and an empty term matches nothing. Fields know
`metadata.name` only. A selector with an invalid requirement is refused as a whole, before anything is matched; for
pods see `selects_leniently`.
Source: k8s.io/api core/v1, NodeSelector; k8s.io/component-helpers nodeaffinity.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from allocator.model import Node, NodeSelector, Reach, Requirement, Term
from cel.cache import LruCache

NAME_FIELD: Final = "metadata.name"

USUAL_WORDS: Final = 256
"""The problems of larger terms are not remembered: one pod has room for thousands of words."""

_VALUES: Final = {"In": "some", "NotIn": "some", "Exists": "no", "DoesNotExist": "no", "Gt": "one", "Lt": "one"}
"""How many values an operator takes."""


class InvalidNodeSelector(ValueError):
    """A node selector that Kubernetes refuses to evaluate."""


def selects(selector: NodeSelector, node: Node) -> bool:
    """True if one term of the selector matches the node. Raises InvalidNodeSelector."""
    for term in selector:
        if problem := term_problem(term):
            raise InvalidNodeSelector(problem)
    return any(_matches(term, node) for term in selector)


def selects_leniently(selector: NodeSelector, node: Node) -> bool:
    """The same for a pod's affinity, in which an invalid term matches nothing."""
    return any(not term_problem(term) and _matches(term, node) for term in selector)


def reaches(reach: Reach, node: Node | None) -> bool:
    """True if a slice or a device is reached from the node, by its own fields alone.

    The precedence is nodeName, allNodes, nodeSelector. Without a node only `allNodes` holds. Raises
    InvalidNodeSelector.
    """
    if reach.node_name:
        return node is not None and reach.node_name == node.name
    if reach.all_nodes:
        return True
    return reach.node_selector is not None and node is not None and selects(reach.node_selector, node)


def labels_match(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """True if every wanted label is there with its value (a pod's `nodeSelector`)."""
    return all(labels.get(key) == value for key, value in wanted.items())


def all_hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """True if the labels satisfy all requirements; one that is invalid is not satisfied."""
    return all(_holds(requirement, labels) for requirement in requirements)


def _matches(term: Term, node: Node) -> bool:
    if not term.expressions and not term.fields:
        return False
    # A node without a name, which only recorded cases have, has no fields, and then none is asked for.
    fields_hold = not node.name or all_hold(term.fields, {NAME_FIELD: node.name})
    return fields_hold and all_hold(term.expressions, node.labels)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and _is_among(value, requirement.values)
        case "NotIn":
            return value is None or not _is_among(value, requirement.values)
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:  # old objects may have anything
            return False


FEW_VALUES = 16
"""So many are compared one by one."""

MOST_VALUES = 1 << 18
"""Values that are kept for looking them up: two pods have room for as many."""

_looked_up: LruCache[int, tuple[tuple[str, ...], frozenset[str]]] = LruCache(MOST_VALUES, MOST_VALUES)
"""By identity, which nothing else has as long as the values are kept."""


def _is_among(value: str, values: tuple[str, ...]) -> bool:
    """Cost: O(1) for values that were asked for lately: one selector is held against thousands of objects."""
    if len(values) <= FEW_VALUES:
        return value in values
    _, known = _looked_up.get(id(values), len(values), lambda: (values, frozenset(values)))
    return value in known


def _compares(requirement: Requirement, value: str | None) -> bool:
    bound, actual = _integer("".join(requirement.values)), _integer(value or "")
    if bound is None or actual is None:
        return False
    return actual > bound if requirement.operator == "Gt" else actual < bound


def term_problem(term: Term) -> str:
    """What is invalid in the term, empty if nothing is."""
    words = sum(1 + len(one.values) for one in (*term.expressions, *term.fields))
    return (_term_problem if words <= USUAL_WORDS else _term_problem.__wrapped__)(term)


def is_refused(term: Term) -> bool:
    """Whether the API server refuses the term in a pod: it stores what compares a label with no integer."""
    return any(map(_shape_problem, term.expressions)) or any(map(_field_problem, term.fields))


@lru_cache(maxsize=4096)
def _term_problem(term: Term) -> str:
    problems = [*map(_expression_problem, term.expressions), *map(_field_problem, term.fields)]
    return "; ".join(filter(None, problems))


def _expression_problem(requirement: Requirement) -> str:
    return _shape_problem(requirement) or _number_problem(requirement)


def _shape_problem(requirement: Requirement) -> str:
    operator, values = requirement.operator, requirement.values
    if operator not in _VALUES:
        return f"{requirement.key}: {operator!r} is not a valid operator of a node selector"
    wanted = _VALUES[operator]
    if (wanted == "some" and not values) or (wanted == "no" and values) or (wanted == "one" and len(values) != 1):
        return (
            f"{requirement.key}: {operator} takes {wanted} value{'s' if wanted == 'some' else ''}, not {list(values)}"
        )
    return ""


def _number_problem(requirement: Requirement) -> str:
    operator, values = requirement.operator, requirement.values
    if _VALUES[operator] == "one" and _integer(values[0]) is None:
        return f"{requirement.key}: {operator} takes an integer, not {values[0]!r}"
    return ""


def _field_problem(requirement: Requirement) -> str:
    if requirement.operator not in ("In", "NotIn"):
        return f"{requirement.key}: {requirement.operator!r} is not a valid operator for a field"
    if len(requirement.values) != 1:
        return f"{requirement.key}: a field takes one value, not {list(requirement.values)}"
    return ""


def _integer(text: str) -> int | None:
    """A base-10 int64 as Go's strconv.ParseInt reads it: no blanks, no underscores."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 30:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
