"""VolumeAttachments: which volumes are attached to which nodes, or will be.

Source: k8s.io/api storage/v1 VolumeAttachment.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, metadata_errors, typed


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
