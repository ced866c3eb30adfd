"""Label selectors as kubectl's `-l` takes them: `app=train,tier in (a,b),!old`.

Source: k8s.io/apimachinery labels.Parse.
"""

import re

from allocator.model import Requirement
from scheduler.core_v1.label_selector import selector_problem

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
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_NUMERIC = frozenset({"Gt", "Lt"})
_WRITTEN = "key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas"


class InvalidLabelQuery(ValueError):
    """A text that is no label selector."""


def requirements(query: str) -> tuple[Requirement, ...]:
    """The requirements that all have to hold; none for an empty text. Raises InvalidLabelQuery."""
    found: list[Requirement] = []
    position = 0
    while query[position:].strip():
        match = _REQUIREMENT.match(query, position)
        if match is None:
            raise InvalidLabelQuery(f"{query[position:].strip()!r} is not {_WRITTEN}")
        found.append(_requirement(match))
        position = match.end()
    if query.rstrip().endswith(","):
        raise InvalidLabelQuery(f"{query!r} ends with a comma: {_WRITTEN}")
    if problem := selector_problem(tuple(one for one in found if one.operator not in _NUMERIC)):
        raise InvalidLabelQuery(f"{query!r}: {problem}")
    return tuple(found)


def _requirement(match: re.Match[str]) -> Requirement:
    key, absent, comparison = match["key"], match["absent"], match["comparison"]
    if absent:
        return Requirement(absent, "DoesNotExist", ())
    if match["set"]:
        return Requirement(key, _OPERATORS[match["set"]], tuple(one.strip() for one in match["values"].split(",")))
    if comparison is None:
        return Requirement(key, "Exists", ())
    operator = _OPERATORS[comparison]
    if operator in _NUMERIC and not re.fullmatch(r"-?[0-9]+", match["value"]):
        raise InvalidLabelQuery(f"{match[0].strip(', ')!r}: {match['value']!r} is not a whole number")
    return Requirement(key, operator, (match["value"],))
