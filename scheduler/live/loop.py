"""The scheduling loop: takes the next pod from the queue, decides, reserves, and starts the attempt.

Attempts run in parallel with the next decisions. When one ends, the loop finishes the pod, requeues it, or rejects it,
and reports that in events and conditions. Decision and reservation happen without an await in between, so that nothing
is allocated twice.
Source: kube-scheduler's scheduling and binding cycles.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from allocator.model import Claim
from allocator.outcome import AllocationError
from scheduler.attempt import eviction, pod_calls
from scheduler.attempt.attempts import INTERNAL, Freed, Reserved
from scheduler.attempt.binder import EVICT, SLOT
from scheduler.attempt.claim_objects import is_made_for, work_of_another
from scheduler.attempt.claim_step import may_be_deallocated
from scheduler.attempt.decision import PodKey
from scheduler.attempt.steps.pod import DevicesFailed, readiness_of
from scheduler.attempt.write_outcome import is_refused_for_good
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import Failed, NotPlaced, OutOfTime, Placed, ScheduleResult
from scheduler.decision.time_limits import (
    CHEAP_FIRST,
    FACTOR,
    FREE_S,
    MOST_S,
    MOST_SLICE_S,
    OTHERS_FIRST,
    RECENT_S,
    REST,
    NamespaceShare,
    TooLong,
    timed_out,
)
from scheduler.live.endings import (
    LOST_S,
    Endings,
    GroupConditions,
    KnownGroups,
    LoopDependencies,
    summary,
    with_problem,
    with_text,
)
from scheduler.live.group_cycle import GroupCycle
from scheduler.live.preemptions import NothingToWin, PlaceToWin, Preemptions, PreemptionTerms
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.plugins.plugin import Refusal
from scheduler.pod_groups.groups import Groups
from scheduler.queue import QueuedPod
from scheduler.runtime.metrics import Point, PointStatus
from scheduler.state.claims import AlreadyReserved, ClaimObject, Waiting, full
from scheduler.state.cluster_changes import GivenBack
from scheduler.state.pods import pod_requests

_LOG = logging.getLogger(__name__)


BEAT_S = 5.0
"""The longest time between two iterations, which show that the loop is alive."""


LOOK_S = 0.2
"""How often the loop checks whether the watched state is complete again."""

LEFT_S = 2.0
"""How long a pod is left to another process that works on its claims and may be about to bind it."""

SEEN_S = 1.0
"""So long after the decision about a group it is seen who asked for something meanwhile."""

AGAIN_S = 0.25
"""A pod that waits for namespaces with cheap decisions is looked at again after so long: they may have no more pods."""

LULL_S = 3.0
"""Others count as there until they have asked for nothing for so long: as long as a decision about a group may take."""

TURN_S = 0.001
"""What a turn counts at least for its namespace, even if nothing is decided in it."""

SHARE_S = 1.0
"""How soon a pod is retried whose namespace waits for the answers to as many writes as it may."""

DOUBT_S = 0.5
"""The same where none of its writes has been answered yet: most are within some hundredths."""

LEFT = "another process is at work on the pod's claims"
"""Why a pod is held, in `/debug/queue`: this, OTHERS_FIRST or CHEAP_FIRST, which its condition says after a while."""


class Loop:
    """Decides for one pod after the other, or one group.

    clock: seconds that only go forward, as the queue takes them. is_outdated: `Core.is_outdated`, whether what the
    cluster shows lacks changes; until it does not, nothing is decided. is_dry: decide and log, and write nothing.
    processor: seconds that this thread has computed, whatever else the machine does. beat_at: when it was last at
    work; of one that has not begun, never too long ago.
    """

    def __init__(
        self,
        dependencies: LoopDependencies,
        clock: Callable[[], float],
        is_outdated: Callable[[], bool],
        *,
        is_dry: bool = False,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._is_outdated = is_outdated
        self._processor = processor
        self.beat_at = math.inf
        self._cluster = dependencies.cluster
        self._queue = dependencies.queue
        self._binder = dependencies.binder
        self._events = dependencies.events
        self._refusals = dependencies.refusals
        self._metrics = dependencies.metrics
        self._decisions = dependencies.decisions
        self._is_dry = is_dry
        self._clock = clock
        self._attempts = dependencies.attempts
        self._preemptions = dependencies.preemptions or Preemptions(
            self._cluster, PreemptionTerms(), lambda _: True, lambda _: None, self._metrics.preemption_failed
        )
        self._endings = Endings(dependencies, self._preemptions, clock, is_dry=is_dry)
        self._known = dependencies.known or KnownGroups(
            Groups(self._cluster, clock),
            GroupConditions(self._binder.api, None, self._binder.time.now, self._attempts.start),
        )
        would_be = self._place_dry if is_dry else None
        self.group_cycle = GroupCycle(
            dependencies, self._known, self._endings, self._time_of_group, clock, self.wake, would_be
        )
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._attempts.slots.on_room = self.wake  # attempts give slots back long before they end
        self._time = NamespaceShare()
        self._group_decided_at = -math.inf
        self._would_be: dict[str, tuple[Pod, Placed]] = {}
        self._is_ready = asyncio.Event()

    def wake(self) -> None:
        """There may be a pod to try."""
        self._is_ready.set()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            self._is_ready.clear()
            self._give_back()
            self.beat_at = now = self._clock()
            self._report_gated(now)
            self._follow_preemptions(now)
            entry = self._next(now) if self._may_try() else None
            if entry is None:
                await self._idle(now)
                continue
            began = self._processor()
            try:
                self._attempt(entry, now)
            except AlreadyReserved:
                self._endings.fail(entry, INTERNAL, now)
            except Exception:  # noqa: BLE001 - whatever it is, the pod waits and the others go on
                _LOG.exception("the attempt failed", extra={"pod": str(entry.pod)})
                self._endings.fail(entry, INTERNAL, now)
            # Watches and writes have their turn after every decision.
            took_s = self._processor() - began
            await self._binder.time.sleep(took_s * REST if took_s > FREE_S else 0)

    def _next(self, now: float) -> QueuedPod | None:
        entry = self._queue.pop(now)
        if entry is not None:
            self._queue.used(entry.pod, TURN_S)
        return entry

    def _report_gated(self, now: float) -> None:
        """Tell the pods that have waited long for their claims, or for others of their group.

        Differs from kube-scheduler, which says nothing of a pod whose claims or group do not exist.
        """
        for entry in self._queue.long_gated(now):
            if not (waits := self._known.gate(entry.pod)):
                self._endings.report_reason(entry.pod, "Unschedulable", entry.gate)
            elif not self._is_dry:
                self._refusals.refuse(entry.pod, "SchedulingGated", waits)
        for group, text in self._known.groups.late(now):
            _LOG.info(text)
            if not self._is_dry:
                about = self._known.conditions.regarding(self._known.groups.object_of(group.key))
                self._events.pod_group_waiting(PodKey.of(group.waiting[0]), about, text)

    def _may_try(self) -> bool:
        """Whether a pod may be decided now: not far ahead of its writes, so that the first by then goes first."""
        return not self._attempts.slots.has_enough and not self._is_outdated()

    async def _idle(self, now: float) -> None:
        ready = self._queue.next_ready(now)
        is_waiting = ready is None or self._attempts.slots.has_enough  # for a call of `wake`
        wait_s = BEAT_S if ready is None or is_waiting else min(ready - now, BEAT_S)
        if self._is_outdated():
            wait_s = LOOK_S
        try:
            async with asyncio.timeout(wait_s):
                await self._is_ready.wait()
        except TimeoutError:
            return

    def _attempt(self, entry: QueuedPod, started: float) -> None:
        pod = entry.pod
        if not pod.node_name and self._cluster.pods.is_placed(pod.uid):
            self._queue.done(pod.uid)  # the event that queued it is older than its binding
            return
        if self._is_held(entry, started):
            return
        self._cluster.fleet.refresh()  # what events have changed is worked out whoever is next, and is none of its time
        started = self._clock()
        self._time.tried(pod.namespace, pod.priority or 0, started)
        if not pod.node_name and (key := self._known.groups.key_of(pod)) is not None:
            with self._time_of_group(pod):
                self.group_cycle.attempt(entry, key, started)
        else:
            self._attempt_alone(entry, started)

    @contextmanager
    def _time_of_group(self, pod: Pod) -> Iterator[None]:
        """A turn of the pod's group, which nobody interrupts.

        What others write and read waits meanwhile: they get as long as that for it, before the next group's turn.
        """
        namespace, started, began = pod.namespace, self._clock(), self._charged_s()
        try:
            yield
        finally:
            self._group_decided_at = now = self._clock()
            took_s = self._charged_s() - began
            self._time.spent(namespace, took_s, now)
            self._queue.used(pod, FACTOR * took_s)  # groups are interrupted by nobody
            if self._queue.has_others_in_flight(namespace) or self._time.others_tried_at(namespace) + SEEN_S > now:
                self._queue.rest(now + (now - started), lambda one: self._known.groups.key_of(one) is not None)

    def _charged_s(self) -> float:
        """The processor's time until now, without what policies have taken that look at whole nodes."""
        return self._processor() - self._cluster.time_limit.scored_s

    def _attempt_alone(self, entry: QueuedPod, started: float) -> None:
        pod = entry.pod
        pod_claims = self._cluster.claims_of(pod)
        if isinstance(pod_claims, Waiting):
            kept = [pod_claims.kept] if pod_claims.kept else []
            if (until := self._left_until(entry, kept, started)) > started:
                self._queue.held(pod.uid, started, until, why=LEFT)
                return
            refusal = Refusal(frozenset({CLAIMS}), pod_requests(pod), message=pod_claims.reason)
            self._refuse_or_free(entry, refusal, kept, started)
            return
        if (until := self._left_until(entry, pod_claims, started)) > started:
            self._queue.held(pod.uid, started, until, why=LEFT)
            return
        failed = self._broken(pod_claims)
        self._cluster.time_limit.give(self._time.slice_s(pod.namespace, entry.spent_s))
        reasons = {uid: one.reason for uid, one in failed.items()}
        began = self._charged_s()
        self._cluster.expect(pod, [one.claim for one in pod_claims])
        decided, won = self._decide(entry, pod_claims, reasons, started)
        took_s = self._clock() - started
        used_s = self._charged_s() - began
        self._time.spent(pod.namespace, used_s, started + took_s, is_placed=isinstance(decided, Placed))
        self._queue.used(pod, used_s)
        if isinstance(decided, OutOfTime):
            self._go_on_later(entry, took_s, started)
            return
        self._decided(entry, took_s)
        match decided:
            case Placed():
                self._place(entry, decided, started)
            case NotPlaced(refusal):
                refusal = with_text(refusal, won)
                if isinstance(won, PlaceToWin) and not self._is_dry:
                    self._attempts.start(self._preempt(entry, won, refusal, started))
                else:
                    self._refuse_or_free(entry, refusal, _stuck(decided, pod_claims), started, failed)
            case Failed(reason):
                self._endings.fail(entry, reason, started)

    def _decide(
        self, entry: QueuedPod, found: Sequence[ClaimObject], failed: Mapping[str, str], now: float
    ) -> tuple[ScheduleResult, PlaceToWin | NothingToWin]:
        """What becomes of the pod, and what it wins if it fits nowhere. failed: as for `PodCycle`."""
        pod, preemptions = self._preemptions.promised(entry.pod), self._preemptions
        claims, taken = [one.claim for one in found], full(entry.pod, found)
        with preemptions.seen_by(pod):
            decided = decide(self._cluster, pod, claims, taken, failed)
            if not isinstance(decided, NotPlaced) or any(_may_go(one, pod) for one in _stuck(decided, found)):
                return decided, NothingToWin("")
            if not preemptions.terms.is_on or pod.node_name or not self._cluster.fleet.all:
                return decided, NothingToWin("")
            self._metrics.preempting()
            # It begins anew each time, and has no second turn.
            self._cluster.time_limit.give(MOST_SLICE_S)
            try:
                with self._cluster.time_limit.limited():
                    cycle = PodCycle(self._cluster, pod, claims, taken, failed)
                    won = preemptions.preemption(cycle, decided, entry.first or now, now)
            except TooLong as error:
                won = NothingToWin(f"preemption: {error}")
            except AllocationError as error:
                return Failed(str(error)), NothingToWin("")
        self._note_preemption(entry, won)
        return decided, won

    def _note_preemption(self, entry: QueuedPod, won: PlaceToWin | NothingToWin) -> None:
        """Tell operators who goes, and the queue when the pod may win something though nothing happens."""
        pod = entry.pod
        if isinstance(won, PlaceToWin):
            text = summary(won)
            self._decisions.answered(time.time(), str(pod), "preempting", text, won.record.node)
            message = "would preempt" if self._is_dry else "preempting"
            _LOG.info(message, extra={"pod": str(pod), "node": won.record.node, "victims": text})
            if not self._is_dry:
                self._preemptions.begin(won)
            return
        if won.drops:
            self._preemptions.drop(pod.uid)
        if won.again_s is not None:
            self._wake_after(pod.uid, won.again_s)
        if won.is_backed_off and not self._is_dry:
            self._events.preemption_backed_off(PodKey.of(pod), won.text)
        if won.clears and not self._is_dry:
            self._attempts.start(self._clear_nomination(pod))

    def _decided(self, entry: QueuedPod, took_s: float) -> None:
        """The decision is made, in one go or in several. took_s: the last of them."""
        self._metrics.decided(entry.spent_s + took_s)
        entry.spent_s = 0.0

    def _is_held(self, entry: QueuedPod, started: float) -> bool:
        """Whether the pod has to wait for others, of its namespace or of all."""
        namespace = entry.pod.namespace
        if problem := self._attempts.slots.slowness(namespace):
            self._endings.hold(entry, problem, started, started + SHARE_S)
        elif problem := self._attempts.slots.doubt(namespace):
            self._endings.hold(entry, problem, started, started + DOUBT_S)
        elif problem := self._attempts.objection(namespace):
            self._endings.hold(entry, problem, started)
        elif (until := self._lets_others_go_first_until(entry, started)) > started:
            why = OTHERS_FIRST if self._time.waits_until(namespace) > started else CHEAP_FIRST
            self._endings.hold_back(entry, why, started, until)
        else:
            return False
        return True

    def _lets_others_go_first_until(self, entry: QueuedPod, now: float) -> float:
        """Until when the pod waits, as its namespace has used its share of time and others need it; 0 if it need not.

        Others of a lower priority are no reason to wait, but have their turns meanwhile. Nor does the wait end sooner
        where the others are done sooner.

        No decision is made while others are being bound either: their calls, of which a pod makes several, wait as long
        as it takes. One about a group has no slices in between which others are decided: it waits until those are seen
        who came meanwhile, and until they ask for nothing more.
        """
        namespace, priority = entry.pod.namespace, entry.pod.priority or 0
        until = self._time.waits_until(namespace)
        if until <= now:
            return self._lets_cheap_go_first_until(entry.pod, now)
        if self._queue.has_others(entry.pod) or self._queue.has_others_in_flight(namespace, priority):
            return until
        if self._known.groups.key_of(entry.pod) is None:
            return 0.0
        tried_at = self._time.others_tried_at(namespace, priority)
        return min(until, max(self._group_decided_at + SEEN_S, tried_at + LULL_S))

    def _lets_cheap_go_first_until(self, pod: Pod, now: float) -> float:
        """The same where the namespace has used nothing, and is not known for a cheap decision."""
        until = self._time.waits_for_cheap_until(pod.namespace)
        if until <= now:
            return 0.0
        others_tried_at = self._time.others_tried_at(pod.namespace, pod.priority or 0)
        is_recent = self._time.has_recent_cheap(now) and others_tried_at + RECENT_S > now
        is_needed = is_recent or self._queue.has_others(pod, self._time.is_cheap)
        return min(until, now + AGAIN_S) if is_needed else 0.0

    def _left_until(self, entry: QueuedPod, claims: Iterable[ClaimObject], now: float) -> float:
        """Until when the pod is left to another process: that has shown its work on the claims only a moment ago."""
        binder, uid = self._binder, entry.pod.uid
        left_to = " ".join([work_of_another(one, uid, binder.process) for one in claims]).strip()
        if left_to != entry.left_to:
            entry.left_to, entry.left_until = left_to, now + LEFT_S if left_to else now
        return entry.left_until

    def _go_on_later(self, entry: QueuedPod, took_s: float, started: float) -> None:
        """Let others go first before the decision about the pod continues; in total it is limited."""
        entry.spent_s += took_s
        if entry.spent_s < MOST_S:
            self._queue.held(entry.pod.uid, self._clock(), self._clock())
            return
        self._decided(entry, 0.0)
        self._endings.fail(entry, timed_out(MOST_S), started)

    def _broken(self, claims: Iterable[ClaimObject]) -> dict[str, DevicesFailed]:
        """The allocated claims, by uid, whose devices will not be made ready."""
        now, timeout_s = self._binder.time.now(), self._binder.binding_timeout_s
        states = {
            one.claim.uid: readiness_of(one.raw, now, timeout_s)
            for one in claims
            if one.claim.allocation and any(result.binding_conditions for result in one.claim.allocation.results)
        }
        return {uid: state for uid, state in states.items() if isinstance(state, DevicesFailed)}

    # -- a pod that has a node

    def _place(self, entry: QueuedPod, placed: Placed, started: float) -> None:
        pod = entry.pod
        self._decisions.placed(time.time(), pod, placed.node, placed.allocations)
        if self._is_dry:
            self._place_dry(entry, placed, started)
            return
        self._preemptions.placing(pod, placed)
        try:
            reserved = self._attempts.reserve(pod, placed, writes_device_status=True)
        except AlreadyReserved:
            self._preemptions.unplaced(pod)
            raise
        self._refusals.withdraw(pod.uid)
        self._attempts.start(self._bind(entry, reserved, started))

    def _place_dry(self, entry: QueuedPod, placed: Placed, started: float) -> None:
        pod = entry.pod
        self._cluster.reserve(pod, placed)
        devices = [str(result.id) for one in placed.allocations for result in one.results]
        _LOG.info("would be bound", extra={"pod": str(pod), "node": placed.node, "devices": devices})
        # It stays in flight: it is not tried again, and seen when it goes.
        self._would_be[pod.uid] = (pod, placed)
        self._endings.count_scheduled(entry, started)

    def _give_back(self) -> None:
        """Release what a dry run has reserved for pods that are gone, or bound by another scheduler."""
        for uid in [uid for uid in self._would_be if self._queue.get(uid) is None]:
            pod, placed = self._would_be.pop(uid)
            self._cluster.unreserve(uid)
            self._queue.on_event(GivenBack(pod, placed.claims, placed.node), self._clock())

    async def _bind(self, entry: QueuedPod, reserved: Reserved, started: float) -> None:
        outcome = await self._attempts.bind(reserved, lambda found: self._endings.report(entry, found))
        self._endings.end(entry, outcome, started)
        if not self._attempts.slots.has_enough:
            self.wake()  # the pod may be tried again sooner than anything that the loop waits for

    # -- a pod that has none

    def _refuse_or_free(
        self,
        entry: QueuedPod,
        refusal: Refusal,
        stuck: Sequence[ClaimObject],
        started: float,
        failed: Mapping[str, DevicesFailed] = MappingProxyType({}),
    ) -> None:
        """The pod fits nowhere. stuck: claims that keep it from every node, of which one may be deallocated."""
        if stuck and not self._is_dry:
            freeing = self._attempts.free(entry.pod, stuck, failed)
            self._attempts.start(self._free(entry, refusal, freeing, started))
        else:
            self._endings.refuse(entry, refusal, started)

    async def _free(
        self, entry: QueuedPod, refusal: Refusal, freeing: Coroutine[Any, Any, Freed], started: float
    ) -> None:
        """Deallocate a claim that keeps the pod from every node; its event brings the pod back, or that it failed.

        After one that was made for the pod and is deleted, the pod comes back by itself: it may have had any name.
        """
        began = self._clock()
        freed = await freeing
        self._metrics.passed(entry.pod.scheduler_name, Point.POST_FILTER, _status_of(freed), self._clock() - began)
        if freed.problem:
            self._endings.fail(entry, freed.problem, started)
        elif freed.claim is not None and is_made_for(freed.claim, entry.pod.uid):
            self._queue.held(entry.pod.uid, self._clock())
        else:
            self._endings.refuse(entry, refusal, started)
        self.wake()

    # -- a pod for which others go

    async def _preempt(self, entry: QueuedPod, won: PlaceToWin, refusal: Refusal, started: float) -> None:
        """Write what the pod has won, and evict its victims, as soon as there is a slot."""
        pod, node, began, seen = entry.pod, won.record.node, self._clock(), self._preemptions.changes
        progress, problem, is_denied, is_current = self._binder.progress, "", False, True
        progress.at(pod.uid, str(pod), node, SLOT)
        slot = await self._attempts.slots.wait(pod.namespace)
        progress.at(pod.uid, str(pod), node, EVICT, won.record.victims_text)
        try:
            is_current = self._preemptions.changes == seen or self._is_so_still(entry, won)
            is_current = is_current and await self._evict(entry, won, refusal)
        except CallFailed as error:
            problem = f"preemption on node {node}: {error.message_in(pod.namespace)}"
            is_denied = is_refused_for_good(error)
            progress.failed(pod.uid, error)
            _LOG.warning("cannot preempt: %s", error, extra={"pod": str(pod)})
        except Exception:  # noqa: BLE001 - whatever it is, it costs this pod and no other
            _LOG.exception("preempting failed", extra={"pod": str(pod)})
            problem = INTERNAL
        finally:
            slot.give_back()
            progress.end(pod.uid)
            again_s = self._preemptions.evicted(pod.uid, has_failed=bool(problem))
        status = PointStatus.ERROR if problem else PointStatus.SUCCESS
        self._metrics.passed(pod.scheduler_name, Point.POST_FILTER, status, self._clock() - began)
        if is_denied:
            self._back_off(entry, with_problem(refusal, problem), started)
        elif problem:
            self._endings.report_reason(pod, "SchedulerError", problem)
            self._endings.failed(entry, problem, started, again_s)
        elif is_current:
            self._endings.refused(entry, refusal, started)
        else:
            self._preemptions.drop(pod.uid)
            self._queue.held(pod.uid, self._clock(), self._clock())
        if self._queue.get(pod.uid) is None:
            self._preemptions.placed(pod.uid)  # or gone: of either nothing more is heard
        self.wake()

    def _is_so_still(self, entry: QueuedPod, won: PlaceToWin) -> bool:
        """Whether the same is decided now: something has changed while the pod waited for its slot."""
        pod_claims = self._cluster.claims_of(entry.pod)
        if isinstance(pod_claims, Waiting) or self._queue.get(entry.pod.uid) is None:
            return False
        pod, claims, taken = (
            self._preemptions.promised(entry.pod),
            [one.claim for one in pod_claims],
            full(entry.pod, pod_claims),
        )
        self._cluster.time_limit.give(MOST_SLICE_S)
        with self._preemptions.seen_by(pod):
            decided = decide(self._cluster, pod, claims, taken)
            if not isinstance(decided, NotPlaced):
                return False
            try:
                with self._cluster.time_limit.limited():
                    return self._preemptions.again(won, PodCycle(self._cluster, pod, claims, taken), decided)
            except AllocationError:
                return False

    async def _evict(self, entry: QueuedPod, won: PlaceToWin, refusal: Refusal) -> bool:
        """Write the record first; False where the pod needs no place any more. Raises CallFailed."""
        pod, node, victims = entry.pod, won.record.node, won.preemption.writes
        self._refusals.withdraw(pod.uid)
        condition = pod_calls.not_scheduled("Unschedulable", refusal.message, pod.generation)
        is_waiting = await eviction.nominate(self._binder, pod, won.record, condition)
        if not is_waiting or pod.uid not in self._preemptions.records:
            return False
        self._decisions.answered(time.time(), str(pod), "Unschedulable", refusal.message)
        self._events.failed_scheduling(PodKey.of(pod), refusal.message, refusal.gist)
        if victims:
            self._metrics.preempted(sum(one.is_delete for one in victims))
        by = PodKey.of(pod)

        def cancelled(victim: Pod) -> bool:
            is_ended = self._attempts.give_up(victim.uid, f"preempted by pod {pod.uid} on node {node}")
            if is_ended:
                self._events.preempted(PodKey.of(victim), by, node, is_deleted=False)
            return is_ended

        deleted = eviction.Evicted(cancelled, lambda victim: self._events.preempted(PodKey.of(victim), by, node))
        await eviction.evict(self._binder, victims, deleted)
        return True

    def _back_off(self, entry: QueuedPod, refusal: Refusal, started: float) -> None:
        """The API server refuses to evict: the pod waits longer after each such try."""
        wait_s = self._preemptions.failed(entry.pod.uid, self._clock())
        self._preemptions.drop(entry.pod.uid)
        self._events.preemption_backed_off(PodKey.of(entry.pod), refusal.message)
        self._wake_after(entry.pod.uid, wait_s)
        self._endings.refuse(entry, refusal, started)

    async def _clear_nomination(self, pod: Pod) -> None:
        try:
            await eviction.clear_nomination(self._binder, pod)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot clear status.nominatedNodeName: %s", pod, error)

    def _follow_preemptions(self, now: float) -> None:
        """Go on with what pods have won: what is left of victims is released, and who has it all is tried."""
        preemptions = self._preemptions
        preemptions.reservations.end_old(now)
        if not preemptions.records:
            return
        preemptions.end_hopeless(now)
        states = preemptions.states()
        for pod in list(preemptions.held(states)):
            self._queue.wake(pod.uid, now, "PreemptionEnded")
        for pod, message in list(preemptions.late(now, states)):
            self._events.preemption_late(PodKey.of(pod), message)
        for claim in list(preemptions.abandoned(states)):
            self._attempts.start(self._deallocate(claim))

    async def _deallocate(self, claim: Claim) -> None:
        """Deallocate a claim of victims that are gone, unless kube-controller-manager has done it."""
        claim_object = self._cluster.claims.get(claim.namespace, claim.name)
        try:
            if claim_object is not None and await eviction.deallocate(self._binder, claim_object.raw):
                return
        except CallFailed as error:
            _LOG.debug("cannot deallocate claim %s of preempted pods: %s", claim, error)
        asyncio.get_running_loop().call_later(LOST_S, self._preemptions.keeps_on, claim.uid)

    def _wake_after(self, uid: str, wait_s: float) -> None:
        """Try the pod again then, though nothing happens."""
        if known := self._timers.pop(uid, None):
            known.cancel()
        self._timers[uid] = asyncio.get_running_loop().call_later(wait_s, self._wake_pod, uid)

    def _wake_pod(self, uid: str) -> None:
        self._timers.pop(uid, None)
        self._queue.wake(uid, self._clock(), "PreemptionBackoffComplete")
        self.wake()


def _stuck(decided: NotPlaced, found: Iterable[ClaimObject]) -> list[ClaimObject]:
    """The claims that keep the pod from every node."""
    return [one for one in found if one.claim in decided.stuck]


def _may_go(claim: ClaimObject, pod: Pod) -> bool:
    """Whether the claim is the pod's alone: it is deallocated first, and nobody goes for the pod in this attempt."""
    return may_be_deallocated(claim.raw, pod.uid)


def _status_of(freed: Freed) -> PointStatus:
    if freed.problem:
        return PointStatus.ERROR
    return PointStatus.SUCCESS if freed.claim is not None else PointStatus.UNSCHEDULABLE
