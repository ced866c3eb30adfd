"""After any events, a fleet answers as one that is made anew of what there is then."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from allocator.bits import Mask, bits
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Usage
from allocator.explain.text import OPERATOR, node_text
from allocator.fleet.fleet import Fleet
from allocator.model import Allocation, Claim, DeviceClass, Node, Slice, Taint
from allocator.outcome import AllocationError, Outcome
from allocator.policies import policy_of
from allocator.policies.contract import FIRST_FIT, Policy
from tests.builders import an_allocated_claim
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instances import ABOUT, a_holding
from tests.properties.allocator.naive_results import SHARE_ID
from tests.properties.allocator.test_fleet import NODES, Sequel, a_sequel, changed

EACH = 5
EVENTS = 14


@dataclass
class World:
    """What there is, and the fleet that was told of it event by event.

    kept: snapshots that were taken on the way, with what was in use then.
    """

    snapshot: Snapshot
    policy: Policy
    slices: list[Slice]
    classes: dict[str, DeviceClass]
    nodes: dict[int, Node]
    held: dict[str, Claim] = field(default_factory=dict)
    kept: list[tuple[Snapshot, Usage]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.snapshot, policy=self.policy, share_id=lambda _: SHARE_ID)
        for number, node in self.nodes.items():
            self.fleet.set_node(number, node)

    def anew(self, freed: Sequence[Claim] = ()) -> Fleet:
        features = self.snapshot.features
        held = [claim for claim in self.held.values() if claim not in freed]
        snapshot = Snapshot.of(self.slices, self.classes.values(), held, features)
        fleet = Fleet(snapshot, policy=self.policy, share_id=lambda _: SHARE_ID)
        for number, node in self.nodes.items():
            fleet.set_node(number, node)
        return fleet


Answer = tuple[str, tuple[Allocation, ...]] | str | None


def choice(fleet: Fleet, claims: Sequence[Claim], allowed: Mask) -> Answer:
    try:
        chosen = fleet.choose(claims, allowed)
    except AllocationError:
        return "fails"
    return None if chosen is None else (chosen.node.name, chosen.allocated.allocations)


def allocated(fleet: Fleet, number: int, claims: Sequence[Claim], freed: Sequence[Claim] = ()) -> Outcome | str:
    try:
        return fleet.allocate(number, claims, freed)
    except AllocationError as error:
        return str(error)


def kept_from(outcome: Outcome) -> str:
    """What the outcome says, without pools and holders, which are a node's own."""
    text, _, _ = node_text(outcome, reader=OPERATOR).partition("; pool ")
    return re.sub(r"; held by [^)]*", "", re.sub(r" \(held by [^)]*\)", "", text))


def an_event(draw: Choices, world: World, about: str, spare: Sequence[Claim]) -> None:
    match draw.pick((*("claim",) * 5, *("slice",) * 4, *("node",) * 3, "class", "keep")):
        case "claim":
            a_claim_event(draw, world, about, spare)
        case "slice":
            a_slice_event(draw, world)
        case "node":
            a_node_event(draw, world)
        case "keep":
            world.kept.append((world.fleet.snapshot, world.anew().usage))
        case _:
            a_class_event(draw, world)


def a_claim_event(draw: Choices, world: World, about: str, spare: Sequence[Claim]) -> None:
    every = [device for slice_ in world.slices for device in slice_.devices]
    gives_back = draw.pick((False, True))
    if world.held and (gives_back or not every):
        gone = world.held.pop(draw.pick(sorted(world.held)))
        world.fleet.remove_allocated([gone])
        return
    placed = a_placed(draw, world, spare) if draw.pick((False, True)) else None
    claim = placed or (
        an_allocated_claim(*(a_holding(draw, frozenset((about,)), draw.pick(every), f"s-{n}") for n in range(2)))
        if every
        else an_allocated_claim("gone")
    )
    name = f"new-{len(world.held)}-{draw.pick(range(3))}"
    while name in world.held:
        name += "x"
    world.held[name] = replace(claim, name=name)
    world.fleet.add_allocated([world.held[name]])


def a_placed(draw: Choices, world: World, spare: Sequence[Claim]) -> Claim | None:
    wanted = draw.pick(spare)
    try:
        chosen = world.fleet.choose([wanted], world.fleet.all)
    except AllocationError:
        return None
    return replace(wanted, allocation=chosen.allocated.allocations[0]) if chosen else None


def a_slice_event(draw: Choices, world: World) -> None:
    if not world.slices:
        return
    old = draw.pick(world.slices)
    match draw.pick(("remove", "again", "changed", "changed", "generation", "count")):
        case "remove":
            new = None
        case "again":
            new = replace(old)
        case "changed" if old.devices:
            new = replace(old, devices=(changed(draw, old.devices[0]), *old.devices[1:]))
        case "generation":
            new = replace(old, generation=old.generation + draw.pick((1, -1)))
        case _:
            new = replace(old, slice_count=draw.pick((1, 2)))
    world.slices = [slice_ for slice_ in world.slices if slice_ is not old] + ([new] if new else [])
    world.fleet.remove_slice(old)
    if new:
        world.fleet.add_slice(new)


def a_node_event(draw: Choices, world: World) -> None:
    number = draw.pick(range(NODES + 2))
    if number in world.nodes and draw.rarely(3):
        del world.nodes[number]
        world.fleet.remove_node(number)
        return
    node = world.nodes.get(number) or Node(draw.pick([f"node-{n}" for n in range(NODES + 2)]))
    labels = draw.pick(({"region": "1", "rank": "5"}, {"region": "2"}, {"region": "1", "zone": "x"}, {}))
    node = replace(node, labels=labels, taints=draw.pick(((), (Taint("key", effect="NoSchedule"),))))
    if any(other != number and one.name == node.name for other, one in world.nodes.items()):
        return
    world.nodes[number] = node
    world.fleet.set_node(number, node)


def a_class_event(draw: Choices, world: World) -> None:
    name = draw.pick(("any", "odd"))
    if name in world.classes and draw.rarely(3):
        del world.classes[name]
        world.fleet.remove_class(name)
        return
    selectors = draw.pick(((), ('device.driver == "a.example"',), ('device.driver == "b.example"',)))
    world.classes[name] = DeviceClass(name, selectors)
    world.fleet.set_class(world.classes[name])


@dataclass(frozen=True)
class Life:
    """A beginning and the choices of all events; so the same life can be led again."""

    about: str
    recorded: tuple[int, ...]
    policy: str = FIRST_FIT.name


def a_life(draw: Choices, about: str, policy: str) -> Life:
    return Life(about, tuple(draw.pick(range(1 << 16)) for _ in range(1200)), policy)


def a_world(sequel: Sequel, policy: Policy) -> World:
    cluster = sequel.cluster
    return World(
        cluster.snapshot(),
        policy,
        list(cluster.slices),
        {one.name: one for one in cluster.classes},
        dict(enumerate(cluster.nodes)),
        {claim.name: claim for claim in cluster.held},
    )


def lead(life: Life) -> int:
    """Leads the life, compares after each event or some; returns how many comparisons there were."""
    draw = Choices(life.recorded)
    sequel = a_sequel(draw, life.about)
    world = a_world(sequel, policy_of(life.policy))
    claims = [claim for claim, _ in sequel.questions]
    compared = 0
    for _ in range(EVENTS):
        an_event(draw, world, life.about, claims)
        if draw.pick((True, True, False)):
            compared += 1
            compare(world, [draw.pick(claims)], draw.pick((0, 0b1, 0b110, 0b1011)))
    compare(world, claims[:1], 0)
    assert all(snapshot.usage == usage for snapshot, usage in world.kept)
    return compared


def compare(world: World, claims: Sequence[Claim], forbidden: Mask) -> None:
    anew = world.anew()
    assert world.fleet.all == anew.all
    assert world.fleet.usage == anew.usage
    allowed = anew.all & ~forbidden
    expected = choice(anew, claims, allowed)
    assert choice(world.fleet, claims, allowed) == expected
    assert world.fleet.able(claims) == anew.able(claims)
    if expected == "fails":
        return
    assert world.fleet.scores(claims, allowed) == anew.scores(claims, allowed)
    freed = [world.held[name] for name in sorted(world.held)[:1]]
    without = world.anew(freed)
    for number in bits(allowed):
        assert allocated(world.fleet, number, claims, freed) == allocated(without, number, claims)
    for number in bits(world.fleet.able(claims) & allowed):
        assert world.fleet.allocated(claims, number) == anew.allocate(number, claims)
    if expected is None:
        numbers = list(bits(allowed))
        found = {number: world.fleet.refusal(claims, number) for number in numbers}
        assert found == {number: anew.allocate(number, claims) for number in numbers}
        groups = [(outcome, nodes) for outcome, nodes in world.fleet.unable(claims, allowed)]
        assert sum(nodes for _, nodes in groups) == allowed
        assert [nodes & -nodes for _, nodes in groups] == sorted(nodes & -nodes for _, nodes in groups)
        for outcome, nodes in groups:
            assert {kept_from(found[number]) for number in bits(nodes)} == {kept_from(outcome)}


@pytest.mark.parametrize("aspect", ABOUT)
def test_fleet_answers_after_events_as_one_that_is_made_anew(aspect: str) -> None:
    def check(life: Life) -> None:
        lead(life)

    Values(partial(a_life, about=aspect, policy=FIRST_FIT.name)).hold_for("events", EACH, check)


def test_fleet_under_a_policy_answers_after_events_as_one_that_is_made_anew() -> None:
    def check(life: Life) -> None:
        lead(life)

    for aspect in ("basics", "shares", "counters", "alternatives"):
        Values(partial(a_life, about=aspect, policy="least-fragmentation")).hold_for("events", EACH, check)
