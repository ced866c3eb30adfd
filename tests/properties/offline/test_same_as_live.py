"""On the same objects `dra allocate` gives every pod the node and the devices that the live scheduler gives it."""

import copy
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from allocator.gates import Features
from allocator.policies import policy_of
from scheduler.input.documents import Place, RawObject, read
from scheduler.input.inventory import take_inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import PlacedPod, Placement
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.profile import Profile
from tests.properties.offline.live import Given, Json, LiveScheduler
from tests.properties.offline.worlds import world

EACH = 40
POLICIES = ("first-fit", "pack", "spread", "topology:gpu.example/numa")
SAID = ("affinity", "topologySpreadConstraints", "volumes")
"""What some of the pods say that get a node."""

INVENTORIES = Path(__file__).parents[3].parent / "shared" / "inventories"


def offline(objects: list[Json], features: Features, policy: str) -> dict[str, Given]:
    """Pod to what it gets, of those that have no node in the input."""
    numbered = (RawObject(Place("world", number), raw) for number, raw in enumerate(copy.deepcopy(objects)))
    inventory = take_inventory(numbered, features=features)
    assert [str(error) for error in inventory.errors] == []
    claims = Claims(inventory)
    cluster = cluster_of(inventory, claims, inventory.pods, features, profiles=(Profile(policy=policy_of(policy)),))
    placement = Placement(cluster, claims, inventory.namespaces)
    results = placement.run([pod for pod in inventory.pods if not pod.node_name], (), lambda *_: None)
    given: dict[str, Given] = {}
    for one in results:
        allocations = [claim.allocation for claim in one.claims if claim.allocation]
        devices = tuple(str(result.id) for allocation in allocations for result in allocation.results)
        given[str(one.pod)] = (one.node, devices) if isinstance(one, PlacedPod) else ("", ())
    return given


@pytest.mark.parametrize("policy", POLICIES)
def test_both_doors_give_the_same_nodes_and_devices(policy: str) -> None:
    features = Features.of("1.36", {"DRADeviceTaints": True, "DRADeviceTaintRules": True})
    seen: Counter[str] = Counter()
    for seed in range(EACH):
        objects = world(Random(f"{policy} {seed}"))  # noqa: S311 - not for secrets
        live = LiveScheduler(copy.deepcopy(objects), features, policy_of(policy)).run()
        assert offline(objects, features, policy) == live, f"seed {seed}"
        for node, devices in live.values():
            seen["devices" if devices else "a node" if node else "none"] += 1
        seen.update(field for raw in objects for field in SAID if field in raw.get("spec", ()) and given_to(raw, live))
    assert min(seen[what] for what in ("devices", "a node", "none")) >= EACH // 2, f"too little happens: {seen}"
    assert min(seen[what] for what in SAID) >= EACH // 4, f"too little happens: {seen}"


def given_to(raw: Json, live: dict[str, Given]) -> str:
    """The node that a pod of the world has got."""
    node, _ = live.get(f"work/{raw['metadata']['name']}", ("", ()))
    return node


@pytest.mark.skipif(not INVENTORIES.is_dir(), reason=f"the fleet is not at hand: {INVENTORIES} is absent")
@pytest.mark.parametrize("policy", POLICIES)
def test_both_doors_place_a_real_fleet_alike(policy: str) -> None:
    features = Features.of("1.36")
    found = list(read([str(INVENTORIES / name) for name in ("cluster.yaml", "pending.yaml")]))
    objects = [one.raw for one in found if isinstance(one, RawObject)]
    assert len(objects) == len(found)
    raws = [dict(raw) for raw in objects]
    live = LiveScheduler(copy.deepcopy(raws), features, policy_of(policy)).run()
    assert offline(raws, features, policy) == live
    assert sum(bool(node) for node, _ in live.values()) > 40
