"""PodGroups and CompositePodGroups: pods that are placed together, or not at all.

Source: k8s.io/api scheduling v1beta1, v1alpha3 and v1alpha2; KEP-4671, KEP-5729 for resourceClaims.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import FieldError, Findings, UnknownField
from allocator.api.schema import Reader, advice_on_place
from allocator.api.schema import typed as typed_dict
from allocator.api.versions import Served, Span
from scheduler.core_v1.group_terms import annotations_read
from scheduler.core_v1.object_fields import (
    AnnotatedFields,
    Int32,
    ObjectFields,
    metadata_errors,
    name_error,
    typed,
)
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, ClaimEntryFields, PodClaim, claim_entry_errors

GROUP = "scheduling.k8s.io"

SERVED: Served = {
    "v1beta1": {"PodGroup": Span(37, 43), "CompositePodGroup": Span(38, 44)},
    "v1alpha3": {"PodGroup": Span(37), "CompositePodGroup": Span(37)},
    "v1alpha2": {"PodGroup": Span(36, 37)},
}
"""Of scheduling.k8s.io, the newest first."""

SCHEDULED = ("PodGroupScheduled", "PodGroupInitiallyScheduled")
"""The condition of a group: the first in v1alpha2, the other one later."""

COMPOSITE_SCHEDULED = "CompositePodGroupInitiallyScheduled"
"""That of a CompositePodGroup."""

MOST_CLAIMS = 4
"""Of a group."""

ALL_TOGETHER = "PodGroup"
"""disruptionMode of v1alpha2 for a group that is evicted whole."""

_EACH_ALONE = "Pod"
"""The other one."""

_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup."""

    namespace: str
    name: str
    uid: str = ""
    minimum: int | None = None
    """None for one of the basic policy, whose pods are placed one by one."""
    priority: int | None = None
    priority_class: str = ""
    preempts: bool = True
    topology: tuple[str, ...] = ()
    """Keys of node labels of which all pods see one value."""
    claims: tuple[PodClaim, ...] = ()
    """Of the group, shared by its pods."""
    claim_statuses: Mapping[str, str | None] = field(default_factory=dict)
    """As of a pod."""
    goes_whole: bool = False
    """Evicted only together."""
    parent: str = ""
    """Its CompositePodGroup."""
    workload: str = ""
    """The Workload that it was made for."""
    template: str = ""
    """The one there that it was made from."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those that are read."""
    is_deleting: bool = False
    is_scheduled: bool = False
    """Its status says that as many of its pods were bound as it needs."""

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class CompositePodGroup:
    """A group of groups."""

    namespace: str
    name: str
    uid: str = ""
    minimum: int | None = None
    """How many of them have to be placed; None for the basic policy."""
    priority: int | None = None
    preempts: bool = True
    topology: tuple[str, ...] = ()
    goes_whole: bool = False
    parent: str = ""
    workload: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_scheduled: bool = False
    """Its status says that as many of its groups were placed as it needs."""

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


AnyPodGroup = PodGroup | CompositePodGroup
"""What has pods, or groups that have pods."""


class _GangFields(ObjectFields):
    minCount: Int32 | None = None  # noqa: N815 - the API's name
    minGroupCount: Int32 | None = None  # noqa: N815 - of a CompositePodGroup


class _GroupPolicyFields(ObjectFields):
    basic: dict[str, object] | None = None
    gang: _GangFields | None = None


class _TopologyFields(ObjectFields):
    key: str


class _ConstraintsFields(ObjectFields):
    topology: list[_TopologyFields] | None = None


class _WorkloadTemplateFields(ObjectFields):
    workloadName: str = ""  # noqa: N815 - the API's name
    templateName: str | None = None  # noqa: N815 - of v1beta1
    podGroupTemplateName: str | None = None  # noqa: N815 - of v1alpha2


class _TemplateRefFields(ObjectFields):
    workload: _WorkloadTemplateFields | None = None


class _PodGroupSpecFields(ObjectFields):
    schedulingPolicy: _GroupPolicyFields = _GroupPolicyFields()  # noqa: N815 - the API's name
    schedulingConstraints: _ConstraintsFields | None = None  # noqa: N815 - the API's name
    resourceClaims: list[ClaimEntryFields] | None = None  # noqa: N815 - the API's name
    disruptionMode: object = None  # noqa: N815 - a word in v1alpha2, an object with one field later
    priorityClassName: str | None = None  # noqa: N815 - the API's name
    priority: Int32 | None = None
    preemptionPolicy: str | None = None  # noqa: N815 - the API's name
    parentCompositePodGroupName: str | None = None  # noqa: N815 - the API's name
    workloadRef: _WorkloadTemplateFields | None = None  # noqa: N815 - of v1beta1
    podGroupTemplateRef: _TemplateRefFields | None = None  # noqa: N815 - of v1alpha2


class _GroupConditionFields(ObjectFields):
    type: str = ""
    status: str = ""


class _PodGroupStatusFields(ObjectFields):
    conditions: list[_GroupConditionFields] | None = None
    resourceClaimStatuses: list[ClaimEntryFields] | None = None  # noqa: N815 - the API's name


class _PodGroupFields(ObjectFields):
    metadata: AnnotatedFields
    spec: _PodGroupSpecFields = _PodGroupSpecFields()
    status: _PodGroupStatusFields | None = None


def decode_pod_group(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PodGroup | None, tuple[FieldError, ...]]:
    """The group in any served version, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_PodGroupFields, raw)
    if fields is None:
        return None, errors
    metadata, spec = fields.metadata, fields.spec
    gang, by = spec.schedulingPolicy.gang, _workload_of(spec)
    minimum = None if gang is None else gang.minCount or 0
    if validate and (
        errors := (
            *metadata_errors(metadata),
            *_policy_errors(spec, minimum, "minCount"),
            *_rest_errors(spec),
            *_claim_errors(spec.resourceClaims or ()),
        )
    ):
        return None, errors
    statuses = fields.status.resourceClaimStatuses if fields.status else None
    return PodGroup(
        metadata.namespace or DEFAULT_NAMESPACE,
        metadata.name,
        metadata.uid or "",
        minimum,
        spec.priority,
        spec.priorityClassName or "",
        spec.preemptionPolicy != "Never",
        _topology(spec),
        tuple(
            PodClaim(one.name, one.resourceClaimName or "", one.resourceClaimTemplateName or "")
            for one in spec.resourceClaims or ()
        ),
        {one.name: one.resourceClaimName for one in statuses or ()},
        _goes_whole(spec.disruptionMode),
        spec.parentCompositePodGroupName or "",
        by.workloadName,
        by.templateName or by.podGroupTemplateName or "",
        annotations_read(metadata.annotations),
        bool(metadata.deletionTimestamp),
        _says(fields.status, *SCHEDULED),
    ), ()


def _says(status: _PodGroupStatusFields | None, *types: str) -> bool:
    conditions = (status.conditions if status else None) or ()
    return any(one.type in types and one.status == "True" for one in conditions)


def decode_composite_pod_group(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[CompositePodGroup | None, tuple[FieldError, ...]]:
    """The group of groups, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_PodGroupFields, raw)
    if fields is None:
        return None, errors
    metadata, spec = fields.metadata, fields.spec
    gang = spec.schedulingPolicy.gang
    minimum = None if gang is None else gang.minGroupCount or 0
    if validate and (
        errors := (*metadata_errors(metadata), *_policy_errors(spec, minimum, "minGroupCount"), *_rest_errors(spec))
    ):
        return None, errors
    return CompositePodGroup(
        metadata.namespace or DEFAULT_NAMESPACE,
        metadata.name,
        metadata.uid or "",
        minimum,
        spec.priority,
        spec.preemptionPolicy != "Never",
        _topology(spec),
        _goes_whole(spec.disruptionMode),
        spec.parentCompositePodGroupName or "",
        _workload_of(spec).workloadName,
        annotations_read(metadata.annotations),
        _says(fields.status, COMPOSITE_SCHEDULED),
    ), ()


def _claim_errors(claims: Sequence[ClaimEntryFields]) -> Iterator[FieldError]:
    yield from claim_entry_errors("spec.resourceClaims", claims)
    if len(claims) > MOST_CLAIMS:
        yield FieldError("spec.resourceClaims", claims, f"must not have more than {MOST_CLAIMS} entries")


def _policy_errors(spec: _PodGroupSpecFields, minimum: int | None, name: str) -> Iterator[FieldError]:
    policy = spec.schedulingPolicy
    if (policy.basic is None) == (policy.gang is None):
        yield FieldError("spec.schedulingPolicy", None, "needs exactly one of basic and gang")
    elif minimum is not None and minimum < 1:
        yield FieldError(f"spec.schedulingPolicy.gang.{name}", minimum, "must be at least 1")


def _rest_errors(spec: _PodGroupSpecFields) -> Iterator[FieldError]:
    """What every version that has the field refuses of it."""
    topology = (spec.schedulingConstraints.topology if spec.schedulingConstraints else None) or ()
    if len(topology) > 1:
        yield FieldError("spec.schedulingConstraints.topology", len(topology), "must not have more than one entry")
    for place, constraint in enumerate(topology):
        yield from name_error(f"spec.schedulingConstraints.topology[{place}].key", constraint.key, names.label_key)
    if spec.workloadRef:
        yield from name_error("spec.workloadRef.workloadName", spec.workloadRef.workloadName, names.long_name)
        yield from name_error("spec.workloadRef.templateName", spec.workloadRef.templateName or "", names.short_name)
    if spec.parentCompositePodGroupName is not None:
        yield from name_error("spec.parentCompositePodGroupName", spec.parentCompositePodGroupName, names.long_name)
    if spec.priorityClassName:
        yield from name_error("spec.priorityClassName", spec.priorityClassName, names.long_name)
    if spec.preemptionPolicy not in (None, *_PREEMPTION_POLICIES):
        message = f"must be one of {', '.join(_PREEMPTION_POLICIES)}"
        yield FieldError("spec.preemptionPolicy", spec.preemptionPolicy, message)
    if (mode := spec.disruptionMode) is not None and not _is_mode(mode):
        yield FieldError("spec.disruptionMode", mode, "must have exactly one of single and all")


def _is_mode(mode: object) -> bool:
    """A word of v1alpha2, or an object with one field."""
    if isinstance(mode, dict):
        return len([name for name in ("single", "all") if mode.get(name) is not None]) == 1
    return mode in (ALL_TOGETHER, _EACH_ALONE)


def _workload_of(spec: _PodGroupSpecFields) -> _WorkloadTemplateFields:
    by = spec.podGroupTemplateRef.workload if spec.podGroupTemplateRef else None
    return spec.workloadRef or by or _WorkloadTemplateFields()


def _topology(spec: _PodGroupSpecFields) -> tuple[str, ...]:
    topology = spec.schedulingConstraints.topology if spec.schedulingConstraints else None
    return tuple(one.key for one in topology or ())


def _goes_whole(mode: object) -> bool:
    return mode == ALL_TOGETHER or (isinstance(mode, dict) and "all" in mode)


# All fields of groups, whatever reads them: kubectl apply refuses others. Nothing is read of a value that is no object.


class _TopologyKeyShape(TypedDict):
    key: object


class _ConstraintsShape(TypedDict):
    topology: list[_TopologyKeyShape]


class _GangShape(TypedDict):
    minCount: object


class _PolicyShape(TypedDict):
    basic: object
    gang: _GangShape


class _ClaimShape(TypedDict):
    name: object
    resourceClaimName: object
    resourceClaimTemplateName: object


class _TemplateOfWorkloadShape(TypedDict):
    workloadName: object
    podGroupTemplateName: object


class _TemplateRefShape(TypedDict):
    workload: _TemplateOfWorkloadShape


class _AnySpecShape(TypedDict):
    schedulingConstraints: _ConstraintsShape
    disruptionMode: object
    priorityClassName: object
    priority: object


class _FirstSpecShape(_AnySpecShape):
    podGroupTemplateRef: _TemplateRefShape
    schedulingPolicy: _PolicyShape
    resourceClaims: list[_ClaimShape]


class _FirstShape(TypedDict):
    spec: _FirstSpecShape


class _WorkloadRefShape(TypedDict):
    workloadName: object
    templateName: object


class _LaterSpecShape(_AnySpecShape):
    parentCompositePodGroupName: object
    workloadRef: _WorkloadRefShape
    preemptionPolicy: object


class _SpecShape(_LaterSpecShape):
    schedulingPolicy: _PolicyShape
    resourceClaims: list[_ClaimShape]


class _LaterShape(TypedDict):
    spec: _SpecShape


class _GroupGangShape(TypedDict):
    minGroupCount: object


class _CompositePolicyShape(TypedDict):
    basic: object
    gang: _GroupGangShape


class _CompositeSpecShape(_LaterSpecShape):
    schedulingPolicy: _CompositePolicyShape


class _CompositeShape(TypedDict):
    spec: _CompositeSpecShape


_FIRST = f"{GROUP}/v1alpha2"
"""The version of Kubernetes 1.36; those of 1.37 and 1.38 have the same fields."""

_READERS: Mapping[tuple[bool, str], Reader[object]] = {
    (False, "PodGroup"): Reader(_LaterShape),
    (True, "PodGroup"): Reader(_FirstShape),
    (False, "CompositePodGroup"): Reader(_CompositeShape),
}


def unknown_group_fields(raw: Mapping[str, object]) -> Iterator[UnknownField]:
    """The fields of the spec that the version does not have; none of an object of another kind."""
    reader = _READERS.get((raw.get("apiVersion") == _FIRST, str(raw.get("kind"))))
    if reader is None or not isinstance(raw.get("spec"), dict):
        return
    findings = Findings()
    typed_dict(reader, {"spec": raw["spec"]}, findings)
    for unknown in findings.unknown:
        yield UnknownField(unknown.path, advice_on_place(unknown.path, reader.type))
