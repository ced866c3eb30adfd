"""Plans on small random clusters, against all plans in the order of their cost and all ways to place the pods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, product
from random import Random

from allocator.gates import DEFAULT_RELEASE, Features
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.input_claims import Claims, identified
from scheduler.offline.placement import Placement, is_pending, unused_claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.planning.node_groups import OfferedGroup
from scheduler.planning.node_plan import NodePlan, NodePlanner, Objective, World
from scheduler.state.extended_resources import ExtendedResources
from tests.extent import chosen
from tests.unit.scheduler.manifests import Json, a_class, a_node, a_pod, a_request, a_slice, a_template

FEATURES = Features.of(DEFAULT_RELEASE)
MODELS = ("a", "b")
INSTANCES = chosen("PLAN_INSTANCES", in_gate=40, at_night=200)


@dataclass(frozen=True)
class Kind:
    """A kind of node: GPUs of a model, and CPUs."""

    model: str
    gpus: int
    cpu: int
    price: int = 0
    most: int = 3


@dataclass(frozen=True)
class Wish:
    """What a pod asks for. model: empty for any."""

    gpus: int
    cpu: int
    model: str = ""


@dataclass(frozen=True)
class Instance:
    there: tuple[Kind, ...]
    groups: tuple[Kind, ...]
    wishes: tuple[Wish, ...]


def an_instance(rng: Random) -> Instance:
    there = tuple(Kind(rng.choice(MODELS), rng.randint(1, 4), rng.randint(2, 8)) for _ in range(rng.randint(0, 2)))
    groups = tuple(
        Kind(rng.choice(MODELS), rng.choice((1, 2, 4, 8)), rng.choice((4, 8, 16)), rng.randint(1, 9), rng.randint(1, 4))
        for _ in range(rng.randint(1, 3))
    )
    wishes = tuple(
        Wish(rng.choice((1, 1, 2, 2, 3, 4)), rng.randint(1, 5), rng.choice(("", "", *MODELS)))
        for _ in range(rng.randint(1, 7))
    )
    return Instance(there, groups, wishes)


# -- the planner's side


def node_of(name: str, kind: Kind) -> list[Json]:
    room = {"cpu": str(kind.cpu), "memory": "64Gi", "pods": "110"}
    devices = [{"name": f"gpu-{n}", "attributes": {"model": {"string": kind.model}}} for n in range(kind.gpus)]
    return [{**a_node(name), "status": {"allocatable": room}}, a_slice(node=name, devices=devices)]


def pod_of(number: int, wish: Wish) -> list[Json]:
    selector = f'device.attributes["{a_slice()["spec"]["driver"]}"].model == "{wish.model}"'
    only: Json = {"selectors": [{"cel": {"expression": selector}}]} if wish.model else {}
    name = f"pod-{number}"
    container = {"name": "main", "resources": {"requests": {"cpu": str(wish.cpu)}, "claims": [{"name": "dev"}]}}
    return [
        a_template(name, a_request(count=wish.gpus, **only)),
        a_pod(name, template=name, containers=[container]),
    ]


def inventory_of(objects: Sequence[Json]) -> Inventory:
    found = take_inventory((RawObject(Place("input"), one) for one in objects), features=FEATURES)
    assert not found.errors
    return found


def planned(instance: Instance) -> NodePlan:
    objects = [a_class()]
    for number, kind in enumerate(instance.there):
        objects += node_of(f"there-{number}", kind)
    for number, wish in enumerate(instance.wishes):
        objects += pod_of(number, wish)
    groups = []
    for number, kind in enumerate(instance.groups):
        template = inventory_of(node_of("template", kind))
        [node] = template.nodes
        slices = tuple(template.slices)
        groups.append(OfferedGroup(f"group-{number}", node, slices, Fraction(kind.price), 0, kind.most))

    def world_of(inventory: Inventory) -> World:
        claims, pods = Claims(inventory), identified(inventory.pods)
        placement = Placement(cluster_of(inventory, claims, pods, FEATURES), claims, ("default",))
        extended = ExtendedResources(inventory.classes, FEATURES)
        pending = [pod for pod in pods if is_pending(pod, claims.objects, extended)]
        return World(placement, pending, unused_claims(claims, pods))

    return NodePlanner(inventory_of(objects), groups, Objective.PRICE, world_of).plan()


# -- the oracle's side


def vectors(instance: Instance) -> list[tuple[int, ...]]:
    every = product(*(range(kind.most + 1) for kind in instance.groups))
    return sorted(every, key=lambda counts: (price_of(instance, counts), sum(counts)))


def price_of(instance: Instance, counts: Sequence[int]) -> int:
    return sum(kind.price * count for kind, count in zip(instance.groups, counts, strict=True))


def fits(wish: Wish, kind: Kind) -> bool:
    return wish.gpus <= kind.gpus and wish.cpu <= kind.cpu and wish.model in ("", kind.model)


def holds(kinds: Sequence[Kind], wishes: Sequence[Wish]) -> bool:
    """Whether there is any way to place all of them."""

    def place(number: int, left: tuple[tuple[int, int, str], ...]) -> bool:
        if number == len(ordered):
            return True
        wish = ordered[number]
        for position, (gpus, cpu, model) in enumerate(left):
            if (gpus, cpu, model) in left[:position] or wish.gpus > gpus or wish.cpu > cpu:
                continue
            if wish.model not in ("", model):
                continue
            after = (gpus - wish.gpus, cpu - wish.cpu, model)
            if place(number + 1, (*left[:position], after, *left[position + 1 :])):
                return True
        return False

    ordered = sorted(wishes, key=lambda one: (-one.gpus, -one.cpu, one.model))
    return place(0, tuple((kind.gpus, kind.cpu, kind.model) for kind in kinds))


def optimum(instance: Instance, wishes: Sequence[Wish]) -> tuple[int, ...] | None:
    for counts in vectors(instance):
        added = [kind for kind, count in zip(instance.groups, counts, strict=True) for _ in range(count)]
        if holds([*instance.there, *added], wishes):
            return counts
    return None


def never(instance: Instance) -> Iterator[int]:
    """The pods that no node can take at all."""
    for number, wish in enumerate(instance.wishes):
        if not any(fits(wish, kind) for kind in (*instance.there, *instance.groups)):
            yield number


def test_plans_are_the_cheapest_ones_and_no_bound_is_above_them() -> None:
    """In 95 of 100 of them at least; no plan costs more than one node more."""
    compared = equal = 0
    for seed in count():
        if compared == INSTANCES:
            break
        instance = an_instance(Random(seed))  # noqa: S311 - no secret
        unfit = {f"pod default/pod-{number}" for number in never(instance)}
        plan = planned(instance)
        named = {one.name for one in plan.never}
        assert named >= unfit
        assert all(one.lacks for one in plan.never)
        wishes = [wish for number, wish in enumerate(instance.wishes) if f"pod default/pod-{number}" not in named]
        best = optimum(instance, wishes)
        if best is None:
            assert plan.unplaced
            continue
        compared += 1
        if plan.unplaced:  # all nodes that can be had, and no order in which the decision places all: a miss
            assert plan.counts == tuple(kind.most for kind in instance.groups) or not plan.is_best, seed
            continue
        cheapest = price_of(instance, best)
        assert plan.bound is not None, seed
        assert plan.bound <= cheapest, seed
        assert len(plan.placed) == len(wishes), seed
        assert cheapest <= plan.cost <= cheapest + max(kind.price for kind in instance.groups), seed
        equal += plan.cost == cheapest
    assert equal >= 0.95 * INSTANCES
