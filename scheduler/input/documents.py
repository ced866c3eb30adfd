"""Paths to raw objects: YAML with many documents, JSON, nested lists, folders, standard input.

Nothing is dropped silently: whatever cannot be read is a `Finding` with file and document.
"""

import codecs
import errno
import json
import os
import re
import stat
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import IO, Any

import orjson

from allocator.api.findings import duplicates, shown, step_text
from scheduler.input import yaml_1_1
from scheduler.input.yaml_1_1 import MAX_DEPTH, as_json

# JSON as kubectl reads it: one value, or several in a row.
#
# orjson is fast and strict: no NaN, no unpaired surrogates. What it does not report is detected here and parsed by a
# slower reader: duplicate keys, which are an error as in YAML, and numbers such as 2.0, which kubectl makes integers.


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
    yield _line(text, _after_blanks(text, 0)), _exact_value(value, text)
    return len(text)


def require_single_keys(value: object, text: str) -> None:
    """Raises InvalidJSON for a key twice in one object, or too deep a nesting. value: what orjson read of the text."""
    depth, keys, _ = _measured(value)
    if depth > MAX_DEPTH:
        raise InvalidJSON(_TOO_DEEP)
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
            return _exact_value(orjson.loads(line), line), start + len(line)
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
    return _exact_value(value, part), end


def _exact_value(value: object, text: str) -> object:
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


STDIN = "-"
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PACKED = {
    b"\x1f\x8b": "is compressed by gzip",
    b"BZh91AY&SY": "is compressed by bzip2",
    b"\xfd7zXZ": "is compressed by xz",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd",
    b"PK\x03\x04": "is a zip archive",
}
"""How packed files begin."""

_TAR, _TAR_AT = b"ustar", 257
"""What a tar archive has, and where."""

_MARK = "\ufeff"
MAX_FINDINGS = 20
"""Entries of one document that are not objects and are listed one by one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object stands: `document` counts from 1 in its file; `items` are positions in lists, from 0.

    line: the first one of the document, or the one that cannot be read; 0 where it is not known.
    """

    file: str
    document: int = 0
    items: tuple[int, ...] = ()
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        document = f", document {self.document}" if self.document else ""
        return f"{self.file_text}{document}" + "".join(f", items[{item}]" for item in self.items)

    @property
    def file_text(self) -> str:
        """The file as people read it: names of files may hold what is no text."""
        return self.file if self.file and self.file.isprintable() else ascii(self.file)


class FindingReason(Enum):
    """What is found."""

    UNREADABLE = auto()
    """A path, a file or a document that cannot be read."""
    REFUSED = auto()
    """The API server refuses the object."""
    UNKNOWN_FIELD = auto()
    """The API server drops a field, and refuses the object where it validates strictly, as for kubectl."""
    DUPLICATE = auto()
    """There is another object of that name."""
    UNUSED = auto()
    """The API server takes it, and nothing here depends on it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or worth a warning, at a place."""

    place: Place
    message: str
    subject: str = ""
    """The kind and name of the object, where it has them."""
    is_warning: bool = False
    reason: FindingReason = FindingReason.UNREADABLE

    def __str__(self) -> str:
        return f"{self.place}: {self.subject + ': ' if self.subject else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of the input, as it came. is_named: its file was named, and not found below a directory."""

    place: Place
    raw: Mapping[str, object]
    is_named: bool = True


def read(paths: Sequence[str]) -> Iterator[RawObject | Finding]:
    """All objects below the paths, in their order; directories recursively, by name.

    In a directory only `.yaml`, `.yml` and `.json` files are read, which covers a must-gather; links to directories are
    not followed. A `Finding` is an error: a path that is not there, a file that is not text, a document that is no
    object; or a warning: a file with nothing in it.
    """
    for path in paths:
        if path == STDIN or not Path(path).is_dir():
            yield from _objects_of(path, is_named=True)
            continue
        for file in manifests_below(path):
            yield from [file] if isinstance(file, Finding) else _objects_of(file, is_named=False)


def manifests_below(directory: str) -> Iterator[str | Finding]:
    """The files that are read of a directory, by name; a Finding for one that cannot be."""
    unreadable: list[OSError] = []
    walk = os.walk(directory, onerror=unreadable.append)
    files = sorted(str(Path(folder, name)) for folder, _, names in walk for name in names if _is_manifest(name))
    yield from (Finding(Place(str(error.filename)), _cannot_be_read(error)) for error in unreadable)
    if not files and not unreadable:
        yield Finding(Place(directory), "the directory contains no .yaml, .yml or .json file")
    yield from map(_checked, files)


def _is_manifest(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _checked(file: str) -> str | Finding:
    """The file, unless it is a link to nowhere, or something that reading would wait for."""
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        return Finding(Place(file), _cannot_be_read(error))
    return file if stat.S_ISREG(mode) else Finding(Place(file), "cannot be read: not a regular file")


def _cannot_be_read(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _objects_of(file: str, *, is_named: bool) -> Iterator[RawObject | Finding]:
    name = "standard input" if file == STDIN else file
    number, is_empty = 0, True
    try:
        text = _text(file)
    except _UnreadableError as error:
        yield Finding(Place(name), str(error))
        return
    try:
        for number, (line, document) in enumerate(_documents(text), start=1):
            if document is not None:
                is_empty, place = False, Place(name, number, line=line)
                yield from _shortened(_flattened(place, document, is_named=is_named), place)
    except _UnreadableError as error:
        yield Finding(Place(name, number + 1, line=error.line), str(error))
        return
    if is_empty and is_named:
        yield Finding(Place(name), "contains no objects", is_warning=True, reason=FindingReason.UNUSED)


class _UnreadableError(Exception):
    """A file without text, or a document that is none. line: 0 where it is not known."""

    def __init__(self, message: str, line: int = 0) -> None:
        self.line = line
        super().__init__(message)


def _text(file: str) -> str:
    if file == STDIN and sys.stdin is None:
        raise _UnreadableError("cannot be read: it is closed")
    try:
        content = sys.stdin.buffer.read() if file == STDIN else content_of(Path(file))
    except OSError as error:
        raise _UnreadableError(_cannot_be_read(error)) from error
    text = _decoded(content)
    if "\0" in text:
        raise _UnreadableError(f"is not text: a NUL byte at offset {text.index(chr(0))}")
    return text


def content_of(file: Path) -> bytes:
    """All that is in the file. Raises OSError, also for a device that has no end."""
    with file.open("rb") as opened:
        require_end(opened)
        return opened.read()


def require_end(opened: IO[bytes]) -> None:
    """Raises OSError for a device that has no end, such as /dev/zero."""
    facts = os.fstat(opened.fileno())
    is_device = stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)
    if is_device and not opened.isatty() and facts.st_rdev != Path(os.devnull).stat().st_rdev:
        raise OSError(errno.ENODEV, "is a device, and no file")


def _decoded(content: bytes) -> str:
    """The text: UTF-8, or UTF-16 with its mark, as Windows PowerShell's `>` writes it and kubectl reads it."""
    if packed := _packed(content):
        raise _UnreadableError(f"{packed}: unpack it first")
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    try:
        # Files that were joined have a mark in the middle.
        return content.decode(encoding).replace(f"\n{_MARK}", "\n")
    except UnicodeDecodeError as error:
        name = encoding.upper().removesuffix("-SIG")
        raise _UnreadableError(
            f"is not {name} text: byte {content[error.start]:#04x} at offset {error.start}"
        ) from error


def _packed(content: bytes) -> str:
    """What the file is instead of text; empty for all else."""
    if content.startswith(_TAR, _TAR_AT):
        return "is a tar archive"
    return next((what for begin, what in _PACKED.items() if content.startswith(begin)), "")


def _documents(text: str) -> Iterator[tuple[int, object]]:
    """The documents of a text, each after its first line: JSON values while they last, YAML after that."""
    try:
        end = yield from leading(text)
    except InvalidJSON as error:
        raise _UnreadableError(f"is not valid JSON: {error}") from error
    if text[end:].isspace() or end == len(text):
        return
    try:
        # With line ends for what was read, so that lines are counted from the top of the file.
        yield from yaml_1_1.documents("\n" * text.count("\n", 0, end) + text[end:])
    except yaml_1_1.InvalidYAML as error:
        raise _UnreadableError(f"is not valid YAML or JSON: {error}", error.line) from error


def _flattened(place: Place, document: object, *, is_named: bool) -> Iterator[RawObject | Finding]:
    """The objects of a document; a list stands for its items, which may take kind and version from it."""
    if isinstance(document, list):
        for number, item in enumerate(document):
            yield from _flattened(_item(place, number), item, is_named=is_named)
        return
    if not isinstance(document, dict):
        yield (
            Finding(place, f"is not an object but {_described(document)}")
            if is_named
            else RawObject(place, {}, is_named)
        )
        return
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in document:
        yield RawObject(place, document, is_named)
        return
    items = document["items"]
    if items is not None and not isinstance(items, list):
        yield Finding(place, f"items is not a list but {_described(items)}", step_text(kind))
        return
    for number, item in enumerate(items or ()):
        yield from _flattened(_item(place, number), _typed(item, kind, document.get("apiVersion")), is_named=is_named)


def _item(place: Place, number: int) -> Place:
    return Place(place.file, place.document, (*place.items, number), place.line)


def _typed(item: object, list_kind: str, version: object) -> object:
    if list_kind == "List" or not isinstance(item, dict) or "kind" in item:
        return item
    return {"apiVersion": version, "kind": list_kind.removesuffix("List"), **item}


def _described(value: object) -> str:
    kinds: dict[type, str] = {str: "text: ", bool: "a boolean: ", int: "a number: ", float: "a number: "}
    return "nothing" if value is None else kinds.get(type(value), "") + shown(value)


def _shortened(found: Iterable[RawObject | Finding], place: Place) -> Iterator[RawObject | Finding]:
    """The objects of a document, and the first of what are none."""
    number = 0
    for entry in found:
        number += isinstance(entry, Finding)
        if isinstance(entry, RawObject) or number <= MAX_FINDINGS:
            yield entry
    if number > MAX_FINDINGS:
        yield Finding(place, f"and {number - MAX_FINDINGS} more entries are not objects")
