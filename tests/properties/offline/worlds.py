"""Small clusters in which pods meet each other often, as the raw objects of an API server."""

from random import Random
from typing import Any

Json = dict[str, Any]  # Any: the JSON of an API object

DRIVER = "gpu.example"
FPGA = "example.com/fpga"
ZONES = ("a", "b")
DISKS = 6


def world(rng: Random) -> list[Json]:
    """Nodes, devices, classes, claims, and pods of which some have their node."""
    nodes = [_node(rng, number) for number in range(rng.randint(2, 5))]
    slices = [_slice(rng, node["metadata"]["name"]) for node in nodes]
    if rng.random() < 0.3:
        slices.append(_shared_slice(rng))
    pods, claims = [], [_claim(rng, f"shared-{number}") for number in range(2)]
    for number in range(rng.randint(6, 14)):
        pod, own = _pod(rng, number, nodes)
        pods.append(pod)
        claims += own
    objects = [*nodes, *slices, *_classes(), _namespace(), *_services(), *_storage(rng, nodes, pods), *claims, *pods]
    return [*objects, *_taint_rules(rng, nodes)]


def _object(kind: str, name: str, version: str = "v1", **fields: object) -> Json:
    metadata: Json = {"name": name, "uid": f"uid-{kind}-{name}", "resourceVersion": "1"}
    if kind in ("Pod", "ResourceClaim", "Service", "PersistentVolumeClaim"):
        metadata["namespace"] = "work"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _of_resource(kind: str, name: str, spec: Json) -> Json:
    return _object(kind, name, "resource.k8s.io/v1", spec=spec)


def _taint_rules(rng: Random, nodes: list[Json]) -> list[Json]:
    """A rule that keeps a device of a node from everybody, in some worlds."""
    if rng.random() < 0.6:
        return []
    selector = {"driver": DRIVER, "pool": rng.choice(nodes)["metadata"]["name"], "device": "dev-0"}
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoSchedule"}}
    return [_object("DeviceTaintRule", "broken", "resource.k8s.io/v1beta2", spec=spec)]


def _namespace() -> Json:
    return _object("Namespace", "work")


def _classes() -> list[Json]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    fpga = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "fpga"'}}
    return [
        _of_resource("DeviceClass", "gpu", {"selectors": [selector]}),
        _of_resource("DeviceClass", "fpga", {"selectors": [fpga], "extendedResourceName": FPGA}),
    ]


def _node(rng: Random, number: int) -> Json:
    name = f"node-{number}"
    spec: Json = {"unschedulable": True} if rng.random() < 0.1 else {}
    if rng.random() < 0.3:
        effect = rng.choice(("NoSchedule", "PreferNoSchedule"))
        spec["taints"] = [{"key": "for", "value": rng.choice(ZONES), "effect": effect}]
    allocatable = {"cpu": rng.choice(("2", "4", "8")), "memory": rng.choice(("4Gi", "8Gi")), "pods": rng.choice("3699")}
    if rng.random() < 0.3:
        allocatable[FPGA] = rng.choice("012")
    made = _object("Node", name, spec=spec, status={"allocatable": allocatable})
    made["metadata"]["labels"] = {"zone": rng.choice(ZONES), "kubernetes.io/hostname": name}
    return made


def _devices(rng: Random, number: int) -> list[Json]:
    return [
        {"name": f"dev-{n}", "attributes": {"model": {"string": rng.choice(("gpu", "fpga"))}, "numa": {"int": n // 2}}}
        for n in range(number)
    ]


def _slice(rng: Random, node: str) -> Json:
    spec = {"nodeName": node, "devices": _devices(rng, rng.randint(0, 4))}
    return _in_pool(node, spec)


def _shared_slice(rng: Random) -> Json:
    return _in_pool("everywhere", {"allNodes": True, "devices": _devices(rng, 2)})


def _in_pool(pool: str, spec: Json) -> Json:
    described = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return _of_resource("ResourceSlice", pool, {"driver": DRIVER, "pool": described, **spec})


def _claim(rng: Random, name: str) -> Json:
    exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": rng.choice((1, 1, 2))}
    if rng.random() < 0.3:
        expression = f'device.attributes["{DRIVER}"].model == "{rng.choice(("gpu", "fpga"))}"'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    request: Json = {"name": "r", "exactly": exactly}
    if rng.random() < 0.2:
        first = {"name": "fpga", "deviceClassName": "fpga", "allocationMode": "ExactCount", "count": 1}
        second = {"name": "any", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        request = {"name": "r", "firstAvailable": [first, second]}
    devices: Json = {"requests": [request]}
    if rng.random() < 0.3:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    return _of_resource("ResourceClaim", name, {"devices": devices})


def _pod(rng: Random, number: int, nodes: list[Json]) -> tuple[Json, list[Json]]:
    name = f"pod-{number:02}"
    requests = {"cpu": rng.choice(("100m", "250m", "2")), "memory": rng.choice(("100Mi", "500Mi", "3Gi"))}
    container: Json = {"name": "c", "image": "none", "resources": {"requests": requests}}
    if rng.random() < 0.25:
        amount = {FPGA: rng.choice("12")}
        container["resources"] = {"requests": {**requests, **amount}, "limits": amount}
    if rng.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]
    spec: Json = {"schedulerName": "ours", "containers": [container], "priority": rng.choice((0, 0, 5))}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"zone": rng.choice(ZONES)}
    if rng.random() < 0.4:
        spec["tolerations"] = [{"key": "for", "operator": "Exists"}]
    if affinity := _affinity(rng):
        spec["affinity"] = affinity
    if rng.random() < 0.25:
        spec["topologySpreadConstraints"] = [_constraint(rng)]
    if rng.random() < 0.3:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{rng.randrange(DISKS)}"}}]
    if rng.random() < 0.25:
        spec["nodeName"] = rng.choice(nodes)["metadata"]["name"]
        return _labelled(rng, name, spec), []
    own = [_claim(rng, f"{name}-{n}") for n in range(rng.choice((0, 1, 1, 2)))]
    names = [one["metadata"]["name"] for one in own]
    if rng.random() < 0.2:
        names.append(f"shared-{rng.randint(0, 1)}")
    spec["resourceClaims"] = [{"name": f"e-{n}", "resourceClaimName": claim} for n, claim in enumerate(names)]
    return _labelled(rng, name, spec), own


def _labelled(rng: Random, name: str, spec: Json) -> Json:
    made = _object("Pod", name, spec=spec)
    made["metadata"]["labels"] = {"app": rng.choice(ZONES)}
    if "nodeName" not in spec and rng.random() < 0.15:
        made["status"] = {"nominatedNodeName": f"node-{rng.randint(0, 4)}"}
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{rng.randint(0, 20):02}Z"
    return made


def _constraint(rng: Random) -> Json:
    how = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
    selector = {"matchLabels": {"app": rng.choice(ZONES)}}
    key = rng.choice(("zone", "kubernetes.io/hostname"))
    return {"maxSkew": rng.choice((1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": how, "labelSelector": selector}


def _services() -> list[Json]:
    """One, which spreads the pods of one app that do not say how."""
    return [_object("Service", "a", spec={"selector": {"app": "a"}})]


def _storage(rng: Random, nodes: list[Json], pods: list[Json]) -> list[Json]:
    """A class without a provisioner, disks that are on one node each, and claims, some bound; those in use are."""
    provisioner = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    used = {volume["persistentVolumeClaim"]["claimName"] for pod in pods for volume in _volumes_on_nodes(pod)}
    found = [_object("StorageClass", "local", "storage.k8s.io/v1", **provisioner)]
    for number in range(DISKS):
        is_bound = f"data-{number}" in used or rng.random() < 0.4
        node = rng.choice(nodes)["metadata"]["name"]
        found.append(_disk(f"disk-{number}", node, rng.choice(("1Gi", "2Gi")), number if is_bound else None))
        found.append(_volume_claim(number, rng.choice(("1Gi", "1Gi", "2Gi")), is_bound=is_bound))
    return found


def _volumes_on_nodes(pod: Json) -> list[Json]:
    return pod["spec"].get("volumes", []) if "nodeName" in pod["spec"] else []


def _disk(name: str, node: str, size: str, number: int | None) -> Json:
    """number: of the claim to which it is bound."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec: Json = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    if number is not None:
        uid = f"uid-PersistentVolumeClaim-data-{number}"
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "work", "name": f"data-{number}", "uid": uid}
    return _object("PersistentVolume", name, spec=spec, status={"phase": "Available" if number is None else "Bound"})


def _volume_claim(number: int, size: str, *, is_bound: bool) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": size}},
        **({"volumeName": f"disk-{number}"} if is_bound else {}),
    }
    status = {"phase": "Bound" if is_bound else "Pending"}
    made = _object("PersistentVolumeClaim", f"data-{number}", spec=spec, status=status)
    if is_bound:
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return made


def _pod_affinity(rng: Random) -> Json:
    """To or against the pods of an app, required or preferred."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": rng.choice(ZONES)}}}
    if rng.random() < 0.5:
        term["topologyKey"] = "kubernetes.io/hostname"
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
    return {rng.choice(("podAffinity", "podAntiAffinity")): rng.choice((required, preferred, preferred))}


def _affinity(rng: Random) -> Json:
    return {**_node_affinity(rng), **(_pod_affinity(rng) if rng.random() < 0.3 else {})}


def _node_affinity(rng: Random) -> Json:
    if rng.random() < 0.3:
        wanted = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}]}
        preferred = [{"weight": rng.choice((1, 50)), "preference": wanted}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {}
