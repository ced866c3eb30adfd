"""Resources that devices take from a node: whether a pod fits a node together with its devices.

Only for pods whose devices specify such resources, and only with the gate DRANodeAllocatableResources. Devices of other
pods count as their status says.
Source: KEP-5517; nodeallocatabledynamicresources.go of Kubernetes' scheduler plugin.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from allocator.gates import Release
from allocator.model import Claim, Device, DeviceID, PoolID, Slice
from allocator.pod_resources import (
    Amounts,
    ClaimResources,
    PodResources,
    claim_resources,
    over_budget,
)
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import TakenByClaim
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import amount_text, is_of_node, pod_requests, units


@dataclass(frozen=True, slots=True)
class WithDevices:
    """A pod and its allocated claims, as far as their devices say what they take. found: of those claims that do."""

    pod: Pod
    found: Sequence[tuple[Claim, ClaimResources]]
    release: Release

    @staticmethod
    def of(
        pod: Pod, claims: Iterable[Claim], pools: Mapping[PoolID, Iterable[Slice]], release: Release
    ) -> "WithDevices":
        """claims: allocated. pools: the slices of each."""
        every = [(claim, _resources_of(claim, pools)) for claim in claims]
        return WithDevices(pod, [(claim, resources) for claim, resources in every if resources], release)

    @property
    def taken(self) -> tuple[TakenByClaim, ...]:
        """What the claims take of the node, as the pod's status says it."""
        return tuple(self._taken(claim, resources) for claim, resources in self.found)

    def _taken(self, claim: Claim, resources: ClaimResources) -> TakenByClaim:
        containers = tuple(self._users(claim))
        every = _quantities(resources.used_by(len(containers)))
        fields = {"resources": _texts(every)} if self.release.sums_node_resources else _by_kind(resources)
        return TakenByClaim(claim.name, containers, every, fields)

    def refusal(self, number: int, infos: NodeInfos, consumers: Callable[[Claim], Iterable[str]]) -> str:
        """Why the pod does not fit the node of that number; empty where it does, and where no device says anything.

        Differs from kube-scheduler, which up to 1.36 leaves out claims that were allocated before: they take as much.
        consumers: the uids of the pods that a claim is reserved for.
        """
        if not self.found:
            return ""
        for claim, resources in self.found:
            if reason := self._misused(claim, resources, set(consumers(claim))):
                return reason
        pod = self.pod
        by_claims = [resources.used_by(len(self._users(claim))) for claim, resources in self.found]
        if over := over_budget(PodResources(pod.containers, pod.budget, pod.overhead), by_claims):
            needed, budget = (amount_text(over.resource, units(over.resource, n)) for n in (over.needed, over.budget))
            return f"its containers and claims need {needed} of {over.resource}, its own requests say {budget}"
        need = pod_requests(replace(pod, by_claims=self.taken)).amounts
        short = [name for name in sorted(need) if is_of_node(name) and _free(infos, name, number) < need[name]]
        return "; ".join(_shortage(name, need[name], infos, number) for name in short)

    def _misused(self, claim: Claim, resources: ClaimResources, consumers: set[str]) -> str:
        if not resources.mapped:
            return ""
        what = f"claim {claim} takes resources of the node ({', '.join(sorted(resources.mapped))})"
        if consumers - {self.pod.uid}:
            return f"{what}, and another pod uses it already"
        if self.release.unused_mappings_refuse and not self._users(claim):
            return f"{what}, and no container of the pod uses it"
        return ""

    def _users(self, claim: Claim) -> list[str]:
        """The containers of the pod that use the claim."""
        pod = self.pod
        entries = {
            entry.name for entry in pod.claims if (entry.claim_name or pod.claim_statuses.get(entry.name)) == claim.name
        }
        return [container.name for container in pod.containers if not entries.isdisjoint(container.claims)]


def _resources_of(claim: Claim, pools: Mapping[PoolID, Iterable[Slice]]) -> ClaimResources | None:
    def device(wanted: DeviceID) -> Device | None:
        """The device as the newest generation of its pool publishes it."""
        newest = sorted(pools.get(PoolID(wanted.driver, wanted.pool), ()), key=lambda slice_: -slice_.generation)
        return next((one for slice_ in newest for one in slice_.devices if one.name == wanted.device), None)

    return claim_resources(str(claim), claim.allocation, device) if claim.allocation else None


def _quantities(amounts: Amounts) -> dict[str, Quantity]:
    return {name: Quantity.parse(f"{nanos}n") for name, nanos in sorted(amounts.items()) if nanos}


def _texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: amount.text for name, amount in amounts.items()}


def _by_kind(resources: ClaimResources) -> dict[str, object]:
    """What devices are of the node, and what they need besides, by the resource's name."""
    mapped = _texts(_quantities(resources.mapped))
    overheads = {"perPod": resources.per_pod, "perContainer": resources.per_container}
    parts = {kind: _texts(_quantities(amounts)) for kind, amounts in overheads.items()}
    names = sorted({name for part in parts.values() for name in part})
    return {
        "mapping": [{"name": name, "quantity": amount} for name, amount in mapped.items()],
        "overhead": [
            {"name": name, **{kind: part[name] for kind, part in parts.items() if name in part}} for name in names
        ],
    }


def _free(infos: NodeInfos, resource: str, number: int) -> int:
    column = infos.columns.get(resource)
    return int(column.free[number]) if column is not None else 0


def _shortage(resource: str, need: int, infos: NodeInfos, number: int) -> str:
    column = infos.columns.get(resource)
    offered = int(column.allocatable[number]) if column is not None else 0
    used = offered - _free(infos, resource, number)
    taken = f", of which {amount_text(resource, used)} are taken" if used else ""
    has = f"the node has {amount_text(resource, offered)}{taken}"
    return f"needs {amount_text(resource, need)} of {resource} with its devices, {has}"
