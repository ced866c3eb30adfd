"""PersistentVolumes: which nodes can reach one, which claims it can serve, and what its driver calls it.

A volume of a kind that a CSI driver has taken over is found in the driver's topology on nodes that have migrated it.
Source: k8s.io/api core/v1 PersistentVolume; k8s.io/csi-translation-lib for topologies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from allocator.api.findings import FieldError
from allocator.model import NodeSelector, Requirement, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selector import Labels
from scheduler.core_v1.object_fields import (
    AnnotatedFields,
    ObjectFields,
    SelectorTermFields,
    metadata_errors,
    selector_of,
    typed,
)
from scheduler.core_v1.resources import Amount, amount_errors
from scheduler.core_v1.volume_sources import (
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
    """A volume. affinity: the nodes that reach it, None for all. handle: what its CSI driver calls it, if it has one.

    is_csi: it names its driver itself. plugin: what a volume is of that a driver has taken over, else empty;
    migrated_affinity: the nodes that reach it, of those that see it as the driver's.
    """

    name: str
    resource_version: str = ""
    labels: Labels = field(default_factory=dict)
    storage_class: str = ""
    capacity: Quantity = NONE
    access_modes: frozenset[str] = frozenset()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    affinity: NodeSelector | None = None
    claim: ClaimReference | None = None
    phase: str = ""
    is_deleting: bool = False
    handle: Handle | None = None
    is_csi: bool = False
    plugin: str = ""
    migrated_affinity: NodeSelector | None = None

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
    found = migration_of(raw_spec)
    if found is None:
        return volume
    migration, _ = found
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
