"""Nodes: the part of a Node that placement looks at.

Source: k8s.io/api core/v1 Node.
"""

from collections.abc import Iterator, Mapping

from allocator.api import names
from allocator.api.findings import FieldError
from allocator.model import Node, Taint
from scheduler.core_v1.images import images_of_node
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, metadata_errors, name_error, typed
from scheduler.core_v1.resources import Amount, amount_errors


class _NodeTaintFields(ObjectFields):
    key: str
    value: str | None = None
    effect: str


class _NodeSpecFields(ObjectFields):
    unschedulable: bool | None = None
    taints: list[_NodeTaintFields] | None = None


class _NodeStatusFields(ObjectFields):
    declaredFeatures: list[str] | None = None  # noqa: N815 - the API's name
    allocatable: dict[str, Amount] | None = None


class _NodeFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _NodeSpecFields | None = None
    status: _NodeStatusFields | None = None


_NO_FEATURES: frozenset[str] = frozenset()
"""The only instance that nodes without any need: a fleet has many."""


def decode_node(raw: Mapping[str, object], *, validate: bool = True) -> tuple[Node | None, tuple[FieldError, ...]]:
    """The node, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_NodeFields, raw)
    if fields is None:
        return None, errors
    spec, status = fields.spec or _NodeSpecFields(), fields.status or _NodeStatusFields()
    if validate and (errors := _errors(fields.metadata, spec, status)):
        return None, errors
    node = Node(
        name=fields.metadata.name,
        labels=fields.metadata.labels or {},
        taints=tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        declared_features=frozenset(status.declaredFeatures) if status.declaredFeatures else _NO_FEATURES,
        allocatable=status.allocatable or {},
        images=images_of_node(raw),
    )
    return node, ()


def _errors(metadata: ObjectMetaFields, spec: _NodeSpecFields, status: _NodeStatusFields) -> tuple[FieldError, ...]:
    return *metadata_errors(metadata), *_taint_errors(spec), *_status_errors(status)


def _taint_errors(spec: _NodeSpecFields) -> Iterator[FieldError]:
    for position, taint in enumerate(spec.taints or ()):
        yield from name_error(f"spec.taints[{position}].key", taint.key, names.label_key)
        yield from name_error(f"spec.taints[{position}].value", taint.value or "", names.label_value)


def _status_errors(status: _NodeStatusFields) -> Iterator[FieldError]:
    yield from amount_errors("status.allocatable", status.allocatable or {})
