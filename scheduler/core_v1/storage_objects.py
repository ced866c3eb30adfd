"""PersistentVolume, its claim and its StorageClass; and what a node can attach, and has, of CSI drivers' volumes.

These are CSIDriver, CSINode, CSIStorageCapacity and VolumeAttachment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from allocator.api.findings import FieldError
from allocator.model import NodeSelector, Requirement, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selectors import Labels, LabelSelector, LabelSelectorFields, label_selector
from scheduler.core_v1.object_fields import (
    AnnotatedFields,
    Int32,
    ObjectFields,
    ObjectMetaFields,
    OwnerFields,
    SelectorTermFields,
    metadata_errors,
    selector_of,
    typed,
)
from scheduler.core_v1.pod_volumes import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONE_DELIMITER,
    Handle,
    Migration,
    migrated_handle,
    migration_of,
)
from scheduler.core_v1.resources import Amount, amount_errors

# StorageClasses: who provisions volumes of a class, when, and on which nodes.
#
# Source: k8s.io/api storage/v1 StorageClass, and its defaults.


WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
_IMMEDIATE = "Immediate"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A class by its name."""

    name: str
    provisioner: str = ""
    binding_mode: str = _IMMEDIATE
    topologies: NodeSelector | None = None
    """The nodes for which volumes can be provisioned, None for all."""
    is_default: bool = False
    """It is the default for new claims that name no class."""
    created: str = ""
    """RFC 3339; of several defaults the newest is taken."""

    @property
    def waits(self) -> bool:
        """Claims of the class are bound when a pod that uses them is placed."""
        return self.binding_mode == WAIT_FOR_FIRST_CONSUMER

    @property
    def provisions(self) -> bool:
        """Volumes are made for claims that find none."""
        return self.provisioner not in ("", NO_PROVISIONER)


class _LabelRequirementFields(ObjectFields):
    key: str
    values: list[str] | None = None


class _TopologyTermFields(ObjectFields):
    matchLabelExpressions: list[_LabelRequirementFields] | None = None  # noqa: N815 - the API's name


class _StorageClassFields(ObjectFields):
    metadata: AnnotatedFields
    provisioner: str = ""
    volumeBindingMode: str | None = None  # noqa: N815 - the API's name
    allowedTopologies: list[_TopologyTermFields] | None = None  # noqa: N815 - the API's name


def decode_storage_class(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[StorageClass | None, tuple[FieldError, ...]]:
    """The class, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_StorageClassFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    topologies = tuple(map(_term, fields.allowedTopologies or ()))
    mode = fields.volumeBindingMode or _IMMEDIATE
    return StorageClass(
        name=fields.metadata.name,
        provisioner=fields.provisioner,
        binding_mode=mode,
        topologies=topologies or None,
        is_default=any((fields.metadata.annotations or {}).get(name) == "true" for name in IS_DEFAULT),
        created=fields.metadata.creationTimestamp or "",
    ), ()


def _term(fields: _TopologyTermFields) -> Term:
    return Term(
        tuple(Requirement(one.key, "In", tuple(one.values or ())) for one in fields.matchLabelExpressions or ())
    )


# PersistentVolumes: which nodes can reach one, which claims it can serve, and what its driver calls it.
#
# A volume of a kind that a CSI driver has taken over is found in the driver's topology on nodes that have migrated it.
# Source: k8s.io/api core/v1 PersistentVolume; k8s.io/csi-translation-lib for topologies.


NONE = Quantity.of(0)
STORAGE = "storage"
FILESYSTEM = "Filesystem"
AVAILABLE = "Available"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""In place of the field of the spec, in old objects."""


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim that a volume is bound to, or reserved for. uid: empty if it is reserved for any claim of that name."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A volume."""

    name: str
    resource_version: str = ""
    labels: Labels = field(default_factory=dict)
    storage_class: str = ""
    capacity: Quantity = NONE
    access_modes: frozenset[str] = frozenset()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    affinity: NodeSelector | None = None
    """The nodes that reach it, None for all."""
    claim: ClaimReference | None = None
    phase: str = ""
    is_deleting: bool = False
    handle: Handle | None = None
    """What its CSI driver calls it, if it has one."""
    is_csi: bool = False
    """It names its driver itself."""
    plugin: str = ""
    """The in-tree plugin of the volume, where a CSI driver has taken it over; else empty."""
    migrated_affinity: NodeSelector | None = None
    """The nodes that reach it, of those that see it as the driver's volume."""

    def is_for(self, namespace: str, name: str, uid: str) -> bool:
        """True for a volume that is bound to this claim, or reserved for it."""
        claim = self.claim
        return claim is not None and (claim.namespace, claim.name) == (namespace, name) and claim.uid in ("", uid)


class _VolumeRequiredFields(ObjectFields):
    nodeSelectorTerms: list[SelectorTermFields] | None = None  # noqa: N815 - the API's name


class _VolumeAffinityFields(ObjectFields):
    required: _VolumeRequiredFields | None = None


class _ReferenceFields(ObjectFields):
    namespace: str = ""
    name: str = ""
    uid: str | None = None


class _CsiSourceFields(ObjectFields):
    driver: str = ""
    volumeHandle: str = ""  # noqa: N815 - the API's name


class _PersistentVolumeSpecFields(ObjectFields):
    storageClassName: str | None = None  # noqa: N815 - the API's name
    capacity: dict[str, Amount] | None = None
    accessModes: list[str] | None = None  # noqa: N815 - the API's name
    volumeMode: str | None = None  # noqa: N815 - the API's name
    volumeAttributesClassName: str | None = None  # noqa: N815 - the API's name
    nodeAffinity: _VolumeAffinityFields | None = None  # noqa: N815 - the API's name
    claimRef: _ReferenceFields | None = None  # noqa: N815 - the API's name
    csi: _CsiSourceFields | None = None


class _PersistentVolumeStatusFields(ObjectFields):
    phase: str | None = None


class _VolumeFields(ObjectFields):
    metadata: AnnotatedFields
    spec: _PersistentVolumeSpecFields
    status: _PersistentVolumeStatusFields | None = None


def decode_persistent_volume(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PersistentVolume | None, tuple[FieldError, ...]]:
    """The volume, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_VolumeFields, raw)
    if fields is None:
        return None, errors
    wrong = (*metadata_errors(fields.metadata), *amount_errors("spec.capacity", fields.spec.capacity or {}))
    if validate and wrong:
        return None, wrong
    raw_spec = raw["spec"]
    assert isinstance(raw_spec, dict)
    return _with_source(_volume(fields), fields.spec.csi, raw_spec), ()


def _volume(fields: _VolumeFields) -> PersistentVolume:
    metadata, spec = fields.metadata, fields.spec
    required = spec.nodeAffinity.required if spec.nodeAffinity else None
    reference = spec.claimRef
    return PersistentVolume(
        name=metadata.name,
        resource_version=metadata.resourceVersion or "",
        labels=metadata.labels or {},
        storage_class=class_of(metadata, spec.storageClassName),
        capacity=(spec.capacity or {}).get(STORAGE, NONE),
        access_modes=frozenset(spec.accessModes or ()),
        volume_mode=spec.volumeMode or FILESYSTEM,
        attributes_class=spec.volumeAttributesClassName or "",
        affinity=selector_of(required.nodeSelectorTerms) if required else None,
        claim=ClaimReference(reference.namespace, reference.name, reference.uid or "") if reference else None,
        phase=(fields.status.phase if fields.status else None) or "",
        is_deleting=bool(metadata.deletionTimestamp),
    )


def class_of(metadata: AnnotatedFields, name: str | None) -> str:
    """The storage class of a volume or a claim. name: in its spec."""
    return (metadata.annotations or {}).get(CLASS_ANNOTATION, name or "")


def _with_source(
    volume: PersistentVolume, csi: _CsiSourceFields | None, raw_spec: Mapping[str, object]
) -> PersistentVolume:
    if csi is not None:
        named = csi.driver and csi.volumeHandle
        return replace(volume, is_csi=True, handle=Handle(csi.driver, csi.volumeHandle) if named else None)
    migrated = migration_of(raw_spec)
    if migrated is None:
        return volume
    migration, _ = migrated
    affinity = _migrated_affinity(volume, migration)
    handle = migrated_handle(raw_spec, volume.labels)
    return replace(volume, handle=handle, plugin=migration.plugin, migrated_affinity=affinity)


def _migrated_affinity(volume: PersistentVolume, migration: Migration) -> NodeSelector | None:
    """The nodes that reach the volume by the labels that its driver gives to nodes."""
    if not migration.zone_key:
        return volume.affinity
    zone, region = _topology_keys(volume)
    names = {zone: migration.zone_key, **({region: REGION} if region == BETA_REGION else {})}
    affinity = volume.affinity
    if affinity and _values(affinity, zone):
        return tuple(_renamed(term, names) for term in affinity)
    zones = {part.strip() for part in volume.labels.get(zone, "").split(ZONE_DELIMITER)} - {""}
    if not zones:
        return affinity
    within = Requirement(migration.zone_key, "In", tuple(sorted(zones)))
    return tuple(replace(term, expressions=(*term.expressions, within)) for term in affinity or (Term(),))


def _topology_keys(volume: PersistentVolume) -> tuple[str, str]:
    """The labels for zone and region that the volume has: the newer ones unless it has only the older ones."""
    selected = {one.key for term in volume.affinity or () for one in term.expressions}
    for keys in (selected, volume.labels.keys()):
        if ZONE in keys:
            return ZONE, REGION
        if BETA_ZONE in keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(selector: NodeSelector, key: str) -> bool:
    return any(one.values for term in selector for one in term.expressions if one.key == key)


def _renamed(term: Term, names: Mapping[str, str]) -> Term:
    return replace(term, expressions=tuple(replace(one, key=names.get(one.key, one.key)) for one in term.expressions))


# PersistentVolumeClaims: which volume a claim has, or what it asks of one.
#
# Source: k8s.io/api core/v1 PersistentVolumeClaim; the annotations of kube-controller-manager's volume controller.


SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ONE_POD = "ReadWriteOncePod"
LOST = "Lost"

_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A claim."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    owner: str = ""
    """The uid of its controller."""
    storage_class: str = ""
    volume: str = ""
    """The name of the volume that it has or is meant to have."""
    is_bound: bool = False
    """It has the volume for good."""
    selected_node: str | None = None
    """The node where the volume is to be provisioned; None where nobody has said."""
    request: Quantity | None = None
    """How much it requests; None where it requests nothing."""
    access_modes: frozenset[str] = frozenset()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    selector: LabelSelector = None
    """Volumes by their labels; None for all."""
    phase: str = ""
    is_deleting: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def size(self) -> Quantity:
        """What a volume needs to have at least."""
        return self.request or NONE


class _VolumeResourcesFields(ObjectFields):
    requests: dict[str, Amount] | None = None


class _PersistentVolumeClaimSpecFields(ObjectFields):
    storageClassName: str | None = None  # noqa: N815 - the API's name
    volumeName: str | None = None  # noqa: N815 - the API's name
    accessModes: list[str] | None = None  # noqa: N815 - the API's name
    volumeMode: str | None = None  # noqa: N815 - the API's name
    volumeAttributesClassName: str | None = None  # noqa: N815 - the API's name
    resources: _VolumeResourcesFields | None = None
    selector: LabelSelectorFields | None = None


class _PersistentVolumeClaimStatusFields(ObjectFields):
    phase: str | None = None


class _VolumeClaimFields(ObjectFields):
    metadata: AnnotatedFields
    spec: _PersistentVolumeClaimSpecFields
    status: _PersistentVolumeClaimStatusFields | None = None


def decode_persistent_volume_claim(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PersistentVolumeClaim | None, tuple[FieldError, ...]]:
    """The claim, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_VolumeClaimFields, raw)
    if fields is None:
        return None, errors
    requests = _requests(fields.spec)  # of the name of its volume, the API server takes any text
    errors = (*metadata_errors(fields.metadata), *amount_errors("spec.resources.requests", requests))
    return (None, errors) if errors and validate else (_claim(fields, requests), ())


def _claim(fields: _VolumeClaimFields, requests: Mapping[str, Quantity]) -> PersistentVolumeClaim:
    metadata, spec, annotations = fields.metadata, fields.spec, fields.metadata.annotations or {}
    return PersistentVolumeClaim(
        namespace=metadata.namespace or _DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resourceVersion or "",
        owner=_controller(metadata.ownerReferences or ()),
        storage_class=class_of(metadata, spec.storageClassName),
        volume=spec.volumeName or "",
        is_bound=bool(spec.volumeName) and BIND_COMPLETED in annotations,
        selected_node=annotations.get(SELECTED_NODE),
        request=requests.get(STORAGE),
        access_modes=frozenset(spec.accessModes or ()),
        volume_mode=spec.volumeMode or FILESYSTEM,
        attributes_class=spec.volumeAttributesClassName or "",
        selector=label_selector(spec.selector),
        phase=(fields.status.phase if fields.status else None) or "",
        is_deleting=bool(metadata.deletionTimestamp),
    )


def _requests(spec: _PersistentVolumeClaimSpecFields) -> Mapping[str, Quantity]:
    return (spec.resources.requests if spec.resources else None) or {}


def _controller(owners: list[OwnerFields] | tuple[()]) -> str:
    return next((owner.uid for owner in owners if owner.controller), "")


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
    errors = tuple(metadata_errors(fields.metadata))
    if fields.capacity and fields.capacity.sign < 0:  # the API server looks at no other amount
        errors = (*errors, FieldError("capacity", fields.capacity.text, "must not be negative"))
    if validate and errors:
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
