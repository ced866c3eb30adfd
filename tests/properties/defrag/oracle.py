"""The best plan, by trying all there is: every set of pods, in every order, for every place of the target.

Each step is decided on a cluster that is made anew from plain values: nothing is taken away and put back, and no set is
left out because it does not look as if it could help.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from allocator.bits import bits, union
from allocator.model import Claim
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import Placed
from tests.properties.defrag.worlds import MoveWorld, Running, State, cluster_of_state, state_of, target_of

Cost = tuple[int, int, int, tuple[int, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Best:
    """The pods that move, by name; None where no set helps. needs_none: the target fits as it is."""

    moved: frozenset[str] | None
    needs_none: bool = False


def fits(world: MoveWorld) -> bool:
    """Whether the target fits as it is."""
    return next(_ways(world, state_of(world)), None) is not None


def could_fit(world: MoveWorld) -> bool:
    """Whether it fits if all pods that may move are away."""
    return (
        next(
            _ways(world, {one.name: state_of(world)[one.name] for one in world.pods if not may_move(world, one)}), None
        )
        is not None
    )


def best(world: MoveWorld, most: int) -> Best:
    """The best plan with at most so many moves."""
    if fits(world):
        return Best(frozenset(), needs_none=True)
    movable = [one for one in world.pods if may_move(world, one)]
    sets = [some for size in range(1, most + 1) for some in combinations(movable, size)]
    for some in sorted(sets, key=cost):
        if not _violates(world, some) and is_plan(world, some):
            return Best(frozenset(one.name for one in some))
    return Best(None)


def may_move(world: MoveWorld, one: Running) -> bool:
    """By the rules."""
    budgets = [allowed for label, allowed in world.budgets if label in one.labels]
    is_free = one.owner == "ReplicaSet" and not one.shared and one.priority <= world.priority
    return is_free and len(budgets) <= 1 and all(budgets)


def cost(some: tuple[Running, ...]) -> Cost:
    """Fewest, then of the lowest priority, then with the fewest devices, then those that started last."""
    devices = sum(len(held.devices) for one in some for held in one.claims)
    started = tuple(-one.started for one in sorted(some, key=lambda one: one.started))
    return (
        len(some),
        sum(one.priority for one in some),
        devices,
        started,
        tuple(sorted(f"default/{x.name}" for x in some)),
    )


def _violates(world: MoveWorld, some: tuple[Running, ...]) -> bool:
    return any(sum(label in one.labels for one in some) > allowed for label, allowed in world.budgets)


def is_plan(world: MoveWorld, some: tuple[Running, ...]) -> bool:
    """Whether the target fits after the moves of these pods, in some order and in some place."""
    state = state_of(world)
    without = {name: one for name, one in state.items() if name not in {pod.name for pod in some}}
    return any(
        _goes(world, state, way, order)
        for way in list(_ways(world, without))
        for order in permutations(one.name for one in some)
    )


def _goes(world: MoveWorld, state: State, way: Placed, order: tuple[str, ...]) -> bool:
    pod, claims = target_of(world)
    promised = pod.changed(nominated_node=way.node)
    for name in order:
        others = {other: one for other, one in state.items() if other != name}
        cluster = cluster_of_state(world, others)
        cluster.nominations.set(promised)
        cluster.fleet.add_allocated(allocated(claims, way))
        again, asked = again_of(*state[name])
        placed = decided(cluster, again, asked)
        if placed is None:
            return False
        state = {**others, name: (again.changed(node_name=placed.node, uid=f"uid-{name}"), allocated(asked, placed))}
    cluster = cluster_of_state(world, state)
    last = decided(cluster, promised, claims)
    return last is not None and last.node == way.node


def again_of(pod: Pod, claims: tuple[Claim, ...]) -> tuple[Pod, tuple[Claim, ...]]:
    """The pod as it is made again, without its node, and its claims without devices."""
    again = pod.changed(node_name="", uid=f"{pod.uid}-again", started="")
    return again, tuple(replace(one, allocation=None) for one in claims)


def allocated(claims: tuple[Claim, ...], placed: Placed) -> tuple[Claim, ...]:
    """The claims with what they got."""
    return tuple(replace(one, allocation=got) for one, got in zip(claims, placed.allocations, strict=True))


def decided(cluster: Cluster, pod: Pod, claims: tuple[Claim, ...]) -> Placed | None:
    """The scheduler's own decision."""
    cycle = PodCycle(cluster, pod, claims)
    number = None if cycle.refused_everywhere() else cycle.best()
    return None if number is None else cycle.placed(number)


def _ways(world: MoveWorld, state: State) -> Iterator[Placed]:
    pod, claims = target_of(world)
    cycle = PodCycle(cluster_of_state(world, state), pod, claims)
    if not cycle.refused_everywhere():
        yield from (cycle.placed(number) for number in bits(union(cycle.ranked.values())))
