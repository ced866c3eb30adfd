"""Policies on small random clusters: they choose among what can be had, and change nothing about what can."""

from collections.abc import Callable

import pytest

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.model import Allocation, DeviceClass, Node, Request
from allocator.outcome import Allocated, AllocationError, InvalidClaim, Refused
from allocator.policies import NAMES, policy_of
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_slice,
    an_alternative,
    distinct,
    kubernetes,
    match,
)
from tests.properties.allocator.checker import complaints
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import ABOUT, about
from tests.properties.allocator.naive_results import SHARE_ID

DERIVED = "derived.example/value"
EACH = 40
"""Instances about each aspect."""

Answer = tuple[Allocation, ...] | type[AllocationError] | None


def answer(instance: Instance, node: Node, snapshot: Snapshot, policy: str) -> Answer:
    """The allocations, None where there are none, or the error that ends the attempt."""
    try:
        outcome = allocate(
            snapshot, node, instance.claims, policy=policy_of(policy), share_id=lambda _: SHARE_ID, budget_steps=20_000
        )
    except AllocationError as error:
        return type(error)
    assert isinstance(outcome, Allocated | Refused)
    return outcome.allocations if isinstance(outcome, Allocated) else None


def for_each_answer(aspect: str, policy: str, check: Callable[[Instance, Node, Answer, Answer], None]) -> None:
    """Check what first-fit and the policy say."""

    def check_all(instance: Instance) -> None:
        snapshot = instance.snapshot()
        for node in instance.nodes:
            first, other = (answer(instance, node, snapshot, name) for name in ("first-fit", policy))
            check(instance, node, first, other)

    about(aspect).hold_for("policies", EACH, check_all)


@pytest.mark.parametrize("policy", [name for name in NAMES if name != "first-fit"])
@pytest.mark.parametrize("aspect", ABOUT)
def test_what_first_fit_places_every_policy_places_and_what_it_refuses_is_refused(aspect: str, policy: str) -> None:
    def check(instance: Instance, node: Node, first: Answer, other: Answer) -> None:
        if isinstance(other, tuple):
            assert isinstance(first, tuple) or first is InvalidClaim
            assert complaints(instance, node, other) == []
        else:
            assert other is first

    for_each_answer(aspect, policy, check)


def failing_here_and_there(draw: Choices) -> Instance:
    """Devices of which some have no value to derive a constraint's attribute from, on two NUMA nodes."""
    numa = "resource.kubernetes.io/numaNode"
    values = [draw.pick(({"x": 1}, {"x": 2}, {})) for _ in range(draw.pick(range(2, 6)))]
    members = [a_device(f"d{n}", {**own, numa: draw.pick((0, 1))}) for n, own in enumerate(values)]
    derive = ((DERIVED, f'device.attributes["{DRIVER}"].x'),)
    asked = [
        Request(f"r{n}", (an_alternative(f"r{n}", count=draw.pick((1, 1, 2)), derived_attributes=derive),))
        for n in range(draw.pick((1, 2, 3)))
    ]
    claim = a_claim(*asked, constraints=[draw.pick((match, distinct))(DERIVED)])
    features = kubernetes(DRADerivedAttributes=True)
    return Instance((a_slice(*members),), (DeviceClass("gpu"),), (claim,), (), (a_node(),), features)


@pytest.mark.parametrize("policy", [name for name in NAMES if name != "first-fit"])
def test_device_that_only_the_order_of_a_policy_comes_by_costs_no_pod_its_devices(policy: str) -> None:
    def check(instance: Instance) -> None:
        snapshot, node = instance.snapshot(), instance.nodes[0]
        first, other = (answer(instance, node, snapshot, name) for name in ("first-fit", policy))
        assert isinstance(other, tuple) or not isinstance(first, tuple)

    Values(failing_here_and_there).hold_for("failing", 300, check)
