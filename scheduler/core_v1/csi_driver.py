"""CSIDrivers: whether a driver publishes how much it can provision where.

Source: k8s.io/api storage/v1 CSIDriver.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, metadata_errors, typed


@dataclass(frozen=True, slots=True)
class CSIDriver:
    """A driver by its name. publishes_capacity: CSIStorageCapacities say what it can provision."""

    name: str
    publishes_capacity: bool = False


class _CsiDriverSpecFields(ObjectFields):
    storageCapacity: bool | None = None  # noqa: N815 - the API's name


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
    return CSIDriver(fields.metadata.name, bool(fields.spec and fields.spec.storageCapacity)), ()
