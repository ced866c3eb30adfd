"""Node selectors: which nodes reach a slice, a device or an allocation.

Source: k8s.io/api core/v1 NodeSelector and its validation.
"""

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import Findings
from allocator.model import NodeSelector, Requirement, Term

_ALLOWED = "In, NotIn, Exists, DoesNotExist, Gt or Lt"
NAME_FIELD = "metadata.name"
"""The only field of a node that a selector can name."""


class RequirementFields(TypedDict, total=False):
    """An entry of matchExpressions or matchFields."""

    key: str | None
    operator: str | None
    values: list[str] | None


class TermFields(TypedDict, total=False):
    """An entry of nodeSelectorTerms."""

    matchExpressions: list[RequirementFields] | None
    matchFields: list[RequirementFields] | None


class NodeSelectorFields(TypedDict, total=False):
    """A node selector."""

    nodeSelectorTerms: list[TermFields] | None


def check_node_selector(fields: NodeSelectorFields, path: str, findings: Findings) -> None:
    """The rules of a node selector: terms, operators, and what values each operator takes."""
    terms = fields.get("nodeSelectorTerms") or []
    if not terms:
        findings.required(f"{path}.nodeSelectorTerms", "must have at least one term")
    for index, term in enumerate(terms):
        at = f"{path}.nodeSelectorTerms[{index}]"
        for number, requirement in enumerate(term.get("matchExpressions") or ()):
            _check_expression(requirement, f"{at}.matchExpressions[{number}]", findings)
        for number, requirement in enumerate(term.get("matchFields") or ()):
            _check_field(requirement, f"{at}.matchFields[{number}]", findings)


def _check_expression(fields: RequirementFields, path: str, findings: Findings) -> None:
    operator, values = fields.get("operator") or "", fields.get("values") or []
    if problem := _values_problem(operator, len(values)):
        findings.error(f"{path}.values", values, problem)
    elif operator not in {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}:
        findings.error(f"{path}.operator", operator, f"must be {_ALLOWED}")
    if problem := names.label_key(fields.get("key") or ""):
        findings.error(f"{path}.key", fields.get("key"), problem)
    for index, value in enumerate(values):
        if problem := names.label_value(value):
            findings.error(f"{path}.values[{index}]", value, problem)


def _values_problem(operator: str, count: int) -> str:
    if operator in {"In", "NotIn"} and not count:
        return f"must have at least one entry for the operator {operator}"
    if operator in {"Exists", "DoesNotExist"} and count:
        return f"must be absent for the operator {operator}"
    if operator in {"Gt", "Lt"} and count != 1:
        return f"must have exactly one entry for the operator {operator}"
    return ""


def _check_field(fields: RequirementFields, path: str, findings: Findings) -> None:
    operator, values = fields.get("operator") or "", fields.get("values") or []
    if operator not in {"In", "NotIn"}:
        findings.error(f"{path}.operator", operator, "must be In or NotIn for a field")
    elif len(values) != 1:
        findings.error(f"{path}.values", values, f"must have exactly one entry for the operator {operator} of a field")
    if fields.get("key") != NAME_FIELD:
        findings.error(f"{path}.key", fields.get("key"), f"must be {NAME_FIELD}")
        return
    for index, value in enumerate(values):
        if problem := names.long_name(value):
            findings.error(f"{path}.values[{index}]", value, problem)


def build_node_selector(fields: NodeSelectorFields | None) -> NodeSelector | None:
    """The selector's terms; None where there is no selector."""
    if fields is None:
        return None
    return tuple(_term(term) for term in fields.get("nodeSelectorTerms") or ())


def _term(fields: TermFields) -> Term:
    expressions = tuple(_requirement(entry) for entry in fields.get("matchExpressions") or ())
    return Term(expressions, tuple(_requirement(entry) for entry in fields.get("matchFields") or ()))


def _requirement(fields: RequirementFields) -> Requirement:
    return Requirement(fields.get("key") or "", fields.get("operator") or "", tuple(fields.get("values") or ()))
