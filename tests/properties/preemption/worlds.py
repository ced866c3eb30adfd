"""Small random clusters whose pods hold everything, and a pod that fits nowhere: as plain values, and as a `Cluster`.

Devices are whole ones of two models, partitions of one counter, and shares of one capacity. Claims are shared by pods
of several nodes, held by a group, by nobody, or only by pods that have ended. Some are made for extended
resources, and the pod may ask for such ones as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from allocator.api.allocation import Consumer
from allocator.model import Allocation, Claim, CounterConsumption, CounterSet, Device, DeviceResult, Request, Slice
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selectors import equal_labels
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from tests.builders import (
    DRIVER,
    Watched,
    a_claim,
    a_class,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    amounts,
    kubernetes,
    match,
    named,
    on_node,
    watched,
)

WHOLE, PART, SHARE = "whole", "part", "share"
COUNTER, CAPACITY = 4, 10
STALE, GROUP = "stale", "group"
RESOURCES = 0.3
"""How often devices are asked for by extended resources, if that says all."""


@dataclass(frozen=True)
class Hardware:
    """A device. size: of the counter that a partition takes."""

    name: str
    kind: str
    model: str = "a"
    size: int = 0


@dataclass(frozen=True)
class Wish:
    """What a claim asks for: so many devices of a kind, all of one model if `matches`; of a share so much.

    by_resource: by an extended resource, and no claim is there yet.
    """

    kind: str
    count: int = 1
    matches: bool = False
    amount: int = 0
    by_resource: bool = False

    @property
    def may_be_by_resource(self) -> bool:
        """Whether an extended resource says all of it."""
        return self.kind != SHARE and not self.matches


@dataclass(frozen=True)
class Held:
    """A claim with devices of a node. others: STALE or GROUP, who is in its list beside pods that name it.

    owner: the pod for whose extended resources it was made, which does not name it.
    """

    name: str
    wish: Wish
    node: str
    devices: tuple[Hardware, ...]
    others: str = ""
    is_listed: bool = True
    """Whether pods that name it are in its list."""
    owner: str = ""


@dataclass(frozen=True)
class Holder:
    """A pod on a node. state: "", "ending" or "ended"."""

    name: str
    node: str
    priority: int
    started: int
    cpu: int
    claims: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    state: str = ""
    is_static: bool = False


@dataclass(frozen=True)
class Machine:
    """A node."""

    name: str
    cpu: int
    devices: tuple[Hardware, ...]


@dataclass(frozen=True)
class World:
    """What there is, and the pod `new`."""

    machines: Sequence[Machine]
    holders: Sequence[Holder]
    claims: Sequence[Held]
    budgets: Sequence[tuple[str, int]]
    priority: int
    cpu: int
    wishes: Sequence[Wish]


Taken = tuple[frozenset[str], int, dict[str, int]]
"""Names of devices, the counter, and of each shared device how much: what is in use of a node."""


def placings(
    wishes: Sequence[Wish], devices: Sequence[Hardware], taken: Taken
) -> Iterator[tuple[tuple[Hardware, ...], ...]]:
    """All ways to give the wishes devices, one after the other, by trying everything."""
    if not wishes:
        yield ()
        return
    wish, *rest = wishes
    for chosen in combinations([one for one in devices if one.kind == wish.kind], wish.count):
        if wish.matches and len({one.model for one in chosen}) > 1:
            continue
        after = with_devices(taken, wish, chosen)
        if after is not None:
            for others in placings(rest, devices, after):
                yield chosen, *others


def with_devices(taken: Taken, wish: Wish, chosen: Sequence[Hardware]) -> Taken | None:
    """What is in use then; None where it is more than there is."""
    names, counter, shares = set(taken[0]), taken[1], dict(taken[2])
    for one in chosen:
        if one.kind == SHARE:
            shares[one.name] = shares.get(one.name, 0) + wish.amount
            if shares[one.name] > CAPACITY:
                return None
            continue
        if one.name in names:
            return None
        names.add(one.name)
        counter += one.size
        if counter > COUNTER:
            return None
    return frozenset(names), counter, shares


NOTHING: Taken = (frozenset(), 0, {})


def a_world(rng: Random, nodes: int = 0) -> World:
    """Few values, so that they coincide often. nodes: how many, where not few."""
    names = [f"n{number}" for number in range(nodes or rng.randint(1, 3))]
    machines = [Machine(name, rng.randint(2, 5), _hardware(rng, name)) for name in names]
    claims = list(_claims(rng, machines))
    holders = [_holder(rng, f"p{number}", machine, claims) for number, machine in enumerate(_places(rng, machines))]
    wishes = [_wish(rng) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    wishes = [replace(one, by_resource=one.may_be_by_resource and rng.random() < RESOURCES) for one in wishes]
    wishes.sort(key=lambda one: one.by_resource)  # what is made for resources comes after the claims
    claims = [replace(one, owner=_owner(rng, one, holders)) for one in claims]
    budgets = [(rng.choice("xy"), rng.randint(0, 1)) for _ in range(rng.choice((0, 0, 1, 2)))]
    return World(machines, holders, claims, budgets, rng.choice((5, 10)), rng.choice((0, 1, 1, 2)), wishes)


def _owner(rng: Random, held: Held, holders: Sequence[Holder]) -> str:
    users = [one for one in holders if held.name in one.claims]
    is_made = len(users) == 1 and users[0].claims[0] == held.name and rng.random() < RESOURCES
    return users[0].name if is_made and held.wish.may_be_by_resource else ""


def a_full_world(rng: Random) -> World:
    """Nodes whose devices pods of one priority and start hold, one pod for each claim: many of them cost the same."""
    names = [f"n{number}" for number in range(rng.randint(2, 3))]
    machines = [Machine(name, 2, _hardware(rng, name)) for name in names]
    claims = [replace(one, others="", is_listed=True) for one in _claims(rng, machines, at_most=9)]
    holders = [
        Holder(f"p{number}", held.node, rng.choice((0, 0, 0, 0, 12)), 0, 0, (held.name,))
        for number, held in enumerate(claims)
    ]
    wishes = [_wish(rng) for _ in range(rng.choice((1, 1, 2)))]
    return World(machines, holders, claims, (), 10, 0, wishes)


def _hardware(rng: Random, node: str) -> tuple[Hardware, ...]:
    kinds = [rng.choice((WHOLE, WHOLE, PART, SHARE)) for _ in range(rng.randint(0, 4))]
    return tuple(
        Hardware(f"{node}-{number}", kind, rng.choice("aab"), rng.randint(1, 3) if kind == PART else 0)
        for number, kind in enumerate(kinds)
    )


def _wish(rng: Random) -> Wish:
    kind = rng.choice((WHOLE, WHOLE, PART, SHARE))
    if kind == SHARE:
        return Wish(SHARE, amount=rng.randint(2, 7))
    return Wish(kind, rng.choice((1, 1, 2)), matches=kind == WHOLE and rng.random() < 0.4)


def _claims(rng: Random, machines: Sequence[Machine], at_most: int = 0) -> Iterator[Held]:
    for machine in machines:
        taken = NOTHING
        for number in range(at_most or rng.randint(0, 4)):
            wish = _wish(rng)
            ways = list(placings([wish], machine.devices, taken))
            if ways:
                (chosen,) = rng.choice(ways)
                after = with_devices(taken, wish, chosen)
                assert after is not None
                taken = after
                others = rng.choice(("", "", "", "", STALE, GROUP))
                yield Held(f"{machine.name}-c{number}", wish, machine.name, chosen, others, rng.random() < 0.93)


def _places(rng: Random, machines: Sequence[Machine]) -> list[Machine]:
    return [machine for machine in machines for _ in range(rng.randint(0, 4))]


def _holder(rng: Random, name: str, machine: Machine, claims: Sequence[Held]) -> Holder:
    near = [one.name for one in claims if one.node == machine.name]
    far = [one.name for one in claims]
    some = rng.sample(near, min(len(near), rng.choice((0, 1, 1, 2))))
    if far and rng.random() < 0.08:
        some = list(dict.fromkeys([*some, rng.choice(far)]))
    return Holder(
        name,
        machine.name,
        rng.choice((0, 0, 2, 5, 10, 12)),
        rng.randint(0, 5),
        rng.choice((0, 1, 1, 2)),
        tuple(some),
        tuple(rng.sample("xy", rng.randint(0, 2))),
        rng.choice(("",) * 12 + ("ending", "ended")),
        rng.random() < 0.05,
    )


# -- the same as objects


def cluster_of_world(world: World) -> tuple[Cluster, Pod, list[Claim]]:
    """The cluster, the pod, and its claims."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    for kind in (WHOLE, PART):
        cluster.set_class(a_class(kind, _selector(kind), extended_resource_name=_resource(kind)))
    for machine in world.machines:
        cluster.set_node(a_node(machine.name, allocatable=amounts(cpu=str(machine.cpu), memory="8Gi", pods="20")))
        for slice_ in _slices(machine):
            cluster.set_slice(slice_)
    for label, allowed in world.budgets:
        name = f"b{len(cluster.budgets.namespaces.get('default', {}))}"
        cluster.budgets.set(PodDisruptionBudget("default", name, equal_labels({label: "1"}), allowed))
    for held in world.claims:
        cluster.set_claim(claim_with_devices(world, held), 1)
    for holder in world.holders:
        cluster.set_pod(pod_on_node(world, holder))
    own = [claim_for(f"own{number}", wish) for number, wish in enumerate(world.wishes) if not wish.by_resource]
    resources = [
        a_container(f"of-{number}", **{_resource(wish.kind): str(wish.count)})
        for number, wish in enumerate(world.wishes)
        if wish.by_resource
    ]
    for claim in own:
        cluster.set_claim(watched(claim), 1)
    pod = a_pod(
        a_container(cpu=str(world.cpu)),
        *resources,
        name="new",
        priority=world.priority,
        claims=tuple(PodClaim(one.name, one.name) for one in own),
    )
    cluster.set_pod(pod)
    return cluster, pod, own


def _selector(kind: str) -> str:
    return f'device.attributes["{DRIVER}"].kind == "{kind}"'


def _resource(kind: str) -> str:
    return f"example.com/{kind}"


def claim_with_devices(world: World, held: Held) -> Watched:
    """The claim as a watch shows it."""
    found = watched(_allocated(held), owner=f"uid-{held.owner}" if held.owner else "", extended=bool(held.owner))
    return replace(found, reserved_for=tuple(_users(world, held)))


def pod_on_node(world: World, holder: Holder) -> Pod:
    """The pod; it does not name claims that were made for its extended resources."""
    made = {held.name for held in world.claims if held.owner}
    return a_pod(
        a_container(cpu=str(holder.cpu)),
        name=holder.name,
        node_name=holder.node,
        priority=holder.priority,
        started=f"2026-11-01T00:00:0{holder.started}Z",
        labels=dict.fromkeys(holder.labels, "1"),
        claims=tuple(PodClaim(name, name) for name in holder.claims if name not in made),
        phase="Succeeded" if holder.state == "ended" else "Running",
        is_deleting=holder.state == "ending",
        is_static=holder.is_static,
    )


def _users(world: World, held: Held) -> Iterator[Consumer]:
    for one in world.holders if held.is_listed else ():
        if held.name in one.claims:
            yield Consumer("", "pods", one.name, f"uid-{one.name}")
    if held.others == STALE:
        yield Consumer("", "pods", "before", "uid-before")
    elif held.others == GROUP:
        yield Consumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang")


def _slices(machine: Machine) -> Iterator[Slice]:
    reach, name = on_node(machine.name), machine.name
    others = [_device(one) for one in machine.devices if one.kind != PART]
    parts = [_device(one) for one in machine.devices if one.kind == PART]
    if others:
        yield a_slice(*others, name=f"w-{name}", pool=f"w-{name}", reach=reach)
    if parts:
        sets = (CounterSet("all", {"memory": Quantity.parse(str(COUNTER))}),)
        yield a_slice(name=f"c-{name}", pool=f"p-{name}", reach=reach, counter_sets=sets, slice_count=2)
        yield a_slice(*parts, name=f"p-{name}", pool=f"p-{name}", reach=reach, slice_count=2)


def _device(one: Hardware) -> Device:
    attributes = {"kind": one.kind, "model": one.model}
    if one.kind == PART:
        size = Quantity.parse(str(one.size))
        return a_device(one.name, attributes, consumes_counters=(CounterConsumption("all", {"memory": size}),))
    if one.kind == SHARE:
        return a_device(one.name, attributes, capacity={"memory": str(CAPACITY)}, allow_multiple_allocations=True)
    return a_device(one.name, attributes)


def _request(wish: Wish) -> Request:
    selector = _selector(wish.kind)
    if wish.kind == SHARE:
        return a_request("gpus", 1, selector, capacity={"memory": Quantity.parse(str(wish.amount))})
    return a_request("gpus", wish.count, selector)


def claim_for(name: str, wish: Wish) -> Claim:
    """A claim without devices."""
    constraints = (match(f"{DRIVER}/model"),) if wish.matches else ()
    return a_claim(_request(wish), name=name, constraints=constraints)


def _allocated(held: Held) -> Claim:
    results = tuple(_result(held, one) for one in held.devices)
    return replace(claim_for(held.name, held.wish), allocation=Allocation(results, node_selector=named(held.node)))


def _result(held: Held, one: Hardware) -> DeviceResult:
    pool = f"{'p' if one.kind == PART else 'w'}-{held.node}"
    if one.kind != SHARE:
        return DeviceResult("gpus", DRIVER, pool, one.name)
    consumed = {"memory": Quantity.parse(str(held.wish.amount))}
    return DeviceResult("gpus", DRIVER, pool, one.name, share_id=f"share-{held.name}", consumed_capacity=consumed)
