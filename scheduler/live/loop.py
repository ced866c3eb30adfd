"""The loop: takes the next pod from the queue, decides, reserves in memory, and lets it be bound beside the next ones.

Decision and reservation happen without a pause between them, so that nothing is given twice; the writes of a decision
are a task of their own. Whatever comes of it ends here: the pod is done, goes back to the queue, or is refused, and is
told so. Source: kube-scheduler's scheduling and binding cycles.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from allocator.model import Claim, DeviceID
from scheduler.binding import conditions, pod_condition
from scheduler.binding.bind_pod import bind_pod
from scheduler.binding.binder import Binder
from scheduler.binding.claim_objects import key_of
from scheduler.binding.decision import Bound, ClaimPlan, Decision, Fatal, Gone, Outcome, PodKey, Refused, Retry
from scheduler.binding.events import Events
from scheduler.binding.post_filter import deallocate_one
from scheduler.binding.refusals import Refusals
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.cycle.claim_index import AlreadyReserved, ClaimObject
from scheduler.cycle.cluster import ASIDE_S, Cluster
from scheduler.cycle.decide import Failed, NotPlaced, Placed, decide
from scheduler.cycle.events import ClaimChanged, GivenBack
from scheduler.cycle.hints import Reason, Refusal
from scheduler.cycle.invariants import Violation
from scheduler.cycle.pod_claims import Waiting, full
from scheduler.cycle.pod_requests import pod_requests
from scheduler.cycle.queue import Place, Queue, QueuedPod
from scheduler.live.metrics import Metrics, Point, Result, Status

_LOG = logging.getLogger(__name__)


BEAT_S = 5.0
"""The loop wakes at least so often, if only to show that it is alive."""


BACK_S = 1.5
"""For so long what was cancelled may take back what it wrote."""

PROBE_S = 1.0
"""While no pod can be bound before an operator acts, one is tried so often, to find out when he has."""

LOOK_S = 0.2
"""So often it looks whether lost changes are made up for."""

QUIET_ATTEMPTS = 3
"""A pod's attempts that may be lost to another scheduler without a word to the pod."""

INTERNAL = "internal error, see the scheduler's log"

_NOT_TRIED = (Place.UNSCHEDULABLE, Place.GATED)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a loop works with. violated: told where two attempts meet that never should."""

    cluster: Cluster
    queue: Queue
    binder: Binder
    events: Events
    refusals: Refusals
    metrics: Metrics
    violated: Callable[[Violation], None]


class Loop:
    """Decides for one pod after the other.

    clock: seconds that only go forward, as the queue takes them. is_outdated: whether what the cluster shows lacks
    changes; until it does not, nothing is decided. concurrency: pods that are written at the same time. is_dry: decide
    and log, and write nothing. beat_at: when it was last at work.
    """

    def __init__(
        self,
        parts: Parts,
        clock: Callable[[], float],
        is_outdated: Callable[[], bool],
        *,
        concurrency: int,
        is_dry: bool = False,
    ) -> None:
        self._is_outdated = is_outdated
        self._trouble = ("", "")
        self._probe_at = 0.0
        self.beat_at = clock()
        self._cluster = parts.cluster
        self._queue = parts.queue
        self._binder = parts.binder
        self._events = parts.events
        self._refusals = parts.refusals
        self._metrics = parts.metrics
        self._violated = parts.violated
        self._is_dry = is_dry
        self._clock = clock
        self._writing = asyncio.Semaphore(concurrency)
        self._writers: set[int] = set()
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._would_be: dict[str, tuple[Pod, tuple[Claim, ...]]] = {}
        self._is_ready = asyncio.Event()

    @property
    def bindings(self) -> int:
        """Pods that are being written and bound."""
        return len(self._tasks)

    @property
    def trouble(self) -> str:
        """Why no pod can be bound before an operator acts; empty while one can, or none is there that shows it.

        A pod that is refused, or waits for its claims, shows it no more: it may not be tried for as long as it waits.
        """
        uid, reason = self._trouble
        entry = self._queue.get(uid)
        return reason if entry is not None and entry.place not in _NOT_TRIED else ""

    def wake(self) -> None:
        """There may be a pod to try."""
        self._is_ready.set()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            self._is_ready.clear()
            self._give_back()
            self.beat_at = now = self._clock()
            entry = self._queue.pop(now) if now >= self._resumes_at and not self._is_outdated() else None
            if entry is None:
                await self._idle(now)
                continue
            self._probe_at = now + PROBE_S
            try:
                self._attempt(entry, now)
            except AlreadyReserved as error:
                self._violated(Violation("I6", f"pod {entry.pod}", str(error)))
                self._fail(entry, INTERNAL, now)
            except Exception:  # noqa: BLE001 - whatever it is, the pod waits and the others go on
                _LOG.exception("the attempt failed", extra={"pod": str(entry.pod)})
                self._fail(entry, INTERNAL, now)
            await asyncio.sleep(0)  # watches and writes have their turn after every decision

    @property
    def _resumes_at(self) -> float:
        return self._probe_at if self.trouble else 0.0

    async def finish(self, patience_s: float) -> None:
        """Let what is under way end; what does not within patience_s is cancelled, and takes back what it wrote."""
        if not self._tasks:
            return
        late = (await asyncio.wait(self._tasks, timeout=patience_s))[1]
        # Cancelled once, a task takes back what it wrote; twice, it stops at once, and the next start does the rest.
        for more_s in (BACK_S, None):
            for task in late:
                task.cancel()
            late = (await asyncio.wait(late, timeout=more_s))[1] if late else late

    def waits(self, decision: Decision) -> None:
        """The decision waits for its devices to be made ready, which may take minutes: others may write meanwhile."""
        if decision.attempt in self._writers:
            self._writers.remove(decision.attempt)
            self._writing.release()

    async def _idle(self, now: float) -> None:
        ready = self._queue.next_ready(now)
        wait_s = BEAT_S if ready is None else min(max(ready, self._resumes_at) - now, BEAT_S)
        if self._is_outdated():
            wait_s = LOOK_S
        try:
            async with asyncio.timeout(wait_s):
                await self._is_ready.wait()
        except TimeoutError:
            return

    def _attempt(self, entry: QueuedPod, started: float) -> None:
        pod = entry.pod
        found = self._cluster.claims_of(pod)
        if isinstance(found, Waiting):
            refusal = Refusal(frozenset({Reason.CLAIMS}), pod_requests(pod), message=found.reason)
            if found.kept is not None and not self._is_dry:
                kept = (ClaimPlan(found.kept.raw),)
                self._start(self._free(entry, self._decision(pod, "", kept), refusal, {}, started))
            else:
                self._refuse(entry, refusal, started)
            return
        failed = self._failed(found)
        reasons = {uid: one.reason for uid, one in failed.items()}
        verdict = decide(self._cluster, pod, [one.claim for one in found], full(pod, found), reasons)
        self._metrics.decided(self._clock() - started)
        match verdict:
            case Placed():
                self._place(entry, verdict, started)
            case NotPlaced(refusal, stuck) if stuck and not self._is_dry:
                held = [one for one in found if one.claim in stuck]
                plans = tuple(ClaimPlan(one.raw) for one in held)
                self._start(self._free(entry, self._decision(pod, "", plans), refusal, failed, started))
            case NotPlaced(refusal):
                self._refuse(entry, refusal, started)
            case Failed(reason):
                self._fail(entry, reason, started)

    def _failed(self, claims: Iterable[ClaimObject]) -> dict[str, conditions.Failed]:
        """The allocated claims, by uid, whose devices will not be made ready."""
        now, timeout_s = self._binder.time.now(), self._binder.binding_timeout_s
        states = {
            one.claim.uid: conditions.state_of(one.raw, now, timeout_s)
            for one in claims
            if one.claim.allocation and any(result.binding_conditions for result in one.claim.allocation.results)
        }
        return {uid: state for uid, state in states.items() if isinstance(state, conditions.Failed)}

    # -- a pod that has a node

    def _place(self, entry: QueuedPod, placed: Placed, started: float) -> None:
        pod = entry.pod
        allocations = self._cluster.reserve(pod, placed)
        plans = tuple(ClaimPlan(claim.raw, allocation) for claim, allocation in allocations)
        decision = self._decision(pod, placed.node, plans)
        if self._is_dry:
            devices = [str(result.id) for one in placed.allocations for result in one.results]
            _LOG.info("would be bound", extra={"pod": str(pod), "node": placed.node, "devices": devices})
            # It stays in flight: it is not tried again, and seen when it goes.
            self._would_be[pod.uid] = (pod, placed.claims)
            return
        self._refusals.forget(pod.uid)
        self._start(self._bind(entry, decision, placed.claims, started))

    def _give_back(self) -> None:
        """What a dry run has reserved for pods that are gone by now, or have their node from somebody else."""
        for uid in [uid for uid in self._would_be if self._queue.get(uid) is None]:
            self._cluster.unreserve(uid)
            self._queue.on_event(GivenBack(*self._would_be.pop(uid)), self._clock())

    def _decision(self, pod: Pod, node: str, plans: Sequence[ClaimPlan]) -> Decision:
        return Decision(PodKey.of(pod), node, tuple(plans), next(self._numbers), is_assigned=bool(pod.node_name))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, entry: QueuedPod, decision: Decision, claims: tuple[Claim, ...], started: float) -> None:
        outcome: Outcome | None = None
        try:
            await self._writing.acquire()
            self._writers.add(decision.attempt)
            outcome = await bind_pod(self._binder, decision)
        except CallFailed as error:
            outcome = Retry(str(error))
        except Exception:  # noqa: BLE001 - whatever it is, the pod goes back to the queue and the others go on
            _LOG.exception("binding failed", extra={"pod": str(decision.pod), "node": decision.node})
            outcome = Retry(INTERNAL)
        finally:
            self.waits(decision)
            if not isinstance(outcome, Bound):
                self._cluster.unreserve(entry.pod.uid)
                self._queue.on_event(GivenBack(entry.pod, claims), self._clock())
            if outcome is not None:
                self._end(entry, decision, outcome, started)
            self.wake()

    def _end(self, entry: QueuedPod, decision: Decision, outcome: Outcome, started: float) -> None:
        now = self._clock()
        match outcome:
            case Bound(node):
                self._trouble = ("", "")
                self._queue.done(entry.pod.uid)
                self._cluster.bound(entry.pod.uid)
                self._events.scheduled(decision.pod, node)
                self._metrics.attempted(Result.SCHEDULED, now - started)
                self._metrics.scheduled(entry.attempts, now - (entry.first or started))
                _LOG.debug("bound", extra={"pod": str(decision.pod), "node": node})
            case Refused(reason):
                refusal = Refusal(frozenset({Reason.CLAIMS}), pod_requests(entry.pod), message=reason)
                self._refuse(entry, refusal, started)
            case Retry(reason, after_s, failed, is_lost):
                self._set_aside(failed)
                # What is said would move the pod's version under who was faster, and is about to bind it.
                is_quiet = is_lost and entry.attempts <= QUIET_ATTEMPTS
                self._fail(entry, reason, started, after_s, is_quiet=is_quiet)
            case Gone(reason):
                _LOG.info("nothing left to schedule", extra={"pod": str(decision.pod), "reason": reason})
                self._queue.remove(entry.pod.uid)
            case Fatal(reason):
                self._trouble = (entry.pod.uid, reason)
                _LOG.error("no pod can be bound", extra={"pod": str(decision.pod), "reason": reason})
                self._fail(entry, reason, started)

    # -- a pod that has none

    async def _free(
        self,
        entry: QueuedPod,
        decision: Decision,
        refusal: Refusal,
        failed: Mapping[str, conditions.Failed],
        started: float,
    ) -> None:
        """Deallocate a claim that keeps the pod from every node; its event brings the pod back, or that it failed."""
        began, status, problem = self._clock(), Status.UNSCHEDULABLE, ""
        try:
            async with self._writing:
                freed = await deallocate_one(self._binder, decision)
            if freed is not None:
                status, broken = Status.SUCCESS, failed.get(key_of(freed).uid)
                self._set_aside(broken.devices if broken else ())
                _LOG.info("claim deallocated: it cannot serve its pod", extra={"pod": str(decision.pod)})
        except CallFailed as error:
            status, problem = Status.ERROR, f"a claim could not be deallocated: {error}"
            _LOG.warning("a claim could not be deallocated: %s", error, extra={"pod": str(decision.pod)})
        except Exception:  # noqa: BLE001 - whatever it is, the pod goes back to the queue and the others go on
            status, problem = Status.ERROR, INTERNAL
            _LOG.exception("deallocating a claim failed", extra={"pod": str(decision.pod)})
        finally:
            self._metrics.passed(Point.POST_FILTER, status, self._clock() - began)
            if problem:
                self._fail(entry, problem, started)
            else:
                self._refuse(entry, refusal, started)
            self.wake()

    def _refuse(self, entry: QueuedPod, refusal: Refusal, started: float) -> None:
        now, pod = self._clock(), entry.pod
        self._queue.refused(pod.uid, refusal, now)
        self._metrics.attempted(Result.UNSCHEDULABLE, now - started)
        self._tell(pod, "Unschedulable", refusal.message)

    def _set_aside(self, devices: Sequence[DeviceID]) -> None:
        """Keep devices that could not be made ready from everybody for a while: they would be chosen again at once."""
        if devices:
            asyncio.get_running_loop().call_later(ASIDE_S, self._put_back, self._cluster.set_aside(devices))

    def _put_back(self, aside: Claim) -> None:
        self._cluster.put_back(aside)
        self._queue.on_event(ClaimChanged(aside, None), self._clock())
        self.wake()

    def _fail(
        self, entry: QueuedPod, reason: str, started: float, after_s: float | None = None, *, is_quiet: bool = False
    ) -> None:
        now, pod = self._clock(), entry.pod
        self._queue.failed(pod.uid, now, after_s)
        self._metrics.attempted(Result.ERROR, now - started)
        if not is_quiet:
            self._tell(pod, "SchedulerError", reason)

    def _tell(self, pod: Pod, reason: pod_condition.Reason, message: str) -> None:
        if self._is_dry:
            _LOG.info("not placed", extra={"pod": str(pod), "reason": reason, "message_of_pod": message})
            return
        self._events.failed_scheduling(PodKey.of(pod), message)
        if not pod.node_name:  # of one that has a node its kubelet says that it is scheduled
            self._refusals.refuse(pod, reason, message)
