"""Workloads: objects with a pod template, and how many pods they create.

Source: k8s.io/api apps/v1 and batch/v1.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, metadata_errors, typed
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Owner, Pod, controller_of, decode_pod
from scheduler.core_v1.volume_claim_template import VolumeClaimTemplate, decode_volume_claim_template

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
"""Pods that one workload may ask for: the largest cluster that Kubernetes supports has as many."""

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
    """An object that stands for pods.

    pods: how many it asks for; None for a DaemonSet, which asks for one on every node that it fits. first_ordinal: the
    number of the first pod of a StatefulSet. template: the pod that it makes, named after the workload. note: why it
    asks for none although it is there, or empty. pod_set: which of its templates this is, where it has several.
    volume_claims: templates of the claims that each pod of a StatefulSet gets.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    created: str
    pods: int | None
    template: Pod
    owner: Owner | None = None
    first_ordinal: int = 0
    note: str = ""
    pod_set: str = ""
    volume_claims: tuple[VolumeClaimTemplate, ...] = ()
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
    if not isinstance(own := template.get("metadata"), dict | None):
        return None, (FieldError(f"{path}.metadata", own, "must be an object"),)
    metadata = fields.metadata
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    made = raw_pod(template, metadata.name, namespace)
    pod, errors = decode_pod(made)
    volume_claims, claim_errors = _volume_claims(kind, fields.spec, namespace)
    if pod is None or claim_errors:
        in_template = (FieldError(f"{path}.{error.path}", error.value, error.message) for error in errors)
        return None, (*in_template, *claim_errors)
    pods, note = _pod_count(kind, fields)
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
        volume_claims=volume_claims,
        raw_template=made,
    )
    return workload, ()


def _volume_claims(
    kind: str, spec: _WorkloadSpecFields, namespace: str
) -> tuple[tuple[VolumeClaimTemplate, ...], tuple[FieldError, ...]]:
    """The templates of the claims that each pod of a StatefulSet gets, or the errors in them."""
    raws = (spec.volumeClaimTemplates or ()) if kind == "StatefulSet" else ()
    found = [
        decode_volume_claim_template(f"spec.volumeClaimTemplates[{position}]", raw, namespace)
        for position, raw in enumerate(raws)
    ]
    return tuple(one for one, _ in found if one), tuple(error for _, errors in found for error in errors)


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
        elif number is not None and number > MAX_PODS and path.endswith(("replicas", "parallelism")):
            yield FieldError(path, number, f"must be at most {MAX_PODS}: no cluster has more pods")


def _template(kind: str, spec: _WorkloadSpecFields) -> tuple[str, Mapping[str, object] | None]:
    if kind == "CronJob":
        return "spec.jobTemplate.spec.template", spec.jobTemplate.spec.template if spec.jobTemplate else None
    return "spec.template", spec.template


def raw_pod(template: Mapping[str, object], name: str, namespace: str) -> dict[str, object]:
    """The pod that the template stands for, under the name of its workload."""
    metadata = template.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**own, "name": name, "namespace": namespace},
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
