"""Where the rounds take place, and the pods that come: devices, shares, partitions, volumes, and what users write."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.controlplane.contents import restore
from tests.controlplane.rest import (
    CLASS,
    NAMESPACE,
    STORAGE_CLASS,
    TEMPLATE,
    VOLUME,
    VOLUME_CLAIM,
    Json,
    Kind,
    RestClient,
)
from tests.soak.furnish import (
    GPU,
    NIC,
    PART,
    an_object,
    classes,
    devices_of_all_nodes,
    fleet,
    ports_of_node,
    request,
    requests_of,
    selector,
)
from tests.soak.mix.plan import GROUP_LABEL, MINIMUM
from tests.soak.objects import a_claim, a_pod, by_name, from_template

PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass")

NAME = "chaos"
"""The namespace; admin access is allowed in it."""

OURS, SECOND, THEIRS = "dra-scheduler", "second-scheduler", "dra-kube-scheduler"
SCHEDULERS = (OURS, SECOND, THEIRS)
EVICTING = (OURS, SECOND)
"""kube-scheduler evicts nobody for a device that an extender lacks: before 1.38 it does not ask the extender."""
NODES, PORTS, POOLS = 8, 4, 16
PORTS_NODE = "node-000"
"""The only one that reaches the ports."""
SPREAD, SPREAD_PODS = "spread", 4
LOCAL = "local"
EXTENDED = "example.com/whole-gpu"


class PodKind(NamedTuple):
    """What a pod asks for. templates: of its claims. often: of further pods of a round, beside one of each kind.

    schedulers: whose it may be.
    """

    templates: tuple[str, ...] = ()
    often: int = 1
    schedulers: tuple[str, ...] = SCHEDULERS


KINDS = {
    "gpu": PodKind(("gpu",), 6),
    "gpu-nic": PodKind(("gpu", "nic"), 3),
    "quarter": PodKind(("quarter",), 3),
    "half": PodKind(("half",), 2),
    "memory": PodKind(("memory",), 3),
    "first": PodKind(("first",), 3),
    "admin": PodKind(("admin",)),
    "shared": PodKind((), 2),
    "extended": PodKind((), 2, (OURS, SECOND)),
    "gang": PodKind(("gpu",), 2, (OURS, SECOND)),
    "volume": PodKind(("nic",), 1),  # on one node alone: of what there is enough of on each
}
"""What comes in each round, so that there is enough of it for everybody."""

SCARCE = PodKind(("fabric",))
"""There are `PORTS` of these, and more pods want one, of any priority."""

PRIORITIES = {"low": 1, "middle": 10, "high": 20}
GANGS = (2, 3)
"""How many pods a gang has, all of which are to be placed."""


class Arrival(NamedTuple):
    """What comes together: pods, and before them what they name."""

    kind: str
    pods: tuple[Json, ...]
    before: tuple[Json, ...] = ()


def furnish(api: RestClient) -> None:
    """Put nodes, devices, classes and templates there."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    api.create({"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": NAME, "labels": labels}})
    restore(api, [*fleet(NODES), *devices(), *classes(), *_templates()])
    found = api.get(CLASS, GPU)
    api.replace({**found, "spec": {**found["spec"], "extendedResourceName": EXTENDED}})
    wait = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    api.create(an_object(STORAGE_CLASS, LOCAL, **wait))
    for name, value in PRIORITIES.items():
        api.create(an_object(PRIORITY_CLASS, name, value=value))


def devices() -> Iterator[Json]:
    """Devices beside those that the fleet has."""
    # "Only devices of a single node come free by evictions" (docs/explain.md), so pods of higher priority could not win
    # ports that all nodes reach.
    yield from devices_of_all_nodes(0, POOLS)
    yield ports_of_node(PORTS_NODE, PORTS)


def _templates() -> Iterator[Json]:
    for kind in ("gpu", "nic", "quarter", "half", "memory", "admin", "fabric"):
        yield _template(kind, requests_of(kind))
    half = {
        "name": "half",
        "deviceClassName": PART,
        "selectors": [selector(f"device.attributes['{PART}'].profile == 'half'")],
    }
    nic = {"name": "nic", "deviceClassName": NIC, "capacity": {"requests": {"bandwidth": "20G"}}}
    none = {"name": "none", "deviceClassName": GPU, "selectors": [selector(f"device.attributes['{GPU}'].index > 99")]}
    yield _template("first", [{"name": "r", "firstAvailable": [none, half, nic]}])


def _template(name: str, requests: Sequence[Json]) -> Json:
    return an_object(TEMPLATE, name, NAME, spec={"spec": {"devices": {"requests": list(requests)}}})


def arrival(chance: Random, name: str, kind: str, spread_scheduler: str) -> Arrival:
    """What comes under the name."""
    if kind == SPREAD:
        return Arrival(kind, (_spread(name, spread_scheduler),))
    wanted = SCARCE if kind == "scarce" else KINDS[kind]
    scheduler = chance.choice(wanted.schedulers)
    entries = [from_template(one, one) for one in wanted.templates]
    if kind == "shared":
        claim = a_claim(NAME, name, [request(GPU)])
        return Arrival(kind, tuple(_pod(f"{name}-{one}", scheduler, [by_name(name)]) for one in "ab"), (claim,))
    if kind == "gang":
        pods = [_pod(f"{name}-{one}", scheduler, entries) for one in range(chance.choice(GANGS))]
        return Arrival(kind, tuple(_member(pod, name, len(pods)) for pod in pods))
    if kind == "extended":
        amounts = {EXTENDED: "1"}
        container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        return Arrival(kind, (_pod(name, scheduler, [], containers=[container]),))
    if kind == "volume":
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        node = f"node-{chance.randrange(NODES):03d}"
        return Arrival(kind, (_pod(name, scheduler, entries, volumes=volumes),), tuple(_storage(name, node)))
    priority = {"priorityClassName": chance.choice(list(PRIORITIES))} if kind == "scarce" else {}
    return Arrival(kind, (_pod(name, scheduler, entries, **priority),))


def _member(pod: Json, group: str, pods: int) -> Json:
    """The pod as one of a group of so many that are placed together."""
    metadata = {"labels": {GROUP_LABEL: group}, "annotations": {MINIMUM: str(pods)}}
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def _pod(name: str, scheduler: str, entries: Sequence[Json], **spec: object) -> Json:
    return a_pod(NAME, name, entries, **{"schedulerName": scheduler, **spec})


def _spread(name: str, scheduler: str) -> Json:
    """One of a group of which each is on a node of its own."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"group": SPREAD}},
    }
    pod = _pod(name, scheduler, [from_template("gpu")], topologySpreadConstraints=[constraint])
    return {**pod, "metadata": {**pod["metadata"], "labels": {"group": SPREAD}}}


def _storage(name: str, node: str) -> Iterator[Json]:
    """A volume that one node reaches, and a claim for one."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"storageClassName": LOCAL, "accessModes": ["ReadWriteOnce"]}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d.example", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    yield an_object(VOLUME, name, spec=volume)
    yield an_object(VOLUME_CLAIM, name, NAME, spec={**common, "resources": {"requests": {"storage": "1Gi"}}})
