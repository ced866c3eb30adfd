"""CSINodes: how many volumes of a driver a node takes, and which in-tree volumes it has migrated to their CSI driver.

Source: k8s.io/api storage/v1 CSINode; its annotation of migrated plugins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import AnnotatedFields, Int32, ObjectFields, metadata_errors, typed

MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


@dataclass(frozen=True, slots=True)
class CSINode:
    """The CSI drivers on the node of that name. limits: of its drivers that have one, by name. migrated: plugins."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    migrated: frozenset[str] = frozenset()


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
    return CSINode(fields.metadata.name, _limits(drivers), frozenset(filter(None, migrated.split(",")))), ()


def _limits(drivers: list[_NodeDriverFields] | tuple[()]) -> Mapping[str, int]:
    reported = ((one.name, one.allocatable.count if one.allocatable else None) for one in drivers)
    return {name: count for name, count in reported if count is not None}
