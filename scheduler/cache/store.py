"""The store: the current objects of one resource, by name. One writer, many readers.

A watch reports versions in ascending order, so the store only moves forward, and a reader can wait for "everything up
to this version". An object that was deleted and created again under its name is another object (by uid): handlers see
an end and a beginning. Handlers are called synchronously, after the store has changed; an exception of a handler
affects only that change.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Generic

from scheduler.cache.watch_events import (
    Applied,
    Deleted,
    Entry,
    Event,
    Found,
    Interrupted,
    Key,
    Outdated,
    Restarted,
    T,
    Undecoded,
)

Handler = Callable[[Found[T] | None, Found[T] | None], None]
"""Called with an object as it was and as it is: None before it was there, and after it is gone."""

_LOG = logging.getLogger(__name__)


class Store(Generic[T]):
    """The objects. entries: those that were decoded, undecoded: those that could not be; both views are live.

    resource_version: everything up to it is here; 0 before the first list. restarts: lists after the first one.
    failures: changes that a handler failed at.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, Entry[T]] = {}
        self._undecoded: dict[Key, Undecoded] = {}
        self._handlers: list[Handler[T]] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waits = 0
        self.entries: Mapping[Key, Entry[T]] = MappingProxyType(self._entries)
        self.undecoded: Mapping[Key, Undecoded] = MappingProxyType(self._undecoded)
        self.resource_version = 0
        self.restarts = 0
        self.failures = 0
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> Iterator[T]:
        """The kept values of all objects, in no particular order."""
        return (entry.value for entry in self._entries.values())

    def get(self, name: str, namespace: str = "") -> T | None:
        """The kept value of the object; None if it does not exist."""
        entry = self._entries.get(Key(namespace, name))
        return entry.value if entry else None

    def on_change(self, handler: Handler[T]) -> None:
        """Call the handler with every change from now on; what raises in it is logged and counted."""
        self._handlers.append(handler)

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        """True as soon as everything up to this version is here, False where it is not within timeout_s."""
        if self.resource_version >= resource_version:
            return True
        self._waits += 1  # heapq cannot compare two futures
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (resource_version, self._waits, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        return True

    def take(self, event: Event[T]) -> None:
        """Apply the event; for the one writer.

        After a list out of turn the watch is behind: what it reports then is known already, and skipped.
        """
        if isinstance(event, Interrupted | Outdated) or event.resource_version < self.resource_version:
            return
        match event:
            case Restarted(objects):
                self._swap(objects)
            case Applied(found) if event.resource_version > self.resource_version:
                self._apply(found)
            case Deleted() if event.resource_version > self.resource_version:
                self._delete(event)
        self._proceed(event.resource_version)

    def _swap(self, objects: tuple[Found[T], ...]) -> None:
        before: dict[Key, Found[T]] = {**self._entries, **self._undecoded}
        self._entries.clear()
        self._undecoded.clear()
        for listed in objects:
            known = before.get(listed.key)
            found = _identified(listed, known)
            self._keep(known if known and known.resource_version == found.resource_version else found)
        now: dict[Key, Found[T]] = {**self._entries, **self._undecoded}
        for key in before.keys() - now.keys():
            self._report(before[key], None)
        for key, known in now.items():
            self._report(before.get(key), known)
        self.restarts += self.synced.is_set()
        self.synced.set()

    def _apply(self, applied: Found[T]) -> None:
        before = self._known(applied.key)
        found = _identified(applied, before)
        self._forget(found.key)
        self._keep(found)
        self._report(before, found)

    def _delete(self, gone: Deleted) -> None:
        before = self._known(gone.key)
        # An object that was made again under the name is not gone.
        if before is not None and before.uid == gone.uid:
            self._forget(gone.key)
            self._report(before, None)

    def _known(self, key: Key) -> Found[T] | None:
        return self._entries.get(key) or self._undecoded.get(key)

    def _keep(self, found: Found[T]) -> None:
        if isinstance(found, Entry):
            self._entries[found.key] = found
        else:
            self._undecoded[found.key] = found

    def _forget(self, key: Key) -> None:
        self._entries.pop(key, None)
        self._undecoded.pop(key, None)

    def _report(self, old: Found[T] | None, new: Found[T] | None) -> None:
        if old is new:
            return
        if old and new and old.uid != new.uid:
            self._report(old, None)
            self._report(None, new)
            return
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:  # noqa: BLE001 - whatever it is, it must not cost other objects
                self.failures += 1
                _LOG.exception("cannot apply a change from %s to %s", _shown(old), _shown(new))

    def _proceed(self, resource_version: int) -> None:
        self.resource_version = resource_version
        while self._waiting and self._waiting[0][0] <= resource_version:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)


def _identified(found: Found[T], before: Found[T] | None) -> Found[T]:
    """An object whose uid cannot be read is the one that has had its name so far."""
    return replace(found, uid=before.uid) if isinstance(found, Undecoded) and not found.uid and before else found


def _shown(found: object) -> str:
    return f"{found.key} at {found.resource_version}" if isinstance(found, Entry | Undecoded) else "nothing"
