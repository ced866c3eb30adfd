"""What decoding finds: errors by field, and fields that this version does not know.

Every reader in this package writes into one `Findings`, so that all errors of an object are reported together, and
asks it for the unknown fields of what it builds. Paths are Kubernetes' own: `spec.devices[3].attributes[model].string`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from allocator.words import counted

Location = tuple[str | int, ...]
"""A place in a JSON object: field names, map keys and list indices from the top."""

_SHOWN_TEXT = 64
MAPS = frozenset(
    {"annotations", "attributes", "consumedCapacity", "counters", "labels", "nodeAllocatableResources", "requests"}
)
"""Fields of resource.k8s.io whose keys are the user's."""

_REPORTED = "status.devices"
"""Where drivers report on devices, which is theirs and decides nothing."""

_CARRIERS = frozenset({"constraints", "devices", "firstAvailable", "requests"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One violated rule.

    path: empty for the object as a whole. value: what stands there now, None where nothing does; printed in short.
    """

    path: str
    value: object
    message: str

    def __str__(self) -> str:
        got = "" if self.value is None else f" (got {shown(self.value)})"
        return f"{self.path}: {self.message}{got}" if self.path else f"{self.message}{got}"


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that the object's version does not have, or that is newer than this program.

    advice: where it belongs, for a field that another version has elsewhere.
    """

    path: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.path}: unknown field{f': {self.advice}' if self.advice else ''}"


def shown(value: object) -> str:
    """The value in a form that fits into one line of a message."""
    if isinstance(value, dict):
        return f"an object of {counted(len(value), 'field')}"
    if isinstance(value, list | tuple):
        return f"a list of {counted(len(value), 'entry', 'entries')}"
    if isinstance(value, str):
        return json.dumps(shortened(value))
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else shortened(_number_text(value))


def _number_text(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 4096:
        return "a number of over 1000 digits"  # Python refuses to print the longest ones
    return str(value)


def shortened(text: str) -> str:
    """At most 64 characters of the text, the middle left out."""
    half = (_SHOWN_TEXT - 3) // 2
    return text if len(text) <= _SHOWN_TEXT else f"{text[:half]}...{text[-half:]}"


def step_text(step: object) -> str:
    """A map's key or a field's name as a part of a path: short, and fit to be printed."""
    text = shortened(str(step))
    return text if text.isprintable() else json.dumps(text)[1:-1]


def path_of(location: Location, maps: frozenset[str] = MAPS) -> str:
    """The location in Kubernetes' notation: `.field`, `[index]`, `[map key]`. maps: the fields that hold a map."""
    text, is_key = "", False
    for position, step in enumerate(location):
        if is_key or isinstance(step, int):
            text += f"[{step_text(step)}]"
            is_key = False
        else:
            text += f".{step_text(step)}" if text else step_text(step)
            is_key = _is_map(str(step), location[:position], location[position + 1 : position + 2], maps)
    return text


def _is_map(name: str, before: Location, after: Location, maps: frozenset[str]) -> bool:
    if not after or isinstance(after[0], int):
        return False
    # A device's capacity is a map; a request's capacity is an object with the map `requests`.
    return name in maps or (name == "capacity" and "requests" not in before)


@dataclass(slots=True)
class Findings:
    """The errors and unknown fields of one object."""

    allows_combined: bool = False
    """Slices may have devices and counter sets in one, as up to Kubernetes 1.34."""
    errors: list[FieldError] = field(default_factory=list)
    notes: list[FieldError] = field(default_factory=list)
    """Rules that are broken where no decision depends on them."""
    unknown: list[UnknownField] = field(default_factory=list)
    _untyped: set[str] = field(default_factory=set)
    _holders: set[str] = field(default_factory=set)
    _carried: dict[str, list[str]] = field(default_factory=dict)

    def error(self, path: str, value: object, message: str) -> None:
        """Report a violated rule, unless the place was of a wrong type: then that has been said already."""
        if not self._is_untyped(path):
            told = self.notes if path.startswith(_REPORTED) else self.errors
            told.append(FieldError(path, value, message))

    def note(self, path: str, value: object, message: str) -> None:
        """Report a violated rule on which no decision depends."""
        self.notes.append(FieldError(path, value, message))

    def required(self, path: str, message: str = "is required") -> None:
        """Report that nothing stands where something has to."""
        self.error(path, None, message)

    def wrong_type(self, location: Location, value: object, message: str) -> None:
        """Report a value of a wrong type; no other rule is applied to this place."""
        path = path_of(location)
        if not self._is_untyped(path):
            self.errors.append(FieldError(path, value, message))
        self._untyped.add(path)
        self._holders.add(path_of(location[:-1]))

    def unknown_field(self, location: Location) -> None:
        """Report a field that the version does not have, and remember who carries it."""
        path = path_of(location)
        self.unknown.append(UnknownField(path))
        self._holders.add(path_of(location[:-1]))
        carrier = _carrier(location)
        if carrier:
            names = self._carried.setdefault(path_of(carrier), [])
            names.append(path_of(location[len(carrier) :] or location))

    def is_uncertain(self, path: str) -> bool:
        """Whether a field of the object at `path` is unknown or of a wrong type: then that may be a union's member."""
        return path in self._holders

    def _is_untyped(self, path: str) -> bool:
        return bool(self._untyped) and any(prefix in self._untyped for prefix in _prefixes(path))

    def carried_by(self, path: str) -> tuple[str, ...]:
        """The unknown fields that the device, request, constraint or spec at `path` carries, relative to it."""
        return tuple(self._carried.get(path, ())) if self._carried else ()


def _prefixes(path: str) -> Iterator[str]:
    yield path
    for end, character in enumerate(path):
        if character in ".[":
            yield path[:end]


def _carrier(location: Location) -> Location:
    """The innermost part whose use an unknown field may change: a device, request, alternative, constraint, or `spec`.

    Metadata and status change no decision: they carry nothing.
    """
    if location[0] in {"metadata", "status"} or location[:2] == ("spec", "metadata"):
        return ()
    ends = (end for end in range(len(location) - 1, 1, -1) if _may_carry(location[end - 2], location[end - 1]))
    return location[: next(ends, 1)] if location[0] == "spec" else ("spec",)


def _may_carry(before: str | int, step: str | int) -> bool:
    return (isinstance(step, int) and before in _CARRIERS) or (step == "exactly" and isinstance(before, int))


def duplicates(keys: Iterable[object]) -> Iterator[tuple[int, object]]:
    """(index, key) of each key that has occurred before."""
    seen: set[object] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield index, key
        seen.add(key)
