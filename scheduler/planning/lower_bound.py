"""What every plan costs at least: a relaxation in which pods can be cut and amounts are only added up.

Shapes are pods that ask for the same; each shape is divided among the groups of which a node can take it and the nodes
that are there. On each, what is asked for is at most what there is: cpu, memory, pods, and of devices each measure of
what they are cut from. What takes more than a half of a device, or of a node, counts as a whole one, what takes more
than a third as a half, and so on (dual feasible functions of S. Fekete and J. Schepers, "New classes of fast lower
bounds for bin packing problems", 2001). HiGHS solves it, which scipy brings.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from math import ceil, floor, gcd, lcm
from typing import Any

from allocator.bits import Mask, bits
from allocator.fleet.alike import fingerprint_of
from allocator.model import Claim, Request, Slice
from allocator.outcome import AllocationError
from allocator.policies.hardware import Cells, UnitCells
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.offline.placement import Placement
from scheduler.planning.node_groups import OfferedGroup
from scheduler.state.claims import is_controlled_by
from scheduler.state.pods import CPU, MEMORY, PODS, pod_requests

_INFEASIBLE = 2
"""The status of a program that has no solution."""

_ERROR = 1e-6
"""Of the solver: its bound is lowered by as much of itself."""

_STEPS = (1, 2, 3)
"""The dual feasible functions: beyond a half, a third, a quarter."""


@dataclass(frozen=True, slots=True)
class BoundedDemand:
    """A pod, or a claim that no pod uses, with the groups of which a node can take it, by place."""

    subject: Pod | Claim
    groups: AbstractSet[int]


@dataclass(slots=True)
class _DemandShape:
    """Pods that ask for the same."""

    requests: Mapping[str, int]
    """Of resources."""
    claims: tuple[Claim, ...]
    """Those that are made for one pod."""
    groups: AbstractSet[int]
    """Of which a node can take one, by place."""
    places: Mask
    """The nodes that are there and may take one."""
    number: int = 0
    """How many pods there are."""


_BinRow = tuple[Mapping[int, Fraction], Fraction]
"""What one of each shape takes of something, by the shape's place, and how much of it a bin has."""


@dataclass(slots=True)
class _Bin:
    """A node of a group, or nodes that are there together. group: None for those."""

    group: int | None
    shapes: Sequence[int]
    rows: list[_BinRow] = field(default_factory=list)


def has_solver() -> bool:
    """Whether scipy is installed."""
    return find_spec("scipy") is not None


def relaxation_of(
    demands: Sequence[BoundedDemand],
    before: Placement,
    fresh: Placement,
    groups: Sequence[OfferedGroup],
    names: Sequence[str],
) -> "Relaxation | None":
    """The program; None where scipy is not installed.

    before: the cluster as it is, with nothing placed. fresh: one node of each group. names: of these.
    """
    if not has_solver():
        return None
    shapes = _shapes(demands, before)
    bins = [*_bins_of_groups(shapes, fresh.cluster, groups, names), *_bins_of_nodes(shapes, before.cluster)]
    return Relaxation(shapes, bins, groups)


# -- what is asked for


def _shapes(demands: Sequence[BoundedDemand], before: Placement) -> list[_DemandShape]:
    shapes: dict[Hashable, _DemandShape] = {}
    places: dict[Hashable, Mask] = {}
    for demand in demands:
        subject = demand.subject
        pod = subject if isinstance(subject, Pod) else None
        requests = dict(pod_requests(pod).amounts) if pod else {}
        claims = tuple(_own_claims(pod, before)) if pod else (_as_asked(subject),)
        asked = (tuple(sorted(requests.items())), fingerprint_of(claims), frozenset(demand.groups))
        constraints = _constraints(pod)
        key = (asked, constraints)
        if key not in places:
            places[key] = _places(pod, claims, before)
        shape = shapes.setdefault((asked, places[key]), _DemandShape(requests, claims, demand.groups, places[key]))
        shape.number += 1
    return list(shapes.values())


def _as_asked(claim: Pod | Claim) -> Claim:
    assert isinstance(claim, Claim)
    return claim


def _constraints(pod: Pod | None) -> Hashable:
    """What decides which nodes can take the pod, beside what it takes."""
    if pod is None:
        return ()
    plain = replace(pod, name="", uid="", created="", claims=(), claim_statuses={}, containers=(), conditions=())
    names = tuple(entry.claim_name for entry in pod.claims if entry.claim_name)
    return repr(replace(plain, raw={}, owner=None, resource_version="", phase="")), names


def _own_claims(pod: Pod, before: Placement) -> Iterator[Claim]:
    """The claims that are made for the pod and have no devices: what others share may be counted with others."""
    claims = before.claims.of(before.look(pod).pod or pod)
    for _, claim_object in claims if isinstance(claims, list) else ():
        if claim_object.claim.allocation is None and is_controlled_by(claim_object.metadata, pod.uid):
            yield claim_object.claim


def _places(pod: Pod | None, claims: Sequence[Claim], before: Placement) -> Mask:
    """The nodes that pass all filters now: once more is placed, there are no others."""
    every = before.cluster.fleet.all
    if pod is not None and (pod.spread or pod.pod_affinity.required):
        return every
    look = before.look(pod) if pod is not None else before.look_at_claim(claims[0])
    if look.result is not None:
        return every
    cycle, places = before.cycle(look), 0
    for _, allowed in cycle.eligible:
        places |= allowed & cycle.reached
    return places


# -- what there is


def _bins_of_groups(
    shapes: Sequence[_DemandShape], cluster: Cluster, groups: Sequence[OfferedGroup], names: Sequence[str]
) -> Iterator[_Bin]:
    for place, group in enumerate(groups):
        able = [number for number, shape in enumerate(shapes) if place in shape.groups]
        number = cluster.number_of(names[place])
        assert number is not None
        new_bin = _Bin(place, able)
        for resource in (CPU, MEMORY, PODS):
            free = _free(cluster, number, resource)
            new_bin.rows += _whole_rows({one: shapes[one].requests.get(resource, 0) for one in able}, free)
        if not _shares_partitions(group.slices):
            new_bin.rows += _device_rows(cluster, number, {one: shapes[one].claims for one in able})
        yield new_bin


def _bins_of_nodes(shapes: Sequence[_DemandShape], cluster: Cluster) -> Iterator[_Bin]:
    """Nodes that are alike to the shapes are one bin."""
    kinds = cluster.fleet.kinds([claim for shape in shapes for claim in shape.claims])
    alike: dict[tuple[tuple[int, ...], Hashable], list[int]] = {}
    possible: dict[Hashable, AbstractSet[int]] = {}
    for number in bits(cluster.fleet.all):
        kind = kinds.of(number)
        if kind not in possible:
            possible[kind] = {
                place for place, shape in enumerate(shapes) if _has_devices(cluster, number, shape.claims)
            }
        able = tuple(
            place for place, shape in enumerate(shapes) if shape.places >> number & 1 and place in possible[kind]
        )
        if able:
            alike.setdefault((able, kind), []).append(number)
    counts_devices = not _shares_partitions(
        slice_ for slices in cluster.fleet.slices.by_pool.values() for slice_ in slices
    )
    for (able, _), numbers in alike.items():
        new_bin = _Bin(None, able)
        for resource in (CPU, MEMORY, PODS):
            takes = {one: Fraction(shapes[one].requests.get(resource, 0)) for one in able}
            new_bin.rows.append((takes, Fraction(sum(_free(cluster, number, resource) for number in numbers))))
        if counts_devices:
            new_bin.rows += _left_rows(cluster, numbers, {one: shapes[one].claims for one in able})
        yield new_bin


def _has_devices(cluster: Cluster, number: int, claims: Sequence[Claim]) -> bool:
    """Whether the node has as many devices as each request asks for, whatever is in use."""
    try:
        return all(
            any(
                cluster.free_resources.selected(number, claim, replace(request, alternatives=(one,)))
                >= (1 if one.mode == "All" else one.count)
                for one in request.alternatives
            )
            for claim in claims
            for request in claim.requests
        )
    except AllocationError:
        return True  # the decision says what that means for the pod


def _free(cluster: Cluster, number: int, resource: str) -> int:
    return max(0, int(cluster.infos.columns[resource].free[number]))


def _shares_partitions(slices: Iterable[Slice]) -> bool:
    """Whether several claims may share what is cut from counters: then amounts do not add up."""
    devices = (device for slice_ in slices for device in slice_.devices)
    return any(device.allow_multiple_allocations and device.consumes_counters for device in devices)


def _whole_rows(takes: Mapping[int, int], free: int) -> Iterator[_BinRow]:
    """What a node has: as it is, and by each dual feasible function."""
    if free <= 0:
        yield {one: Fraction(amount) for one, amount in takes.items()}, Fraction(0)
        return
    shares = {one: Fraction(amount, free) for one, amount in takes.items()}
    yield shares, Fraction(1)
    yield from (({one: _stepped(share, steps) for one, share in shares.items()}, Fraction(1)) for steps in _STEPS)


def _stepped(share: Fraction, steps: int) -> Fraction:
    """What is more than a (steps + 1)th counts as a larger part."""
    parts = share * (steps + 1)
    return share if parts.denominator == 1 else Fraction(floor(parts), steps)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Shares of units: of all cells of a unit on average, or of one of them; of other units nothing.

    among: the units that count. cell: None for the average.
    """

    units: Sequence[UnitCells]
    among: AbstractSet[int]
    cell: int | None

    def of(self, unit: int, cells: Cells) -> Fraction:
        """What these cells are of the unit."""
        if unit not in self.among:
            return Fraction(0)
        whole = self.units[unit].whole
        if self.cell is not None and self.cell < len(whole) and whole[self.cell] > 0:
            return Fraction(cells[self.cell], whole[self.cell])
        shares = [Fraction(amount, of) for amount, of in zip(cells, whole, strict=True) if of > 0]
        return sum(shares, Fraction(0)) / len(shares) if shares else Fraction(0)


def _measures(units: Sequence[UnitCells], taken: Iterable["_TakenOfUnits"]) -> Iterator[_Measure]:
    """Of the units that a request can use, for each that can use others than those before: GPUs beside NICs."""
    for among in dict.fromkeys(found for one in taken for found in one.used):
        yield _Measure(units, among, None)
        for cell in range(max([len(units[unit].whole) for unit in among], default=0)):
            yield _Measure(units, among, cell)


def _device_rows(cluster: Cluster, number: int, claims: Mapping[int, Sequence[Claim]]) -> Iterator[_BinRow]:
    """Of a node without pods: each unit is one, by each measure and function; and so is the node."""
    units = cluster.free_resources.unit_cells(number)
    taken = {one: _TakenOfUnits.of(cluster, number, own) for one, own in claims.items()}
    for measure in _measures(units, taken.values()):
        plain = {one: own.least(measure, 0) for one, own in taken.items()}
        size = len(measure.among)
        yield plain, Fraction(size)
        for steps in _STEPS:
            yield {one: own.least(measure, steps) for one, own in taken.items()}, Fraction(size)
            yield {one: _stepped(share / size, steps) for one, share in plain.items()}, Fraction(1)


def _left_rows(cluster: Cluster, numbers: Sequence[int], claims: Mapping[int, Sequence[Claim]]) -> Iterator[_BinRow]:
    """Of nodes that are there: what is left of their units by each measure."""
    units = cluster.free_resources.unit_cells(numbers[0])
    taken = {one: _TakenOfUnits.of(cluster, numbers[0], own) for one, own in claims.items()}
    left = [cells for number in numbers for cells in enumerate(cluster.free_resources.cells(number))]
    for measure in _measures(units, taken.values()):
        takes = {one: own.least(measure, 0) for one, own in taken.items()}
        yield takes, sum((measure.of(unit, cells) for unit, cells in left), Fraction(0))


@dataclass(frozen=True, slots=True)
class _TakenOfUnits:
    """What claims take of the units of a node: for each request, how many devices, and what each may take of which."""

    requests: Sequence[tuple[int, Sequence[tuple[int, Cells]]]]

    @staticmethod
    def of(cluster: Cluster, number: int, claims: Sequence[Claim]) -> "_TakenOfUnits":
        """On that node. Cost: O(devices) for each alternative."""
        return _TakenOfUnits([_request(cluster, number, claim, one) for claim in claims for one in claim.requests])

    @property
    def used(self) -> Iterator[frozenset[int]]:
        """The units that each request can use."""
        return (frozenset(unit for unit, _ in takes) for _, takes in self.requests if takes)

    def least(self, measure: _Measure, steps: int) -> Fraction:
        """The sum of the least that each device can take; steps: by that dual feasible function, 0 for none."""
        total = Fraction(0)
        for count, takes in self.requests:
            shares = {min(Fraction(1), measure.of(unit, cells)) for unit, cells in takes}
            least = min(shares, default=Fraction(0))
            total += count * (_stepped(least, steps) if steps else least)
        return total


def _request(cluster: Cluster, number: int, claim: Claim, request: Request) -> tuple[int, list[tuple[int, Cells]]]:
    """One that may be satisfied without any of these units takes nothing."""
    takes: list[tuple[int, Cells]] = []
    for alternative in request.alternatives:
        if alternative.admin_access:
            return 0, []
        only = replace(request, alternatives=(alternative,))
        try:
            of_units = cluster.free_resources.takes(number, claim, only)
        except AllocationError:
            return 0, []
        own = [(unit, take.cells) for unit, of_unit in enumerate(of_units) for take in of_unit]
        if not own:
            return 0, []
        takes += own
    counts = [1 if one.mode == "All" else one.count for one in request.alternatives]
    return min(counts, default=0), takes


# -- the program


class Relaxation:
    """The linear program. Its columns are the nodes of each group, then the pods of each shape in each bin."""

    def __init__(self, shapes: Sequence[_DemandShape], bins: Sequence[_Bin], groups: Sequence[OfferedGroup]) -> None:
        self._groups = groups
        self._numbers = [float(shape.number) for shape in shapes]
        self._parts = [(place, shape) for place, one in enumerate(bins) for shape in one.shapes]
        columns = {part: len(groups) + place for place, part in enumerate(self._parts)}
        every = _Matrix(len(groups) + len(columns))
        for (_, shape), column in columns.items():
            every.set(shape, column, 1)
        most = _Matrix(every.columns)
        self._highs: list[float] = []
        for place, node_bin in enumerate(bins):
            for takes, capacity in node_bin.rows:
                row = len(self._highs)
                for shape, amount in takes.items():
                    most.set(row, columns[place, shape], amount)
                if node_bin.group is not None:
                    most.set(row, node_bin.group, -capacity)
                self._highs.append(0.0 if node_bin.group is not None else float(capacity))
        self._all, self._most = every.sparse(len(shapes)), most.sparse(len(self._highs))

    def least_cost(self, costs: Sequence[Fraction]) -> Fraction | None:
        """What every plan costs at least; None where there is no plan."""
        unit = max(costs) or Fraction(1)  # the solver's errors are absolute: it is given costs of any size as these
        shares = [cost / unit for cost in costs]
        solution = self._solve(list(map(float, shares)), [(one.least, one.most) for one in self._groups])
        return None if solution is None else unit * _rounded_up(solution, shares, self._groups)

    def allows(self, counts: Sequence[int]) -> bool:
        """False for a plan that cannot hold."""
        return self._solve([0.0] * len(counts), [(count, count) for count in counts]) is not None

    def _solve(self, costs: Sequence[float], counts: Sequence[tuple[int, int]]) -> float | None:
        from scipy.optimize import linprog

        solution = linprog(
            [*costs, *[0.0] * len(self._parts)],
            A_ub=self._most if self._highs else None,
            b_ub=self._highs or None,
            A_eq=self._all if self._numbers else None,
            b_eq=self._numbers or None,
            bounds=[*counts, *[(0, None)] * len(self._parts)],
            method="highs",
        )
        return None if solution.status == _INFEASIBLE else float(solution.fun) if solution.success else 0.0


class _Matrix:
    """Cells of a sparse matrix with so many columns."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._cells: list[tuple[int, int, float]] = []

    def set(self, row: int, column: int, value: Fraction | int) -> None:
        """Zeros are left out."""
        if value:
            self._cells.append((row, column, float(value)))

    def sparse(self, rows: int) -> Any:
        """As scipy takes it. Any: scipy has no types."""
        from scipy.sparse import coo_array

        at, columns, values = zip(*self._cells, strict=True) if self._cells else ((), (), ())
        return coo_array((values, (at, columns)), shape=(rows, self.columns)).tocsr()


def _rounded_up(bound: float, costs: Sequence[Fraction], groups: Sequence[OfferedGroup]) -> Fraction:
    """To what whole numbers of nodes can cost, and no less than what is added in any case."""
    least = Fraction(0)
    for cost, group in zip(costs, groups, strict=True):
        least += cost * group.least
    step = _common_step([cost for cost in costs if cost])
    low = Fraction(bound - _ERROR * max(1.0, abs(bound)))
    return max(least, step * ceil(low / step)) if step else least


def _common_step(costs: Sequence[Fraction]) -> Fraction:
    """The largest of which all are a multiple; 0 without any."""
    denominator = lcm(*(cost.denominator for cost in costs))
    return Fraction(gcd(*(int(cost * denominator) for cost in costs)), denominator)
