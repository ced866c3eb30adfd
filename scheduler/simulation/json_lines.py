"""Files with one JSON object a line, for traces and for orders of arrival. Lines without anything are passed over."""

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path

import orjson

from allocator.api.findings import shown
from allocator.did_you_mean import did_you_mean
from scheduler.input.documents import InvalidJSON, require_single_keys

_GZIP = b"\x1f\x8b"


class InvalidLine(ValueError):
    """A file or a line that cannot be used. The message names file, line, field and value."""


@dataclass(frozen=True, slots=True)
class ObjectLine:
    """A line. place: its file and number, from 1."""

    place: str
    fields: Mapping[str, object]

    def error(self, field: str, problem: str) -> InvalidLine:
        """The field cannot be used."""
        return InvalidLine(f"{self.place}: {field}: {problem}")

    def require_known(self, fields: Iterable[str], what: str) -> None:
        """Raises InvalidLine for a field that is none of these. what: what the fields are of."""
        for field in self.fields:
            if field not in fields:
                raise self.error(field, f"is no field of {what}{did_you_mean(field, fields)}")

    def number(self, field: str, most: float) -> float:
        """A number from 0 to `most`, in seconds. Raises InvalidLine."""
        value = self._required(field)
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else nan
        if not 0 <= number <= most:
            raise self.error(field, f"{written(value)} is not a number of seconds, from 0 to {most:g}")
        return number

    def text(self, field: str) -> str:
        """Text that is not empty. Raises InvalidLine."""
        value = self._required(field)
        if not isinstance(value, str) or not value:
            raise self.error(field, f"{written(value)} is not text")
        return value

    def whole_number(self, field: str) -> int:
        """Raises InvalidLine."""
        value = self._required(field)
        if type(value) is not int:
            raise self.error(field, f"{written(value)} is not a whole number")
        return value

    def rows(self, field: str, number: int) -> tuple[int, ...]:
        """Numbers of rows, of which there are so many, from 0. Raises InvalidLine."""
        rows = self._required(field)
        if not isinstance(rows, list):
            raise self.error(field, f"{written(rows)} is not a list")
        for position, row in enumerate(rows):
            if type(row) is not int or not 0 <= row < number:
                raise self.error(f"{field}[{position}]", f"{written(row)} is not a row, of {number} from 0")
        return tuple(rows)

    def _required(self, field: str) -> object:
        if field not in self.fields:
            raise self.error(field, "is required")
        return self.fields[field]


def written(value: object) -> str:
    """The value as JSON has it, in short."""
    return "null" if value is None else shown(value)


def json_lines(file: Path) -> Iterator[ObjectLine]:
    """The lines of the file that have anything. Raises InvalidLine."""
    for number, line in enumerate(_bytes_of(file).splitlines(), 1):
        if line.strip():
            yield _parsed(f"{file}, line {number}", line)


def _bytes_of(file: Path) -> bytes:
    try:
        found = file.read_bytes()
    except OSError as error:
        raise InvalidLine(f"{file}: cannot be read: {error.strerror}") from error
    if found.startswith(_GZIP):
        raise InvalidLine(f"{file}: is compressed: decompress it with gunzip")
    return found.removeprefix(BOM_UTF8)


def _parsed(place: str, line: bytes) -> ObjectLine:
    try:
        fields = orjson.loads(line)
        require_single_keys(fields, line.decode())
    except orjson.JSONDecodeError as error:
        raise InvalidLine(f"{place}: {_why_not_json(line, error)}") from error
    except InvalidJSON as error:
        raise InvalidLine(f"{place}: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidLine(f"{place}: {written(fields)} is not an object")
    return ObjectLine(place, fields)


def _why_not_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return f"is not UTF-8: byte {wrong.start + 1} is 0x{line[wrong.start]:02x}"
    return f"is not JSON: {error}"
