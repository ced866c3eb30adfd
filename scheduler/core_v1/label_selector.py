"""Label selectors: which objects they select, by labels.

Source: k8s.io/apimachinery meta/v1 LabelSelector, and its labels package for the texts.
"""

import json
from collections.abc import Mapping

from allocator.api import names
from allocator.cluster.node_affinity import all_hold
from allocator.model import Requirement
from scheduler.core_v1.object_fields import ObjectFields, SelectorRequirementFields, requirements_of

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
