"""Small random clusters and a group that is to be placed: as plain values, and as a `Cluster`.

Nodes have devices of their own, and devices that all of them, or those of one zone, reach. Members ask for unlike
things, some of them for a claim that others use as well; some keep away from each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from allocator.model import Allocation, Claim, Request, Slice
from scheduler.core_v1.group_terms import ANY_REQUEST, AttributeTerm, GroupTerms
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, equal_labels
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import POD_GROUP, GroupKey, GroupOfPods, groups_of
from tests.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_result,
    a_slice,
    amounts,
    everywhere,
    kubernetes,
    labelled,
    match,
    named,
    on_node,
    watched,
    where,
)

ZONE = "zone"
HOST = "kubernetes.io/hostname"
MODELS = ("a", "b")


@dataclass(frozen=True)
class Piece:
    """A device. half: of a machine; is_taken: somebody else has it. rail: -1 for one that says none."""

    name: str
    model: str
    half: int
    is_taken: bool = False
    rail: int = -1


@dataclass(frozen=True)
class Machine:
    """A node. cpu: that is free."""

    name: str
    zone: str
    cpu: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Wish:
    """What a member asks for. model: "" for any. matches: devices of one half. shared: with all who say so."""

    name: str
    cpu: int
    count: int = 0
    model: str = ""
    matches: bool = False
    shared: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Low:
    """A pod of lower priority, with its node, and the devices of that node that its claim has. started: the minute."""

    name: str
    node: str
    cpu: int
    priority: int
    started: int
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Branch:
    """A group of the tree: members, or branches. least: so many of these are placed. keeps: the label of one domain."""

    name: str
    least: int
    keeps: str = ""
    members: tuple[str, ...] = ()
    branches: tuple["Branch", ...] = ()


@dataclass(frozen=True)
class World:
    """network: devices that all nodes reach, or those of a zone if `network_zone` is not empty.

    rails: whether devices of all members have one rail ("match"), or each its own ("distinct"); "" for neither. of_own:
    only those that are not shared. run: so many members in order are in one zone, and not all.
    """

    machines: tuple[Machine, ...]
    wishes: tuple[Wish, ...]
    least: int
    network: tuple[Piece, ...] = ()
    network_zone: str = ""
    keeps_zone: bool = False
    lows: tuple[Low, ...] = ()
    rails: str = ""
    of_own: bool = False
    run: int = 0
    tree: Branch | None = None


PRIORITY = 10
SHARED = Wish("shared", 0, 1)
"""What the claim asks for that several members use."""


def a_world(rng: Random) -> World:
    """Few nodes that are nearly full, and a group that may just fit."""
    zones = ["A", "B"] if rng.random() < 0.6 else ["A"]
    machines = tuple(
        Machine(f"n{number}", rng.choice(zones), rng.randint(1, 5), _pieces(rng, f"n{number}", rng.randint(0, 4)))
        for number in range(rng.randint(1, 3))
    )
    has_network = rng.random() < 0.25
    shares = rng.random() < 0.2
    apart = rng.random() < 0.15
    wishes = tuple(_wish(rng, f"g-{number}", shares=shares, apart=apart) for number in range(rng.randint(2, 4)))
    if rng.random() < 0.3:  # equal members
        wishes = tuple(replace(wishes[0], name=one.name) if rng.random() < 0.7 else one for one in wishes)
    return World(
        machines,
        wishes,
        rng.randint(1, len(wishes)),
        _pieces(rng, "net", rng.randint(1, 3)) if has_network else (),
        rng.choice(["", *zones]) if has_network else "",
        keeps_zone=rng.random() < 0.3,
    )


def a_full_world(rng: Random) -> World:
    """The same with pods of lower priority, which have what the group may need."""
    world = a_world(rng)
    lows: list[Low] = []
    machines: list[Machine] = []
    for machine in world.machines:
        free, cpu = [piece.name for piece in machine.pieces if not piece.is_taken], machine.cpu
        for _ in range(rng.randint(0, 2)):
            own = rng.randint(0, 2)
            held = tuple(free.pop() for _ in range(rng.randint(0, min(2, len(free)))))
            name = f"low-{len(lows)}"
            lows.append(Low(name, machine.name, own, rng.randint(0, 2), rng.randint(0, 59), held))
            cpu += own
        machines.append(replace(machine, cpu=cpu))
    return replace(world, machines=tuple(machines), lows=tuple(lows))


def a_world_of_terms(rng: Random) -> World:
    """The same with what devices of all members have in common or not, or with runs of members."""
    world = a_world(rng)
    rails = rng.choice(["", "match", "match", "distinct", "distinct"])
    machines = tuple(replace(one, pieces=_on_rails(rng, one.pieces)) for one in world.machines)
    run = rng.choice([0, 1, 2, 2, 3]) if world.keeps_zone or not rails else 0
    return replace(
        world,
        machines=machines,
        network=_on_rails(rng, world.network),
        rails=rails,
        of_own=rng.random() < 0.3,
        run=run,
        keeps_zone=world.keeps_zone or bool(run),
    )


def with_tree(world: World, rng: Random) -> World:
    """The same with a group of groups, some of which keep to a domain of their own."""
    world = replace(world, keeps_zone=False)
    leaves, rest = list[Branch](), [wish.name for wish in world.wishes]
    while rest:
        size = rng.randint(1, min(3, len(rest)))
        leaves.append(Branch(f"a{len(leaves)}", rng.randint(1, size), _label(rng), tuple(rest[:size])))
        rest = rest[size:]
    if len(leaves) > 1 and rng.random() < 0.4:
        last = tuple(leaves[-2:])
        leaves = [*leaves[:-2], Branch("b", rng.randint(1, 2), _label(rng), branches=last)]
    return replace(world, tree=Branch("root", rng.randint(1, len(leaves)), _label(rng), branches=tuple(leaves)))


def _label(rng: Random) -> str:
    return rng.choice(["", "", ZONE, HOST])


def _on_rails(rng: Random, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    return tuple(replace(piece, rail=rng.choice([-1, 0, 0, 1, 1, 2])) for piece in pieces)


def with_only(world: World, lows: Iterable[Low]) -> World:
    """The world where of the pods of lower priority only these are left, as if what they have were taken."""
    kept = tuple(lows)
    taken = {piece for low in kept for piece in low.pieces}
    machines = tuple(
        replace(
            machine,
            cpu=machine.cpu - sum(low.cpu for low in kept if low.node == machine.name),
            pieces=tuple(replace(one, is_taken=one.is_taken or one.name in taken) for one in machine.pieces),
        )
        for machine in world.machines
    )
    return replace(world, machines=machines, lows=())


def _pieces(rng: Random, prefix: str, number: int) -> tuple[Piece, ...]:
    return tuple(
        Piece(f"{prefix}-d{place}", rng.choice(MODELS), rng.randint(0, 1), rng.random() < 0.25)
        for place in range(number)
    )


def _wish(rng: Random, name: str, *, shares: bool, apart: bool) -> Wish:
    if shares and rng.random() < 0.6:
        return Wish(name, rng.randint(0, 2), shared=True, apart=apart)
    count = rng.choice([0, 1, 1, 1, 2])
    model = rng.choice(["", "", *MODELS]) if count else ""
    return Wish(name, rng.randint(0, 3), count, model, count == 2 and rng.random() < 0.5, apart=apart)


def cluster_of_world(world: World) -> tuple[Cluster, GroupOfPods]:
    """The cluster, and the group that waits."""
    cluster = Cluster(kubernetes(), is_ours=None)
    cluster.set_class(a_class())
    for machine in world.machines:
        labels = {ZONE: machine.zone, HOST: machine.name}
        cluster.set_node(a_node(machine.name, labels, allocatable=amounts(cpu=str(machine.cpu), pods="9")))
        if machine.pieces:
            cluster.set_slice(_slice(machine.name, machine.pieces))
    if world.network:
        reach = where(labelled(zone=world.network_zone)) if world.network_zone else everywhere()
        cluster.set_slice(replace(_slice("net", world.network), reach=reach))
    for pieces in (world.network, *(machine.pieces for machine in world.machines)):
        pool = pieces[0].name.split("-")[0] if pieces else ""
        cluster.set_aside([device.id for device in _slice(pool, tuple(p for p in pieces if p.is_taken)).devices])
    for low in world.lows:
        _put(cluster, low)
    members = tuple(_member(cluster, wish) for wish in world.wishes)
    if world.tree:
        _put_tree(cluster, world.tree, "")
        own = [replace(pod, group=_leaf_of(world.tree, pod.name)) for pod in members]
        (group,) = groups_of(own, cluster.pod_groups)
        return cluster, group
    terms = _terms(world)
    return cluster, GroupOfPods(GroupKey(POD_GROUP, "default", "g"), members, world.least, PRIORITY, terms=terms)


def _put_tree(cluster: Cluster, branch: Branch, parent: str) -> None:
    topology = (branch.keeps,) if branch.keeps else ()
    common: dict[str, Any] = {"minimum": branch.least, "priority": PRIORITY, "topology": topology, "parent": parent}
    if branch.branches:
        cluster.pod_groups.set(CompositePodGroup("default", branch.name, **common))
    else:
        cluster.pod_groups.set(PodGroup("default", branch.name, **common))
    for child in branch.branches:
        _put_tree(cluster, child, branch.name)


def _leaf_of(branch: Branch, member: str) -> str:
    if member in branch.members:
        return branch.name
    return next(filter(None, (_leaf_of(child, member) for child in branch.branches)), "")


def _terms(world: World) -> GroupTerms:
    rails = (AttributeTerm("own" if world.of_own else ANY_REQUEST, f"{DRIVER}/rail"),)
    return GroupTerms(
        ZONE if world.keeps_zone else "",
        slice_size=world.run,
        match=rails if world.rails == "match" else (),
        distinct=rails if world.rails == "distinct" else (),
    )


def _put(cluster: Cluster, low: Low) -> None:
    claims = (PodClaim("own", f"claim-{low.name}"),) if low.pieces else ()
    pod = a_pod(
        a_container(cpu=str(low.cpu)),
        name=low.name,
        node_name=low.node,
        priority=low.priority,
        started=f"2026-11-01T00:{low.started:02}:00Z",
        claims=claims,
    )
    cluster.set_pod(pod)
    if low.pieces:
        results = tuple(a_result(piece, pool=low.node) for piece in low.pieces)
        allocation = Allocation(results, node_selector=named(low.node))
        cluster.set_claim(watched(a_claim(name=f"claim-{low.name}", allocation=allocation), users=[pod]), 1)


def _slice(pool: str, pieces: tuple[Piece, ...]) -> Slice:
    devices = [
        a_device(piece.name, {"model": piece.model, "half": piece.half, **_rail(piece)}, pool=pool) for piece in pieces
    ]
    return a_slice(*devices, name=f"slice-{pool}", pool=pool, reach=on_node(pool))


def _rail(piece: Piece) -> dict[str, int]:
    return {"rail": piece.rail} if piece.rail >= 0 else {}


def _member(cluster: Cluster, wish: Wish) -> Pod:
    names = []
    if wish.shared or wish.count:
        name = SHARED.name if wish.shared else f"claim-{wish.name}"
        names = [PodClaim("own", name)]
        cluster.set_claim(watched(_claim(name, SHARED if wish.shared else wish)), 1)
    term = AffinityTerm(HOST, frozenset({"default"}), equal_labels({"app": "g"}))
    affinity = PodAffinity(required_anti=(term,)) if wish.apart else PodAffinity()
    return a_pod(
        a_container(cpu=str(wish.cpu)),
        name=wish.name,
        claims=tuple(names),
        labels={"app": "g"},
        priority=PRIORITY,
        pod_affinity=affinity,
        group="g",
    )


def _claim(name: str, wish: Wish) -> Claim:
    selectors = (f'device.attributes["{DRIVER}"].model == "{wish.model}"',) if wish.model else ()
    request: Request = a_request("shared" if wish is SHARED else "own", wish.count, *selectors)
    constraints = (match(f"{DRIVER}/half"),) if wish.matches else ()
    return a_claim(request, name=name, constraints=constraints)
