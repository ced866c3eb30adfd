"""Policies on small random clusters: they choose among what can be had, and change nothing about what can."""

from collections.abc import Callable

import pytest

from allocator.allocate import allocate
from allocator.model import Allocation, Node
from allocator.outcome import Allocated, AllocationError, InvalidClaim, Refused
from allocator.policies import NAMES, policy_of
from allocator.snapshot import Snapshot
from tests.properties.allocator.checker import complaints
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import ABOUT, about
from tests.properties.allocator.naive_results import SHARE_ID

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
