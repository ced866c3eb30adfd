"""All attempts of a program: each reserves in memory, carries out its steps, and releases what it reserved.

Decision and reservation happen without an await in between, so that nothing is allocated twice. The writes run as a
task, in parallel with the next decisions. When an attempt ends, its reservation either stays until the watch shows the
writes, or is released. The scheduler and the extender both use this module.
Source: kube-scheduler's binding cycle.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

from allocator.model import Claim, DeviceID
from scheduler.attempt.attempt import Report, Together, report_nothing
from scheduler.attempt.binder import DEALLOCATE, SLOT, UNDO, Binder
from scheduler.attempt.claim_objects import intent_in, key_of
from scheduler.attempt.claim_step import deallocate_one
from scheduler.attempt.decision import (
    AttemptOutcome,
    Bound,
    BoundElsewhere,
    ClaimPlan,
    Decision,
    ExtendedPlan,
    Fatal,
    Pending,
    PodKey,
    Retry,
)
from scheduler.attempt.pod_calls import device_status
from scheduler.attempt.run import bind_pod
from scheduler.attempt.slots import Slot, Slots
from scheduler.attempt.steps.pod import Bind, DevicesFailed
from scheduler.attempt.write_outcome import Defects, Denials
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import ASIDE_S, FASTER, NOT_READY, Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.state.claims import AlreadyReserved, ClaimObject
from scheduler.state.cluster_changes import ClaimChanged, Event, GivenBack
from scheduler.state.invariants import Violation
from scheduler.state.volumes import NO_PLAN, VolumePlan

BACK_S = 1.5
"""How long a cancelled attempt may undo its steps."""

FASTER_S = 2.0
"""How long devices stay unavailable that an attempt lost to another process."""

APART_S = 60.0
"""How long after a lost race this process keeps away from the nodes of the scheduler that was faster."""

INTERNAL = "internal error, see the log"
"""What users see of an unexpected error."""

Result = TypeVar("Result")

_NONE: Mapping[str, DevicesFailed] = MappingProxyType({})

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reserved:
    """A decision whose devices and node are reserved in memory, before it is carried out."""

    pod: Pod
    decision: Decision
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Freed:
    """claim: which one was deallocated, raw; None where none may be, or there was a problem."""

    claim: Mapping[str, Any] | None  # Any: as it came
    problem: str = ""


GivenBackHandler = Callable[[Event, str], None]
"""Called when something is free again that was taken in memory alone: with the event, and its node, "" for any."""


class Attempts:
    """All attempts of one program.

    given_back: called with what is free again. concurrency: attempts that write at a time. is_tried: whether a pod,
    by its uid, is still one to be tried; as long as it is, it shows that no pod can be bound, if it did.
    waits_for_devices: where they are not ready yet.
    """

    def __init__(  # noqa: PLR0913 - what they work with, and how
        self,
        cluster: Cluster,
        binder: Binder,
        given_back: GivenBackHandler,
        *,
        concurrency: int,
        is_tried: Callable[[str], bool],
        waits_for_devices: bool,
    ) -> None:
        self.slots = Slots(concurrency, binder.time.monotonic)
        self._cluster = cluster
        self._identity = cluster.order.identity
        self._binder = binder
        self._given_back = given_back
        self._waits_for_devices = waits_for_devices
        self._defects = Defects(is_tried)
        self._denials = Denials()
        self._together: asyncio.TimerHandle | None = None
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[Any]] = set()  # Any: of whatever result
        self._binding: dict[str, asyncio.Task[Any]] = {}
        self._given_up: dict[str, str] = {}

    @property
    def number(self) -> int:
        """Attempts under way."""
        return len(self._tasks)

    @property
    def trouble(self) -> str:
        """Why no pod can be bound before an operator acts; empty while one can, or none is there that shows it."""
        return self._defects.trouble

    def objection(self, namespace: str) -> str:
        """Why no pod of the namespace is tried now; empty where one may be."""
        return self.slots.objection(namespace) or self._defects.objection(namespace, self._now)

    @property
    def _now(self) -> float:
        return self._binder.time.monotonic()

    def refused(self, pod_uid: str) -> None:
        """No node passes for the pod: it shows no more that no pod can be bound, for as long as it waits."""
        self._defects.refused(pod_uid)

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run an attempt as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self, wait_s: float, back_s: float = BACK_S) -> None:
        """Wait for the attempts under way; cancel what does not end within wait_s, so that it is undone."""
        if not self._tasks:
            return
        late = (await asyncio.wait(self._tasks, timeout=wait_s))[1]
        # Cancelled once, a task takes back what it wrote; twice, it stops at once, and the next start does the rest.
        for more_s in (back_s, None):
            for task in late:
                task.cancel()
            late = (await asyncio.wait(late, timeout=more_s))[1] if late else late

    # -- a pod that has a node

    def reserve(self, pod: Pod, placed: Placed, *, writes_device_status: bool = False) -> Reserved:
        """Reserve in memory what was decided, for `carry_out` or `withdraw`. Raises AlreadyReserved, and takes nothing.

        writes_device_status: the pod's status names its devices; else that is up to whoever has decided more.
        """
        try:
            allocations = self._cluster.reserve(pod, placed)
        except AlreadyReserved as error:
            self._binder.listener.violated(Violation("I6", f"pod {pod}", str(error)))
            raise
        plans = [ClaimPlan(claim.raw, allocation) for claim, allocation in allocations]
        claims, extended = placed.claims, None
        if placed.extended is not None:
            claims = (*claims, placed.extended.claim)
            extended = ExtendedPlan(placed.extended, placed.allocations[-1])
        status = device_status(pod, placed) if writes_device_status else None
        decision = self._decision(pod, placed.node, plans, extended=extended, pod_status=status, volumes=placed.volumes)
        return Reserved(pod, decision, claims)

    def withdraw(self, reserved: Reserved) -> None:
        """Release what is reserved, in place of `carry_out`."""
        self._end(reserved, None)

    async def slot(self, namespace: str, reserved: Reserved | None) -> Slot:
        """A slot; what is reserved stays so until there is one, and is released where the wait is cancelled."""
        pod = reserved and reserved.decision.pod
        if pod and reserved:
            self._binder.progress.at(pod.uid, str(pod), reserved.decision.node, SLOT)
        try:
            return await self.slots.wait(namespace)
        except asyncio.CancelledError:
            if reserved:
                self.withdraw(reserved)
            raise
        finally:
            if pod:
                self._binder.progress.end(pod.uid)

    async def carry_out(
        self, reserved: Reserved, slot: Slot, report: Report = report_nothing, together: Together | None = None
    ) -> AttemptOutcome:
        """Write and bind what is reserved. Raises what cancels it, once all is taken back.

        report, together: as of `Attempt`.
        """
        decision, outcome = reserved.decision, None
        try:
            outcome = await bind_pod(self._binder, decision, slot, report, together)
        except Exception:  # noqa: BLE001 - whatever it is, it costs this pod and no other
            _LOG.exception("binding failed", extra={"pod": str(decision.pod), "node": decision.node})
            outcome = Retry(INTERNAL)
            report(outcome)
        finally:
            slot.give_back()
            self._end(reserved, outcome)
        return outcome

    async def bind(self, reserved: Reserved, report: Report = report_nothing) -> AttemptOutcome:
        """Get a slot, and carry out what is reserved; `give_up` can end this as a retry, once all is taken back."""
        uid, task = reserved.pod.uid, asyncio.current_task()
        assert task is not None, "an attempt is a task"
        self._binding[uid] = task
        try:
            slot = await self.slot(reserved.pod.namespace, reserved)
            return await self.carry_out(reserved, slot, report)
        except asyncio.CancelledError:
            if uid not in self._given_up:
                raise
            task.uncancel()
            outcome = Retry(self._given_up[uid])
            report(outcome)
            return outcome
        finally:
            self._given_up.pop(uid, None)
            del self._binding[uid]

    def give_up(self, uid: str, why: str) -> bool:
        """End the attempt to bind the pod, whose place goes to another; False where there is none, or it is too late.

        Source: kube-scheduler's executor.go, which cancels victims that wait on Permit or in PreBind.
        """
        task, step = self._binding.get(uid), self._binder.progress.step(uid)
        if task is None or step == Bind.__name__:
            return False
        if step != UNDO and uid not in self._given_up:
            self._given_up[uid] = why
            task.cancel()
        return True

    def _end(self, reserved: Reserved, outcome: AttemptOutcome | None) -> None:
        uid, decision = reserved.pod.uid, reserved.decision
        match outcome:
            case Bound():
                self._defects.bound(reserved.pod.namespace, self._now)
                self._cluster.bound(uid)
                return
            case BoundElsewhere() | Pending():
                # What is stored of it counts until the watch shows it; the pod is not on this node.
                self._cluster.volumes.forget(uid)
                self._cluster.bound(uid)
                self._cluster.pods.forget(uid)
            case _:
                self._cluster.unreserve(uid)
        if isinstance(outcome, Retry):
            self._set_aside(outcome.failed, decision.node)
            if outcome.is_denied:
                message = f"pod {reserved.pod} is not bound: {outcome.reason}"
                self._denials.denied(reserved.pod.namespace, message, self._now)
            if outcome.is_taken:
                # The faster one decides as we do, and has most likely taken the same devices: our watch will show it.
                self._set_aside(decision.exclusive, decision.node, FASTER_S, FASTER)
                self._keep_apart(decision)
                self.slots.lost()
        if isinstance(outcome, Fatal):
            self._defects.found(reserved.pod.namespace, uid, outcome.reason, self._now)
            _LOG.error("cannot bind pods", extra={"pod": str(decision.pod), "reason": outcome.reason})
        if not isinstance(outcome, Pending):
            self._given_back(GivenBack(reserved.pod, reserved.claims, decision.node), decision.node)

    # -- a pod that has none

    async def free(
        self,
        pod: Pod,
        claims: Sequence[ClaimObject],
        failed: Mapping[str, DevicesFailed] = _NONE,
        beside: Collection[str] = (),
    ) -> Freed:
        """Deallocate one of the claims that keep the pod from every node, as soon as there is a slot.

        failed: those whose devices will not be made ready, by uid. beside: as of `may_be_deallocated`.
        """
        progress = self._binder.progress
        progress.at(pod.uid, str(pod), "", SLOT)
        slot = await self.slots.wait(pod.namespace)
        decision = self._decision(pod, "", [ClaimPlan(one.raw) for one in claims])
        progress.at(pod.uid, str(pod), "", DEALLOCATE)
        try:
            freed = await deallocate_one(self._binder, decision, slot, beside)
        except CallFailed as error:
            _LOG.warning("cannot deallocate a claim: %s", error, extra={"pod": str(pod)})
            return Freed(None, f"a claim could not be deallocated: {error}")
        except Exception:  # noqa: BLE001 - whatever it is, it costs this pod and no other
            _LOG.exception("deallocating a claim failed", extra={"pod": str(pod)})
            return Freed(None, INTERNAL)
        finally:
            slot.give_back()
            progress.end(pod.uid)
        if freed is not None:
            _LOG.info("claim deallocated, because its pod cannot use it", extra={"pod": str(pod)})
            broken = failed.get(key_of(freed).uid)
            self._set_aside(broken.devices if broken else (), "")
        return Freed(freed)

    def _decision(  # noqa: PLR0913 - the parts of a decision
        self,
        pod: Pod,
        node: str,
        plans: Sequence[ClaimPlan],
        *,
        extended: ExtendedPlan | None = None,
        pod_status: Mapping[str, object] | None = None,
        volumes: VolumePlan = NO_PLAN,
    ) -> Decision:
        return Decision(
            PodKey.of(pod),
            node,
            tuple(plans),
            next(self._numbers),
            is_assigned=bool(pod.node_name),
            waits_for_devices=self._waits_for_devices,
            extended=extended,
            pod_status=pod_status,
            volumes=volumes,
        )

    def _set_aside(
        self, devices: Sequence[DeviceID], node: str, for_s: float = ASIDE_S, holder: str = NOT_READY
    ) -> None:
        """Make devices unavailable for a while that would be chosen again at once."""
        if devices:
            aside = self._cluster.set_aside(devices, holder)
            asyncio.get_running_loop().call_later(for_s, self._put_back, aside, node)

    def _keep_apart(self, decision: Decision) -> None:
        """Split the nodes with the schedulers that we met; take them in another order than one of our own name."""
        order, our_name = self._cluster.order, self._binder.scheduler
        others = self._holders_of(decision.exclusive)
        if our_name in others or not others:
            order.search_as(self._binder.process)
        order.split(our_name, others.union(order.others) - {our_name})
        if self._together:
            self._together.cancel()
        self._together = asyncio.get_running_loop().call_later(APART_S, self._come_together)

    def _come_together(self) -> None:
        self._cluster.order.search_as(self._identity)
        self._cluster.order.split("", ())

    def _holders_of(self, devices: Sequence[DeviceID]) -> set[str]:
        """The schedulers whose intents are on claims with these devices, by name."""
        holdings = [held for device in devices for held in self._cluster.claims.holders(device).values()]
        intents = [intent_in(held.watched.metadata.annotations) for held in holdings if held.watched]
        return {intent.scheduler for intent in intents if intent}

    def _put_back(self, aside: Claim, node: str) -> None:
        self._cluster.put_back(aside)
        self._given_back(ClaimChanged(aside, None), node)
