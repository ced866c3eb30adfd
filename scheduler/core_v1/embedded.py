"""Workloads of other APIs: the pod templates that an object of any kind holds, and how many pods each stands for.

A pod template is an object whose `spec` lists containers. The numbers beside it and above it, such as `replicas`, say
how many pods it stands for. So MPIJob, JobSet, LeaderWorkerSet, RayCluster, Kueue's Workload and others are read
without knowing them; what differs from the rule is named here, and `custom_pods` has kinds without templates.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from allocator.api.findings import FieldError, step_text
from scheduler.core_v1.custom_pods import asks_unnamed, custom_pod, why_stopped
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, OwnerFields, metadata_errors, typed
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Owner, controller_of, decode_pod
from scheduler.core_v1.workload import MAX_PODS, Workload, WorkloadConditionFields, raw_pod, why_over

BLUEPRINTS = frozenset({"ClusterTrainingRuntime", "CustomResourceDefinition", "TrainingRuntime"})
"""Kinds that hold templates of which others make pods; kinds whose name ends in `Template` do so, too."""

_WITHOUT_PODS = frozenset(
    {("apps", "ControllerRevision"), ("scheduling.k8s.io", "PodGroup"), ("scheduling.k8s.io", "Workload")}
)
"""Group and kind of what repeats what its owner says, and of what pods that others make belong to."""

_NUMBERS = ("replicas", "count", "instances", "numOfHosts")
"""ObjectFields that say how many there are of the templates beside and below them."""

_LEADER, _WORKER, _SIZE = "leaderTemplate", "workerTemplate", "size"
"""A LeaderWorkerSet's: one leader and size - 1 workers a group; without a leader's template it is a worker as well."""

_NO_NAME = frozenset({"podtemplate", "podtemplatespec", "jobtemplate", "template", "spec"})
_WITHOUT = re.compile(r"(group)?(pod|job|replica)?(template|spec)s?$")
_NO_LABEL = re.compile(r"[^a-z0-9]+")
_DEEPEST = 24

_Path = tuple[str | int, ...]


class _EmbeddedMetadata(ObjectFields):
    metadata: ObjectMetaFields


class _EmbeddedStatus(ObjectFields):
    conditions: list[WorkloadConditionFields] | None = None


class _PodTemplate(NamedTuple):
    """A pod template. pods: that it stands for. spec: where the spec of the pod is."""

    path: _Path
    pod_set: str
    pods: int
    raw: Mapping[str, object]
    spec: _Path

    def errors(self, found: Iterable[FieldError]) -> Iterator[FieldError]:
        """The errors of the pod as errors of the object."""
        for one in found:
            is_of_spec = one.path == "spec" or one.path.startswith("spec.")
            at = f"{_text(self.spec)}{one.path[4:]}" if is_of_spec else f"{_text(self.path)}.{one.path}"
            yield FieldError(at, one.value, one.message)


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
    fields, found = typed(_EmbeddedMetadata, raw)
    if fields is None:
        return [], found
    metadata = fields.metadata
    errors[:0] = metadata_errors(metadata)
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    note, workloads = _note(raw, metadata), list[Workload]()
    names = _distinct([template.pod_set for template in templates]) if len(templates) > 1 else [""]
    for template, pod_set in zip(templates, names, strict=True):
        raw_one = raw_pod(template.raw, metadata.name, namespace)
        pod, found = decode_pod(raw_one)
        errors += template.errors(found)
        if pod is not None:
            workloads.append(
                Workload(
                    kind=kind,
                    namespace=namespace,
                    name=metadata.name,
                    uid=metadata.uid or "",
                    created=metadata.creationTimestamp or "",
                    pods=0 if note else template.pods,
                    template=pod,
                    owner=controller_of(metadata.ownerReferences) or _first(metadata.ownerReferences),
                    note=note,
                    pod_set=pod_set,
                    raw_template=raw_one,
                )
            )
    return ([], tuple(errors)) if errors else (workloads, ())


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


def _templates(search: _TemplateSearch, value: object, path: _Path, pod_set: str, pods: int) -> Iterator[_PodTemplate]:
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
        yield _PodTemplate(path, pod_set, _at_most(times, path, search.errors), custom.template, (*path, *custom.spec))
    elif isinstance(value, dict) and (template := _template(value, path)) is not None:
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
            yield from (one._replace(pods=one.pods * times) for one in below)


def _template(value: Mapping[str, object], path: _Path) -> Mapping[str, object] | None:
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


def _times(fields: Mapping[str, object], path: _Path, errors: list[FieldError]) -> int:
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
    return _at_most(times, path, errors)


def _at_most(times: int, path: _Path, errors: list[FieldError]) -> int:
    if times > MAX_PODS:
        errors.append(
            FieldError(_text(path), times, f"must not ask for more than {MAX_PODS} pods: no cluster has more")
        )
        return 0
    return times


def _number(value: object, path: _Path, errors: list[FieldError]) -> int:
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
    found: list[str] = []
    for position, name in enumerate(names):
        is_usable = name and name not in found and names.count(name) == 1
        found.append(name if is_usable else f"{name}-{position}".strip("-"))
    return found


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


def _text(path: _Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step_text(step)}" for step in path)
    return "".join(steps).removeprefix(".")
