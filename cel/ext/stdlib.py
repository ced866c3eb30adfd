"""The standard functions and operators: their overloads, conversions, and costs.

The order of a function's overloads is the reference's: if several fit, the first one determines the type.
Source: common/stdlib/standard.go of github.com/google/cel-go; costs: checker/cost.go and interpreter/runtimecost.go.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from cel.check.overloads import (
    ONCE,
    REGEX_FACTOR,
    STRING_FACTOR,
    CallEstimate,
    Estimate,
    Library,
    Operand,
    Overload,
    cost_once,
    estimate_once,
    scaled,
)
from cel.errors import EvalError, no_such_overload
from cel.run import arithmetic
from cel.run.patterns import compile_pattern
from cel.syntax import ast
from cel.values import moments, numbers
from cel.values.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    LIST,
    MAP,
    NAMED_FORMAT,
    NULL,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    URL,
    Type,
    list_of,
    map_of,
    parameter,
    type_of_type,
)
from cel.values.values import Duration, Optional, Timestamp, Value, size_of, type_of

_WORK_OF_A_ZONE: Final = 100  # a name that is asked for the first time is looked up in a folder
_A: Final = parameter("A")
_B: Final = parameter("B")
_COMPARED_ONCE: Final = frozenset(type_.name for type_ in (CIDR, IP, NAMED_FORMAT, QUANTITY, SEMVER, URL))
_LIST_OF_A: Final = list_of(_A)
_MAP_OF_AB: Final = map_of(_A, _B)


# Costs

_Scale: TypeAlias = Callable[[Estimate, float], Estimate]
"""A size times a cost factor. Since 1.38 a size without bound costs without bound, but for comparisons."""


_SizeOf: TypeAlias = Callable[[Value], int]
"""The size of an argument, for its cost: `size_of` since 1.38."""


def _inner_size(value: Value) -> int:
    """The size of the value inside an optional; only the standard library unwraps it, and only before 1.38."""
    while type(value) is Optional and value.is_present:
        value = value.value
    return size_of(value)


def _cost_of_second(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    return scaled(size(arguments[1]), STRING_FACTOR)


def _cost_of_first(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    return scaled(size(arguments[0]), STRING_FACTOR)


def _cost_of_list(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    return size(arguments[1])


def cost_of_equality(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    """One unit for Kubernetes' own types, else the size of the smaller operand."""
    left = arguments[0]
    if not isinstance(left, EvalError) and type_of(left).name in _COMPARED_ONCE:
        return 1
    return cost_of_comparison(arguments, size)


def cost_of_comparison(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    """The size of the smaller operand. size: `size_of` since 1.38, by which an optional has size 1."""
    return scaled(min(size(arguments[0]), size(arguments[1])), STRING_FACTOR)


def _cost_of_joining(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    return scaled(size(arguments[0]) + size(arguments[1]), STRING_FACTOR)


def _cost_of_matching(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    text = math.ceil((1.0 + size(arguments[0])) * STRING_FACTOR)
    return text * scaled(size(arguments[1]), REGEX_FACTOR)


def _cost_of_containing(arguments: Sequence[Value], size: _SizeOf = _inner_size) -> int:
    return scaled(size(arguments[0]), STRING_FACTOR) * scaled(size(arguments[1]), STRING_FACTOR)


def _estimate_of_second(operands: Sequence[Operand], scale: _Scale = Estimate.scaled) -> CallEstimate:
    return CallEstimate(scale(operands[1].size, STRING_FACTOR))


def _estimate_of_list(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[1].size.scaled(1))


def estimate_of_comparison(operands: Sequence[Operand]) -> CallEstimate:
    """The size of the smaller operand; nothing if both are empty."""
    high = min(operands[0].size.high, operands[1].size.high)
    return CallEstimate(Estimate(1 if high > 0 else 0, high).scaled(STRING_FACTOR))


def _estimate_of_joining(operands: Sequence[Operand], scale: _Scale = Estimate.scaled) -> CallEstimate:
    size = operands[0].size.plus(operands[1].size)
    return CallEstimate(scale(size, STRING_FACTOR), size)


def _estimate_of_joining_lists(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(ONCE, operands[0].size.plus(operands[1].size))


def _estimate_of_matching(operands: Sequence[Operand], scale: _Scale = Estimate.scaled) -> CallEstimate:
    text = scale(operands[0].size.plus(ONCE), STRING_FACTOR)
    return CallEstimate(text.times(scale(operands[1].size, REGEX_FACTOR)))


def _estimate_of_containing(operands: Sequence[Operand], scale: _Scale = Estimate.scaled) -> CallEstimate:
    text = scale(operands[0].size, STRING_FACTOR)
    return CallEstimate(text.times(scale(operands[1].size, STRING_FACTOR)))


def _estimate_of_encoding(operands: Sequence[Operand], scale: _Scale = Estimate.scaled) -> CallEstimate:
    size = operands[0].size
    return CallEstimate(scale(size, STRING_FACTOR), Estimate(size.low, size.times(Estimate(4, 4)).high))


def _estimate_of_decoding(operands: Sequence[Operand], scale: _Scale = Estimate.scaled) -> CallEstimate:
    size = operands[0].size
    return CallEstimate(scale(size, STRING_FACTOR), Estimate(size.low // 4, size.high))


# Operators

_Estimator: TypeAlias = Callable[[Sequence[Operand]], CallEstimate]
_Coster: TypeAlias = Callable[[Sequence[Value]], int]
_ID_NAMES: Final = {INT: "int64", UINT: "uint64", DURATION: "duration", TIMESTAMP: "timestamp"}


def _id(prefix: str, *parameters: Type) -> str:
    """The reference's id: the operation and its types, one type where they are the same."""
    names = dict.fromkeys(_ID_NAMES.get(type_, type_.name) for type_ in parameters)
    return "_".join([prefix, *names])


def _operator(
    function: str,
    prefix: str,
    implementation: Callable[..., Value],
    *signatures: tuple[Type, ...],
    costs: Mapping[Type, tuple[_Coster, _Estimator]] | None = None,
) -> list[Overload]:
    """One overload per signature, the result last. costs: of the types for which it isn't one unit."""
    declared = []
    for *parameters, result in signatures:
        cost, estimate = (costs or {}).get(parameters[0], (cost_once, estimate_once))
        declared.append(
            Overload(
                function,
                _id(prefix, *parameters),
                tuple(parameters),
                result,
                implementation=implementation,
                is_guarded=False,
                cost=cost,
                estimate=estimate,
            )
        )
    return declared


_COMPARED: Final = (
    (BOOL, BOOL),
    (INT, INT),
    (INT, DOUBLE),
    (INT, UINT),
    (UINT, UINT),
    (UINT, DOUBLE),
    (UINT, INT),
    (DOUBLE, DOUBLE),
    (DOUBLE, INT),
    (DOUBLE, UINT),
    (STRING, STRING),
    (BYTES, BYTES),
    (TIMESTAMP, TIMESTAMP),
    (DURATION, DURATION),
)
_COMPARISON_COSTS: Final[Mapping[Type, tuple[_Coster, _Estimator]]] = dict.fromkeys(
    (STRING, BYTES), (cost_of_comparison, estimate_of_comparison)
)
_JOINING_COSTS: Final[Mapping[Type, tuple[_Coster, _Estimator]]] = {
    **dict.fromkeys((STRING, BYTES), (_cost_of_joining, _estimate_of_joining)),
    _LIST_OF_A: (cost_once, _estimate_of_joining_lists),
}


def _comparison(function: str, prefix: str, implementation: Callable[..., Value]) -> list[Overload]:
    signatures = [(left, right, BOOL) for left, right in _COMPARED]
    return _operator(function, prefix, implementation, *signatures, costs=_COMPARISON_COSTS)


def _equality(function: str, id_: str) -> Overload:
    """Evaluated by the interpreter itself, like the logical operators and indexing."""
    return Overload(
        function,
        id_,
        (_A, _A),
        BOOL,
        implementation=_never_called,
        is_guarded=False,
        estimate=estimate_of_comparison,
    )


def _special(function: str, id_: str, parameters: tuple[Type, ...], result: Type) -> Overload:
    """Declared for its types only; the interpreter evaluates it itself."""
    return Overload(function, id_, parameters, result, implementation=_never_called, is_guarded=False)


def _never_called(*_: Value) -> Value:
    raise no_such_overload()


_ORDER: Final = (
    (ast.LESS, "less", arithmetic.less),
    (ast.LESS_EQUALS, "less_equals", arithmetic.less_equals),
    (ast.GREATER, "greater", arithmetic.greater),
    (ast.GREATER_EQUALS, "greater_equals", arithmetic.greater_equals),
)
_COMPARISONS_1_37: Final = tuple(overload for order in _ORDER for overload in _comparison(*order))
_COMPARISONS: Final = tuple(
    overload
    for function, prefix, implementation in _ORDER
    for overload in _comparison(function, prefix, arithmetic.without_nan(implementation))
)

_OPERATORS: Final = (
    _special(ast.CONDITIONAL, "conditional", (BOOL, _A, _A), _A),
    _special(ast.AND, "logical_and", (BOOL, BOOL), BOOL),
    _special(ast.OR, "logical_or", (BOOL, BOOL), BOOL),
    Overload(ast.NOT, "logical_not", (BOOL,), BOOL, implementation=arithmetic.invert, is_guarded=False),
    _special(ast.NOT_STRICTLY_FALSE, "not_strictly_false", (BOOL,), BOOL),
    _equality(ast.EQUALS, "equals"),
    _equality(ast.NOT_EQUALS, "not_equals"),
    *_operator(
        ast.ADD,
        "add",
        arithmetic.add,
        (BYTES, BYTES, BYTES),
        (DOUBLE, DOUBLE, DOUBLE),
        (DURATION, DURATION, DURATION),
        (DURATION, TIMESTAMP, TIMESTAMP),
        (TIMESTAMP, DURATION, TIMESTAMP),
        (INT, INT, INT),
        (_LIST_OF_A, _LIST_OF_A, _LIST_OF_A),
        (STRING, STRING, STRING),
        (UINT, UINT, UINT),
        costs=_JOINING_COSTS,
    ),
    *_operator(ast.DIVIDE, "divide", arithmetic.divide, (DOUBLE, DOUBLE, DOUBLE), (INT, INT, INT), (UINT, UINT, UINT)),
    *_operator(ast.MODULO, "modulo", arithmetic.modulo, (INT, INT, INT), (UINT, UINT, UINT)),
    *_operator(
        ast.MULTIPLY, "multiply", arithmetic.multiply, (DOUBLE, DOUBLE, DOUBLE), (INT, INT, INT), (UINT, UINT, UINT)
    ),
    *_operator(ast.NEGATE, "negate", arithmetic.negate, (DOUBLE, DOUBLE), (INT, INT)),
    *_operator(
        ast.SUBTRACT,
        "subtract",
        arithmetic.subtract,
        (DOUBLE, DOUBLE, DOUBLE),
        (DURATION, DURATION, DURATION),
        (INT, INT, INT),
        (TIMESTAMP, DURATION, TIMESTAMP),
        (TIMESTAMP, TIMESTAMP, DURATION),
        (UINT, UINT, UINT),
    ),
    _special(ast.INDEX, "index_list", (_LIST_OF_A, INT), _A),
    _special(ast.INDEX, "index_map", (_MAP_OF_AB, _A), _B),
    Overload(
        ast.IN,
        "in_list",
        (_A, _LIST_OF_A),
        BOOL,
        implementation=arithmetic.is_in,
        is_guarded=False,
        cost=_cost_of_list,
        estimate=_estimate_of_list,
    ),
    Overload(ast.IN, "in_map", (_A, _MAP_OF_AB), BOOL, implementation=arithmetic.is_in, is_guarded=False),
)


# Conversions


def _identity(value: Value) -> Value:
    return value


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None


def _text_of_bool(value: bool) -> str:  # noqa: FBT001 - it is the value, not a switch
    return "true" if value else "false"


def _seconds(moment: Timestamp) -> int:
    return moment.nanos // moments.SECOND


def _nanos(span: Duration) -> int:
    return span.nanos


def _conversion(target: Type, name: str, **sources: Callable[..., Value]) -> list[Overload]:
    """A function by the name of a type. sources: what converts from each type, in the order of the reference."""
    declared = []
    for source, implementation in sources.items():
        type_ = _SOURCES[source]
        id_ = f"{_ID_NAMES.get(type_, source)}_to_{_ID_NAMES.get(target, name)}"
        beside = _cost_of_first if type_ is STRING else None
        declared.append(Overload(name, id_, (type_,), target, implementation=implementation, beside=beside))
    return declared


_SOURCES: Final = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "duration": DURATION,
    "int": INT,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "uint": UINT,
}
_STRING_TO_BYTES: Final = Overload(
    "bytes",
    "string_to_bytes",
    (STRING,),
    BYTES,
    implementation=str.encode,
    cost=_cost_of_first,
    estimate=_estimate_of_encoding,
)
_BYTES_TO_STRING: Final = Overload(
    "string",
    "bytes_to_string",
    (BYTES,),
    STRING,
    implementation=_text_of_bytes,
    cost=_cost_of_first,
    estimate=_estimate_of_decoding,
)
_CONVERSIONS: Final = (
    Overload("type", "type", (_A,), type_of_type(_A), implementation=type_of, is_guarded=False),
    *_conversion(BOOL, "bool", bool=_identity, string=numbers.bool_from_text),
    *_conversion(BYTES, "bytes", bytes=_identity),
    _STRING_TO_BYTES,
    *_conversion(DOUBLE, "double", double=_identity, int=float, string=numbers.double_from_text, uint=float),
    *_conversion(DURATION, "duration", duration=_identity, string=moments.duration_from_text),
    Overload("dyn", "to_dyn", (_A,), DYN, implementation=_identity, is_guarded=False),
    *_conversion(
        INT,
        "int",
        int=_identity,
        double=numbers.int_from_double,
        duration=_nanos,
        string=numbers.int_from_text,
        timestamp=_seconds,
        uint=numbers.int_from_uint,
    ),
    *_conversion(STRING, "string", string=_identity, bool=_text_of_bool),
    _BYTES_TO_STRING,
    *_conversion(
        STRING,
        "string",
        double=numbers.text_of_double,
        duration=moments.text_of_duration,
        int=str,
        timestamp=moments.text_of_timestamp,
        uint=numbers.text_of_uint,
    ),
    *_conversion(
        TIMESTAMP,
        "timestamp",
        timestamp=_identity,
        int=moments.timestamp_from_int,
        string=moments.timestamp_from_text,
    ),
    *_conversion(
        UINT,
        "uint",
        uint=_identity,
        double=numbers.uint_from_double,
        int=numbers.checked_uint,
        string=numbers.uint_from_text,
    ),
)


# Functions


def _size(id_: str, parameter_: Type, *, member: bool) -> Overload:
    return Overload("size", id_, (parameter_,), INT, implementation=arithmetic.size, member=member, is_guarded=False)


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).matches(text)
    except ValueError as error:
        raise EvalError(str(error)) from None


def _matching(id_: str, *, member: bool) -> Overload:
    return Overload(
        "matches",
        id_,
        (STRING, STRING),
        BOOL,
        implementation=_matches,
        member=member,
        cost=_cost_of_matching,
        estimate=_estimate_of_matching,
        takes_pattern=True,
    )


def _text_test(function: str, test: Callable[..., Value], cost: _Coster, estimate: _Estimator) -> Overload:
    return Overload(
        function,
        f"{_TEST_IDS[function]}_string",
        (STRING, STRING),
        BOOL,
        implementation=test,
        member=True,
        cost=cost,
        estimate=estimate,
    )


_TEST_IDS: Final = {"contains": "contains", "endsWith": "ends_with", "startsWith": "starts_with"}


def _contains(text: str, substring: str) -> bool:
    return substring in text


def _accessor(function: str, id_: str, read: Callable[[moments.Civil], int]) -> list[Overload]:
    """An accessor of a timestamp, in UTC or in a given zone."""

    def in_utc(moment: Timestamp) -> int:
        return read(moments.civil(moment.nanos // moments.SECOND))

    def in_zone(moment: Timestamp, zone: str) -> int:
        return read(moments.civil_in_zone(moment, zone))

    return _both_accessors(function, id_, in_utc, in_zone)


def _both_accessors(
    function: str, id_: str, in_utc: Callable[..., Value], in_zone: Callable[..., Value]
) -> list[Overload]:
    return [
        Overload(function, f"timestamp_to_{id_}", (TIMESTAMP,), INT, implementation=in_utc, member=True),
        Overload(
            function,
            f"timestamp_to_{id_}_with_tz",
            (TIMESTAMP, STRING),
            INT,
            implementation=in_zone,
            member=True,
            beside=lambda _: _WORK_OF_A_ZONE,
        ),
    ]


def _milliseconds(moment: Timestamp) -> int:
    return moment.nanos % moments.SECOND // 1_000_000


def _milliseconds_in_zone(moment: Timestamp, zone: str) -> int:
    moments.civil_in_zone(moment, zone)
    return _milliseconds(moment)


def _in_units(function: str, id_: str, unit_nanos: int) -> Overload:
    """A duration in whole units, truncated."""

    def implementation(span: Duration) -> int:
        return moments.truncated(span.nanos, unit_nanos)

    return Overload(function, f"duration_to_{id_}", (DURATION,), INT, implementation=implementation, member=True)


_FUNCTIONS: Final = (
    *(
        _size(id_, type_, member=member)
        for type_, name in ((BYTES, "bytes"), (_LIST_OF_A, "list"), (_MAP_OF_AB, "map"), (STRING, "string"))
        for id_, member in ((f"size_{name}", False), (f"{name}_size", True))
    ),
    _text_test("contains", _contains, _cost_of_containing, _estimate_of_containing),
    _text_test("endsWith", str.endswith, _cost_of_second, _estimate_of_second),
    _text_test("startsWith", str.startswith, _cost_of_second, _estimate_of_second),
    _matching("matches", member=False),
    _matching("matches_string", member=True),
    *_accessor("getFullYear", "year", lambda date: date.year),
    *_accessor("getMonth", "month", lambda date: date.month - 1),
    *_accessor("getDayOfYear", "day_of_year", lambda date: date.day_of_year),
    *_accessor("getDayOfMonth", "day_of_month", lambda date: date.day - 1),
    *_accessor("getDate", "day_of_month_1_based", lambda date: date.day),
    *_accessor("getDayOfWeek", "day_of_week", lambda date: date.weekday),
    *_accessor("getHours", "hours", lambda date: date.hour),
    _in_units("getHours", "hours", 3600 * moments.SECOND),
    *_accessor("getMinutes", "minutes", lambda date: date.minute),
    _in_units("getMinutes", "minutes", 60 * moments.SECOND),
    *_accessor("getSeconds", "seconds", lambda date: date.second),
    _in_units("getSeconds", "seconds", moments.SECOND),
    *_both_accessors("getMilliseconds", "milliseconds", _milliseconds, _milliseconds_in_zone),
    _in_units("getMilliseconds", "milliseconds", 1_000_000),
)

_SCALED: Final = frozenset(
    {
        _estimate_of_second,
        _estimate_of_joining,
        _estimate_of_matching,
        _estimate_of_containing,
        _estimate_of_encoding,
        _estimate_of_decoding,
    }
)


_SIZED: Final[Mapping[object, Callable[[Sequence[Value]], int]]] = {
    cost: partial(cost, size=size_of)
    for cost in (
        _cost_of_second,
        _cost_of_first,
        _cost_of_list,
        cost_of_comparison,
        _cost_of_joining,
        _cost_of_matching,
        _cost_of_containing,
    )
}


def _since_1_38(overload: Overload) -> Overload:
    overload = replace(overload, cost=_SIZED.get(overload.cost, overload.cost))
    if overload.estimate not in _SCALED:
        return overload
    return replace(overload, estimate=partial(overload.estimate, scale=Estimate.scaled_if_bounded))


_REST: Final = (*_OPERATORS, *_CONVERSIONS, *_FUNCTIONS)
LIBRARY: Final = Library(
    "standard",
    overloads=tuple(map(_since_1_38, (*_COMPARISONS, *_REST))),
    types=(BOOL, BYTES, DOUBLE, DURATION, INT, LIST, MAP, NULL, STRING, TIMESTAMP, TYPE, UINT),
)
LIBRARY_1_37: Final = replace(LIBRARY, overloads=(*_COMPARISONS_1_37, *_REST))
