"""Claims, volumes, classes and drivers by name, as the watches show them and decisions assume them.

Source: k8s.io/api core/v1 and storage/v1.
"""

from scheduler.core_v1.csi_driver import CSIDriver
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.core_v1.storage_class import StorageClass
from scheduler.core_v1.volume_sources import DRIVERS, UNCOUNTED, Handle
from scheduler.state.assumed import AssumedObjects

ClaimKey = tuple[str, str]
"""Namespace and name."""

ObjectKey = str | ClaimKey
"""A volume by its name, or a claim by its own."""


class StorageObjects:
    """All of them. claims, volumes: with what decisions have changed."""

    def __init__(self) -> None:
        self.claims: AssumedObjects[ClaimKey, PersistentVolumeClaim] = AssumedObjects()
        self.volumes: AssumedObjects[str, PersistentVolume] = AssumedObjects()
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}

    def handle_of(self, claim: ClaimKey) -> Handle | None:
        """What a driver calls the claim's volume; None where it is not counted, or unknown.

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
