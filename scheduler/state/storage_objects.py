"""Claims, volumes, classes and all else of storage by their names, as the watches show it and decisions have it.

Source: k8s.io/api core/v1 and storage/v1.
"""

from collections.abc import Iterator

from scheduler.core_v1.csi_driver import CSIDriver
from scheduler.core_v1.csi_storage_capacity import CSIStorageCapacity
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.core_v1.storage_class import StorageClass
from scheduler.core_v1.volume_sources import DRIVERS, UNCOUNTED, Handle
from scheduler.state.assumed import AssumedObjects

ClaimKey = tuple[str, str]
"""Namespace and name."""


class StorageObjects:
    """All of them. claims, volumes: with what decisions have changed."""

    def __init__(self) -> None:
        self.claims: AssumedObjects[ClaimKey, PersistentVolumeClaim] = AssumedObjects()
        self.volumes: AssumedObjects[str, PersistentVolume] = AssumedObjects()
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self._volumes_of: dict[str, set[str]] = {}
        self._capacities: dict[str, dict[ClaimKey, CSIStorageCapacity]] = {}
        self._class_of: dict[ClaimKey, str] = {}

    def set_volume(self, volume: PersistentVolume) -> None:
        """The volume is there, or has changed."""
        old = self.volumes.set(volume.name, volume)
        if old is not None:
            self._volumes_of[old.storage_class].discard(old.name)
        self._volumes_of.setdefault(volume.storage_class, set()).add(volume.name)

    def remove_volume(self, name: str) -> None:
        """The volume is gone, if it was there."""
        if (old := self.volumes.remove(name)) is not None:
            self._volumes_of[old.storage_class].discard(name)

    def volumes_of(self, storage_class: str) -> Iterator[PersistentVolume]:
        """The volumes of the class, in no order."""
        found = (self.volumes.get(name) for name in self._volumes_of.get(storage_class, ()))
        return (one for one in found if one is not None)

    def set_capacity(self, capacity: CSIStorageCapacity) -> None:
        """The capacity is there, or has changed."""
        self.remove_capacity(capacity.key)
        self._class_of[capacity.key] = capacity.storage_class
        self._capacities.setdefault(capacity.storage_class, {})[capacity.key] = capacity

    def remove_capacity(self, key: ClaimKey) -> None:
        """The capacity is gone, if it was there."""
        storage_class = self._class_of.pop(key, None)
        if storage_class is not None:
            del self._capacities[storage_class][key]

    def capacities_of(self, storage_class: str) -> Iterator[CSIStorageCapacity]:
        """What can be provisioned of the class."""
        return iter(self._capacities.get(storage_class, {}).values())

    def handle_of(self, claim: ClaimKey) -> Handle | None:
        """What a driver calls the claim's volume; None where it is not counted, or nobody can tell.

        A claim without a volume counts as one that its class will make.
        """
        found = self.claims.watched.get(claim)
        if found is None:
            return None
        volume = self.volumes.watched.get(found.volume)
        return volume.handle if volume is not None else self._handle_to_be(found)

    def _handle_to_be(self, claim: PersistentVolumeClaim) -> Handle | None:
        found = self.classes.get(claim.storage_class)
        if found is None or not found.provisioner or found.provisioner in UNCOUNTED:
            return None
        driver = DRIVERS.get(found.provisioner, found.provisioner)
        return Handle(driver, str(claim), is_made_up=True)
