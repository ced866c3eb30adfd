"""Namespaces: only their labels count, one of which permits admin access to devices.

Source: k8s.io/api core/v1 Namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, metadata_errors, typed


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace by its name."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class _NamespaceFields(ObjectFields):
    metadata: ObjectMetaFields


def decode_namespace(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[Namespace | None, tuple[FieldError, ...]]:
    """The namespace, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_NamespaceFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    return Namespace(fields.metadata.name, fields.metadata.labels or {}), ()
