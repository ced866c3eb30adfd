"""Events of one resource, as a watcher reports them, in the order of resource versions.

An object is decoded on arrival, so that a large list never stands in memory as JSON. An object that cannot be decoded
comes as `Undecoded` and replaces what was known under its name. It affects only itself, not its page or its watch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from scheduler.client.errors import CallFailed, Unanswered

T = TypeVar("T")

Decoder = Callable[[Mapping[str, Any]], T]
"""The value that is kept of an object, which has its kind and apiVersion. Raises Undecodable."""

Holder = Callable[[Mapping[str, Any]], object]
"""What an object holds of nodes or devices although it cannot be decoded; None where it holds nothing."""


def holds_nothing(_: Mapping[str, Any]) -> None:
    """The holder of objects that hold neither nodes nor devices."""


class Undecodable(ValueError):
    """An object that cannot be used; the message names field and value."""


class Unreadable(Unanswered):
    """The server sent something that cannot be read or skipped; it would send the same again."""

    def __init__(self, call: str, text: str) -> None:
        super().__init__(call, text, is_ambiguous=False)


class Key(NamedTuple):
    """What an object is found by; namespace: empty for an object of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """An object at one version. uid: distinguishes it from a deleted object of the same name."""

    key: Key
    uid: str
    resource_version: int
    value: T


@dataclass(frozen=True, slots=True)
class Undecoded:
    """An object that could not be decoded."""

    key: Key
    uid: str
    resource_version: int
    error: str
    """Why it could not be decoded."""
    held: object = None
    """What it holds all the same, as of `Holder`."""
    defect: Exception | None = field(default=None, compare=False)
    """What a decoder raised that it should not have."""


Found = Entry[T] | Undecoded


@dataclass(frozen=True, slots=True)
class Restarted(Generic[T]):
    """All objects again: what is not among them is gone."""

    objects: tuple[Found[T], ...]
    resource_version: int


@dataclass(frozen=True, slots=True)
class Applied(Generic[T]):
    """An object was created or changed."""

    object: Found[T]

    @property
    def resource_version(self) -> int:
        """That of the object."""
        return self.object.resource_version


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone, or no longer selected. resource_version: of the deletion."""

    key: Key
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """All changes up to this version have been reported."""

    resource_version: int


@dataclass(frozen=True, slots=True)
class Outdated:
    """Changes after this version are lost: what is known may be wrong until `Restarted`."""

    resource_version: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The watch is down. retry_in_s: when the API server is asked again."""

    error: CallFailed
    retry_in_s: float


WatchEvent = Restarted[T] | Applied[T] | Deleted | Progressed | Outdated | Interrupted
