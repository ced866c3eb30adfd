"""Storage objects for tests: what a case does not vary is filled in, so that what it varies can be seen.

One class `w` whose claims wait for their pod, with volumes of the driver `d.io`.
"""

from typing import Any

from allocator.model import NodeSelector, Requirement, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import ClaimVolume, Handle, PodVolumes
from scheduler.core_v1.storage_objects import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimReference,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tests.builders import a_pod

WAITING = "w"
DRIVER = "d.io"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

_ONE_NODE = frozenset({"ReadWriteOnce"})


def a_storage_class(name: str = WAITING, provisioner: str = DRIVER, **more: Any) -> StorageClass:
    """A class whose claims wait for their pod."""
    return StorageClass(name, **{"provisioner": provisioner, "binding_mode": WAIT_FOR_FIRST_CONSUMER, **more})


def a_pvc(name: str = "v", *, size: str = "1Gi", **more: Any) -> PersistentVolumeClaim:
    """A claim that nothing is bound to yet."""
    usual = {"storage_class": WAITING, "request": Quantity.parse(size), "access_modes": _ONE_NODE, "phase": "Pending"}
    about = {"uid": f"uid-{name}", "resource_version": "1"}
    return PersistentVolumeClaim("default", name, **{**about, **usual, **more})


def a_bound_pvc(name: str = "v", volume: str = "pv1", **more: Any) -> PersistentVolumeClaim:
    """A claim that has the volume."""
    return a_pvc(name, **{"volume": volume, "is_bound": True, "phase": "Bound", **more})


def a_pv(name: str = "pv1", *, size: str = "1Gi", **more: Any) -> PersistentVolume:
    """A volume that is meant for nobody, and reached from everywhere."""
    usual = {"storage_class": WAITING, "capacity": Quantity.parse(size), "access_modes": _ONE_NODE}
    about = {"resource_version": "1", "phase": "Available", "is_csi": True, "handle": Handle(DRIVER, name)}
    return PersistentVolume(name, **{**about, **usual, **more})


def meant_for(claim: PersistentVolumeClaim, *, uid: str | None = None) -> ClaimReference:
    """The reference to the claim."""
    return ClaimReference(claim.namespace, claim.name, claim.uid if uid is None else uid)


def a_capacity(
    name: str = "c", largest: str = "1Gi", *needed: Requirement, amount: str = "", storage_class: str = WAITING
) -> CSIStorageCapacity:
    """What is left of the class on nodes with these labels. amount: of all that is left, where something is said."""
    left = Quantity.parse(amount) if amount else None
    return CSIStorageCapacity("default", name, storage_class, needed, Quantity.parse(largest), left)


def where_label(key: str, *values: str) -> NodeSelector:
    """The nodes with one of the values."""
    return (Term((Requirement(key, "In", values),)),)


def a_pod_with(*claims: str, ephemeral: str = "", **more: Any) -> Pod:
    """A pod with volumes of these claims, and of one that is made for the ephemeral volume."""
    named = [ClaimVolume(claim) for claim in claims]
    made = [ClaimVolume(ephemeral, is_ephemeral=True)] if ephemeral else []
    return a_pod(**{"name": "p", "volumes": PodVolumes((*named, *made)), **more})
