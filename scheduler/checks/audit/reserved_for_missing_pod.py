"""A claim is reserved for a pod that is gone or finished."""

from collections.abc import Iterator, Mapping

from allocator.api.allocation import Consumer
from scheduler.checks.audit.cluster_state import ClusterState, claim_subject
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.core_v1.pod import Pod


def _check(state: ClusterState) -> Iterator[Observation]:
    if not state.knows_pods:
        return
    pods = {(pod.namespace, pod.name): pod for pod in state.pods}
    for found in state.claims.values():
        for number, consumer in enumerate(found.reserved_for):
            if problem := _problem(found.claim.namespace, consumer, pods):
                message = f"is reserved for pod {consumer.name}, {problem}"
                yield Observation(claim_subject(found), message, f"status.reservedFor[{number}]")


def _problem(namespace: str, consumer: Consumer, pods: Mapping[tuple[str, str], Pod]) -> str:
    if consumer.api_group or consumer.resource != "pods":
        return ""
    pod = pods.get((namespace, consumer.name))
    if pod is None:
        return "which does not exist"
    if pod.uid and consumer.uid and pod.uid != consumer.uid:
        return f"which has been replaced by another pod of that name (uid {pod.uid}, reserved: {consumer.uid})"
    return f"which has ended ({pod.phase})" if pod.is_finished else ""


RESERVED_FOR_MISSING_POD = Check(
    "reserved-for-missing-pod",
    FindingLevel.WARNING,
    "A claim is reserved for a pod that is gone or has ended.",
    "If this lasts, check that kube-controller-manager runs: it removes such reservations.",
    _check,
)
