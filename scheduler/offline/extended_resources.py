"""Extended resources of pods to claims: which pods ask for them, and what a node has to give them by claim.

A node whose device plugin offers a resource needs no claim for it, so the claim may differ from node to
node; its name is the same everywhere.
Source: KEP-5004; extendeddynamicresources.go of Kubernetes' scheduler plugin.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from allocator.api import decode
from allocator.features.extended_resource import (
    CLAIM_ANNOTATION,
    Generated,
    NotOffered,
    RequestMapping,
    backed_on_node,
    classes_by_resource,
    generate,
    is_extended,
)
from allocator.gates import EXTENDED_RESOURCE, Features
from allocator.model import Claim, DeviceClass, Node
from scheduler.core_v1.pod import Pod
from scheduler.cycle.pod_claims import Waiting
from scheduler.input.inventory import ClaimObject
from scheduler.offline.claims import VERSION, Claims, owned_metadata

_BASE = "-extended-resources-"


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim for the extended resources of a pod on a node; mappings: which request is for which container."""

    object: ClaimObject
    mappings: tuple[RequestMapping, ...]


class ExtendedResources:
    """The resources that the classes of the input stand for; none where the gate is off, as `is_on` says."""

    def __init__(self, classes: Iterable[DeviceClass], features: Features) -> None:
        self.is_on = features.has(EXTENDED_RESOURCE)
        self._classes = classes_by_resource(classes) if self.is_on else {}

    def wanted_by(self, pod: Pod) -> tuple[str, ...]:
        """The extended resources that the pod asks for, sorted; none where no class stands for any of them."""
        if not self._classes:
            return ()
        names = _asked_by(pod)
        return names if any(name in self._classes for name in names) else ()

    def unoffered(self, pods: Iterable[Pod], nodes: Iterable[Node]) -> Counter[str]:
        """The extended resources that neither a class nor a node offers, with how many of the pods ask for each."""
        offered = {name for node in nodes for name, amount in node.allocatable.items() if amount.sign > 0}
        return Counter(
            name for pod in pods for name in _asked_by(pod) if name not in offered and name not in self._classes
        )

    def wish_of(self, pod: Pod, claims: Claims) -> "Wish | Waiting | None":
        """What the pod asks for; None where it is nothing that a class stands for."""
        wanted = self.wanted_by(pod)
        if not wanted:
            return None
        if stale := claims.of_extended_resources(pod):
            return Waiting(f"claim {stale.claim}, left of an earlier attempt, has to be deleted before the next one")
        return Wish(pod, wanted, self._classes, claims.unused_name(pod.namespace, pod.name + _BASE, f"{pod}/{_BASE}"))


def _asked_by(pod: Pod) -> tuple[str, ...]:
    """The extended resources that the containers of the pod ask for, sorted."""
    asked = {name for one in pod.containers for name, amount in one.requests.items() if amount.sign > 0}
    return tuple(sorted(filter(is_extended, asked)))


class Wish:
    """The extended resources of a pod, node by node. wanted: their names. name: of the claim to be."""

    def __init__(self, pod: Pod, wanted: tuple[str, ...], classes: Mapping[str, DeviceClass], name: str) -> None:
        self._pod = pod
        self._wanted = wanted
        self._classes = classes
        self._name = name
        self._made: dict[tuple[str, ...], ExtendedClaim | str] = {}

    def on(self, node: Node) -> ExtendedClaim | str | None:
        """The claim that the pod needs on the node, None where it needs none, or why it cannot be there."""
        backed = backed_on_node(self._wanted, node.allocatable, self._classes)
        if isinstance(backed, NotOffered):
            return f"neither a device plugin nor a device class offers {backed.resource}"
        if not backed:
            # Differs from kube-scheduler, which goes on to write a claim without requests beside the pod's own claims.
            return None
        key = tuple(backed)
        if key not in self._made:
            self._made[key] = self._make(generate(self._pod.containers, backed))
        return self._made[key]

    def _make(self, generated: Generated) -> ExtendedClaim | str:
        decoded = decode(_raw_claim(self._pod, self._name, generated))
        if not isinstance(decoded.object, Claim):
            return f"no claim can be made for its extended resources: {decoded.errors[0]}"
        return ExtendedClaim(ClaimObject(decoded.object, decoded), generated.mappings)


def _raw_claim(pod: Pod, name: str, generated: Generated) -> dict[str, object]:
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.class_name,
                "allocationMode": "ExactCount",
                "count": request.count,
            },
        }
        for request in generated.requests
    ]
    metadata = {**owned_metadata(pod, name, pod.name + _BASE), "annotations": {CLAIM_ANNOTATION: "true"}}
    spec = {"devices": {"requests": requests}}
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": spec, "status": {}}
