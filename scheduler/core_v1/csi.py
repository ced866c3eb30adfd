"""CSIDriver, CSINode, CSIStorageCapacity and VolumeAttachment: what a node can attach, and has."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from allocator.api.findings import FieldError
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selectors import LabelSelector, LabelSelectorFields, label_selector
from scheduler.core_v1.object_fields import (
    AnnotatedFields,
    Int32,
    ObjectFields,
    ObjectMetaFields,
    metadata_errors,
    typed,
)
from scheduler.core_v1.resources import Amount

# CSIDrivers: whether a driver publishes how much it can provision where.
#
# Source: k8s.io/api storage/v1 CSIDriver.


@dataclass(frozen=True, slots=True)
class CSIDriver:
    """A driver by its name. publishes_capacity: CSIStorageCapacities say what it can provision.

    is_required: pods with its volumes can be on no node without it.
    """

    name: str
    publishes_capacity: bool = False
    is_required: bool = False


class _CsiDriverSpecFields(ObjectFields):
    storageCapacity: bool | None = None  # noqa: N815 - the API's name
    preventPodSchedulingIfMissing: bool | None = None  # noqa: N815 - the API's name


class _CsiDriverFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _CsiDriverSpecFields | None = None


def decode_csi_driver(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[CSIDriver | None, tuple[FieldError, ...]]:
    """The driver, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_CsiDriverFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    spec = fields.spec or _CsiDriverSpecFields()
    return CSIDriver(fields.metadata.name, bool(spec.storageCapacity), bool(spec.preventPodSchedulingIfMissing)), ()


# CSINodes: how many volumes of a driver a node takes, and which in-tree volumes it has migrated to their CSI driver.
#
# Source: k8s.io/api storage/v1 CSINode; its annotation of migrated plugins.


MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


@dataclass(frozen=True, slots=True)
class CSINode:
    """The CSI drivers on the node of that name. limits: of those that have one, by name. migrated: plugins."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    migrated: frozenset[str] = frozenset()
    drivers: frozenset[str] = frozenset()


class _AllocatableFields(ObjectFields):
    count: Int32 | None = None


class _NodeDriverFields(ObjectFields):
    name: str
    allocatable: _AllocatableFields | None = None


class _CsiNodeSpecFields(ObjectFields):
    drivers: list[_NodeDriverFields] | None = None


class _CSINodeFields(ObjectFields):
    metadata: AnnotatedFields
    spec: _CsiNodeSpecFields | None = None


def decode_csi_node(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[CSINode | None, tuple[FieldError, ...]]:
    """The CSINode, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_CSINodeFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    drivers = (fields.spec.drivers if fields.spec else None) or ()
    migrated = (fields.metadata.annotations or {}).get(MIGRATED, "")
    names, plugins = frozenset(one.name for one in drivers), frozenset(filter(None, migrated.split(",")))
    return CSINode(fields.metadata.name, _limits(drivers), plugins, names), ()


def _limits(drivers: list[_NodeDriverFields] | tuple[()]) -> Mapping[str, int]:
    reported = ((one.name, one.allocatable.count if one.allocatable else None) for one in drivers)
    return {name: count for name, count in reported if count is not None}


# CSIStorageCapacities: how large a volume of a class can be, and on which nodes.
#
# Source: k8s.io/api storage/v1 CSIStorageCapacity.


@dataclass(frozen=True, slots=True)
class CSIStorageCapacity:
    """Free capacity for a class."""

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector = None
    """The nodes, by their labels."""
    largest: Quantity | None = None
    """The size of the largest volume that can be had."""
    amount: Quantity | None = None
    """All that is free; None where nothing is said of it."""

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
    name, storage_class = fields.metadata.name, fields.storageClassName
    return CSIStorageCapacity(namespace, name, storage_class, topology, largest, fields.capacity), ()


# VolumeAttachments: which volumes are attached to which nodes, or will be.
#
# Source: k8s.io/api storage/v1 VolumeAttachment.


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """An attachment by its name. attacher: the CSI driver. volume: a PersistentVolume, empty for one of a pod's own."""

    name: str
    attacher: str
    node: str
    volume: str = ""


class _VolumeAttachmentSourceFields(ObjectFields):
    persistentVolumeName: str | None = None  # noqa: N815 - the API's name


class _VolumeAttachmentSpecFields(ObjectFields):
    attacher: str = ""
    nodeName: str = ""  # noqa: N815 - the API's name
    source: _VolumeAttachmentSourceFields = _VolumeAttachmentSourceFields()


class _AttachmentFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _VolumeAttachmentSpecFields


def decode_volume_attachment(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[VolumeAttachment | None, tuple[FieldError, ...]]:
    """The attachment, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_AttachmentFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    spec = fields.spec
    return VolumeAttachment(
        fields.metadata.name, spec.attacher, spec.nodeName, spec.source.persistentVolumeName or ""
    ), ()
