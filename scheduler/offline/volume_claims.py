"""PersistentVolumeClaims that controllers create for pods, and that the input does not contain yet.

Those from StatefulSets' templates are named `<template>-<pod>`, those of ephemeral volumes `<pod>-<volume>`. A claim
whose class waits for the first consumer is bound together with its pod, and counts as if it existed. Others are bound
before the pod is scheduled, to a volume that is not known.
Source: kube-controller-manager's StatefulSet and ephemeral volume controllers; the admission of default classes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.storage_class import StorageClass
from scheduler.core_v1.volume_claim_template import VolumeClaimTemplate, ephemeral_claims
from scheduler.core_v1.workload import Workload
from scheduler.input.identity import uid_of
from scheduler.input.inventory import Inventory
from scheduler.state.storage_objects import ClaimKey

KIND = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class VolumeClaims:
    """Claims to be made. waiting: those that are bound with their pod. bound_before: the others."""

    waiting: Sequence[PersistentVolumeClaim] = ()
    bound_before: frozenset[ClaimKey] = frozenset()

    @property
    def keys(self) -> frozenset[ClaimKey]:
        """All of them."""
        return self.bound_before | {one.key for one in self.waiting}


NO_VOLUME_CLAIMS = VolumeClaims()


def volume_claims_to_be(inventory: Inventory, pods: Iterable[Pod]) -> VolumeClaims:
    """The claims that the pods that wait for a node name, or have by an ephemeral volume, and that are not there.

    pods: each with a uid of its own.
    """
    known = {one.key for one in inventory.storage if isinstance(one, PersistentVolumeClaim)}
    known |= {(namespace, name) for kind, namespace, name in inventory.faults if kind == KIND}
    sets = {(one.namespace, one.name): one for one in inventory.workloads if one.volume_claims}
    made: dict[ClaimKey, VolumeClaimTemplate] = {}
    unknown: set[ClaimKey] = set()
    for pod in pods:
        if pod.volumes.claims and not pod.node_name and not pod.is_over:
            for key, template in (*_of_set(pod, sets), *_ephemeral(pod)):
                if key not in known and template:
                    made.setdefault(key, template)
                elif key not in known:
                    unknown.add(key)
    classes = {one.name: one for one in inventory.storage if isinstance(one, StorageClass)}
    claims = [_claim(key, template, classes) for key, template in made.items()]
    if "StorageClass" not in inventory.kinds:
        return VolumeClaims(tuple(claims), frozenset(unknown))
    unknown.update(one.key for one in claims if _is_bound_before(one, classes))
    return VolumeClaims(tuple(one for one in claims if one.key not in unknown), frozenset(unknown))


def _of_set(pod: Pod, sets: Mapping[tuple[str, str], Workload]) -> Iterator[tuple[ClaimKey, VolumeClaimTemplate]]:
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


def _ephemeral(pod: Pod) -> Iterator[tuple[ClaimKey, VolumeClaimTemplate | None]]:
    """Without a template where that has errors, which are reported with the pod."""
    for volume, template, _ in ephemeral_claims(pod):
        yield (pod.namespace, volume.claim_of(pod.name)), template


def _claim(key: ClaimKey, template: VolumeClaimTemplate, classes: Mapping[str, StorageClass]) -> PersistentVolumeClaim:
    namespace, name = key
    claim = replace(template.claim, name=name, uid=uid_of(KIND, namespace, name))
    return replace(claim, storage_class=_default_class(classes.values())) if template.takes_default_class else claim


def _default_class(classes: Iterable[StorageClass]) -> str:
    """The newest of the default classes, the first by name of those; empty where there is none."""
    by_name = sorted((one for one in classes if one.is_default), key=lambda one: one.name)
    return max(by_name, key=lambda one: one.created).name if by_name else ""


def _is_bound_before(claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]) -> bool:
    """Whether a volume is found or made for it at once; one of a class that is not there waits for the class."""
    found = classes.get(claim.storage_class)
    return not found.waits if found else not claim.storage_class
