"""The claims of a pod, resolved as kube-scheduler resolves them, with its own words if one is missing.

A claim is named directly, or by the pod's status if it is created from a template. A claim that was created for a pod
has to be owned by it; one that is being deleted is waited for. Claims of a PodGroup are rejected by name.
Source: KEP-4381; k8s.io/dynamic-resource-allocation resourceclaim; plugin DynamicResources, PreEnqueue.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.api.metadata import Metadata
from allocator.model import Claim
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.state.claim_index import ClaimIndex, ClaimObject
from scheduler.state.cluster_changes import ClaimKey
from scheduler.state.extended_resources import claim_name, may_ask

GROUPS_UNSUPPORTED = "PodGroup claims unsupported"
"""Why a pod is refused that is in a PodGroup and has claims, or has claims of one."""

GANGS_UNSUPPORTED = "pods of a PodGroup (spec.schedulingGroup) are not supported"
"""Why a pod without claims is refused that is in one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod waits. is_unsupported: it waits forever, whatever happens to its claims.

    is_behind: the pod says that its claim was made, and the watch of claims has not shown it, or shown it gone. kept: a
    claim that is being deleted and stays only because it is allocated for this pod, which is not bound: each would wait
    for the other without end.
    """

    reason: str
    is_unsupported: bool = False
    is_behind: bool = False
    kept: ClaimObject | None = None


def claim_keys(pod: Pod) -> Iterator[ClaimKey]:
    """The claims of the pod by name, as far as they have names yet."""
    for entry in pod.claims:
        if name := entry.claim_name or pod.claim_statuses.get(entry.name):
            yield pod.namespace, name


def awaited_claims(pod: Pod) -> Iterator[ClaimKey]:
    """The same, and the one that is in the way of another one for the pod's extended resources, if any is."""
    yield from claim_keys(pod)
    if may_ask(pod):
        yield pod.namespace, claim_name(pod)


def claims_of(pod: Pod, index: ClaimIndex) -> tuple[ClaimObject, ...] | Waiting:
    """The claims of a pod in the order of its entries; an entry that needs none is left out, as is a repetition."""
    found: dict[str, ClaimObject] = {}
    for entry in pod.claims:
        resolved = _resolved(pod, entry, index)
        if isinstance(resolved, Waiting):
            return resolved
        if resolved is not None:
            found.setdefault(resolved.claim.uid, resolved)
    return tuple(found.values())


def in_flight(pod: Pod, claims: Iterable[ClaimObject], index: ClaimIndex) -> str:
    """Why the pod has to wait for the attempt of another one at a claim of both; empty where there is none."""
    for resolved in claims:
        claim = resolved.claim
        reservation = index.reservation(claim.uid)
        if reservation is not None and reservation.pod_uid != pod.uid and claim.allocation is None:
            return f"resource claim {claim} is in the process of being allocated"
    return ""


def full(pod: Pod, claims: Iterable[ClaimObject]) -> list[Claim]:
    """The claims that are reserved for as many pods as can be, of which this pod is none."""
    return [
        resolved.claim
        for resolved in claims
        if len(resolved.reserved_for) >= RESERVED_FOR_MAX
        and all(consumer.uid != pod.uid for consumer in resolved.reserved_for)
    ]


def is_controlled_by(metadata: Metadata, pod_uid: str) -> bool:
    """True where the object was made for the pod."""
    return any(owner.is_controller and owner.uid == pod_uid for owner in metadata.owners)


def _resolved(pod: Pod, entry: PodClaim, index: ClaimIndex) -> ClaimObject | Waiting | None:
    name = entry.claim_name or pod.claim_statuses.get(entry.name, "")
    if name is None:
        return None
    if not name:
        return Waiting(f'pod "{pod}": ResourceClaim not created yet')
    found = index.get(pod.namespace, name)
    if found is None:
        return Waiting(f'could not find ResourceClaim "{pod.namespace}/{name}"', is_behind=not entry.claim_name)
    return _objection(pod, entry, found) or found


def _objection(pod: Pod, entry: PodClaim, found: ClaimObject) -> Waiting | None:
    """Why a claim that is there is not the pod's to use."""
    if found.error:
        return Waiting(f"ResourceClaim {found.claim} cannot be read: {found.error}")
    if any(owner.is_controller and owner.kind == "PodGroup" for owner in found.metadata.owners):
        return Waiting(GROUPS_UNSUPPORTED, is_unsupported=True)
    if not entry.claim_name and not is_controlled_by(found.metadata, pod.uid):
        return Waiting(f"ResourceClaim {found.claim} was not created for Pod {pod} (Pod is not owner)")
    if found.metadata.deletion_timestamp:
        # Differs from kube-scheduler, which leaves a claim that the pod itself keeps: each then waits for the other.
        reason = f'resourceclaim "{found.claim.name}" is being deleted'
        return Waiting(reason, kept=found if _is_kept_by(pod, found) else None)
    return None


def _is_kept_by(pod: Pod, found: ClaimObject) -> bool:
    """True where nobody but the pod has the claim, and the pod has no node yet to use it on."""
    users = {consumer.uid for consumer in found.reserved_for}
    return found.claim.allocation is not None and users == {pod.uid} and not pod.node_name
