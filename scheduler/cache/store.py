"""The store: the objects of one resource as they are known now, by name. One writer, many readers.

A watch tells the resource versions of one resource in their order, so the store only goes forward, and "everything up
to this version is here" can be waited for. An object that was deleted and made again under its name is another one (by
uid): readers hear of an end and of a beginning, synchronously, after the store has changed.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic

from scheduler.cache.events import (
    Applied,
    Deleted,
    Entry,
    Event,
    Interrupted,
    Key,
    Observed,
    Outdated,
    Refused,
    Restarted,
    T,
)

Handler = Callable[[Entry[T] | None, Entry[T] | None], None]
"""Called with an object as it was and as it is: None before it was there, and after it is gone or refused."""


class Store(Generic[T]):
    """The objects. entries: those that were decoded, refused: those that could not be; both views are live.

    resource_version: everything up to it is here; 0 before the first list. restarts: lists after the first one.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, Entry[T]] = {}
        self._refused: dict[Key, Refused] = {}
        self._handlers: list[Handler[T]] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waits = 0
        self.entries: Mapping[Key, Entry[T]] = MappingProxyType(self._entries)
        self.refused: Mapping[Key, Refused] = MappingProxyType(self._refused)
        self.resource_version = 0
        self.restarts = 0
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> Iterator[T]:
        """What is kept of all objects, in no order."""
        return (entry.value for entry in self._entries.values())

    def get(self, name: str, namespace: str = "") -> T | None:
        """What is kept of the object, None where there is none."""
        entry = self._entries.get(Key(namespace, name))
        return entry.value if entry else None

    def on_change(self, handler: Handler[T]) -> None:
        """Call the handler with every change from now on; what raises in it ends the reflector."""
        self._handlers.append(handler)

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        """True as soon as everything up to this version is here, False where it is not within timeout_s."""
        if self.resource_version >= resource_version:
            return True
        self._waits += 1  # of two futures heapq could not tell the smaller
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (resource_version, self._waits, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        return True

    def take(self, event: Event[T]) -> None:
        """Change as the event tells; for the one writer.

        After a list out of turn the watch is behind: what it tells then is known already, and passed over.
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

    def _swap(self, objects: tuple[Observed[T], ...]) -> None:
        before = dict(self._entries)
        self._entries.clear()
        self._refused.clear()
        for found in objects:
            known = before.get(found.key)
            self._keep(known if known and known.resource_version == found.resource_version else found)
        for key in before.keys() - self._entries.keys():
            self._tell(before[key], None)
        for key, entry in self._entries.items():
            self._tell(before.get(key), entry)
        self.restarts += self.synced.is_set()
        self.synced.set()

    def _apply(self, found: Observed[T]) -> None:
        before = self._entries.get(found.key)
        self._forget(found.key)
        self._keep(found)
        self._tell(before, self._entries.get(found.key))

    def _delete(self, gone: Deleted) -> None:
        before: Observed[T] | None = self._entries.get(gone.key) or self._refused.get(gone.key)
        # An object that was made again under the name is not gone.
        if before is not None and before.uid == gone.uid:
            self._forget(gone.key)
            self._tell(before if isinstance(before, Entry) else None, None)

    def _keep(self, found: Observed[T]) -> None:
        if isinstance(found, Entry):
            self._entries[found.key] = found
        else:
            self._refused[found.key] = found

    def _forget(self, key: Key) -> None:
        self._entries.pop(key, None)
        self._refused.pop(key, None)

    def _tell(self, old: Entry[T] | None, new: Entry[T] | None) -> None:
        if old is new:
            return
        if old and new and old.uid != new.uid:
            self._tell(old, None)
            self._tell(None, new)
            return
        for handler in self._handlers:
            handler(old, new)

    def _proceed(self, resource_version: int) -> None:
        self.resource_version = resource_version
        while self._waiting and self._waiting[0][0] <= resource_version:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
