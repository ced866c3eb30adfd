"""A claim holds a device that its driver does not publish any more."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        for device, holders in pool.unpublished.items():
            subject = ObjectName("device", f"{pool.id.driver}/{pool.id.pool}/{device}")
            message = f"is no longer published, but allocated to {', '.join(holders)}"
            yield Observation(subject, message, claims=holders)


DEVICE_NOT_PUBLISHED = Check(
    "device-not-published",
    FindingLevel.WARNING,
    "A claim holds a device that its driver no longer publishes.",
    "Check the driver on that node. If the device is gone for good, delete the pods of the claim.",
    _check,
)
