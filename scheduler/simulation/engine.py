"""Processes events and decisions in the order of a virtual clock.

The queue is the live scheduler's, with its backoff and its hints, and so is each decision; a decision takes no time.
Events of one moment happen in the order in which they were given, before the decisions of that moment. The same events
give the same answers on every machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf

from allocator.api import TaintRule
from allocator.gates import DEVICE_TAINTS
from allocator.model import Claim, Node, Slice
from allocator.outcome import AllocationError, PolicyFailed
from scheduler.core_v1.pod import Pod, belongs_to_node
from scheduler.decision.schedule_result import Failed, NotPlaced, Placed, ScheduleResult
from scheduler.defrag.search import DefragTerms, MovePlan, plan_for, targets
from scheduler.defrag.targets import ToFit
from scheduler.kinds import BY_MODEL
from scheduler.offline.group_placement import DecidedGroup, decide_group
from scheduler.offline.placement import NO_NODE, PlacedPod, Placement, PodToPlace, Result, UnplacedPod, order_of
from scheduler.plugins.plugin import Reason, Refusal
from scheduler.pod_groups.group import GroupOfPods
from scheduler.pod_groups.group_placer import group_refusal, refusal_of_member
from scheduler.pod_groups.group_preemption import GroupPreemption, preempt_for_group
from scheduler.pod_groups.group_reservations import GroupReservations
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced
from scheduler.pod_groups.groups import Groups
from scheduler.preemption.preemption import Preemptor
from scheduler.queue import PodPlace, Queue, QueuedPod
from scheduler.simulation.changes import Appears, FleetObject, Goes, NodeDrains, PodArrives, PodGoes, SimulationEvent
from scheduler.simulation.jobs import unscheduled
from scheduler.state.cluster_changes import ClaimChanged, PodChanged
from scheduler.state.cluster_changes import Event as Change
from scheduler.state.pods_by_priority import priority_of
from scheduler.state.taints import EvictingTaints, devices_of, has_evicting

_SETTLED_S = 24 * 3600.0
"""After so long without any change time is passed over until the next: that pods are tried again comes to nothing."""

_BEFORE = -1.0
"""When the pods of the start were bound: before any taint."""

EVICTED_AT_ONCE = "a NoExecute taint of its devices evicts it as soon as it is placed"
"""Why a pod is given up: its toleration has no effect NoExecute, or ended; it would be recreated for ever."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """The result of an attempt for a pod."""

    time_s: float
    pod: Pod
    attempt: int
    """The number of the attempt for the pod, from 1."""
    node: str = ""
    """The node that it got; empty where it got none."""
    reasons: frozenset[Reason] = frozenset()
    """Why it got none, of all nodes together."""
    message: str = ""
    """The same as a message; who was evicted for it where it got one."""
    failure: str = ""
    """Why nothing can be decided, or the pod is not tried."""


@dataclass(frozen=True, slots=True)
class _PodEnds:
    """The pod of that uid has run for its duration."""

    uid: str


@dataclass(frozen=True, slots=True)
class _TolerationEnds:
    """The pod of that uid no longer tolerates a taint."""

    uid: str


@dataclass(frozen=True, slots=True)
class _PodsMove:
    """Pods move, so that others that wait have a place."""


_Happening = SimulationEvent | _PodEnds | _TolerationEnds | _PodsMove


class Follower:
    """Follows a run; a subclass overrides the methods that it needs."""

    def at(self, time_s: float) -> None:
        """The clock is about to advance to that time; nothing changes before."""

    def adopted(self, pod: Pod) -> None:
        """A pod has its node from the start."""

    def arrived(self, pod: Pod) -> None:
        """A pod is created; not called for evicted pods."""

    def bound(self, claims: Sequence[Claim]) -> None:
        """A pod has its node, and these claims have their devices by it."""

    def left(self, pod: Pod) -> None:
        """A pod has ended, or was deleted."""

    def evicted(self, pod: Pod, lost_s: float, *, by_preemption: bool = False, by_move: bool = False) -> None:
        """A pod was evicted, and is pending again. lost_s: for so long it ran in this simulation, in vain."""

    def hardware_changed(self) -> None:
        """Nodes or slices were added, removed or changed."""


class Simulation:
    """A run over the cluster of a placement, which it changes.

    on_decision: called with each. retries: a refused pod waits for what may help it, as in a living cluster; where it
    does not, it is given up. preempts: a refused pod takes the place of pods of lower priority, at once: they have no
    grace period. defrag: pods move, where that gives pods that wait a place; None where none does. groups: of pods that
    are placed together, of which none has come yet; as their labels and PodGroups say where it is left out.
    reservation_s: so long a group waits before it holds what frees; 0: for ever.
    """

    def __init__(  # noqa: PLR0913 - the last five have defaults
        self,
        placement: Placement,
        on_decision: Callable[[Attempted], None],
        follower: Follower | None = None,
        *,
        retries: bool = True,
        preempts: bool = True,
        defrag: DefragTerms | None = None,
        groups: Groups | None = None,
        reservation_s: float = 0.0,
    ) -> None:
        self.now = 0.0
        self._defrag = defrag
        self._began_s: float | None = None
        self._changed_s = 0.0
        self.placed: dict[str, PlacedPod] = {}
        self._placement = placement
        self._cluster = placement.cluster
        self._on_decision = on_decision
        self._watcher = follower or Follower()
        self._groups = own = groups or Groups(self._cluster, lambda: self.now)
        self._reservations = GroupReservations(self._cluster, reservation_s, own.size, self._note)
        self._retries = retries
        strict = self._cluster.fleet.features.is_strict
        self._preemptor = Preemptor(self._cluster, wins_devices=not strict) if preempts else None
        self._preempted_in_vain: set[str] = set()
        self._durations: dict[str, float] = {}
        self._ends: dict[str, int] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._slices: dict[str, FleetObject | None] = {}
        self._given: Iterator[tuple[float, SimulationEvent]] = iter(())
        self._next_given: tuple[float, SimulationEvent] | None = None
        self._following: list[tuple[float, int, _Happening]] = []
        self._bound_s: dict[str, float] = {}
        self._evictions: dict[str, int] = {}
        self._taints = EvictingTaints(self._cluster.fleet.features.release)
        self._has_device_taints = self._cluster.fleet.features.has(DEVICE_TAINTS)
        self._numbers = count(1)
        self._queue = Queue(0.0, gate=self._groups.gate, on_move=lambda _place, _why: None)
        for name in self._cluster.names():
            node = self._cluster.node(name)
            assert node is not None
            self._taints.see_node(node, self.now)
        for name in self._cluster.slices:
            self._see_devices(name)

    def waiting(self) -> int:
        """The number of pending pods."""
        return sum(self._queue.pending().values())

    def adopt(self, pod: Pod) -> None:
        """The pod is bound at the start. It can be evicted or deleted."""
        look = self._placement.look(pod)
        self._keep(placed := PlacedPod(look.pod or pod, look.claims, pod.node_name), _BEFORE)
        self._regroup(PodChanged(None, placed.pod))
        self._watcher.adopted(pod)
        self._plan_eviction(placed)

    def run(self, events: Iterable[tuple[float, SimulationEvent]]) -> None:
        """Process the events, in the order of their times in seconds, and everything that follows from them.

        It ends when nothing more can happen: pods that only another event could help stay pending.
        Raises PolicyFailed, of a user's policy.
        Cost: O(events) decisions, and those of pods that events may help.
        """
        self._given = _in_order(events)
        self._next_given = next(self._given, None)
        while (moment := self._next_moment()) is not None:
            if self._began_s is None:
                self._began_s = moment
                self._plan_moves(moment)
            self._watcher.at(max(self.now, moment))
            self.now = max(self.now, moment)
            self._reservations.end_old(self.now)
            self._happen_now()
            while entry := self._queue.pop(self.now):
                self._attempt(entry)

    def _next_moment(self) -> float | None:
        only_moves = all(isinstance(one, _PodsMove) for _, _, one in self._following)
        if only_moves and not self._next_given and not self.waiting():
            return None  # nobody is left for whom others could move
        times = [self._next_given[0]] if self._next_given else []
        if self._following:
            times.append(self._following[0][0])
        pending = self._queue.pending()
        is_idle = self.now - self._changed_s > _SETTLED_S
        if not is_idle and (end := self._reservations.next_end()) is not None:
            times.append(end)
        if (times and not is_idle) or pending[PodPlace.ACTIVE] or pending[PodPlace.BACKOFF]:
            ready = self._queue.next_ready(self.now)
            times += [] if ready is None else [ready]
        return min(times, default=None)

    # -- decisions

    def _attempt(self, entry: QueuedPod) -> None:
        if (key := self._groups.key_of(entry.pod)) is None:
            self._attempt_alone(entry)
        elif self._groups.gate(entry.pod):
            self._queue.held(entry.pod.uid, self.now, self.now)  # to where it waits for the others
        else:
            self._attempt_group(entry, self._groups.group(key))

    def _attempt_alone(self, entry: QueuedPod) -> None:
        look, message = self._look(entry.pod), ""
        result = self._decide(entry.pod, look)
        if isinstance(result, NotPlaced) and (victims := self._victims(look, result)):
            message = f"evicts {', '.join(map(str, victims))}"
            self._evict(victims, by_preemption=True)
            look = self._look(entry.pod)
            result = self._decide(entry.pod, look)
            if not isinstance(result, Placed):
                self._preempted_in_vain.add(entry.pod.uid)
        match result:
            case Placed() as chosen:
                self._commit(entry, look, chosen, message)
            case NotPlaced(refusal):
                self._refuse(entry, refusal)
            case Failed(reason, by_policy=True):
                raise PolicyFailed(f"pod {entry.pod}: {reason}")
            case Failed(reason) | UnplacedPod(reason=reason):
                self._give_up(entry, reason)
            case PlacedPod() as placed:
                self._keep(placed, self.now)
                self._queue.done(entry.pod.uid)
                self._report(entry, node=placed.node)

    def _decide(self, pod: Pod, look: PodToPlace) -> ScheduleResult | Result:
        with self._reservations.seen_by(pod):
            return look.result or self._placement.decide(look)

    def _attempt_group(self, first: QueuedPod, group: GroupOfPods) -> None:
        """Try the group with all its members that wait."""
        decided, message = self._decide_group(group), ""
        others = (self._queue.take(uid, self.now) for uid in decided.looks if uid != first.pod.uid)
        entries = {one.pod.uid: one for one in (first, *filter(None, others))}
        if victims := self._group_victims(decided):
            message = f"evicts {', '.join(map(str, victims))}"
            self._evict(victims, by_preemption=True)
            decided = self._decide_group(group)
            if not isinstance(decided.found, GroupPlaced):
                self._preempted_in_vain.update(entries)
        if entries.keys() & decided.unready.keys():  # one with gates of its own is not among the entries
            self._shrink(entries, decided.unready)
            return
        match decided.found:
            case GroupPlaced(members, left):
                for member in members:
                    self._commit(entries[member.pod.uid], self._look(member.pod), member.placed, message)
                self._reservations.placed(group.key)
                for pod in left:  # as a group that has begun, it says why there is no place for them
                    self._queue.held(pod.uid, self.now, self.now)
            case GroupNotPlaced() as refused if not decided.group.problem:
                claims = (claim for look in decided.looks.values() for claim in look.claims)
                refusal = group_refusal(refused, decided.group, claims)
                if not refused.held:
                    self._hold_room(decided, min(one.first or self.now for one in entries.values()))
                for entry in entries.values():
                    self._refuse(entry, refusal_of_member(entry.pod, refusal))
            case _:
                for entry in entries.values():
                    self._give_up(entry, decided.reason)

    def _shrink(self, entries: Mapping[str, QueuedPod], unready: Mapping[str, str]) -> None:
        """The group is without those that can never be placed; the others wait, or are tried without them."""
        for uid, entry in entries.items():
            if uid in unready:
                self._give_up(entry, unready[uid])
            else:
                self._queue.held(uid, self.now, self.now)

    def _decide_group(self, group: GroupOfPods) -> DecidedGroup:
        """Raises PolicyFailed."""
        try:
            with self._reservations.seen_by(group.waiting[0], group.key):
                return decide_group(self._placement, group, self._look)
        except PolicyFailed as error:
            raise PolicyFailed(f"group {group}: {error}") from error
        except AllocationError as error:
            return decide_group(self._placement, replace(group, problem=str(error)), self._look)

    def _hold_room(self, decided: DecidedGroup, since: float) -> None:
        """The group holds room as it frees, if it has waited for long and it is its turn."""
        try:
            self._reservations.refused(decided.group, since, self.now, decided.ready)
        except PolicyFailed as error:
            raise PolicyFailed(f"group {decided.group}: {error}") from error
        except AllocationError:  # of a device that is asked about only where somebody else has gone
            return

    def _group_victims(self, decided: DecidedGroup) -> list[Pod]:
        """The pods that go so that the group has a place; none where nobody can."""
        group, refused, cluster = decided.group, decided.found, self._cluster
        if self._preemptor is None or not isinstance(refused, GroupNotPlaced) or refused.held or group.problem:
            return []
        if not self._preempted_in_vain.isdisjoint(decided.looks):
            return []
        if not cluster.by_priority.lower_than(group.priority, cluster.infos.size).any():
            return []
        wins_devices = not cluster.fleet.features.is_strict
        try:
            with self._reservations.seen_by(group.waiting[0], group.key):
                won = preempt_for_group(cluster, group, ready=decided.ready, wins_devices=wins_devices)
        except PolicyFailed as error:
            raise PolicyFailed(f"group {group}: {error}") from error
        except AllocationError:  # of a device that is asked about only where somebody else has gone
            return []
        if not isinstance(won, GroupPreemption) or won.placed is None:
            return []
        return [pod for victim in won.pods if (pod := self.placed[victim.uid].pod) is not None]

    def _refuse(self, entry: QueuedPod, refusal: Refusal) -> None:
        self._report(entry, reasons=refusal.reasons, message=refusal.message)
        if self._retries:
            self._queue.refused(entry.pod.uid, refusal, self.now)
        else:
            self._end_attempts(entry.pod)

    def _give_up(self, entry: QueuedPod, reason: str) -> None:
        self._report(entry, failure=reason)
        self._end_attempts(entry.pod)

    def _end_attempts(self, pod: Pod) -> None:
        """The pod is not tried any more, and no member of a group."""
        self._queue.done(pod.uid)
        self._forget_member(pod)

    def _victims(self, look: PodToPlace, refused: NotPlaced) -> list[Pod]:
        """The pods that go so that this one has a place; none where nobody can."""
        pod, cluster = look.pod, self._cluster
        if self._preemptor is None or pod is None or refused.everywhere or pod.uid in self._preempted_in_vain:
            return []
        if not cluster.by_priority.lower_than(priority_of(pod), cluster.infos.size).any():
            return []
        try:
            with self._reservations.seen_by(pod):
                won = self._preemptor.preemption(self._placement.cycle(look), refused).candidate
        except PolicyFailed as error:
            raise PolicyFailed(f"pod {pod}: {error}") from error
        except AllocationError:  # of a device that is asked about only where somebody else has gone
            return []
        placed = [self.placed[one.uid].pod for one in won.pods] if won is not None else []
        return [one for one in placed if one is not None]

    def _look(self, pod: Pod) -> PodToPlace:
        """What is to be placed of the pod. Without any node it is refused like others, and waits for one to join."""
        look = self._placement.look(pod)
        if isinstance(look.result, UnplacedPod) and look.result.reason == NO_NODE:
            return replace(look, result=None)
        return look

    def _commit(self, entry: QueuedPod, look: PodToPlace, chosen: Placed, message: str = "") -> None:
        uid = entry.pod.uid
        self._changed_s = self.now
        placed = self._placement.commit(look, chosen)
        self._keep(placed, self.now)
        self._queue.done(uid)
        end = self._plan_eviction(placed)
        if end is not None and end <= self.now:
            self._release(placed)
            self._report(entry, failure=EVICTED_AT_ONCE)
            return
        before = {claim.uid for claim in look.claims if claim.allocation}
        self._watcher.bound([claim for claim in placed.claims if claim.uid not in before])
        self._report(entry, node=chosen.node, message=message)
        self._note(PodChanged(entry.pod, placed.pod))
        if (duration := self._durations.get(uid)) is not None:
            self._ends[uid] = number = next(self._numbers)
            heappush(self._following, (self.now + duration, number, _PodEnds(uid)))

    def _keep(self, placed: PlacedPod, bound_s: float) -> None:
        assert placed.pod is not None
        self.placed[placed.pod.uid] = placed
        self._bound_s[placed.pod.uid] = bound_s
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

    # -- moves

    def _plan_moves(self, moment: float) -> None:
        if self._defrag is not None:
            heappush(self._following, (moment + self._defrag.every_s, next(self._numbers), _PodsMove()))

    def _move_pods(self) -> int:
        """How many pods have moved for pods that wait."""
        assert self._defrag is not None
        number = 0
        alone = (pod for pod in self._queue.pods() if self._groups.key_of(pod) is None)
        for pod in list(targets(sorted(alone, key=order_of))):
            look, left = self._look(pod), self._defrag.moves - number
            waiting = ToFit(pod, look.claims, look.full)
            plan = plan_for(self._cluster, waiting, left) if left > 0 and look.result is None else None
            if plan is not None:
                self._carry_out(pod, plan)
                number += len(plan.moves)
        return number

    def _carry_out(self, pod: Pod, plan: MovePlan) -> None:
        """All at once: they go, the pod has its place, and each of them its own."""
        assert self._defrag is not None
        moved = [placed for move in plan.moves if (placed := self.placed[move.mover.uid].pod) is not None]
        for uid in (one.uid for one in moved if one.uid in self._durations):
            self._durations[uid] += self._defrag.cost_s
        self._evict(moved, by_move=True)
        (place,) = plan.way.places
        self._go_to(pod.uid, place.placed.node, f"moves {', '.join(map(str, moved))}")
        for move in plan.moves:
            self._go_to(move.mover.uid, move.placed.node)

    def _go_to(self, uid: str, node: str, message: str = "") -> None:
        """The pod goes to the node, where it has a place; it waits on where that is not so any more."""
        entry = self._queue.get(uid)
        assert entry is not None, "it waits for this"
        look = self._look(entry.pod.changed(nominated_node=node))
        decided = self._decide(entry.pod, look)
        if isinstance(decided, Placed):
            self._commit(entry, look, decided, message)

    # -- events

    def _happen_now(self) -> None:
        while (due := self._next_event()) is not None:
            number, event = due
            if isinstance(event, _PodsMove):
                if self._move_pods() or self._next_given or self._following:
                    self._plan_moves(self.now)
                continue
            self._changed_s = self.now
            self._happen(number, event)
            if isinstance(event, Appears | Goes) and not isinstance(event.found, TaintRule):
                self._watcher.hardware_changed()

    def _next_event(self) -> tuple[int, _Happening] | None:
        """What happens next, now or before, with its number; of one moment first what was given."""
        given, following = self._next_given, self._following[0] if self._following else None
        if given and given[0] <= self.now and (following is None or given[0] <= following[0]):
            self._next_given = next(self._given, None)
            return 0, given[1]
        if following and following[0] <= self.now:
            heappop(self._following)
            return following[1], following[2]
        return None

    def _happen(self, number: int, event: _Happening) -> None:
        match event:
            case PodArrives(pod, duration_s):
                if duration_s is not None:
                    self._durations[pod.uid] = duration_s
                self._watcher.arrived(pod)
                self._await_node(pod)
            case PodGoes(uid):
                self._go(uid)
            case _PodEnds(uid):
                if self._ends.get(uid) == number:  # one that was evicted meanwhile starts anew
                    self._go(uid)
            case _TolerationEnds(uid):
                if self._evictions.get(uid) == number:
                    self._evict(filter(None, [self.placed[uid].pod]))
            case NodeDrains(name):
                self._evict(pod for pod in self._pods_on(name) if not belongs_to_node(pod))
            case Appears(new):
                self._fleet_changes(new, new)
            case Goes(gone):
                self._fleet_changes(gone, None)

    def _fleet_changes(self, found: FleetObject, new: FleetObject | None) -> None:
        """The object is there as `new`, or gone; evictions follow."""
        kind, old = BY_MODEL[type(found)], self._known(found)
        (kind.drop if new is None else kind.put)(self._cluster, found)
        self._note(kind.changed(old, new))
        match found:
            case Node():
                self._node_changed(found, is_there=new is not None)
            case Slice(name=name):
                self._slices[name] = new
                self._see_devices(name)
            case TaintRule():
                for name in self._cluster.slices:
                    self._see_devices(name)

    def _known(self, found: FleetObject) -> FleetObject | None:
        """The object of that name as it was, as far as what waits for it asks."""
        match found:
            case Node(name):
                return self._cluster.node(name)
            case Slice(name=name):
                return self._slices.get(name)
        return None

    def _node_changed(self, node: Node, *, is_there: bool) -> None:
        pods = list(self._pods_on(node.name))
        if not is_there:
            self._taints.forget_node(node.name)
            for pod in filter(belongs_to_node, pods):
                self._go(pod.uid)
            self._evict(pod for pod in pods if not belongs_to_node(pod))
        elif self._taints.see_node(node, self.now):
            for pod in pods:
                self._plan_eviction(self.placed[pod.uid])

    def _see_devices(self, name: str) -> None:
        """The devices of the slice are there, have changed, or are gone. Cost: O(pods), if evicting taints have."""
        slice_ = self._cluster.slices.get(name) if self._has_device_taints else None
        if not self._taints and not (slice_ and has_evicting(slice_)):
            return
        if changed := self._taints.see_slice(name, slice_, self.now):
            for placed in list(self.placed.values()):
                if not changed.isdisjoint(devices_of(placed.claims)):
                    self._plan_eviction(placed)

    def _plan_eviction(self, placed: PlacedPod) -> float | None:
        """At the time, which is the answer, at which it no longer tolerates a taint of its node or devices."""
        assert placed.pod is not None
        uid = placed.pod.uid
        self._evictions.pop(uid, None)
        if not self._taints:
            return None
        eviction = self._taints.end(placed.pod, placed.node, *placed.claims_by_origin, self._bound_s[uid])
        if eviction is None:
            return None
        self._evictions[uid] = number = next(self._numbers)
        heappush(self._following, (max(eviction.time_s, self.now), number, _TolerationEnds(uid)))
        return eviction.time_s

    def _pods_on(self, node: str) -> Iterator[Pod]:
        for uid in tuple(self._on_node.get(node, ())):
            pod = self.placed[uid].pod
            assert pod is not None
            yield pod

    def _evict(self, pods: Iterable[Pod], *, by_preemption: bool = False, by_move: bool = False) -> None:
        """The pods lose their node and their own claims, and are pending again: their controllers recreate them."""
        evicted = list(pods)
        lost_s = [self.now - max(self._bound_s[pod.uid], self._began_s or 0.0) for pod in evicted]
        for pod in evicted:
            self._ends.pop(pod.uid, None)
            self._release(self.placed[pod.uid])
        for pod, lost in zip(evicted, lost_s, strict=True):
            self._watcher.evicted(pod, lost, by_preemption=by_preemption, by_move=by_move)
            self._await_node(unscheduled(pod))

    def _await_node(self, pod: Pod) -> None:
        if self._groups.key_of(pod) is not None:
            self._cluster.set_pod(pod)
            self._regroup(PodChanged(None, pod))
        self._queue.add(pod, self.now)

    def _regroup(self, change: PodChanged) -> None:
        """Members whose group has got or lost a pod may wait for something else by now."""
        self._groups.wake(self._groups.on_event(change), lambda uid: self._queue.look_again(uid, self.now, "PodGroup"))

    def _forget_member(self, pod: Pod) -> None:
        if self._groups.key_of(pod) is not None:
            self._cluster.remove_pod(pod.uid)
            self._regroup(PodChanged(pod, None))

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
            self._forget_member(waiting.pod)
            self._watcher.left(waiting.pod)

    def _release(self, placed: PlacedPod) -> None:
        assert placed.pod is not None
        del self.placed[placed.pod.uid]
        del self._bound_s[placed.pod.uid]
        self._evictions.pop(placed.pod.uid, None)
        del self._on_node[placed.node][placed.pod.uid]
        freed = self._placement.release(placed)
        self._note(PodChanged(placed.pod, None))
        for claim in freed:
            self._note(_freed(claim))

    def _note(self, change: Change | None) -> None:
        if change is not None:
            self._queue.on_event(change, self.now)
        if isinstance(change, PodChanged):
            self._regroup(change)


def _in_order(events: Iterable[tuple[float, SimulationEvent]]) -> Iterator[tuple[float, SimulationEvent]]:
    before = -inf
    for event in events:
        assert event[0] >= before, f"{event} comes after an event of {before}s"
        before = event[0]
        yield event


def _freed(claim: Claim) -> ClaimChanged:
    return ClaimChanged(claim, None)
