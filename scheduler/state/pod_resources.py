"""What pods ask of devices beside their claims: extended resources as claims, and what devices take of their node.

A node whose device plugin offers a resource needs no claim for it, so the requests of the claim may differ from node to
node. Its name is the same on all nodes and in all attempts, so that two attempts do not create two claims.
Source: KEP-5004; extendeddynamicresources.go of Kubernetes' scheduler plugin.
Differs from kube-scheduler, which lets the API server generate the name.

`WithDevices` says whether a pod fits a node together with its devices: only for pods whose devices specify such
resources, and only with the gate DRANodeAllocatableResources. Devices of other pods count as their status says.
Source: KEP-5517; nodeallocatabledynamicresources.go of Kubernetes' scheduler plugin.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from allocator.api import decode, names
from allocator.bits import Mask
from allocator.gates import EXTENDED_RESOURCE, Features, Release
from allocator.model import Claim, Device, DeviceClass, DeviceID, Node, PoolID, Slice
from allocator.pod_resources import (
    CLAIM_ANNOTATION,
    Amounts,
    ClaimResources,
    CountRequest,
    PodResources,
    RequestMapping,
    claim_resources,
    classes_by_resource,
    generate,
    is_extended,
    over_budget,
)
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import TakenByClaim
from scheduler.state.masks import mask_of
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import amount_text, is_of_node, pod_requests, units

VERSION = "resource.k8s.io/v1"
"""Of the claims that are made."""

_BASE = "-extended-resources-"
_HASH = 10


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim for the extended resources of a pod, which is not made yet: its uid is made up.

    mappings: which request is for which container.
    """

    claim: Claim
    requests: tuple[CountRequest, ...]
    mappings: tuple[RequestMapping, ...]

    @property
    def resources(self) -> Mapping[str, str]:
        """What each request is for, by its generated name: a resource, and its container if several ask for that."""
        asking = Counter(one.resource for one in self.mappings)
        return {
            one.request: one.resource + f" of container {one.container}" * (asking[one.resource] > 1)
            for one in self.mappings
        }

    @property
    def spec(self) -> dict[str, object]:
        """The spec of the claim in v1."""
        return _spec(self.requests)

    @property
    def status(self) -> dict[str, object]:
        """The pod's status.extendedResourceClaimStatus."""
        return {
            "resourceClaimName": self.claim.name,
            "requestMappings": [
                {"containerName": one.container, "resourceName": one.resource, "requestName": one.request}
                for one in self.mappings
            ],
        }


MOST_KNOWN = 1 << 12
"""Names of resources for which classes stood that are remembered beside those for which one stands."""


class ExtendedResources:
    """The resources that classes stand for; none where the gate is off, as `is_on` says.

    earlier: names of resources for which classes stood before.
    """

    def __init__(self, classes: Iterable[DeviceClass], features: Features, earlier: Iterable[str] = ()) -> None:
        self.is_on = features.has(EXTENDED_RESOURCE)
        self._classes: Mapping[str, DeviceClass] = classes_by_resource(classes) if self.is_on else {}
        gone = (name for name in earlier if name not in self._classes)
        self.known = dict.fromkeys((*self._classes, *islice(gone, MOST_KNOWN)))

    def __contains__(self, resource: object) -> bool:
        return resource in self._classes

    def asked_by(self, pod: Pod) -> tuple[str, ...]:
        """The extended resources of classes that the containers of the pod ask for, sorted."""
        backed = self._classes.keys()
        if all([backed.isdisjoint(one.requests) for one in pod.containers]):  # noqa: C419 - faster
            return ()
        return tuple(filter(backed.__contains__, _asked_by(pod)))

    def unoffered(self, pods: Iterable[Pod], nodes: Iterable[Node]) -> Counter[str]:
        """The extended resources that neither a class nor a node offers, with how many of the pods ask for each."""
        offered = {name for node in nodes for name, amount in node.allocatable.items() if amount.sign > 0}
        return Counter(
            name for pod in pods for name in _asked_by(pod) if name not in offered and name not in self._classes
        )

    def by_nodes(
        self, pod: Pod, infos: NodeInfos, nodes: Mask
    ) -> Iterator[tuple[Mask, Sequence[str], ExtendedClaim | str | None]]:
        """The nodes by the resources that the pod gets by claim there, with the claim, or why none can be made.

        No node is in two groups; no claim where device plugins offer all.
        """
        for backed, group in _by_backed(self.asked_by(pod), infos, nodes):
            yield group, backed, self._claim(pod, backed) if backed else None

    def without_plugin(self, pod: Pod, infos: NodeInfos, nodes: Mask) -> Iterator[tuple[Mask, Sequence[str]]]:
        """The nodes by the resources of the pod that no device plugin offers there, of those that classes stood for.

        No node is in two groups. A class that is gone may be there still for others who place the pod.
        """
        asked = [name for name in _asked_by(pod) if name in self.known]
        for missing, group in _by_backed(asked, infos, nodes):
            yield group, missing

    def may_be_of_a_class(self, pod: Pod) -> bool:
        """Whether the pod asks for a resource for which a class stands, or stood."""
        return not self.known.keys().isdisjoint(_asked_by(pod))

    def _claim(self, pod: Pod, backed: Sequence[str]) -> ExtendedClaim | str:
        generated = generate(pod.containers, {name: self._classes[name] for name in backed})
        metadata = {"name": claim_name(pod), "namespace": pod.namespace, "uid": made_up_uid(pod)}
        raw = {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": _spec(generated.requests)}
        decoded = decode(raw)
        if not isinstance(decoded.object, Claim):
            return f"no claim can be made for its extended resources: {decoded.errors[0]}"
        return ExtendedClaim(decoded.object, generated.requests, generated.mappings())


def claim_name(pod: Pod) -> str:
    """The name of the claim for the pod's extended resources, the same on every attempt."""
    suffix = _BASE + hashlib.sha256(pod.uid.encode()).hexdigest()[:_HASH]
    return pod.name[: names.LONG_NAME_MAX - len(suffix)].rstrip(".-") + suffix


def made_up_uid(pod: Pod) -> str:
    """The uid of that claim before it is made."""
    return pod.uid + _BASE


def may_ask(pod: Pod) -> bool:
    """Whether the pod asks for extended resources, whoever offers them."""
    return bool(_asked_by(pod))


def annotations() -> dict[str, str]:
    """The annotations by which such a claim is known."""
    return {CLAIM_ANNOTATION: "true"}


def _asked_by(pod: Pod) -> tuple[str, ...]:
    """The extended resources that the containers of the pod ask for, sorted."""
    asked = {name for one in pod.containers for name, amount in one.requests.items() if amount.sign > 0}
    return tuple(sorted(filter(is_extended, asked)))


def _by_backed(asked: Sequence[str], infos: NodeInfos, nodes: Mask) -> Iterator[tuple[tuple[str, ...], Mask]]:
    """The nodes by the resources that no device plugin offers there, of those that the pod asks for."""
    groups: dict[tuple[str, ...], Mask] = {(): nodes}
    for resource in asked:
        column = infos.columns.get(resource)
        offering = mask_of(column.allocatable > 0) if column is not None else 0
        split = {backed: group & offering for backed, group in groups.items()}
        split |= {(*backed, resource): group & ~offering for backed, group in groups.items()}
        groups = {backed: group for backed, group in split.items() if group}
    yield from groups.items()


def _spec(requests: Iterable[CountRequest]) -> dict[str, object]:
    return {
        "devices": {
            "requests": [
                {
                    "name": one.name,
                    "exactly": {
                        "deviceClassName": one.class_name,
                        "allocationMode": "ExactCount",
                        "count": one.count,
                    },
                }
                for one in requests
            ]
        }
    }


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
