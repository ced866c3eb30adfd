"""PriorityClasses: the priority of a pod that names a class, or none.

The API server writes the number into each pod; a manifest only has the name.
Source: k8s.io/api scheduling/v1 PriorityClass, and the admission plugin Priority.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import Int32, ObjectFields, ObjectMetaFields, metadata_errors, typed


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority class by its name. is_default: for pods that name no class."""

    name: str
    value: int
    is_default: bool = False


BUILT_IN = (
    PriorityClass("system-cluster-critical", 2_000_000_000),
    PriorityClass("system-node-critical", 2_000_001_000),
)
"""The classes that every cluster has."""


class _PriorityClassFields(ObjectFields):
    metadata: ObjectMetaFields
    value: Int32
    globalDefault: bool | None = None  # noqa: N815 - the API's name


def decode_priority_class(raw: Mapping[str, object]) -> tuple[PriorityClass | None, tuple[FieldError, ...]]:
    """The class, or the errors."""
    fields, errors = typed(_PriorityClassFields, raw)
    if fields is None:
        return None, errors
    if errors := tuple(metadata_errors(fields.metadata)):
        return None, errors
    return PriorityClass(fields.metadata.name, fields.value, bool(fields.globalDefault)), ()
