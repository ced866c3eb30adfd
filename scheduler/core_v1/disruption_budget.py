"""PodDisruptionBudgets: how many of the pods that one selects may be evicted, as its controller has written last.

Source: k8s.io/api policy/v1 PodDisruptionBudget.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from scheduler.core_v1.label_selectors import LabelSelector, LabelSelectorFields, label_selector
from scheduler.core_v1.object_fields import Int32, ObjectFields, ObjectMetaFields, metadata_errors, typed
from scheduler.core_v1.pod import DEFAULT_NAMESPACE


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
    disruptedPods: dict[str, str] | None = None  # noqa: N815 - the API's name


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
