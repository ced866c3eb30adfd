"""The watcher: reports all events of one resource, through broken watches, expired versions and restarts of the server.

`states` decides; this module makes the calls and waits between them. A watch that is silent for longer than the
interval of bookmarks is reopened; one that is reopened again and again and brings nothing counts as dead.
Source: KEP-956 (bookmarks), KEP-3157 (lists by watch).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Never

from scheduler.cache import states
from scheduler.cache.decoding import holds_nothing, input_of, page_of
from scheduler.cache.states import Broken, Empty, Ended, HistoryLost, Input, Opened, State
from scheduler.cache.watch_backoff import WatchBackoff
from scheduler.cache.watch_events import Decoder, Event, Holder, Interrupted, Restarted, T, Unreadable
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Connection
from scheduler.client.errors import CallFailed, TooLarge

SILENCE_S = 90.0
"""After that a watch is taken for dead: the API server sends bookmarks about once a minute."""

VAIN_OPENINGS = 3
"""Watches in a row that may open without an event; from then on an open watch is no sign that the server works."""

PAGE_BYTES = 16 << 20
"""Of a page of a list; a larger one is not read, and asked for with fewer objects. Tenants decide how large these are.

Decoded, a page takes up to ten times as much. An object alone is read whatever its size, which etcd limits.
"""

FEWER = 8
"""A page that is too large is asked for with so many times fewer objects, as are all that follow in this list."""

_PAGE_TIMEOUT_S = 30.0
_WATCH_S = 300

_LOG = logging.getLogger(__name__)

EventHandler = Callable[[Event[T]], None]


@dataclass(frozen=True, slots=True)
class Watcher(Generic[T]):
    """What is watched and how. decode: what is kept of an object; selector: parameters such as fieldSelector.

    held: what an object holds that cannot be decoded. chance: gives a random number from 0 to 1. lists_by_watch: ask
    for that first, where the server can.
    """

    connection: Connection
    resource: Resource
    decode: Decoder[T]
    chance: Callable[[], float]
    selector: Mapping[str, str] = field(default_factory=dict)
    lists_by_watch: bool = True
    backoff: WatchBackoff = field(default_factory=WatchBackoff)
    silence_s: float = SILENCE_S
    held: Holder = holds_nothing

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
        events: list[Event[T]] = []
        course = _Course(events.append, Empty(lists_by_watch=False))
        while not events:
            await self._call(course)
        (listed,) = events
        assert isinstance(listed, Restarted), listed
        return listed

    async def _call(self, course: "_Course[T]") -> None:
        """The call that the state asks for, and all that it answers."""
        path = self.resource.path()
        query = {**self.selector, **states.query_of(course.state, course.page_limit)}
        if states.lists(course.state):
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
                if not states.is_open(course.state):
                    return
        course.take(Ended())

    def _wait_s(self, before: State[T], course: "_Course[T]", error: CallFailed | None) -> float:
        """Nothing where a page came, or where another kind of list is tried next."""
        is_page = error is None and states.lists(before)
        is_other_list = before.lists_by_watch and not course.state.lists_by_watch
        if is_page or is_other_list:
            return 0.0
        return self.backoff.delay_s(course.failures, error, self.chance())


@dataclass(slots=True)
class _Course(Generic[T]):
    """Where a watcher is.

    failures: calls that ended or broke since a watch last delivered an event. Neither an open watch nor a list resets
    it: what a watch cannot get past is listed again and again. openings: watches opened since anything was last
    delivered. page_limit: objects in a page of a list.
    """

    on_event: EventHandler[T]
    state: State[T]
    failures: int = 0
    openings: int = 0
    page_limit: int = states.PAGE_LIMIT

    def take(self, given: Input[T]) -> None:
        self.state, event = states.step(self.state, given)
        if isinstance(given, Ended | Broken):
            self.failures += 1
        elif isinstance(given, Opened):
            self.openings += 1
            event = event if self.openings < VAIN_OPENINGS else None
        elif event is not None:
            self.openings = 0
            self.failures = self.failures if isinstance(event, Restarted) else 0
        if isinstance(event, Restarted):
            self.page_limit = states.PAGE_LIMIT
        if event is not None:
            self.on_event(event)
