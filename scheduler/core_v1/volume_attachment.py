"""VolumeAttachments: which volumes are attached to which nodes, or are to be.

Source: k8s.io/api storage/v1 VolumeAttachment.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.fields import Fields, MetadataFields, metadata_errors, typed


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """An attachment by its name. attacher: the CSI driver. volume: a PersistentVolume, empty for one of a pod's own."""

    name: str
    attacher: str
    node: str
    volume: str = ""


class _SourceFields(Fields):
    persistentVolumeName: str | None = None  # noqa: N815 - the API's name


class _SpecFields(Fields):
    attacher: str = ""
    nodeName: str = ""  # noqa: N815 - the API's name
    source: _SourceFields = _SourceFields()


class _AttachmentFields(Fields):
    metadata: MetadataFields
    spec: _SpecFields


def decode_volume_attachment(raw: Mapping[str, object]) -> tuple[VolumeAttachment | None, tuple[FieldError, ...]]:
    """The attachment, or the errors."""
    fields, errors = typed(_AttachmentFields, raw)
    if fields is None:
        return None, errors
    if errors := tuple(metadata_errors(fields.metadata)):
        return None, errors
    spec = fields.spec
    return VolumeAttachment(
        fields.metadata.name, spec.attacher, spec.nodeName, spec.source.persistentVolumeName or ""
    ), ()
