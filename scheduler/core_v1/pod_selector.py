"""Objects that select pods: Services, and the controllers that pods are spread by where they do not say how.

Source: k8s.io/api core/v1 Service, ReplicationController; apps/v1 ReplicaSet, StatefulSet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.fields import Fields, MetadataFields, metadata_errors, typed
from scheduler.core_v1.label_selector import LabelSelector, LabelSelectorFields, equal_labels, label_selector
from scheduler.core_v1.pod import DEFAULT_NAMESPACE

SERVICE = "Service"

KINDS: Mapping[str, str] = {
    SERVICE: "",
    "ReplicationController": "",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
}
"""Kind to API group."""

_BY_LABELS = frozenset({SERVICE, "ReplicationController"})
"""Kinds whose selector is a map of labels."""


@dataclass(frozen=True, slots=True)
class PodSelector:
    """An object that selects pods of its namespace. selector: None where it selects none."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector


class _LabelsSpecFields(Fields):
    selector: dict[str, str] | None = None


class _LabelsFields(Fields):
    metadata: MetadataFields
    spec: _LabelsSpecFields | None = None


class _SelectorSpecFields(Fields):
    selector: LabelSelectorFields | None = None


class _SelectorFields(Fields):
    metadata: MetadataFields
    spec: _SelectorSpecFields | None = None


def decode_pod_selector(kind: str, raw: Mapping[str, object]) -> tuple[PodSelector | None, tuple[FieldError, ...]]:
    """The object, or the errors. kind: one of KINDS."""
    return _by_labels(kind, raw) if kind in _BY_LABELS else _by_selector(kind, raw)


def _by_labels(kind: str, raw: Mapping[str, object]) -> tuple[PodSelector | None, tuple[FieldError, ...]]:
    fields, errors = typed(_LabelsFields, raw)
    if fields is None:
        return None, errors
    labels = fields.spec.selector if fields.spec else None
    return _named(kind, fields.metadata, None if labels is None else equal_labels(labels))


def _by_selector(kind: str, raw: Mapping[str, object]) -> tuple[PodSelector | None, tuple[FieldError, ...]]:
    fields, errors = typed(_SelectorFields, raw)
    if fields is None:
        return None, errors
    return _named(kind, fields.metadata, label_selector(fields.spec.selector if fields.spec else None))


def _named(
    kind: str, metadata: MetadataFields, selector: LabelSelector
) -> tuple[PodSelector | None, tuple[FieldError, ...]]:
    if errors := tuple(metadata_errors(metadata)):
        return None, errors
    return PodSelector(kind, metadata.namespace or DEFAULT_NAMESPACE, metadata.name, selector), ()
