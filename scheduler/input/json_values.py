"""JSON as kubectl reads it: one value, or several in a row.

orjson is fast and strict: no NaN, no unpaired surrogates. What it does not report is detected here and parsed by a
slower reader: duplicate keys, which are an error as in YAML, and numbers such as 2.0, which kubectl makes integers.
"""

import json
import re
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import orjson

from allocator.api.findings import duplicates, step_text
from scheduler.input.yaml_1_1 import MAX_DEPTH, as_json

_BLANKS = re.compile(r"\s*")
_BETWEEN = re.compile(r"\s*(---(?!\S))?")
_DISTANT_COLON = re.compile(r'"\s+:')
_TOO_DEEP = f"more than {MAX_DEPTH} levels of nesting"


class InvalidJSON(ValueError):
    """JSON that cannot be taken: broken, nested too deeply, a key twice, a number or text that is none."""


def leading(text: str) -> Generator[tuple[int, object], None, int]:
    """The JSON values that the text begins with, each after its first line, `---` between them or not.

    Returns where something else begins.

    Raises InvalidJSON. Cost: O(size).
    """
    if not _begins(text, 0):
        return 0
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return (yield from _several(text))
    yield _line(text, _after_blanks(text, 0)), _checked(value, text)
    return len(text)


def require_single_keys(value: object, text: str) -> None:
    """Raises InvalidJSON where an object of the text has a key twice. value: what orjson read of the text."""
    _, keys, _ = _measured(value)
    if not _has_no_other_key(text, keys):
        json.loads(text, object_pairs_hook=_object)


def _several(text: str) -> Generator[tuple[int, object], None, int]:
    start, is_separated, line, counted = 0, True, 1, 0
    while _begins(text, start):
        begin = _after_blanks(text, start)
        line, counted = line + text.count("\n", counted, begin), begin
        try:
            value, end = _first(text, begin)
        except json.JSONDecodeError as error:
            if is_separated:  # YAML in flow style, or broken: YAML reports it
                return start
            raise InvalidJSON(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
        yield line, value
        between = _BETWEEN.match(text, end)
        assert between is not None
        start, is_separated = between.end(), between[1] is not None
    if start < len(text) and not is_separated:
        raise InvalidJSON(f"{_position(text, start)}: expected a value or ---")
    return start


def _line(text: str, end: int) -> int:
    """The line of a position, from 1."""
    return text.count("\n", 0, end) + 1


def _begins(text: str, start: int) -> bool:
    return text.startswith(("{", "["), _after_blanks(text, start))


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    assert blanks is not None
    return blanks.end()


def _first(text: str, start: int) -> tuple[object, int]:
    """The value that begins at `start`, and the position after it. Raises JSONDecodeError too."""
    # Of JSON lines, each is a value. Of several values in one line, only the first is tried: each costs the whole line.
    if start == 0 or text[start - 1] == "\n":
        end_of_line = text.find("\n", start)
        line = text[start:end_of_line] if end_of_line >= 0 else text[start:]
        with suppress(orjson.JSONDecodeError):
            return _checked(orjson.loads(line), line), start + len(line)
    try:
        leniently, end = _EXTENT.raw_decode(text, start)
    except RecursionError as error:
        raise InvalidJSON(_TOO_DEEP) from error
    if _measured(leniently)[0] > MAX_DEPTH:
        raise InvalidJSON(_TOO_DEEP)
    part = text[start:end]
    try:
        value = orjson.loads(part)
    except orjson.JSONDecodeError as error:
        raise InvalidJSON(f"{_position(text, start + error.pos)}: {error.msg}") from error
    return _checked(value, part), end


def _checked(value: object, text: str) -> object:
    """The value that orjson read, or what the slower reader makes of the text."""
    depth, keys, types = _measured(value)
    if depth > MAX_DEPTH:
        raise InvalidJSON(_TOO_DEEP)
    if float in types or not _has_no_other_key(text, keys):
        return _CAREFUL.decode(text)
    return value


def _measured(value: object) -> tuple[int, int, set[type]]:
    """Levels of nesting, number of keys, and the types of all values."""
    depth, keys, types = 0, 0, {type(value)}
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    while level:
        depth += 1
        inner: list[object] = []
        for container in level:
            if type(container) is dict:
                keys += len(container)
                inner.extend(container.values())
            else:
                inner.extend(container)
        types.update(map(type, inner))
        level = [one for one in inner if type(one) is dict or type(one) is list]
    return depth, keys, types


def _has_no_other_key(text: str, keys: int) -> bool:
    """True where the text has no more keys than `keys`; False where that cannot be said at a glance.

    A quote before a colon ends a key, unless it is escaped, or begins a text that begins with a colon.
    """
    ends = text.count('":') - text.count('\\":')
    return ends == keys and '\\\\"' not in text and not _DISTANT_COLON.search(text)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = next(name for _, name in duplicates(name for name, _ in pairs))
        raise InvalidJSON(f"the key '{step_text(twice)}' appears twice in one object")
    return result


def _integer(text: str) -> int | float:
    number = int(text) if len(text) <= len(str(-(2**63))) else None
    return float(text) if number is None or not -(2**63) <= number < 2**64 else number


def _not_finite(text: str) -> object:
    raise InvalidJSON(f"{text} is not a finite number")


def _position(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - text.rfind(chr(10), 0, position)}"


_EXTENT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_not_finite)
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=lambda text: as_json(float(text))
)
