"""Kinds of other projects that describe pods in fields of their own: KubeVirt's, NIMService, DynamoGraphDeployment.

Read is what decides where such a pod goes: its claims and resources, node selector, affinity and tolerations. What the
operator adds by itself, such as the memory that virt-launcher needs beside its guest, does not count.
Source: kubevirt.io/api core/v1, apps.nvidia.com/v1alpha1, nvidia.com/v1alpha1 and v1beta1, resource.nvidia.com/v1beta1.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from scheduler.core_v1.resources import objects

FieldPath = tuple[str | int, ...]

_Fields = Mapping[str, Any]  # Any: what nobody has typed yet


class CustomPod(NamedTuple):
    """A pod as fields describe it. numbers: what they say of how many there are. spec: where they have the pod's spec.

    All paths begin at the fields.
    """

    template: Mapping[str, object]
    numbers: tuple[tuple[FieldPath, object], ...] = ()
    spec: FieldPath = ()


def custom_pod(api_version: object, kind: str, fields: _Fields, path: FieldPath) -> CustomPod | None:
    """The pod that these fields of the object describe, None where they are of another kind, or describe none."""
    reader = _READERS.get((str(api_version).rpartition("/")[0], kind))
    return reader(fields, path) if reader else None


def why_stopped(raw: _Fields) -> str:
    """Why a virtual machine asks for no pod though it is there; empty where it does."""
    if not str(raw.get("apiVersion")).startswith("kubevirt.io/"):
        return ""
    spec, status = _object(raw, "spec"), _object(raw, "status")
    if status.get("phase") in ("Succeeded", "Failed"):
        return f"has {str(status['phase']).lower()}"
    if spec.get("running") is False or spec.get("runStrategy") == "Halted":
        return "is halted"
    return "is not started" if spec.get("runStrategy") == "Manual" and status.get("created") is not True else ""


def made_template(raw: _Fields) -> str:
    """The name of the ResourceClaimTemplate that NVIDIA's controller makes for a ComputeDomain; empty for all else."""
    if not str(raw.get("apiVersion")).startswith("resource.nvidia.com/") or raw.get("kind") != "ComputeDomain":
        return ""
    name = _object(_object(_object(raw, "spec"), "channel"), "resourceClaimTemplate").get("name")
    return name if isinstance(name, str) else ""


def asks_unnamed(fields: _Fields) -> bool:
    """Whether the operator makes a claim of its own for these fields, which nothing in the input names."""
    makes_claim = any(isinstance(fields.get(name), dict) for name in ("claimSpec", "claimCreationSpec"))
    return makes_claim or _object(fields, "gpuMemoryService").get("enabled") is True


def _virtual_machine(fields: _Fields, _path: FieldPath) -> CustomPod | None:
    """An instance, or the template of instances."""
    spec = _object(fields, "spec")
    if isinstance(spec.get("domain"), dict):
        return CustomPod({"metadata": {"labels": _labels(fields)}, "spec": _launcher(spec)}, spec=("spec",))
    return CustomPod({"spec": _launcher(fields)}) if isinstance(fields.get("domain"), dict) else None


def _launcher(spec: _Fields) -> dict[str, object]:
    """The pod in which an instance runs. spec: of the instance."""
    domain = spec["domain"]
    devices = [one for name in ("gpus", "hostDevices") for one in objects(_object(domain, "devices"), name)]
    devices += [_object(one, "resourceClaim") for one in objects(spec, "networks")]
    claims = [
        {"name": one["claimName"], **({"request": one["requestName"]} if one.get("requestName") else {})}
        for one in devices
        if one.get("claimName")
    ]
    plugged = [one["deviceName"] for one in devices if isinstance(one.get("deviceName"), str)]
    counts = {name: plugged.count(name) for name in plugged}
    of_domain = _object(domain, "resources")
    cpu, limits = _cpu_of_guest(_object(domain, "cpu"))
    guest = _object(domain, "memory").get("guest")
    memory = {} if guest is None else {"memory": guest}
    resources = {
        "requests": {**cpu, **memory, **_object(of_domain, "requests"), **counts},
        "limits": {**limits, **_object(of_domain, "limits"), **counts},
        "claims": claims,
    }
    return {**_chosen(spec, _OF_GUESTS), "containers": [_container("compute", resources)]}


def _cpu_of_guest(cpu: _Fields) -> tuple[dict[str, object], dict[str, object]]:
    """What KubeVirt requests for the virtual CPUs, and limits: a tenth of a core each, unless they are dedicated."""
    numbers = [cpu.get(name, 1) for name in ("cores", "sockets", "threads")]
    if not all(isinstance(one, int) for one in numbers):
        return {}, {}
    cores = numbers[0] * numbers[1] * numbers[2]
    if cpu.get("dedicatedCpuPlacement") is True:
        return {"cpu": cores}, {"cpu": cores}
    return {"cpu": f"{100 * cores}m"}, {}


def _nim_service(spec: _Fields, path: FieldPath) -> CustomPod | None:
    if path != ("spec",):
        return None
    entries = [(f"claim-{number}", one) for number, one in enumerate(objects(spec, "draResources"))]
    named = [(name, names) for name, one in entries if (names := _chosen(one, _NAMES))]
    resources = _object(spec, "resources")
    claims = [*objects(resources, "claims"), *({"name": name} for name, _ in named)]
    pod = {
        **_chosen(spec, _OF_PODS),
        "affinity": _chosen(spec, ("nodeAffinity", "podAffinity")),
        "resourceClaims": [{"name": name, **names} for name, names in named],
        "containers": [_container("main", {**resources, "claims": claims})],
    }
    scale, nodes = _object(spec, "scale"), _object(spec, "multiNode")
    hpa = _object(scale, "hpa")
    replicas = (
        (("scale", "hpa", "minReplicas"), hpa.get("minReplicas"))
        if scale.get("enabled") is True
        else (("replicas",), spec.get("replicas"))
    )
    pipeline = (("multiNode", "parallelism", "pipeline"), _object(nodes, "parallelism").get("pipeline"))
    return CustomPod({"spec": pod}, _given(replicas, (("multiNode", "size"), nodes.get("size")), pipeline))


def _dynamo_component(fields: _Fields, path: FieldPath) -> CustomPod | None:
    """A component of a graph: in v1alpha1 by name, in v1beta1 in a list with a template."""
    template: Mapping[str, object]
    at: FieldPath
    match path:
        case ("spec", "services", _):
            template, at = _dynamo_service(fields), ("extraPodSpec",)
        case ("spec", "components", _):
            given = _object(fields, "podTemplate")
            pod = _object(given, "spec")
            template = {**given, "spec": {**pod, "containers": pod.get("containers") or [_container("main", {})]}}
            at = ("podTemplate", "spec")
        case _:
            return None
    node_count = (("multinode", "nodeCount"), _object(fields, "multinode").get("nodeCount"))
    return CustomPod(template, _given((("replicas",), fields.get("replicas")), node_count), at)


def _dynamo_service(fields: _Fields) -> dict[str, object]:
    extra, resources = _object(fields, "extraPodSpec"), _object(fields, "resources")
    main, metadata = _object(extra, "mainContainer"), _object(fields, "extraPodMetadata")
    of_container = _object(main, "resources")
    amounts = {
        name: {**dict(_amounts(resources, name)), **_object(of_container, name)} for name in ("requests", "limits")
    }
    merged = {**amounts, "claims": [*objects(resources, "claims"), *objects(of_container, "claims")]}
    rest = {name: value for name, value in extra.items() if name != "mainContainer"}
    containers = [{"name": "main", **main, "resources": merged}, *objects(extra, "containers")]
    labels = {**_object(fields, "labels"), **_object(metadata, "labels")}
    return {"metadata": {"labels": labels}, "spec": {**rest, "containers": containers}}


def _amounts(resources: _Fields, name: str) -> Iterator[tuple[str, object]]:
    """Amounts by resource; what limits devices requests them as well."""
    amounts, limits = _object(resources, name), _object(resources, "limits")
    yield from _chosen(amounts, ("cpu", "memory")).items()
    yield from _object(amounts, "custom").items()
    gpus = amounts.get("gpu") or limits.get("gpu") or _object(resources, "requests").get("gpu")
    if gpus:
        yield str(amounts.get("gpuType") or limits.get("gpuType") or "nvidia.com/gpu"), gpus


_OF_PODS = ("nodeSelector", "tolerations", "schedulerName")
_OF_GUESTS = (*_OF_PODS, "affinity", "topologySpreadConstraints", "priorityClassName", "resourceClaims")
_NAMES = ("resourceClaimName", "resourceClaimTemplateName")

_READERS: Mapping[tuple[str, str], Callable[[_Fields, FieldPath], CustomPod | None]] = {
    ("kubevirt.io", "VirtualMachine"): _virtual_machine,
    ("kubevirt.io", "VirtualMachineInstance"): _virtual_machine,
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): _virtual_machine,
    ("pool.kubevirt.io", "VirtualMachinePool"): _virtual_machine,
    ("apps.nvidia.com", "NIMService"): _nim_service,
    ("nvidia.com", "DynamoGraphDeployment"): _dynamo_component,
}
"""How the kinds are read, by group and kind."""

KINDS = frozenset(_READERS)
"""(group, kind) of all that are read here."""


def _given(*numbers: tuple[FieldPath, object]) -> tuple[tuple[FieldPath, object], ...]:
    return tuple(one for one in numbers if one[1] is not None)


def _labels(fields: _Fields) -> _Fields:
    return _object(_object(fields, "metadata"), "labels")


def _container(name: str, resources: _Fields) -> dict[str, object]:
    return {"name": name, "resources": dict(resources)}


def _chosen(fields: _Fields, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) is not None}


def _object(fields: _Fields, name: str) -> _Fields:
    """The object in a field, empty where there is none."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}
