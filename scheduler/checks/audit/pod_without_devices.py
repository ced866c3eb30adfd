"""A pod is bound to a node, but one of its claims is missing, not allocated, or not reserved for it."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.core_v1.pod import Pod, PodClaim


def _check(state: ClusterState) -> Iterator[Observation]:
    for pod in state.pods:
        if pod.node_name and not pod.is_over:
            for number, entry in enumerate(pod.claims):
                if problem := _problem(state, pod, entry):
                    subject = ObjectName("Pod", pod.name, pod.namespace)
                    message = f"is bound to node {pod.node_name}, but {problem}"
                    yield Observation(subject, message, f"spec.resourceClaims[{number}]")


def _problem(state: ClusterState, pod: Pod, entry: PodClaim) -> str:
    name = entry.claim_name or pod.claim_statuses.get(entry.name, "")
    if name is None:
        return ""  # the pod needs no claim for this entry
    if not name:
        return f"no claim has been created for {entry.name}"
    found = state.claims.get((pod.namespace, name))
    if found is None:
        return f"claim {name} does not exist"
    if found.claim.allocation is None:
        return f"claim {name} is not allocated"
    if not any(one.is_pod(pod.name, pod.uid) or one.is_pod_group(pod.group) for one in found.reserved_for):
        return f"claim {name} is not reserved for it{' or its PodGroup' if pod.group else ''}"
    return ""


POD_WITHOUT_DEVICES = Check(
    "pod-without-devices",
    FindingLevel.ERROR,
    "A pod is bound to a node without its devices, so that the kubelet does not start it.",
    "Delete the pod, so that it is scheduled again. A pod with spec.nodeName set by hand has to be scheduled instead.",
    _check,
)
