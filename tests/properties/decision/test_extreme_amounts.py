"""Amounts that a driver may write, however absurd beside each other: every policy places what first-fit places.

Its choice, its scores and the explanation are asked for, with the workload known to policies that look at it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.explain.node_explanation import explain_on
from allocator.model import Claim, CounterConsumption, CounterSet, Device, Request, RequestPolicy, Slice
from allocator.outcome import Allocated, AllocationError, Outcome, Refused
from allocator.policies import NAMES, policy_of
from cel.values.quantity import Quantity
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import Failed, NotPlaced, Placed
from scheduler.decision.why_not import NodeAnswer, answers_of
from scheduler.plugins.profile import Profile
from scheduler.state.pods import pod_requests
from tests.builders import (
    DRIVER,
    NODE,
    POOL,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pod,
    a_result,
    a_slice,
    amounts,
    an_allocated_claim,
    an_alternative,
    kubernetes,
    watched,
)
from tests.properties.allocator.choices import Choices, Values

EACH: Final = 60
FEATURES: Final = kubernetes(DRAConsumableCapacity=True)

EXTREMES: Final = (
    *("1", "80", "80Gi", "0", "-1", "1n", "1000000000000000000", "-1000000000000000000"),
    *("9223372036854775807", "3e300", "-3e300", "1e9000"),
)
"""A slip such as `80` for `80Gi`, nothing, less than nothing, the least and the most, and more than a float can be."""


@dataclass(frozen=True)
class World:
    """Devices of one node that are cut from counter sets or shared, what is in use of them, and a claim."""

    slices: Sequence[Slice]
    held: Sequence[Claim]
    claim: Claim
    workload: Sequence[Claim]


def an_amount(draw: Choices) -> Quantity:
    return Quantity.parse(draw.pick(EXTREMES))


def some_amounts(draw: Choices) -> dict[str, Quantity]:
    return {name: an_amount(draw) for name in draw.pick((("memory",), ("memory", "cores")))}


def a_random_device(draw: Choices, number: int, sets: Mapping[str, Mapping[str, Quantity]]) -> Device:
    more: dict[str, Any] = {"allow_multiple_allocations": draw.pick((False, True))}
    if draw.pick((True, False)):
        own = draw.pick((("set-0",), ("set-1",), ("set-0", "set-1")))
        taken = [(name, {counter: an_amount(draw) for counter in sets[name]}) for name in own]
        more["consumes_counters"] = tuple(CounterConsumption(name, counters) for name, counters in taken)
    device = a_device(f"gpu-{number}", {"resource.kubernetes.io/numaNode": draw.pick((0, 1))}, **more)
    capacity = some_amounts(draw)
    policies = {"memory": RequestPolicy(an_amount(draw))} if draw.pick((False, True)) else {}
    return replace(device, capacity=capacity, policies=policies if device.allow_multiple_allocations else {})


def a_random_claim(draw: Choices, name: str) -> Claim:
    requests = []
    for number in range(draw.pick((1, 2))):
        capacity = {"memory": an_amount(draw)} if draw.pick((False, True)) else None
        one = an_alternative(f"r{number}", count=draw.pick((1, 1, 2)), capacity=capacity)
        requests.append(Request(f"r{number}", (one,)))
    return a_claim(*requests, name=name)


def a_world(draw: Choices) -> World:
    sets = {f"set-{number}": some_amounts(draw) for number in range(2)}
    devices = [a_random_device(draw, number, sets) for number in range(draw.pick((2, 3, 5)))]
    counter_sets = tuple(CounterSet(name, counters) for name, counters in sets.items())
    slices = (
        a_slice(*devices, name="devices", slice_count=2),
        a_slice(name="counters", slice_count=2, counter_sets=counter_sets),
    )
    held = []
    if draw.pick((False, True)):
        device = draw.pick(devices)
        shared = device.allow_multiple_allocations
        more = {"share_id": "share", "consumed_capacity": {"memory": an_amount(draw)}} if shared else {}
        held.append(an_allocated_claim(a_result(device.name, driver=DRIVER, pool=POOL, **more)))
    workload = [a_random_claim(draw, f"workload-{number}") for number in range(3)]
    return World(slices, tuple(held), a_random_claim(draw, "claim"), workload)


def a_cluster(world: World, policy: str) -> Cluster:
    cluster = Cluster(FEATURES, is_ours=lambda _: True, profiles=[Profile(policy=policy_of(policy))])
    cluster.set_class(a_class())
    cluster.set_node(a_node(allocatable=amounts(cpu="4", memory="8Gi", pods="10")))
    for slice_ in world.slices:
        cluster.set_slice(slice_)
    for version, claim in enumerate(world.held, 1):
        cluster.set_claim(watched(claim, users=[a_pod(name="user")]), version)
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [claim]) for claim in world.workload])
    return cluster


def decided(world: World, policy: str) -> tuple[object, NodeAnswer]:
    """What becomes of the pod, and what its node says."""
    cluster, pod = a_cluster(world, policy), a_pod()
    found = decide(cluster, pod, [world.claim])
    return found, dict(answers_of(PodCycle(cluster, pod, [world.claim])))[NODE]


def explained(world: World, policy: str) -> Outcome | AllocationError:
    """What the explanation says of the attempt on the node."""
    snapshot = Snapshot.of(world.slices, [a_class()], world.held, FEATURES)
    held = {str(claim): claim for claim in world.held}
    return explain_on(snapshot, a_node(), [world.claim], held, policy=policy_of(policy), all_steps=1_000).answer


@pytest.mark.parametrize("policy", NAMES)
def test_every_policy_places_what_first_fit_places_whatever_amounts_a_driver_writes(policy: str) -> None:
    def check(world: World) -> None:
        (first, _), (other, answer) = (decided(world, name) for name in ("first-fit", policy))
        first_outcome, outcome = (explained(world, name) for name in ("first-fit", policy))
        if isinstance(first, Failed):  # by a device that the policy may not come by
            assert not isinstance(other, NotPlaced)
        else:
            assert type(other) is type(first)
            assert type(outcome) is type(first_outcome)
        assert isinstance(outcome, Allocated) == isinstance(other, Placed)
        for one in (outcome, answer):
            if isinstance(one, Allocated):
                orjson.dumps([float(score) for score in one.score])

    Values(a_world).hold_for("extremes", EACH, check)


def test_extremes_are_placed_and_refused() -> None:
    """So that what is said above is said of both."""
    found = {type(explained(world, "first-fit")) for world in Values(a_world)("extremes", EACH)}
    assert {Allocated, Refused} <= found
