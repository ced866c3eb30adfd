"""Objects as the watch shows them, and as decisions have changed them before the write.

An assumed change counts while the watch shows the version that it is based on. With the next version the watch knows
better, whether it contains our write or somebody else's.
Source: kube-scheduler's volume binder, its assume cache.
"""

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Versioned(Protocol):
    """An object of the API server."""

    @property
    def resource_version(self) -> str:
        """Its version."""
        ...


Key = TypeVar("Key", bound=Hashable)
Object = TypeVar("Object", bound=Versioned)


class AssumedObjects(Generic[Key, Object]):
    """Objects of a kind by their key. watched: as the watch shows them."""

    def __init__(self) -> None:
        self.watched: dict[Key, Object] = {}
        self._assumed: dict[Key, Object] = {}

    def get(self, key: Key) -> Object | None:
        """The object as it will be, None where there is none."""
        return self._assumed.get(key) or self.watched.get(key)

    def set(self, key: Key, found: Object) -> Object | None:
        """The watch shows the object. Returns what it showed before."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.resource_version != found.resource_version:
            del self._assumed[key]
        old = self.watched.get(key)
        self.watched[key] = found
        return old

    def remove(self, key: Key) -> Object | None:
        """The object is gone. Returns what the watch showed, None where it was not there."""
        self._assumed.pop(key, None)
        return self.watched.pop(key, None)

    def assume(self, key: Key, found: Object) -> None:
        """A decision changes the object, which counts while the watch shows its version."""
        watched = self.watched.get(key)
        if watched is not None and watched.resource_version == found.resource_version:
            self._assumed[key] = found

    def forget(self, key: Key, found: Object) -> None:
        """The decision came to nothing."""
        if self._assumed.get(key) is found:
            del self._assumed[key]
