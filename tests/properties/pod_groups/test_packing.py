"""How many members of each class have a place at once: both searches answer as one that tries all there is."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from scheduler.pod_groups import packing
from scheduler.pod_groups.group_result import GroupSteps
from scheduler.pod_groups.packing import NodeLoad, NodeState, NodeStates, Packing
from tests import extent

CASES = extent.chosen("PACKINGS", 300, 20_000)
SEED = extent.chosen("PACKINGS_SEED", 1, extent.day())

Amounts = tuple[int, ...]


def fits_on(room: Amounts, asks: Sequence[Amounts], load: NodeLoad) -> bool:
    used = [sum(count * own[which] for count, own in zip(load, asks, strict=True)) for which in range(len(room))]
    return all(amount <= most for amount, most in zip(used, room, strict=True))


def fits(rooms: Sequence[Amounts], asks: Sequence[Amounts], wanted: NodeLoad) -> bool:
    """By all loads of the first node, and then of the others."""
    if not any(wanted):
        return True
    if not rooms:
        return False
    return any(
        fits(rooms[1:], asks, tuple(one - other for one, other in zip(wanted, load, strict=True)))
        for load in product(*(range(count + 1) for count in wanted))
        if fits_on(rooms[0], asks, load)
    )


@pytest.mark.parametrize("tries", [1, 1_000_000])
def test_either_search_finds_what_there_is(monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
    """tries: of the search by counts, before the nodes are looked at one by one."""
    monkeypatch.setattr(packing, "_TRIES", tries)
    outcomes: Counter[bool] = Counter()
    for number in range(CASES):
        rng = Random(f"{SEED}/{number}")  # noqa: S311 - not for secrets
        asks: list[Amounts] = [(rng.randint(0, 4), rng.randint(0, 2)) for _ in range(rng.randint(1, 3))]
        rooms: list[Amounts] = [(rng.randint(0, 8), rng.randint(0, 4)) for _ in range(rng.randint(1, 3))]
        wanted = tuple(rng.randint(0, 4) for _ in asks)
        kinds = list(dict.fromkeys(rooms))

        def has_room(
            state: NodeState, one: int, kinds: Sequence[Amounts] = kinds, asks: Sequence[Amounts] = asks
        ) -> bool:
            kind, load = state
            return sum(load) < 20 and fits_on(kinds[kind], asks, (*load[:one], load[one] + 1, *load[one + 1 :]))

        states = NodeStates(has_room, GroupSteps(1_000_000))
        weights = [tuple(own[which] for own in asks) for which in range(2)] if rng.random() < 0.5 else []
        nodes = {place: rooms.count(kind) for place, kind in enumerate(kinds)}
        found = Packing(states, nodes, len(asks), weights).feasible(wanted)
        expected = fits(rooms, asks, wanted)
        assert (found is not None) == expected, f"PACKINGS_SEED={SEED}, case {number}"
        outcomes[expected] += 1
        if found is not None:
            assert all(fits_on(kinds[kind], asks, load) for kind, load in found)
            assert Counter({kind: rooms.count(own) for kind, own in enumerate(kinds)}) == _by_kind(found)
            assert tuple(sum(load[one] * count for (_, load), count in found.items()) for one in range(len(asks))) == (
                wanted
            )
    assert min(outcomes[True], outcomes[False]) > CASES // 10


def _by_kind(found: packing.NodeCounts) -> Counter[int]:
    counts: Counter[int] = Counter()
    for (kind, _), count in found.items():
        counts[kind] += count
    return counts
