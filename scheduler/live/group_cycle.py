"""One cycle for a group of pods: taken from the queue with all that wait, decided whole, reserved whole, bound at once.

What single pods have is kept: each member has its attempt, its condition and its backoff. But a member is only tried
with its group; none is bound before all have written; and a group that is refused keeps nothing: devices that an
earlier process had allocated for its members are given back.
Source: KEP-4671.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from allocator.outcome import AllocationError
from allocator.words import counted
from scheduler.attempt import eviction, pod_calls
from scheduler.attempt.attempt import Together
from scheduler.attempt.attempts import INTERNAL, Freed, Reserved
from scheduler.attempt.binder import EVICT, SLOT
from scheduler.attempt.claim_step import may_be_deallocated
from scheduler.attempt.decision import AttemptOutcome, PodKey
from scheduler.attempt.steps.pod import DevicesFailed, readiness_of
from scheduler.attempt.write_outcome import is_refused_for_good
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import Placed
from scheduler.decision.time_limits import TooLong, timed_out
from scheduler.live.endings import Endings, KnownGroups, LoopDependencies, with_problem, with_text
from scheduler.live.preemptions import GroupToWin, NothingToWin
from scheduler.plugins.plugin import OF_GROUP, Refusal
from scheduler.pod_groups.group import GroupKey, GroupOfPods
from scheduler.pod_groups.group_placer import group_refusal, place_group, refusal_of_member
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced, GroupResult, GroupUnknown
from scheduler.preemption.records import PreemptionRecord
from scheduler.queue import PodPlace, QueuedPod
from scheduler.runtime.metrics import GroupAttemptResult
from scheduler.state.claims import AlreadyReserved, ClaimObject, Waiting
from scheduler.state.cluster_changes import Event, PodChanged
from scheduler.state.pods import pod_requests

_LOG = logging.getLogger(__name__)

DECISION_S = 3.0
"""A group whose decision takes longer of the processor's time fails with a time-out: it begins anew each time."""

KEPT_WAITING_S = 3.0
"""So much longer it may take by the clock on a busy machine."""

ONE_TURN_S = 0.5
"""Who would have to go for a group is decided in a turn of its own if the decision about its place took longer."""

ROOM_S = 0.5
"""The decision about what is held for it."""

CLUSTER = "cluster"
"""The node of a group's victims, in their event."""

BUSY_S = 0.2
"""How soon a member is looked at again while others of its group are being bound, or let go of."""

RELEASE_S = 0.5
"""How soon it is looked again at devices of a group that waits for members."""

BUSY = "other pods of the group are being bound"
"""Why a member is held, in `/debug/queue`."""

_NONE: Mapping[str, DevicesFailed] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _GroupInFlight:
    """The group with those of its members that are being tried, in their order. started: when."""

    group: GroupOfPods
    entries: Sequence[QueuedPod]
    started: float

    def of(self, pod: Pod) -> QueuedPod:
        """The entry of the pod."""
        return next(one for one in self.entries if one.pod.uid == pod.uid)


class GroupCycle:
    """Decides for groups, in the loop's place.

    time_of: counts the time that the context is open for the pod's namespace. wake: calls the loop. would_be: takes
    what a dry run found for a pod.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what the loop works with
        self,
        dependencies: LoopDependencies,
        known: KnownGroups,
        endings: Endings,
        time_of: Callable[[Pod], AbstractContextManager[None]],
        clock: Callable[[], float],
        wake: Callable[[], None],
        would_be: Callable[[QueuedPod, Placed, float], None] | None = None,
    ) -> None:
        self._cluster = dependencies.cluster
        self._queue = dependencies.queue
        self._attempts = dependencies.attempts
        self._binder = dependencies.binder
        self._refusals = dependencies.refusals
        self._events = dependencies.events
        self._metrics = dependencies.metrics
        self._decisions = dependencies.decisions
        self._groups = known.groups
        self._conditions = known.conditions
        self._endings = endings
        self._preemptions = endings.preemptions
        self._time_of = time_of
        self._clock = clock
        self._wake = wake
        self._would_be = would_be
        self._together: dict[GroupKey, Together] = {}

    def attempt(self, first: QueuedPod, key: GroupKey, started: float) -> None:
        """Try the group of the pod in flight, with all its members that wait."""
        uid = first.pod.uid
        if self._groups.gate(first.pod):
            self._queue.held(uid, started, started)  # to where it waits for the others
        elif self._are_binding(key) or self._is_busy(group := self._groups.group(key), uid):
            self._queue.held(uid, started, started + BUSY_S, why=BUSY)
        else:
            others = (self._queue.take(pod.uid, started) for pod in group.waiting if pod.uid != uid)
            entries = {one.pod.uid: one for one in (first, *filter(None, others))}
            ordered = [entries[pod.uid] for pod in group.waiting if pod.uid in entries]
            self._try(_GroupInFlight(group, ordered, started))

    def _are_binding(self, key: GroupKey) -> bool:
        """Whether members are on their way to a node that may still be taken back."""
        together = self._together.get(key)
        return together is not None and not together.is_released

    def _is_busy(self, group: GroupOfPods, uid: str) -> bool:
        """Whether members are let go of, or tried."""
        entries = (self._queue.get(pod.uid) for pod in group.waiting if pod.uid != uid)
        return any(one is not None and one.place is PodPlace.IN_FLIGHT for one in entries)

    def _try(self, taken: _GroupInFlight) -> None:
        with self._failing(taken):
            if self._would_be is None and (broken := self._broken(taken)):
                kept = self._kept([entry.pod for entry in taken.entries])
                self._attempts.start(self._free(taken, {uid: kept[uid] for uid in broken}, broken))
                return
            result = self._decided(taken)
            self._metrics.decided(self._clock() - taken.started)
            match result:
                case GroupPlaced():
                    self._place(taken, result)
                case GroupNotPlaced():
                    self._not_placed(taken, result)
                case GroupUnknown():
                    self._metrics.group_attempted(GroupAttemptResult.SEARCH_ENDED)
                    self._fail(taken, str(result))

    @contextmanager
    def _failing(self, taken: _GroupInFlight) -> Iterator[None]:
        """What is raised keeps the group waiting, and no other."""
        try:
            yield
        except TooLong:
            self._fail(taken, timed_out(DECISION_S))
        except AllocationError as error:
            self._fail(taken, str(error))
        except Exception:  # noqa: BLE001 - whatever it is, the group waits and the others go on
            _LOG.exception("the attempt failed", extra={"group": str(taken.group)})
            self._fail(taken, INTERNAL)

    def _decided(self, taken: _GroupInFlight) -> GroupResult:
        """Raises AllocationError, TooLong."""
        self._cluster.time_limit.give(DECISION_S, KEPT_WAITING_S)
        with self._preemptions.seen_by_group(taken.group):
            return place_group(self._cluster, taken.group)

    # -- a group that has a place

    def _place(self, taken: _GroupInFlight, placed: GroupPlaced) -> None:
        there = [(taken.of(one.pod), one.placed) for one in placed.members]
        for entry, place in there:
            self._decisions.placed(time.time(), entry.pod, place.node, place.allocations)
        if self._would_be is not None:
            for entry, place in there:
                self._would_be(entry, place, taken.started)
        else:
            self._bind_all(taken, there)
        now = self._clock()
        for pod in placed.left:
            # As a group that has begun, it says why there is no place for them.
            self._preemptions.drop(pod.uid)
            self._queue.held(pod.uid, now, now)

    def _bind_all(self, taken: _GroupInFlight, there: Sequence[tuple[QueuedPod, Placed]]) -> None:
        reserved: list[Reserved] = []
        try:
            for entry, place in there:
                self._preemptions.placing(entry.pod, place)
                reserved.append(self._attempts.reserve(entry.pod, place, writes_device_status=True))
        except AlreadyReserved:
            for taken_back in reserved:
                self._attempts.withdraw(taken_back)
            for entry, _ in there:
                self._preemptions.unplaced(entry.pod)
            raise
        self._preemptions.reservations.placed(taken.group.key)
        together = Together(str(taken.group), [one.decision for one in reserved])
        self._together[taken.group.key] = together
        for (entry, _), own in zip(there, reserved, strict=True):
            self._refusals.withdraw(entry.pod.uid)
            self._attempts.start(self._bind(taken, entry, own, together))

    async def _bind(self, taken: _GroupInFlight, entry: QueuedPod, reserved: Reserved, together: Together) -> None:
        """Bind the pod with the others. One that is not bound waits until all have let go of what they took."""
        outcome: AttemptOutcome | None = None
        try:
            slot = await self._attempts.slot(entry.pod.namespace, reserved)
            outcome = await self._attempts.carry_out(
                reserved, slot, lambda found: self._endings.report(entry, found), together
            )
        finally:
            together.ended(entry.pod.uid, outcome)
            if together.is_over:
                self._bound(taken, together)
        await together.decided()
        self._endings.end(entry, outcome, taken.started)
        self._wake()

    def _bound(self, taken: _GroupInFlight, together: Together) -> None:
        """All attempts of the group have ended."""
        key = taken.group.key
        if self._together.get(key) is together:
            del self._together[key]
        if together.is_released:
            self._metrics.group_attempted(GroupAttemptResult.SCHEDULED)
            self._preemptions.group_placed(key)
            for own, has_enough in self._groups.objects_of(self._groups.group(key)):
                if has_enough or own.key == (key.namespace, key.name):
                    self._conditions.scheduled(own)
        else:
            self._metrics.group_attempted(GroupAttemptResult.ERROR)

    # -- a group that has none

    def _not_placed(self, taken: _GroupInFlight, result: GroupNotPlaced) -> None:
        stuck = self._kept([entry.pod for entry in taken.entries])
        if result.held:  # a claim that goes once it has no devices keeps its pod from being tried
            stuck = {uid: one for uid, one in stuck.items() if one[1].metadata.deletion_timestamp}
        if stuck and self._would_be is None:
            self._attempts.start(self._free(taken, stuck))
        elif result.held:
            self._wait(taken, result.problem)
        elif taken.group.problem:
            self._refuse(taken, Refusal(frozenset({OF_GROUP}), _NOTHING, message=result.problem), is_error=True)
        else:
            self._preempt_or_refuse(taken, self._refusal(taken, result))

    def _wait(self, taken: _GroupInFlight, problem: str) -> None:
        """Too few members can be tried yet: those that cannot bring the others back. All are told, if it lasts."""
        is_gated = any(pod.gates for pod in taken.group.waiting)
        text = f"pod group {taken.group}: {problem}"
        for entry in taken.entries:
            if is_gated and self._would_be is None:
                self._refusals.refuse(entry.pod, "SchedulingGated", text)
            refusal = refusal_of_member(entry.pod, _WAITS)
            self._queue.refused(entry.pod.uid, refusal, self._clock(), gate="" if is_gated else text)

    def _refusal(self, taken: _GroupInFlight, result: GroupNotPlaced) -> Refusal:
        claims = (claim.claim for entry in taken.entries for claim in self._claims_of(entry.pod))
        return group_refusal(result, taken.group, claims)

    def _refuse(self, taken: _GroupInFlight, refusal: Refusal, *, is_error: bool = False) -> None:
        self._metrics.group_attempted(GroupAttemptResult.ERROR if is_error else GroupAttemptResult.UNSCHEDULABLE)
        reason: pod_calls.Reason = "SchedulerError" if is_error else "Unschedulable"
        for entry in taken.entries:
            self._endings.report_reason(entry.pod, reason, refusal.message, refusal.gist)
            self._endings.refused(entry, refusal_of_member(entry.pod, refusal), taken.started)
        self._say(taken.group, reason, refusal.message, refusal.gist)

    def _fail(self, taken: _GroupInFlight, reason: str) -> None:
        for entry in taken.entries:
            self._endings.fail(entry, reason, taken.started)
        self._say(taken.group, "SchedulerError", reason)

    def _say(self, group: GroupOfPods, reason: str, message: str, gist: str = "") -> None:
        """On the PodGroup and those around it, unless it has what it needs: that is not taken back."""
        for own, has_enough in self._groups.objects_of(group) if self._would_be is None else ():
            if not own.is_scheduled and not has_enough:
                self._conditions.not_scheduled(own, reason, message, gist)

    # -- a group for which others go

    def _preempt_or_refuse(self, taken: _GroupInFlight, refusal: Refusal) -> None:
        """Raises AllocationError, TooLong."""
        took_s, is_on = self._clock() - taken.started, self._preemptions.terms.is_on
        if is_on:
            self._metrics.preempting()
        if is_on and took_s > ONE_TURN_S and self._would_be is None:
            self._attempts.start(self._preempt_later(taken, refusal, took_s))
        else:
            self._preempt_now(taken, refusal)

    async def _preempt_later(self, taken: _GroupInFlight, refusal: Refusal, wait_s: float) -> None:
        """As soon as others have had as long as the group."""
        await self._binder.time.sleep(wait_s)
        group = self._groups.group(taken.group.key)
        is_same = [pod.uid for pod in group.waiting] == [pod.uid for pod in taken.group.waiting]
        if group.held or group.problem or not is_same:
            self._try_again(taken)
        else:
            # Where it fits by now nobody has to go, which is found out.
            with self._time_of(taken.entries[0].pod), self._failing(taken):
                self._preempt_now(replace(taken, group=group), refusal)
        self._wake()

    def _try_again(self, taken: _GroupInFlight) -> None:
        """The group is decided anew, at once; what its members have won is theirs still."""
        now = self._clock()
        for entry in taken.entries:
            self._queue.held(entry.pod.uid, now, now)

    def _preempt_now(self, taken: _GroupInFlight, refusal: Refusal) -> None:
        """Raises AllocationError, TooLong."""
        since = min(entry.first or taken.started for entry in taken.entries)
        self._cluster.time_limit.give(DECISION_S, KEPT_WAITING_S)
        with self._preemptions.seen_by_group(taken.group), self._cluster.time_limit.limited():
            won = self._preemptions.group_preemption(taken.group, since, self._clock())
        refusal = with_text(refusal, won)
        if isinstance(won, GroupToWin) and self._would_be is None:
            _LOG.info("preempting", extra={"group": str(taken.group), "victims": list(map(str, won.preemption.pods))})
            self._preemptions.reservations.placed(taken.group.key)
            self._preemptions.begin_group(won)
            self._attempts.start(self._preempt(taken, won, refusal))
            return
        if isinstance(won, NothingToWin) and self._would_be is None:
            self._win_nothing(taken, won)
            refusal = self._hold_room(taken, refusal, since)
        self._refuse(taken, refusal)

    def _hold_room(self, taken: _GroupInFlight, refusal: Refusal, since: float) -> Refusal:
        """The refusal, which says so if the group holds room as it frees: it has waited for long."""
        group, reservations = taken.group, self._preemptions.reservations
        if any(pod.uid in self._preemptions.records for pod in group.waiting):
            return refusal
        self._cluster.time_limit.give(ROOM_S, ROOM_S)
        try:
            with self._cluster.time_limit.limited():
                is_new = reservations.refused(group, since, taken.started)
        except (AllocationError, TooLong) as error:
            _LOG.warning("no room is held for group %s: %s", group, error)
            return refusal
        held = reservations.of(group.key)
        if held is None:
            return refusal
        if is_new:
            _LOG.info("holding room as it frees", extra={"group": str(group), "nodes": held.nodes})
        text = f"Room on {counted(len(held.nodes), 'node')} is held for it as it frees."
        return replace(refusal, message=f"{refusal.message.rstrip('.')}. {text}", gist=refusal.gist or refusal.message)

    def _win_nothing(self, taken: _GroupInFlight, won: NothingToWin) -> None:
        for entry in taken.entries:
            pod = entry.pod
            if won.drops:
                self._preemptions.drop(pod.uid)
            if won.is_backed_off:
                self._events.preemption_backed_off(PodKey.of(pod), won.text)
            if (won.clears or won.is_backed_off) and pod.nominated_node:
                self._attempts.start(self._clear_nomination(pod))
        if won.again_s is not None:
            self._wake_after(taken.entries[0].pod.uid, won.again_s)

    def _wake_after(self, uid: str, wait_s: float) -> None:
        """Try the group of the pod again then, though nothing happens."""

        def wake() -> None:
            self._queue.wake(uid, self._clock(), "PreemptionBackoffComplete")
            self._wake()

        asyncio.get_running_loop().call_later(wait_s, wake)

    async def _clear_nomination(self, pod: Pod) -> None:
        try:
            await eviction.clear_nomination(self._binder, pod)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot clear status.nominatedNodeName: %s", pod, error)

    async def _preempt(self, taken: _GroupInFlight, won: GroupToWin, refusal: Refusal) -> None:
        """Write what each member has won, and evict the victims, as soon as there is a slot."""
        problem, is_denied, is_current, seen = "", False, True, self._preemptions.changes
        progress = self._binder.progress
        for record in won.records:
            progress.at(record.pod.uid, str(record.pod), record.node, SLOT)
        slot = await self._attempts.slots.wait(taken.group.key.namespace)
        for record in won.records:
            progress.at(record.pod.uid, str(record.pod), record.node, EVICT, record.victims_text)
        try:
            is_current = self._preemptions.changes == seen or self._is_so_still(taken, won)
            is_current = is_current and await self._evict(taken, won, refusal)
        except CallFailed as error:
            problem = f"pod group preemption: {error.message_in(taken.group.key.namespace)}"
            is_denied = is_refused_for_good(error)
            _LOG.warning("cannot preempt: %s", error, extra={"group": str(taken.group)})
        except Exception:  # noqa: BLE001 - whatever it is, it costs this group and no other
            _LOG.exception("preempting failed", extra={"group": str(taken.group)})
            problem = INTERNAL
        finally:
            slot.give_back()
            for record in won.records:
                progress.end(record.pod.uid)
                self._preemptions.evicted(record.pod.uid)
        if is_denied:
            self._back_off(taken, with_problem(refusal, problem))
        elif problem:
            self._fail(taken, problem)
        elif is_current:
            for entry in taken.entries:
                self._endings.refused(entry, refusal_of_member(entry.pod, refusal), taken.started)
            self._metrics.group_attempted(GroupAttemptResult.UNSCHEDULABLE)
            self._say(taken.group, "Unschedulable", refusal.message, refusal.gist)
        else:
            for entry in taken.entries:
                self._preemptions.drop(entry.pod.uid)
            self._try_again(taken)
        self._wake()

    def _is_so_still(self, taken: _GroupInFlight, won: GroupToWin) -> bool:
        """Whether the same is decided now: something has changed while the group waited for a slot.

        If it fits by now, nobody has to go. It has as long for that as before, and not what the pod has that was
        decided last.
        """
        group = self._groups.group(taken.group.key)
        if group.held or group.problem:
            return False
        self._cluster.time_limit.give(DECISION_S, KEPT_WAITING_S)
        try:
            with (
                self._time_of(taken.entries[0].pod),
                self._preemptions.seen_by_group(group),
                self._cluster.time_limit.limited(),
            ):
                return self._preemptions.group_wins_again(won, group, self._clock())
        except (AllocationError, TooLong):
            return False

    async def _evict(self, taken: _GroupInFlight, won: GroupToWin, refusal: Refusal) -> bool:
        """Write the records first; False where a member needs no place any more. Raises CallFailed."""

        async def nominate(record: PreemptionRecord) -> bool:
            pod = record.pod
            self._refusals.withdraw(pod.uid)
            condition = pod_calls.not_scheduled("Unschedulable", refusal.message, pod.generation)
            return await eviction.nominate(self._binder, pod, record, condition)

        are_waiting = await asyncio.gather(*map(nominate, won.records))
        if not all(are_waiting) or any(one.pod.uid not in self._preemptions.records for one in won.records):
            return False
        for entry in taken.entries:
            self._decisions.answered(time.time(), str(entry.pod), "Unschedulable", refusal.message)
            self._events.failed_scheduling(PodKey.of(entry.pod), refusal.message, refusal.gist)
        if won.writes:
            self._metrics.preempted(sum(one.is_delete for one in won.writes))
        by, group = PodKey.of(won.records[0].pod), taken.group.uid or str(taken.group)

        def deleted(victim: Pod) -> None:
            self._events.preempted(PodKey.of(victim), by, CLUSTER, group)

        await eviction.evict(self._binder, won.writes, eviction.Evicted(lambda _: False, deleted))
        return True

    def _back_off(self, taken: _GroupInFlight, refusal: Refusal) -> None:
        """The API server refuses to evict: the group waits longer after each such try."""
        wait_s = self._preemptions.group_failed(taken.group, self._clock())
        self._win_nothing(taken, NothingToWin(refusal.message, wait_s, clears=True, drops=True, is_backed_off=True))
        self._refuse(taken, refusal)

    # -- devices that members have, and cannot use

    def _claims_of(self, pod: Pod) -> Sequence[ClaimObject]:
        claims = self._cluster.claims_of(pod)
        if isinstance(claims, Waiting):
            return () if claims.kept is None else (claims.kept,)
        return claims

    def _broken(self, taken: _GroupInFlight) -> Mapping[str, DevicesFailed]:
        """The claims, by uid, whose devices will not be made ready."""
        now, timeout_s = self._binder.time.now(), self._binder.binding_timeout_s
        states = {}
        for uid, (_, claim) in self._kept([entry.pod for entry in taken.entries]).items():
            results = claim.claim.allocation.results if claim.claim.allocation else ()
            if any(one.binding_conditions for one in results):
                states[uid] = readiness_of(claim.raw, now, timeout_s)
        return {uid: state for uid, state in states.items() if isinstance(state, DevicesFailed)}

    def _kept(self, waiting: Sequence[Pod]) -> Mapping[str, tuple[Pod, ClaimObject]]:
        """The claims that have devices for these pods alone, by uid, each with a pod that has it."""
        uids = {pod.uid for pod in waiting}
        kept: dict[str, tuple[Pod, ClaimObject]] = {}
        users_of: dict[str, frozenset[str] | None] = {}
        for pod in waiting:
            for claim in self._claims_of(pod):
                uid = claim.claim.uid
                if claim.claim.allocation is None or uid in kept:
                    continue
                if uid not in users_of:
                    users = frozenset(one.uid for one in claim.reserved_for)
                    users_of[uid] = users if users <= uids else None
                own = users_of[uid]
                if own is None or (own and pod.uid not in own):
                    continue  # before the object is read, which may be large, and shared by all of them
                if may_be_deallocated(claim.raw, pod.uid, uids):
                    kept[claim.claim.uid] = pod, claim
        return kept

    def _let_go(
        self,
        stuck: Mapping[str, tuple[Pod, ClaimObject]],
        beside: Collection[str],
        failed: Mapping[str, DevicesFailed] = _NONE,
    ) -> Awaitable[list[Freed]]:
        """Deallocate these claims, or take one of their users from those with several. beside: uids of these."""
        return asyncio.gather(*[self._attempts.free(pod, [claim], failed, beside) for pod, claim in stuck.values()])

    async def _free(
        self,
        taken: _GroupInFlight,
        stuck: Mapping[str, tuple[Pod, ClaimObject]],
        failed: Mapping[str, DevicesFailed] = _NONE,
    ) -> None:
        """Let go of these claims, at once; then the group is decided again."""
        freed = await self._let_go(stuck, {entry.pod.uid for entry in taken.entries}, failed)
        if problem := next((one.problem for one in freed if one.problem), ""):
            self._fail(taken, problem)
        else:
            now = self._clock()
            for entry in taken.entries:
                self._queue.held(entry.pod.uid, now, now)
        self._wake()

    def recover(self) -> None:
        """Finish what an earlier process has begun, beside what its claims show.

        Groups that it has bound say so; and devices are let go of that it has allocated for members of groups that
        wait for others by now.
        """
        for group in self._groups.all():
            for own, has_enough in self._groups.objects_of(group):
                if has_enough and not own.is_scheduled:
                    self._conditions.scheduled(own)
            if group.held and self._kept(group.waiting):
                self._attempts.start(self._release(group.key))

    async def _release(self, key: GroupKey) -> None:
        """Try until nothing is left, or the group can be decided: the watch may not show what was written last."""
        while (group := self._groups.group(key)).held and (stuck := self._kept(group.waiting)):
            freed = await self._let_go(stuck, {pod.uid for pod in group.waiting})
            for problem in filter(None, (one.problem for one in freed)):
                _LOG.info("%s", problem, extra={"group": str(group)})
            await self._binder.time.sleep(RELEASE_S)

    # -- what the watches show

    def on_event(self, event: Event) -> None:
        """A member that is gone before the others are bound ends their attempts: the rest is decided again."""
        if not isinstance(event, PodChanged) or event.old is None or not (event.new is None or event.new.is_over):
            return
        key = self._groups.key_of(event.old)
        if key is not None and (together := self._together.get(key)) is not None:
            together.gone(event.old.uid)


_NOTHING = pod_requests(Pod("", ""))
_WAITS = Refusal(frozenset({OF_GROUP}), _NOTHING)
