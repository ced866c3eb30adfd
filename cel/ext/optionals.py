"""Optional values: construction, tests and unwrapping.

The interpreter evaluates `or`, `orValue`, `.?` and `[?]`, which short-circuit.
Source: cel/library.go of github.com/google/cel-go (optional types, newest version).
"""

from typing import Final

from cel.check.overloads import Library, Overload
from cel.errors import EvalError, no_such_overload
from cel.syntax import ast
from cel.values import types
from cel.values.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, parameter
from cel.values.values import ABSENT, List, Optional, Value, is_zero

_K: Final = parameter("K")
_V: Final = parameter("V")
_OPTIONAL: Final = optional_of(_V)
_LIST: Final = list_of(_V)
_MAP: Final = map_of(_K, _V)
_OPTIONALS: Final = list_of(_OPTIONAL)


def _of_non_zero(value: Value) -> Optional:
    return ABSENT if is_zero(value) else Optional(value)


def _none() -> Optional:
    return ABSENT


def _value(optional: Optional) -> Value:
    if not optional.is_present:
        raise EvalError("optional.none() dereference")
    return optional.value


def _has_value(optional: Optional) -> bool:
    return optional.is_present


def _first(items: List) -> Optional:
    return Optional(items[0]) if items else ABSENT


def _last(items: List) -> Optional:
    return Optional(items[-1]) if items else ABSENT


def _unwrapped(items: List) -> List:
    for item in items:
        if not isinstance(item, Optional):
            raise EvalError("value is not optional")
    return List(item.value for item in items if isinstance(item, Optional) and item.is_present)


def _special(*_: Value) -> Value:
    raise no_such_overload()


def _method(function: str, id_: str, parameters: tuple[types.Type, ...], result: types.Type, work: object) -> Overload:
    assert callable(work)
    return Overload(function, id_, parameters, result, implementation=work, member=True)


def _syntax(function: str, id_: str, parameters: tuple[types.Type, ...]) -> Overload:
    """An operator that returns an optional; only its types are declared here."""
    return Overload(function, id_, parameters, _OPTIONAL, implementation=_special, is_guarded=False)


LIBRARY: Final = Library(
    "optional",
    overloads=(
        Overload("optional.of", "optional_of", (_V,), _OPTIONAL, implementation=Optional),
        Overload("optional.ofNonZeroValue", "optional_ofNonZeroValue", (_V,), _OPTIONAL, implementation=_of_non_zero),
        Overload("optional.none", "optional_none", (), _OPTIONAL, implementation=_none),
        _method("value", "optional_value", (_OPTIONAL,), _V, _value),
        _method("hasValue", "optional_hasValue", (_OPTIONAL,), BOOL, _has_value),
        _method("or", "optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _special),
        _method("orValue", "optional_orValue_value", (_OPTIONAL, _V), _V, _special),
        _syntax(ast.OPTIONAL_SELECT, "select_optional_field", (DYN, STRING)),
        _syntax(ast.OPTIONAL_INDEX, "list_optindex_optional_int", (_LIST, INT)),
        _syntax(ast.OPTIONAL_INDEX, "optional_list_optindex_optional_int", (optional_of(_LIST), INT)),
        _syntax(ast.OPTIONAL_INDEX, "map_optindex_optional_value", (_MAP, _K)),
        _syntax(ast.OPTIONAL_INDEX, "optional_map_optindex_optional_value", (optional_of(_MAP), _K)),
        _syntax(ast.INDEX, "optional_list_index_int", (optional_of(_LIST), INT)),
        _syntax(ast.INDEX, "optional_map_index_value", (optional_of(_MAP), _K)),
        _method("last", "list_last", (_LIST,), _OPTIONAL, _last),
        _method("first", "list_first", (_LIST,), _OPTIONAL, _first),
        Overload("optional.unwrap", "optional_unwrap", (_OPTIONALS,), _LIST, implementation=_unwrapped),
        _method("unwrapOpt", "optional_unwrapOpt", (_OPTIONALS,), _LIST, _unwrapped),
    ),
    types=(types.OPTIONAL,),
)
