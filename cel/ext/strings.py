"""CEL's string functions: `charAt`, `indexOf`, `replace`, `split`, `substring`, `trim`, `join`, `strings.quote` ...

Positions count code points. `format` is in formatting.py; `find` and `findAll` are Kubernetes' own (k8s_regex.py).
Source: github.com/google/cel-go/ext/strings.go, version 2; the costs are those of k8s.io/apiserver's cost.go.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from cel.check.overloads import STRING_FACTOR, CallEstimate, Estimate, Library, Operand, Overload, scaled
from cel.errors import EvalError
from cel.ext.declare import double_scan, method, scan, transformation_estimate, traversal, traversal_estimate
from cel.values.types import INT, STRING, Type, list_of
from cel.values.values import MAX_UINT, List, Value, bounded, size_of

_BLANKS: Final = "".join(
    map(chr, (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000))
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_ESCAPES: Final = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)
_CHARACTERS_PER_SUBSTRING: Final = 64  # of values.bounded


def _out_of_range(index: int) -> EvalError:
    return EvalError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, wanted: str, start: int = 0) -> int:
    if start < 0:
        raise _out_of_range(start)
    if not wanted:
        return min(start, len(text))
    return text.find(wanted, start)


def _last_index_of(text: str, wanted: str) -> int:
    return _last_index_from(text, wanted, len(text))


def _last_index_of_from(text: str, wanted: str, start: int) -> int:
    """The last place at or before `start`; beyond the end nothing is found."""
    if start < 0:
        raise _out_of_range(start)
    if not wanted:
        return min(start, len(text))
    return -1 if start >= len(text) else _last_index_from(text, wanted, start)


def _last_index_from(text: str, wanted: str, start: int) -> int:
    """Searched from the back by `find` on the reversed texts: unlike `rfind`, it is linear in the worst case."""
    end = min(start + len(wanted), len(text))
    from_end = text[:end][::-1].find(wanted[::-1])
    return -1 if from_end < 0 else end - from_end - len(wanted)


def _index_of_before_1_37(text: str, wanted: str, start: int) -> int:
    return _index_of(text, wanted, start) if wanted else start


def _last_index_of_before_1_37(text: str, wanted: str, start: int) -> int:
    return _last_index_of_from(text, wanted, start) if wanted else start


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """The first `limit` occurrences replaced, all if it is negative; an empty `old` is found around every character."""
    count = text.count(old)
    if limit >= 0:
        count = min(count, limit)
    bounded((len(text) + count * (len(new) - len(old))) // _CHARACTERS_PER_SUBSTRING)
    if not text and not old:
        return new if count else text
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> List:
    """At most `limit` parts where it is not negative; without separator, the characters."""
    if limit == 0:
        return List()
    if separator:
        return List(text.split(separator, limit - 1 if limit > 0 else -1))
    if not 0 < limit < len(text):
        return List(text)
    return List((*text[: limit - 1], text[limit - 1 :]))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = max(start, len(text))
    if start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(items: Sequence[Value], separator: str = "") -> str:
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise EvalError("join: invalid input: only strings can be joined")
    bounded((sum(map(len, texts)) + len(separator) * len(texts)) // _CHARACTERS_PER_SUBSTRING)
    return separator.join(texts)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _replace_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """The result is largest when the smallest parts are replaced by the largest, as often as possible."""
    size, old, new = operands[0].size, operands[1].size, operands[2].size
    low_count, low_kept = _replacements(size.low, old.high, grows=old.high > new.low)
    high_count, high_kept = _replacements(size.high, old.low, grows=new.high > old.low)
    result = Estimate(low_count, high_count).times(new).plus(Estimate(low_kept, high_kept))
    return CallEstimate(size.scaled(2 * STRING_FACTOR), result)


def _replacements(size: int, old: int, *, grows: bool) -> tuple[int, int]:
    """How often text of this size has what is replaced, and how much of the text is kept; one of the two ends."""
    if old == 0:
        return min(size + 1, MAX_UINT), size
    if not grows:
        return 0, size
    return min(math.ceil(float(size) / float(old)), MAX_UINT), 0


def _split_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """At worst every character becomes a part, unless a literal limit says less."""
    size = operands[0].size
    most = size.high
    if len(operands) > 2 and type(operands[2].literal) is int:
        most = operands[2].literal % 2**64
    return CallEstimate(size.scaled(2 * STRING_FACTOR), Estimate(0, most))


def _join_cost(_: Sequence[Value], result: Value) -> int:
    return scaled(size_of(result), 2 * STRING_FACTOR)


def _join_estimate(operands: Sequence[Operand]) -> CallEstimate:
    parts = operands[0].size
    size = parts.times(operands[0].item_size) if operands[0].type.parameters else Estimate(0, 0)
    if len(operands) > 1:
        separators = Estimate(max(parts.low - 1, 0), max(parts.high - 1, 0))
        size = size.plus(operands[1].size.times(separators))
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def _quote_estimate_before_1_38(operands: Sequence[Operand]) -> CallEstimate:
    """At worst every character is escaped; the reference computes the size within uint64, and it wraps around."""
    size = operands[0].size
    quoted = Estimate((size.low + 2) % 2**64, (size.high * 2 + 2) % 2**64)
    return CallEstimate(size.scaled(STRING_FACTOR), quoted)


def _quote_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """At worst every character is escaped."""
    size, quotes = operands[0].size, Estimate(2, 2)
    quoted = Estimate(size.low, size.times(quotes).high).plus(quotes)
    return CallEstimate(size.scaled_if_bounded(STRING_FACTOR), quoted)


def _transformation(function: str, id_: str, more: tuple[Type, ...], implementation: Callable[..., Value]) -> Overload:
    """A string of about the size of the receiver, at the cost of reading it."""
    return Overload(
        function,
        id_,
        (STRING, *more),
        STRING,
        implementation=implementation,
        member=True,
        cost=scan,
        estimate=transformation_estimate,
    )


def _search(function: str, id_: str, more: tuple[Type, ...], implementation: Callable[..., int]) -> Overload:
    return Overload(
        function,
        id_,
        (STRING, *more),
        INT,
        implementation=implementation,
        member=True,
        cost=traversal,
        estimate=traversal_estimate,
    )


def _replacement(id_: str, more: tuple[Type, ...]) -> Overload:
    return Overload(
        "replace",
        id_,
        (STRING, STRING, STRING, *more),
        STRING,
        implementation=_replace,
        member=True,
        cost=double_scan,
        estimate=_replace_estimate,
    )


def _splitting(id_: str, more: tuple[Type, ...]) -> Overload:
    return Overload(
        "split",
        id_,
        (STRING, STRING, *more),
        list_of(STRING),
        implementation=_split,
        member=True,
        cost=double_scan,
        estimate=_split_estimate,
    )


def _joining(id_: str, more: tuple[Type, ...]) -> Overload:
    return Overload(
        "join",
        id_,
        (list_of(STRING), *more),
        STRING,
        implementation=_join,
        member=True,
        result_cost=_join_cost,
        estimate=_join_estimate,
    )


def _searches(from_start: Callable[..., int], from_end: Callable[..., int]) -> tuple[Overload, ...]:
    return (
        _search("indexOf", "string_index_of_string", (STRING,), _index_of),
        _search("indexOf", "string_index_of_string_int", (STRING, INT), from_start),
        _search("lastIndexOf", "string_last_index_of_string", (STRING,), _last_index_of),
        _search("lastIndexOf", "string_last_index_of_string_int", (STRING, INT), from_end),
    )


_OVERLOADS: Final = (
    method("charAt", "string_char_at_int", (STRING, INT), STRING, _char_at),
    _transformation("lowerAscii", "string_lower_ascii", (), lambda text: text.translate(_LOWER)),
    _transformation("upperAscii", "string_upper_ascii", (), lambda text: text.translate(_UPPER)),
    _transformation("substring", "string_substring_int", (INT,), _substring),
    _transformation("substring", "string_substring_int_int", (INT, INT), _substring),
    _transformation("trim", "string_trim", (), lambda text: text.strip(_BLANKS)),
    _replacement("string_replace_string_string", ()),
    _replacement("string_replace_string_string_int", (INT,)),
    _splitting("string_split_string", ()),
    _splitting("string_split_string_int", (INT,)),
    _joining("list_join", ()),
    _joining("list_join_string", (STRING,)),
)
_QUOTING: Final = Overload(
    "strings.quote",
    "strings_quote",
    (STRING,),
    STRING,
    implementation=_quote,
    cost=scan,
    estimate=_quote_estimate,
)
_QUOTING_1_37: Final = replace(_QUOTING, estimate=_quote_estimate_before_1_38)

_SEARCHES: Final = tuple(_searches(_index_of, _last_index_of_from))
_SEARCHES_1_36: Final = tuple(_searches(_index_of_before_1_37, _last_index_of_before_1_37))
LIBRARY: Final = Library("cel.lib.ext.strings", overloads=(*_OVERLOADS, _QUOTING, *_SEARCHES))
LIBRARY_1_37: Final = replace(LIBRARY, overloads=(*_OVERLOADS, _QUOTING_1_37, *_SEARCHES))
LIBRARY_1_36: Final = replace(LIBRARY, overloads=(*_OVERLOADS, _QUOTING_1_37, *_SEARCHES_1_36))
