"""Binding conditions: devices that have to become ready for the node before the pod is bound.

The driver reports them in `status.devices` of the claim. A device fails if a failure condition becomes true, or if it
is not ready within the timeout. Then the devices are deallocated, and the pod is decided again.
Source: KEP-5007; feature gate DRADeviceBindingConditions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from allocator.model import DeviceID
from scheduler.attempt.claim_objects import RawClaim, allocation_of, results_of

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


def state_of(claim: RawClaim, now: datetime, timeout_s: float) -> Readiness:
    """The state of an allocated claim's devices. timeout_s: since the allocation."""
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
