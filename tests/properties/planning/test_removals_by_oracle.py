"""Nodes that can go: in small random worlds they really can, each in its turn, and no further single node can.

The oracle carries the plan out on plain values: each step is decided on a cluster that is made anew from them. For the
nodes that stay it tries all orders of their pods.
"""

from collections import Counter
from dataclasses import replace
from itertools import permutations
from random import Random

from allocator.model import Claim
from scheduler.core_v1.pod import Pod
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import Placed
from scheduler.defrag.movable import MoveRules
from scheduler.planning.node_removal import NodeRemover, RemovalPlan
from tests import extent
from tests.properties.defrag.oracle import allocated
from tests.properties.defrag.worlds import MoveWorld, State, a_move_world, cluster_of_state, state_of
from tests.properties.state.contents import contents, differences

WORLDS = extent.chosen("REMOVAL_WORLDS", 40, 5_000)
SEED = extent.chosen("REMOVAL_SEED", 1, extent.day())

DEEP = 10
"""In so many of them all that the cluster holds is compared before and after."""


def planned(world: MoveWorld, *, is_deep: bool) -> RemovalPlan:
    cluster = cluster_of_state(world, state_of(world))
    plan = NodeRemover(cluster, MoveRules()).plan()
    if is_deep:  # the second time, all that is remembered of what was asked is there before
        cluster.fleet.refresh()
        before = contents(cluster)
        assert NodeRemover(cluster, MoveRules()).plan() == plan
        cluster.fleet.refresh()
        assert differences(before, contents(cluster)) == []
    return plan


def decided(world: MoveWorld, state: State, pod: Pod, claims: tuple[Claim, ...], closed: set[str]) -> Placed | None:
    """The scheduler's own decision, with nodes where nobody may go."""
    cluster = cluster_of_state(world, state)
    cycle = PodCycle(cluster, pod, claims)
    away = sum(1 << number for number in cluster.numbers_of(closed))
    number = None if cycle.refused_everywhere() else cycle.best(~away)
    return None if number is None else cycle.placed(number)


def stepped(world: MoveWorld, state: State, name: str, closed: set[str]) -> State | None:
    """The state with the pod in its new place; None where it has none. Its claims keep their names."""
    pod, claims = state[name]
    others = {other: one for other, one in state.items() if other != name}
    again = pod.changed(node_name="", uid=f"{pod.uid}-again", started="")
    fresh = tuple(replace(one, uid=f"{one.uid}-again", allocation=None) for one in claims)
    placed = decided(world, others, again, fresh, closed)
    if placed is None:
        return None
    bound = again.changed(node_name=placed.node, by_claims=placed.by_claims)
    return {**others, name: (bound, allocated(fresh, placed))}


def carried_out(world: MoveWorld, plan: RemovalPlan) -> State:
    """The state after the plan; asserts that each step goes as planned."""
    state, closed = state_of(world), set(plan.closed_first)
    for removed in plan.removed:
        closed.add(removed.name)
        for move in removed.moves:
            name = move.mover.pod.name
            assert state[name][0].node_name == removed.name
            after = stepped(world, state, name, closed)
            assert after is not None
            assert after[name][0].node_name == move.placed.node
            state = after
        left = [one for one, _ in state.values() if one.node_name == removed.name]
        assert all(belongs(one) for one in left)
    assert not {one.node_name for one, _ in state.values() if not belongs(one)} & closed
    return state


def belongs(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == "DaemonSet"


def could_go(world: MoveWorld, plan: RemovalPlan, state: State, node: str) -> bool:
    """Whether the node could go in the end, in some order of its pods."""
    by_name = {one.name: one for one in world.pods}
    there = [name for name, (pod, _) in state.items() if pod.node_name == node and not belongs(pod)]
    if any(by_name[name].owner != "ReplicaSet" or by_name[name].shared for name in there):
        return False
    evicted = [move.mover.pod.name for move in plan.moves] + there
    if violates(world, [by_name[name].labels for name in evicted]) or any(
        blocked(world, by_name[name].labels) for name in there
    ):
        return False
    closed = {one.name for one in plan.removed} | {node}
    return any(all_go(world, state, order, closed) for order in permutations(there))


def violates(world: MoveWorld, labels: list[tuple[str, ...]]) -> bool:
    return any(sum(label in some for some in labels) > allowed for label, allowed in world.budgets)


def blocked(world: MoveWorld, labels: tuple[str, ...]) -> bool:
    own = [allowed for label, allowed in world.budgets if label in labels]
    return len(own) > 1 or 0 in own


def all_go(world: MoveWorld, state: State, order: tuple[str, ...], closed: set[str]) -> bool:
    for name in order:
        after = stepped(world, state, name, closed)
        if after is None:
            return False
        state = after
    return True


def check(world: MoveWorld, *, is_deep: bool) -> str:
    """What became of the world; asserts that the oracle agrees."""
    plan = planned(world, is_deep=is_deep)
    assert plan.is_maximal
    state = carried_out(world, plan)
    labels = [one.labels for move in plan.moves for one in world.pods if one.name == move.mover.pod.name]
    assert len(labels) == len(plan.moves)
    assert not violates(world, labels)
    assert not any(blocked(world, own) for own in labels)
    machines = {one.name for one in world.machines}
    assert {one.name for one in plan.removed} | plan.kept.keys() == machines
    for node, keepers in plan.kept.items():
        assert keepers
        assert not could_go(world, plan, state, node), node
    return f"{len(plan.removed)} go"


def test_nodes_of_a_plan_can_go_and_no_further_one_can() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(WORLDS):
        world = a_move_world(Random(f"{SEED}/{number}"))  # noqa: S311 - not for secrets
        if number % 2:  # fewer of those who stay anyway
            pods = [replace(one, owner="ReplicaSet") for one in world.pods]
            world = replace(world, pods=pods, budgets=[(label, allowed + 1) for label, allowed in world.budgets])
        try:
            outcomes[check(world, is_deep=number < DEEP)] += 1
        except AssertionError as error:
            error.add_note(f"REMOVAL_SEED={SEED}, world {number}: {world}")
            raise
    assert min(outcomes[kind] for kind in ("0 go", "1 go", "2 go")) > WORLDS // 40, outcomes
