"""The victims that preemption finds are those that an exhaustive search finds, in small random worlds."""

from collections import Counter
from random import Random

from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.preemption.preemption import Preemption, Preemptor
from tests import extent
from tests.properties.preemption.oracle import answer, fits
from tests.properties.preemption.worlds import World, a_world, cluster_of_world
from tests.properties.state.contents import Contents, contents, differences

WORLDS = extent.chosen("PREEMPTION_WORLDS", 400, 20_000)
SEED = extent.chosen("PREEMPTION_SEED", 1, extent.day())
DEEP = 40
"""In so many of them all that the cluster holds is compared before and after."""


def held(cluster: Cluster) -> Contents:
    """What the cluster holds, once its fleet has caught up."""
    cluster.fleet.refresh()
    return contents(cluster)


def names(pods: list[Pod]) -> frozenset[str]:
    return frozenset(pod.name for pod in pods)


def check(world: World, *, is_deep: bool) -> str:
    """What became of the world; asserts that the oracle agrees."""
    cluster, pod, claims = cluster_of_world(world)
    expected = answer(world)
    decided = decide(cluster, pod, claims)
    if isinstance(decided, Placed):
        assert decided.node in expected.fits
        return "placed"
    assert isinstance(decided, NotPlaced)
    assert not expected.fits
    before = held(cluster) if is_deep else {}
    found = Preemptor(cluster, tries_all=True).preemption(PodCycle(cluster, pod, claims), decided)
    if is_deep:
        assert differences(before, held(cluster)) == []
    assert {one.node: names(one.pods) for one in found.candidates} == expected.victims
    assert {one.node for one in found.equal} == expected.best
    # What promises to cost the least is looked at first, and the rest is passed over: the cost is the same.
    quick = Preemptor(cluster).preemption(PodCycle(cluster, pod, claims), decided)
    assert (quick.candidate and quick.candidate.cost) == (found.candidate and found.candidate.cost)
    assert quick.candidate is None or quick.candidate.node in expected.best
    return hold(world, found)


def hold(world: World, found: Preemption) -> str:
    """The invariants of a decision."""
    best = found.candidate
    if best is None:
        assert (found.nominated, list(found.writes)) == ("", [])
        return "nobody can go"
    assert found.nominated == best.node == min(one.node for one in found.equal)
    machine = next(one for one in world.machines if one.name == best.node)
    gone = names(best.pods)
    assert fits(world, machine, gone, waits=True)
    for name in gone:
        assert not fits(world, machine, gone - {name}, waits=True), f"{name} need not go"
    for one in best.pods:
        assert (one.priority or 0) < world.priority
        assert not one.is_static
        assert one.node_name == best.node
    assert {one.pod.name for one in found.writes} <= gone
    assert len(found.allocations) == len(world.wishes)
    return "waits" if not gone else f"{min(len(gone), 2)} or more go" if len(gone) > 1 else "one goes"


def test_victims_are_those_of_an_exhaustive_search() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(WORLDS):
        rng = Random(f"{SEED}/{number}")  # noqa: S311 - not for secrets
        world = a_world(rng)
        try:
            outcomes[check(world, is_deep=number < DEEP)] += 1
        except AssertionError as error:
            error.add_note(f"PREEMPTION_SEED={SEED}, world {number}: {world}")
            raise
    assert min(outcomes[kind] for kind in ("one goes", "2 or more go", "nobody can go", "waits")) > WORLDS // 200
