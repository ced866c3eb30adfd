"""What is written so that a pod gets the nodes it wins: nominations are cleared, victims told why, and deleted.

Nothing is written here. Source: kube-scheduler's framework/preemption, executor.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import DISRUPTION_TARGET, Condition
from scheduler.decision.cluster import Cluster
from scheduler.state.pods_by_priority import priority_of

BY_SCHEDULER = "PreemptionByScheduler"
"""The reason of the condition of victims."""

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class PreemptionWrite:
    """One write that a preemption makes: the pod is deleted, if the fields do not say otherwise."""

    pod: Pod
    condition: Condition | None = None
    """For the status of a victim that is deleted next."""
    clears_nomination: bool = False
    """From a pod of lower priority that was promised the node."""

    @property
    def patch(self) -> Mapping[str, Any] | None:  # Any: JSON
        """Of the pod's status, but for times; None where the pod is deleted."""
        if self.clears_nomination:
            return {"status": {"nominatedNodeName": None}}
        if self.condition is None:
            return None
        return {"status": {"conditions": [_fields(self.condition)]}}

    @property
    def is_delete(self) -> bool:
        """Whether the pod is deleted, and not patched."""
        return self.condition is None and not self.clears_nomination


def eviction_writes(
    cluster: Cluster, pod: Pod, victims: Iterable[Pod], nodes: Iterable[str], preemptor: str = "pod"
) -> list[PreemptionWrite]:
    """What is written for the pod to have the nodes, beside its own nomination; nothing where it is enough to wait.

    preemptor: what the pod stands for.
    Source: kube-scheduler's executor.go prepareCandidate.
    """
    going = [victim for victim in victims if not victim.is_deleting]
    if not going:
        return []
    promised = (one for node in nodes for one in cluster.nominations.on(node))
    lower = [one for one in promised if priority_of(one) < priority_of(pod)]
    writes = [PreemptionWrite(one, clears_nomination=True) for one in lower]
    name = pod.scheduler_name or DEFAULT_SCHEDULER
    message = f"{name}: preempting to accommodate a higher priority {preemptor}"
    condition = Condition(DISRUPTION_TARGET, "True", BY_SCHEDULER, message)
    for victim in going:
        if not _has(victim, condition):
            writes.append(PreemptionWrite(victim, condition))
        writes.append(PreemptionWrite(victim))
    return writes


def is_ending_by_preemption(pod: Pod) -> bool:
    """Whether the pod ends because a scheduler has preempted it."""
    condition = next((one for one in pod.conditions if one.type == DISRUPTION_TARGET), None)
    is_victim = condition is not None and condition.status == "True" and condition.reason == BY_SCHEDULER
    return pod.is_deleting and is_victim


def _has(pod: Pod, condition: Condition) -> bool:
    return _fields(condition) in map(_fields, pod.conditions)


def _fields(one: Condition) -> Mapping[str, str]:
    return {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
