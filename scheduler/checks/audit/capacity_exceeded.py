"""The shares of a device add up to more than its capacity (KEP-5075)."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for device in (device for pool in state.pools for device in pool.devices):
        for name, amount in device.capacity.items():
            if amount.left.sign < 0:
                shares = f"shares of claims {', '.join(device.holders)}"
                message = f"capacity {name} is {amount.total}, but {shares} take {-amount.left} more"
                yield Observation(ObjectName("device", str(device.device.id)), message, claims=device.holders)


CAPACITY_EXCEEDED = Check(
    "capacity-exceeded",
    FindingLevel.ERROR,
    "The shares of a device add up to more than its capacity.",
    "Delete pods until the shares fit. Let one scheduler allocate the devices of a driver, or run `dra guard serve`.",
    _check,
)
