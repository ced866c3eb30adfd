"""A kind's objects, listed and watched: lists in pages, backoff, and a store in step with the API server."""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, Never

from scheduler.client import watch_states
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Connection
from scheduler.client.errors import ApiError, CallFailed, TooLarge
from scheduler.client.watch_states import (
    Applied,
    Broken,
    Decoder,
    Deleted,
    Empty,
    Ended,
    Entry,
    Found,
    HistoryLost,
    Holder,
    Input,
    Interrupted,
    Key,
    Opened,
    Outdated,
    Restarted,
    State,
    T,
    Undecoded,
    Unreadable,
    WatchEvent,
    holds_nothing,
    input_of,
    page_of,
)
from scheduler.rates import backoff_s

# How long to wait before calling the API server again: not at all at first, then longer with every failure.
#
# A watch that breaks after it delivered something is reopened at once. Random delays keep clients from returning
# together. Source: the figures of client-go's reflector: 0.8 s doubling to 30 s, each lengthened by up to its own
# length.


@dataclass(frozen=True, slots=True)
class WatchBackoff:
    """The wait after a failure. All in seconds; jitter: the share of a wait that chance may add."""

    first_s: float = 0.8
    longest_s: float = 30.0
    jitter: float = 1.0

    def delay_s(self, failures: int, error: CallFailed | None, chance: float) -> float:
        """The wait after this many failures in a row. chance: 0 to 1.

        error: of the last one, None if a watch just ended. A server that says when to come again is not asked before,
        but for what is longer than the longest wait: who stands between it and us may say anything.
        """
        asked = min((error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0, self.longest_s)
        if failures <= 1:
            return asked
        wait = backoff_s(failures - 1, self.first_s, self.longest_s)
        return max(wait * (1 + self.jitter * chance), asked)


# The watcher: reports all events of one resource, through broken watches, expired versions and restarts of the server.
#
# `watch_states` decides; this module makes the calls and waits between them. A watch that is silent for longer than the
# interval of bookmarks is reopened; one that is reopened again and again and brings nothing counts as dead. Source:
# KEP-956 (bookmarks), KEP-3157 (lists by watch).


SILENCE_S = 90.0
"""After that a watch is taken for dead: the API server sends bookmarks about once a minute."""

VAIN_OPENINGS = 3
"""Watches in a row that may open without an event; from then on an open watch is no sign that the server works, and so
are lists in a row that no watch goes on from.
"""

PAGE_BYTES = 16 << 20
"""Of a page of a list; a larger one is not read, and asked for with fewer objects. Tenants decide how large these are.

Decoded, a page takes up to ten times as much. An object alone is read whatever its size, which etcd limits: without a
list that ends, nothing would be decided.
"""

FEWER = 8
"""A page that is too large is asked for with so many times fewer objects, as are all that follow in this list."""

_PAGE_TIMEOUT_S = 30.0
_WATCH_S = 300

_LOG = logging.getLogger(__name__)

EventHandler = Callable[[WatchEvent[T]], None]


@dataclass(frozen=True, slots=True)
class Watcher(Generic[T]):
    """What is watched and how."""

    connection: Connection
    resource: Resource
    decode: Decoder[T]
    """What is kept of an object."""
    chance: Callable[[], float]
    """Gives a random number from 0 to 1."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """Parameters such as fieldSelector."""
    lists_by_watch: bool = True
    """Ask for a list by a watch first, where the server can give one."""
    backoff: WatchBackoff = field(default_factory=WatchBackoff)
    silence_s: float = SILENCE_S
    held: Holder = holds_nothing
    """What an object holds that cannot be decoded."""

    async def run(self, on_event: EventHandler[T]) -> Never:
        """Report the events until cancelled: first `Restarted`, then changes, `Restarted` again where some were missed.

        Raises HistoryLost.
        """
        course = _Course(on_event, Empty(lists_by_watch=self.lists_by_watch))
        while True:
            before = course.state
            try:
                await self._call(course)
                error = None
            except CallFailed as failed:
                error = failed
            except HistoryLost:
                raise
            except Exception as defect:  # noqa: BLE001 - whatever it is, it must not end the watch
                _LOG.exception("%s: cannot process what the API server sent", self.resource)
                error = Unreadable(f"GET {self.resource.path()}", f"{type(defect).__name__}: {defect}")
            wait_s = self._after(before, course, error)
            await asyncio.sleep(wait_s)

    def _after(self, before: State[T], course: "_Course[T]", error: CallFailed | None) -> float:
        """Take in that the call has failed, if it has. The wait before the next one, in seconds."""
        if error is not None:
            course.take(Broken(error))
        wait_s = self._wait_s(before, course, error)
        if error is not None:
            course.on_event(Interrupted(error, wait_s))
        return wait_s

    async def list_now(self) -> Restarted[T]:
        """List everything now, by pages, whatever the watch has reported so far. Raises CallFailed."""
        events: list[WatchEvent[T]] = []
        course = _Course(events.append, Empty(lists_by_watch=False))
        while not events:
            await self._call(course)
        (listed,) = events
        assert isinstance(listed, Restarted), listed
        return listed

    async def _call(self, course: "_Course[T]") -> None:
        """The call that the state asks for, and all that it answers."""
        path = self.resource.path()
        query = {**self.selector, **watch_states.query_of(course.state, course.page_limit)}
        if watch_states.lists(course.state):
            most_bytes = PAGE_BYTES if course.page_limit > 1 else None
            try:
                page = await self.connection.text(path, query, _PAGE_TIMEOUT_S, most_bytes)
            except TooLarge:
                course.page_limit = max(course.page_limit // FEWER, 1)
                return
            course.take(page_of(f"GET {path}", page, self.decode, self.held))
            return
        # Watches of one start should not all be renewed in one moment.
        query["timeoutSeconds"] = str(int(_WATCH_S * (1 + self.chance())))
        async with self.connection.stream(path, query, self.silence_s) as lines:
            course.take(Opened())
            async for line in lines:
                course.take(input_of(f"GET {path}", line, self.decode, self.held))
                if not watch_states.is_open(course.state):
                    return
        course.take(Ended())

    def _wait_s(self, before: State[T], course: "_Course[T]", error: CallFailed | None) -> float:
        """Nothing where a page came, or where another kind of list is tried next."""
        is_page = error is None and watch_states.lists(before)
        is_other_list = before.lists_by_watch and not course.state.lists_by_watch
        if is_page or is_other_list:
            return 0.0
        return self.backoff.delay_s(course.failures, error, self.chance())


@dataclass(slots=True)
class _Course(Generic[T]):
    """Where a watcher is."""

    on_event: EventHandler[T]
    state: State[T]
    failures: int = 0
    """Calls that ended or broke since a watch last delivered an event. Neither an open watch nor a list resets it: what
    a watch cannot get past is listed again and again.
    """
    openings: int = 0
    """Watches opened since one last delivered anything; lists do not count here either."""
    page_limit: int = watch_states.PAGE_LIMIT
    """How many objects a page of a list has."""

    def take(self, given: Input[T]) -> None:
        self.state, event = watch_states.step(self.state, given)
        if isinstance(given, Ended | Broken):
            self.failures += 1
        elif isinstance(given, Opened):
            self.openings += 1
            event = event if self.openings < VAIN_OPENINGS else None
        elif event is not None and not isinstance(event, Restarted):
            self.openings = self.failures = 0
        if isinstance(event, Restarted):
            self.page_limit = watch_states.PAGE_LIMIT
        if event is not None:
            self.on_event(event)


# The store: the current objects of one resource, by name. One writer, many readers.
#
# A watch reports versions in ascending order, so the store only moves forward, and a reader can wait for "everything up
# to this version". An object that was deleted and created again under its name is another object (by uid): handlers see
# an end and a beginning. Handlers are called synchronously, after the store has changed; an exception of a handler
# affects only that change.


Handler = Callable[[Found[T] | None, Found[T] | None], None]
"""Called with an object as it was and as it is: None before it was there, and after it is gone."""


class Store(Generic[T]):
    """The objects. entries: those that were decoded, undecoded: those that could not be; both views are live.

    resource_version: everything up to it is here; 0 before the first list. restarts: lists after the first one.
    failures: changes that a handler failed at. synced: all was listed once; with needs_all, nothing was left undecoded.
    """

    def __init__(self, *, needs_all: bool = False) -> None:
        self._needs_all = needs_all
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

    def take(self, event: WatchEvent[T]) -> None:
        """Apply the event; for the one writer.

        After a list out of turn the watch is behind: what it reports then is known already, and skipped. What one
        transaction of etcd changes has one version, however many objects that are.
        """
        if isinstance(event, Interrupted | Outdated) or event.resource_version < self.resource_version:
            return
        match event:
            case Restarted(objects):
                self._swap(objects)
            case Applied(applied) if not self._has(applied):
                self._apply(applied)
            case Deleted():
                self._delete(event)
        if not (self._needs_all and self._undecoded):
            self.synced.set()
        self._proceed(event.resource_version)

    def _swap(self, objects: tuple[Found[T], ...]) -> None:
        before: dict[Key, Found[T]] = {**self._entries, **self._undecoded}
        self._entries.clear()
        self._undecoded.clear()
        for listed in objects:
            entry_before = before.get(listed.key)
            identified = _identified(listed, entry_before)
            self._keep(
                entry_before
                if entry_before and entry_before.resource_version == identified.resource_version
                else identified
            )
        now: dict[Key, Found[T]] = {**self._entries, **self._undecoded}
        for key in before.keys() - now.keys():
            self._report(before[key], None)
        for key, entry in now.items():
            self._report(before.get(key), entry)
        self.restarts += self.synced.is_set()

    def _apply(self, applied: Found[T]) -> None:
        before = self._known(applied.key)
        identified = _identified(applied, before)
        self._forget(identified.key)
        self._keep(identified)
        self._report(before, identified)

    def _delete(self, gone: Deleted) -> None:
        before = self._known(gone.key)
        # An object that was made again under the name is not gone.
        if before is not None and before.uid == gone.uid:
            self._forget(gone.key)
            self._report(before, None)

    def _has(self, found: Found[T]) -> bool:
        before = self._known(found.key)
        return before is not None and before.resource_version >= found.resource_version

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


# The reflector: fills a store from a watcher, and knows whether the watch is alive.
#
# Each error is logged once, until its reason changes: an object that cannot be decoded, an API server that does not
# answer. An unexpected exception of a decoder is logged with its traceback.


ALIVE_S = SILENCE_S + 30.0
"""For so long after the last word of the API server a watch counts as alive: silence is noticed, and it is reopened."""


class Reflector(Generic[T]):
    """One resource's watcher and the store that it fills. clock: seconds, that only go forward.

    trouble: why the watch is down; empty while it works. is_outdated: changes were lost, and all is listed again.
    needs_all: as of `Store`.
    """

    def __init__(self, watcher: Watcher[T], clock: Callable[[], float], *, needs_all: bool = False) -> None:
        self.store: Store[T] = Store(needs_all=needs_all)
        self.trouble = ""
        self.is_outdated = False
        self._watcher = watcher
        self._clock = clock
        self._heard_at = clock()
        self._vain_lists = 0
        self._listing = asyncio.Lock()
        self._lists_begun = 0
        self._listed = 0
        self._failed = 0
        self._failure: CallFailed | None = None

    @property
    def name(self) -> str:
        """The resource and its version."""
        return str(self._watcher.resource)

    @property
    def resource(self) -> Resource:
        """The watched resource."""
        return self._watcher.resource

    async def run(self) -> Never:
        """Fill the store until cancelled. Raises HistoryLost."""
        await self._watcher.run(self._take)

    async def catch_up(self) -> None:
        """List everything now, beside the watch, and take in what is newer. Raises CallFailed.

        Of several that ask at once, one lists for all; if that fails, it fails for all. So nobody waits for more than
        the list that is under way and the next one.
        """
        begun = self._lists_begun
        async with self._listing:
            if self._listed > begun:
                return  # a list has succeeded that began after we asked
            if self._failure and self._failed > begun:
                raise self._failure.with_traceback(None)
            self._lists_begun += 1
            number = self._lists_begun
            try:
                self._take(await self._watcher.list_now())
            except CallFailed as error:
                self._failed, self._failure = number, error
                raise
            self._listed, self._failure = number, None

    def silence_s(self, now: float) -> float:
        """How long the API server has been silent."""
        return now - self._heard_at

    def is_alive(self, now: float) -> bool:
        """Whether the API server has sent anything recently, if only a bookmark."""
        return self.store.synced.is_set() and self.silence_s(now) < ALIVE_S

    def _take(self, event: WatchEvent[T]) -> None:
        if isinstance(event, Interrupted):
            self._interrupted(event)
            return
        if isinstance(event, Outdated):
            self.is_outdated = True
            return
        self._vain_lists = self._vain_lists + 1 if isinstance(event, Restarted) else 0
        if self._vain_lists < VAIN_OPENINGS:
            self._heard_at = self._clock()
        self._recovered()
        if isinstance(event, Restarted):
            self.is_outdated = False
        for received in _objects_of(event):
            self._report(received)
        self.store.take(event)

    def _interrupted(self, event: Interrupted) -> None:
        if str(event.error) != self.trouble:
            _LOG.warning("%s: %s; retrying in %.1f s", self.name, event.error, event.retry_in_s)
        self.trouble = str(event.error)

    def _recovered(self) -> None:
        if self.trouble:
            _LOG.info("%s: the watch works again", self.name)
        self.trouble = ""

    def _report(self, found: Found[T]) -> None:
        if isinstance(found, Undecoded):
            reported = self.store.undecoded.get(found.key)
            if reported is None or reported.error != found.error:
                named = str(found.key) if found.key.name else "an object without a name"
                _LOG.warning("%s: skipping %s: %s", self.name, named, found.error, exc_info=found.defect)


def _objects_of(event: WatchEvent[T]) -> tuple[Found[T], ...]:
    if isinstance(event, Applied):
        return (event.object,)
    return event.objects if isinstance(event, Restarted) else ()
