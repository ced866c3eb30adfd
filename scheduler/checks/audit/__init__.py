"""The rules of `dra audit`: devices, claims and pods that contradict each other."""

from collections.abc import Sequence

from scheduler.checks.audit.capacity_exceeded import CAPACITY_EXCEEDED
from scheduler.checks.audit.claim_not_reserved import CLAIM_NOT_RESERVED
from scheduler.checks.audit.claim_without_finalizer import CLAIM_WITHOUT_FINALIZER
from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.audit.counters_exceeded import COUNTERS_EXCEEDED
from scheduler.checks.audit.device_allocated_twice import DEVICE_ALLOCATED_TWICE
from scheduler.checks.audit.device_not_published import DEVICE_NOT_PUBLISHED
from scheduler.checks.audit.pod_evicted import POD_EVICTED
from scheduler.checks.audit.pod_without_devices import POD_WITHOUT_DEVICES
from scheduler.checks.audit.pool_problem import POOL_PROBLEM
from scheduler.checks.audit.reserved_for_missing_pod import RESERVED_FOR_MISSING_POD
from scheduler.checks.audit.several_schedulers import SEVERAL_SCHEDULERS
from scheduler.checks.contract import Check

RULES: Sequence[Check[ClusterState]] = (
    DEVICE_ALLOCATED_TWICE,
    CAPACITY_EXCEEDED,
    COUNTERS_EXCEEDED,
    POD_WITHOUT_DEVICES,
    POD_EVICTED,
    CLAIM_WITHOUT_FINALIZER,
    CLAIM_NOT_RESERVED,
    RESERVED_FOR_MISSING_POD,
    DEVICE_NOT_PUBLISHED,
    POOL_PROBLEM,
    SEVERAL_SCHEDULERS,
)
