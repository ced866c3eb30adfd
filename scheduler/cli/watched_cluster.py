"""A live cluster that is followed by watches, as the scheduler follows it; only with calls that read."""

import asyncio
import logging
import math
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator.gates import Features
from scheduler import garbage
from scheduler.cli.cluster_source import ClusterSource
from scheduler.cli.ending import TERMINATED, stop
from scheduler.cli.live_cluster import connected
from scheduler.cli.watching import PrintedText, PrintedUpdates
from scheduler.client.api_resources import NAMESPACES, Resource
from scheduler.client.connection import Connection
from scheduler.client.discovery import NotServed, Served
from scheduler.client.errors import CallFailed, NotConfigured
from scheduler.client.watch_states import Found, HistoryLost
from scheduler.client.watcher import Reflector
from scheduler.decision.cluster import Cluster
from scheduler.runtime.cluster_updates import ClusterUpdates
from scheduler.runtime.core import WatchedState
from scheduler.status import ClaimStatus, claim_statuses

LOOK_S = 0.05
"""How often it is looked whether everything has been listed."""

TICK_S = 1.0
"""How often it is looked whether the connection is lost, or is back."""

RESTS_PER_WORK = 4
"""After so long at work the next text waits so many times as long: a busy cluster does not take the processor."""

MOST_SKIPPED = 3
"""Objects that cannot be read that are named; of more, only the number is given."""


class CannotWatch(Exception):
    """Devices or claims cannot be listed."""


class WatchedCluster:
    """The cluster as the watches show it. is_changed: since the text was last made; changed: wakes who makes it."""

    def __init__(self, connection: Connection, served: Served, features: Features) -> None:
        self.cluster = Cluster(features, is_ours=None)
        self.is_changed = True
        self.changed = asyncio.Event()
        self._watched = WatchedState(connection, served, random.random, time.monotonic, places_pods=False)
        self._updates = ClusterUpdates(self.cluster)
        self._watched.on_change(self._on_change)

    def _on_change(self, resource: Resource, old: Found[Any] | None, new: Found[Any] | None) -> None:
        self._updates.update(resource, old, new)
        self.is_changed = True
        self.changed.set()

    async def run(self) -> None:
        """Follow the cluster until cancelled. Raises HistoryLost, in a group."""
        await self._watched.run()

    async def filled(self) -> None:
        """Return once everything was listed, as far as it can be. Raises CannotWatch."""
        needed = (self._watched.slices, self._watched.classes, self._watched.claims)
        while waiting := [reflector for reflector in self._reflectors if not reflector.store.synced.is_set()]:
            for reflector in needed:
                if reflector in waiting and reflector.trouble:
                    raise CannotWatch(reflector.trouble)
            if all(reflector.trouble for reflector in waiting):
                return
            await asyncio.sleep(LOOK_S)

    @property
    def _reflectors(self) -> Sequence[Reflector[Any]]:
        """Those of what is shown."""
        return [one for one in self._watched if one.resource != NAMESPACES]

    def claims(self, is_shown: Callable[[Any], bool]) -> Sequence[ClaimStatus]:
        """The claims that are shown. is_shown: of a claim object."""
        shown = filter(is_shown, self._watched.claims.store.values())
        return claim_statuses(shown, self._watched.pods.store.values())

    def is_lost(self) -> bool:
        """Whether nothing at all can be watched."""
        return all(one.trouble for one in self._reflectors)

    def trouble(self) -> str:
        """Why the first of the watches is down; empty where all work."""
        return next((one.trouble for one in self._reflectors if one.trouble), "")

    def warnings(self) -> Iterator[str]:
        """What does not count, and why."""
        if not self.is_lost():
            for reflector in self._reflectors:
                if reflector.trouble:
                    what = "may be old" if reflector.store.synced.is_set() else "do not count"
                    yield f"warning: {reflector.resource.plural} cannot be watched, and {what}: {reflector.trouble}"
        skipped = [
            f"{reflector.resource.kind} {found.key} cannot be read: {found.error}"
            for reflector in self._reflectors
            for found in reflector.store.undecoded.values()
        ]
        yield from (f"warning: {text}" for text in skipped[:MOST_SKIPPED])
        if len(skipped) > MOST_SKIPPED:
            yield f"warning: {len(skipped) - MOST_SKIPPED} more objects cannot be read"


@dataclass(slots=True)
class _ConnectionNote:
    """What is to be said of the connection. now: the time of day."""

    now: Callable[[], datetime]
    lost_at: str = ""
    back_at: str = ""

    def text(self, live: WatchedCluster) -> str:
        """A line, or nothing while it has never been lost."""
        if live.is_lost():
            if not self.lost_at or self.back_at:
                self.lost_at, self.back_at = self._time(), ""
            return f"connection lost at {self.lost_at}, trying again; what is shown may be old: {live.trouble()}"
        if self.lost_at and not self.back_at and not live.trouble():
            self.back_at = self._time()
        return f"connection lost at {self.lost_at}, back at {self.back_at}" if self.back_at else ""

    def _time(self) -> str:
        return self.now().strftime("%H:%M:%S")


@dataclass(frozen=True, slots=True)
class Following:
    """How a cluster is followed. text_of: what is shown. interval_s: between two texts, at least.

    ages_s: after so long the text is made again although nothing has changed, since it says how old something is.
    """

    text_of: Callable[[WatchedCluster], str]
    interval_s: float
    ages_s: float = math.inf

    def run(self, source: ClusterSource, printed: PrintedUpdates) -> None:
        """Follow the cluster until Ctrl-C. What cannot be read at first ends the command."""
        logging.getLogger("scheduler").addHandler(logging.NullHandler())  # the notes say what the watches log
        try:
            asyncio.run(self._follow(source, printed))
        except (NotConfigured, NotServed, CallFailed, CannotWatch) as error:
            stop(str(error))
        except asyncio.CancelledError:
            sys.exit(TERMINATED)

    async def _follow(self, source: ClusterSource, printed: PrintedUpdates) -> None:
        task = asyncio.current_task()
        assert task
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # the terminal is given back
        async with connected(source.access) as (connection, served, _):
            live = WatchedCluster(connection, served, source.choice.features(served))
            work = asyncio.create_task(live.run()), asyncio.create_task(self._show(live, printed))
            try:
                ended, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
                await ended.pop()
            except* HistoryLost as lost:
                raise CannotWatch(str(lost.exceptions[0])) from lost
            finally:
                for running in work:
                    running.cancel()
                await asyncio.wait(work)

    async def _show(self, live: WatchedCluster, printed: PrintedUpdates) -> None:
        """Show the text, and after changes the next one."""
        await live.filled()
        garbage.keep()  # a command is not expected to last
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, live.changed.set)
        connection = _ConnectionNote(datetime.now)
        text, made_at, pause_s = "", -math.inf, 0.0
        with printed:
            while True:
                live.changed.clear()
                began = time.monotonic()
                if live.is_changed or began >= made_at + self.ages_s:
                    live.is_changed = False
                    text, made_at = self.text_of(live), began
                    pause_s = max(self.interval_s, RESTS_PER_WORK * (time.monotonic() - began))
                printed.show(PrintedText(text, "\n".join(filter(None, [connection.text(live), *live.warnings()]))))
                await asyncio.sleep(pause_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await live.changed.wait()
