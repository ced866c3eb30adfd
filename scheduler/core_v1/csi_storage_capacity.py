"""CSIStorageCapacities: how large a volume of a class can be, and on which nodes.

Source: k8s.io/api storage/v1 CSIStorageCapacity.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selector import LabelSelector, LabelSelectorFields, label_selector
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, metadata_errors, typed
from scheduler.core_v1.resources import Amount


@dataclass(frozen=True, slots=True)
class CSIStorageCapacity:
    """Free capacity for a class. topology: the nodes, by their labels. largest: a volume that can be had."""

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector = None
    largest: Quantity | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


class _CSIStorageCapacityFields(ObjectFields):
    metadata: ObjectMetaFields
    storageClassName: str  # noqa: N815 - the API's name
    nodeTopology: LabelSelectorFields | None = None  # noqa: N815 - the API's name
    capacity: Amount | None = None
    maximumVolumeSize: Amount | None = None  # noqa: N815 - the API's name


def decode_csi_storage_capacity(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[CSIStorageCapacity | None, tuple[FieldError, ...]]:
    """The capacity, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_CSIStorageCapacityFields, raw)
    if fields is None:
        return None, errors
    reported = {"capacity": fields.capacity, "maximumVolumeSize": fields.maximumVolumeSize}
    negative = (
        FieldError(name, one.text, "must not be negative") for name, one in reported.items() if one and one.sign < 0
    )
    if validate and (errors := (*metadata_errors(fields.metadata), *negative)):
        return None, errors
    # The largest single volume is the more precise of both: what is left may lie in several pools.
    largest = fields.capacity if fields.maximumVolumeSize is None else fields.maximumVolumeSize
    namespace, topology = fields.metadata.namespace or "", label_selector(fields.nodeTopology)
    return CSIStorageCapacity(namespace, fields.metadata.name, fields.storageClassName, topology, largest), ()
