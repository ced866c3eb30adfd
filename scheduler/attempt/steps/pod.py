"""Steps on the pod: nominate, wait for devices to become ready and for others of its group, bind."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from allocator.api.versions import Json
from allocator.model import DeviceID
from scheduler.attempt import pod_calls
from scheduler.attempt.attempt import Attempt, Together, WrittenClaim, ended
from scheduler.attempt.binder import Binder, Subject, node_subject, pause_s, resource_claim_subject
from scheduler.attempt.claim_objects import (
    RawClaim,
    allocation_of,
    consumers_of,
    is_of_another_attempt,
    key_of,
    results_of,
)
from scheduler.attempt.claim_step import renew
from scheduler.attempt.decision import AttemptEnded, Bound, BoundElsewhere, Gone, Pending, Point, Retry, Step
from scheduler.attempt.pod_fate import Known, Pod, Unknown, look, unless_shown, waiting, write_status
from scheduler.attempt.write_outcome import MUTATED, WriteOutcome, may_pass, write_outcome
from scheduler.client.api_resources import PODS
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod_status import EXTENDED_STATUS

CLOCK_SLACK = timedelta(seconds=30)
"""How far the clock of the machine that allocated may be ahead of ours or behind."""


@dataclass(frozen=True, slots=True)
class DevicesReady:
    """The pod may be bound, as far as the claim goes."""


@dataclass(frozen=True, slots=True)
class DevicesPending:
    """Devices that are not ready yet."""

    devices: tuple[DeviceID, ...]


@dataclass(frozen=True, slots=True)
class DevicesFailed:
    """Devices that will not become ready."""

    devices: tuple[DeviceID, ...]
    reason: str


Readiness = DevicesReady | DevicesPending | DevicesFailed


def readiness_of(claim: RawClaim, now: datetime, timeout_s: float) -> Readiness:
    """The state of an allocated claim's devices, as drivers report it in `status.devices`.

    A device fails if a failure condition becomes true, or if it is not ready within the timeout. Then the devices are
    deallocated, and the pod is decided again. timeout_s: since the allocation.
    """
    allocation = allocation_of(claim) or {}
    conditional = [result for result in results_of(allocation) if result.get("bindingConditions")]
    if not conditional:
        return DevicesReady()
    statuses = {_device(status): status for status in claim.get("status", {}).get("devices") or ()}
    waiting: list[DeviceID] = []
    for result in conditional:
        conditions = _true_conditions(statuses.get(_device(result)) or {})
        device = DeviceID(result["driver"], result["pool"], result["device"])
        if failure := next(_intersection(result.get("bindingFailureConditions"), conditions), None):
            reason = f"device binding failed: device {device} has the condition {failure}: {conditions[failure]}"
            return DevicesFailed((device,), reason.rstrip(": "))
        if not all(name in conditions for name in result["bindingConditions"]):
            waiting.append(device)
    if waiting and is_overdue(allocation, now, timeout_s):
        named = ", ".join(map(str, waiting))
        return DevicesFailed(tuple(waiting), f"device binding timeout: not ready within {timeout_s:.0f} s: {named}")
    return DevicesPending(tuple(waiting)) if waiting else DevicesReady()


def is_overdue(allocation: Mapping[str, Any], now: datetime, timeout_s: float) -> bool:
    """True once so much time has gone since the allocation; never for one that does not say when it was made."""
    text = allocation.get("allocationTimestamp")
    if not isinstance(text, str) or not text:
        return False
    made = datetime.fromisoformat(text)
    made = made if made.tzinfo else made.replace(tzinfo=UTC)
    return now - made > timedelta(seconds=timeout_s) + CLOCK_SLACK


def _device(holder: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(holder.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _true_conditions(status: Mapping[str, Any]) -> dict[str, str]:
    """Type to message."""
    return {one["type"]: one.get("message") or "" for one in status.get("conditions") or () if one["status"] == "True"}


def _intersection(names: Sequence[str] | None, found: Mapping[str, str]) -> Iterator[str]:
    return (name for name in names or () if name in found)


# A write to the pod, based on the version that was read; repeated if the pod, read again, may still be bound.
#
# A write is sent with a newer version than the decision's only after all claims were verified once more to be the
# attempt's. It is undone by fencing it off, which the attempt does before anything else (`scheduler.attempt.run`).


FAILURES_MAX = 4
"""Writes to one pod that may fail before its attempt ends."""


@dataclass(eq=False)
class PodStep(Step):
    """A step that writes to the pod."""

    point: ClassVar[Point] = "Bind"

    binder: Binder
    attempt: Attempt

    @abstractmethod
    async def send(self) -> Bound | None:
        """Write to the pod under its version; what `do` returns. Raises CallFailed."""

    async def do(self) -> Bound | None:
        """Write to the pod; Bound where it is bound by then. Raises AttemptEnded where it cannot be, or not now."""
        bound, is_sent = None, False
        while not (is_sent or bound):
            before, self.attempt.pod.sent = self.attempt.pod.sent, self.attempt.pod.version
            try:
                # The pod is as it was decided, or as it was when its claims were found to be ours.
                binding, is_sent = await unless_shown(self.binder, self.attempt, self.send), True
            except CallFailed as error:
                bound = await self._failed(error, before)
            else:
                bound = _bound(self.attempt, binding)
        self.attempt.pod.sent = ""
        if bound:
            self.attempt.slot.succeeded()
        return bound

    @property
    def goes_on(self) -> bool:
        """Whether it is tried again, however often it has failed."""
        return False

    @property
    def is_idle(self) -> bool:
        """Whether no write to the pod can be stored later."""
        return not self.attempt.pod.sent

    async def undo(self, node: str) -> bool:
        """Nothing: what was in flight is fenced off, and what is left of a status goes with the next binding."""
        assert self.is_idle, f"a write to pod {self.attempt.decision.pod} is in flight"
        return False

    async def _failed(self, error: CallFailed, before: str) -> Bound | None:
        """Find out why; return where the write is to be sent again. Raises AttemptEnded where it is not.

        before: the version under which an earlier write may still be stored, whatever became of this one.
        """
        attempt, pod = self.attempt, self.attempt.pod
        self.binder.progress.failed(attempt.decision.pod.uid, error)
        if not may_pass(error) and not self.goes_on:
            pod.sent = before
            raise ended(attempt, error, f"pod {attempt.decision.pod}") from error
        if error.is_ambiguous:
            attempt.slot.failed(str(error), error.gist)
        pod.failures += 1
        # Before the pod is read: what somebody changes all the time would have changed again after it.
        await self.binder.time.sleep(pause_s(pod.failures, self.binder.time, first_s=0.01))
        seen = await look(self.binder, attempt)
        if isinstance(seen, Bound):
            return seen
        current = _to_try_next(attempt, seen)
        is_last = pod.failures >= FAILURES_MAX or attempt.slot.is_failing
        if not self.goes_on and (is_last or (error.is_ambiguous and attempt.slot.is_slow)):
            raise AttemptEnded(_not_bound(attempt, error))
        if (moved := str(current["metadata"]["resourceVersion"])) != pod.version:
            await renew(self.binder, attempt)
        pod.version, pod.status = moved, pod_calls.of_pod_now(attempt.decision, current)
        return None


async def write_device_fields(binder: Binder, attempt: Attempt) -> None:
    """Write what the pod's status has to say, if anything. Raises CallFailed, and AttemptEnded where it does not stay.

    Nothing can have happened to the pod between the version before and the one after.
    """
    pod = attempt.pod
    if not pod.status:
        return
    named_claim, pod.names_claim = pod.names_claim, pod.names_claim or bool(pod.status.get(EXTENDED_STATUS))
    try:
        stored = await pod_calls.replace_status(binder.api, attempt.decision.pod, pod.version, pod.status)
    except CallFailed as error:
        if not error.is_ambiguous:
            pod.names_claim = named_claim
        raise
    pod.version = pod.sent = str(stored["metadata"]["resourceVersion"])
    if pod.status.get(EXTENDED_STATUS) and not pod_calls.names_claim(stored, attempt.decision):
        pod.sent, pod.names_claim = "", named_claim
        reason = f"pod {attempt.decision.pod} was stored without status.{EXTENDED_STATUS}: {MUTATED}"
        raise AttemptEnded(Retry(reason, is_denied=True))
    pod.status = {}


def _bound(attempt: Attempt, found: Known | None) -> Bound | None:
    """Whether the write has bound the pod. Raises AttemptEnded where it cannot be bound any more."""
    if isinstance(found, BoundElsewhere | Gone):
        attempt.pod.sent = ""
        raise AttemptEnded(found)
    return found


def _not_bound(attempt: Attempt, error: CallFailed) -> Retry:
    return Retry(f"pod {attempt.decision.pod} was not bound in {attempt.pod.failures} tries, the last: {error}")


def _to_try_next(attempt: Attempt, found: BoundElsewhere | Gone | Unknown | Json) -> Json:
    """The pod, where it may be bound. Raises AttemptEnded where it may not."""
    if isinstance(found, BoundElsewhere | Gone):
        attempt.pod.sent = ""
    if isinstance(found, BoundElsewhere | Gone | Unknown):
        raise AttemptEnded(found)
    if found["metadata"]["resourceVersion"] != attempt.pod.sent:
        attempt.pod.sent = ""  # it can never be stored
    if name := _claim_since(attempt, found):
        raise AttemptEnded(
            Retry(f"pod {attempt.decision.pod} uses claim {name} now, which is not part of the decision")
        )
    return found


def _claim_since(attempt: Attempt, pod: Mapping[str, Any]) -> str:
    """A claim that the pod uses now and did not when it was decided; empty where there is none.

    kube-controller-manager makes a second claim for an entry where it does not see its first one in time.
    """
    decided = {key_of(plan.claim).name for plan in attempt.decision.claims}
    status = pod.get("status") or {}
    entries = (*(pod["spec"].get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    names = (entry.get("resourceClaimName") for entry in entries)
    return next((name for name in names if name and name not in decided), "")


# Waits until the devices of all claims are ready for the node.
#
# It follows the watch of the claims. The wait fails when the node is gone, when a device fails, or at the binding
# timeout. A caller that learns earlier that the pod is no longer wanted cancels the attempt. A decision that does not
# wait for devices ends as Pending. Source: KEP-5007; feature gate DRADeviceBindingConditions.


LOOK_S = 5.0
"""How often it is looked whether the time is up, while nothing changes."""


@dataclass(eq=False)
class AwaitConditions(Step):
    """The wait for the devices of the attempt's claims."""

    binder: Binder
    attempt: Attempt

    @property
    def waits_for(self) -> str:
        """Devices, in words; empty if none."""
        devices = unready(self.binder, self.attempt)
        return awaited_devices(devices) if devices else ""

    async def do(self) -> Pending | None:
        """Return once all devices are ready. Raises AttemptEnded where they will not be."""
        waiting = unready(self.binder, self.attempt)
        if waiting:
            message = f"waiting for {awaited_devices(waiting)}"
            self.binder.listener.pending(self.attempt.decision, message)
            if not self.attempt.decision.waits_for_devices:
                return Pending(message)
            self.attempt.slot.give_back()  # it may take minutes, in which others may write
        while waiting:
            with self.binder.changes.following(self._subjects()) as changed:
                for written in self.attempt.claims:
                    self._refresh(written)
                waiting = unready(self.binder, self.attempt)
                if waiting:
                    await self._until(changed)
        return None

    def _subjects(self) -> Iterator[Subject]:
        yield node_subject(self.attempt.decision.node)
        yield from (resource_claim_subject(written.key.uid) for written in self.attempt.claims)

    async def _until(self, changed: asyncio.Event) -> None:
        """Return once something has changed, or after a while."""
        loop = asyncio.get_running_loop()
        either = [loop.create_task(changed.wait()), asyncio.ensure_future(self.binder.time.sleep(LOOK_S))]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in either:
                task.cancel()

    def _refresh(self, written: WrittenClaim) -> None:
        """Look at the claim as the watch shows it. Raises AttemptEnded where it is not the pod's any more."""
        attempt = self.attempt
        current = self.binder.watched.claim(written.stored)
        if current is None or allocation_of(current) is None or attempt.intent.podUID not in consumers_of(current):
            raise AttemptEnded(Retry(f"claim {written.key} was deallocated while the pod waited for its devices"))
        if is_of_another_attempt(current, attempt.intent):
            raise AttemptEnded(Retry(f"claim {written.key} was taken over by another attempt", is_lost=True))
        written.stored = dict(current)


def awaited_devices(devices: Iterable[DeviceID]) -> str:
    """What a pod waits for while these are not ready."""
    return f"binding conditions of devices {', '.join(map(str, devices))}"


def unready(binder: Binder, attempt: Attempt) -> list[DeviceID]:
    """The devices that are not ready. Raises AttemptEnded where they will not be."""
    # Differs from kube-scheduler, which waits on, and binds the pod to a node that has gone meanwhile.
    if attempt.claims and not binder.watched.has_node(attempt.decision.node):
        raise AttemptEnded(Retry(f"node {attempt.decision.node} is gone"))
    devices: list[DeviceID] = []
    for written in attempt.claims:
        state = readiness_of(written.stored, binder.time.now(), binder.binding_timeout_s)
        if isinstance(state, DevicesFailed):
            # Whoever allocated it, it can serve nobody as it is.
            written.allocation = allocation_of(written.stored)
            raise AttemptEnded(Retry(f"claim {written.key}: {state.reason}", failed=state.devices))
        if isinstance(state, DevicesPending):
            devices += state.devices
    return devices


# Writes the device fields of the pod's status, right before the pod is bound.
#
# Source: kube-scheduler's DynamicResources plugin, PreBind.


@dataclass(eq=False)
class WriteDeviceStatus(PodStep):
    """The status of the pod, where it has to say anything of devices."""

    async def do(self) -> Bound | None:
        """Write it; Bound where the pod is bound by then. Raises AttemptEnded."""
        return await super().do() if self.attempt.pod.status else None

    async def send(self) -> None:
        """Write it once. Raises CallFailed."""
        await write_device_fields(self.binder, self.attempt)


# Waits for several things at the same time; the first failure ends all waits.
#
# Source: kube-scheduler runs the PreBind of VolumeBinding and DynamicResources beside each other.


@dataclass(eq=False)
class Waits(Step):
    """Steps that wait and write nothing."""

    steps: Sequence[Step]

    @property
    def awaited(self) -> str:
        """What the pod is told if it takes long."""
        return " and ".join(filter(None, (step.waits_for for step in self.steps)))

    async def do(self) -> Pending | None:
        """Return once all have what they wait for. Raises AttemptEnded."""
        try:
            async with asyncio.TaskGroup() as group:
                waiting = [group.create_task(step.do()) for step in self.steps]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return next((ended for one in waiting if isinstance(ended := one.result(), Pending)), None)


# Binds the pod to its node, with the pod's uid and resourceVersion as preconditions.
#
# Source: k8s.io/kubernetes pkg/registry/core/pod/storage, BindingREST.


@dataclass(eq=False)
class Bind(PodStep):
    """The binding of the pod."""

    async def send(self) -> Bound:
        """Bind the pod, whose status is written again where an earlier try has failed. Raises CallFailed."""
        await write_device_fields(self.binder, self.attempt)
        pod, node = self.attempt.decision.pod, self.attempt.decision.node
        guard = {"uid": pod.uid, "resourceVersion": self.attempt.pod.version}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, **guard},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.binder.api.request("POST", PODS.path(pod.namespace, pod.name, "binding"), body=body)
        return Bound(node)


# Writes status.nominatedNodeName of the pod while it waits for its devices or volumes, and what it waits for.
#
# The wait may take minutes, in which autoscalers and other schedulers should keep the node free. The API server clears
# the field when the pod is bound, from Kubernetes 1.35 on; before, bound pods keep it, as those of kube-scheduler do.
# An attempt that fails clears it itself. Nothing depends on it: an error is logged, and the attempt continues. Source:
# KEP-5278.


FIELD = "nominatedNodeName"

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class Nominate(Step):
    """The node in the pod's status, where devices have to be made ready or volumes to be bound.

    is_written: the pod may say it.
    """

    binder: Binder
    attempt: Attempt
    is_written: bool = field(default=False, init=False)

    async def do(self) -> None:
        """Let the pod say where it is about to go. Raises AttemptEnded where the devices will not be ready."""
        # Differs from kube-scheduler, which does so for every pod with claims: most are bound before anybody could
        # read it.
        decision = self.attempt.decision
        if not decision.waits_for_devices:
            return
        devices = unready(self.binder, self.attempt)
        if devices:
            message = f"waiting for {awaited_devices(devices)}"
            await self._write(lambda pod: {FIELD: self.attempt.intent.node, **waiting(self.binder, pod, message)})
        elif decision.volumes:  # that the pod waits for them is true only once they were asked for
            await self._write(lambda _: {FIELD: self.attempt.intent.node})

    async def undo(self, node: str) -> bool:
        """Clear the nomination, unless another writer has changed it."""
        written = self.attempt.intent.node
        if self.is_written:
            await self._write(lambda pod: {FIELD: None} if pod["status"].get(FIELD) == written else None)
        return False

    async def _write(self, status_of: Callable[[Pod], Json | None]) -> None:
        self.is_written = True
        try:
            await write_status(self.binder, self.attempt, status_of)
        except CallFailed as error:
            if write_outcome(error) is not WriteOutcome.GONE:  # who deletes pods fills no log
                _LOG.warning("pod %s: cannot write status.nominatedNodeName: %s", self.attempt.decision.pod, error)


@dataclass(eq=False)
class AwaitOthers(Step):
    """The wait for the other pods of the group to be as far. It holds no slot: theirs may be waiting for one."""

    point: ClassVar[Point] = "Bind"

    attempt: Attempt
    together: Together

    async def do(self) -> None:
        """Return once all have written. Raises AttemptEnded where one of them fails."""
        self.attempt.slot.give_back()
        await self.together.written(self.attempt.decision.pod.uid)


KEPT_S = 300.0
"""For so long a pod keeps its place that could not be bound when others of its group were."""


@dataclass(eq=False)
class BindTogether(Bind):
    """The binding of a pod while others of its group are bound: it keeps its place, and is tried for long."""

    until: float = field(default=0.0, init=False)

    async def do(self) -> Bound | None:
        """Bind the pod. Raises AttemptEnded where it cannot be bound, or not for minutes."""
        self.until = self.binder.time.monotonic() + KEPT_S
        return await super().do()

    @property
    def goes_on(self) -> bool:
        """Whether it is tried again, however often it has failed."""
        return self.binder.time.monotonic() < self.until
