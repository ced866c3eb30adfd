"""Processes events and decisions in the order of a virtual clock.

The queue is the live scheduler's, with its backoff and its hints, and so is each decision; a decision takes no time.
Events of one moment happen in the order in which they were given, before the decisions of that moment. The same events
give the same answers on every machine.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf

from allocator.features.device_taints import tolerates
from allocator.model import Claim, Node, Slice
from allocator.outcome import PolicyFailed
from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import Failed, NotPlaced, Placed
from scheduler.offline.placement import NO_NODE, Look, PlacedPod, Placement, UnplacedPod
from scheduler.plugins.plugin import Reason
from scheduler.queue.queue import PodBackoff, PodPlace, Queue, QueuedPod
from scheduler.simulation.changes import belongs_to_node
from scheduler.simulation.events import (
    ClassAppears,
    Event,
    NodeAppears,
    NodeDrains,
    NodeGoes,
    PodArrives,
    PodGoes,
    RuleAppears,
    SliceAppears,
    SliceGoes,
)
from scheduler.simulation.jobs import unscheduled
from scheduler.state.cluster_changes import (
    ClaimChanged,
    ClassChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)
from scheduler.state.cluster_changes import Event as Change

_HARDWARE = (NodeAppears, NodeGoes, SliceAppears, SliceGoes, ClassAppears)
_NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Attempted:
    """The result of an attempt for a pod. node: empty where it got none. attempt: which one it was, from 1.

    reasons: why it got none, of all nodes together; message: the same in words. failure: why nothing can be decided, or
    the pod is not tried.
    """

    time_s: float
    pod: Pod
    attempt: int
    node: str = ""
    reasons: frozenset[Reason] = frozenset()
    message: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _PodEnds:
    """The pod of that uid has run for its duration."""

    uid: str


class Follower:
    """Follows a run; a subclass overrides the methods that it needs."""

    def at(self, time_s: float) -> None:
        """The clock is about to advance to that time; nothing changes before."""

    def arrived(self, pod: Pod) -> None:
        """A pod is created; not called for evicted pods."""

    def left(self, pod: Pod) -> None:
        """A pod has ended, or was deleted."""

    def evicted(self, pod: Pod) -> None:
        """A pod was evicted, and is pending again."""

    def hardware_changed(self) -> None:
        """Nodes or slices were added, removed or changed."""


class Simulation:
    """A run over the cluster of a placement, which it changes.

    on_decision: called with each. retries: a refused pod waits for what may help it, as in a living cluster; where it
    does not, it is given up.
    """

    def __init__(
        self,
        placement: Placement,
        on_decision: Callable[[Attempted], None],
        follower: Follower | None = None,
        *,
        retries: bool = True,
    ) -> None:
        self.now = 0.0
        self.placed: dict[str, PlacedPod] = {}
        self._placement = placement
        self._cluster = placement.cluster
        self._on_decision = on_decision
        self._watcher = follower or Follower()
        self._retries = retries
        self._durations: dict[str, float] = {}
        self._ends: dict[str, int] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._slices: dict[str, Slice] = {}
        self._ending: list[tuple[float, int, _PodEnds]] = []
        self._given: Iterator[tuple[float, Event]] = iter(())
        self._next_given: tuple[float, Event] | None = None
        self._numbers = count(1)
        self._queue = Queue(0.0, gate=lambda _: "", on_move=lambda _place, _why: None, backoff=PodBackoff())

    def waiting(self) -> int:
        """The number of pending pods."""
        return sum(self._queue.pending().values())

    def adopt(self, pod: Pod) -> None:
        """The pod is bound at the start. It can be evicted or deleted."""
        look = self._placement.look(pod)
        self._keep(PlacedPod(look.pod or pod, look.claims, pod.node_name))

    def run(self, events: Iterable[tuple[float, Event]]) -> None:
        """Process the events, in the order of their times in seconds, and everything that follows from them.

        It ends when nothing more can happen: pods that only another event could help stay pending.
        Raises PolicyFailed, of a user's policy.
        Cost: O(events) decisions, and those of pods that events may help.
        """
        self._given = _in_order(events)
        self._next_given = next(self._given, None)
        while (moment := self._next_moment()) is not None:
            self._watcher.at(max(self.now, moment))
            self.now = max(self.now, moment)
            self._happen_now()
            while entry := self._queue.pop(self.now):
                self._attempt(entry)

    def _next_moment(self) -> float | None:
        times = [one[0] for one in (self._next_given, *self._ending[:1]) if one]
        pending = self._queue.pending()
        if times or pending[PodPlace.ACTIVE] or pending[PodPlace.BACKOFF]:
            ready = self._queue.next_ready(self.now)
            times += [] if ready is None else [ready]
        return min(times, default=None)

    # -- decisions

    def _attempt(self, entry: QueuedPod) -> None:
        look = self._look(entry.pod)
        match look.result or self._placement.decide(look):
            case Placed() as chosen:
                self._commit(entry, look, chosen)
            case NotPlaced(refusal):
                self._report(entry, reasons=refusal.reasons, message=refusal.message)
                if self._retries:
                    self._queue.refused(entry.pod.uid, refusal, self.now)
                else:
                    self._queue.done(entry.pod.uid)
            case Failed(reason, by_policy=True):
                raise PolicyFailed(f"pod {entry.pod}: {reason}")
            case Failed(reason) | UnplacedPod(reason=reason):
                self._report(entry, failure=reason)
                self._queue.done(entry.pod.uid)
            case PlacedPod() as placed:
                self._keep(placed)
                self._queue.done(entry.pod.uid)
                self._report(entry, node=placed.node)

    def _look(self, pod: Pod) -> Look:
        """What is to be placed of the pod. Without any node it is refused like others, and waits for one to join."""
        look = self._placement.look(pod)
        if isinstance(look.result, UnplacedPod) and look.result.reason == NO_NODE:
            return replace(look, result=None)
        return look

    def _commit(self, entry: QueuedPod, look: Look, chosen: Placed) -> None:
        uid = entry.pod.uid
        placed = self._placement.commit(look, chosen)
        self._keep(placed)
        self._queue.done(uid)
        self._report(entry, node=chosen.node)
        self._note(PodChanged(entry.pod, replace(entry.pod, node_name=placed.node)))
        if (duration := self._durations.get(uid)) is not None:
            self._ends[uid] = number = next(self._numbers)
            heappush(self._ending, (self.now + duration, number, _PodEnds(uid)))

    def _keep(self, placed: PlacedPod) -> None:
        assert placed.pod is not None
        self.placed[placed.pod.uid] = placed
        self._on_node.setdefault(placed.node, {})[placed.pod.uid] = None

    def _report(
        self,
        entry: QueuedPod,
        *,
        node: str = "",
        reasons: frozenset[Reason] = frozenset(),
        message: str = "",
        failure: str = "",
    ) -> None:
        self._on_decision(Attempted(self.now, entry.pod, entry.attempts, node, reasons, message, failure))

    # -- events

    def _happen_now(self) -> None:
        while (found := self._next_event()) is not None:
            number, event = found
            self._happen(number, event)
            if isinstance(event, _HARDWARE):
                self._watcher.hardware_changed()

    def _next_event(self) -> "tuple[int, Event | _PodEnds] | None":
        """What happens next, now or before, with its number; of one moment first what was given."""
        given, ending = self._next_given, self._ending[0] if self._ending else None
        if given and given[0] <= self.now and (ending is None or given[0] <= ending[0]):
            self._next_given = next(self._given, None)
            return 0, given[1]
        if ending and ending[0] <= self.now:
            heappop(self._ending)
            return ending[1], ending[2]
        return None

    def _happen(self, number: int, event: "Event | _PodEnds") -> None:  # noqa: C901 - one case for each event
        match event:
            case PodArrives(pod, duration_s):
                if duration_s is not None:
                    self._durations[pod.uid] = duration_s
                self._watcher.arrived(pod)
                self._queue.add(pod, self.now)
            case PodGoes(uid):
                self._go(uid)
            case _PodEnds(uid):
                if self._ends.get(uid) == number:  # one that was evicted meanwhile starts anew
                    self._go(uid)
            case NodeAppears(node):
                self._node_appears(node)
            case NodeGoes(name):
                self._node_goes(name)
            case NodeDrains(name):
                self._evict(pod for pod in self._pods_on(name) if not belongs_to_node(pod))
            case SliceAppears(new):
                self._cluster.set_slice(new)
                self._note(SliceChanged(self._slices.get(new.name), new))
                self._slices[new.name] = new
            case SliceGoes(name):
                self._cluster.remove_slice(name)
                self._note(SliceChanged(self._slices.pop(name, None), None))
            case ClassAppears(new_class):
                self._cluster.set_class(new_class)
                self._note(ClassChanged(None, new_class))
            case RuleAppears(rule):
                self._cluster.set_taint_rule(rule)
                self._note(TaintRulesChanged())

    def _node_appears(self, node: Node) -> None:
        old = self._cluster.node(node.name)
        self._cluster.set_node(node)
        self._note(NodeChanged(old, node))
        if taints := [taint for taint in node.taints if taint.effect == _NO_EXECUTE]:
            self._evict(
                pod
                for pod in self._pods_on(node.name)
                if not all(tolerates(pod.tolerations, taint) for taint in taints)
            )

    def _node_goes(self, name: str) -> None:
        pods = list(self._pods_on(name))
        old = self._cluster.node(name)
        self._cluster.remove_node(name)
        self._note(NodeChanged(old, None))
        for pod in filter(belongs_to_node, pods):
            self._go(pod.uid)
        self._evict(pod for pod in pods if not belongs_to_node(pod))

    def _pods_on(self, node: str) -> Iterator[Pod]:
        for uid in tuple(self._on_node.get(node, ())):
            pod = self.placed[uid].pod
            assert pod is not None
            yield pod

    def _evict(self, pods: Iterable[Pod]) -> None:
        """The pods lose their node and their own claims, and are pending again: their controllers recreate them."""
        evicted = list(pods)
        for pod in evicted:
            self._ends.pop(pod.uid, None)
            self._release(self.placed[pod.uid])
        for pod in evicted:
            self._watcher.evicted(pod)
            self._queue.add(unscheduled(pod), self.now)

    def _go(self, uid: str) -> None:
        """Remove the pod, and release what it used."""
        self._durations.pop(uid, None)
        self._ends.pop(uid, None)
        if placed := self.placed.get(uid):
            assert placed.pod is not None
            self._release(placed)
            self._watcher.left(placed.pod)
        elif waiting := self._queue.get(uid):
            self._queue.remove(uid)
            self._watcher.left(waiting.pod)

    def _release(self, placed: PlacedPod) -> None:
        assert placed.pod is not None
        del self.placed[placed.pod.uid]
        del self._on_node[placed.node][placed.pod.uid]
        freed = self._placement.release(placed)
        self._note(PodChanged(replace(placed.pod, node_name=placed.node), None))
        for claim in freed:
            self._note(_freed(claim))

    def _note(self, change: Change) -> None:
        self._queue.on_event(change, self.now)


def _in_order(events: Iterable[tuple[float, Event]]) -> Iterator[tuple[float, Event]]:
    before = -inf
    for event in events:
        assert event[0] >= before, f"{event} comes after an event of {before}s"
        before = event[0]
        yield event


def _freed(claim: Claim) -> ClaimChanged:
    return ClaimChanged(claim, None)
