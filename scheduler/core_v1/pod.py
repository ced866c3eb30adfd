"""Pods: their identity, where they may run, what they request from a node, and which claims they need.

Source: k8s.io/api core/v1 Pod; KEP-4381 for resourceClaims.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from allocator.api import names
from allocator.api.findings import FieldError, duplicates, step_text
from allocator.model import Container, NodeSelector, Term, Toleration
from cel.cache import LruCache
from cel.values.quantity import Quantity
from scheduler.core_v1.group_terms import annotations_read
from scheduler.core_v1.label_selectors import (
    NO_POD_AFFINITY,
    PodAffinity,
    PodAffinityFields,
    SpreadConstraint,
    SpreadConstraintFields,
    constraint_errors,
    pod_affinity_errors,
    pod_affinity_of,
    spread_constraints,
    weight_errors,
    with_labels,
)
from scheduler.core_v1.node import images_of_pod, required_features_of
from scheduler.core_v1.object_fields import (
    MOST_ENTRIES,
    AnnotatedFields,
    Int32,
    NamespacedName,
    ObjectFields,
    OwnerFields,
    SelectorTermFields,
    SpecRead,
    exceeding_fields,
    first_errors,
    metadata_errors,
    name_error,
    selector_of,
    typed,
)
from scheduler.core_v1.pod_status import (
    Condition,
    PodStatusFields,
    TakenByClaim,
    budget_in_use,
    conditions_of,
    device_fields_of,
    in_use,
    taken_by_claims,
)
from scheduler.core_v1.pod_volumes import NO_VOLUMES, PodVolumes, pod_volumes
from scheduler.core_v1.resources import (
    Amount,
    ContainerFields,
    HostPort,
    ResourcesFields,
    amount_errors,
    containers_of,
    entry_errors,
    host_ports_of,
    resource_errors,
)

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of spec.resourceClaims: one of claim_name and template_name is set."""

    name: str
    claim_name: str = ""
    template_name: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object, by ownerReference."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Preference:
    """A term of preferred node affinity; a node that it matches is better by the weight (1 to 100)."""

    weight: int
    term: Term


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Pod:
    """A pod as it stands in the cluster or in the input, or one that a workload stands for."""

    namespace: str
    name: str
    uid: str = ""
    created: str = ""
    """RFC 3339; empty where unknown."""
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    priority: int | None = None
    """None where only the class says it, or the default."""
    priority_class: str = ""
    preempts: bool = True
    """Whether it may evict pods of lower priority."""
    scheduler_name: str = ""
    node_name: str = ""
    nominated_node: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeSelector | None = None
    """Required node affinity; None where there is none."""
    preferences: tuple[Preference, ...] = ()
    """Preferred node affinity."""
    pod_affinity: PodAffinity = NO_POD_AFFINITY
    """Affinity and anti-affinity to other pods."""
    spread: tuple[SpreadConstraint, ...] = ()
    """How pods like it are spread."""
    tolerations: tuple[Toleration, ...] = ()
    gates: tuple[str, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    claim_statuses: Mapping[str, str | None] = field(default_factory=dict)
    """The name of the generated claim by the name of the entry; None where none is needed, empty where it is not known.
    """
    containers: tuple[Container, ...] = ()
    """Init containers first; what one requests is, while it is resized, the most that it may hold."""
    budget: Mapping[str, Quantity] = field(default_factory=dict)
    """The requests of the pod as a whole, by resource."""
    overhead: Mapping[str, Quantity] = field(default_factory=dict)
    """What the runtime of the pod needs."""
    by_claims: tuple[TakenByClaim, ...] = ()
    """What the pod's devices take of the node."""
    device_fields: tuple[str, ...] = ()
    """Fields of its status that are about its devices."""
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    """The images of containers and volumes, with their tags."""
    required_features: frozenset[str] = frozenset()
    """Features that its node has to declare."""
    volumes: PodVolumes = NO_VOLUMES
    group: str = ""
    """The name of its PodGroup; up to Kubernetes 1.35 workload/group."""
    grouping: Mapping[str, str] = field(default_factory=dict)
    """Its annotations that decide about groups."""
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    is_deleting: bool = False
    started: str = ""
    """When its kubelet took it; RFC 3339, empty where unknown."""
    is_static: bool = False
    """The kubelet runs it from a file, and the object only shows it (a mirror pod)."""
    owner: Owner | None = None
    resource_version: str = ""
    generation: int = 0
    raw: Mapping[str, object] = field(default_factory=dict, compare=False)
    """The object as it came, for output; empty where it was not kept."""
    excess: str = ""
    """What its spec has more of than is looked at: the pod is not placed then, and is known without such fields."""
    unread: frozenset[str] = frozenset()
    """The names of these fields of the spec."""
    like: "Pod | None" = field(default=None, compare=False, repr=False)
    """What was decoded of its spec, kept for as long as the pod is; None where the spec is short."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_finished(self) -> bool:
        """True for a pod whose containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_over(self) -> bool:
        """True for a pod that needs nothing any more."""
        return self.is_finished or self.is_deleting

    @property
    def has_unread_containers(self) -> bool:
        """True where nobody knows what its containers use or ask for, as far as these say more than is looked at."""
        return not self.unread.isdisjoint(_CONTAINERS)

    def changed(self, **changes: object) -> "Pod":
        """The pod with these values, as `dataclasses.replace` makes it, which takes more than twice as long."""
        values = list(_values_of(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Pod(*values)


_PLACES = {name: place for place, name in enumerate(Pod.__dataclass_fields__)}
_values_of: Callable[[Pod], tuple[Any, ...]] = attrgetter(*_PLACES)


def claim_keys(pod: Pod) -> Iterator[NamespacedName]:
    """The claims of the pod by name, as far as they have names yet."""
    for entry in pod.claims:
        if name := entry.claim_name or pod.claim_statuses.get(entry.name):
            yield pod.namespace, name


class _PodTolerationFields(ObjectFields):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    tolerationSeconds: int | None = None  # noqa: N815 - the API's name


class _PodRequiredFields(ObjectFields):
    nodeSelectorTerms: list[SelectorTermFields] | None = None  # noqa: N815 - the API's name


class _PreferredFields(ObjectFields):
    weight: Int32
    preference: SelectorTermFields


class _PodNodeAffinityFields(ObjectFields):
    requiredDuringSchedulingIgnoredDuringExecution: _PodRequiredFields | None = None  # noqa: N815 - the API's name
    preferredDuringSchedulingIgnoredDuringExecution: list[_PreferredFields] | None = None  # noqa: N815 - the API's name


class _AffinityFields(ObjectFields):
    nodeAffinity: _PodNodeAffinityFields | None = None  # noqa: N815 - the API's name
    podAffinity: PodAffinityFields | None = None  # noqa: N815 - the API's name
    podAntiAffinity: PodAffinityFields | None = None  # noqa: N815 - the API's name


class _GateFields(ObjectFields):
    name: str


class ClaimEntryFields(ObjectFields):
    """An entry of spec.resourceClaims."""

    name: str
    source: object = None  # up to Kubernetes 1.30, around the other two
    resourceClaimName: str | None = None  # noqa: N815 - the API's name
    resourceClaimTemplateName: str | None = None  # noqa: N815 - the API's name


class _GroupFields(ObjectFields):
    podGroupName: str | None = None  # noqa: N815 - the API's name


class _WorkloadRefFields(ObjectFields):
    name: str | None = None
    podGroup: str | None = None  # noqa: N815 - the API's name


class _PodSpecFields(ObjectFields):
    schedulerName: str | None = None  # noqa: N815 - the API's name
    nodeName: str | None = None  # noqa: N815 - the API's name
    nodeSelector: dict[str, str] | None = None  # noqa: N815 - the API's name
    affinity: _AffinityFields | None = None
    tolerations: list[_PodTolerationFields] | None = None
    topologySpreadConstraints: list[SpreadConstraintFields] | None = None  # noqa: N815 - the API's name
    priority: Int32 | None = None
    priorityClassName: str | None = None  # noqa: N815 - the API's name
    preemptionPolicy: str | None = None  # noqa: N815 - the API's name
    schedulingGroup: _GroupFields | None = None  # noqa: N815 - the API's name
    workloadRef: _WorkloadRefFields | None = None  # noqa: N815 - of Kubernetes 1.35, in its place
    schedulingGates: list[_GateFields] | None = None  # noqa: N815 - the API's name
    resourceClaims: list[ClaimEntryFields] | None = None  # noqa: N815 - the API's name
    initContainers: list[ContainerFields] | None = None  # noqa: N815 - the API's name
    containers: list[ContainerFields] | None = None
    resources: ResourcesFields | None = None
    overhead: dict[str, Amount] | None = None


class _PodFields(ObjectFields):
    metadata: AnnotatedFields
    spec: _PodSpecFields
    status: PodStatusFields | None = None


class _OwnSpecFields(ObjectFields):
    nodeName: str | None = None  # noqa: N815 - the API's name
    resourceClaims: list[ClaimEntryFields] | None = None  # noqa: N815 - the API's name


class _OwnFields(ObjectFields):
    """What a pod does not share with others of its template."""

    metadata: AnnotatedFields
    spec: _OwnSpecFields
    status: PodStatusFields | None = None


_READ_RAW = {"hostNetwork", "hostUsers"}
_READ = frozenset(_PodSpecFields.__annotations__) - {"nodeName"} | _READ_RAW
_READ_OF_CONTAINERS = frozenset(ContainerFields.__annotations__) | {"ports", "restartPolicyRules"}
"""What is read typed, and what is read as it comes beside it."""

_CLAIMS = "resourceClaims"

_CONTAINERS = frozenset({"containers", "initContainers"})

_TAKING = _CONTAINERS | {_CLAIMS, "volumes"}
"""What a pod that has a node takes, there or of devices, however much it is."""

_REMEMBERED = 1 << 12
"""Specs that are remembered, and characters of those that are."""

_MOST_CHARACTERS = 1 << 21
"""Of all of them together, whose pods may be gone: what is kept takes ten times as much memory."""


def decode_pod(
    raw: Mapping[str, object], *, keeps_raw: bool = True, validate: bool = True
) -> tuple[Pod | None, tuple[FieldError, ...]]:
    """The pod, or the errors. keeps_raw: the pod carries the object as it came, which most of its memory is then.

    validate: what the API server refuses is an error.
    """
    pod = _pod(raw, raw if keeps_raw else {}, validate=validate)
    return pod, () if pod else _errors(raw)


def _errors(raw: Mapping[str, object]) -> tuple[FieldError, ...]:
    fields, errors = typed(_PodFields, raw)
    if fields is None:
        return errors
    return first_errors(
        chain(metadata_errors(fields.metadata), _spec_errors(fields.spec), _status_errors(fields.status))
    )


def _pod(raw: Mapping[str, object], kept: Mapping[str, object], *, validate: bool) -> Pod | None:
    """The pod, with what others of an equal spec have as well; None where there are errors."""
    raw_spec = raw.get("spec")
    if not isinstance(raw_spec, dict):
        return None
    spec = SpecRead(raw_spec, _READ, _READ_OF_CONTAINERS)
    exceeding = exceeding_fields(raw_spec, spec)
    if left_out := exceeding.keys() - (_TAKING if raw_spec.get("nodeName") else frozenset()):
        kept_spec = {name: value for name, value in raw_spec.items() if name not in left_out}
        if _CLAIMS in left_out and isinstance(entries := raw_spec[_CLAIMS], list):
            # Who places pods without claims has to see that it has some; in files, all of them are some pod's.
            kept_spec[_CLAIMS] = entries if kept else entries[:MOST_ENTRIES]
        raw_spec = kept_spec
        raw, spec = {**raw, "spec": raw_spec}, SpecRead(raw_spec, _READ, _READ_OF_CONTAINERS)
        if validate and kept and _errors(kept):  # of files all is judged: whoever lints asks for no quick answer
            return None
        validate = False  # fields that are left may refer to one that is not
    fields, _ = typed(_OwnFields, raw)
    if fields is None or (validate and _has_errors(fields)):
        return None
    namespace = fields.metadata.namespace or DEFAULT_NAMESPACE
    length = len(spec.text)
    is_short = 0 < length <= _REMEMBERED
    like = (
        _KNOWN.get((spec, namespace, validate), length, lambda: _decoded(spec, namespace, validate))
        if is_short
        else _decoded_while_kept(spec, namespace, validate)
    )
    if like is None:
        return None
    pod = _own(like, fields, raw, kept)
    if is_short and not exceeding:
        return pod
    return pod.changed(excess=next(iter(exceeding.values()), ""), unread=frozenset(left_out), like=like)


def _has_errors(fields: _OwnFields) -> bool:
    errors = (
        metadata_errors(fields.metadata),
        _optional_name_error("spec.nodeName", fields.spec.nodeName),
        claim_entry_errors("spec.resourceClaims", fields.spec.resourceClaims or ()),
        _status_errors(fields.status),
    )
    return any(True for found in errors for _ in found)


def _own(like: Pod, fields: _OwnFields, raw: Mapping[str, Any], kept: Mapping[str, object]) -> Pod:
    """A pod with the spec of another. raw: its own; kept: as much as the pod carries."""
    metadata, status = fields.metadata, fields.status or _NO_STATUS
    return like.changed(
        name=metadata.name,
        uid=metadata.uid or "",
        created=metadata.creationTimestamp or "",
        labels=metadata.labels or {},
        node_name=fields.spec.nodeName or "",
        nominated_node=status.nominatedNodeName or "",
        spread=with_labels(like.spread, metadata.labels or {}),
        claims=tuple(
            PodClaim(claim.name, claim.resourceClaimName or "", claim.resourceClaimTemplateName or "")
            for claim in fields.spec.resourceClaims or ()
        ),
        claim_statuses={claim.name: claim.resourceClaimName for claim in status.resourceClaimStatuses or ()},
        containers=in_use(like.containers, status),
        budget=budget_in_use(like.budget, status),
        by_claims=taken_by_claims(status),
        device_fields=device_fields_of(status),
        images=images_of_pod(raw["spec"]),
        volumes=pod_volumes(raw["spec"]),
        grouping=annotations_read(metadata.annotations),
        phase=status.phase or "",
        conditions=conditions_of(status),
        is_deleting=bool(metadata.deletionTimestamp),
        started=status.startTime or "",
        is_static=_is_static(raw["metadata"].get("annotations")),
        owner=controller_of(metadata.ownerReferences),
        resource_version=metadata.resourceVersion or "",
        generation=metadata.generation or 0,
        raw=kept,
    )


_STATIC = "kubernetes.io/config.mirror"
"""The annotation of the objects that kubelets make for pods that they run from files."""

_NEVER = "Never"
"""The preemptionPolicy of pods that evict nobody."""


def _is_static(annotations: object) -> bool:
    return isinstance(annotations, dict) and _STATIC in annotations


_NO_STATUS = PodStatusFields()


def _decoded(spec: SpecRead, namespace: str, validate: bool) -> Pod | None:  # noqa: FBT001 - an argument of a cache
    """A pod of the spec without anything of its own; None where there are errors."""
    fields, _ = typed(_PodSpecFields, spec.raw)
    has_errors = fields is not None and validate and any(True for _ in _spec_errors(fields))
    return None if fields is None or has_errors else _pod_of(fields, spec, namespace)


_KNOWN: LruCache[tuple[SpecRead, str, bool], Pod | None] = LruCache(_REMEMBERED, _MOST_CHARACTERS)

_KEPT: WeakValueDictionary[bytes, Pod] = WeakValueDictionary()
"""What long specs say, by their digest, of the pods that are there."""


def _decoded_while_kept(spec: SpecRead, namespace: str, validate: bool) -> Pod | None:  # noqa: FBT001 - as of `_decoded`
    """The same of a long spec. Whoever changes anything else of a pod has its spec decoded no more: 350 KB take 0.1 s.

    As few are remembered as there are pods, and no text.
    """
    if not spec.text:
        return _decoded(spec, namespace, validate)
    digest = blake2b(f"{validate} {namespace!r} {spec.text}".encode(errors="surrogatepass")).digest()
    like = _KEPT.get(digest) or _decoded(spec, namespace, validate)
    if like is not None:
        _KEPT[digest] = like
    return like


def _pod_of(fields: _PodSpecFields, spec: SpecRead, namespace: str) -> Pod:
    node_affinity = fields.affinity.nodeAffinity if fields.affinity else None
    return Pod(
        namespace=namespace,
        name="",
        priority=fields.priority,
        priority_class=fields.priorityClassName or "",
        preempts=fields.preemptionPolicy != _NEVER,
        scheduler_name=fields.schedulerName or "",
        node_selector=fields.nodeSelector or {},
        affinity=_affinity(node_affinity),
        preferences=_preferences(node_affinity),
        pod_affinity=pod_affinity_of(
            fields.affinity.podAffinity if fields.affinity else None,
            fields.affinity.podAntiAffinity if fields.affinity else None,
            namespace,
        ),
        spread=spread_constraints(fields.topologySpreadConstraints or ()),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "", _limit_of(t))
            for t in fields.tolerations or ()
        ),
        gates=tuple(gate.name for gate in fields.schedulingGates or ()),
        containers=containers_of(fields.initContainers or (), fields.containers or ()),
        budget=(fields.resources.requests if fields.resources else None) or {},
        overhead=fields.overhead or {},
        host_ports=host_ports_of(spec.raw),
        required_features=required_features_of(spec.raw),
        group=_group_of(fields),
    )


def _group_of(fields: _PodSpecFields) -> str:
    if fields.schedulingGroup:
        return fields.schedulingGroup.podGroupName or ""
    return f"{fields.workloadRef.name}/{fields.workloadRef.podGroup}" if fields.workloadRef else ""


def belongs_to_node(pod: Pod) -> bool:
    """Whether the pod is its node's own: kubectl drain leaves it alone, and it goes with the node."""
    return pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node")


def controller_of(owners: list[OwnerFields] | None) -> Owner | None:
    """The owner that manages the object; None if there is none."""
    return next((Owner(owner.kind, owner.name, owner.uid) for owner in owners or () if owner.controller), None)


def _affinity(fields: _PodNodeAffinityFields | None) -> NodeSelector | None:
    required = fields.requiredDuringSchedulingIgnoredDuringExecution if fields else None
    return selector_of(required.nodeSelectorTerms) if required else None


def _preferences(fields: _PodNodeAffinityFields | None) -> tuple[Preference, ...]:
    preferred = (fields.preferredDuringSchedulingIgnoredDuringExecution if fields else None) or ()
    return tuple(Preference(one.weight, *selector_of([one.preference])) for one in preferred)


def _spec_errors(spec: _PodSpecFields) -> Iterator[FieldError]:
    yield from _optional_name_error("spec.nodeName", spec.nodeName)
    yield from _optional_name_error("spec.priorityClassName", spec.priorityClassName)
    for key, value in (spec.nodeSelector or {}).items():
        at = f"spec.nodeSelector[{step_text(key)}]"
        yield from name_error(at, key, names.label_key)
        yield from name_error(at, value, names.label_value)
    affinity = spec.affinity or _AffinityFields()
    yield from _affinity_errors(affinity.nodeAffinity)
    yield from pod_affinity_errors("spec.affinity.podAffinity", affinity.podAffinity)
    yield from pod_affinity_errors("spec.affinity.podAntiAffinity", affinity.podAntiAffinity)
    for position, constraint in enumerate(spec.topologySpreadConstraints or ()):
        yield from constraint_errors(f"spec.topologySpreadConstraints[{position}]", constraint)
    for position, toleration in enumerate(spec.tolerations or ()):
        yield from _toleration_errors(f"spec.tolerations[{position}]", toleration)
    for position, gate in enumerate(spec.schedulingGates or ()):
        yield from name_error(f"spec.schedulingGates[{position}].name", gate.name, names.label_key)
    for position, name in duplicates(gate.name for gate in spec.schedulingGates or ()):
        yield FieldError(f"spec.schedulingGates[{position}].name", name, "must be unique")
    if spec.schedulingGroup:
        yield from name_error(
            "spec.schedulingGroup.podGroupName", spec.schedulingGroup.podGroupName or "", names.long_name
        )
    yield from claim_entry_errors("spec.resourceClaims", spec.resourceClaims or ())
    entries = frozenset(claim.name for claim in spec.resourceClaims or ())
    for path, containers in (("spec.initContainers", spec.initContainers), ("spec.containers", spec.containers)):
        yield from resource_errors(path, containers or ())
        yield from entry_errors(path, containers or (), entries)
    if spec.resources and spec.resources.claims is not None:
        yield FieldError("spec.resources.claims", spec.resources.claims, "must be absent: only containers use claims")
    yield from amount_errors("spec.resources.requests", (spec.resources.requests if spec.resources else None) or {})
    yield from amount_errors("spec.overhead", spec.overhead or {})


def claim_entry_errors(path: str, claims: Sequence[ClaimEntryFields]) -> Iterator[FieldError]:
    """The problems of the claims of a pod or a group. path: of their list."""
    for position, claim in enumerate(claims):
        yield from _entry_errors(f"{path}[{position}]", claim)
    for position, name in duplicates(claim.name for claim in claims):
        yield FieldError(f"{path}[{position}].name", name, "must be unique")


def _affinity_errors(fields: _PodNodeAffinityFields | None) -> Iterator[FieldError]:
    """Keys that are no label's. Values may be none: the API server keeps old pods with them, whom no node matches."""
    required = fields.requiredDuringSchedulingIgnoredDuringExecution if fields else None
    terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for position, term in enumerate((required and required.nodeSelectorTerms) or ()):
        for number, expression in enumerate(term.matchExpressions or ()):
            at = f"{terms}[{position}].matchExpressions[{number}].key"
            yield from name_error(at, expression.key, names.label_key)
    path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    preferred = fields.preferredDuringSchedulingIgnoredDuringExecution if fields else None
    for position, preference in enumerate(preferred or ()):
        yield from weight_errors(f"{path}[{position}]", preference.weight)


def _limit_of(toleration: _PodTolerationFields) -> Mapping[str, object]:
    seconds = toleration.tolerationSeconds
    return {} if seconds is None else {"tolerationSeconds": seconds}


def _toleration_errors(path: str, toleration: _PodTolerationFields) -> Iterator[FieldError]:
    """What no release allows; an operator or effect that is not known may be one of a release to come."""
    operator, value = toleration.operator or "", toleration.value or ""
    if toleration.key:
        yield from name_error(f"{path}.key", toleration.key, names.label_key)
    elif operator != "Exists":
        yield FieldError(f"{path}.operator", toleration.operator, "must be Exists where there is no key")
    if operator == "Exists" and value:
        yield FieldError(f"{path}.value", value, "must be empty for the operator Exists")
    elif operator in ("", "Equal"):
        yield from name_error(f"{path}.value", value, names.label_value)
    if toleration.tolerationSeconds is not None and toleration.effect != "NoExecute":
        yield FieldError(f"{path}.effect", toleration.effect, "must be NoExecute where there are tolerationSeconds")


def _entry_errors(path: str, claim: ClaimEntryFields) -> Iterator[FieldError]:
    yield from name_error(f"{path}.name", claim.name, names.short_name)
    if claim.source is not None:
        yield FieldError(f"{path}.source", claim.source, "was removed in Kubernetes 1.31: set its field next to name")
        return
    if bool(claim.resourceClaimName) == bool(claim.resourceClaimTemplateName):
        message = "needs exactly one of resourceClaimName and resourceClaimTemplateName"
        yield FieldError(path, claim.name, message)
        return
    yield from _optional_name_error(f"{path}.resourceClaimName", claim.resourceClaimName)
    yield from _optional_name_error(f"{path}.resourceClaimTemplateName", claim.resourceClaimTemplateName)


def _status_errors(status: PodStatusFields | None) -> Iterator[FieldError]:
    for position, claim in enumerate(status.resourceClaimStatuses or () if status else ()):
        path = f"status.resourceClaimStatuses[{position}].resourceClaimName"
        yield from _optional_name_error(path, claim.resourceClaimName)


def _optional_name_error(path: str, name: str | None) -> Iterator[FieldError]:
    if name:
        yield from name_error(path, name, names.long_name)
