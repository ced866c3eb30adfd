"""Workloads, and the pods that they stand for."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from allocator.api.findings import FieldError, step_text
from scheduler.core_v1.custom_pods import FieldPath, asks_unnamed, custom_pod, why_stopped
from scheduler.core_v1.group_terms import KUEUE_GROUP, KUEUE_IS_GROUP, KUEUE_TOTAL
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, OwnerFields, metadata_errors, typed
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Owner, Pod, controller_of, decode_pod
from scheduler.core_v1.pod_volumes import ClaimVolume, text_of
from scheduler.core_v1.resources import objects
from scheduler.core_v1.storage_objects import CLASS_ANNOTATION, PersistentVolumeClaim, decode_persistent_volume_claim

# Templates of PersistentVolumeClaims, of StatefulSets and of ephemeral volumes of pods.
#
# A controller creates the claim, and the API server sets the default class if the template names none. Source:
# k8s.io/api apps/v1 StatefulSetSpec.volumeClaimTemplates, core/v1 EphemeralVolumeSource.


@dataclass(frozen=True, slots=True)
class VolumeClaimTemplate:
    """claim: as it is made, under the name of its template. takes_default_class: it names no class."""

    claim: PersistentVolumeClaim
    takes_default_class: bool = False


def decode_volume_claim_template(
    path: str, raw: object, namespace: str, name: str = ""
) -> tuple[VolumeClaimTemplate | None, tuple[FieldError, ...]]:
    """The template, or the errors. path: of the template. name: of the claim, where the template has none."""
    if not isinstance(raw, dict):
        return None, (FieldError(path, raw, "must be an object"),)
    metadata = {} if raw.get("metadata") is None else raw["metadata"]
    if not isinstance(metadata, dict):
        return None, (FieldError(f"{path}.metadata", metadata, "must be an object"),)
    named = {**metadata, "namespace": namespace, **({"name": name} if name else {})}
    claim, errors = decode_persistent_volume_claim({"metadata": named, "spec": raw.get("spec", {})})
    if claim is None:
        return None, tuple(FieldError(f"{path}.{error.path}", error.value, error.message) for error in errors)
    return VolumeClaimTemplate(claim, takes_default_class=not _names_class(metadata, raw.get("spec"))), ()


def ephemeral_claims(pod: Pod) -> Iterator[tuple[ClaimVolume, VolumeClaimTemplate | None, tuple[FieldError, ...]]]:
    """The ephemeral volumes of the pod, each with the template of its claim, or the errors in it."""
    spec = pod.raw.get("spec")
    for position, volume in enumerate(objects(spec, "volumes") if isinstance(spec, dict) else ()):
        source = volume.get("ephemeral")
        if isinstance(source, dict) and not isinstance(volume.get("persistentVolumeClaim"), dict):
            claim_volume = ClaimVolume(text_of(volume, "name"), is_ephemeral=True)
            path = f"spec.volumes[{position}].ephemeral.volumeClaimTemplate"
            raw = source.get("volumeClaimTemplate")
            template, errors = decode_volume_claim_template(path, raw, pod.namespace, claim_volume.claim_of(pod.name))
            yield (
                claim_volume,
                replace(template, claim=replace(template.claim, owner=pod.uid)) if template else None,
                errors,
            )


def _names_class(metadata: Mapping[str, object], spec: object) -> bool:
    """Whether it says which class, though it be none at all: the empty name stands for volumes without a class."""
    annotations = metadata.get("annotations")
    is_annotated = isinstance(annotations, dict) and CLASS_ANNOTATION in annotations
    return is_annotated or (isinstance(spec, dict) and spec.get("storageClassName") is not None)


# Workloads: objects with a pod template, and how many pods they create.
#
# Source: k8s.io/api apps/v1 and batch/v1.


KINDS: Mapping[str, str] = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "ReplicaSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
}
"""Kind to API group."""

MAX_PODS = 150_000
"""Pods that one workload stands for: the largest cluster that Kubernetes supports has as many.

The API server stores larger numbers. What asks for more stands for none, and is named.
"""

_OVER: Mapping[str, str] = {
    "Complete": "has succeeded",
    "Completed": "has succeeded",
    "SuccessCriteriaMet": "has succeeded",
    "Succeeded": "has succeeded",
    "Finished": "has finished",
    "Failed": "has failed",
    "FailureTarget": "has failed",
}
"""Conditions of a job, of whichever API, that ask for no more pods."""


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that stands for pods."""

    kind: str
    namespace: str
    name: str
    uid: str
    created: str
    pods: int | None
    """How many pods it asks for; None for a DaemonSet, which asks for one on every node that it fits."""
    template: Pod
    """The pod that it makes, named after the workload."""
    owner: Owner | None = None
    first_ordinal: int = 0
    """The number of the first pod of a StatefulSet."""
    note: str = ""
    """Why it asks for no pods although it is there; else empty."""
    unplaced: int = 0
    """How many pods it asks for, where these are more than it stands for."""
    pod_set: str = ""
    """Which of its templates this is, where it has several."""
    volume_claims: tuple[VolumeClaimTemplate, ...] = ()
    """Templates of the claims that each pod of a StatefulSet gets."""
    raw_template: Mapping[str, object] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}{f' ({self.pod_set})' if self.pod_set else ''}"


class _JobFields(ObjectFields):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    template: dict[str, object]


class _JobTemplateFields(ObjectFields):
    spec: _JobFields


class _OrdinalsFields(ObjectFields):
    start: int | None = None


class _WorkloadSpecFields(ObjectFields):
    replicas: int | None = None
    ordinals: _OrdinalsFields | None = None
    template: dict[str, object] | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    volumeClaimTemplates: list[object] | None = None  # noqa: N815 - the API's name
    jobTemplate: _JobTemplateFields | None = None  # noqa: N815 - the API's name


class WorkloadConditionFields(ObjectFields):
    """A condition, as far as it says that a workload is over."""

    type: str = ""
    status: str = ""


class _WorkloadStatusFields(ObjectFields):
    succeeded: int | None = None
    conditions: list[WorkloadConditionFields] | None = None


class _WorkloadFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _WorkloadSpecFields
    status: _WorkloadStatusFields | None = None


def decode_workload(kind: str, raw: Mapping[str, object]) -> tuple[Workload | None, tuple[FieldError, ...]]:
    """The workload, or the errors. kind: one of KINDS."""
    fields, errors = typed(_WorkloadFields, raw)
    if fields is None:
        return None, errors
    if errors := (*metadata_errors(fields.metadata), *_number_errors(fields.spec)):
        return None, errors
    path, template = _template(kind, fields.spec)
    if template is None:
        return None, (FieldError(path, None, "is required"),)
    if not isinstance(metadata_of_pods := template.get("metadata"), dict | None):
        return None, (FieldError(f"{path}.metadata", metadata_of_pods, "must be an object"),)
    metadata = fields.metadata
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    made = raw_pod(template, metadata.name, namespace)
    pod, errors = decode_pod(made)
    volume_claims, claim_errors = _volume_claims(kind, fields.spec, namespace)
    if pod is None or claim_errors:
        in_template = (FieldError(f"{path}.{error.path}", error.value, error.message) for error in errors)
        return None, (*in_template, *claim_errors)
    pods, note = _pod_count(kind, fields)
    pods, unplaced = (0, pods) if pods is not None and pods > MAX_PODS else (pods, 0)
    workload = Workload(
        kind=kind,
        namespace=namespace,
        name=metadata.name,
        uid=metadata.uid or "",
        created=metadata.creationTimestamp or "",
        pods=pods,
        template=pod,
        owner=controller_of(metadata.ownerReferences),
        first_ordinal=(fields.spec.ordinals.start if fields.spec.ordinals else None) or 0,
        note=note,
        unplaced=unplaced,
        volume_claims=volume_claims,
        raw_template=made,
    )
    return workload, ()


def _volume_claims(
    kind: str, spec: _WorkloadSpecFields, namespace: str
) -> tuple[tuple[VolumeClaimTemplate, ...], tuple[FieldError, ...]]:
    """The templates of the claims that each pod of a StatefulSet gets, or the errors in them."""
    raws = (spec.volumeClaimTemplates or ()) if kind == "StatefulSet" else ()
    decoded = [
        decode_volume_claim_template(f"spec.volumeClaimTemplates[{position}]", raw, namespace)
        for position, raw in enumerate(raws)
    ]
    return tuple(one for one, _ in decoded if one), tuple(error for _, errors in decoded for error in errors)


def _number_errors(spec: _WorkloadSpecFields) -> Iterator[FieldError]:
    numbers = {
        "spec.replicas": spec.replicas,
        "spec.ordinals.start": spec.ordinals.start if spec.ordinals else None,
        "spec.parallelism": spec.parallelism,
        "spec.completions": spec.completions,
    }
    if spec.jobTemplate:
        numbers["spec.jobTemplate.spec.parallelism"] = spec.jobTemplate.spec.parallelism
        numbers["spec.jobTemplate.spec.completions"] = spec.jobTemplate.spec.completions
    for path, number in numbers.items():
        if number is not None and number < 0:
            yield FieldError(path, number, "must not be negative")


def pod_spec_in(kind: str) -> tuple[str, ...]:
    """Where the spec of the pod stands. kind: one of KINDS, or Pod."""
    if kind == "Pod":
        return ("spec",)
    return ("spec", *(("jobTemplate", "spec") if kind == "CronJob" else ()), "template", "spec")


def _template(kind: str, spec: _WorkloadSpecFields) -> tuple[str, Mapping[str, object] | None]:
    if kind == "CronJob":
        return "spec.jobTemplate.spec.template", spec.jobTemplate.spec.template if spec.jobTemplate else None
    return "spec.template", spec.template


def raw_pod(template: Mapping[str, object], name: str, namespace: str) -> dict[str, object]:
    """The pod that the template stands for, under the name of its workload."""
    metadata = template.get("metadata")
    of_template = metadata if isinstance(metadata, dict) else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**of_template, "name": name, "namespace": namespace},
        "spec": template.get("spec", {}),
    }


def _pod_count(kind: str, fields: _WorkloadFields) -> tuple[int | None, str]:
    """How many pods it asks for, and why it asks for none although it is there."""
    if fields.metadata.deletionTimestamp:
        return 0, "is being deleted"
    spec = fields.spec
    match kind:
        case "DaemonSet":
            return None, ""
        case "Job":
            return _of_job(spec, fields.status or _WorkloadStatusFields())
        case "CronJob":
            if spec.suspend:
                return 0, "is suspended"
            return _of_job(spec.jobTemplate.spec, _WorkloadStatusFields()) if spec.jobTemplate else (0, "")
        case _:
            return 1 if spec.replicas is None else spec.replicas, ""


def _of_job(spec: _WorkloadSpecFields | _JobFields, status: _WorkloadStatusFields) -> tuple[int, str]:
    """As many as run at once, and no more than are still to complete."""
    if over := why_over(status.conditions or ()):
        return 0, over
    if spec.suspend:
        return 0, "is suspended"
    parallelism, succeeded = 1 if spec.parallelism is None else spec.parallelism, status.succeeded or 0
    if spec.completions is None:
        return (0, "has succeeded") if succeeded else (parallelism, "")
    return min(parallelism, max(spec.completions - succeeded, 0)), ""


def why_over(conditions: Iterable[WorkloadConditionFields]) -> str:
    """How a workload with these conditions has ended; empty where it has not."""
    return next((_OVER[one.type] for one in conditions if one.status == "True" and one.type in _OVER), "")


# Workloads of other APIs: the pod templates that an object of any kind holds, and how many pods each stands for.
#
# A pod template is an object whose `spec` lists containers. The numbers beside it and above it, such as `replicas`, say
# how many pods it stands for. So MPIJob, JobSet, LeaderWorkerSet, RayCluster, Kueue's Workload and others are read
# without knowing them; what differs from the rule is named here, and `custom_pods` has kinds without templates.


BLUEPRINTS = frozenset({"ClusterTrainingRuntime", "CustomResourceDefinition", "TrainingRuntime"})
"""Kinds that hold templates of which others make pods; kinds whose name ends in `Template` do so, too."""

_WITHOUT_PODS = frozenset(
    {("apps", "ControllerRevision"), ("scheduling.k8s.io", "PodGroup"), ("scheduling.k8s.io", "Workload")}
)
"""Group and kind of what repeats what its owner says, and of what pods that others make belong to."""

_NUMBERS = ("replicas", "count", "instances", "numOfHosts")
"""Fields with the number of copies of the templates beside and below them."""

_LEADER, _WORKER, _SIZE = "leaderTemplate", "workerTemplate", "size"
"""A LeaderWorkerSet's: one leader and size - 1 workers a group; without a leader's template it is a worker as well."""

_MANY = 2**63
"""Pods beyond which nobody counts: numbers of several fields are multiplied."""

_NO_NAME = frozenset({"podtemplate", "podtemplatespec", "jobtemplate", "template", "spec"})
_WITHOUT = re.compile(r"(group)?(pod|job|replica)?(template|spec)s?$")
_NO_LABEL = re.compile(r"[^a-z0-9]+")
_DEEPEST = 24


class _EmbeddedMetadata(ObjectFields):
    metadata: ObjectMetaFields


class _EmbeddedStatus(ObjectFields):
    conditions: list[WorkloadConditionFields] | None = None


class _PodTemplate(NamedTuple):
    """A pod template."""

    path: FieldPath
    pod_set: str
    pods: int
    """How many pods it stands for."""
    raw: Mapping[str, object]
    spec: FieldPath
    """Where the spec of the pod is."""

    def errors(self, found: Iterable[FieldError]) -> Iterator[FieldError]:
        """The errors of the pod as errors of the object."""
        for error in found:
            is_of_spec = error.path == "spec" or error.path.startswith("spec.")
            at = f"{_text(self.spec)}{error.path[4:]}" if is_of_spec else f"{_text(self.path)}.{error.path}"
            yield FieldError(at, error.value, error.message)


class _TemplateSearch(NamedTuple):
    """For the templates of an object of this kind, with the errors that are found on the way."""

    api_version: object
    kind: str
    errors: list[FieldError]


def decode_embedded(kind: str, raw: Mapping[str, object]) -> tuple[list[Workload], tuple[FieldError, ...]]:
    """A workload for each pod template of the object, none where it holds none; or the errors. Cost: O(size)."""
    if _has_no_pods(kind, raw) or kind in BLUEPRINTS or kind.endswith("Template"):
        return [], ()
    spec, errors = raw.get("spec"), list[FieldError]()
    search = _TemplateSearch(raw.get("apiVersion"), kind, errors)
    templates = list(_templates(search, spec, ("spec",), "", 1)) if isinstance(spec, dict) else []
    if not templates:
        return [], ()
    fields, field_errors = typed(_EmbeddedMetadata, raw)
    if fields is None:
        return [], field_errors
    metadata = fields.metadata
    errors[:0] = metadata_errors(metadata)
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    note, workloads = _note(raw, metadata), list[Workload]()
    names = _distinct([template.pod_set for template in templates]) if len(templates) > 1 else [""]
    marks = _marks_of_kueue(raw, metadata.name, sum(one.pods for one in templates))
    for template, pod_set in zip(templates, names, strict=True):
        raw_one = _marked(raw_pod(template.raw, metadata.name, namespace), marks)
        pod, field_errors = decode_pod(raw_one)
        errors += template.errors(field_errors)
        if pod is not None:
            workloads.append(
                Workload(
                    kind=kind,
                    namespace=namespace,
                    name=metadata.name,
                    uid=metadata.uid or "",
                    created=metadata.creationTimestamp or "",
                    pods=0 if note or template.pods > MAX_PODS else template.pods,
                    template=pod,
                    owner=controller_of(metadata.ownerReferences) or _first(metadata.ownerReferences),
                    note=note,
                    unplaced=template.pods if template.pods > MAX_PODS and not note else 0,
                    pod_set=pod_set,
                    raw_template=raw_one,
                )
            )
    return ([], tuple(errors)) if errors else (workloads, ())


_Marks = Mapping[str, Mapping[str, str]]
"""Labels and annotations, by the names of their fields."""


def _marks_of_kueue(raw: Mapping[str, object], name: str, pods: int) -> _Marks:
    """What makes a group of the pods of Kueue's Workload for plain pods, which keeps only their specs; else empty."""
    metadata = raw.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    is_group = isinstance(annotations, dict) and annotations.get(KUEUE_IS_GROUP) == "true"
    return {"labels": {KUEUE_GROUP: name}, "annotations": {KUEUE_TOTAL: str(pods)}} if is_group else {}


def _marked(pod: dict[str, object], marks: _Marks) -> dict[str, object]:
    """The pod with these marks, its own first. Where its own are no map, they are refused as they are."""
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    own = {key: metadata.get(key) or {} for key in marks}
    added = {key: {**marks[key], **fields} for key, fields in own.items() if isinstance(fields, dict)}
    return {**pod, "metadata": {**metadata, **added}} if added else pod


def asks_for_claims(kind: str, raw: Mapping[str, object], workloads: Iterable[Workload] = ()) -> bool:
    """Whether the object says somewhere that pods need claims, beside those of the pods that it stands for."""
    if _has_no_pods(kind, raw):
        return False
    placed = [entry for workload in workloads for entry in workload.template.claims]
    named = {name for entry in placed for name in (entry.claim_name, entry.template_name)}
    rest: list[object] = [{name: value for name, value in raw.items() if name not in ("metadata", "status")}]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if _names_other_claims(value, named) or asks_unnamed(value) or (not placed and _uses_claims(value)):
                return True
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    return False


def _has_no_pods(kind: str, raw: Mapping[str, object]) -> bool:
    return (str(raw.get("apiVersion")).rpartition("/")[0], kind) in _WITHOUT_PODS


def _names_other_claims(value: Mapping[str, object], known: Container[str]) -> bool:
    names = (value.get("resourceClaimName"), value.get("resourceClaimTemplateName"))
    return any(isinstance(name, str) and name and name not in known for name in names)


def _uses_claims(value: Mapping[str, object]) -> bool:
    return _has_objects(value.get("resourceClaims")) or _has_objects(_claims_of_container(value))


def _has_objects(entries: object) -> bool:
    return isinstance(entries, list) and any(isinstance(entry, dict) for entry in entries)


def _claims_of_container(value: Mapping[str, object]) -> object:
    """The claims that a container uses; the pod has to have them."""
    resources = value.get("resources")
    return resources.get("claims") if isinstance(resources, dict) else None


def _templates(
    search: _TemplateSearch, value: object, path: FieldPath, pod_set: str, pods: int
) -> Iterator[_PodTemplate]:
    """The templates at the path and below. pods: how often the value is there."""
    if len(path) > _DEEPEST:
        return
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _templates(search, item, (*path, position), _item_name(item, position), pods)
    elif isinstance(value, dict) and (custom := custom_pod(search.api_version, search.kind, value, path)) is not None:
        times = pods
        for at, number in custom.numbers:
            times *= _number(number, (*path, *at), search.errors)
        yield _PodTemplate(path, pod_set, min(times, _MANY), custom.template, (*path, *custom.spec))
    elif isinstance(value, dict) and (template := _template_in(value, path)) is not None:
        yield _PodTemplate(path, pod_set, pods, template, path if template is not value else (*path, "spec"))
    elif isinstance(value, dict):
        below = [
            one
            for key, item in value.items()
            if isinstance(item, dict | list) and isinstance(key, str)
            for one in _templates(search, item, (*path, key), _pod_set_of(key) or pod_set, pods * _in_group(key, value))
        ]
        if below:
            times = _times(value, path, search.errors)
            yield from (one._replace(pods=min(one.pods * times, _MANY)) for one in below)


def _template_in(value: Mapping[str, object], path: FieldPath) -> Mapping[str, object] | None:
    """The value as a pod template, None where it is none."""
    spec = value.get("spec")
    if isinstance(spec, dict) and _has_containers(spec):
        return value
    return {"spec": value} if str(path[-1]).lower().endswith("podspec") and _has_containers(value) else None


def _has_containers(spec: Mapping[str, object]) -> bool:
    containers = spec.get("containers")
    return isinstance(containers, list) and bool(containers) and all(isinstance(one, dict) for one in containers)


def _in_group(key: str, fields: Mapping[str, object]) -> int:
    """How many pods of that template there are in a group of a LeaderWorkerSet; 1 for everything else."""
    size = fields.get(_SIZE)
    if key != _WORKER or not _is_number(size):
        return 1
    assert isinstance(size, int)
    return max(size - isinstance(fields.get(_LEADER), dict), 0)


def _times(fields: Mapping[str, object], path: FieldPath, errors: list[FieldError]) -> int:
    """How often what these fields hold is there."""
    numbers = [name for name in _NUMBERS if fields.get(name) is not None]
    if "replicas" not in numbers and fields.get("minReplicas") is not None:
        numbers.append("minReplicas")
    times = 1
    for name in numbers:
        times *= _number(fields[name], (*path, name), errors)
    if fields.get("parallelism") is not None:
        parallelism = _number(fields["parallelism"], (*path, "parallelism"), errors)
        end = fields.get("completions")
        times *= parallelism if end is None else min(parallelism, _number(end, (*path, "completions"), errors))
    return min(times, _MANY)


def _number(value: object, path: FieldPath, errors: list[FieldError]) -> int:
    if not _is_number(value):
        errors.append(FieldError(_text(path), value, "must be an integer that is not negative"))
        return 0
    assert isinstance(value, int)
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _item_name(item: object, position: int) -> str:
    named = item if isinstance(item, dict) else {}
    name = named.get("name") or named.get("groupName")
    return _NO_LABEL.sub("-", name.lower()).strip("-") if isinstance(name, str) else str(position)


def _pod_set_of(key: str) -> str:
    """The word of a field's name that distinguishes its template: `head` of headGroupSpec."""
    lower = key.lower()
    return "" if lower in _NO_NAME else _NO_LABEL.sub("-", _WITHOUT.sub("", lower)).strip("-")


def _distinct(names: list[str]) -> list[str]:
    """The names, with a number where one stands twice or is empty."""
    distinct: list[str] = []
    for position, name in enumerate(names):
        is_usable = name and name not in distinct and names.count(name) == 1
        distinct.append(name if is_usable else f"{name}-{position}".strip("-"))
    return distinct


def _note(raw: Mapping[str, object], metadata: ObjectMetaFields) -> str:
    """Why the object asks for no pods though it is there, or empty."""
    if metadata.deletionTimestamp:
        return "is being deleted"
    reported = raw.get("status")
    status, _ = typed(_EmbeddedStatus, reported) if isinstance(reported, dict) else (None, ())
    if over := why_over((status and status.conditions) or ()) or why_stopped(raw):
        return over
    spec = raw["spec"]
    assert isinstance(spec, dict)
    policy = spec.get("runPolicy")
    holders = (spec, policy) if isinstance(policy, dict) else (spec,)
    is_suspended = any(one.get("suspend") is True for one in holders) or spec.get("active") is False
    return "is suspended" if is_suspended else ""


def _first(owners: list[OwnerFields] | None) -> Owner | None:
    """Kueue's Workloads of plain pods have pods as owners, none of which controls them."""
    return next((Owner(owner.kind, owner.name, owner.uid) for owner in owners or ()), None)


def _text(path: FieldPath) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step_text(step)}" for step in path)
    return "".join(steps).removeprefix(".")
