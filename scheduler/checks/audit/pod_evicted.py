"""A pod runs on a node, or with a device, that has a taint with the effect NoExecute, and does not tolerate it."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for eviction in state.evictions:
        pod = eviction.pod
        message = f"is evicted from node {pod.node_name}: {eviction.cause}"
        yield Observation(ObjectName("Pod", pod.name, pod.namespace), message)


POD_EVICTED = Check(
    "pod-evicted",
    FindingLevel.WARNING,
    "A taint with the effect NoExecute evicts a running pod.",
    "To keep it, remove the taint or tolerate it: a node's in the pod, a device's in the request of the claim.",
    _check,
)
