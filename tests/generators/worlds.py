"""Random cases for kube-scheduler's plugins: a cluster in one to three zones, and a pod to place in it.

A case has the format of `dra verify scheduling` without the answer (tests/controlplane/plugins answers it). Values are
few on purpose, so that they coincide often. Objects are complete, as an API server hands them out; a few of them are
odd. Which aspects a case may be about is chosen by name.
"""

from collections.abc import Collection
from random import Random

from tests.generators.draw import Draw, Json
from tests.generators.node_devices import Devices
from tests.generators.storage import Storage
from tests.generators.workloads import HOST, NAMESPACES, RACK, ZONE, controllers, pod_named, services

ASPECTS = ("Affinity", "Spread", "Volumes", "Devices", "Nominated", "Requests", "Nodes")
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"

_OF_OBJECTS = {"metadata", "name", "namespace", "uid", "spec", "status", "pod", "nodes", "pods", "namespaces"}
_OF_PODS = {"containers", "schedulerName", "nodeName", "topologyKey", "weight", "podAffinityTerm", "preference"}
_OF_SPREAD = {"maxSkew", "whenUnsatisfiable", "key", "operator", "values", "effect", "selector", "template"}
_OF_STORAGE = {"provisioner", "storageClassName", "capacity", "driver", "volumeHandle", "accessModes", "resources"}
_OF_VOLUMES = {"attacher", "source", "persistentVolumeName", "pool", "allocatable", "nodeSelectorTerms"}
_OF_CLAIMS = {"devices", "requests", "exactly", "firstAvailable", "deviceClassName", "allocationMode", "count"}
_OF_DEVICES = {"request", "device", "results", "allocation", "reservedFor", "resource", "resourceClaimName"}
_OF_SLICES = {"generation", "resourceSliceCount", "cel", "expression"}
ESSENTIAL = _OF_OBJECTS | _OF_PODS | _OF_SPREAD | _OF_STORAGE | _OF_VOLUMES | _OF_CLAIMS | _OF_DEVICES | _OF_SLICES
"""What no object of a case can do without; for making a case smaller."""


def case(rng: Random, aspects: Collection[str] = ASPECTS) -> Json:
    """A case about some of the aspects, each of them in half of the cases, so that few and many of them meet."""
    draw = Draw(rng, frozenset(one for one in aspects if rng.random() < 0.5))
    nodes = [_node(draw, number) for number in range(draw.pick((1, 2, 3, 3, 4, 5, 6, 8)))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [_placed(draw, number, names) for number in range(rng.randint(0, 14))]
    own = pod_named(draw, "new")
    if draw.about("Nominated", 0.2):
        own["status"]["nominatedNodeName"] = draw.pick(names)
    storage, devices = Storage(draw, names), Devices(draw, names)
    for one in (*pods, own):
        storage.give(one)
        devices.give(one)
    return {
        "nodes": nodes,
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
        "pods": pods,
        "pod": own,
        **services(draw),
        **controllers(draw),
        **storage.objects(),
        **devices.objects(),
    }


def cases(rng: Random, count: int, aspects: Collection[str] = ASPECTS) -> list[Json]:
    """So many cases."""
    return [case(rng, aspects) for _ in range(count)]


def _node(draw: Draw, number: int) -> Json:
    name = f"n{number}"
    labels = {HOST: name}
    for key, values, share in ((ZONE, "abc", 0.8), (RACK, ("r1", "r2", "r3"), 0.5), ("pool", ("cpu", "gpu"), 0.5)):
        if draw.chance(share):
            labels[key] = draw.pick(values)
    if draw.about("Volumes", 0.1):
        labels[BETA_ZONE] = draw.pick("abc")
    return {"metadata": {"name": name, "labels": labels}, "spec": _node_spec(draw), "status": _node_status(draw)}


def _node_spec(draw: Draw) -> Json:
    is_odd = draw.about("Nodes")
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    taints = [
        {"key": key, "value": draw.pick(("db", "ml")), "effect": draw.pick(effects)}
        for key in ("dedicated", "example.com/maintenance")
        if draw.chance(0.15 if is_odd else 0.05)
    ]
    return {"taints": taints, "unschedulable": is_odd and draw.chance(0.1)}


def _node_status(draw: Draw) -> Json:
    tight = draw.about("Requests")
    allocatable = {
        "cpu": draw.pick(("2", "4", "3500m") if tight else ("8", "16")),
        "memory": draw.pick(("4Gi", "8Gi") if tight else ("16Gi", "33000000000")),
        "pods": draw.pick(("3", "110") if tight else ("110",)),
        "ephemeral-storage": "100Gi",
        **({"example.com/card": draw.pick("124")} if tight and draw.chance(0.6) else {}),
    }
    features = draw.some(("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"), most=2)
    return {
        "allocatable": allocatable,
        "images": [
            {"names": [f"registry.example/{name}"], "sizeBytes": draw.pick((50_000_000, 900_000_000))}
            for name in ("small:1", "big:latest")
            if draw.chance(0.3)
        ],
        "declaredFeatures": features if draw.about("Nodes", 0.7) else [],
    }


def _placed(draw: Draw, number: int, names: list[str]) -> Json:
    """A pod on a node, as a rule: some are only nominated to one, or pending, and some nodes are gone."""
    pod = pod_named(draw, f"p{number}")
    node = "gone" if draw.chance(0.02) else draw.pick(names)
    if draw.about("Nominated", 0.4):
        pod["status"] = {"nominatedNodeName": node}
    elif draw.chance(0.97):
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running"}
    if "nominatedNodeName" not in pod["status"] and draw.chance(0.08):
        pod["metadata"] |= {"deletionTimestamp": "2026-11-20T00:00:00Z", "finalizers": ["example.com/hold"]}
    return pod
