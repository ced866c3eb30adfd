"""Rollouts: how much of a node random sequences of the workload's pods fill, placed into what is left of it.

The sequences are drawn once, and are the same for all nodes, so that two states are compared by the same pods. What
fits is placed, each device on the fitting unit with the least left; the rest is passed over.
"""

from bisect import bisect, bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from allocator.candidates import MAX_RESULTS
from allocator.policies.hardware import UNIT, Cells, UnitCells, thousandths

# What can become of units: each state that a unit may be in, and where the requests of pods lead from there.
#
# Units that say the same of every request of the workload, and of which as much is left, are in the same state, on
# whichever node they are. A state is a number, so that a node is a few numbers, and to place a pod on it is to look
# them up.


PRICE: Final = 1 << 10
"""Of a thousandth of a unit, where its driver has none of its own."""

MOST_TIMES: Final = 1 << 53
"""Devices that there is room for, at most: a driver may publish 10**18 times what one takes."""

NONE: Final = -1
"""The state that a request leads to for which there is no room."""

UNKNOWN: Final = -2


@dataclass(slots=True, eq=False)
class Takes:
    """What devices for a request may take of a unit: one of these. nexts, best: where that leads, as far as known."""

    cells: tuple[Cells, ...]
    nexts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    best: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class UnitKind:
    """Units that are alike. takes: for each request of the workload."""

    unit: UnitCells
    takes: tuple[Takes, ...]


class UnitStates:
    """The states of all units, for so many requests of the workload.

    left: of each, in thousandths of a unit. worth: the same at its driver's price. serves: for which requests there is
    room, as bits. best_of: `best` for each request, UNKNOWN where it was not asked for.
    """

    def __init__(self, requests: int) -> None:
        self.left: list[int] = []
        self.worth: list[int] = []
        self.serves: list[int] = []
        self.kind_of: list[UnitKind] = []
        self.best_of: list[list[int]] = [[] for _ in range(requests)]
        self._cells: list[Cells] = []
        self._numbers: dict[tuple[UnitKind, Cells], int] = {}
        self._kinds: dict[Hashable, UnitKind] = {}
        self._takes: dict[tuple[Cells, ...], Takes] = {}
        self._prices: Mapping[str, int] = {}

    def __len__(self) -> int:
        return len(self.left)

    def set_prices(self, prices: Mapping[str, int]) -> None:
        """The prices of drivers from now on."""
        self._prices = prices
        self.worth[:] = [left * self.price(kind.unit) for left, kind in zip(self.left, self.kind_of, strict=True)]

    def price(self, unit: UnitCells) -> int:
        """Of a thousandth of the unit."""
        return self._prices.get(unit.driver, PRICE)

    def takes(self, cells: tuple[Cells, ...]) -> Takes:
        """The one object for these."""
        interned = self._takes.get(cells)
        if interned is None:
            interned = self._takes[cells] = Takes(cells)
        return interned

    def kinds(self, units: Sequence[UnitCells], takes: Sequence[Sequence[Takes]]) -> list[UnitKind]:
        """The kind of each unit. takes: for each request of the workload, for each unit."""
        kinds: list[UnitKind] = []
        for number, unit in enumerate(units):
            of_unit = tuple([of[number] for of in takes])
            kind = self._kinds.get((unit, of_unit))
            if kind is None:
                kind = self._kinds[unit, of_unit] = UnitKind(unit, of_unit)
            kinds.append(kind)
        return kinds

    def number(self, kind: UnitKind, cells: Cells) -> int:
        """The state of a unit of which that is left."""
        number = self._numbers.get((kind, cells))
        if number is None:
            number = self._numbers[kind, cells] = len(self.left)
            left = thousandths(kind.unit, cells)
            self.left.append(left)
            self.worth.append(left * self.price(kind.unit))
            self.serves.append(_serves(kind, cells))
            self.kind_of.append(kind)
            self._cells.append(cells)
            for best in self.best_of:
                best.append(UNKNOWN)
        return number

    def nexts(self, state: int, takes: Takes) -> tuple[int, ...]:
        """The states that one device may lead to, in the order of devices."""
        nexts = takes.nexts.get(state)
        if nexts is None:
            kind, cells = self.kind_of[state], self._cells[state]
            afterwards: dict[int, None] = {}
            for take in takes.cells:
                after = _less(cells, take)
                if after is not None:
                    afterwards[self.number(kind, after)] = None
            nexts = takes.nexts[state] = tuple(afterwards)
        return nexts

    def best(self, state: int, takes: Takes) -> int:
        """The state after one device, of those the one that leaves room for most; NONE where there is no room."""
        best = takes.best.get(state)
        if best is None:
            nexts = self.nexts(state, takes)
            best = max(nexts, key=self._room, default=NONE) if len(nexts) != 1 else nexts[0]
            takes.best[state] = best
        return best

    def best_for(self, state: int, request: int) -> int:
        """The same for a request of the workload."""
        best = self.best_of[request][state] = self.best(state, self.kind_of[state].takes[request])
        return best

    def times(self, state: int, request: int) -> int:
        """How many devices for the request of the workload there is room for; of tiny or empty ones at least UNIT."""
        takes = self.kind_of[state].takes[request]
        if len(takes.cells) == 1:
            return _times(self._cells[state], takes.cells[0])
        number = 0
        while number < UNIT and (state := self.best(state, takes)) != NONE:
            number += 1
        return number

    def taken(self, state: int, after: int) -> Cells:
        """What has to be taken for the one state to become the other."""
        return tuple([one - two for one, two in zip(self._cells[state], self._cells[after], strict=True)])

    def _room(self, state: int) -> int:
        """How many of the workload's choices of devices there still is room for."""
        kind, cells = self.kind_of[state], self._cells[state]
        return sum(_less(cells, take) is not None for takes in kind.takes for take in takes.cells)


def _serves(kind: UnitKind, cells: Cells) -> int:
    served = 0
    for request, takes in enumerate(kind.takes):
        for take in takes.cells:
            if _less(cells, take) is not None:
                served |= 1 << request
                break
    return served


def _less(cells: Cells, take: Cells) -> Cells | None:
    after = tuple([left - amount for left, amount in zip(cells, take, strict=True)])
    return None if min(after) < 0 else after


def _times(cells: Cells, take: Cells) -> int:
    times = [min(MOST_TIMES, left // amount) for left, amount in zip(cells, take, strict=True) if amount]
    return min(times, default=UNIT)


SEQUENCES: Final = 32
LENGTHS: Final = (10, 20, 40, 80, 160)
"""Of the sequences, in turn: what comes next counts most, but a node has to serve long as well."""

PLENTY: Final = 1 << 60
"""Of cpu or memory that is never short."""

MOST_PLANS: Final = 1 << 10
"""Sets of requests for which the sequences without all others are kept."""

_NO_DEVICE: Final = -1
_SEVERAL: Final = -2
"""Requests of a shape."""

Units = tuple[int, ...]
"""The states of a node's units."""


@dataclass(frozen=True, slots=True)
class FillShape:
    """Pods that ask for the same. share: of all pods. cpu: in thousandths. memory: in MiB, on average.

    requests: the number of each, and how many devices.
    """

    share: float
    cpu: int
    memory: int
    requests: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Filled:
    """What the sequences fill of a node, all together, and for what else of cpu and memory they fill the same.

    least_cpu, most_cpu: with as much memory. least_memory: and with any more; PLENTY where more may change something.
    """

    amount: int
    least_cpu: int
    most_cpu: int
    least_memory: int


@dataclass(frozen=True, slots=True, eq=False)
class _FittingPods:
    """A sequence without the pods for whose devices there is no room."""

    served: int
    """The requests for which there is room, as a mask."""
    shapes: list[int]
    """The shapes of its pods."""
    places: list[int]
    """Where each pod stands in the sequence."""
    starts: list[int]
    """How many of the pods stand before each place of the sequence, and before its end."""
    least_cpu: int
    """The least CPU that a pod with devices requests."""


class Rollouts:
    """The sequences of a workload."""

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape]) -> None:
        self._states = states
        self._left = states.left
        self._serves = states.serves
        self._worth = states.worth
        self._sequences = list(_drawn([shape.share for shape in shapes]))
        self._cpu = [shape.cpu for shape in shapes]
        self._memory = [shape.memory for shape in shapes]
        self._requests = [shape.requests for shape in shapes]
        numbers: dict[tuple[int, int], int] = {}
        self._only = [_only(shape.requests, numbers) for shape in shapes]
        self._asked = list(numbers)
        self._plans: dict[int, list[_FittingPods]] = {}
        self._totals: dict[tuple[int, tuple[UnitKind, ...]], list[int]] = {}
        self._refused_in = [0] * len(numbers)
        self._rollout = 0
        self._cpu_left = 0
        self._cpu_lacking = 0
        self._memory_left = 0
        self._lacks_memory = False

    def fill(self, units: Units, cpu: int, memory: int) -> Filled:
        """What the sequences fill. units: from the least left to the most. Cost: O(what is placed and what is not)."""
        amount = 0
        self._cpu_left, self._cpu_lacking, self._memory_left, self._lacks_memory = cpu, PLENTY, memory, False
        for number, plan in enumerate(self._plans_of(self._served(units))):
            if plan.shapes:
                amount += self._roll_out(number, plan, list(units), cpu, memory)
        least_memory = PLENTY if self._lacks_memory else memory - self._memory_left
        return Filled(amount, cpu - self._cpu_left, cpu + self._cpu_lacking - 1, least_memory)

    def totals(self, units: Units) -> list[int]:
        """What pods of each sequence take of the units at most, without those for whose devices there is no room."""
        kinds = dict[UnitKind, None]()
        for unit in units:
            kinds[self._states.kind_of[unit]] = None
        key = self._served(units), tuple(kinds)
        totals = self._totals.get(key)
        if totals is None:
            if len(self._totals) >= MOST_PLANS:
                self._totals.clear()
            most = [self._most(requests, key[1]) for requests in self._requests]
            totals = self._totals[key] = [sum([most[one] for one in plan.shapes]) for plan in self._plans_of(key[0])]
        return totals

    def _most(self, requests: Sequence[tuple[int, int]], kinds: Sequence[UnitKind]) -> int:
        most = 0
        for request, count in requests:
            amounts = [
                self._states.price(kind.unit) * (thousandths(kind.unit, take) + 1)  # rounded up
                for kind in kinds
                for take in kind.takes[request].cells
            ]
            most += count * max(amounts, default=0)
        return most

    def _served(self, units: Sequence[int]) -> int:
        """The requests for which any of the units has room, as bits."""
        served, serves = 0, self._serves
        for unit in units:
            served |= serves[unit]
        return served

    def _plans_of(self, served: int) -> list[_FittingPods]:
        """Of each sequence, for units that have room for these requests."""
        plans = self._plans.get(served)
        if plans is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            may_fit = [_is_served(requests, served) for requests in self._requests]
            plans = self._plans[served] = [self._plan(served, sequence, may_fit) for sequence in self._sequences]
        return plans

    def _plan(self, served: int, sequence: list[int], may_fit: list[bool]) -> _FittingPods:
        places = [place for place, shape in enumerate(sequence) if may_fit[shape]]
        while places and not self._requests[sequence[places[-1]]]:
            places.pop()
        shapes = [sequence[place] for place in places]
        starts = [bisect_left(places, place) for place in range(len(sequence) + 1)]
        least_cpu = min([self._cpu[shape] for shape in shapes if self._requests[shape]], default=0)
        return _FittingPods(served, shapes, places, starts, least_cpu)

    def _roll_out(self, number: int, plan: _FittingPods, units: list[int], cpu: int, memory: int) -> int:
        """What the sequence of that number fills of the units, which it changes."""
        self._rollout += 1
        cpus, memories, only, placed = self._cpu, self._memory, self._only, 0
        shapes, place = plan.shapes, 0
        while place < len(shapes):
            if plan.least_cpu > cpu:
                self._lacks_cpu(plan.least_cpu - cpu)
                break
            shape = shapes[place]
            place += 1
            lacking = cpus[shape] - cpu
            if lacking > 0:
                self._lacks_cpu(lacking)
                continue
            if memories[shape] > memory:
                self._lacks_memory = True
                continue
            if only[shape] != _NO_DEVICE:
                amount = self._place(units, shape, only[shape])
                if amount < 0:
                    continue
                placed += amount
                served = self._served(units)
                if served != plan.served:
                    at = plan.places[place - 1] + 1
                    plan = self._plans_of(served)[number]
                    shapes, place = plan.shapes, plan.starts[at]
            cpu, memory = -lacking, memory - memories[shape]
        self._cpu_left = min(self._cpu_left, cpu)
        self._memory_left = min(self._memory_left, memory)
        return placed

    def _lacks_cpu(self, lacking: int) -> None:
        self._cpu_lacking = min(self._cpu_lacking, lacking)

    def _place(self, units: list[int], shape: int, only: int) -> int:
        """Take the devices of a shape; what that takes of the units, below 0 where there is no room."""
        if only == _SEVERAL:
            return self._take_all(units, self._requests[shape])
        if self._refused_in[only] == self._rollout:
            return -1  # what does not fit will not later
        request, count = self._asked[only]
        amount = self._take_one(units, request) if count == 1 else self._take(units, request, count)
        if amount < 0:
            self._refused_in[only] = self._rollout
        return amount

    def _take_all(self, units: list[int], requests: Sequence[tuple[int, int]]) -> int:
        before, amount = list(units), 0
        for request, count in requests:
            taken = self._take(units, request, count)
            if taken < 0:
                units[:] = before
                return -1
            amount += taken
        return amount

    def _take_one(self, units: list[int], request: int) -> int:
        best = self._states.best_of[request]
        for place in range(len(units)):
            after = best[units[place]]
            if after == UNKNOWN:
                after = self._states.best_for(units[place], request)
            if after != NONE:
                amount = self._worth[units.pop(place)] - self._worth[after]
                self._put(units, after)
                return amount
        return -1

    def _take(self, units: list[int], request: int, count: int) -> int:
        """Several devices, each of another unit as far as that goes."""
        best, places = self._states.best_of[request], list[int]()
        for place in range(len(units)):
            after = best[units[place]]
            if after == UNKNOWN:
                after = self._states.best_for(units[place], request)
            if after != NONE:
                places.append(place)
                if len(places) >= count:
                    break
        if len(places) < count:
            return self._take_divided(units, request, count) if places else -1
        return self._replace(units, [(place, best[units[place]]) for place in places[:count]])

    def _take_divided(self, units: list[int], request: int, count: int) -> int:
        takes = [self._states.kind_of[unit].takes[request] for unit in units]
        tight = tightest(self._states, units, takes, count)
        return -1 if tight is None else self._replace(units, list(dict(tight).items()))

    def _replace(self, units: list[int], afters: list[tuple[int, int]]) -> int:
        """Each unit at these places becomes another state; what is taken."""
        amount = 0
        for place, after in sorted(afters, reverse=True):
            amount += self._worth[units.pop(place)] - self._worth[after]
        for _, after in afters:
            self._put(units, after)
        return amount

    def _put(self, units: list[int], unit: int) -> None:
        """Into the order. A unit that no request can use is left out."""
        if self._serves[unit]:
            place, left = 0, self._left[unit]
            while place < len(units) and self._left[units[place]] < left:
                place += 1
            units.insert(place, unit)


def tightest(
    states: UnitStates, units: Sequence[int], takes: Sequence[Takes], count: int
) -> list[tuple[int, int]] | None:
    """The places and new states of the units that so many devices come from, each where the least is left.

    takes: for each unit. A unit gives several only where it is cut into parts. None where there is no room.
    """
    fitting: list[tuple[int, int, int]] = []
    for place, unit in enumerate(units):
        after = states.best(unit, takes[place])
        if after != NONE:
            fitting.append((states.left[unit], place, after))
    if len(fitting) >= count:
        fitting.sort()
        return [(place, after) for _, place, after in fitting[:count]]
    return _divided(states, units, takes, count) if fitting else None


def _divided(
    states: UnitStates, units: Sequence[int], takes: Sequence[Takes], count: int
) -> list[tuple[int, int]] | None:
    """The same, where units have to give several devices each; none where these are more than a claim can hold."""
    if count > MAX_RESULTS:
        return None
    now, steps, used = list(units), list[tuple[int, int]](), set[int]()
    for _ in range(count):
        fitting = [
            (states.left[unit], place)
            for place, unit in enumerate(now)
            if (place not in used or len(takes[place].cells) > 1) and states.best(unit, takes[place]) != NONE
        ]
        if not fitting:
            return None
        _, place = min(fitting)
        now[place] = states.best(now[place], takes[place])
        used.add(place)
        steps.append((place, now[place]))
    return steps


def _only(requests: Sequence[tuple[int, int]], numbers: dict[tuple[int, int], int]) -> int:
    """The number of the one request of a shape, with its count."""
    if not requests:
        return _NO_DEVICE
    return numbers.setdefault(requests[0], len(numbers)) if len(requests) == 1 else _SEVERAL


def _is_served(requests: Sequence[tuple[int, int]], served: int) -> bool:
    return all(served >> request & 1 for request, _ in requests)


def _drawn(shares: Sequence[float]) -> Iterator[list[int]]:
    """The sequences: numbers of shapes, in each as often as their shares say; the same on every machine."""
    upto = list(accumulate(shares))
    for number in range(SEQUENCES):
        length = LENGTHS[number % len(LENGTHS)] if upto and upto[-1] > 0 else 0
        yield [min(bisect(upto, upto[-1] * one), len(upto) - 1) for one in _spread(number, length)]


@cache
def _spread(sequence: int, length: int) -> tuple[float, ...]:
    """Numbers from 0 to 1, without 1: one of each part of that, in random order."""
    parts = sorted(range(length), key=lambda place: _uniform(f"{sequence}/order/{place}"))
    return tuple([(part + _uniform(f"{sequence}/{place}")) / length for place, part in enumerate(parts)])


def _uniform(seed: str) -> float:
    """From 0 to 1, without 1."""
    return (int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "big") >> 11) / (1 << 53)
