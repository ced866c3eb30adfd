"""Turns an inventory into the cluster that decisions read, as the watches of a live one would.

Missing information does not count as nothing: a node that does not say how much cpu, memory or how many pods it has,
has room for all, and a node that says nothing at all has room for every resource. Checks that depend on a kind of
storage object of which the input has none are skipped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from allocator.allocate import BUDGET_STEPS
from allocator.gates import Features
from allocator.limits import TenantLimit
from allocator.model import Node
from cel.values.quantity import Quantity
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.storage_objects import CSIDriver, PersistentVolumeClaim, StorageClass
from scheduler.core_v1.workload import VolumeClaimTemplate, Workload, ephemeral_claims
from scheduler.decision.cluster import Cluster
from scheduler.input.identity import uid_of
from scheduler.input.inventory import Inventory
from scheduler.kinds import BY_MODEL
from scheduler.offline.input_claims import Claims
from scheduler.plugins.profile import Profile
from scheduler.state.pod_resources import ExtendedResources
from scheduler.state.pods import CPU, MEMORY, MOST, OF_NODES, PODS
from scheduler.state.pods_by_priority import spares_nobody
from scheduler.state.volumes import CAPACITIES, CLAIMS, CLASSES, VOLUMES

# PersistentVolumeClaims that controllers create for pods, and that the input does not contain yet.
#
# Those from StatefulSets' templates are named `<template>-<pod>`, those of ephemeral volumes `<pod>-<volume>`. A claim
# whose class waits for the first consumer is bound together with its pod, and counts as if it existed. Others are bound
# before the pod is scheduled, to a volume that is not known. Source: kube-controller-manager's StatefulSet and
# ephemeral volume controllers; the admission of default classes.


KIND = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class VolumeClaims:
    """Claims to be made. waiting: those that are bound with their pod. bound_before: the others."""

    waiting: Sequence[PersistentVolumeClaim] = ()
    bound_before: frozenset[NamespacedName] = frozenset()

    @property
    def keys(self) -> frozenset[NamespacedName]:
        """All of them."""
        return self.bound_before | {one.key for one in self.waiting}


NO_VOLUME_CLAIMS = VolumeClaims()


def volume_claims_to_be(inventory: Inventory, pods: Iterable[Pod]) -> VolumeClaims:
    """The claims that the pods that wait for a node name, or have by an ephemeral volume, and that are not there.

    pods: each with a uid of its own.
    """
    there = {one.key for one in inventory.of(PersistentVolumeClaim)}
    there |= {(namespace, name) for kind, namespace, name in inventory.faults if kind == KIND}
    sets = {(one.namespace, one.name): one for one in inventory.workloads if one.volume_claims}
    made: dict[NamespacedName, VolumeClaimTemplate] = {}
    unknown: set[NamespacedName] = set()
    for pod in pods:
        if pod.volumes.claims and not pod.node_name and not pod.is_over:
            for key, template in (*_of_set(pod, sets), *_ephemeral(pod)):
                if key not in there and template:
                    made.setdefault(key, template)
                elif key not in there:
                    unknown.add(key)
    classes = {one.name: one for one in inventory.of(StorageClass)}
    claims = [_claim(key, template, classes) for key, template in made.items()]
    if "StorageClass" not in inventory.kinds:
        return VolumeClaims(tuple(claims), frozenset(unknown))
    unknown.update(one.key for one in claims if _is_bound_before(one, classes))
    return VolumeClaims(tuple(one for one in claims if one.key not in unknown), frozenset(unknown))


def _of_set(pod: Pod, sets: Mapping[tuple[str, str], Workload]) -> Iterator[tuple[NamespacedName, VolumeClaimTemplate]]:
    owner = pod.owner if pod.owner and pod.owner.kind == "StatefulSet" else None
    workload = sets.get((pod.namespace, owner.name)) if owner else None
    if workload is None:
        return
    named = set(pod.volumes.named_claims)
    for template in workload.volume_claims:
        if (name := claim_name(template, pod.name)) in named:
            yield (pod.namespace, name), template


def claim_name(template: VolumeClaimTemplate, pod: str) -> str:
    """The name of the claim that a StatefulSet makes for its pod of that name."""
    return f"{template.claim.name}-{pod}"


def _ephemeral(pod: Pod) -> Iterator[tuple[NamespacedName, VolumeClaimTemplate | None]]:
    """Without a template where that has errors, which are reported with the pod."""
    for volume, template, _ in ephemeral_claims(pod):
        yield (pod.namespace, volume.claim_of(pod.name)), template


def _claim(
    key: NamespacedName, template: VolumeClaimTemplate, classes: Mapping[str, StorageClass]
) -> PersistentVolumeClaim:
    namespace, name = key
    claim = replace(template.claim, name=name, uid=uid_of(KIND, namespace, name))
    return replace(claim, storage_class=_default_class(classes.values())) if template.takes_default_class else claim


def _default_class(classes: Iterable[StorageClass]) -> str:
    """The newest of the default classes, the first by name of those; empty where there is none."""
    by_name = sorted((one for one in classes if one.is_default), key=lambda one: one.name)
    return max(by_name, key=lambda one: one.created).name if by_name else ""


def _is_bound_before(claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]) -> bool:
    """Whether a volume is found or made for it at once; one of a class that is not there waits for the class."""
    storage_class = classes.get(claim.storage_class)
    return not storage_class.waits if storage_class else not claim.storage_class


VERSION = 1
"""Of the claims as they stand in the input; what is written has a later one."""

NEEDED_ALLOCATABLE = (CPU, MEMORY, PODS)
"""What every node of a cluster says that it has."""

_ROOM = Quantity.of(MOST)


def cluster_of(  # noqa: PLR0913 - the last six have defaults
    inventory: Inventory,
    claims: Claims,
    pods: Sequence[Pod],
    features: Features,
    *,
    only_node: str = "",
    assumes_room: bool = True,
    profiles: Sequence[Profile] = (Profile(),),
    budget_steps: int = BUDGET_STEPS,
    places: Mapping[str, int] = MappingProxyType({}),
    spares: Callable[[Pod], bool] = spares_nobody,
    limits: Sequence[TenantLimit] = (),
) -> Cluster:
    """The cluster with the pods that have their node. Nodes have numbers in the order of their names.

    pods: each with a uid of its own (`identified`). only_node: the only one that is looked at, empty for all.
    assumes_room: for all of which nodes do not say how much they have, and that volumes of which the input says nothing
    are no obstacle; where it does not, what the input does not hold is not there. places: by name, of nodes that go
    before, in another order than that of their names. limits: of tenants. spares: pods that are never evicted.
    """
    volume_claims = volume_claims_to_be(inventory, pods) if assumes_room else NO_VOLUME_CLAIMS
    cluster = Cluster(
        features,
        is_ours=None,
        profiles=profiles,
        budget_steps=budget_steps,
        makes_claims=True,
        refuses_unsupported=False,
        unseen=unseen_storage(inventory) if assumes_room else frozenset(),
        unmade=volume_claims.bound_before,
    )
    cluster.by_priority.spares = spares
    for model, kind in BY_MODEL.items():
        for typed_object in inventory.of(model) if model is not Node else ():
            kind.put(cluster, typed_object)
    for claim in volume_claims.waiting:
        cluster.volumes.set_claim(claim)
    room = room_for(pods, cluster.extended_resources)
    for node in sorted(inventory.nodes, key=lambda node: (places.get(node.name, len(places)), node.name)):
        if only_node in ("", node.name):
            cluster.set_node(with_room(node, room) if assumes_room else node)
    for claim_object in (*claims.objects.values(), *claims.with_errors):
        cluster.set_claim(claim_object, VERSION)
    for pod in pods:
        if (pod.node_name or pod.nominated_node) and not pod.is_finished:
            cluster.set_pod(pod)
    cluster.set_limits(limits)
    return cluster


def unseen_storage(inventory: Inventory) -> frozenset[str]:
    """The kinds of storage objects of which the input holds none, while every cluster has some that uses volumes."""
    needed = [CLAIMS, VOLUMES, CLASSES]
    if any(one.publishes_capacity for one in inventory.of(CSIDriver)):
        needed.append(CAPACITIES)
    return frozenset(needed) - inventory.kinds


def with_room(node: Node, room: Mapping[str, Quantity]) -> Node:
    """The node with room for all of which it does not say how much it has. room: what that is where it says nothing."""
    missing = dict.fromkeys(NEEDED_ALLOCATABLE, _ROOM) if node.allocatable else room
    if missing.keys() <= node.allocatable.keys():
        return node
    return replace(node, allocatable={**missing, **node.allocatable})


def room_for(pods: Iterable[Pod], extended: ExtendedResources) -> Mapping[str, Quantity]:
    """Room for all that the pods ask for, but for what classes stand for: that is given by claim."""
    asked = {name for pod in pods for one in pod.containers for name in one.requests if name not in extended}
    return dict.fromkeys((*NEEDED_ALLOCATABLE, *OF_NODES, *sorted(asked)), _ROOM)
