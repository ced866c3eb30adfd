"""Values at run time: classes, equality, map keys and sizes.

bool, int, double, string, bytes and null are Python's bool, int, float, str, bytes and None; uint, list, map,
timestamp, duration and optional have a class here; a value of type `type` is a `types.Type`.
Libraries `register` their own classes, such as Quantity and Semver, when they are imported.
Aggregates have a weight, the number of elements on all levels: an expression can repeat one list many times,
and the weight limits the work that it can cause. Errors of equality follow the reference.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias, final

import re2

from cel.errors import EvalAbortedError, EvalError, bare
from cel.stack import on_own_stack
from cel.values import types

Value: TypeAlias = object

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1
HEAVIEST: Final = 2**20  # elements of one value; more than a loop within the cost limit of 1,000,000 can make
_CHARACTERS_PER_ELEMENT: Final = 64


@final
class Uint(int):
    """An unsigned 64-bit integer; arithmetic on it gives int, so results are wrapped again after a range check."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@final
class GrowingList(list[Value]):
    """The unfinished result of a macro; only the macro's own `+` uses it."""

    __slots__ = ()


@final
class List(tuple[Value, ...]):  # noqa: SLOT001 - a tuple takes attributes only without slots
    """An immutable list. weight: the number of elements on all levels.

    joined: made by `+`; the reference compares such lists differently.
    is_native: an attribute of a device; the reference makes a new list at each use, which is visible in keys.
    Raises EvalAbortedError when heavier than HEAVIEST.
    """

    weight: int
    joined: bool
    is_native: bool

    def __new__(cls, items: Iterable[Value] = (), *, joined: bool = False, is_native: bool = False) -> "List":
        """Copies the items, and computes the weight."""
        created = super().__new__(cls, items)
        created.weight = bounded(1 + _weight_of_all(created))
        created.joined = joined
        created.is_native = is_native
        return created


class Map:
    """An immutable map, in insertion order; int and uint keys are comparable.

    If entries have equal keys, the last one counts. Raises EvalAbortedError when heavier than HEAVIEST.
    """

    __slots__ = ("_entries", "weight")

    def __init__(self, pairs: Iterable[tuple[Value, Value]] = ()) -> None:
        self._entries = {key_of(key): (key, value) for key, value in pairs}
        self.weight = bounded(1 + sum(weight_of(key) + weight_of(value) for key, value in self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def __repr__(self) -> str:
        return f"Map({list(self.items())!r})"

    def items(self) -> Iterable[tuple[Value, Value]]:
        """The pairs of key and value."""
        return self._entries.values()

    def pairs(self) -> Iterable[tuple[Value, Value]]:
        """The pairs for a loop; a value that cannot be read is an EvalError, which the loop raises if it is used."""
        return self._entries.values()

    def find(self, key: Value) -> Value:
        """The value under `key`, or MISSING; an empty map does not hash the key."""
        if not self._entries:
            return MISSING
        entry = self._entries.get(key if type(key) is str else key_of(key))
        if entry is not None:
            return entry[1]
        if type(key) is str:
            return MISSING
        for other in _equal_keys(key):
            entry = self._entries.get(other)
            if entry is not None:
                return entry[1]
        return MISSING

    def holds(self, key: Value) -> bool:
        """Whether `key in map`."""
        return Map.find(self, key) is not MISSING


class TextMap(Map):
    """A map with string keys, which the reference makes from its own data; other keys are never hashed."""

    __slots__ = ()

    def find(self, key: Value) -> Value:
        """The value under `key`, or MISSING."""
        return super().find(key) if type(key) is str else MISSING

    def holds(self, key: Value) -> bool:
        """Whether `key in map`."""
        return type(key) is str and super().holds(key)


@final
@dataclass(frozen=True, slots=True)
class Timestamp:
    """A point in time. nanos: since 1970 in UTC; offset_s: of the original text, used only for formatting."""

    nanos: int
    offset_s: int = field(default=0, compare=False)


@final
@dataclass(frozen=True, slots=True)
class Duration:
    """A signed span. nanos: within int64."""

    nanos: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """An optional value; `ABSENT` is the one without value."""

    value: Value
    is_present: bool = True


class GrowingMap(Map):
    """The unfinished result of a macro."""

    __slots__ = ()

    def insert(self, key: Value, value: Value) -> None:
        """Adds an entry; raises EvalError where there is one with an equal key."""
        if self.holds(key):
            raise EvalError(f"insert failed: key {key} already exists")
        self._entries[key_of(key)] = (key, value)
        self.weight = bounded(self.weight + weight_of(key) + weight_of(value))


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


ABSENT: Final = Optional(None, is_present=False)
MISSING: Final = _Missing()


def is_equal_or_error(left: object, right: object) -> bool:
    """The reference's equality of its own types: an error if the right side has another class."""
    if type(right) is not type(left):
        raise EvalError("no such overload")
    return left == right


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Type, equality, key and size of the values of one Python class; see `register`."""

    type: types.Type
    equal: Callable[[Value, Value], bool]
    key: Callable[[Value], Hashable]
    size: Callable[[Value], int]


def _one(_: Value) -> int:
    return 1


def register(
    class_: type,
    type_: types.Type,
    *,
    equal: Callable[[Value, Value], bool] = is_equal_or_error,
    key: Callable[[Value], Hashable] = id,
    size: Callable[[Value], int] = _one,
) -> None:
    """Makes the instances of `class_` values of `type_`.

    equal(left, right): left is an instance, right is any value; may raise EvalError.
    key: the key in a map or constant list; raises EvalAbortedError if the reference crashes (see `unhashable`).
    size: for the cost functions.
    """
    _BEHAVIOUR[class_] = Behaviour(type_, equal, key, size)


def unhashable(go_type: str) -> Callable[[Value], Hashable]:
    """A `key` for `register`: the reference panics when it hashes this type."""

    def key(_: Value) -> Hashable:
        raise EvalAbortedError(f"internal error: runtime error: hash of unhashable type {go_type}")

    return key


def type_of(value: Value) -> types.Type:
    """The run-time type, without parameters (a list is `list(dyn)`)."""
    return _BEHAVIOUR[type(value)].type


def equal(left: Value, right: Value) -> bool:
    """`left == right` for dyn values; raises EvalError."""
    if left is None or right is None:
        return left is right
    return _behaves_equal(left, right)


def _behaves_equal(left: Value, right: Value) -> bool:
    """Equality as registered for the class of the left side."""
    try:
        return _BEHAVIOUR[type(left)].equal(left, right)
    except RecursionError:  # values nest deeper than expressions: names of `cel.bind` stand for deep ones
        return on_own_stack(_behaves_equal, left, right)


def contains(items: Iterable[Value], wanted: Value) -> bool:
    """`wanted in items`; elements that cannot be compared are skipped."""
    return any(_is_surely_equal(wanted, item) for item in items)


def key_of(value: Value) -> Hashable:
    """The value as a key; raises EvalAbortedError if the reference cannot hash it."""
    return value if type(value) is str else _BEHAVIOUR[type(value)].key(value)


def size_of(value: Value) -> int:
    """The size for cost functions; 1 for scalars, and for an EvalError in place of an argument."""
    behaviour = _BEHAVIOUR.get(type(value))
    return 1 if behaviour is None else behaviour.size(value)


def weight_of(value: Value) -> int:
    """The weight of a value: 1 for a scalar, more for long strings, the sum for aggregates."""
    around = 0
    while type(value) is Optional:
        value, around = value.value, around + 1
    class_ = type(value)
    if class_ is List or isinstance(value, Map):
        return around + value.weight  # type: ignore[attr-defined, no-any-return, unused-ignore]
    if class_ is str or class_ is bytes:
        return around + 1 + len(value) // _CHARACTERS_PER_ELEMENT  # type: ignore[arg-type]
    return around + 1


def _weight_of_all(items: Sequence[Value]) -> int:
    classes = set(map(type, items))
    if classes <= _LIGHT:
        return len(items)
    return sum(map(weight_of, items))


_LIGHT: Final = frozenset({bool, int, Uint, float, type(None)})


def bounded(weight: int, most: int = HEAVIEST) -> int:
    """`weight`, if it is at most `most`; else raises EvalAbortedError.

    Libraries call it before they make a value that may be much larger than its arguments.
    """
    if weight > most:
        raise EvalAbortedError(f"operation cancelled: a value with more than {most} parts")
    return weight


def is_zero(value: Value) -> bool:
    """Whether a value is the zero value of its type, for `optional.ofNonZeroValue`; an optional never is."""
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.nanos == _YEAR_ONE
    if isinstance(value, List | Map):
        return len(value) == 0
    return value is None or (isinstance(value, bool | int | float | str | bytes) and not value)


_YEAR_ONE: Final = -62_135_596_800 * 10**9


def _is_surely_equal(left: Value, right: Value) -> bool:
    try:
        return equal(left, right)
    except EvalAbortedError:
        raise
    except EvalError:
        return False


def _is_not_unequal(left: Value, right: Value) -> bool:
    """Equality inside aggregates: an error counts as equal."""
    try:
        return equal(left, right)
    except EvalAbortedError:
        raise
    except EvalError:
        return True


def _int_equals(left: Value, right: Value) -> bool:
    class_ = type(right)
    if class_ is int or class_ is Uint:
        return left == right
    return class_ is float and _number_equals_double(left, right)  # type: ignore[arg-type]


def _number_equals_double(number: int, double: float) -> bool:
    """As the reference compares: the integer becomes a double first, so that 2**63 - 1 == 2.0**63."""
    return float(number) == double


def _double_equals(left: Value, right: Value) -> bool:
    class_ = type(right)
    if class_ is float:
        return left == right
    return (class_ is int or class_ is Uint) and _number_equals_double(right, left)  # type: ignore[arg-type]


def _same_class_equals(left: Value, right: Value) -> bool:
    return type(left) is type(right) and left == right


def _list_equals(left: List, right: Value) -> bool:
    if type(right) is not List or len(left) != len(right):
        return False
    if not left.joined:
        return all(map(_is_not_unequal, left, right))
    return _joined_equals(left, right)


def _joined_equals(left: List, right: List) -> bool:
    """A list made by `+` reports the first error if no other element differs."""
    failure: EvalError | None = None
    for mine, other in zip(left, right, strict=True):
        try:
            if not equal(mine, other):
                return False
        except EvalAbortedError:
            raise
        except EvalError as error:
            failure = failure or bare(error)
    if failure is not None:
        raise failure
    return True


def map_equals(left: Map, right: Value) -> bool:
    """Equality of maps, for the classes derived from Map."""
    if not isinstance(right, Map) or len(left) != len(right):
        return False
    for key, value in left.items():
        other = right.find(key)
        if other is MISSING or not _is_not_unequal(value, other):
            return False
    return True


def _optional_equals(left: Optional, right: Value) -> bool:
    if type(right) is not Optional or left.is_present != right.is_present:
        return False
    # Unlike elsewhere, null is compared as the type of the left side has it.
    return not left.is_present or _behaves_equal(left.value, right.value)


def _type_equals(left: types.Type, right: Value) -> bool:
    return isinstance(right, types.Type) and left.name == right.name


def _tagged(value: Value) -> Hashable:
    return (type(value), value)


def _double_key(value: float) -> Hashable:
    return object() if math.isnan(value) else (float, value)


def _equal_keys(key: Value) -> Iterator[Hashable]:
    """The equal keys of other numeric types, which a lookup also finds."""
    if type(key) is int:
        yield Uint, key
    elif type(key) is Uint:
        yield int, key
    elif type(key) is float and key.is_integer():
        yield int, int(key)
        yield Uint, int(key)


def _list_key(value: List) -> Hashable:
    return object() if value.is_native else id(value)


def _length(value: Value) -> int:
    return len(value)  # type: ignore[arg-type]


_BEHAVIOUR: dict[type, Behaviour] = {}

register(bool, types.BOOL, equal=_same_class_equals, key=_tagged)
register(int, types.INT, equal=_int_equals, key=_tagged)
register(Uint, types.UINT, equal=_int_equals, key=_tagged)
register(float, types.DOUBLE, equal=_double_equals, key=_double_key)  # type: ignore[arg-type]
register(str, types.STRING, equal=_same_class_equals, size=_length)
register(bytes, types.BYTES, equal=_same_class_equals, key=unhashable("types.Bytes"), size=_length)
register(type(None), types.NULL, equal=_same_class_equals, key=_tagged)
register(List, types.LIST, equal=_list_equals, key=_list_key, size=_length)  # type: ignore[arg-type]
register(GrowingList, types.LIST, size=_length)
register(Map, types.MAP, equal=map_equals, size=_length)  # type: ignore[arg-type]
register(TextMap, types.MAP, equal=map_equals, size=_length)  # type: ignore[arg-type]
register(GrowingMap, types.MAP, equal=map_equals, size=_length)  # type: ignore[arg-type]
register(Timestamp, types.TIMESTAMP, equal=_same_class_equals, key=_tagged)
register(Duration, types.DURATION, equal=_same_class_equals, key=_tagged)
register(Optional, types.OPTIONAL, equal=_optional_equals)  # type: ignore[arg-type]
register(types.Type, types.TYPE, equal=_type_equals)  # type: ignore[arg-type]


# Go's `%q`: texts in double quotes, as in the reference's messages and in `format`.
#
# RE2 decides which characters are printable, since its tables do not depend on the version of Python.


_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}
_PRINTABLE: Final = re2.compile(r"[\pL\pM\pN\pP\pS ]")


def quoted(text: str) -> str:
    """The text in double quotes. Unprintable characters are escaped, a lone surrogate as its byte."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{text.translate(_Escaped())}"'


class _Escaped:
    """The table of escapes, by code point."""

    def __getitem__(self, code: int) -> str:
        return _escaped(code)


@lru_cache(maxsize=4096)
def _escaped(code: int) -> str:
    character = chr(code)
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if code < 0x20 or code == 0x7F or 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code & 0xFF:02x}"
    if _PRINTABLE.fullmatch(character):
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
