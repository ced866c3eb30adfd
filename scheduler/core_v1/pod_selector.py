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
    "Deployment": "apps",
}
"""Kind to API group. A Deployment stands for its ReplicaSets where these are not made yet."""


@dataclass(frozen=True, slots=True)
class PodSelector:
    """An object that selects pods of its namespace. selector: None where it selects none."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector


class _SpecFields(Fields):
    selector: dict[str, str] | LabelSelectorFields | None = None


class _PodSelectorFields(Fields):
    metadata: MetadataFields
    spec: _SpecFields | None = None


def decode_pod_selector(
    kind: str, raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PodSelector | None, tuple[FieldError, ...]]:
    """The object, or the errors. kind: one of KINDS. validate: what the API server refuses is an error."""
    fields, errors = typed(_PodSelectorFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    metadata, selector = fields.metadata, fields.spec.selector if fields.spec else None
    return PodSelector(kind, metadata.namespace or DEFAULT_NAMESPACE, metadata.name, _selector(selector)), ()


def _selector(fields: dict[str, str] | LabelSelectorFields | None) -> LabelSelector:
    """A map of labels (core/v1), or a LabelSelector (apps/v1)."""
    if fields is None:
        return None
    return equal_labels(fields) if isinstance(fields, dict) else label_selector(fields)
