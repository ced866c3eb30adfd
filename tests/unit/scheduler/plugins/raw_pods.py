"""Pods from what their manifests say of other pods."""

from typing import Any

from scheduler.core_v1.pod import Pod, decode_pod

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def a_pod_of(
    name: str, on: str = "", labels: dict[str, str] | None = None, *, namespace: str = "default", **spec: Any
) -> Pod:
    """A pod, on a node where one is given. spec: further fields."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "labels": labels or {}}
    containers = [{"name": "main"}]
    pod, errors = decode_pod({"metadata": metadata, "spec": {"containers": containers, "nodeName": on, **spec}})
    assert pod, errors
    return pod


def a_term(key: str = ZONE, labels: dict[str, str] | None = None, **more: Any) -> Json:
    """A term about pods with these labels; without any it has no selector."""
    return {"topologyKey": key, **({"labelSelector": {"matchLabels": labels}} if labels is not None else {}), **more}


def near(*terms: Json) -> Json:
    """Required affinity."""
    return {"podAffinity": {_REQUIRED: list(terms)}}


def apart(*terms: Json) -> Json:
    """Required anti-affinity."""
    return {"podAntiAffinity": {_REQUIRED: list(terms)}}


def rather_near(weight: int, term: Json) -> Json:
    """Preferred affinity."""
    return {"podAffinity": {_PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}


def rather_apart(weight: int, term: Json) -> Json:
    """Preferred anti-affinity."""
    return {"podAntiAffinity": {_PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}


def a_constraint(
    key: str = ZONE, labels: dict[str, str] | None = WEB, skew: int = 1, *, is_hard: bool = True, **more: Any
) -> Json:
    """A spread constraint over the pods with these labels."""
    how = "DoNotSchedule" if is_hard else "ScheduleAnyway"
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels} if labels else {}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": how, **selector, **more}
