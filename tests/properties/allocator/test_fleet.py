"""A fleet answers as the allocator would if it were asked about every node, one after the other."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

from allocator.allocate import allocate
from allocator.bits import Mask, bits
from allocator.cluster.snapshot import Snapshot
from allocator.features.contract import NodeAttempt
from allocator.features.device_taints import DeviceTaints
from allocator.fleet.fleet import Fleet
from allocator.model import Allocation, Alternative, Claim, Device, Node, Slice
from allocator.outcome import Allocated, AllocationError
from allocator.policies.contract import Policy
from allocator.policies.fill_value import FromDevices
from allocator.search.rules import Stage
from tests.builders import (
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    an_allocated_claim,
    kubernetes,
    named,
    on_node,
    where,
)
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import ABOUT, a_holding, an_instance
from tests.properties.allocator.naive_results import SHARE_ID

EACH = 12
NODES = 4
CLAIMS = 6


class Sequel(NamedTuple):
    """A cluster, and claims one after the other, each with the nodes that it may go to."""

    cluster: Instance
    questions: tuple[tuple[Claim, Mask], ...]


def a_sequel(draw: Choices, about: str) -> Sequel:
    """Nodes that are alike but for small differences, and claims of few shapes."""
    base = an_instance(draw, about)
    model = base.nodes[0]
    nodes = tuple(replace(model, name=f"node-{number}") for number in range(NODES))
    local = [slice_ for slice_ in base.slices if slice_.reach.node_name == model.name or draw.pick((True, True, False))]
    copies = [copied(draw, slice_, number) for number in range(NODES) for slice_ in in_some_order(draw, local)]
    slices = (*(slice_ for slice_ in base.slices if slice_ not in local), *copies)
    every = [device for slice_ in slices for device in slice_.devices]
    held = [a_holding(draw, frozenset((about,)), draw.pick(every), f"held-{n}") for n in range(2 * NODES) if every]
    cluster = replace(base, slices=slices, nodes=nodes, held=(an_allocated_claim(*held),))
    questions = ((draw.pick(base.claims), draw.pick(range(1 << NODES))) for _ in range(CLAIMS))
    named = ((replace(claim, name=f"claim-{n}", uid=f"uid-{n}"), mask) for n, (claim, mask) in enumerate(questions))
    return Sequel(cluster, tuple(named))


def in_some_order(draw: Choices, slices: Sequence[Slice]) -> Sequence[Slice]:
    return slices[:: draw.pick((1, -1))]


def copied(draw: Choices, slice_: Slice, number: int) -> Slice:
    """The slice for the node of that number, in a pool of its own, now and then with a device changed.

    Now and then a selector reaches it, so that what is in use of it is not the node's own.
    """
    pool = f"{slice_.pool}-{number}"
    members = tuple(replace(device, pool=pool) for device in slice_.devices)
    if members and draw.rarely(5):
        members = (changed(draw, members[0]), *members[1:])
    node = f"node-{number}"
    reach = where(*named(node)) if draw.rarely(4) else on_node(node)
    return replace(slice_, name=f"{slice_.name}-{number}", pool=pool, reach=reach, devices=members)


def changed(draw: Choices, device: Device) -> Device:
    attributes = {**device.attributes, draw.pick(("numa", "std.example/root", "nobody.example/asks")): ("int", 0)}
    return draw.pick(
        (
            replace(device, attributes=attributes),
            replace(device, attributes={}),
            replace(device, name="other"),
            replace(device, taints=()),
            replace(device, capacity={}, policies={}),
            replace(device, allow_multiple_allocations=not device.allow_multiple_allocations),
            replace(device, unknown_fields=("quantum",)),
        )
    )


Placed = tuple[str, tuple[Allocation, ...]]


def asked_one_by_one(cluster: Instance, snapshot: Snapshot, claim: Claim, allowed: Mask) -> Placed | str | None:
    """The first allowed node that can, with what it gives; `fails` where one of them ends the attempt."""
    try:
        outcomes = [
            (node.name, allocate(snapshot, node, [claim], share_id=lambda _: SHARE_ID))
            for node in (cluster.nodes[number] for number in bits(allowed))
        ]
    except AllocationError:
        return "fails"
    return next(((name, outcome.allocations) for name, outcome in outcomes if isinstance(outcome, Allocated)), None)


def asked_together(fleet: Fleet, claim: Claim, allowed: Mask) -> Placed | str | None:
    try:
        chosen = fleet.choose([claim], allowed)
    except AllocationError:
        return "fails"
    return None if chosen is None else (chosen.node.name, chosen.allocated.allocations)


def check(sequel: Sequel) -> None:
    cluster = sequel.cluster
    snapshot = cluster.snapshot()
    fleet = Fleet(snapshot, cluster.nodes, share_id=lambda _: SHARE_ID)
    for claim, allowed in sequel.questions:
        expected = asked_one_by_one(cluster, snapshot, claim, allowed)
        assert asked_together(fleet, claim, allowed) == expected
        if isinstance(expected, tuple):
            (allocation,) = expected[1]
            held = [replace(claim, allocation=allocation)]
            snapshot = snapshot.with_allocated(held)
            fleet.add_allocated(held)


def sequels(aspect: str) -> Values[Sequel]:
    return Values(partial(a_sequel, about=aspect))


@pytest.mark.parametrize("aspect", ABOUT)
def test_fleet_answers_as_if_every_node_was_asked(aspect: str) -> None:
    sequels(aspect).hold_for("fleet", EACH, check)


PREFERRED = ((), (3, 1, 2), (2, 5, 0))
"""Devices that policies of single nodes take first, by position."""


def check_policies_of_nodes(sequel: Sequel) -> None:
    cluster, snapshot = sequel.cluster, sequel.cluster.snapshot()
    fleet = Fleet(snapshot, cluster.nodes, share_id=lambda _: SHARE_ID)
    for claim, _ in sequel.questions:
        answers = [
            (number, policy, answer)
            for number, node in enumerate(cluster.nodes)
            for policy in (FromDevices("preferring", devices) for devices in PREFERRED)
            if (answer := asked_alone(snapshot, node, claim, policy)) is not None
        ]
        for number, policy, expected in answers:
            assert fleet.allocated_by(policy, [claim], number) == expected
        if answers:
            (allocation,) = answers[-1][2]
            held = [replace(claim, allocation=allocation)]
            snapshot = snapshot.with_allocated(held)
            fleet.add_allocated(held)


def asked_alone(snapshot: Snapshot, node: Node, claim: Claim, policy: Policy) -> tuple[Allocation, ...] | None:
    """What the claim gets on the node by the policy; None where it gets nothing."""
    try:
        outcome = allocate(snapshot, node, [claim], share_id=lambda _: SHARE_ID, policy=policy)
    except AllocationError:
        return None
    return outcome.allocations if isinstance(outcome, Allocated) else None


@pytest.mark.parametrize("aspect", ABOUT)
def test_policies_of_single_nodes_get_what_the_allocator_gives_on_that_node(aspect: str) -> None:
    sequels(aspect).hold_for("policies of nodes", EACH, check_policies_of_nodes)


def test_alike_nodes_are_asked_once_by_policies_of_single_nodes() -> None:
    nodes = [a_node(f"node-{number}") for number in range(9)]
    slices = [
        a_slice(a_device("a"), a_device("b"), name=one.name, pool=one.name, reach=on_node(one.name)) for one in nodes
    ]
    fleet = Fleet(Snapshot.of(slices, [a_class()], (), kubernetes()), nodes)
    claims = [a_claim(a_request())]
    assert fleet.able(claims) == fleet.all
    before = fleet.asked
    for number in range(9):
        (given,) = fleet.allocated_by(FromDevices("preferring", [1]), claims, number)
        assert [(one.pool, one.device) for one in given.results] == [(f"node-{number}", "b")]
    assert fleet.asked == before + 1


def test_what_claims_mean_is_worked_out_on_one_of_alike_nodes_with_other_devices_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def unusable(_: DeviceTaints, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        assert attempt.node is not None
        looked.append(f"{alternative.name} on {attempt.node.name}")
        return ()

    monkeypatch.setattr(DeviceTaints, "concerns", lambda *_: True)
    monkeypatch.setattr(DeviceTaints, "unusable", unusable)
    nodes = [a_node(f"node-{number}") for number in range(3)]
    slices = [
        a_slice(a_device("a"), a_device("b"), name=one.name, pool=one.name, reach=on_node(one.name)) for one in nodes
    ]
    held = an_allocated_claim(a_result("a", pool="node-0"), a_result("b", pool="node-1"))
    fleet = Fleet(Snapshot.of(slices, [a_class()], [held], kubernetes()), nodes)
    assert fleet.able([a_claim(a_request("gpus"))]) == fleet.all
    assert fleet.asked == 3
    assert set(looked) == {"gpus on node-0"}


def test_sequels_place_claims_on_several_nodes() -> None:
    nodes = set()
    placed = refused = 0
    for aspect in ABOUT:
        for sequel in sequels(aspect)("fleet", EACH):
            snapshot = sequel.cluster.snapshot()
            for claim, allowed in sequel.questions:
                answer = asked_one_by_one(sequel.cluster, snapshot, claim, allowed)
                placed += isinstance(answer, tuple)
                refused += answer is None
                nodes.add(answer[0] if isinstance(answer, tuple) else "")
    assert len(nodes) == NODES + 1
    assert placed >= EACH * len(ABOUT)
    assert refused >= EACH * len(ABOUT)
