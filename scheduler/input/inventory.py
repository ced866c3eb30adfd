"""Raw objects to typed ones: the inventory of a cluster, with all errors and warnings of the input.

All errors are collected and reported in one run. An object that appears twice is an error unless both copies are equal,
or one was read later than the other: a must-gather contains some pods twice. An object with generateName gets a name,
the same on every run. Kinds that no allocation depends on are counted and named.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from sys import intern
from typing import Any, TypeVar

import cel
from allocator.api import ClaimTemplate, Decoded, FieldError, TaintRule, decode, is_decoded
from allocator.api.allocation import Consumer
from allocator.api.findings import UnknownField, step_text
from allocator.api.metadata import Metadata, owner_errors
from allocator.api.versions import GROUP, SERVED
from allocator.cluster.node_affinity import NAME_FIELD, is_refused, term_problem
from allocator.gates import DEFAULT_RELEASE, Features
from allocator.model import Claim, DeviceClass, Node, Slice
from allocator.words import whole_number
from scheduler.core_v1.custom_pods import made_template
from scheduler.core_v1.label_selectors import unknown_words
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Pod
from scheduler.core_v1.pod_group import unknown_group_fields
from scheduler.core_v1.pod_selector import KINDS as POD_SELECTORS
from scheduler.core_v1.pod_selector import PodSelector, decode_pod_selector
from scheduler.core_v1.resources import unknown_claim_fields
from scheduler.core_v1.workload import KINDS as WORKLOADS
from scheduler.core_v1.workload import (
    MAX_PODS,
    Workload,
    asks_for_claims,
    decode_embedded,
    decode_workload,
    ephemeral_claims,
    pod_spec_in,
)
from scheduler.input.documents import Finding, FindingReason, Place, RawObject
from scheduler.input.identity import generated
from scheduler.kinds import BY_MODEL, IN_FILES, KINDS, OBJECTS

# The CEL expressions of classes, claims and templates: those that do not compile are reported, used or not.
#
# Source: KEP-4381; k8s.io/api resource/v1 CELDeviceSelector. An API server refuses such an object when it is created.


def problems(spec: object, environment: cel.Environment) -> Iterator[str]:
    """`PATH: MESSAGE` for each expression that does not compile, with a caret below the place. spec: as in v1."""
    for path, name, text in expressions(spec, "spec"):
        compile_ = _COMPILERS[name]
        try:
            compile_(text, environment)
        except cel.CompileError as error:
            yield f"{path}: does not compile: {error}"


SELECTOR = "cel"
"""The field of a selector that holds its expression."""

_COMPILERS: Mapping[str, Callable[[str, cel.Environment], object]] = {
    SELECTOR: cel.compile,
    "derivedAttributes": cel.compile_value,
}
"""Field that holds an expression -> what compiles it."""

_WITHOUT_EXPRESSIONS = frozenset({"config", "metadata"})
"""Fields below which what looks like an expression is the user's own."""


def expressions(value: object, path: str, field: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, field that holds it, expression). field: the innermost of _COMPILERS that the value stands in."""
    if isinstance(value, dict):
        text = value.get("expression")
        if field and isinstance(text, str) and text:
            yield f"{path}.expression", field, text
        for key, item in value.items():
            if key not in _WITHOUT_EXPRESSIONS:
                yield from expressions(item, f"{path}.{key}", key if key in _COMPILERS else "")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from expressions(item, f"{path}[{position}]", field)


Typed = TypeVar("Typed")

DEFAULT = Features.of(DEFAULT_RELEASE)
"""What is in force unless somebody says otherwise."""

NO_OBJECT = "without apiVersion and kind"
"""What documents are counted as that are no objects, and are none of our business."""

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""The effects that a taint of a node can have."""

_FileDecoder = Callable[[Mapping[str, object]], tuple[Typed | None, tuple[FieldError, ...]]]

VERSIONS: Mapping[str, str] = {
    **dict.fromkeys(sorted(SERVED["v1"]), f"{GROUP}/v1"),
    **{kind.name: kind.resource.api_version for kind in IN_FILES.values()},
    **{kind: f"{group}/v1" for kind, group in WORKLOADS.items()},
}
"""Kubernetes' own kinds that count -> their apiVersion."""

KINDS_THAT_COUNT = frozenset(VERSIONS)

IN_NO_NAMESPACE = frozenset(kind.name for kind in KINDS if not kind.resource.is_namespaced)
"""Those of them whose objects the API server keeps in no namespace, whatever their metadata says."""

_ANY_EFFECT = f"one of {', '.join(TAINT_EFFECTS)}"

_BESIDE = ("metadata.", "status.", "spec.metadata.")
"""Where an unknown field of an object changes no decision."""

_NOT_OF_THE_TEMPLATE = (*_BESIDE, "spec.spec.")
"""Where an unknown field of a template changes nothing, or goes with the claims that are made of it."""


_OF_ALLOCATED = ("allocation", "reservedFor", "devices")
"""Fields of a claim's status that it loses with its devices."""


@dataclass(frozen=True, slots=True)
class InputClaim:
    """A claim as an object: claim is what the allocator sees, decoded what else the API server holds of it.

    consumers: for whom it is reserved beside those that the object names. error: why nothing but its devices is known.
    """

    claim: Claim
    decoded: Decoded
    consumers: tuple[Consumer, ...] = ()
    error: str = ""

    @property
    def raw(self) -> Mapping[str, Any]:  # Any: fields that are passed on may hold anything
        """The object as it came."""
        return self.decoded.raw

    @property
    def metadata(self) -> Metadata:
        """Who it is."""
        return self.decoded.metadata

    @property
    def reserved_for(self) -> tuple[Consumer, ...]:
        """All its consumers."""
        return (*self.decoded.reserved_for, *self.consumers)

    def without(self, user: Consumer) -> "InputClaim":
        """The claim when that consumer is gone: by its uid, or by all else where it has none."""

        def stays(one: Consumer) -> bool:
            return one.uid != user.uid if user.uid else one != user

        named = tuple(filter(stays, self.decoded.reserved_for))
        consumers = tuple(filter(stays, self.consumers))
        return replace(self, decoded=replace(self.decoded, reserved_for=named), consumers=consumers)

    def unallocated(self) -> "InputClaim":
        """The claim without devices and users, also in the object as it came."""
        status = {name: one for name, one in (self.raw.get("status") or {}).items() if name not in _OF_ALLOCATED}
        raw = {**self.raw, "status": status}
        freed = replace(self.claim, allocation=None)
        return InputClaim(freed, replace(self.decoded, raw=raw, reserved_for=()), error=self.error)


@dataclass(slots=True)
class Inventory:
    """What the input holds, as far as it can be used."""

    slices: list[Slice] = field(default_factory=list)
    classes: list[DeviceClass] = field(default_factory=list)
    claims: dict[tuple[str, str], InputClaim] = field(default_factory=dict)
    holders: list[Claim] = field(default_factory=list)
    """Claims with errors, of which only the devices that they have count."""
    templates: dict[tuple[str, str], ClaimTemplate] = field(default_factory=dict)
    faults: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Why a claim or a template is not used although it is there, by (kind, namespace, name)."""
    makers: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why a template is not in the input: an object of the input makes it in a cluster; by (namespace, name)."""
    taint_rules: list[TaintRule] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    """The nodes; if the input contains no Node, the ones that slices name."""
    objects: dict[type, list[Any]] = field(default_factory=dict)  # Any: of the type that is the key
    """Objects of all other types that are decoded, by type (`of`)."""
    pods: list[Pod] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """All kinds of the input, also of objects with errors."""
    skipped: Counter[str] = field(default_factory=Counter)
    """How many objects of other kinds there are, by `kind (group)`."""
    unseen: int = 0
    """How many of the skipped objects ask for claims, so that pods may wait of which nothing is known."""
    places: dict[tuple[str, str, str], Place] = field(default_factory=dict)
    """Where each object stands, by (kind, namespace, name)."""
    versions: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The apiVersion of each object, by (kind, namespace, name)."""
    labels: dict[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)
    """The labels of each object that has any, by (kind, namespace, name)."""
    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    has_bound_pods: bool = False
    """The input holds pods that have their node, which changes of the cluster may take from all of them."""

    def of(self, model: type[Typed]) -> list[Typed]:
        """The objects of those kinds that become the model; they may be added to."""
        attribute = BY_MODEL[model].inventory
        objects: list[Typed] = self.objects.setdefault(model, []) if attribute == OBJECTS else getattr(self, attribute)
        return objects

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of each namespace."""
        return {one.name: one.labels for one in self.of(Namespace)}


def take_inventory(
    objects: Iterable[RawObject | Finding],
    overlay: Iterable[RawObject | Finding] = (),
    features: Features = DEFAULT,
    *,
    validate: bool = True,
) -> Inventory:
    """The inventory of all objects. Cost: O(size of the input).

    overlay: objects that stand in for those of their kind, namespace and name, and are added where there is none.
    features: what expressions may say, and slices may hold. validate: what the API server refuses is an error.
    """
    reader = _InventoryReader(features, validate=validate)
    reader.overlay(overlay)
    for read in objects:
        reader.take(read)
    reader.end()
    return reader.inventory


_LATEST_VERSION = 2**64 - 1
"""etcd counts in 64 bits."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """An object as it stands at a place."""

    place: Place
    decoded: object
    """What of the object counts."""
    keep: Callable[[], None]
    """Puts it into the inventory."""
    uid: str
    version: str
    api_version: str
    labels: Mapping[str, str]

    def is_later_than(self, other: "_Copy") -> bool:
        """True for the same object as the server had it after the other was read."""
        is_same = self.uid != "" and self.uid == other.uid
        version, earlier = (whole_number(one.version, _LATEST_VERSION) for one in (self, other))
        return is_same and version is not None and earlier is not None and version > earlier


class _InventoryReader:
    def __init__(self, features: Features, *, validate: bool) -> None:
        self.inventory = Inventory()
        self._features = features
        self._validate = validate
        self._seen: dict[tuple[str, str, str], _Copy] = {}
        self._overlaid: frozenset[tuple[str, str, str]] = frozenset()
        self._generated: Counter[tuple[str, str, str]] = Counter()
        self._judged: dict[int, tuple[object, Sequence[str]]] = {}

    def overlay(self, objects: Iterable[RawObject | Finding]) -> None:
        """Add the objects, which nothing that comes later replaces."""
        listed = list(objects)
        for read in listed:
            self.take(read)
        raws = [one.raw for one in listed if isinstance(one, RawObject)]
        self._overlaid = frozenset(_key(raw, str(raw.get("kind"))) for raw in raws if _metadata(raw, "name"))

    def take(self, found: RawObject | Finding) -> None:
        """Add one object, or what is wrong with it; unless the overlay has another in its place."""
        if isinstance(found, Finding):
            (self.inventory.warnings if found.is_warning else self.inventory.errors).append(found)
        elif not self._overlaid or _key(found.raw, str(found.raw.get("kind"))) not in self._overlaid:
            self._read(found)

    def _read(self, read: RawObject) -> None:
        if not is_object(read.raw):
            self._no_object(read)
            return
        version, kind = intern(str(read.raw["apiVersion"])), intern(str(read.raw["kind"]))
        self.inventory.kinds.add(kind)
        raw = self._named(read.raw, kind)
        if raw is not read.raw:
            read = replace(read, raw=raw)
        for error in owner_errors(_owners(raw)):
            self._warn(read, kind, f"{error}; the API server refuses the object", FindingReason.REFUSED)
        group = version.rpartition("/")[0]
        if is_decoded(version, kind):
            self._device_object(read, kind)
        elif row := IN_FILES.get((group, kind)):
            assert row.decode
            decoder = partial(row.decode, validate=self._validate)
            self._typed(read, kind, decoder, self.inventory.of(row.model).append)
        elif group in (WORKLOADS.get(kind), "extensions") and kind in WORKLOADS:
            keep = partial(self._keep_workload, read, kind)
            self._typed(read, kind, lambda raw: decode_workload(kind, raw), keep)
        elif kind in VERSIONS and is_group_of_kubernetes(group):
            error = FieldError("apiVersion", version, f"must be {VERSIONS[kind]} for a {kind}")
            self._error(read.place, subject_of(kind, read.raw), str(error))
        else:
            self._other_object(read, kind, group)

    def _named(self, raw: Mapping[str, object], kind: str) -> Mapping[str, object]:
        """The object with a name, where it has but a generateName: of two alike each gets its own."""
        base, metadata = _metadata(raw, "generateName"), raw.get("metadata")
        if not base or _metadata(raw, "name") or not isinstance(metadata, dict):
            return raw
        key = kind, _metadata(raw, "namespace") or DEFAULT_NAMESPACE, base
        self._generated[key] += 1
        name = generated(base, "/".join((*key, str(self._generated[key]))))
        return {**raw, "metadata": {**metadata, "name": name}}

    def _other_object(self, found: RawObject, kind: str, group: str) -> None:
        """An object of any kind: the pod templates in it count, and otherwise it is skipped."""
        workloads, errors = decode_embedded(kind, found.raw)
        subject = subject_of(kind, found.raw)
        if template := made_template(found.raw):
            key = _key(found.raw, kind)[1], template
            self.inventory.makers[key] = f"is not in the input: the controller of {subject} makes it"
        for error in errors:  # the API server stores what the schema of the kind permits: that ends no command
            self._warn(found, kind, f"{error}; its pods are not placed", FindingReason.REFUSED)
        if workloads:
            for workload in workloads:
                self._warn_of_senseless(found, kind, workload)
                self._warn_of_unknown(found, kind, unknown_claim_fields(workload.template.raw))
            self._see(found, kind, tuple(workloads), partial(self._keep_workloads, found, kind, workloads))
        elif errors:
            self.inventory.faults[_key(found.raw, kind)] = "has errors"
            self.inventory.unseen += 1
        else:
            self.inventory.skipped[f"{step_text(kind)} ({step_text(group) or 'core'})"] += 1
        if not errors and asks_for_claims(kind, found.raw, workloads):
            self.inventory.unseen += 1
            whose = "some of its pods" if workloads else "its pods"
            message = f"requests claims, but {whose} cannot be determined and are not placed"
            self._warn(found, kind, message, FindingReason.UNUSED)

    def _no_object(self, found: RawObject) -> None:
        if error := no_object_error(found):
            self.inventory.errors.append(error)
        else:
            self.inventory.skipped[NO_OBJECT] += 1

    def _device_object(self, found: RawObject, kind: str) -> None:
        combined = self._features.release.keeps_combined_slices
        decoded = decode(found.raw, validate=self._validate, allows_combined=combined)
        for warning in decoded.warnings:
            self._warn(found, kind, f"{warning}; {_effect(kind, warning.path)}", FindingReason.UNKNOWN_FIELD)
        for note in decoded.notes:
            self._warn(found, kind, f"{note}; no decision depends on it", FindingReason.UNUSED)
        if kind != "ResourceSlice":  # the largest objects, which hold none
            for problem in self._problems(decoded.raw.get("spec")):
                self._error(found.place, subject_of(kind, found.raw), problem)
        if decoded.object is None:
            for error in decoded.errors:
                self._error(found.place, subject_of(kind, found.raw), str(error))
            self._leave_out(found, kind)
            return
        if isinstance(decoded.object, Slice):  # the largest objects, of which nothing else is kept
            self._see(found, kind, decoded.object, partial(self.inventory.slices.append, decoded.object))
            return
        if isinstance(decoded.object, Claim | ClaimTemplate) and not decoded.object.namespace:
            decoded = replace(decoded, object=replace(decoded.object, namespace=DEFAULT_NAMESPACE))
        self._see(found, kind, decoded.object, partial(self._keep, decoded))

    def _problems(self, spec: object) -> Sequence[str]:
        """The problems of the expressions of a spec. Equal claims share one: see `decode`."""
        if id(spec) not in self._judged:
            self._judged[id(spec)] = spec, tuple(problems(spec, self._features.environment))
        return self._judged[id(spec)][1]

    def _leave_out(self, found: RawObject, kind: str) -> None:
        """Remember an object with errors, and the devices that it has: they stay in use whatever it asks for."""
        self.inventory.faults[_key(found.raw, kind)] = "has errors"
        if kind == "ResourceClaim":
            holder = decode({**found.raw, "spec": {}}, validate=False).object
            if isinstance(holder, Claim) and holder.allocation:
                self.inventory.holders.append(holder)

    def _keep(self, decoded: Decoded) -> None:
        inventory = self.inventory
        match decoded.object:
            case DeviceClass() as device_class:
                inventory.classes.append(device_class)
            case TaintRule() as rule:
                inventory.taint_rules.append(rule)
            case Claim() as claim:
                inventory.claims[claim.namespace, claim.name] = InputClaim(claim, decoded)
            case ClaimTemplate() as template:
                self._keep_template(template, [warning.path for warning in decoded.warnings])

    def _keep_template(self, template: ClaimTemplate, unknown: Sequence[str]) -> None:
        unknown_fields = [path.removeprefix("spec.") for path in unknown if not path.startswith(_NOT_OF_THE_TEMPLATE)]
        if unknown_fields:
            key = ("ResourceClaimTemplate", template.namespace, template.name)
            self.inventory.faults[key] = f"has unknown fields: {', '.join(unknown_fields)}"
        else:
            self.inventory.templates[template.namespace, template.name] = template

    def _keep_workload(self, found: RawObject, kind: str, workload: Workload) -> None:
        self._keep_workloads(found, kind, (workload,))

    def _keep_workloads(self, found: RawObject, kind: str, workloads: Iterable[Workload]) -> None:
        self.inventory.workloads.extend(workloads)
        for workload in workloads:
            if workload.unplaced:
                asked = f"asks for {workload.unplaced} pods, and no cluster has more than {MAX_PODS}"
                self._warn(found, kind, f"{asked}: none of them is placed", FindingReason.UNUSED)
                self.inventory.unseen += bool(workload.template.claims)
        selector, _ = decode_pod_selector(kind, found.raw) if kind in POD_SELECTORS else (None, ())
        if selector:
            self.inventory.of(PodSelector).append(selector)

    def _typed(
        self,
        found: RawObject,
        kind: str,
        decoder: _FileDecoder[Typed],
        keep: Callable[[Typed], None],
    ) -> None:
        decoded, errors = decoder(found.raw)
        if kind == "Pod" or kind in WORKLOADS:
            self._warn_of_unknown(found, kind, unknown_claim_fields(found.raw, pod_spec_in(kind)))
        self._warn_of_unknown(found, kind, unknown_group_fields(found.raw))
        if decoded is None:
            for error in errors:
                self._error(found.place, subject_of(kind, found.raw), str(error))
            self.inventory.faults[_key(found.raw, kind)] = "has errors"
            return
        self._warn_of_senseless(found, kind, decoded)
        self._see(found, kind, decoded, partial(keep, decoded))

    def _warn_of_senseless(self, found: RawObject, kind: str, decoded: object) -> None:
        for reason, warning in _senseless(decoded):
            self._warn(found, kind, warning, reason)

    def _warn_of_unknown(self, found: RawObject, kind: str, unknown: Iterable[UnknownField]) -> None:
        for misplaced in unknown:
            self._warn(found, kind, f"{misplaced}; the field is ignored", FindingReason.UNKNOWN_FIELD)

    def _see(self, found: RawObject, kind: str, decoded: object, keep: Callable[[], None]) -> None:
        """Remember an object until the end; the later of two copies counts, and another one of its name is an error."""
        key = _key(found.raw, kind)
        uid, version = _metadata(found.raw, "uid"), _metadata(found.raw, "resourceVersion")
        copy = _Copy(
            found.place, decoded, keep, uid, version, intern(str(found.raw.get("apiVersion"))), _labels(found.raw)
        )
        first = self._seen.setdefault(key, copy)
        if copy is first:
            return
        if copy.is_later_than(first):
            self._seen[key] = copy
        elif copy.decoded != first.decoded and not first.is_later_than(copy):
            message = f"differs from the copy in {first.place}"
            self._error(found.place, subject_of(kind, found.raw), message, FindingReason.DUPLICATE)

    def end(self) -> None:
        """Put into the inventory what was seen."""
        for key, copy in self._seen.items():
            copy.keep()
            self.inventory.places[key] = copy.place
            self.inventory.versions[key] = copy.api_version
            if copy.labels:
                self.inventory.labels[key] = copy.labels
        self._seen = {}  # what keeps an object refers to this reader: a cycle, which may stay for long
        if "Node" not in self.inventory.kinds:
            names = sorted({slice_.reach.node_name for slice_ in self.inventory.slices if slice_.reach.node_name})
            self.inventory.nodes = [Node(name) for name in names]
        self.inventory.has_bound_pods = any(pod.node_name for pod in self.inventory.pods)

    def _warn(self, found: RawObject, kind: str, message: str, reason: FindingReason) -> None:
        subject = subject_of(kind, found.raw)
        self.inventory.warnings.append(Finding(found.place, message, subject, is_warning=True, reason=reason))

    def _error(self, place: Place, subject: str, message: str, reason: FindingReason = FindingReason.REFUSED) -> None:
        self.inventory.errors.append(Finding(place, message, subject, reason=reason))


def is_group_of_kubernetes(group: str) -> bool:
    """Whether Kubernetes' own kinds are at home in groups like this; other projects put theirs below a domain."""
    return "." not in group or (group.endswith(".k8s.io") and not group.endswith(".sigs.k8s.io"))


def is_object(raw: Mapping[str, object]) -> bool:
    """Whether a document says of which version and kind it is."""
    return all(isinstance(raw.get(name), str) and raw[name] for name in ("apiVersion", "kind"))


def no_object_error(found: RawObject) -> Finding | None:
    """What is wrong with a document that is no object; None where it is none of our business."""
    message = "is not a Kubernetes object: apiVersion and kind must be strings"
    is_ours = found.is_named or _is_meant(found.raw)
    return Finding(found.place, message, reason=FindingReason.REFUSED) if is_ours else None


def _is_meant(raw: Mapping[str, object]) -> bool:
    """Whether a document is intended as an object: a folder also holds values, charts and settings."""
    has_type, has_content = ("apiVersion" in raw, "kind" in raw), ("metadata" in raw, "spec" in raw)
    return all(has_type) or (any(has_type) and any(has_content))


def _pod_in(decoded: object) -> Pod | None:
    """The object as a pod, or the one that it makes."""
    pod = decoded.template if isinstance(decoded, Workload) else decoded
    return pod if isinstance(pod, Pod) else None


def _senseless(decoded: object) -> Iterator[tuple[FindingReason, str]]:
    """Warnings about fields without effect; no errors, since a newer release may know their values."""
    if isinstance(decoded, Node):
        yield from ((FindingReason.REFUSED, one) for one in _senseless_taints(decoded))
    if pod := _pod_in(decoded):
        yield from _senseless_terms(pod)
        spec = pod.raw.get("spec")
        words = unknown_words(spec) if isinstance(spec, dict) else ()
        texts = (*_senseless_tolerations(pod), *_senseless_volumes(pod), *(f"{error}; {why}" for error, why in words))
        yield from ((FindingReason.REFUSED, one) for one in texts)


def _senseless_taints(node: Node) -> Iterator[str]:
    for position, taint in enumerate(node.taints):
        if taint.effect not in TAINT_EFFECTS:
            error = FieldError(f"spec.taints[{position}].effect", taint.effect, f"must be {_ANY_EFFECT}")
            yield f"{error}; it keeps no pod away"


def _senseless_terms(pod: Pod) -> Iterator[tuple[FindingReason, str]]:
    selector = "the required node affinity"
    if pod.affinity == ():
        yield FindingReason.REFUSED, f"{selector}: must have at least one of nodeSelectorTerms; no node matches it"
    for position, term in enumerate(pod.affinity or ()):
        at = f"nodeSelectorTerms[{position}] of {selector}"
        if problem := term_problem(term):
            reason = FindingReason.REFUSED if is_refused(term) else FindingReason.UNUSED
            yield reason, f"{at}: {problem}; no node matches it"
        for key in dict.fromkeys(one.key for one in term.fields if one.key != NAME_FIELD):
            text = f"{at}: {step_text(key)}: nodes can be selected only by the field {NAME_FIELD}"
            yield FindingReason.REFUSED, text


def _senseless_tolerations(pod: Pod) -> Iterator[str]:
    for position, toleration in enumerate(pod.tolerations):
        at, errors = f"tolerations[{position}]", []
        if toleration.operator not in ("", "Exists", "Equal"):
            errors.append(FieldError(f"{at}.operator", toleration.operator, "must be Exists or Equal"))
        if toleration.effect not in ("", *TAINT_EFFECTS):
            errors.append(FieldError(f"{at}.effect", toleration.effect, f"must be absent or {_ANY_EFFECT}"))
        yield from (f"{error}; it tolerates nothing" for error in errors)


def _senseless_volumes(pod: Pod) -> Iterator[str]:
    yield from (f"{error}; the claim is not checked" for _, _, errors in ephemeral_claims(pod) for error in errors)


def _effect(kind: str, path: str) -> str:
    """What an unknown field leads to."""
    if path.startswith(_BESIDE):
        return "the field is ignored"
    # A rule that would select fewer devices than it seems to is the safe reading: a taint only takes away.
    return "the rest of the rule applies" if kind == "DeviceTaintRule" else "the object that contains it is not used"


def subject_of(kind: str, raw: Mapping[str, object]) -> str:
    """Kind and name, as far as there is one, with the namespace where it has one."""
    namespace, name = (step_text(_metadata(raw, key)) for key in ("namespace", "name"))
    return f"{step_text(kind)} {f'{namespace}/' if namespace and name else ''}{name}".rstrip()


def _key(raw: Mapping[str, object], kind: str) -> tuple[str, str, str]:
    """What identifies an object of an inventory."""
    namespace = "" if is_in_no_namespace(raw) else _metadata(raw, "namespace")
    return kind, namespace or DEFAULT_NAMESPACE, _metadata(raw, "name")


def is_in_no_namespace(raw: Mapping[str, object]) -> bool:
    """Whether the object is of one of IN_NO_NAMESPACE, and not of a kind of that name in another group."""
    kind = raw.get("kind")
    return kind in IN_NO_NAMESPACE and _group(raw.get("apiVersion")) == _group(VERSIONS[str(kind)])


def _group(api_version: object) -> str:
    return str(api_version).rpartition("/")[0]


def _labels(raw: Mapping[str, object]) -> Mapping[str, str]:
    metadata = raw.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}


def _owners(raw: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The owners of the object, as far as they are objects."""
    metadata = raw.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    return [owner for owner in owners if isinstance(owner, dict)] if isinstance(owners, list) else []


def _metadata(raw: Mapping[str, object], field_name: str) -> str:
    """A field of the metadata, as far as it is text."""
    metadata = raw.get("metadata")
    value = metadata.get(field_name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
