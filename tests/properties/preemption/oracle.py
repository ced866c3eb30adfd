"""Who has to go, by trying all there is: every subset of pods that could stay, and every way to give devices.

Written to be read, and to share nothing with what it judges but the worlds.
"""

from dataclasses import dataclass
from itertools import product

from tests.properties.preemption.worlds import (
    CAPACITY,
    COUNTER,
    GROUP,
    NOTHING,
    PART,
    SHARE,
    Held,
    Holder,
    Machine,
    Taken,
    World,
    placings,
    with_devices,
)

Cost = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Answer:
    """victims: by node that can be won. best: the nodes that cost the least; chosen: the one of them that is taken.

    fits: those that need nobody to go.
    """

    victims: dict[str, frozenset[str]]
    best: frozenset[str]
    chosen: str
    fits: frozenset[str]


def answer(world: World) -> Answer:
    """What there is to be won in the world."""
    won: dict[str, tuple[Cost, frozenset[str]]] = {}
    free = frozenset(machine.name for machine in world.machines if fits(world, machine, frozenset(), waits=False))
    for machine in world.machines:
        found = _on(world, machine)
        if found is not None:
            won[machine.name] = found
    least = min((cost for cost, _ in won.values()), default=None)
    best = frozenset(name for name, (cost, _) in won.items() if cost == least)
    by_name = {machine.name: machine for machine in world.machines}
    chosen = min(best, key=lambda name: (_breaks(world, by_name[name], won[name][1]), name), default="")
    return Answer({name: victims for name, (_, victims) in won.items()}, best, chosen, free)


def _on(world: World, machine: Machine) -> tuple[Cost, frozenset[str]] | None:
    lower = [one for one in on(world, machine) if one.priority < world.priority and not one.is_static]
    lower.sort(key=lambda one: (-one.priority, one.started, f"uid-{one.name}"))
    violating = _violating(world, lower)
    ordered = [one for one in lower if one.name in violating] + [one for one in lower if one.name not in violating]
    # From everybody stays to nobody stays: the first that fits is the greatest in the order of the pods.
    for stays in product((True, False), repeat=len(ordered)):
        gone = frozenset(one.name for one, does in zip(ordered, stays, strict=True) if not does)
        if fits(world, machine, gone, waits=True):
            victims = [one for one in lower if one.name in gone]
            return _cost(victims, len(gone & violating)), gone
    return None


def _cost(victims: list[Holder], violations: int) -> Cost:
    if not victims:
        return 0, -(2**31), 0, 0, -100
    highest = max(one.priority for one in victims)
    earliest = min(one.started for one in victims if one.priority == highest)
    return violations, highest, sum(one.priority + 2**31 for one in victims), len(victims), -earliest


def _violating(world: World, lower: list[Holder]) -> frozenset[str]:
    left = [allowed for _, allowed in world.budgets]
    found = set()
    for one in lower:
        for number, (label, _) in enumerate(world.budgets):
            if label in one.labels:
                left[number] -= 1
                if left[number] < 0:
                    found.add(one.name)
    return frozenset(found)


def on(world: World, machine: Machine) -> list[Holder]:
    """The pods on the node that have not ended."""
    return [one for one in world.holders if one.node == machine.name and one.state != "ended"]


def fits(world: World, machine: Machine, gone: frozenset[str], *, waits: bool) -> bool:
    """Whether the pod fits on the node without these pods. waits: for claims whose users have all ended."""
    used = sum(one.cpu for one in on(world, machine) if one.name not in gone)
    if world.cpu and used + world.cpu > machine.cpu:
        return False
    taken = taken_on(world, machine, gone, waits=waits)
    return any(True for _ in placings(list(world.wishes), machine.devices, taken))


def taken_on(world: World, machine: Machine, gone: frozenset[str], *, waits: bool) -> Taken:
    """What is in use of the node without these pods."""
    taken: Taken = NOTHING
    for held in world.claims:
        if held.node == machine.name and _holds(world, held, gone, waits=waits):
            after = with_devices(taken, held.wish, held.devices)
            assert after is not None, "a world holds no more than there is"
            taken = after
    return taken


def _holds(world: World, held: Held, gone: frozenset[str], *, waits: bool) -> bool:
    """Whether the claim keeps its devices without these pods."""
    listed = [one for one in world.holders if held.name in one.claims] if held.is_listed else []
    if held.others == GROUP or not (listed or held.others):
        return True  # the group's, or reserved for nobody
    live = [one for one in listed if not one.state and one.name not in gone]
    return bool(live) or not (waits or any(one.name in gone for one in listed))


Broken = tuple[float, ...]
"""What can be allocated before and not afterwards: partitions, the largest first; then the largest block of others."""


def _breaks(world: World, machine: Machine, gone: frozenset[str]) -> Broken:
    """What the first devices that will do, one after the other, break there."""
    taken = taken_on(world, machine, gone, waits=True)
    if not world.wishes:
        return ()
    before = _partitions(machine, taken)
    largest: list[tuple[float, ...]] = []
    for wish, chosen in zip(world.wishes, next(placings(list(world.wishes), machine.devices, taken)), strict=True):
        for one in chosen:
            free = [
                other for other in machine.devices if other.kind == wish.kind and with_devices(taken, wish, [other])
            ]
            room = (CAPACITY - taken[2].get(one.name, 0)) / wish.amount if wish.kind == SHARE else 0
            alike = sum(other.model == one.model for other in free) if any(w.matches for w in world.wishes) else 0
            largest.append((room, alike, len(free)))
            after = with_devices(taken, wish, [one])
            assert after is not None
            taken = after
    lost = [was - left for was, left in zip(before, _partitions(machine, taken), strict=True)]
    return (*lost, *map(max, zip(*largest, strict=True)))


def _partitions(machine: Machine, taken: Taken) -> list[int]:
    """How many of each size can be cut from what is left, the largest size first."""
    left = COUNTER - taken[1]
    uncut = [one.size for one in machine.devices if one.kind == PART and one.name not in taken[0]]
    return [min(uncut.count(size), left // size) for size in (3, 2, 1)]
