"""Which members of a group are placed, by trying all there is: every part of it, every node, every choice of devices.

Written to be read, and to share nothing with what it judges but the worlds.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from tests.properties.pod_groups.worlds import SHARED, ZONE, Branch, Machine, Piece, Wish, World, with_only

Places = dict[str, tuple[str, frozenset[str]]]
"""By member its node and its devices."""


def best(world: World) -> list[str]:
    """The members to be placed: the lexicographically greatest part that is large enough and has a place at once."""
    for chosen in product((True, False), repeat=len(world.wishes)):
        part = [wish for wish, is_in in zip(world.wishes, chosen, strict=True) if is_in]
        if _is_enough(world, [wish.name for wish in part]) and any(
            _has_place(world, part, zone) for zone in _zones(world)
        ):
            return [wish.name for wish in part]
    return []


def _is_enough(world: World, names: Sequence[str]) -> bool:
    """Whether each group with one of these members has as many as it needs."""
    tree = world.tree
    if tree is None:
        return len(names) >= world.least

    def is_met(branch: Branch) -> bool:
        return sum(is_met(child) for child in branch.branches) + len({*branch.members} & {*names}) >= branch.least

    return is_met(tree) and all(is_met(branch) for branch in _branches(tree) if _inside(branch) & {*names})


def _branches(branch: Branch) -> list[Branch]:
    return [branch, *(inner for child in branch.branches for inner in _branches(child))]


def _inside(branch: Branch) -> set[str]:
    return {name for one in _branches(branch) for name in one.members}


def victims(world: World) -> tuple[frozenset[str], list[str]] | None:
    """Who goes, so that the most important ones stay, and who is placed then; None where nobody's end helps."""
    lows = sorted(world.lows, key=lambda low: (-low.priority, low.started, f"uid-{low.name}"))
    for kept in product((True, False), repeat=len(lows)):
        stays = [low for low, is_kept in zip(lows, kept, strict=True) if is_kept]
        if members := best(with_only(world, stays)):
            return frozenset(low.name for low in lows if low not in stays), members
    return None


def _zones(world: World) -> set[str]:
    return {machine.zone for machine in world.machines} if world.keeps_zone and not world.run else {""}


def _has_place(world: World, part: Sequence[Wish], zone: str) -> bool:
    machines = [machine for machine in world.machines if zone in ("", machine.zone)]
    return any(True for _ in _places(world, machines, list(part), {}))


def _places(world: World, machines: Sequence[Machine], rest: list[Wish], places: Places) -> Iterator[Places]:
    if not rest:
        yield places
        return
    wish = rest[0]
    for machine in machines:
        for devices in _choices(world, machine, wish, places):
            more = {**places, wish.name: (machine.name, devices)}
            if is_valid(world, more):
                yield from _places(world, machines, rest[1:], more)


def _choices(world: World, machine: Machine, wish: Wish, places: Places) -> list[frozenset[str]]:
    asked = SHARED if wish.shared else wish
    had = [places[other.name][1] for other in world.wishes if other.shared and wish.shared and other.name in places]
    if had:
        return had[:1]
    reached = (*machine.pieces, *(world.network if world.network_zone in ("", machine.zone) else ()))
    free = [piece for piece in reached if not piece.is_taken and asked.model in ("", piece.model)]
    return [
        frozenset(piece.name for piece in pieces)
        for pieces in combinations(free, asked.count)
        if not asked.matches or len({piece.half for piece in pieces}) == 1
    ]


def is_valid(world: World, places: Places) -> bool:
    """Whether all this can be at once."""
    wishes = {wish.name: wish for wish in world.wishes}
    for machine in world.machines:
        there = [wishes[name] for name, (node, _) in places.items() if node == machine.name]
        if sum(wish.cpu for wish in there) > machine.cpu:
            return False
        if len(there) > 1 and any(wish.apart for wish in there):
            return False
    if not all(keeps(world, places) for keeps in (_keeps_to_rails, _keeps_runs, _keeps_branches)):
        return False
    given: list[str] = []
    shared: set[frozenset[str]] = set()
    for name, (node, devices) in places.items():
        if not devices <= _reached_from(world, node):
            return False
        if wishes[name].shared:
            shared.add(devices)
        else:
            given += devices
    given += [device for devices in shared for device in devices]
    return len(shared) <= 1 and len(given) == len(set(given))


def _keeps_to_rails(world: World, places: Places) -> bool:
    own = [
        name for wish in world.wishes for name in [wish.name] if name in places and not (wish.shared and world.of_own)
    ]
    devices = {device for name in own for device in places[name][1]}
    pieces = [piece for one in (*(m.pieces for m in world.machines), world.network) for piece in one]
    rails = [piece.rail for piece in pieces if piece.name in devices]
    if not world.rails or not rails:
        return True
    return -1 not in rails and len(set(rails)) == (1 if world.rails == "match" else len(rails))


def _keeps_runs(world: World, places: Places) -> bool:
    zone_of = {machine.name: machine.zone for machine in world.machines}
    zones: dict[int, set[str]] = {}
    for place, wish in enumerate(world.wishes):
        if world.run and wish.name in places:
            zones.setdefault(place // world.run, set()).add(zone_of[places[wish.name][0]])
    return all(len(one) == 1 for one in zones.values())


def _keeps_branches(world: World, places: Places) -> bool:
    zone_of = {machine.name: machine.zone for machine in world.machines}
    for branch in _branches(world.tree) if world.tree else ():
        nodes = [places[name][0] for name in places if name in _inside(branch)]
        values = [zone_of[node] if branch.keeps == ZONE else node for node in nodes]
        if branch.keeps and len(set(values)) > 1:
            return False
    return True


def _reached_from(world: World, node: str) -> frozenset[str]:
    machine = next(one for one in world.machines if one.name == node)
    network: tuple[Piece, ...] = world.network if world.network_zone in ("", machine.zone) else ()
    return frozenset(piece.name for piece in (*machine.pieces, *network))
