"""Workloads to virtual pods: as many as a workload requests, minus those that the input already has.

A Deployment stands for its ReplicaSets, a CronJob or JobSet for its Jobs, and so on. Pods that one of them controls are
counted, so that a dump with workloads and pods counts nothing twice.
Source: the workload controllers of kube-controller-manager.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from allocator.cluster.node_affinity import NAME_FIELD
from allocator.model import Node, Requirement, Term, Toleration
from scheduler.core_v1.node import images_of_pod
from scheduler.core_v1.pod import Owner, Pod
from scheduler.core_v1.pod_volumes import pod_volumes
from scheduler.core_v1.resources import objects
from scheduler.core_v1.workload import Workload
from scheduler.input.identity import uid_of
from scheduler.offline.snapshot_cluster import claim_name
from scheduler.plugins.profile import refusal

_OwnerKey = tuple[str, str, str]
_TakenNames = set[tuple[str, str]]

_TEMPLATE_HASH = "pod-template-hash"
_JOB_OF_CRON_JOB = re.compile(r"(.+)-[0-9]+")
_NAMED_FIRST = ("StatefulSet", "DaemonSet")

_DAEMON_TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
    Toleration("node.kubernetes.io/disk-pressure", "Exists", "", "NoSchedule"),
    Toleration("node.kubernetes.io/memory-pressure", "Exists", "", "NoSchedule"),
    Toleration("node.kubernetes.io/pid-pressure", "Exists", "", "NoSchedule"),
    Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
)
_IN_HOST_NETWORK = Toleration("node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule")


def expand(workloads: Sequence[Workload], pods: Sequence[Pod], nodes: Sequence[Node]) -> Iterator[Pod]:
    """The virtual pods of the workloads, each under a name of its own; the order of the input does not matter."""
    ordered = sorted(workloads, key=_order)
    by_key = {_key(workload): workload for workload in ordered}
    pod_sets: dict[_OwnerKey, list[Workload]] = {}
    for workload in ordered:
        pod_sets.setdefault(_key(workload), []).append(workload)
    living = [pod for pod in pods if not pod.is_over]
    controlled: dict[_OwnerKey | None, list[Pod]] = {}
    for pod in living:
        controlled.setdefault(_top(pod.owner, pod, by_key), []).append(pod)
    taken, alive = ({(pod.namespace, pod.name) for pod in some} for some in (pods, living))
    there = {key: _by_pod_set(pod_sets[key], own) for key, own in controlled.items() if key}
    for workload in ordered:
        if workload.owner and _is_there(workload.owner, workload, by_key, taken):
            continue
        if workload.pods is None:
            yield from _daemon_pods(workload, [pod for pod in living if _is_of(pod, workload)], nodes, taken)
        elif workload.kind == "StatefulSet":
            yield from _numbered_pods(workload, workload.pods, alive, taken)
        else:
            pods_there = there.get(_key(workload), Counter())
            yield from _pods(workload, workload.pods - pods_there[workload.pod_set], taken)


def _is_there(owner: Owner, workload: Workload, by_key: Mapping[_OwnerKey, Workload], pods: _TakenNames) -> bool:
    """Whether the owner is in the input, and stands for the workload's pods itself."""
    is_pod = owner.kind == "Pod" and (workload.namespace, owner.name) in pods
    return is_pod or _top(owner, workload.template, by_key) in by_key


def _by_pod_set(pod_sets: Sequence[Workload], pods: Iterable[Pod]) -> Counter[str]:
    """How many of a workload's pods are of which pod set: as the pod says, else the first that asks for the same."""
    counts: Counter[str] = Counter()
    for pod in pods:
        named = [one for one in pod_sets if one.pod_set and _is_named_for(pod, one.pod_set)]
        alike = [one for one in pod_sets if (one.template.claims, one.template.node_selector) == _asked(pod)]
        room = [one for one in (alike or pod_sets) if one.pods is None or counts[one.pod_set] < one.pods]
        counts[(named or room or alike or pod_sets)[0].pod_set] += 1
    return counts


def _asked(pod: Pod) -> tuple[object, object]:
    return pod.claims, pod.node_selector


def _is_named_for(pod: Pod, pod_set: str) -> bool:
    """Controllers put the name of the pod set into a label, or into the pod's name."""
    return f"-{pod_set}-" in f"{pod.name}-" or pod_set in (value.lower() for value in pod.labels.values())


def _order(workload: Workload) -> tuple[int, str, str, str, str]:
    """Those whose pods have fixed names come first."""
    fixed = _NAMED_FIRST.index(workload.kind) if workload.kind in _NAMED_FIRST else len(_NAMED_FIRST)
    return fixed, *_key(workload), workload.pod_set


def _key(workload: Workload) -> _OwnerKey:
    return workload.kind, workload.namespace, workload.name


def _top(owner: Owner | None, pod: Pod, by_key: Mapping[_OwnerKey, Workload]) -> _OwnerKey | None:
    """The workload of the input that is at the top of the chain of controllers, None where there is none."""
    return next((key for key in reversed(list(_controllers(owner, pod, by_key))) if key in by_key), None)


def _controllers(owner: Owner | None, pod: Pod, by_key: Mapping[_OwnerKey, Workload]) -> Iterable[_OwnerKey]:
    """The chain of controllers, from the owner on."""
    seen: dict[_OwnerKey, None] = {}
    while owner and (key := (owner.kind, pod.namespace, owner.name)) not in seen:
        seen[key] = None
        owner = by_key[key].owner if key in by_key else _maker(owner, pod)
    return seen


def pods_of(key: _OwnerKey, workloads: Iterable[Workload], pods: Iterable[Pod]) -> list[Pod]:
    """The pods that a workload controls, whether or not it is in the input. key: its kind, namespace and name."""
    by_key = {_key(workload): workload for workload in workloads}
    return [pod for pod in pods if key in _controllers(pod.owner, pod, by_key)]


def _maker(owner: Owner, pod: Pod) -> Owner | None:
    """The creator of an owner that is not in the input, found by the names that controllers generate."""
    suffix = f"-{pod.labels.get(_TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return Owner("Deployment", owner.name.removesuffix(suffix), "")
    if owner.kind == "Job" and (match := _JOB_OF_CRON_JOB.fullmatch(owner.name)):
        return Owner("CronJob", match[1], "")
    return None


def _is_of(pod: Pod, workload: Workload) -> bool:
    return pod.namespace == workload.namespace and (
        pod.owner is not None and (pod.owner.kind, pod.owner.name) == (workload.kind, workload.name)
    )


def _pods(workload: Workload, missing: int, taken: _TakenNames) -> Iterator[Pod]:
    base = f"{workload.name}-{workload.pod_set}" if workload.pod_set else workload.name
    names = (f"{base}-{number}" for number in count())
    for _ in range(missing):
        yield _pod(workload, _free(names, workload.namespace, taken))


def _free(names: Iterable[str], namespace: str, taken: _TakenNames) -> str:
    """The first of the names that no pod has; from now on it is taken."""
    name = next(name for name in names if (namespace, name) not in taken)
    taken.add((namespace, name))
    return name


def _numbered_pods(workload: Workload, wanted: int, alive: _TakenNames, taken: _TakenNames) -> Iterator[Pod]:
    """Each ordinal without a living pod; the name of one that is finished is used again."""
    for ordinal in range(workload.first_ordinal, workload.first_ordinal + wanted):
        name = f"{workload.name}-{ordinal}"
        if (workload.namespace, name) not in alive:
            taken.add((workload.namespace, name))
            pod = _pod(workload, name)
            yield _with_volumes(workload, pod) if workload.volume_claims else pod


def _pod(workload: Workload, name: str) -> Pod:
    uid = uid_of("Pod", workload.namespace, name)
    raw = dict(workload.raw_template)
    metadata = raw["metadata"]
    assert isinstance(metadata, dict)
    owner = Owner(workload.kind, workload.name, workload.uid)
    return replace(
        workload.template,
        name=name,
        uid=uid,
        created=workload.created,
        owner=owner,
        raw={**raw, "metadata": {**metadata, "name": name, "uid": uid}},
    )


def _with_volumes(workload: Workload, pod: Pod) -> Pod:
    """The pod of a StatefulSet with its own claims, in place of volumes of these names."""
    names = {one.claim.name: claim_name(one, pod.name) for one in workload.volume_claims}
    spec = pod.raw["spec"]
    assert isinstance(spec, dict)
    of_claims = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in names.items()]
    rest = [one for one in objects(spec, "volumes") if one.get("name") not in names]
    spec = {**spec, "volumes": [*of_claims, *rest]}
    return replace(pod, volumes=pod_volumes(spec), images=images_of_pod(spec), raw={**pod.raw, "spec": spec})


def _daemon_pods(workload: Workload, own: Iterable[Pod], nodes: Sequence[Node], taken: _TakenNames) -> Iterator[Pod]:
    """One pod for each node that takes it and has none of them yet."""
    covered = {_pinned_to(pod) for pod in own}
    daemon = replace(workload.template, tolerations=(*workload.template.tolerations, *_added_tolerations(workload)))
    for node in sorted(nodes, key=lambda node: node.name):
        if node.name not in covered and not refusal(daemon, node):
            name = f"{workload.name}-{node.name}"
            names = chain([name], (f"{name}-{number}" for number in count()))
            made = _pod(workload, _free(names, workload.namespace, taken))
            yield replace(made, tolerations=daemon.tolerations, affinity=(_only(node),))


def _added_tolerations(workload: Workload) -> tuple[Toleration, ...]:
    """What the controller lets the pods of a DaemonSet tolerate."""
    spec = workload.raw_template["spec"]
    is_host = isinstance(spec, dict) and spec.get("hostNetwork") is True
    return (*_DAEMON_TOLERATIONS, _IN_HOST_NETWORK) if is_host else _DAEMON_TOLERATIONS


def _only(node: Node) -> Term:
    return Term(fields=(Requirement(NAME_FIELD, "In", (node.name,)),))


def _pinned_to(pod: Pod) -> str:
    """The node of a DaemonSet's pod: bound, or required by its affinity."""
    if pod.node_name:
        return pod.node_name
    fields = [field for term in pod.affinity or () for field in term.fields if field.key == NAME_FIELD]
    return next((value for field in fields for value in field.values), "")
