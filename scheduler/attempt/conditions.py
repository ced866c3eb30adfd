"""Binding conditions: devices that have to be made ready for the node before the pod may be bound.

Their driver says so in the claim's `status.devices`. All conditions true: go on; a failure condition true, or too much
time gone since the allocation: the devices are given back and the pod is decided anew.
Source: KEP-5007; feature gate DRADeviceBindingConditions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from allocator.model import DeviceID
from scheduler.attempt import claim_calls
from scheduler.attempt.attempt import Attempt, Touched
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, allocation_of, consumers_of, results_of
from scheduler.attempt.decision import AttemptEnded, Fatal, Pending, Retry
from scheduler.attempt.intent import is_of_another_attempt
from scheduler.attempt.nomination import nominate
from scheduler.attempt.write_outcome import outcome_of
from scheduler.client.errors import CallFailed

POLL_LEAST_S = 0.25
POLL_MOST_S = 5.0
"""Between two looks at the claims: the first pause, which doubles, and the longest."""

CLOCK_SLACK = timedelta(seconds=30)
"""How far the clock of the machine that allocated may be ahead of ours or behind."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The pod may be bound, as far as the claim goes."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Devices that are not ready yet."""

    devices: tuple[DeviceID, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Devices that will not become ready."""

    devices: tuple[DeviceID, ...]
    reason: str


State = Ready | Waiting | Failed


def state_of(claim: Claim, now: datetime, timeout_s: float) -> State:
    """The state of an allocated claim's devices. timeout_s: since the allocation."""
    allocation = allocation_of(claim) or {}
    statuses = {_device(status): status for status in claim.get("status", {}).get("devices") or ()}
    waiting: list[DeviceID] = []
    for result in results_of(allocation):
        if not result.get("bindingConditions"):
            continue
        conditions = _true_conditions(statuses.get(_device(result)) or {})
        device = DeviceID(result["driver"], result["pool"], result["device"])
        if found := next(_intersection(result.get("bindingFailureConditions"), conditions), None):
            reason = f"device binding failed: device {device} has the condition {found}: {conditions[found]}"
            return Failed((device,), reason.rstrip(": "))
        if not all(name in conditions for name in result["bindingConditions"]):
            waiting.append(device)
    if waiting and is_overdue(allocation, now, timeout_s):
        named = ", ".join(map(str, waiting))
        return Failed(tuple(waiting), f"device binding timeout: not ready within {timeout_s:.0f} s: {named}")
    return Waiting(tuple(waiting)) if waiting else Ready()


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


async def await_conditions(binder: Binder, attempt: Attempt) -> Pending | None:
    """Return once all devices of the attempt's claims are ready. Raises AttemptEnded where they will not be.

    Nothing is ready for a node that has gone. Waits up to the binding timeout; whoever knows sooner that the pod is no
    longer wanted cancels it. An impatient decision is told at once that it has to come again.
    """
    waiting = _waiting(binder, attempt)
    if waiting:
        told = f"waiting for binding conditions of devices {', '.join(map(str, waiting))}"
        binder.listener.pending(attempt.decision, told)
        if not attempt.decision.is_patient:
            return Pending(told)
        if not attempt.decision.is_assigned:
            await nominate(binder, attempt)
        attempt.slot.give_back()  # it may take minutes, in which others may write
    poll_s = POLL_LEAST_S
    while waiting:
        await binder.time.sleep(poll_s)
        poll_s = min(2 * poll_s, POLL_MOST_S)
        for touched in attempt.touched:
            await _refresh(binder, attempt, touched)
        waiting = _waiting(binder, attempt)
    return None


def _waiting(binder: Binder, attempt: Attempt) -> list[DeviceID]:
    """The devices that are not ready. Raises AttemptEnded."""
    # Differs from kube-scheduler, which waits on, and binds the pod to a node that has gone meanwhile.
    if attempt.touched and not binder.observed.has_node(attempt.decision.node):
        raise AttemptEnded(Retry(f"node {attempt.decision.node} is gone"))
    found: list[DeviceID] = []
    for touched in attempt.touched:
        state = state_of(touched.stored, binder.time.now(), binder.binding_timeout_s)
        if isinstance(state, Failed):
            # Whoever allocated it, it can serve nobody as it is.
            touched.allocation = allocation_of(touched.stored)
            raise AttemptEnded(Retry(f"claim {touched.key}: {state.reason}", failed=state.devices))
        if isinstance(state, Waiting):
            found += state.devices
    return found


async def _refresh(binder: Binder, attempt: Attempt, touched: Touched) -> None:
    """Read the claim again; while the server does not answer, what was read before has to do."""
    try:
        current = await claim_calls.get(binder, touched.key)
    except CallFailed as error:
        ended = outcome_of(error, f"claim {touched.key}")
        if isinstance(ended, Fatal):
            raise AttemptEnded(ended) from error
        return
    if current is None or allocation_of(current) is None or attempt.intent.podUID not in consumers_of(current):
        raise AttemptEnded(Retry(f"claim {touched.key} was deallocated while its devices were awaited"))
    if is_of_another_attempt(current, attempt.intent):
        raise AttemptEnded(Retry(f"claim {touched.key} was taken over by another attempt", is_lost=True))
    touched.stored = current
