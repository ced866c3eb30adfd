"""Small random clusters with pending pods and groups of nodes, the plan for each, and what the cheapest one costs.

The optimum is found by trying all numbers of nodes in the order of their price, with all ways to place the pods.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

from allocator.gates import DEFAULT_RELEASE, Features
from benchmarks.endtoend.workload import CLASS, DRIVER, NAMESPACE, REQUEST, Json, device_class, device_name
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.input_claims import Claims, identified
from scheduler.offline.placement import Placement, is_pending, unused_claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.planning.node_groups import OfferedGroup
from scheduler.planning.node_plan import NodePlan, NodePlanner, Objective, World
from scheduler.state.pod_resources import ExtendedResources

FEATURES = Features.of(DEFAULT_RELEASE)
MODELS = ("a", "b")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of node: GPUs of a model, and CPUs."""

    model: str
    gpus: int
    cpu: int
    price: int = 0
    most: int = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod requests. model: empty for any."""

    gpus: int
    cpu: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """Nodes that are there, groups of nodes that can be had, and pods that are pending."""

    there: tuple[Kind, ...]
    groups: tuple[Kind, ...]
    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A plan, beside the least price of all plans for the same pods; None where there is no plan."""

    instance: Instance
    plan: NodePlan
    optimum: int | None

    @property
    def is_found(self) -> bool:
        """Whether the plan places all pods that some node can take."""
        return not self.plan.unplaced

    @property
    def is_equal(self) -> bool:
        """Whether no plan is cheaper."""
        return self.is_found and self.plan.cost == self.optimum

    @property
    def is_near(self) -> bool:
        """Whether the plan, if it was found, costs at most one node more than the cheapest one."""
        if self.optimum is None or not self.is_found:
            return True
        dearest = max(kind.price for kind in self.instance.groups)
        return self.optimum <= self.plan.cost <= self.optimum + dearest

    @property
    def has_valid_bound(self) -> bool:
        """Whether the lower bound, which each plan has that was found, is not above the optimum."""
        bound = self.plan.bound
        return self.optimum is None or not self.is_found or (bound is not None and bound <= self.optimum)


def an_instance(rng: Random) -> Instance:
    """One at random: up to three groups, and up to seven pods."""
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


def compared(instance: Instance) -> Compared:
    """The plan, and the optimum for those pods that it does not call impossible."""
    plan = planned(instance)
    named = {one.name for one in plan.never}
    return Compared(instance, plan, optimum(instance, [one for name, one in _named(instance) if name not in named]))


def _named(instance: Instance) -> Iterator[tuple[str, Wish]]:
    return ((f"pod {NAMESPACE}/pod-{number}", wish) for number, wish in enumerate(instance.wishes))


# -- the plan


def planned(instance: Instance) -> NodePlan:
    """The plan of `dra plan` at the least price."""
    objects = [device_class()]
    for number, kind in enumerate(instance.there):
        objects += _node(f"there-{number}", kind)
    for number, wish in enumerate(instance.wishes):
        objects += _pod(f"pod-{number}", wish)
    groups = [_group(f"group-{number}", kind) for number, kind in enumerate(instance.groups)]
    return NodePlanner(_inventory(objects), groups, Objective.PRICE, _world).plan()


def _world(inventory: Inventory) -> World:
    claims, pods = Claims(inventory), identified(inventory.pods)
    placement = Placement(cluster_of(inventory, claims, pods, FEATURES), claims, (NAMESPACE,))
    extended = ExtendedResources(inventory.classes, FEATURES)
    pending = [pod for pod in pods if is_pending(pod, claims.objects, extended)]
    return World(placement, pending, unused_claims(claims, pods))


def _group(name: str, kind: Kind) -> OfferedGroup:
    template = _inventory(_node("template", kind))
    [node] = template.nodes
    return OfferedGroup(name, node, tuple(template.slices), Fraction(kind.price), 0, kind.most)


def _inventory(objects: Sequence[Json]) -> Inventory:
    found = take_inventory((RawObject(Place("input"), one) for one in objects), features=FEATURES)
    if found.errors:
        raise AssertionError(found.errors)
    return found


def _node(name: str, kind: Kind) -> list[Json]:
    room = {"cpu": str(kind.cpu), "memory": "64Gi", "pods": "110"}
    attributes = {"model": {"string": kind.model}}
    devices = [{"name": device_name(index), "attributes": attributes} for index in range(kind.gpus)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    slice_spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}},
        _device_object("ResourceSlice", {"name": f"{name}-gpus"}, slice_spec),
    ]


def _pod(name: str, wish: Wish) -> list[Json]:
    selector = f'device.attributes["{DRIVER}"].model == "{wish.model}"'
    only: Json = {"selectors": [{"cel": {"expression": selector}}]} if wish.model else {}
    request = {"name": REQUEST, "exactly": {"deviceClassName": CLASS, "count": wish.gpus, **only}}
    metadata = {"name": name, "namespace": NAMESPACE}
    resources = {"requests": {"cpu": str(wish.cpu)}, "claims": [{"name": REQUEST}]}
    pod_spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": resources}],
        "resourceClaims": [{"name": REQUEST, "resourceClaimTemplateName": name}],
    }
    return [
        _device_object("ResourceClaimTemplate", metadata, {"spec": {"devices": {"requests": [request]}}}),
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec},
    ]


def _device_object(kind: str, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


# -- the optimum


def optimum(instance: Instance, wishes: Sequence[Wish]) -> int | None:
    """The least price of nodes with which all of the pods have a place; None if there is none."""
    numbers = product(*(range(kind.most + 1) for kind in instance.groups))
    for counts in sorted(numbers, key=lambda counts: (price_of(instance, counts), sum(counts))):
        added = [kind for kind, count in zip(instance.groups, counts, strict=True) for _ in range(count)]
        if holds([*instance.there, *added], wishes):
            return price_of(instance, counts)
    return None


def price_of(instance: Instance, counts: Sequence[int]) -> int:
    """Of so many nodes of each group."""
    return sum(kind.price * count for kind, count in zip(instance.groups, counts, strict=True))


def fits(wish: Wish, kind: Kind) -> bool:
    """Whether an empty node has room for the pod."""
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


def impossible(instance: Instance) -> Iterator[str]:
    """The names of the pods that no node can take at all."""
    for name, wish in _named(instance):
        if not any(fits(wish, kind) for kind in (*instance.there, *instance.groups)):
            yield name
