"""All kinds of objects about volumes."""

from scheduler.core_v1.csi_driver import CSIDriver
from scheduler.core_v1.csi_node import CSINode
from scheduler.core_v1.csi_storage_capacity import CSIStorageCapacity
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.core_v1.storage_class import StorageClass
from scheduler.core_v1.volume_attachment import VolumeAttachment

StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
