"""Keeps room for pods for which others move: what `dra defrag --apply` asks of a scheduler that runs.

A nomination that this scheduler has not made may come with such a request; the pod is read, since watches do not keep
the messages of conditions. The record is that of a preemption whose victims somebody else evicts. At the time of the
request it is read again: it was renewed, or what was kept is free for all.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from weakref import WeakValueDictionary

from allocator.outcome import AllocationError
from scheduler.attempt import eviction
from scheduler.attempt import room as rooms
from scheduler.attempt.binder import Binder
from scheduler.attempt.room import Room
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.decision.time_limits import FACTOR, FREE_S, TOGETHER, TooLong
from scheduler.live.preemptions import Preemptions
from scheduler.rates import backoff_s
from scheduler.state.cluster_changes import Event, PodChanged

AGAIN_S = 5.0
MOST_AGAIN_S = 300.0
"""After so long a pod that could not be read or written is tried again; a write waits longer each time."""

_LOG = logging.getLogger(__name__)


class KeptRooms:
    """start: lets work go on beside. is_ours: whether a pod is this scheduler's. known: a pod by its uid, as watched.

    is_on: whether this process may write.

    What a pod asks for may take long to decide, and any number of them may have requests, as after a start. So they
    take turns: after a long one all wait, and those of its namespace longer.
    """

    def __init__(
        self,
        binder: Binder,
        preemptions: Preemptions,
        is_ours: Callable[[Pod], bool],
        known: Callable[[str], Pod | None],
        start: Callable[..., object],
    ) -> None:
        self.is_on = False
        self._binder, self._preemptions, self._is_ours = binder, preemptions, is_ours
        self._known, self._start = known, start
        self._kept: dict[str, tuple[Room, asyncio.TimerHandle]] = {}
        """Of pods by uid, with what ends it."""
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._next_at = 0.0
        self._next_of: dict[str, float] = {}
        """Of namespaces whose last turn was a long one."""

    def on_event(self, event: Event) -> None:
        """A watch shows a pod: it may be nominated by somebody else, or need its room no more."""
        if not isinstance(event, PodChanged) or not self.is_on:
            return
        old, new = event.old, event.new
        if new is None:
            self._forget(old.uid if old is not None else "")
            return
        kept, _ = self._kept.get(new.uid, (None, None))
        if kept is not None and (not _waits(new) or new.nominated_node != kept.node):
            self._forget(new.uid)
            self._start(self._say_ended(new, kept))
        if new.nominated_node and new.nominated_node != (old.nominated_node if old is not None else ""):
            self.look(new)

    def look(self, pod: Pod) -> None:
        """Look for a request on the pod, which is nominated."""
        # What waits for its devices was nominated by its own attempt.
        is_binding = any(one.reason == "BindingPending" for one in pod.conditions)
        is_known = pod.uid in self._preemptions.records or is_binding
        if self._is_ours(pod) and _waits(pod) and not is_known:
            self._start(self._look(pod))

    async def _look(self, pod: Pod) -> None:
        key = (pod.namespace, pod.name)
        try:
            _, room = await rooms.read(self._binder.api, key, pod.uid)
            while room is not None and await self._has_waited(pod.namespace):
                _, room = await rooms.read(self._binder.api, key, pod.uid)  # there may be another request by now
            if room is None or not self._is_asked(pod, room):
                return
            left_s = self._left_s(room)
            if left_s <= 0:
                reason = rooms.LATE
                _LOG.warning("pod %s: no room is kept on node %s: its time is over for %.0f s", pod, room.node, -left_s)
            elif self._keep(pod, room):
                reason = rooms.KEPT
                self._later(pod, room, left_s)
            else:
                reason = rooms.FULL
                _LOG.info("pod %s: no room is kept on node %s: it has none", pod, room.node)
            await self._answer(pod, room, reason)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot keep room for it: %s", pod, error)

    async def _answer(self, pod: Pod, room: Room, reason: str) -> None:
        async with self._in_order(pod):
            if reason != rooms.KEPT:
                await self._deny(pod, room, reason, withdraws=True)
                return
            await rooms.answer(self._binder, pod, room, reason)
        if pod.uid not in self._kept:  # it ended meanwhile, and that may have been said before
            await self._say_ended(pod, room)

    async def _deny(self, pod: Pod, room: Room, reason: str, *, withdraws: bool) -> None:
        """No room is kept. withdraws: the nomination ends as well. Another request stays, with its own."""
        stored, _ = await rooms.read(self._binder.api, (pod.namespace, pod.name), pod.uid)
        if stored is None:
            return
        asked = rooms.request_of(stored)
        is_left = asked is not None and asked.name == room.name  # not where another one may come any moment
        await rooms.answer(self._binder, pod, room, reason, is_asked=not is_left)
        is_nominated = (stored.get("status") or {}).get("nominatedNodeName") == room.node
        if withdraws and is_nominated and (is_left or asked is None):
            await eviction.clear_nomination(self._binder, pod)

    async def _say_ended(self, pod: Pod, room: Room) -> None:
        """The pod has its node, or is promised another one or none: by whom the room was not kept."""
        try:
            async with self._in_order(pod):
                await self._deny(pod, room, rooms.ENDED, withdraws=False)
        except CallFailed as error:
            if self._known(pod.uid) is not None:
                _LOG.warning("pod %s: cannot say that no room is kept for it any more: %s", pod, error)

    def _in_order(self, pod: Pod) -> asyncio.Lock:
        """What is written of one pod is written one after the other: the last word stays."""
        lock = self._locks.get(pod.uid)
        if lock is None:
            lock = self._locks[pod.uid] = asyncio.Lock()
        return lock

    def _is_asked(self, pod: Pod, room: Room) -> bool:
        """Whether the watch shows it still: no event would end what is kept for a request that is over."""
        shown = self._known(pod.uid)
        is_nominated = shown is not None and shown.nominated_node == room.node and _waits(shown)
        return is_nominated and pod.uid not in self._preemptions.records

    async def _has_waited(self, namespace: str) -> bool:
        """Returns when it is the namespace's turn; whether that took a while."""
        has_waited = False
        while (wait_s := max(self._next_at, self._next_of.get(namespace, 0.0)) - self._now()) > 0:
            await self._binder.time.sleep(wait_s)
            has_waited = True
        return has_waited

    def _keep(self, pod: Pod, room: Room) -> bool:
        began = self._now()
        try:
            return self._preemptions.keep(pod, room.node, room.moving, began)
        except (AllocationError, TooLong) as error:
            _LOG.warning("pod %s: no room is kept for it: %s", pod, error)
            return False
        finally:
            now = self._now()
            if (took_s := now - began) > FREE_S:
                self._next_at = now + TOGETHER * took_s
                self._next_of = {name: at for name, at in self._next_of.items() if at > now}
                self._next_of[pod.namespace] = now + FACTOR * took_s

    def _now(self) -> float:
        return self._binder.time.monotonic()

    def _left_s(self, room: Room) -> float:
        """How long the room is to be kept from now on."""
        return room.until - self._binder.time.now().timestamp()

    def _forget(self, uid: str) -> None:
        if kept := self._kept.pop(uid, None):
            kept[1].cancel()

    def _later(self, pod: Pod, room: Room, wait_s: float, then: Callable[[Pod, Room], object] | None = None) -> None:
        self._forget(pod.uid)
        loop, act = asyncio.get_running_loop(), then or self._end
        timer = loop.call_later(max(wait_s, 0.0), lambda: self._start(act(pod, room)))
        self._kept[pod.uid] = room, timer

    async def _end(self, pod: Pod, room: Room) -> None:
        """The time is over, unless it was made longer."""
        if not self._preemptions.is_kept_for_moves(pod.uid):  # it has won a place since
            self._forget(pod.uid)
            await self._say_ended(pod, room)
            return
        try:
            _, asked = await rooms.read(self._binder.api, (pod.namespace, pod.name), pod.uid)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot read for how long room is kept for it: %s", pod, error)
            self._later(pod, room, AGAIN_S)
            return
        if asked is not None and (left_s := self._left_s(asked)) > 0:
            self._later(pod, asked, left_s)
            return
        self._preemptions.drop(pod.uid)
        await self._release(pod, room)

    async def _release(self, pod: Pod, room: Room, tries: int = 1) -> None:
        """Nothing is kept any more: say so, and take the nomination back."""
        self._forget(pod.uid)
        try:
            await self._answer(pod, room, rooms.ENDED)
        except CallFailed as error:
            if self._known(pod.uid) is None:
                return  # it has gone meanwhile
            _LOG.warning("pod %s: cannot take its nomination back: %s", pod, error)
            wait_s = backoff_s(tries, AGAIN_S, MOST_AGAIN_S)
            self._later(pod, room, wait_s, partial(self._release, tries=tries + 1))


def _waits(pod: Pod) -> bool:
    """Whether the pod has no node yet, and needs one."""
    return not pod.node_name and not pod.is_over
