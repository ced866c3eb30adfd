"""The victims that preemption finds are those that an exhaustive search finds, in small random worlds."""

from collections import Counter
from random import Random

from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.preemption.preemption import Preemption, Preemptor
from tests import extent
from tests.properties.preemption.oracle import Answer, answer, fits
from tests.properties.preemption.worlds import World, a_full_world, a_world, cluster_of_world
from tests.properties.state.contents import Contents, contents, differences
from tests.unit.scheduler.extender.clusters import kept_nodes

WORLDS = extent.chosen("PREEMPTION_WORLDS", 400, 20_000)
FULL = WORLDS
"""So many more in which nodes often cost the same."""
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
    # Of nodes that cost the same, the one where the smallest blocks are broken, then the first by name.
    assert [one.candidate.node if one.candidate else "" for one in (found, quick)] == [expected.chosen] * 2
    return hold(world, found, expected)


def hold(world: World, found: Preemption, expected: Answer) -> str:
    """The invariants of a decision."""
    best = found.candidate
    if best is None:
        assert (found.nominated, list(found.writes)) == ("", [])
        return "nobody can go"
    assert found.nominated == best.node
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
    is_made = any(wish.by_resource for wish in world.wishes)
    assert len(found.given) == sum(not wish.by_resource for wish in world.wishes) + is_made
    assert sum(len(one.allocation.results) for one in found.given if one.allocation) == sum(
        wish.count for wish in world.wishes
    )
    if is_made and gone:
        return "resources"
    if best.node != min(expected.best):
        return "breaks less"
    return "waits" if not gone else "2 or more go" if len(gone) > 1 else "one goes"


def test_victims_are_those_of_an_exhaustive_search() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(WORLDS + FULL):
        rng = Random(f"{SEED}/{number}")  # noqa: S311 - not for secrets
        world = a_world(rng) if number < WORLDS else a_full_world(rng)
        try:
            outcomes[check(world, is_deep=number < DEEP)] += 1
        except AssertionError as error:
            error.add_note(f"PREEMPTION_SEED={SEED}, world {number}: {world}")
            raise
    assert (
        min(outcomes[kind] for kind in ("one goes", "2 or more go", "nobody can go", "waits", "resources"))
        > WORLDS // 200
    )
    assert outcomes["breaks less"] > FULL // 200, outcomes


def asked_of_extenders(cluster: Cluster, pod: Pod) -> dict[str, list[str]]:
    """kube-scheduler's candidates, as 1.38 sends them: the nodes that it can win for what it looks at itself."""
    preemptor, cycle = Preemptor(cluster), PodCycle(cluster, pod, [])
    numbers = {name: cluster.number_of(name) for name in cluster.names()}
    found = {name: preemptor.on_node(cycle, number) for name, number in numbers.items() if number is not None}
    return {name: [pod.uid for pod in one.pods] for name, one in found.items() if one is not None}


def check_extender(world: World) -> str:
    """What becomes of the world if kube-scheduler asks the extender; asserts that the oracle agrees."""
    cluster, pod, claims = cluster_of_world(world)
    if not claims or isinstance(decide(cluster, pod, claims), Placed):
        return "not asked"
    asked = asked_of_extenders(cluster, pod)
    kept = kept_nodes(cluster, pod, asked)
    gone = {
        node: frozenset(f"uid-{one}" for one in names(won.pods)) if won else frozenset(asked[node])
        for node, won in kept.items()
    }
    expected = {
        node: frozenset(f"uid-{one}" for one in victims)
        for node, victims in answer(world).victims.items()
        if node in asked and victims
    }
    assert {node: victims for node, victims in gone.items() if victims} == expected
    return "more go" if any(gone[node] != set(asked[node]) for node in gone) else "kept" if gone else "nothing"


FOUND = ("990611/extender/410",)
"""Worlds that have shown a fault: devices served the claims, or the extended resource, and not both."""


def test_extender_gives_kube_scheduler_the_same_victims() -> None:
    outcomes: Counter[str] = Counter()
    for drawn in (*FOUND, *(f"{SEED}/extender/{number}" for number in range(WORLDS))):
        world = a_world(Random(drawn))  # noqa: S311 - not for secrets
        try:
            outcomes[check_extender(world)] += 1
        except AssertionError as error:
            error.add_note(f"world {drawn}: {world}")
            raise
    assert min(outcomes[kind] for kind in ("more go", "kept", "nothing")) > WORLDS // 200, outcomes
