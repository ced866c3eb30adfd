"""Rollouts: how much of a node random sequences of the workload's shapes fill, placed into what is left of it.

The sequences are drawn once, and are the same for all nodes, so that two states are compared by the same pods. What
fits is placed, each device on the fitting unit with the least left; the rest is passed over.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

from allocator.policies.unit_states import NONE, UNKNOWN, UnitStates

SEQUENCES = 32
LENGTHS = (10, 20, 40, 80, 160)
"""Of the sequences, in turn: what comes next counts most, but a node has to serve long as well."""

Units = tuple[int, ...]
"""The states of a node's units."""


@dataclass(frozen=True, slots=True)
class FillShape:
    """Pods that ask for the same. share: of all pods. cpu: in thousandths. memory: in bytes, on average.

    requests: the number of each, and how many devices. weight: of all its devices, in thousandths of a unit.
    """

    share: float
    cpu: int
    memory: int
    requests: tuple[tuple[int, int], ...]
    weight: float = 0.0


class Rollouts:
    """The sequences of a workload."""

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape]) -> None:
        self._states = states
        self._shapes = shapes
        self._sequences = list(_drawn([shape.share for shape in shapes]))
        self._places = [_places(sequence, len(shapes)) for sequence in self._sequences]
        self._starts: dict[int, list[int]] = {}

    def value(self, units: Units, cpu: int, memory: int, fitting: int) -> tuple[float, int]:
        """The mean weight of what is placed, and the most memory that any sequence takes.

        fitting: the shapes of which there is room for one, as bits. Cost: O(what is placed and what stops fitting).
        """
        placed, peak = 0.0, 0
        for number, start in enumerate(self._starts_of(fitting)):
            if start:
                weight, taken = self._roll_out(number, start, list(units), cpu, memory)
                placed += weight
                peak = max(peak, taken)
        return placed / len(self._sequences), peak

    def _starts_of(self, fitting: int) -> list[int]:
        """The places of each sequence where one of these shapes stands; none where no device is asked for."""
        known = self._starts.get(fitting)
        if known is None:
            with_devices = fitting & sum(1 << number for number, one in enumerate(self._shapes) if one.requests)
            known = [_union(places, fitting) if _union(places, with_devices) else 0 for places in self._places]
            self._starts[fitting] = known
        return known

    def _roll_out(self, number: int, places: int, units: list[int], cpu: int, memory: int) -> tuple[float, int]:
        sequence, of_shape, shapes = self._sequences[number], self._places[number], self._shapes
        placed, first = 0.0, memory
        while places:
            lowest = places & -places
            one = sequence[lowest.bit_length() - 1]
            shape = shapes[one]
            if shape.cpu <= cpu and shape.memory <= memory and self._place(units, shape.requests):
                cpu -= shape.cpu
                memory -= shape.memory
                placed += shape.weight
                places ^= lowest
            else:
                places &= ~of_shape[one]  # what does not fit will not later
        return placed, first - memory

    def _place(self, units: list[int], requests: Sequence[tuple[int, int]]) -> bool:
        """Take what is requested; False where there is no room, and nothing is taken."""
        before = list(units) if len(requests) > 1 else units
        for request, count in requests:
            found = tightest(self._states, units, request, count)
            if found is None:
                units[:] = before
                return False
            for place, after in found:
                units[place] = after
        return True


def tightest(states: UnitStates, units: Sequence[int], request: int, count: int) -> list[tuple[int, int]] | None:
    """The places and new states of the units that so many devices come from, each where the least is left.

    A unit gives several only where it is cut into parts. None where there is no room.
    """
    best, left = states.best_of[request], states.left
    fitting: list[tuple[int, int, int]] = []
    for place, unit in enumerate(units):
        after = best[unit]
        if after == UNKNOWN:
            after = states.best(unit, request)
        if after != NONE:
            fitting.append((left[unit], place, after))
    if count == 1 and fitting:
        _, place, after = min(fitting)
        return [(place, after)]
    if len(fitting) >= count:
        fitting.sort()
        return [(place, after) for _, place, after in fitting[:count]]
    return _divided(states, units, request, count) if fitting else None


def _divided(states: UnitStates, units: Sequence[int], request: int, count: int) -> list[tuple[int, int]] | None:
    """The same, where units have to give several devices each."""
    now, found = list(units), list[tuple[int, int]]()
    for _ in range(count):
        fitting = [
            (states.left[unit], place)
            for place, unit in enumerate(now)
            if states.best(unit, request) != NONE
            and (place not in dict(found) or len(states.kind_of[unit].takes[request]) > 1)
        ]
        if not fitting:
            return None
        _, place = min(fitting)
        now[place] = states.best(now[place], request)
        found.append((place, now[place]))
    return found


def _union(places: Sequence[int], shapes: int) -> int:
    return sum(own for number, own in enumerate(places) if shapes >> number & 1)  # no place has two shapes


def _places(sequence: Sequence[int], shapes: int) -> list[int]:
    """Where each shape stands, as bits."""
    places = [0] * shapes
    for place, shape in enumerate(sequence):
        places[shape] |= 1 << place
    return places


def _drawn(shares: Sequence[float]) -> Iterator[list[int]]:
    """The sequences: numbers of shapes, as often as their shares say; the same on every machine."""
    upto = list(accumulate(shares))
    for number in range(SEQUENCES):
        length = LENGTHS[number % len(LENGTHS)] if upto and upto[-1] > 0 else 0
        yield [min(bisect(upto, upto[-1] * _uniform(number, place)), len(upto) - 1) for place in range(length)]


def _uniform(sequence: int, place: int) -> float:
    """From 0 to 1, without 1."""
    drawn = blake2b(f"{sequence}/{place}".encode(), digest_size=8).digest()
    return (int.from_bytes(drawn, "big") >> 11) / (1 << 53)
