"""The engine: events and decisions in the order of a virtual clock.

The queue is the live scheduler's, with its backoff and its hints, and so is each decision; a decision takes no time.
Events of one moment happen in the order in which they were given, before the decisions of that moment. The same events
give the same answers on every machine.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import count

from allocator.model import Claim, Slice
from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import Failed, NotPlaced, Placed
from scheduler.offline.placement import Look, PlacedPod, Placement, UnplacedPod
from scheduler.plugins.plugin import Reason
from scheduler.queue.queue import PodBackoff, PodPlace, Queue, QueuedPod
from scheduler.simulation.events import Event, NodeAppears, NodeGoes, PodArrives, PodGoes, SliceAppears, SliceGoes
from scheduler.state.changes import ClaimChanged, NodeChanged, PodChanged, SliceChanged
from scheduler.state.changes import Event as Change


@dataclass(frozen=True, slots=True)
class Attempted:
    """What became of a pod at a moment. node: empty where it got none. attempt: which one it was, from 1.

    reasons: why it got none, of all nodes together. failure: why nothing can be decided, or the pod is not tried.
    """

    time_s: float
    pod: Pod
    attempt: int
    node: str = ""
    reasons: frozenset[Reason] = frozenset()
    failure: str = ""


class Simulation:
    """A run over the cluster of a placement, which it changes.

    on_decision: called with each. retries: a refused pod waits for what may help it, as in a living cluster; where it
    does not, it is given up.
    """

    def __init__(self, placement: Placement, on_decision: Callable[[Attempted], None], *, retries: bool = True) -> None:
        self.now = 0.0
        self.placed: dict[str, PlacedPod] = {}
        self._placement = placement
        self._cluster = placement.cluster
        self._on_decision = on_decision
        self._retries = retries
        self._durations: dict[str, float] = {}
        self._slices: dict[str, Slice] = {}
        self._events: list[tuple[float, int, Event]] = []
        self._numbers = count()
        self._queue = Queue(0.0, gate=lambda _: "", on_move=lambda _place, _why: None, backoff=PodBackoff())

    def waiting(self) -> int:
        """How many pods wait."""
        return sum(self._queue.pending().values())

    def run(self, events: Iterable[tuple[float, Event]]) -> None:
        """Let the events happen at their times, in seconds, and all that follows from them.

        It ends when nothing more happens: pods that only an event could help are left waiting.
        Cost: O(events) decisions, and those of pods that events may help.
        """
        for time_s, event in events:
            self._events.append((time_s, next(self._numbers), event))
        heapify(self._events)
        while (moment := self._next_moment()) is not None:
            self.now = max(self.now, moment)
            while self._events and self._events[0][0] <= self.now:
                self._happen(heappop(self._events)[2])
            while entry := self._queue.pop(self.now):
                self._attempt(entry)

    def _next_moment(self) -> float | None:
        times = [self._events[0][0]] if self._events else []
        pending = self._queue.pending()
        if times or pending[PodPlace.ACTIVE] or pending[PodPlace.BACKOFF]:
            ready = self._queue.next_ready(self.now)
            times += [] if ready is None else [ready]
        return min(times, default=None)

    # -- decisions

    def _attempt(self, entry: QueuedPod) -> None:
        look = self._placement.look(entry.pod)
        match look.result or self._placement.decide(look):
            case Placed() as chosen:
                self._commit(entry, look, chosen)
            case NotPlaced() as refused:
                self._tell(entry, reasons=refused.refusal.reasons)
                if self._retries:
                    self._queue.refused(entry.pod.uid, refused.refusal, self.now)
                else:
                    self._queue.done(entry.pod.uid)
            case Failed(reason) | UnplacedPod(reason=reason):
                self._tell(entry, failure=reason)
                self._queue.done(entry.pod.uid)
            case PlacedPod() as placed:
                self.placed[entry.pod.uid] = placed
                self._queue.done(entry.pod.uid)

    def _commit(self, entry: QueuedPod, look: Look, chosen: Placed) -> None:
        uid = entry.pod.uid
        placed = self.placed[uid] = self._placement.commit(look, chosen)
        self._queue.done(uid)
        self._tell(entry, node=chosen.node)
        self._note(PodChanged(entry.pod, replace(entry.pod, node_name=placed.node)))
        if (duration := self._durations.pop(uid, None)) is not None:
            heappush(self._events, (self.now + duration, next(self._numbers), PodGoes(uid)))

    def _tell(
        self, entry: QueuedPod, *, node: str = "", reasons: frozenset[Reason] = frozenset(), failure: str = ""
    ) -> None:
        self._on_decision(Attempted(self.now, entry.pod, entry.attempts, node, reasons, failure))

    # -- events

    def _happen(self, event: Event) -> None:
        match event:
            case PodArrives(pod, duration_s):
                if duration_s is not None:
                    self._durations[pod.uid] = duration_s
                self._queue.add(pod, self.now)
            case PodGoes(uid):
                for change in self._go(uid):
                    self._note(change)
            case NodeAppears(node):
                old = self._cluster.node(node.name)
                self._cluster.set_node(node)
                self._note(NodeChanged(old, node))
            case NodeGoes(name):
                old = self._cluster.node(name)
                self._cluster.remove_node(name)
                self._note(NodeChanged(old, None))
            case SliceAppears(new):
                self._cluster.set_slice(new)
                self._note(SliceChanged(self._slices.get(new.name), new))
                self._slices[new.name] = new
            case SliceGoes(name):
                self._cluster.remove_slice(name)
                self._note(SliceChanged(self._slices.pop(name, None), None))

    def _go(self, uid: str) -> Iterator[Change]:
        """The pod is gone; what that changes for others."""
        self._durations.pop(uid, None)
        placed = self.placed.pop(uid, None)
        if placed is None or placed.pod is None:
            self._queue.remove(uid)
            return
        freed = self._placement.release(placed)
        yield PodChanged(replace(placed.pod, node_name=placed.node), None)
        yield from (_freed(claim) for claim in freed)

    def _note(self, change: Change) -> None:
        self._queue.on_event(change, self.now)


def _freed(claim: Claim) -> ClaimChanged:
    return ClaimChanged(claim, None)
