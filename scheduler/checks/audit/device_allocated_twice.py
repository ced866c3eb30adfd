"""A device is allocated to several claims, at least one of which must have it alone."""

from collections.abc import Iterator

from allocator.status import DeviceState
from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        held = [(str(one.device.id), one.holders) for one in pool.devices if one.state is DeviceState.ALLOCATED]
        unpublished = [(f"{pool.id.driver}/{pool.id.pool}/{name}", names) for name, names in pool.unpublished.items()]
        for device, holders in (*held, *unpublished):
            if len(holders) > 1:
                message = f"is allocated to claims {', '.join(holders)}"
                yield Observation(ObjectName("device", device), message, claims=holders)


DEVICE_ALLOCATED_TWICE = Check(
    "device-allocated-twice",
    FindingLevel.ERROR,
    "A device is allocated to several claims.",
    "Delete the pods of all of these claims but one. Let one scheduler allocate the devices of a driver, or run "
    "`dra guard serve`.",
    _check,
)
