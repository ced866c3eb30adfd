"""Extended resources of pods as claims: which pods request them, and which nodes provide them by claim.

A node whose device plugin offers a resource needs no claim for it, so the requests of the claim may differ from node to
node. Its name is the same on all nodes and in all attempts, so that two attempts do not create two claims.
Source: KEP-5004; extendeddynamicresources.go of Kubernetes' scheduler plugin.
Differs from kube-scheduler, which lets the API server generate the name.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocator.api import decode, names
from allocator.bits import Mask
from allocator.gates import EXTENDED_RESOURCE, Features
from allocator.model import Claim, DeviceClass, Node
from allocator.pod_resources import (
    CLAIM_ANNOTATION,
    CountRequest,
    RequestMapping,
    classes_by_resource,
    generate,
    is_extended,
)
from scheduler.core_v1.pod import Pod
from scheduler.state.masks import mask_of
from scheduler.state.node_infos import NodeInfos

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


class ExtendedResources:
    """The resources that classes stand for; none where the gate is off, as `is_on` says."""

    def __init__(self, classes: Iterable[DeviceClass], features: Features) -> None:
        self.is_on = features.has(EXTENDED_RESOURCE)
        self._classes: Mapping[str, DeviceClass] = classes_by_resource(classes) if self.is_on else {}

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

    def _claim(self, pod: Pod, backed: Sequence[str]) -> ExtendedClaim | str:
        generated = generate(pod.containers, {name: self._classes[name] for name in backed})
        metadata = {"name": claim_name(pod), "namespace": pod.namespace, "uid": made_up_uid(pod)}
        raw = {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": _spec(generated.requests)}
        decoded = decode(raw)
        if not isinstance(decoded.object, Claim):
            return f"no claim can be made for its extended resources: {decoded.errors[0]}"
        return ExtendedClaim(decoded.object, generated.requests, generated.mappings)


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
