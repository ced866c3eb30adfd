"""JSON as the API server sends it: parsed by orjson, and kept as text if its content is opaque to this program.

What users and drivers write for each other (`parameters` of a configuration, `data` of a device's status) is sent back
unchanged: the API server compares it as text, and accepts text that no parser here does, such as a thousand levels. If
a text cannot be parsed as a whole, everything but its broken part can still be read.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import orjson

LEVELS = 16
"""So deep a broken part is looked for; the fields of Kubernetes' own objects are hardly as deep."""

SINGLE_MAX = 1 << 16
"""Values of lists and objects that are looked at one by one, for one that is broken."""

_KEYS = ("parameters", "data")
_WORDS = frozenset({b'"', b"t", b"f", b"n"})
_PARAMETERS, _DATA = (f'"{key}"'.encode() for key in _KEYS)
# A quote that is not escaped, in front of a name, begins it; with a colon after it, the name is a key.
_MEMBER = rb'(?<!\\)"(?:%b)"\s*:\s*(?=[{\[\d-])'
_FREE_FORM = re.compile(_MEMBER % "|".join(_KEYS).encode())
_ESCAPED = rb"\u00"
_FREE_FORM_ESCAPED = re.compile(  # each letter as it is, or by its number
    _MEMBER % "|".join("".join(rf"(?:{one}|\\u00(?i:{ord(one):x}))" for one in key) for key in _KEYS).encode()
)
_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_PLAIN = re.compile(_TEXT + rb"|[^\s,\]}]++", re.DOTALL)
_NAME = re.compile(rb"\s*(" + _TEXT + rb")\s*:\s*", re.DOTALL)
_SPACE = re.compile(rb"\s*")
_QUOTE = ord('"')
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1
_BEGINS = np.zeros(256, np.bool_)
_BEGINS[list(b",:{[")] = True
_CHUNK = 1 << 20
_FIRST_WINDOW = 64


T = TypeVar("T")


class RawJson(bytes):
    """A value as text, which `dumps` writes as it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"JSON of {len(self)} bytes that is not read"


def loads(text: bytes) -> Any:
    """The value, in which free-form JSON is `RawJson`. Raises orjson.JSONDecodeError."""
    if _PARAMETERS not in text and _DATA not in text:
        return orjson.loads(text)
    texts, values = _taken_out(text)
    decoded = orjson.loads(b"".join(texts))
    _put_back(decoded, values)
    return decoded


def loads_leniently(text: bytes) -> object:
    """The value, in which what cannot be parsed is `RawJson` as well, as little as can be; all of it at the worst.

    Cost: O(size) for each of LEVELS; no more than SINGLE_MAX values are parsed one by one.
    """
    return _leniently(text, LEVELS, _Allowance(SINGLE_MAX))


def has_more_values(text: bytes, most: int) -> bool:
    """Whether lists and objects of the JSON hold more values and names than that. Cost: O(size), in little memory."""
    if len(text) <= 2 * most or sum(map(text.count, (b",", b":", b"{", b"["))) <= most:
        return False
    plain = np.frombuffer(_unescaped(text), np.uint8)
    number, is_within = 0, False  # of a text
    for begin in range(0, len(plain), _CHUNK):
        chunk = plain[begin : begin + _CHUNK]
        within = (np.cumsum(chunk == _QUOTE, dtype=np.uint8) & 1).astype(np.bool_) ^ is_within
        number, is_within = number + int(np.count_nonzero(_BEGINS[chunk] & ~within)), bool(within[-1])
        if number > most:
            return True
    return False


class _Allowance:
    """How many values may still be parsed one by one. Not a limit of each list: there may be many."""

    def __init__(self, left: int) -> None:
        self.left = left


def _leniently(text: bytes, levels: int, allowance: _Allowance) -> object:
    try:
        return loads(text)
    except orjson.JSONDecodeError:
        values = _values_in(text.strip(), allowance) if levels else None
    if isinstance(values, list):
        return [_leniently(value, levels - 1, allowance) for value in values]
    if isinstance(values, dict):
        return {name: _member(name, value, levels - 1, allowance) for name, value in values.items()}
    return RawJson(text)


def _member(name: str, text: bytes, levels: int, allowance: _Allowance) -> object:
    is_free_form = name in _KEYS and text[:1] not in _WORDS
    return RawJson(text) if is_free_form else _leniently(text, levels, allowance)


def dumps(value: object) -> bytes:
    """The text of the value. Raises TypeError for what is no JSON, or nested deeper than 254 levels."""
    return orjson.dumps(value, default=_as_it_is)


def _as_it_is(value: object) -> orjson.Fragment:
    if isinstance(value, RawJson):
        return orjson.Fragment(bytes(value))  # of no subclass
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _taken_out(text: bytes) -> tuple[list[bytes], list[RawJson]]:
    """The texts between free-form values, with a number in place of each, and these values."""
    texts: list[bytes] = []
    values: list[RawJson] = []
    at, ends = 0, _Ends(text)
    member = _FREE_FORM_ESCAPED if _ESCAPED in text else _FREE_FORM
    while (free_form := member.search(text, at)) and (end := ends.of(free_form.end())):
        texts += (text[at : free_form.end()], b"%d" % len(values))
        values.append(RawJson(text[free_form.end() : end]))
        at = end
    return [*texts, text[at:]], values


def _put_back(found: object, values: list[RawJson]) -> None:
    """Set the values in place of their numbers: no other number is left under such a key."""
    left = [found]
    while left:  # not by recursion: the rest may be nested deeper than Python calls
        holder = left.pop()
        if isinstance(holder, list):
            left += holder
        elif isinstance(holder, dict):
            for name, value in holder.items():
                if name in _KEYS and type(value) is int:
                    holder[name] = values[value]
                else:
                    left.append(value)


def _values_in(text: bytes, allowance: _Allowance) -> dict[str, bytes] | list[bytes] | None:
    """The texts of the values that an object or list holds; None for all else, and where they cannot be separated."""
    try:
        if text.startswith(b"{"):
            return dict(_some(_members(text), allowance))
        return list(_some(_elements(text), allowance)) if text.startswith(b"[") else None
    except ValueError:
        return None


def _some(values: Iterator[T], allowance: _Allowance) -> Iterator[T]:
    """The values, as long as they are not too many."""
    for value in values:
        allowance.left -= 1
        if allowance.left < 0:
            raise ValueError("too many values")
        yield value


def _members(text: bytes) -> Iterator[tuple[str, bytes]]:
    at, is_last, ends = 1, False, _Ends(text)
    while not is_last:
        name = _NAME.match(text, at)
        if name is None:
            raise ValueError("a member has no name")
        end, at, is_last = _rest(text, ends.of(name.end()), b"}")
        yield orjson.loads(name[1]), text[name.end() : end]


def _elements(text: bytes) -> Iterator[bytes]:
    at, is_last, ends = 1, False, _Ends(text)
    while not is_last:
        begin = _after_space(text, at)
        end, at, is_last = _rest(text, ends.of(begin), b"]")
        yield text[begin:end]


def _rest(text: bytes, end: int, closing: bytes) -> tuple[int, int, bool]:
    """Where the value ends (0: nowhere), where the next one may begin, and whether it is the holder's last."""
    after = _after_space(text, end)
    if not end or text[after : after + 1] not in (b",", closing):
        raise ValueError("a value is missing or does not end")
    is_last = text[after : after + 1] == closing
    if is_last and after + 1 != len(text):
        raise ValueError("something follows the value")
    return end, after + 1, is_last


class _Ends:
    """Where the values of a text end. Cost: O(size), whatever is nested how; of one value O(its size)."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        plain = np.frombuffer(_unescaped(text), np.uint8)
        # Outside of texts, the number of quotes so far is even; that it overflows does not matter.
        is_outside = np.cumsum(plain == _QUOTE, dtype=np.uint8) & 1 == 0
        self._depths = np.cumsum(_STEPS[plain] * is_outside, dtype=np.int32)  # after each byte

    def of(self, begin: int) -> int:
        """Where the value ends that begins there; 0 where it does not."""
        if self._text[begin : begin + 1] not in (b"{", b"["):
            plain = _PLAIN.match(self._text, begin)
            return plain.end() if plain else 0
        depth, at, window = self._depths[begin], begin, _FIRST_WINDOW
        while at < len(self._depths):
            is_closed = self._depths[at : at + window] < depth
            after = int(is_closed.argmax())
            if is_closed[after]:
                return at + after + 1
            at, window = at + window, 2 * window
        return 0


def _unescaped(text: bytes) -> bytes:
    """As long a text, in which each quote begins or ends a text."""
    return text.replace(rb"\\", b"__").replace(rb"\"", b"__") if b"\\" in text else text


def _after_space(text: bytes, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None, at
    return space.end()
