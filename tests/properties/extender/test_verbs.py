"""filter, prioritize and preempt answer for many nodes what the allocator says of each node by itself."""

from collections import Counter

import pytest

from allocator.fleet.alike import rank_of
from allocator.outcome import Allocated, Exhausted
from allocator.policies.contract import Score
from scheduler.decision.pod_cycle import PodCycle
from scheduler.extender.verbs import Undecided, filter_nodes, prioritize
from scheduler.extender.wire import MAX_SCORE
from tests.properties.allocator.instances import ABOUT
from tests.properties.extender.worlds import FAILS, World, worlds
from tests.unit.scheduler.extender.clusters import kept_nodes

EACH = 10


def is_hopeless(world: World) -> bool:
    """Whether something is wrong with the claims on every node."""
    return PodCycle(world.cluster(), None, world.pending).claims_refused_everywhere() is not None


def check_filter(world: World) -> None:
    known = [name for name in world.names if world.is_reached(name)]
    outcomes = {name: world.outcome(name) for name in known}
    try:
        found = filter_nodes(world.cluster(), world.pod, world.names)
    except Undecided:
        assert FAILS in outcomes.values()
        return
    if is_hopeless(world):
        assert list(found.unresolvable) == list(world.names)
        return
    assert FAILS not in outcomes.values()
    able = [name for name, outcome in outcomes.items() if isinstance(outcome, Allocated)]
    unsure = [name for name, outcome in outcomes.items() if isinstance(outcome, Exhausted)]
    assert found.passed == able
    assert found.failed.keys() == {*unsure, *(name for name in world.names if name not in world.nodes)}
    assert found.unresolvable.keys() == {*world.names} - {*able} - found.failed.keys()
    assert all(found.failed.values())
    assert all(found.unresolvable.values())
    assert not found.stuck or (not able and not found.failed)


@pytest.mark.parametrize("aspect", ABOUT)
def test_exactly_the_nodes_pass_that_can_and_each_other_one_is_shown_why_not(aspect: str) -> None:
    worlds(aspect).hold_for("filter", EACH, check_filter)


def check_prioritize(world: World) -> None:
    points = prioritize(world.cluster(), world.pod, world.names)
    assert list(points) == list(world.names)
    outcomes = {name: world.outcome(name) for name in world.names if name in world.nodes}
    ranks: dict[str, tuple[int, Score]] = {
        name: (rank_of(world.pending, outcome), outcome.score)
        for name, outcome in outcomes.items()
        if isinstance(outcome, Allocated) and world.pending
    }
    places = {} if FAILS in outcomes.values() else ranks
    distinct = sorted(set(places.values()))
    assert all(points[name] == 0 for name in world.names if name not in places)
    for name, rank in places.items():
        assert points[name] == (round(MAX_SCORE * distinct.index(rank) / (len(distinct) - 1)) if distinct[1:] else 0)


@pytest.mark.parametrize("aspect", ABOUT)
def test_points_have_the_order_of_alternatives_and_then_of_the_policy(aspect: str) -> None:
    worlds(aspect).hold_for("prioritize", EACH, check_prioritize)


def check_preempt(world: World) -> None:
    victims = {node: [f"uid-{name}" for name in names] for node, names in world.victims}
    kept = list(kept_nodes(world.cluster(), world.pod, victims))
    helped = [
        node
        for node, names in world.victims
        if world.is_reached(node) and isinstance(world.outcome(node, names), Allocated)
    ]
    assert kept == ([] if is_hopeless(world) else helped)


@pytest.mark.parametrize("aspect", ABOUT)
def test_exactly_the_nodes_are_kept_where_the_end_of_the_victims_helps(aspect: str) -> None:
    worlds(aspect).hold_for("preempt", EACH, check_preempt)


def test_worlds_ask_what_matters() -> None:
    """Each kind of answer is there often enough."""
    seen: Counter[str] = Counter()
    for aspect in ABOUT:
        for world in worlds(aspect)("preempt", 4 * EACH):  # errors of single nodes are rare
            cluster = world.cluster()
            victims = {node: [f"uid-{name}" for name in names] for node, names in world.victims}
            for node in kept_nodes(cluster, world.pod, victims):
                seen["kept"] += 1
                seen["helped"] += not isinstance(world.outcome(node), Allocated)
            seen["ranks"] += any(prioritize(cluster, world.pod, world.names).values())
            try:
                found = filter_nodes(cluster, world.pod, world.names)
            except Undecided:
                seen["undecided"] += 1
                continue
            seen["passed"] += bool(found.passed)
            seen["unresolvable"] += bool(found.unresolvable)
            seen["unsure"] += any(name in world.nodes for name in found.failed)
            seen["stuck"] += bool(found.stuck)
    assert min(seen.values()) >= EACH / 2, seen
