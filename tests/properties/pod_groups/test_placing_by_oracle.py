"""The members of a group that are placed are those that an exhaustive search places, in small random worlds."""

from collections import Counter
from itertools import product
from random import Random

import pytest

from scheduler.decision.cluster import Cluster
from scheduler.pod_groups import group_preemption
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_preemption import GroupPreemption, preempt_for_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced
from tests import extent
from tests.properties.pod_groups.oracle import Places, best, is_valid, victims
from tests.properties.pod_groups.worlds import (
    World,
    a_full_world,
    a_world,
    a_world_of_terms,
    cluster_of_world,
    with_only,
    with_tree,
)
from tests.properties.state.contents import contents, differences

WORLDS = extent.chosen("GROUP_WORLDS", 300, 20_000)
SEED = extent.chosen("GROUP_SEED", 1, extent.day())
FULL_WORLDS = extent.chosen("FULL_GROUP_WORLDS", 60, 2_000)
TERM_WORLDS = extent.chosen("TERM_GROUP_WORLDS", 300, 10_000)
TREE_WORLDS = extent.chosen("TREE_GROUP_WORLDS", 150, 10_000)
DEEP = 30
"""In so many of them all that the cluster holds is compared before and after."""


def check(world: World, *, is_deep: bool) -> str:
    """What became of the world; asserts that the oracle agrees."""
    cluster, group = cluster_of_world(world)
    found = place_group(cluster, group)
    if is_deep:  # by now all is worked out that is kept
        before = _held(cluster)
        assert place_group(cluster, group) == found
        assert differences(before, _held(cluster)) == []
    expected = best(world)
    if isinstance(found, GroupNotPlaced):
        assert expected == []
        return "refused"
    assert isinstance(found, GroupPlaced), found
    assert [one.pod.name for one in found.members] == expected
    assert is_valid(world, _places(found))
    return "searched" if found.steps else "one by one"


def _held(cluster: Cluster) -> dict[str, object]:
    cluster.fleet.refresh()
    return contents(cluster)


def _places(found: GroupPlaced) -> Places:
    """A claim that another member was given devices for has them on its own: see `Placed.claims`."""
    return {
        one.pod.name: (
            one.placed.node,
            frozenset(
                result.device
                for allocation in (
                    *one.placed.allocations,
                    *(claim.allocation for claim in one.placed.claims if claim.allocation),
                )
                for result in allocation.results
            ),
        )
        for one in found.members
    }


def test_members_that_are_placed_are_those_of_an_exhaustive_search() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(WORLDS):
        world = a_world(Random(f"{SEED}/{number}"))  # noqa: S311 - not for secrets
        try:
            outcomes[check(world, is_deep=number < DEEP)] += 1
        except AssertionError as error:
            error.add_note(f"GROUP_SEED={SEED}, world {number}: {world}")
            raise
    assert min(outcomes[kind] for kind in ("refused", "searched", "one by one")) > WORLDS // 20


def test_devices_of_all_members_keep_to_terms_and_runs_to_their_domain_as_in_an_exhaustive_search() -> None:
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(TERM_WORLDS):
        world = a_world_of_terms(Random(f"{SEED}/terms/{number}"))  # noqa: S311 - not for secrets
        try:
            kind = world.rails or ("runs" if world.run else "neither")
            outcomes[kind, check(world, is_deep=number < DEEP)] += 1
        except AssertionError as error:
            error.add_note(f"GROUP_SEED={SEED}, world of terms {number}: {world}")
            raise
    kinds = product(("match", "distinct", "runs"), ("refused", "searched"))
    assert min(outcomes[kind] for kind in kinds) > TERM_WORLDS // 100


def test_each_group_of_a_tree_has_what_it_needs_or_nobody_as_in_an_exhaustive_search() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(TREE_WORLDS):
        rng = Random(f"{SEED}/trees/{number}")  # noqa: S311 - not for secrets
        world = with_tree(a_world(rng), rng)
        try:
            found = check(world, is_deep=number < DEEP)
        except AssertionError as error:
            error.add_note(f"GROUP_SEED={SEED}, world of trees {number}: {world}")
            raise
        assert world.tree
        outcomes[found] += 1
        outcomes[f"{found}, kept"] += any(one.keeps for one in world.tree.branches)
        outcomes[f"{found}, deep"] += any(one.branches for one in world.tree.branches)
    kinds = ("refused", "searched", "searched, kept", "searched, deep")
    assert min(outcomes[kind] for kind in kinds) > TREE_WORLDS // 30
    assert outcomes["one by one"] > TREE_WORLDS // 100


def check_victims(world: World, *, is_deep: bool) -> str:
    """The same with pods of lower priority, which may have to go."""
    cluster, group = cluster_of_world(world)
    expected = victims(world)
    placed = place_group(cluster, group)
    if isinstance(placed, GroupPlaced):
        assert expected == (frozenset(), [one.pod.name for one in placed.members])
        return "placed"
    found = preempt_for_group(cluster, group)
    if is_deep:
        before = _held(cluster)
        assert preempt_for_group(cluster, group) == found
        assert differences(before, _held(cluster)) == []
    assert isinstance(found, GroupPreemption)
    if found.placed is None:
        assert expected is None
        return "nobody can go"
    gone = frozenset(pod.name for pod in found.pods)
    assert expected == (gone, [one.pod.name for one in found.placed.members])
    stays = [low for low in world.lows if low.name not in gone]
    assert is_valid(with_only(world, stays), _places(found.placed))
    return "some go"


@pytest.mark.parametrize("many", [None, 0])
def test_victims_of_a_group_are_those_of_an_exhaustive_search(
    many: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other group is a group of groups. many: after so many pods the last ones are tried first."""
    if many is not None:
        monkeypatch.setattr(group_preemption, "MANY_UNITS", many)
        monkeypatch.setattr(group_preemption, "FIRST_UNITS", 1)
        monkeypatch.setattr(group_preemption, "MORE_UNITS", 2)
    outcomes: Counter[str] = Counter()
    for number in range(FULL_WORLDS):
        rng = Random(f"{SEED}/full/{number}")  # noqa: S311 - not for secrets
        world = a_full_world(rng)
        world = with_tree(world, rng) if number % 2 else world
        try:
            found = check_victims(world, is_deep=number < DEEP // 3)
            outcomes[found] += 1
            outcomes[f"{found}, tree"] += world.tree is not None
        except AssertionError as error:
            error.add_note(f"GROUP_SEED={SEED}, full world {number}: {world}")
            raise
    kinds = ("placed", "some go", "nobody can go", "placed, tree", "some go, tree", "nobody can go, tree")
    assert min(outcomes[kind] for kind in kinds) > FULL_WORLDS // 60
