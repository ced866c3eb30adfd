"""Recorded cases, one JSON object per line, each with the reference's answer: reading them, and exit codes.

Shared by `dra verify allocation` and `dra verify scheduling`, which define the fields of a case.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import click
import orjson

from allocator.api.findings import shown
from allocator.gates import RELEASES
from scheduler.cli.ending import stop
from scheduler.input.documents import STDIN, require_end
from scheduler.kinds import Raw

Case = TypeVar("Case")
Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., None])

_STRICT = click.option(
    "--strict/--no-strict",
    "is_strict",
    default=True,
    show_default=True,
    help="Match the reference even where this program does better (docs/differences.md).",
)

_KINDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "text", int: "a number"}


class InvalidCase(ValueError):
    """A line that is no case of the format."""


def reference_options(release: str) -> Callable[[Command], Command]:
    """Options for the release of the reference, with this default, and for how closely to follow it."""
    of_release = click.option(
        "--kubernetes",
        "release",
        type=click.Choice(sorted(RELEASES)),
        default=release,
        show_default=True,
        help="Kubernetes release that produced the answers.",
    )
    return lambda command: of_release(_STRICT(command))


def replay_all(files: Iterable[str], replay: Callable[[Iterator[bytes]], Iterator[Result]]) -> Iterator[Result]:
    """How the cases of the files went, in order; ends the command at input that is no case."""
    for file in files:
        number = 0
        try:
            for number, replayed in enumerate(replay(_lines(file)), start=1):  # noqa: B007 - it is used below
                yield replayed
        except OSError as error:
            stop(f"{file}: {error.strerror or error}")
        except InvalidCase as error:
            stop(f"{file}: {error}")
        if not number:
            stop(f"{file} contains no case")


def cases_of(lines: Iterable[bytes], decode: Callable[[Raw], Case]) -> Iterator[Case]:
    """The case of each line. Raises InvalidCase for a line that is none, with its number."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield decode(of_kind(orjson.loads(line), "the line", dict))
            except ValueError as error:
                raise InvalidCase(f"line {number} is not a valid case: {error}") from error


def field_of(raw: Raw, name: str, kind: type[Any] = object) -> Any:
    """The value of a field that has to be there, of that kind (Any: the caller knows which)."""
    if name not in raw:
        raise InvalidCase(f"{name} is missing")
    return of_kind(raw[name], name, kind)


def of_kind(value: object, name: str, kind: type[Any]) -> Any:
    """The value, which has to be of that kind."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidCase(f"{name} must be {_KINDS[kind]}, not {shown(value)}")
    return value


def list_of(raw: Raw, name: str) -> list[Any]:
    """The list in an optional field."""
    return of_kind(raw[name], name, list) if raw.get(name) is not None else []


def objects_of(raw: Raw, name: str) -> list[Raw]:
    """The objects in an optional field."""
    return [of_kind(one, f"{name}[{number}]", dict) for number, one in enumerate(list_of(raw, name))]


def _lines(file: str) -> Iterator[bytes]:
    with click.open_file(file, "rb") as stream:
        if file != STDIN:
            require_end(stream)
        yield from stream
