"""CEL's `find` and `findAll`: matches of a regular expression in a text.

Source: k8s.io/apiserver/pkg/cel/library/regex.go, with the costs of cost.go.
"""

from typing import Final

from cel.check.overloads import Library, Overload
from cel.errors import EvalError
from cel.ext.declare import pattern_search, pattern_search_estimate
from cel.run.patterns import Pattern, compile_pattern
from cel.values.types import INT, STRING, list_of
from cel.values.values import List


def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise EvalError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    return _compiled(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> List:
    return List(_compiled(pattern).find_all(text, limit))


LIBRARY: Final = Library(
    "kubernetes.regex",
    overloads=(
        Overload(
            "find",
            "string_find_string",
            (STRING, STRING),
            STRING,
            member=True,
            implementation=_find,
            cost=pattern_search,
            estimate=pattern_search_estimate,
            takes_pattern=True,
        ),
        Overload(
            "findAll",
            "string_find_all_string",
            (STRING, STRING),
            list_of(STRING),
            member=True,
            implementation=_find_all,
            cost=pattern_search,
            estimate=pattern_search_estimate,
            takes_pattern=True,
        ),
        Overload(
            "findAll",
            "string_find_all_string_int",
            (STRING, STRING, INT),
            list_of(STRING),
            member=True,
            implementation=_find_all,
            cost=pattern_search,
            estimate=pattern_search_estimate,
            takes_pattern=True,
        ),
    ),
)
