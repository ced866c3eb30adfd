"""Resources that devices take of a node beside their pods: whether a pod with its devices fits a node.

Looked at for pods whose devices say something of such resources, and only with the gate
DRANodeAllocatableResources. What other pods take is counted as far as the input tells: pods that are
bound, and those that were placed before.
Source: KEP-5517; nodeallocatabledynamicresources.go of Kubernetes' scheduler plugin.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from allocator.features.node_allocatable_resources import (
    Amounts,
    ClaimResources,
    PodResources,
    claim_resources,
    over_budget,
    pod_need,
    shortages,
)
from allocator.gates import NODE_ALLOCATABLE_RESOURCES
from allocator.model import Claim, Device, DeviceID, Node, PoolID
from allocator.snapshot import Snapshot
from scheduler.core_v1.pod import Pod
from scheduler.cycle.pod_claims import Waiting
from scheduler.input.inventory import ClaimObject
from scheduler.offline.claims import Claims, uid_of_pod

_UNIT = 10**9
_MILLI = 10**6


class NodeAllocatableResources:
    """What is taken of each node. bound: pods that have their node already. is_on: the gate is."""

    def __init__(self, snapshot: Snapshot, claims: Claims, bound: Iterable[Pod]) -> None:
        self.is_on = snapshot.features.has(NODE_ALLOCATABLE_RESOURCES)
        self._by_pool = snapshot.by_pool
        self._claims = claims
        self._used: dict[str, Counter[str]] = {}
        for pod in bound if self.is_on else ():
            found = claims.of(pod)
            held = [] if isinstance(found, Waiting) else [claim for _, claim in found]
            held += filter(None, [claims.of_extended_resources(pod)])
            self.take(pod, pod.node_name, [claim.claim for claim in held])

    def refusal(self, pod: Pod | None, node: Node, claims: Sequence[Claim], consumers: Mapping[str, set[str]]) -> str:
        """Why the pod with these allocated claims does not fit the node; empty where it does.

        Differs from kube-scheduler, which leaves claims out that were allocated before: their devices take as much.
        consumers: claim to the uids of the pods that it is reserved for.
        """
        found = self._resources_of(claims) if self.is_on and pod is not None else []
        if pod is None or not found:
            return ""
        for resources in found:
            if reason := self._misused(pod, resources, consumers.get(resources.claim, set())):
                return reason
        own, by_claims = _own(pod), self._by_claims(pod, found)
        if over := over_budget(own, by_claims):
            needed, budget = _text(over.resource, over.needed), _text(over.resource, over.budget)
            return f"its containers and claims need {needed} of {over.resource}, its own requests say {budget}"
        need = pod_need(own, by_claims)
        used: Amounts = self._used.get(node.name, Counter())
        return "; ".join(_shortage(name, need, used, node) for name in shortages(need, used, node.allocatable))

    def take(self, pod: Pod, node: str, claims: Sequence[Claim]) -> None:
        """Count the pod with its allocated claims on the node; a mapped claim is the pod's alone."""
        if self.is_on:
            need = pod_need(_own(pod), self._by_claims(pod, self._resources_of(claims)))
            self._used.setdefault(node, Counter()).update(need)

    def _by_claims(self, pod: Pod, found: Iterable[ClaimResources]) -> list[Amounts]:
        return [resources.used_by(len(self._users(pod, resources.claim))) for resources in found]

    def _misused(self, pod: Pod, resources: ClaimResources, consumers: set[str]) -> str:
        if not resources.mapped:
            return ""
        what = f"claim {resources.claim} stands for resources of the node ({', '.join(sorted(resources.mapped))})"
        if consumers - {uid_of_pod(pod)}:
            return f"{what}, and is used by another pod already"
        return "" if self._users(pod, resources.claim) else f"{what}, and no container of the pod uses it"

    def _users(self, pod: Pod, claim: str) -> list[str]:
        """The containers of the pod that use the claim."""
        found = self._claims.of(pod)
        entries = {entry.name for entry, one in found if str(one.claim) == claim} if isinstance(found, list) else set()
        return [container.name for container in pod.containers if not entries.isdisjoint(container.claims)]

    def _resources_of(self, claims: Iterable[Claim]) -> list[ClaimResources]:
        every = (claim_resources(str(claim), claim.allocation, self._device) for claim in claims if claim.allocation)
        return [resources for resources in every if resources]

    def _device(self, device: DeviceID) -> Device | None:
        """The device as the newest generation of its pool publishes it."""
        slices = self._by_pool.get(PoolID(device.driver, device.pool), ())
        newest = sorted(slices, key=lambda piece: -piece.generation)
        return next((one for piece in newest for one in piece.devices if one.name == device.device), None)


def consumers_of(found: Iterable[ClaimObject], placed: Mapping[tuple[str, str], Sequence[Pod]]) -> dict[str, set[str]]:
    """Claim to the uids of the pods that it is reserved for, in the input or by those placed on the way."""
    return {
        str(one.claim): {consumer.uid for consumer in one.decoded.reserved_for}
        | {uid_of_pod(pod) for pod in placed.get((one.claim.namespace, one.claim.name), ())}
        for one in found
    }


def _own(pod: Pod) -> PodResources:
    return PodResources(pod.containers, pod.budget, pod.overhead)


def _shortage(resource: str, need: Amounts, used: Amounts, node: Node) -> str:
    offered = node.allocatable.get(resource)
    total = offered.text if offered else "0"
    taken = f", of which {_text(resource, used[resource])} are taken" if used.get(resource) else ""
    return f"needs {_text(resource, need[resource])} of {resource} with its devices, the node has {total}{taken}"


def _text(resource: str, nanos: int) -> str:
    if resource == "cpu":
        milli = -(-nanos // _MILLI)
        return f"{milli}m" if milli % 1000 else str(milli // 1000)
    return _binary(-(-nanos // _UNIT))


def _binary(amount: int) -> str:
    for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if amount and not amount % 1024**power:
            return f"{amount // 1024**power}{suffix}"
    return str(amount)
