"""Plans as objects: the same for ever, one the beginning of another, and of use to whoever allocates."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import orjson
import pytest

from allocator.api.versions import Json
from allocator.gates import DEFAULT_RELEASE, Features
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import take_inventory
from scheduler.offline.input_claims import Claims, identified
from scheduler.offline.placement import PlacedPod, Placement
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.simulation.blueprint import Blueprint, InvalidMix, machines_of, shapes_of
from scheduler.simulation.catalogue import MACHINES, PRESETS, shapes

MACHINE_OF = {"cpu": "cpu", "gpu": "gpu-h100", "mig": "mig-h100", "nic": "nic-h100", "share": "shared-h100"}
"""Where pods go, by the beginning of the names of their shapes."""

FEATURES = Features.of(DEFAULT_RELEASE)


def a_blueprint(
    preset: str = "mixed", *, nodes: int = 30, pods: int = 100, devices: int = 8, seed: int = 1
) -> Blueprint:
    chosen = PRESETS[preset]
    return Blueprint(seed, machines_of(chosen, {}), nodes, devices, shapes_of(chosen, {}, devices), pods, "default")


def machine_for(shape: str) -> str:
    if shape == "gpu-a100":
        return shape
    kind, _, details = shape.partition("-")
    has_nics = kind != "share" and ("nic" in details or "rdma" in details)
    return "nic-h100" if has_nics else MACHINE_OF[kind]


def of_kind(found: Iterator[Json], kind: str) -> list[Json]:
    return [one for one in found if one["kind"] == kind]


def placed(blueprint: Blueprint) -> list[object]:
    """What becomes of each pod; the input is without errors and warnings."""
    objects = list(blueprint.objects())
    inventory = take_inventory((RawObject(Place("blueprint"), raw) for raw in objects), features=FEATURES)
    assert not [*inventory.errors, *inventory.warnings]
    claims = Claims(inventory)
    cluster = cluster_of(inventory, claims, inventory.pods, FEATURES)
    pods = identified(inventory.pods, lambda pod: pod.priority)
    return list(Placement(cluster, claims, inventory.namespaces).run(pods, [], lambda *_: None))


def test_objects_of_a_seed_are_the_same_for_ever() -> None:
    text = b"".join(map(orjson.dumps, a_blueprint().objects()))
    assert hashlib.sha256(text).hexdigest() == "bd35c0e27383651a747450f9ceeab098d5ec4e9c61db67055655010ca9e51f46"
    assert b"".join(map(orjson.dumps, a_blueprint(seed=2).objects())) != text


def test_a_smaller_plan_is_the_beginning_of_a_larger_one() -> None:
    small, large = a_blueprint(nodes=10, pods=20), a_blueprint(nodes=30, pods=100)
    fleet = list(small.fleet())
    assert fleet == list(islice(large.fleet(), len(fleet)))
    workload = list(small.workload())
    assert workload == list(islice(large.workload(), len(workload)))


def test_a_fleet_does_not_depend_on_its_workload() -> None:
    fleets = [list(a_blueprint(pods=pods).fleet()) for pods in (0, 1000)]
    assert fleets[0] == fleets[1]


@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_preset_makes_is_read_without_a_word_and_mostly_placed(preset: str) -> None:
    found = placed(a_blueprint(preset, nodes=40, pods=40))
    assert len(found) == 40
    assert sum(isinstance(one, PlacedPod) for one in found) >= 36


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_an_empty_node_holds_each_shape_that_there_is_for_its_size(devices: int) -> None:
    known = shapes(devices)
    assert devices < 8 or len(known) == len(shapes(64))
    for name in known:
        blueprint = a_blueprint("mixed", nodes=1, pods=1, devices=devices)
        machines = machines_of(PRESETS["mixed"], {machine_for(name): 1})
        (found,) = placed(replace(blueprint, machines=machines, shapes=shapes_of(PRESETS["mixed"], {name: 1}, devices)))
        assert isinstance(found, PlacedPod), (name, found)


@pytest.mark.parametrize("machine", MACHINES)
def test_slices_keep_the_limits_of_the_api_and_are_all_there(machine: str) -> None:
    blueprint = replace(a_blueprint(nodes=1, devices=64, pods=0), machines=machines_of(PRESETS["mixed"], {machine: 1}))
    slices = of_kind(blueprint.fleet(), "ResourceSlice")
    pools = Counter((one["spec"]["driver"], one["spec"]["pool"]["resourceSliceCount"]) for one in slices)
    assert all(number == count for (_, count), number in pools.items())
    names = [device["name"] for one in slices for device in one["spec"].get("devices", ())]
    assert len(names) == len(set(names)) or machine == "nic-h100"
    assert bool(names) == bool(MACHINES[machine].drivers)


def test_pods_with_claims_of_their_own_have_one_each() -> None:
    found = list(replace(a_blueprint("mixed", pods=50), own_claims=True).workload())
    claims = {one["metadata"]["name"] for one in found if one["kind"] == "ResourceClaim"}
    named = [entry for pod in found if pod["kind"] == "Pod" for entry in pod["spec"].get("resourceClaims", ())]
    assert {entry["resourceClaimName"] for entry in named} == claims
    assert len(named) == len(claims) > 30
    assert not any(one["kind"] == "ResourceClaimTemplate" for one in found)


@pytest.mark.parametrize(
    ("weights", "devices", "message"),
    [
        ({"gpu-3": 1}, 8, "'gpu-3': no such shape for nodes with 8 devices; did you mean gpu-"),
        ({"gpu-2": 1}, 1, "'gpu-2': no such shape for nodes with 1 device"),
        ({"gpu-1": 0}, 8, "no shape has a weight above 0"),
    ],
)
def test_a_mix_that_cannot_be_made_is_refused_by_name(weights: dict[str, int], devices: int, message: str) -> None:
    with pytest.raises(InvalidMix, match=message):
        shapes_of(PRESETS["gpu"], weights, devices)


def test_a_fleet_is_drawn_by_the_weights_of_its_machines() -> None:
    nodes = of_kind(a_blueprint("gpu", nodes=3000, pods=0).fleet(), "Node")
    found = Counter(node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes)
    assert found["gpu-h100"] / 3000 == pytest.approx(2 / 3, abs=0.03)
    assert found["gpu-a100"] == 3000 - found["gpu-h100"]
