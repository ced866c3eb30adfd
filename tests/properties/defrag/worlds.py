"""Small random clusters with pods that may move, and a pod that fits nowhere: as plain values, and as a `Cluster`.

Devices, claims and what they ask for are those of the worlds of preemption. Beside them, pods have controllers,
budgets, terms about each other, and priorities.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from allocator.api.allocation import Consumer
from allocator.model import Allocation, Claim
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, SpreadConstraint, equal_labels
from scheduler.core_v1.pod import Owner, Pod, PodClaim
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from tests.builders import a_class, a_container, a_node, a_pod, amounts, kubernetes, watched
from tests.properties.preemption.worlds import (
    NOTHING,
    PART,
    SHARE,
    WHOLE,
    Hardware,
    Held,
    Machine,
    Wish,
    _allocated,
    _slices,
    claim_for,
    placings,
    with_devices,
)

ZONE, HOST = "zone", "kubernetes.io/hostname"


@dataclass(frozen=True)
class Terms:
    """What a pod says of others by their label: to be apart from them, near them, or spread."""

    kind: str = ""
    key: str = ZONE
    label: str = "x"


@dataclass(frozen=True)
class Running:
    """A pod on a node. claims: its own. shared: one that it names. owner: the kind of its controller."""

    name: str
    node: str
    priority: int = 0
    started: int = 0
    cpu: int = 0
    claims: tuple[Held, ...] = ()
    shared: str = ""
    owner: str = "ReplicaSet"
    labels: tuple[str, ...] = ()
    terms: Terms = Terms()


@dataclass(frozen=True)
class MoveWorld:
    """What there is, and the pod `new` that asks for the wishes."""

    machines: Sequence[Machine]
    zones: Mapping[str, str]
    pods: Sequence[Running]
    shared: Sequence[Held] = ()
    budgets: Sequence[tuple[str, int]] = ()
    priority: int = 0
    cpu: int = 0
    wishes: Sequence[Wish] = field(default=(Wish(WHOLE, 2),))
    labels: tuple[str, ...] = ()
    terms: Terms = Terms()


def a_move_world(rng: Random) -> MoveWorld:
    """Few values, so that they coincide often. Every claim is of a pod on the node of its devices."""
    kinds = rng.choice(((WHOLE,), (WHOLE,), (WHOLE, PART), (WHOLE, SHARE), (PART,), (SHARE,)))
    machines = [
        Machine(f"n{number}", rng.randint(2, 5), tuple(_hardware(rng, f"n{number}", kinds)))
        for number in range(rng.choice((2, 3, 3)))
    ]
    zones = {machine.name: rng.choice(("a", "b")) for machine in machines}
    pods, shared = list[Running](), list[Held]()
    for machine in machines:
        taken = NOTHING
        for _ in range(rng.choice((0, 1, 2, 2, 3))):
            held, taken = _held(rng, f"c{len(pods)}", machine, taken, kinds)
            running = _running(rng, f"p{len(pods)}", machine, held)
            if held and rng.random() < 0.06:
                shared += held
                pods.append(replace(running, claims=(), shared=held[0].name, name=f"p{len(pods)}"))
                running = replace(running, claims=(), shared=held[0].name, cpu=0, name=f"p{len(pods)}")
            pods.append(running)
    wishes = [_wish(rng, kinds, more=1) for _ in range(rng.choice((1, 1, 1, 1, 2)))]
    budgets = [(rng.choice("xy"), rng.randint(0, 2)) for _ in range(rng.choice((0, 0, 0, 1)))]
    labels = tuple(rng.sample("xy", rng.randint(0, 1)))
    return MoveWorld(
        machines,
        zones,
        pods,
        shared,
        budgets,
        rng.choice((0, 9, 9)),
        rng.choice((0, 0, 1, 2)),
        wishes,
        labels,
        _terms(rng),
    )


def _hardware(rng: Random, node: str, kinds: Sequence[str]) -> Iterator[Hardware]:
    for number in range(rng.randint(2, 4)):
        kind = rng.choice(kinds)
        yield Hardware(f"{node}-{number}", kind, rng.choice("aab"), rng.randint(1, 3) if kind == PART else 0)


def _wish(rng: Random, kinds: Sequence[str], more: int = 0) -> Wish:
    kind = rng.choice(kinds)
    if kind == SHARE:
        return Wish(SHARE, amount=rng.randint(2, 6) + 4 * more)
    return Wish(
        kind, rng.choice((1, 1, 2)) + more * rng.choice((1, 1, 2)), matches=kind == WHOLE and rng.random() < 0.3
    )


def _held(
    rng: Random, name: str, machine: Machine, taken: tuple[frozenset[str], int, dict[str, int]], kinds: Sequence[str]
) -> tuple[tuple[Held, ...], tuple[frozenset[str], int, dict[str, int]]]:
    """A claim of a pod on the node, or none, and what is in use then."""
    wish = _wish(rng, kinds)
    ways = list(placings([wish], machine.devices, taken)) if rng.random() < 0.9 else []
    if not ways:
        return (), taken
    (chosen,) = rng.choice(ways)
    after = with_devices(taken, wish, chosen)
    assert after is not None
    return (Held(name, wish, machine.name, chosen),), after


def _running(rng: Random, name: str, machine: Machine, held: tuple[Held, ...]) -> Running:
    return Running(
        name,
        machine.name,
        rng.choice((0, 0, 0, 3, 9)),
        rng.randint(0, 5),
        rng.choice((0, 0, 1, 1, 2)),
        held,
        "",
        rng.choice(("ReplicaSet",) * 17 + ("Job", "DaemonSet", "")),
        tuple(rng.sample("xy", rng.randint(0, 2))),
        _terms(rng),
    )


def _terms(rng: Random) -> Terms:
    kind = rng.choice(("",) * 14 + ("apart", "near", "spread"))
    return Terms(kind, rng.choice((ZONE, HOST)), rng.choice("xy"))


# -- the same as objects


def pod_of(one: Running) -> Pod:
    """A pod that runs."""
    entries = [PodClaim(held.name, template_name="t") for held in one.claims]
    entries += [PodClaim(one.shared, one.shared)] * bool(one.shared)
    return with_terms(
        a_pod(
            a_container(cpu=str(one.cpu)),
            name=one.name,
            node_name=one.node,
            priority=one.priority,
            started=f"2026-11-01T00:00:0{one.started}Z",
            labels=dict.fromkeys(one.labels, "1"),
            claims=tuple(entries),
            claim_statuses={held.name: held.name for held in one.claims},
            owner=Owner(one.owner, "owner", "uid-owner") if one.owner else None,
            phase="Running",
        ),
        one.terms,
    )


def with_terms(pod: Pod, terms: Terms) -> Pod:
    """The pod with these terms."""
    selector = equal_labels({terms.label: "1"})
    if terms.kind == "spread":
        return replace(pod, spread=(SpreadConstraint(1, terms.key, selector),))
    if not terms.kind:
        return pod
    term = AffinityTerm(terms.key, frozenset({"default"}), selector)
    affinity = PodAffinity(required=(term,)) if terms.kind == "near" else PodAffinity(required_anti=(term,))
    return replace(pod, pod_affinity=affinity)


def claim_of(held: Held, *, name: str = "") -> Claim:
    """A claim with its devices."""
    allocated = _allocated(held)
    return replace(allocated, name=name, uid=f"uid-{name}") if name else allocated


def target_of(world: MoveWorld) -> tuple[Pod, tuple[Claim, ...]]:
    """The pod that fits nowhere, and its claims."""
    claims = tuple(claim_for(f"own{number}", wish) for number, wish in enumerate(world.wishes))
    pod = a_pod(
        a_container(cpu=str(world.cpu)),
        name="new",
        priority=world.priority,
        labels=dict.fromkeys(world.labels, "1"),
        claims=tuple(PodClaim(one.name, one.name) for one in claims),
    )
    return with_terms(pod, world.terms), claims


State = dict[str, tuple[Pod, tuple[Claim, ...]]]
"""The pods that run, by name, with claims of their own."""


def state_of(world: MoveWorld) -> State:
    """As it is at first."""
    return {one.name: (pod_of(one), tuple(map(claim_of, one.claims))) for one in world.pods}


def cluster_of_state(world: MoveWorld, state: State) -> Cluster:
    """A new cluster in this state, with the claims of the target."""
    cluster = Cluster(kubernetes(), is_ours=None)
    cluster.set_class(a_class())
    for machine in world.machines:
        labels = {ZONE: world.zones[machine.name], HOST: machine.name}
        allocatable = amounts(cpu=str(machine.cpu), memory="8Gi", pods="20")
        cluster.set_node(a_node(machine.name, labels, allocatable=allocatable))
        for slice_ in _slices(machine):
            cluster.set_slice(slice_)
    for number, (label, allowed) in enumerate(world.budgets):
        cluster.budgets.set(PodDisruptionBudget("default", f"b{number}", equal_labels({label: "1"}), allowed))
    for held in world.shared:
        users = [Consumer("", "pods", one.name, f"uid-{one.name}") for one in world.pods if one.shared == held.name]
        cluster.set_claim(replace(watched(_allocated(held)), reserved_for=tuple(users)), 1)
    for pod, claims in state.values():
        for claim in claims:
            cluster.set_claim(watched(claim, users=[pod]), 1)
    for pod, _ in state.values():
        cluster.set_pod(pod)
    for claim in target_of(world)[1]:
        cluster.set_claim(watched(claim), 1)
    return cluster


def is_sound(world: MoveWorld, held: Sequence[tuple[str, Wish, Sequence[str]]]) -> bool:
    """Whether claims can have these devices of their nodes together. held: node, wish and names of devices of each."""
    for machine in world.machines:
        by_name, taken = {one.name: one for one in machine.devices}, NOTHING
        for _, wish, names in (one for one in held if one[0] == machine.name):
            after = with_devices(taken, wish, [by_name[name] for name in names])
            if after is None or len(set(names)) != wish.count or any(by_name[name].kind != wish.kind for name in names):
                return False
            taken = after
    return True


def names_of(allocation: Allocation) -> list[str]:
    """The devices."""
    return [one.device for one in allocation.results]
