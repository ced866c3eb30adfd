"""Objects that cannot be read, or are nested deep, beside good ones: the scheduler goes on, and says which they are."""

import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM, CLASS, NODE, POD, SLICE, Json, Kind
from tests.integration.live.world import EVENT, NAMESPACE, SCHEDULER, World, an_object
from tests.integration.odd_world import CHANGES, KINDS, RESOURCES, OddWorld, spec_of_no_shape, what_the_api_server_takes
from tests.odd_objects import nested

DEPTHS = (200, 249, 255, 1000, 1016, 1024, 2500)


@pytest.fixture
def _deep_json() -> Iterator[None]:
    """The test reads what is nested so deep, too, when it looks at claims and removes them."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("_deep_json")
def test_claims_with_parameters_of_any_depth_are_allocated_and_their_pods_bound(world: World) -> None:
    world.a_cluster(devices=len(DEPTHS))
    for depth in DEPTHS:
        world.api.create_text(CLAIM, NAMESPACE, a_deep_claim(f"deep-{depth}", depth))
    for depth in DEPTHS:
        world.a_pod(f"deep-{depth}", f"deep-{depth}")
    for depth in DEPTHS:
        world.bound(f"deep-{depth}")
        claim = world.claim(f"deep-{depth}")
        asked, given = claim["spec"]["devices"]["config"], claim["status"]["allocation"]["devices"]["config"]
        assert given[0]["opaque"] == asked[0]["opaque"]


def a_deep_claim(name: str, depth: int) -> bytes:
    text = """{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"%s"},"spec":{"devices":{
    "requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}],
    "config":[{"opaque":{"driver":"gpu.example","parameters":%s}}]}}}"""
    return (text % (name, nested(depth).replace(" ", ""))).encode()


TAKEN = 600
"""Odd objects that the API server is asked to take; it takes every sixth or so."""

_METADATA = {
    "labels": {"a": "b"},
    "annotations": {"a": "b", "dra-scheduler.dev/intent": "{}"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
}
_EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
_TERM = {"matchExpressions": [_EXPRESSION]}
_PARTS = {"a": {"string": "b"}, "b": {"int": 1}, "c": {"bool": True}, "d": {"version": "1.0.0"}}
_OPAQUE = {"opaque": {"driver": "gpu.example", "parameters": {"a": 1}}}
_CONTAINER = {
    "name": "c",
    "image": "none",
    "resources": {"requests": {"cpu": "1m", "memory": "1"}, "limits": {"cpu": "1", "example.com/a": "1"}},
    "ports": [{"containerPort": 1, "hostPort": 1}],
}
GOOD: Mapping[Kind, Json] = {
    NODE: {
        "spec": {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110", "example.com/a": "1"}},
    },
    POD: {
        "spec": {
            "schedulerName": SCHEDULER,
            "nodeSelector": {"a": "b"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _TERM}],
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b"}}}
                    ]
                },
            },
            "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "nobodys"},
                {"name": "b", "resourceClaimName": "nobodys"},
            ],
            "initContainers": [{**_CONTAINER, "name": "i", "restartPolicy": "Always"}],
            "containers": [_CONTAINER],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }
    },
    CLAIM: {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "selectors": [{"cel": {"expression": "true"}}],
                            "allocationMode": "ExactCount",
                            "count": 1,
                            "tolerations": [{"key": "a", "operator": "Exists"}],
                            "capacity": {"requests": {"memory": "1"}},
                        },
                    },
                    {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "gpu"}]},
                ],
                "constraints": [{"requests": ["r", "s"], "matchAttribute": "gpu.example/a"}],
                "config": [_OPAQUE],
            }
        }
    },
    CLASS: {"spec": {"selectors": [{"cel": {"expression": "true"}}], "config": [_OPAQUE]}},
    SLICE: {
        "spec": {
            "driver": "odd.example",
            "pool": {"name": "odd", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "odd",
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": _PARTS,
                    "capacity": {"memory": {"value": "80Gi"}},
                    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                    "allowMultipleAllocations": True,
                }
            ],
        }
    },
}


def test_whatever_the_api_server_takes_costs_itself_alone(world: World) -> None:
    world.a_cluster()
    objects = {kind: an_object(kind, "odd", {}, KINDS[kind]) | GOOD[kind] for kind in GOOD}
    objects = {kind: {**obj, "metadata": {**obj["metadata"], **_METADATA}} for kind, obj in objects.items()}
    taken = what_the_api_server_takes(world, objects, TAKEN)
    assert taken > TAKEN / 20
    world.a_claim("good")
    world.a_pod("good", "good")
    world.bound("good")
    assert world.attempts("error") == 0
    assert "Traceback" not in world.program.log.read_text()


@pytest.fixture
def odd(world: World) -> Iterator[OddWorld]:
    found = OddWorld(world, SCHEDULER)
    yield found
    found.end()


def test_object_that_cannot_be_read_costs_itself_alone_and_is_named(world: World, odd: OddWorld) -> None:
    for name, change in CHANGES.items():
        odd.tell(change)
        odd.place(name)
    world.await_metric('dra_scheduler_watch_refused_objects{resource="nodes"}', odd.refused()["pods"])
    log = world.program.log.read_text()
    for watch, name in (
        ("nodes (v1)", "odd"),
        ("pods (v1)", "live/odd"),
        ("resourceclaims (resource.k8s.io/v1)", "live/odd"),
    ):
        assert f"{watch}: skipping {name}: spec: must be an object (got 7)" in log
    events = world.api.await_all(EVENT, lambda found: any(one["reason"] == "Unreadable" for one in found))
    assert {one["regarding"]["kind"] for one in events if one["reason"] == "Unreadable"} >= {"ResourceClaim"}


@pytest.mark.parametrize("pages", [False, True])
def test_program_starts_where_objects_cannot_be_read(
    world: World, odd: OddWorld, plane: ControlPlane, *, pages: bool
) -> None:
    if pages:
        odd.list_by_pages()
    odd.tell(spec_of_no_shape)
    with scheduler(plane, ["--dry-run"], kubeconfig=world.proxy.kubeconfig(OURS), name="second") as second:
        assert refused_by(second) == dict.fromkeys(RESOURCES, 1.0)
        odd.place("good")


def refused_by(program: Scheduler) -> dict[str, float]:
    series = "dra_scheduler_watch_refused_objects"
    lines = [line for line in program.reported("/metrics").splitlines() if line.startswith(series)]
    reported = {line.partition(" ")[0]: float(line.partition(" ")[2]) for line in lines}
    return {one: reported[f'{series}{{resource="{one}"}}'] for one in RESOURCES}
