"""The reflector: fills a store from a watcher, and knows whether the watch is alive.

Each error is logged once, until its reason changes: an object that cannot be decoded, an API server that does not
answer. An unexpected exception of a decoder is logged with its traceback.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, Never

from scheduler.cache.store import Store
from scheduler.cache.watch_events import Applied, Event, Found, Interrupted, Outdated, Restarted, T, Undecoded
from scheduler.cache.watcher import SILENCE_S, Watcher
from scheduler.client.api_resources import Resource
from scheduler.client.errors import CallFailed

ALIVE_S = SILENCE_S + 30.0
"""For so long after the last word of the API server a watch counts as alive: silence is noticed, and it is reopened."""

_LOG = logging.getLogger(__name__)


class Reflector(Generic[T]):
    """One resource's watcher and the store that it fills. clock: seconds, that only go forward.

    trouble: why the watch is down; empty while it works. is_outdated: changes were lost, and all is listed again.
    """

    def __init__(self, watcher: Watcher[T], clock: Callable[[], float]) -> None:
        self.store: Store[T] = Store()
        self.trouble = ""
        self.is_outdated = False
        self._watcher = watcher
        self._clock = clock
        self._heard_at = clock()
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

    def _take(self, event: Event[T]) -> None:
        if isinstance(event, Interrupted):
            self._interrupted(event)
            return
        if isinstance(event, Outdated):
            self.is_outdated = True
            return
        self._heard_at = self._clock()
        self._recovered()
        if isinstance(event, Restarted):
            self.is_outdated = False
        for found in _objects_of(event):
            self._report(found)
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
            known = self.store.undecoded.get(found.key)
            if known is None or known.error != found.error:
                named = str(found.key) if found.key.name else "an object without a name"
                _LOG.warning("%s: skipping %s: %s", self.name, named, found.error, exc_info=found.defect)


def _objects_of(event: Event[T]) -> tuple[Found[T], ...]:
    if isinstance(event, Applied):
        return (event.object,)
    return event.objects if isinstance(event, Restarted) else ()
