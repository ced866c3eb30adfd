"""The largest claim, followed through any events, is the one that asking every node for every number finds."""

from functools import partial
from itertools import chain

import pytest

from allocator.allocate import allocate
from allocator.bits import bits
from allocator.candidates import MAX_RESULTS
from allocator.model import Alternative, Claim, Node, Request
from allocator.outcome import Allocated, AllocationError
from allocator.policies.contract import FIRST_FIT
from allocator.status import LargestClaims, largest_claim
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instances import ABOUT
from tests.properties.allocator.test_fleet import a_sequel
from tests.properties.allocator.test_fleet_events import Life, World, a_life, a_world, an_event

EACH = 3
EVENTS = 10
CLASSES = ("any", "odd")


def most(world: World, node: Node, class_name: str) -> int:
    """For how many devices of the class a claim fits on the node, asked from above."""
    return next((count for count in range(MAX_RESULTS, 0, -1) if fits(world, node, class_name, count)), 0)


def fits(world: World, node: Node, class_name: str, count: int) -> bool:
    claim = Claim("", "c", "c", (Request("r", (Alternative("r", class_name, count=count),)),))
    try:
        return isinstance(allocate(world.fleet.current, node, [claim]), Allocated)
    except AllocationError:
        return False


def follow(life: Life) -> set[int]:
    """Leads the life, with each event in the middle of a look; returns the different answers."""
    draw = Choices(life.recorded)
    sequel = a_sequel(draw, life.about)
    world = a_world(sequel, FIRST_FIT)
    spare = [claim for claim, _ in sequel.questions]
    followed = {name: (world.classes.get(name), LargestClaims(world.fleet, name)) for name in CLASSES}
    answers = set()
    for _ in range(EVENTS):
        begun = [claims.catch_up() for _, claims in followed.values()]
        for steps in begun:
            next(steps, None)
        an_event(draw, world, life.about, spare)
        for _ in chain(*begun):
            pass
        for name, (seen, _) in followed.items():
            if world.classes.get(name) != seen:
                followed[name] = world.classes.get(name), LargestClaims(world.fleet, name)
            answers.add(compare(world, name, followed[name][1]))
    return answers


def compare(world: World, class_name: str, claims: LargestClaims) -> int:
    for _ in claims.catch_up():
        pass
    by_node = {number: most(world, node, class_name) for number, node in world.nodes.items()}
    count = max(by_node.values(), default=0)
    able = {number for number, own in by_node.items() if own == count and count}
    assert (claims.largest.count, set(bits(claims.largest.nodes))) == (count, able)
    assert largest_claim(world.anew(), class_name).count == count
    return count


@pytest.mark.parametrize("aspect", ABOUT)
def test_the_largest_claim_is_that_of_asking_each_node_for_each_number(aspect: str) -> None:
    answers = set[int]()
    Values(partial(a_life, about=aspect, policy=FIRST_FIT.name)).hold_for(
        "largest", EACH, lambda life: answers.update(follow(life))
    )
    assert len(answers) > 1
