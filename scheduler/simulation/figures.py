"""The figures of a run: series over arrivals and over time, and a summary.

`FleetFigures` sums up what is free, node by node as nodes change; `Alignments` counts how the devices of claims are to
each other; `RunFigures` follows a run with both.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import copysign
from typing import NamedTuple

from allocator.memo import exact
from allocator.model import Claim, Device, DeviceID, PoolID, Slice
from allocator.policies.hardware import UNIT
from allocator.policies.published import fragment, fragment_by_cause
from allocator.policies.whole_nodes import FreeResources
from scheduler.core_v1.pod import Pod
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.simulation.demand import Demand
from scheduler.simulation.engine import Attempted, Follower
from scheduler.simulation.group_figures import GroupFigures
from scheduler.simulation.result import TIME_DIGITS, AlignmentSummary, Series, ShapeSummary, Summary, distribution

PLACES = frozenset({"numanode", "numa", "pcieroot", "pcie", "parent", "parentuuid"})
"""Attributes that are a place of the topology: their names without domain, in small letters."""


class Alignments:
    """Counts how many claims with several devices have them at one place: a NUMA node, a PCIe root, a parent.

    A claim counts for an attribute among `PLACES` if all of its devices have it, and is aligned if all have the same
    value. Admin access takes no device, and does not count. slices: by name, as they are at any time.
    """

    def __init__(self, slices: Mapping[str, Slice]) -> None:
        self._slices = slices
        self._of_pool: dict[PoolID, list[Slice]] | None = None
        self._claims: Counter[str] = Counter()
        self._aligned: Counter[str] = Counter()

    def hardware_changed(self) -> None:
        """Slices were added, removed or changed."""
        self._of_pool = None

    def count(self, claims: Iterable[Claim]) -> None:
        """The claims have got their devices. Cost: O(devices of their pools)."""
        for claim in claims:
            results = claim.allocation.results if claim.allocation else ()
            devices = [one.id for one in results if not one.admin_access] if len(results) > 1 else []
            if len(devices) > 1:
                self._count([self._device(one) for one in devices])

    def _count(self, devices: Sequence[Device | None]) -> None:
        places = [_places(one) if one else {} for one in devices]
        for name in places[0].keys() & set[str].intersection(*(set(one) for one in places)):
            self._claims[name] += 1
            self._aligned[name] += len({one[name] for one in places}) == 1

    def _device(self, wanted: DeviceID) -> Device | None:
        """As its newest slice has it; None where none does."""
        published = [
            (slice_.generation, device)
            for slice_ in self._pools().get(PoolID(wanted.driver, wanted.pool), ())
            for device in slice_.devices
            if device.name == wanted.device
        ]
        return max(published, key=lambda one: one[0])[1] if published else None

    def _pools(self) -> Mapping[PoolID, Sequence[Slice]]:
        if self._of_pool is None:
            self._of_pool = {}
            for slice_ in self._slices.values():
                self._of_pool.setdefault(PoolID(slice_.driver, slice_.pool), []).append(slice_)
        return self._of_pool

    def summary(self) -> Mapping[str, AlignmentSummary]:
        """The counts by attribute."""
        return {
            name: AlignmentSummary(claims, self._aligned[name], round(100 * self._aligned[name] / claims, 2))
            for name, claims in sorted(self._claims.items())
        }


def _places(device: Device) -> dict[str, object]:
    """The values of the attributes by qualified name."""
    return {
        name if "/" in name else f"{device.driver}/{name}": exact(value)
        for name, value in device.attributes.items()
        if _is_place(name)
    }


@lru_cache(maxsize=1 << 12)
def _is_place(name: str) -> bool:
    return name.rpartition("/")[2].casefold() in PLACES


class _OfNode(NamedTuple):
    """What is free of one node."""

    size: int = 0
    """Its units."""
    left: int = 0
    """In thousandths of a unit."""
    whole: int = 0
    """Units of which nothing is in use."""
    fragment: float = 0.0
    """In thousandths of a unit."""
    watts: int | None = None
    """What it draws; None where that is not known."""


_NOTHING = _OfNode()


class FleetFigures:
    """What is free of a fleet: sums over all nodes.

    capacity, left: in thousandths of a unit; total: of the fragments, in the same.
    """

    def __init__(self, free: FreeByNode) -> None:
        self.capacity = 0
        self.left = 0
        self.total = 0.0
        self.whole_units = 0
        self.whole_nodes = 0
        self._watts = 0
        self._known = self._unknown = 0
        free.with_power = True
        self._free = free
        self._seen = -1
        self._of_node: dict[int, _OfNode] = {}
        self._blocks: Counter[int] = Counter()
        self._causes: dict[str, float] = {}
        self._causes_of: dict[int, Mapping[str, float]] = {}
        self._stale: set[int] = set()

    def catch_up(self) -> None:
        """Evaluate the nodes that have changed. Cost: a fragment for each of those."""
        self._free.catch_up()
        changes = self._free.changes
        if self._seen == changes.now:
            return
        changed = changes.since(self._seen)
        numbers = sorted({*self._of_node, *self._free.numbers}) if changed is None else changed
        for number in numbers:
            self._replace(number, self._free.get(number))
        self._stale.update(numbers)
        self._seen = changes.now

    def _replace(self, number: int, free: FreeResources | None) -> None:
        before = self._of_node.pop(number, _NOTHING)
        after = _figures(free) if free else _NOTHING
        if free:
            self._of_node[number] = after
        self.capacity += (after.size - before.size) * UNIT
        self.left += after.left - before.left
        self.total += after.fragment - before.fragment
        self._watts += (after.watts or 0) - (before.watts or 0)
        self._known += _draws(after) - _draws(before)
        self._unknown += _is_unknown(after) - _is_unknown(before)
        self.whole_units += after.whole - before.whole
        self.whole_nodes += _is_whole(after) - _is_whole(before)
        self._blocks[before.whole] -= 1
        self._blocks[after.whole] += 1

    @property
    def allocated(self) -> int:
        """What is in use, in thousandths of a unit."""
        return self.capacity - self.left

    @property
    def watts(self) -> int:
        """What all nodes draw; 0 where the model of a device is not known, or no node has devices."""
        return self._watts if self._known and not self._unknown else 0

    @property
    def largest_block(self) -> int:
        """The largest number of idle units on one node. Cost: O(units of a node)."""
        return max((whole for whole, nodes in self._blocks.items() if nodes > 0), default=0)

    def causes(self) -> Mapping[str, float]:
        """The fragments by cause, in thousandths of a unit. Cost: a fragment for each node that has changed since."""
        for number in sorted(self._stale):
            free = self._free.get(number)
            before = self._causes_of.pop(number, {})
            after = fragment_by_cause(free) if free else {}
            self._causes_of[number] = after
            for cause in {**before, **after}:
                grown = after.get(cause, 0.0) - before.get(cause, 0.0)
                self._causes[cause] = self._causes.get(cause, 0.0) + grown
        self._stale.clear()
        return self._causes


def _figures(free: FreeResources) -> _OfNode:
    watts = free.power.watts(free.cpu, free.units) if free.power is not None else None
    return _OfNode(len(free.units), sum(free.units), free.units.count(UNIT), fragment(free), watts)


def _draws(node: _OfNode) -> bool:
    return node.watts is not None and node.size > 0


def _is_unknown(node: _OfNode) -> bool:
    return node.watts is None and node.size > 0


def _is_whole(node: _OfNode) -> bool:
    return 0 < node.size == node.whole


MOST_POINTS = 400
"""Points of a series by time; with more, every second one is left out."""

_DIGITS = 2
_LAST_DIGIT = 0.01


class PodState(StrEnum):
    """Where a pod is; a pod that has arrived is in exactly one of these."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    REFUSED = "refused"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"


@dataclass(slots=True)
class _PodRecord:
    """What became of one pod."""

    shape: str
    """The devices that it requests, in words."""
    namespace: str
    arrived_s: float
    """When it arrived."""
    state: PodState = PodState.WAITING
    is_decided: bool = False
    """It was decided at least once."""
    is_placed: bool = False
    """It got a node at least once."""


@dataclass(slots=True)
class _OfShape:
    arrivals: int = 0
    placed: int = 0
    waits: "array[float]" = field(default_factory=lambda: array("d"))


class RunFigures(Follower):
    """Follows a run. figures, alignments: of its fleet. groups: of its pods. retries: as of the run.

    step_s: the first distance of points in time.
    """

    def __init__(  # noqa: PLR0913 - what it counts with
        self,
        demand: Demand,
        figures: FleetFigures,
        alignments: Alignments,
        groups: GroupFigures,
        *,
        retries: bool,
        step_s: float,
    ) -> None:
        self._demand = demand
        self._figures = figures
        self._alignments = alignments
        self._groups = groups
        self._retries = retries
        self._records: dict[str, _PodRecord] = {}
        self._states: Counter[PodState] = Counter()
        self._shapes: dict[str, _OfShape] = {}
        self._namespaces: dict[str, _OfShape] = {}
        self._refusals: Counter[str] = Counter()
        self._arrived = 0
        self._decisions = 0
        self._evictions = 0
        self._preempted = 0
        self._moved = 0
        self._lost_s = 0.0
        self._now = 0.0
        self._first: float | None = None
        self._integrals = [0.0, 0.0]
        self._watt_seconds = 0.0
        self._at_last_arrival: tuple[float, Sequence[float]] = 0.0, self._integrals
        self._peak = 0.0
        self._by_arrivals: dict[int, _Column] = {}
        self._by_time = _ByTime(step_s)

    # -- what happens

    def at(self, time_s: float) -> None:
        """Nothing changes until then."""
        self._look()
        if self._first is None:
            self._first = self._now = time_s
            self._by_time.begin(time_s)
        for share, value in enumerate((self._allocated(), self._fragmentation())):
            self._integrals[share] += value * (time_s - self._now)
        self._watt_seconds += self._figures.watts * (time_s - self._now)
        while (point := self._by_time.due(time_s)) is not None:
            self._by_time.add(self._point(point), self._causes())
        self._now = time_s

    def adopted(self, pod: Pod) -> None:
        """Only groups count it."""
        self._groups.adopted(pod)

    def arrived(self, pod: Pod) -> None:
        """One more pod."""
        self._groups.waits(pod, self._now)
        self._at_last_arrival = self._now, tuple(self._integrals)
        self._add_pod(pod)

    def _add_pod(self, pod: Pod) -> None:
        shape = self._demand.shape(pod)
        self._records[pod.uid] = _PodRecord(shape, pod.namespace, self._now)
        self._states[PodState.WAITING] += 1
        self._shapes.setdefault(shape, _OfShape()).arrivals += 1
        self._namespaces.setdefault(pod.namespace, _OfShape()).arrivals += 1

    def decided(self, found: Attempted) -> None:
        """An attempt."""
        record = self._records[found.pod.uid]
        self._decisions += 1
        if not found.node:
            self._refusals.update(sorted(map(str, found.reasons)) or [found.failure] * bool(found.failure))
        self._move(record, self._state_after(found))
        if found.node:
            self._groups.placed(found.pod, found.node, found.time_s)
        if found.node and not record.is_placed:
            record.is_placed = True
            for counts in (self._shapes[record.shape], self._namespaces[record.namespace]):
                counts.placed += 1
                counts.waits.append(found.time_s - record.arrived_s)
        if not record.is_decided:
            record.is_decided = True
            self._arrived += self._demand.amount(found.pod)
            self._look()
            self._add_arrival()

    def bound(self, claims: Sequence[Claim]) -> None:
        """Count how their devices are to each other."""
        self._alignments.count(claims)

    def left(self, pod: Pod) -> None:
        """Count a pod that has left; pods bound at the start are not counted."""
        self._groups.left(pod)
        if record := self._records.pop(pod.uid, None):
            self._move(record, PodState.ENDED if record.state is PodState.RUNNING else PodState.WITHDRAWN)

    def evicted(self, pod: Pod, lost_s: float, *, by_preemption: bool = False, by_move: bool = False) -> None:
        """Count an eviction; a pod bound at the start counts as an arrival from then on."""
        self._evictions += 1
        self._preempted += by_preemption
        self._moved += by_move
        self._lost_s += lost_s
        self._groups.waits(pod, self._now)
        if record := self._records.get(pod.uid):
            self._move(record, PodState.WAITING)
        else:
            self._add_pod(pod)

    def hardware_changed(self) -> None:
        """Nodes or slices were added, removed or changed."""
        self._demand.hardware_changed()
        self._alignments.hardware_changed()

    def _state_after(self, found: Attempted) -> PodState:
        if found.node:
            return PodState.RUNNING
        if found.failure:
            return PodState.FAILED
        return PodState.WAITING if self._retries else PodState.REFUSED

    def _move(self, record: _PodRecord, state: PodState) -> None:
        self._states[record.state] -= 1
        self._states[state] += 1
        record.state = state

    # -- what comes of it

    @property
    def by_arrivals(self) -> Series:
        """A point for each percent of the capacity that has arrived."""
        return _series(
            [column.mean() for _, column in sorted(self._by_arrivals.items())],
            [column.causes for _, column in sorted(self._by_arrivals.items())],
        )

    @property
    def by_time(self) -> Series:
        """Points at equal distances of time, and one at the end."""
        self._look()
        points, causes = self._by_time.points, self._by_time.causes
        if self._first is None or (points and points[-1][0] == self._now):
            return _series(points, causes)
        return _series([*points, self._point(self._now)], [*causes, dict(self._causes())])

    def summary(self) -> Summary:
        """The run as a whole."""
        self._look()
        arrivals, states, figures = sum(self._states.values()), self._states, self._figures
        placed = sum(one.placed for one in self._shapes.values())
        waits = sorted(wait for one in self._shapes.values() for wait in one.waits)
        return Summary(
            arrivals=arrivals,
            placed=placed,
            ended=states[PodState.ENDED],
            running=states[PodState.RUNNING],
            waiting=states[PodState.WAITING],
            refused=states[PodState.REFUSED],
            failed=states[PodState.FAILED],
            withdrawn=states[PodState.WITHDRAWN],
            acceptance_percent=_percent(placed, arrivals),
            allocated_percent=round(self._allocated(), _DIGITS),
            mean_allocated_percent=self._mean(0, self._allocated()),
            peak_allocated_percent=round(self._peak, _DIGITS),
            fragmentation_percent=_zero(self._fragmentation()),
            fragmentation_ratio=_zero(self._ratio()),
            mean_fragmentation_percent=self._mean(1, self._fragmentation()),
            causes={cause: _zero(value) for cause, value in self._causes().items()},
            largest_block=float(figures.largest_block),
            whole_units=figures.whole_units,
            whole_nodes=figures.whole_nodes,
            evictions=self._evictions,
            decisions=self._decisions,
            refusals=dict(sorted(self._refusals.items(), key=lambda one: (-one[1], one[0]))),
            waiting_s=distribution(waits, TIME_DIGITS),
            shapes=tuple(self._shape(name, one) for name, one in sorted(self._shapes.items())),
            alignment=self._alignments.summary(),
            end_s=self._now,
            preempted=self._preempted,
            lost_s=round(self._lost_s, TIME_DIGITS),
            watts=float(figures.watts),
            energy_wh=round(self._watt_seconds / 3600, _DIGITS),
            namespaces=tuple(self._shape(name, one) for name, one in sorted(self._namespaces.items())),
            moved=self._moved,
            groups=self._groups.by_size(),
            together=self._groups.together(),
        )

    def _shape(self, name: str, one: _OfShape) -> ShapeSummary:
        accepted = _percent(one.placed, one.arrivals)
        return ShapeSummary(name, one.arrivals, one.placed, accepted, distribution(sorted(one.waits), TIME_DIGITS))

    def _mean(self, share: int, now: float) -> float:
        """Over the time while pods arrive; else over all of it; of a run without any duration, as things are.

        Durations of which a few are very long would make the end, where nothing is decided any more, most of the time.
        """
        for until_s, integrals in (self._at_last_arrival, (self._now, self._integrals)):
            passed = until_s - (self._first or 0.0)
            if passed > 0:
                return _zero(integrals[share] / passed)
        return _zero(now)

    # -- as things are

    def _look(self) -> None:
        self._figures.catch_up()
        self._peak = max(self._peak, self._allocated())

    def _allocated(self) -> float:
        return _share(self._figures.allocated, self._figures.capacity)

    def _fragmentation(self) -> float:
        return _share(self._figures.total, self._figures.capacity)

    def _ratio(self) -> float:
        return _share(self._figures.total, self._figures.left)

    def _causes(self) -> Mapping[str, float]:
        capacity = self._figures.capacity
        return {cause: _share(amount, capacity) for cause, amount in self._figures.causes().items()}

    def _point(self, time_s: float) -> "_SeriesPoint":
        figures = self._figures
        return (
            time_s,
            float(sum(self._states.values())),
            _share(self._arrived, figures.capacity),
            self._allocated(),
            _share(figures.left, figures.capacity),
            self._fragmentation(),
            self._ratio(),
            float(self._states[PodState.WAITING]),
            float(self._states[PodState.RUNNING]),
            float(figures.largest_block),
            float(figures.whole_units),
            float(figures.whole_nodes),
            float(self._evictions),
            float(figures.watts),
        )

    def _add_arrival(self) -> None:
        point = self._point(self._now)
        number = round(point[_ARRIVED])
        if number not in self._by_arrivals:
            self._by_arrivals[number] = _Column(number, dict(self._causes()))
        self._by_arrivals[number].add(point)


_SeriesPoint = tuple[float, ...]
"""The columns of a series but for the causes, in the order of `_COLUMNS`."""

_COLUMNS = (
    "time_s",
    "arrivals",
    "arrived_percent",
    "allocated_percent",
    "unallocated_percent",
    "fragmentation_percent",
    "fragmentation_ratio",
    "waiting",
    "running",
    "largest_block",
    "whole_units",
    "whole_nodes",
    "evictions",
    "watts",
)
_ARRIVED = _COLUMNS.index("arrived_percent")


@dataclass(slots=True)
class _Column:
    """The arrivals that round to one percent (half to even): a refused pod has arrived. causes: at the first of them.

    Source: the analysis of "Beware of Fragmentation" (USENIX ATC 2023), which recorded curves come from.
    """

    number: int
    causes: Mapping[str, float]
    sums: list[float] = field(default_factory=lambda: [0.0] * len(_COLUMNS))
    count: int = 0

    def add(self, point: _SeriesPoint) -> None:
        """One more; each value is rounded before the mean is taken, as in the analysis."""
        self.count += 1
        for place, value in enumerate(point):
            self.sums[place] += round(value, _DIGITS)

    def mean(self) -> _SeriesPoint:
        means = [total / self.count for total in self.sums]
        arrived = round(means[_ARRIVED], _DIGITS)
        if round(arrived) != self.number:  # half way between two, as 0.504 is when it has been rounded to 0.50
            means[_ARRIVED] = arrived + copysign(_LAST_DIGIT, self.number - arrived)
        return tuple(means)


class _ByTime:
    """Points at equal distances, which double whenever there are too many."""

    def __init__(self, step_s: float) -> None:
        self.points: list[_SeriesPoint] = []
        self.causes: list[Mapping[str, float]] = []
        self._step = step_s if step_s > 0 else 1.0
        self._start = 0.0
        self._number = 0

    def begin(self, time_s: float) -> None:
        """The time of the first point."""
        self._start = time_s

    def due(self, time_s: float) -> float | None:
        """The time of the next point if it is before that time, else None."""
        time = round(self._start + self._number * self._step, TIME_DIGITS)
        return time if time < time_s else None

    def add(self, point: _SeriesPoint, causes: Mapping[str, float]) -> None:
        """The next point."""
        self.points.append(point)
        self.causes.append(dict(causes))
        self._number += 1
        if len(self.points) > MOST_POINTS:
            self.points, self.causes = self.points[::2], self.causes[::2]
            self._step *= 2
            self._number = len(self.points)


def _series(points: Sequence[_SeriesPoint], causes: Sequence[Mapping[str, float]]) -> Series:
    columns = dict(zip(_COLUMNS, zip(*points, strict=True), strict=True)) if points else {}
    names = sorted({name for one in causes for name in one})
    return Series(
        **{name: tuple(_zero(value) for value in values) for name, values in columns.items()},
        causes={name: tuple(_zero(one.get(name, 0.0)) for one in causes) for name in names},
    )


def _share(amount: float, whole: float) -> float:
    return 100 * amount / whole if whole else 0.0


def _percent(amount: int, whole: int) -> float:
    return round(_share(amount, whole), _DIGITS)


def _zero(value: float) -> float:
    """Rounded, and never -0.0."""
    return round(value, _DIGITS) + 0.0
