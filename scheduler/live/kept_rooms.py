"""Keeps room for pods for which others move: what `dra defrag --apply` asks of a scheduler that runs.

A nomination that this scheduler has not made may come with such a request; the pod is read, since watches do not keep
annotations. The record is that of a preemption whose victims somebody else evicts. At the time of the request it is
read again: it was renewed, or what was kept is free for all.
"""

import asyncio
import logging
from collections.abc import Callable

from allocator.outcome import AllocationError
from scheduler.attempt import room as rooms
from scheduler.attempt.binder import Binder
from scheduler.attempt.room import Room
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.decision.time_limits import FACTOR, FREE_S, TOGETHER, TooLong
from scheduler.live.preemptions import Preemptions
from scheduler.state.cluster_changes import Event, PodChanged

AGAIN_S = 5.0
"""After so long a pod that could not be read is read again."""

_LOG = logging.getLogger(__name__)


class KeptRooms:
    """wall: the time in seconds since 1970. start: lets work go on beside. is_ours: whether a pod is this scheduler's.

    is_on: whether this process may write.

    What a pod asks for may take long to decide, and any number of them may have requests, as after a start. So they
    take turns: after a long one all wait, and those of its namespace longer.
    """

    def __init__(
        self,
        binder: Binder,
        preemptions: Preemptions,
        is_ours: Callable[[Pod], bool],
        wall: Callable[[], float],
        start: Callable[..., object],
    ) -> None:
        self.is_on = False
        self._binder, self._preemptions, self._is_ours = binder, preemptions, is_ours
        self._wall, self._start = wall, start
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._next_at = 0.0
        self._next_of: dict[str, float] = {}
        """Of namespaces whose last turn was a long one."""

    def on_event(self, event: Event) -> None:
        """A watch shows a pod: it may be nominated by somebody else."""
        if isinstance(event, PodChanged) and event.new is not None and self.is_on:
            old = event.old.nominated_node if event.old is not None else ""
            if event.new.nominated_node and event.new.nominated_node != old:
                self.look(event.new)

    def look(self, pod: Pod) -> None:
        """Look for a request on the pod, which is nominated."""
        # What waits for its devices was nominated by its own attempt.
        is_binding = any(one.reason == "BindingPending" for one in pod.conditions)
        is_known = pod.uid in self._preemptions.records or is_binding
        if self._is_ours(pod) and not pod.node_name and not pod.is_over and not is_known:
            self._start(self._look(pod))

    async def _look(self, pod: Pod) -> None:
        key = (pod.namespace, pod.name)
        try:
            _, room = await rooms.read(self._binder.api, key, pod.uid)
            if room is None or pod.uid in self._preemptions.records:
                return
            await self._rested(pod.namespace)
            left_s = room.until - self._wall()
            if left_s <= 0:
                reason = rooms.LATE
                _LOG.warning("pod %s: no room is kept on node %s: its time is over for %.0f s", pod, room.node, -left_s)
            elif self._keep(pod, room):
                reason = rooms.KEPT
                self._later(pod, left_s)
            else:
                reason = rooms.FULL
                _LOG.info("pod %s: no room is kept on node %s: it has none", pod, room.node)
            await rooms.answer(self._binder, pod, room, reason)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot keep room for it: %s", pod, error)

    async def _rested(self, namespace: str) -> None:
        while (wait_s := max(self._next_at, self._next_of.get(namespace, 0.0)) - self._now()) > 0:
            await self._binder.time.sleep(wait_s)

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

    def _later(self, pod: Pod, wait_s: float) -> None:
        if known := self._timers.pop(pod.uid, None):
            known.cancel()
        loop = asyncio.get_running_loop()
        self._timers[pod.uid] = loop.call_later(max(wait_s, 0.0), lambda: self._start(self._end(pod)))

    async def _end(self, pod: Pod) -> None:
        """The time is over, unless it was made longer."""
        self._timers.pop(pod.uid, None)
        if not self._preemptions.is_kept_for_moves(pod.uid):
            return
        key = (pod.namespace, pod.name)
        try:
            _, room = await rooms.read(self._binder.api, key, pod.uid)
            if room is not None and room.until > self._wall():
                self._later(pod, room.until - self._wall())
                return
            self._preemptions.drop(pod.uid)
            if room is not None:
                await rooms.answer(self._binder, pod, room, rooms.ENDED)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot release the room that is kept for it: %s", pod, error)
            self._later(pod, AGAIN_S)
