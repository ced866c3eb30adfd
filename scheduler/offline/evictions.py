"""The running pods of an input that NoExecute taints of nodes and devices end, as kube-controller-manager does.

A pod goes for a taint of a device if a claim has the device that it uses, and that is reserved for it or for its
PodGroup: only the gate DRAWorkloadResourceClaims makes such reservations, so that it is taken to be on. The input is of
one moment: every taint is taken to be new, and so is the time for which a pod tolerates it.
Source: pkg/controller/devicetainteviction and pkg/controller/tainteviction of kube-controller-manager.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from allocator.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, Features
from allocator.model import Claim, PoolID, Slice
from scheduler.core_v1.pod import Pod
from scheduler.input.inventory import InputClaim, Inventory
from scheduler.state.claims import is_of_extended_resources
from scheduler.state.taints import NO_EXECUTE, EvictingTaints, Eviction, has_evicting, tainted


def evictions(inventory: Inventory, features: Features) -> Sequence[Eviction]:
    """Those pods, the first to go first. Cost: O(devices), and O(pods and claims) if there is such a taint."""
    taints = _taints(inventory, features)
    if not taints:
        return ()
    claims, of_groups = _claims_by_user(inventory.claims.values()), _claims_by_group(inventory.claims.values())
    running = (pod for pod in inventory.pods if pod.node_name and not pod.is_over)
    ends = (taints.end(pod, pod.node_name, *_claims_of(pod, claims, of_groups)) for pod in running)
    return sorted(filter(None, ends), key=lambda one: (one.time_s, str(one.pod)))


def _taints(inventory: Inventory, features: Features) -> EvictingTaints:
    taints = EvictingTaints(features.release)
    for node in inventory.nodes:
        if node.taints:
            taints.see_node(node, 0.0)
    if not features.has(DEVICE_TAINTS):
        return taints
    rules = inventory.taint_rules if features.has(DEVICE_TAINT_RULES) else ()
    evicting = [rule for rule in rules if rule.taint.effect == NO_EXECUTE]
    for slice_ in tainted(list(_newest(inventory.slices)), evicting):
        if has_evicting(slice_):
            taints.see_slice(slice_.name, slice_, 0.0)
    return taints


def _newest(slices: Sequence[Slice]) -> Iterator[Slice]:
    """Those of the newest generation of each pool."""
    newest: dict[PoolID, int] = {}
    for slice_ in slices:
        newest[slice_.pool_id] = max(slice_.generation, newest.get(slice_.pool_id, 0))
    return (slice_ for slice_ in slices if slice_.generation == newest[slice_.pool_id])


_User = tuple[str, str, str]
"""Namespace, name and uid of a pod."""


def _claims_by_user(claims: Iterable[InputClaim]) -> Mapping[_User, Sequence[InputClaim]]:
    """The allocated claims of each pod that they are reserved for; also under no uid, as manifests have none."""
    by_user: dict[_User, list[InputClaim]] = {}
    for input_claim in claims:
        for user in input_claim.reserved_for if input_claim.claim.allocation else ():
            if user.is_pod(user.name, user.uid):
                for uid in {user.uid, ""}:
                    by_user.setdefault((input_claim.claim.namespace, user.name, uid), []).append(input_claim)
    return by_user


def _claims_by_group(claims: Iterable[InputClaim]) -> Mapping[tuple[str, str], Sequence[Claim]]:
    """The allocated claims of each PodGroup that they are reserved for, by namespace and name: pods know no uid."""
    by_group: dict[tuple[str, str], list[Claim]] = {}
    for input_claim in claims:
        for user in input_claim.reserved_for if input_claim.claim.allocation else ():
            if user.is_pod_group(user.name):
                by_group.setdefault((input_claim.claim.namespace, user.name), []).append(input_claim.claim)
    return by_group


def _claims_of(
    pod: Pod, claims: Mapping[_User, Sequence[InputClaim]], of_groups: Mapping[tuple[str, str], Sequence[Claim]]
) -> tuple[Sequence[Claim], Sequence[Claim]]:
    """Those that its spec names, and those that were made for its extended resources."""
    named = {entry.claim_name or pod.claim_statuses.get(entry.name) for entry in pod.claims}
    reserved = claims.get((pod.namespace, pod.name, pod.uid), ())
    own = [one.claim for one in reserved]
    of_group = of_groups.get((pod.namespace, pod.group), ())
    extended = [one.claim for one in reserved if is_of_extended_resources(one.metadata.annotations)]
    return [one for one in (*own, *of_group) if one.name in named], extended
