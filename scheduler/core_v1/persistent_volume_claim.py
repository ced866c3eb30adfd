"""PersistentVolumeClaims: which volume a claim has, or what it asks of one.

Source: k8s.io/api core/v1 PersistentVolumeClaim; the annotations of kube-controller-manager's volume controller.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api import names
from allocator.api.findings import FieldError
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selector import LabelSelector, LabelSelectorFields, label_selector
from scheduler.core_v1.object_fields import (
    AnnotatedFields,
    ObjectFields,
    OwnerFields,
    metadata_errors,
    name_error,
    typed,
)
from scheduler.core_v1.persistent_volume import FILESYSTEM, NONE, STORAGE, class_of
from scheduler.core_v1.resources import Amount, amount_errors

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ONE_POD = "ReadWriteOncePod"
LOST = "Lost"

_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A claim. volume: the name of the one that it has or is meant to have. is_bound: it has it for good.

    owner: the uid of its controller. selected_node: where the volume is to be provisioned, None where nobody has said.
    request: None where none is made. selector: of volumes by their labels, None for all.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    owner: str = ""
    storage_class: str = ""
    volume: str = ""
    is_bound: bool = False
    selected_node: str | None = None
    request: Quantity | None = None
    access_modes: frozenset[str] = frozenset()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    selector: LabelSelector = None
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
    requests = _requests(fields.spec)
    errors = (*metadata_errors(fields.metadata), *amount_errors("spec.resources.requests", requests))
    if fields.spec.volumeName:
        errors = (*errors, *name_error("spec.volumeName", fields.spec.volumeName, names.long_name))
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
