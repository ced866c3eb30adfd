"""Nodes between which claims do not distinguish answer for each other: every answer is that of the node alone."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.allocate import allocate
from allocator.bits import bits
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.fleet import Fleet
from allocator.gates import Features
from allocator.model import Attribute, Claim, Constraint, Request
from allocator.outcome import Allocated, AllocationError, Outcome
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_snapshot,
    all_devices,
    distinct,
    match,
    on_node,
)

SERIAL, ZONE = f"{DRIVER}/serial", f"{DRIVER}/zone"
SELECTORS = (
    "true",
    f'device.attributes["{DRIVER}"].serial == "a"',
    f'has(device.attributes["{DRIVER}"].serial)',
    f'device.attributes["{DRIVER}"].serial == "b" || device.attributes["{DRIVER}"].zone == 1',
)
VALUES: tuple[Attribute | None, ...] = (
    None,
    ("string", "a"),
    ("string", "b"),
    ("string", "c"),
    ("int", 1),
    ("strings", ("a", "b")),
    ("strings", ("b", "c")),
    ("strings", ("c",)),
)
ZONES: tuple[Attribute | None, ...] = (None, ("int", 1), ("int", 2))

attributes = st.tuples(st.sampled_from(VALUES), st.sampled_from(ZONES)).map(
    lambda pair: {name: value for name, value in zip((SERIAL, ZONE), pair, strict=True) if value is not None}
)
fleets = st.lists(st.lists(attributes, min_size=1, max_size=3), min_size=2, max_size=6)
constraints = st.lists(
    st.builds(lambda kind, name: kind(name), st.sampled_from((match, distinct)), st.sampled_from((SERIAL, ZONE))),
    max_size=2,
)
releases = st.booleans().map(lambda has_lists: Features.of("1.37", {"DRAListTypeAttributes": has_lists}))
requests = st.builds(
    lambda selector, count: a_request("gpus", count, selector) if count else all_devices("gpus", selector),
    st.sampled_from(SELECTORS),
    st.integers(0, 3),
)


@given(fleets, requests, constraints, releases)
@settings(max_examples=300)
def test_every_node_answers_as_it_does_alone(
    devices: list[list[Mapping[str, Attribute]]], request: Request, constraints: list[Constraint], features: Features
) -> None:
    nodes = [a_node(f"n{number}") for number in range(len(devices))]
    slices = [
        a_slice(
            *(a_device(f"gpu-{place}", own, pool=node.name) for place, own in enumerate(each)),
            name=node.name,
            pool=node.name,
            reach=on_node(node.name),
        )
        for node, each in zip(nodes, devices, strict=True)
    ]
    snapshot, claim = a_snapshot(*slices, features=features), a_claim(request, constraints=constraints)
    fleet, alone = Fleet(snapshot, nodes), [said(snapshot, node.name, claim) for node in nodes]
    able = {number for number, outcome in enumerate(alone) if isinstance(outcome, Allocated)}
    assert set(bits(fleet.able([claim]))) == able
    for number, outcome in enumerate(alone):
        if number in able:
            assert fleet.allocated([claim], number) == outcome
        elif not isinstance(outcome, str):
            assert fleet.refusal([claim], number) == outcome


def said(snapshot: Snapshot, node: str, claim: Claim) -> Outcome | str:
    try:
        return allocate(snapshot, a_node(node), [claim])
    except AllocationError as error:
        return str(error)


@pytest.mark.parametrize("constraint", [match(SERIAL), distinct(SERIAL)])
def test_values_that_every_device_has_for_itself_cost_one_allocation_for_all_nodes(constraint: Constraint) -> None:
    nodes = [a_node(f"n{number}") for number in range(20)]
    slices = [
        a_slice(
            *(a_device(f"gpu-{place}", {SERIAL: f"{node.name}-{place}"}, pool=node.name) for place in range(4)),
            name=node.name,
            pool=node.name,
            reach=on_node(node.name),
        )
        for node in nodes
    ]
    fleet = Fleet(a_snapshot(*slices), nodes)
    claim = a_claim(a_request("gpus", 2, f'device.attributes["{DRIVER}"].serial != "n3-1"'), constraints=(constraint,))
    fleet.able([claim])
    alike_and_the_one_that_is_named = 2
    assert fleet.asked == alike_and_the_one_that_is_named
