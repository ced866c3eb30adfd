"""The plan that the search calls the best is the best of all sets of moves, in small random worlds."""

from collections import Counter
from random import Random

from scheduler.defrag.movable import Movability, MoversByNode, MoveRules
from scheduler.defrag.search import Found, MovePlan, MoveSearch, SearchLimits
from scheduler.defrag.targets import FittingTarget, ToFit
from tests import extent
from tests.properties.defrag.oracle import best, could_fit, fits, may_move
from tests.properties.defrag.worlds import (
    MoveWorld,
    a_move_world,
    cluster_of_state,
    is_sound,
    names_of,
    state_of,
    target_of,
)
from tests.properties.state.contents import contents, differences

WORLDS = extent.chosen("DEFRAG_WORLDS", 60, 20_000)
SEED = extent.chosen("DEFRAG_SEED", 1, extent.day())
MOST = 3
DEEP = 20
"""In so many of them all that the cluster holds is compared before and after."""


def a_tight_world(rng: Random) -> MoveWorld:
    """One in which the target mostly does not fit as it is, and mostly does with all away who may move."""
    world = a_move_world(rng)
    while (fits(world) or not could_fit(world)) and rng.random() < 0.93:
        world = a_move_world(rng)
    return world


def found_in(world: MoveWorld, *, is_deep: bool) -> Found:
    cluster = cluster_of_state(world, state_of(world))
    pod, claims = target_of(world)
    movers, _ = Movability(cluster, MoveRules(most_priority=world.priority)).split()
    assert {one.pod.name for one in movers.values()} == {one.name for one in world.pods if may_move(world, one)}
    target = FittingTarget(cluster, [ToFit(pod, claims)])
    search = MoveSearch(cluster, target, MoversByNode(cluster, movers), SearchLimits(MOST))
    found = search.run()
    if is_deep:  # the second time, all that is remembered of what was asked is there before
        cluster.fleet.refresh()
        before = contents(cluster)
        search.run()
        cluster.fleet.refresh()
        assert differences(before, contents(cluster)) == []
    return found


def hold(world: MoveWorld, plan: MovePlan) -> None:
    """Nothing has more than there is, at any step: an arithmetic of its own, without the allocator."""
    wishes = {held.name: held.wish for one in world.pods for held in one.claims}
    wishes |= {f"own{number}": wish for number, wish in enumerate(world.wishes)}
    there = {
        held.name: (held.node, held.wish, [one.name for one in held.devices])
        for held in [*world.shared, *(own for one in world.pods for own in one.claims)]
    }
    (place,) = plan.way.places
    for move in plan.moves:
        pod, claims = move.again
        for claim in claims:
            assert claim.allocation is not None
            there[claim.name] = pod.node_name, wishes[claim.name], names_of(claim.allocation)
        assert is_sound(world, list(there.values()))
    for claim in place.claims:
        assert claim.allocation is not None
        there[claim.name] = place.placed.node, wishes[claim.name], names_of(claim.allocation)
    assert is_sound(world, list(there.values()))


def check(world: MoveWorld, *, is_deep: bool) -> str:
    """What became of the world; asserts that the oracle agrees."""
    found, expected = found_in(world, is_deep=is_deep), best(world, MOST)
    assert found.is_complete
    if found.plan is None:
        assert expected.moved is None
        return "none"
    assert frozenset(one.mover.pod.name for one in found.plan.moves) == expected.moved
    hold(world, found.plan)
    return f"{len(found.plan.moves)} moves"


def test_plans_are_those_of_an_exhaustive_search() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(WORLDS):
        world = a_tight_world(Random(f"{SEED}/{number}"))  # noqa: S311 - not for secrets
        try:
            outcomes[check(world, is_deep=number < DEEP)] += 1
        except AssertionError as error:
            error.add_note(f"DEFRAG_SEED={SEED}, world {number}: {world}")
            raise
    assert min(outcomes[kind] for kind in ("none", "0 moves", "1 moves", "2 moves")) > WORLDS // 200, outcomes
