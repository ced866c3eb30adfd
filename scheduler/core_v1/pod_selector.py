"""Objects that select pods: Services, controllers by which pods without spread constraints are spread, and budgets.

Source: k8s.io/api core/v1 Service, ReplicationController; apps/v1 ReplicaSet, StatefulSet; policy/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.label_selectors import LabelSelector, LabelSelectorFields, equal_labels, label_selector
from scheduler.core_v1.object_fields import Int32, ObjectFields, ObjectMetaFields, metadata_errors, typed
from scheduler.core_v1.pod import DEFAULT_NAMESPACE

SERVICE = "Service"
REPLICATION_CONTROLLER = "ReplicationController"

KINDS: Mapping[str, str] = {
    SERVICE: "",
    REPLICATION_CONTROLLER: "",
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


class _LabelsSpecFields(ObjectFields):
    selector: dict[str, str] | None = None


class _LabelsFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _LabelsSpecFields | None = None


class _SelectorSpecFields(ObjectFields):
    selector: LabelSelectorFields | None = None


class _PodSelectorFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _SelectorSpecFields | None = None


def decode_pod_selector(
    kind: str, raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PodSelector | None, tuple[FieldError, ...]]:
    """The object, or the errors. kind: one of KINDS. validate: what the API server refuses is an error."""
    selector: LabelSelector = None
    if KINDS[kind] == "":
        by_labels, errors = typed(_LabelsFields, raw)
        metadata = by_labels.metadata if by_labels else None
        if by_labels and by_labels.spec and by_labels.spec.selector is not None:
            selector = equal_labels(by_labels.spec.selector)
    else:
        fields, errors = typed(_PodSelectorFields, raw)
        metadata = fields.metadata if fields else None
        selector = label_selector(fields.spec.selector if fields and fields.spec else None)
    if metadata is None or (validate and (errors := tuple(metadata_errors(metadata)))):
        return None, errors
    return PodSelector(kind, metadata.namespace or DEFAULT_NAMESPACE, metadata.name, selector), ()


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A budget."""

    namespace: str
    name: str
    selector: LabelSelector = None
    """None where it selects no pod."""
    disruptions_allowed: int = 0
    disrupted: frozenset[str] = frozenset()
    """Names of pods whose eviction is counted already."""

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _BudgetSpecFields(ObjectFields):
    selector: LabelSelectorFields | None = None


class _BudgetStatusFields(ObjectFields):
    disruptionsAllowed: Int32 = 0  # noqa: N815 - the API's name
    disruptedPods: dict[str, str | None] | None = None  # noqa: N815 - the API's name


class _BudgetFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _BudgetSpecFields = _BudgetSpecFields()
    status: _BudgetStatusFields = _BudgetStatusFields()


def decode_disruption_budget(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PodDisruptionBudget | None, tuple[FieldError, ...]]:
    """The budget, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_BudgetFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    namespace, status = fields.metadata.namespace or DEFAULT_NAMESPACE, fields.status
    return PodDisruptionBudget(
        namespace,
        fields.metadata.name,
        label_selector(fields.spec.selector),
        status.disruptionsAllowed,
        frozenset(status.disruptedPods or ()),
    ), ()
