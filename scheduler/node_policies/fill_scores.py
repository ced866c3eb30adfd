"""The nodes that the policy fill-value finds best: its values of a cluster, kept up with what changes.

If the workload has changed, its values are prepared beside the decisions, a few steps with each, and take effect when
all are there.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from allocator.bits import Mask
from allocator.fleet.alike import fingerprint_of
from allocator.model import Alternative, Claim, Request
from allocator.outcome import AllocationError
from allocator.policies.fill_rollouts import FillShape, Takes, UnitKind, Units, UnitStates
from allocator.policies.fill_value import FillValue, FromDevices, NodeTakes, least_taken
from allocator.policies.fill_values import FillNode, FillValues, PodCosts
from allocator.policies.hardware import Cells, Take, UnitCells
from cel import Cancelled
from cel.cache import LruCache
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.node_policies.typical_pods import WorkloadShape
from scheduler.state.masks import Floats, Numbers, mask_of_numbers, numbers_of
from scheduler.state.pods import CPU, MEMORY, PodRequests

# The values of the policy fill-value for the workload as it was known at one moment, on the nodes of a cluster.
#
# They are prepared step by step, so that no decision has to wait for all nodes.


MOST_FILL_SHAPES = 1 << 9
"""Shapes of the workload that count; beyond, the rarest are left out."""

MEBI = 1 << 20

UNKNOWN = -1

EVERY = -1
"""In place of a number of devices, of a request for all of them until nodes are looked at."""

Asked = tuple[Claim, Request]


@dataclass(frozen=True, slots=True, eq=False)
class NodeCells:
    """What the units of a node are cut from, and what is left of the node. cpu: in thousandths. memory: in bytes.

    units: the same object as long as the devices of the node are the same.
    """

    units: Sequence[UnitCells]
    cells: tuple[Cells, ...]
    cpu: int
    memory: int


class FillWorkload:
    """The values. nodes: of a cluster, kept up with it by their owner, who reports each change."""

    def __init__(self, free: FreeByNode, nodes: Mapping[int, NodeCells]) -> None:
        self.seen = free.workload.changes
        self._free = free
        self._nodes = nodes
        self._requests: dict[Hashable, Asked] = {}
        self._shapes = list(self._numbered(free.workload.every()[:MOST_FILL_SHAPES]))
        self.units = UnitStates(len(self._requests))
        self.values = FillValues(self.units, ())
        self._has_values = False
        self._is_renewed = False
        self._hardware = free.kinds([claim for claim, _ in self._requests.values()])
        self._kinds: dict[tuple[Hashable, tuple[UnitCells, ...]], tuple[UnitKind, ...]] = {}
        self._devices: dict[Hashable, tuple[int, ...]] = {}
        self._kinds_of: dict[int, tuple[Sequence[UnitCells], tuple[UnitKind, ...]]] = {}
        self._steps = self._prepared()
        self.is_ready = False

    def prepare(self, steps: float = inf) -> None:
        """Go on for so many steps; less where all is done. Raises Cancelled, and goes on from there the next time."""
        while steps > 0 and not self.is_ready:
            self._free.look()
            try:
                next(self._steps)
            except Exception:  # in the middle of a step: it begins anew, and finds all that is known by then
                self._steps = self._prepared()
                raise
            steps -= 1

    def is_current(self) -> bool:
        """Whether the same is the same on nodes as before. Cost: O(requests)."""
        return self._free.are_current(self._hardware)

    @property
    def kinds_of_nodes(self) -> int:
        """How many are known: only ever more, until `renew` forgets them."""
        return len(self._kinds)

    def least_taken(self, number: int, requests: Sequence[tuple[Sequence[Takes], int]]) -> int:
        """The least that these take on any node with such units as that one has.

        The workload may tell nodes apart that a claim does not, and have no use for what it takes of some of them.
        """
        if self._is_renewed:
            return 0  # the values of other nodes are of kinds that are forgotten
        of_node = tuple(self._nodes[number].units)
        every = [kinds for (_, units), kinds in self._kinds.items() if units == of_node]
        return min([least_taken(self.units, kinds, requests) for kinds in every], default=0)

    def renew(self) -> None:
        """Look at the hardware anew, as classes have changed, for instance; until there are other values."""
        self.seen = -1
        self._is_renewed = True
        self._hardware = self._free.kinds([claim for claim, _ in self._requests.values()])
        self._kinds.clear()
        self._devices.clear()
        self._kinds_of.clear()

    def look_at(self, number: int) -> None:
        """The node has changed."""
        node = self._nodes.get(number)
        if not self._has_values:
            return  # all nodes are looked at then
        if node is None:
            self.values.remove_node(number)
            self._kinds_of.pop(number, None)
            return
        for _ in self._new_kinds(number, node):
            pass
        units = self._units_of(number, node)
        self.values.set_node(number, FillNode(units, max(0, node.cpu), max(0, node.memory) // MEBI))

    def _prepared(self) -> Iterator[bool]:
        while unknown := [number for number, node in self._nodes.items() if not self._is_known(number, node)]:
            for number in unknown:
                if node := self._nodes.get(number):
                    yield from self._new_kinds(number, node)
                    yield True
        # In one step, since nodes change between two of them.
        whole, nodes = Counter[Units](), Counter[tuple[int, ...]]()
        for number, node in self._nodes.items():
            whole[self._whole(number)] += 1
            nodes[self._devices[self._key(number, node)]] += 1
        shapes = [_with_numbers(shape, nodes) for shape in self._shapes]
        self.values, self._has_values = FillValues(self.units, shapes, whole), True
        for number in list(self._nodes):
            if number in self._nodes:
                self.look_at(number)
                yield True
        self.is_ready = True
        yield True

    def _numbered(self, shapes: Sequence[tuple[float, WorkloadShape]]) -> Iterator[FillShape]:
        numbers: dict[Hashable, int] = {}
        for share, shape in shapes:
            numbered: list[tuple[int, int]] = []
            for claim, request, alternative in asked_by(shape.claims):
                key = fingerprint_of([Claim("", "", "", (Request("", (_single(alternative),)),))])
                numbered.append(
                    (numbers.setdefault(key, len(numbers)), EVERY if alternative.mode == "All" else alternative.count)
                )
                self._requests.setdefault(key, (claim, request))
            yield FillShape(share, shape.cpu, mebibytes(shape.memory), tuple(numbered))

    def _new_kinds(self, number: int, node: NodeCells) -> Iterator[bool]:
        """Find the kinds of the node's units; where no node was like that before, that is a step for each request.

        A node that gets other devices between two steps, or is removed, stays unknown.
        """
        if self._is_known(number, node):
            return
        key = self._key(number, node)
        if key not in self._kinds:
            takes: list[Sequence[Takes]] = []
            devices: list[int] = []
            for claim, request in self._requests.values():
                of_units = takes_on(self._free, number, claim, request)
                takes.append([self.units.takes(tuple([take.cells for take in of])) for of in of_units])
                devices.append(_devices_of(of_units))
                yield True
                if not self._has_units(number, node.units):
                    return
            self._kinds[key] = tuple(self.units.kinds(node.units, takes))
            self._devices[key] = tuple(devices)
        self._kinds_of[number] = node.units, self._kinds[key]

    def _is_known(self, number: int, node: NodeCells) -> bool:
        known = self._kinds_of.get(number)
        return known is not None and known[0] is node.units

    def _has_units(self, number: int, units: Sequence[UnitCells]) -> bool:
        node = self._nodes.get(number)
        return node is not None and node.units is units

    def _key(self, number: int, node: NodeCells) -> tuple[Hashable, tuple[UnitCells, ...]]:
        """Equal for nodes on which the workload may take the same of the same units."""
        return self._hardware.of(number), tuple(node.units)

    def _units_of(self, number: int, node: NodeCells) -> Units:
        kinds = self._kinds_of[number][1]
        return tuple([self.units.number(kind, cells) for kind, cells in zip(kinds, node.cells, strict=True)])

    def _whole(self, number: int) -> Units:
        return tuple([self.units.number(kind, kind.unit.whole) for kind in self._kinds_of[number][1]])


class AskedDevices:
    """What claims may take of nodes, by kinds of nodes, which have numbers; whatever the workload is.

    Source of the kinds: the fleet, for what these claims read of devices, and what nodes' units are cut from.
    """

    def __init__(self, free: FreeByNode, nodes: Mapping[int, NodeCells], claims: Sequence[Claim]) -> None:
        self._free = free
        self._nodes = nodes
        self._asked = list(asked_by(claims))
        self._hardware = free.kinds(claims)
        self._seen = free.changes.now
        self._numbers: dict[Hashable, int] = {}
        self._devices: list[Sequence[Sequence[Sequence[Take]]]] = []
        self._kind_of: Numbers = np.full(free.size, UNKNOWN, np.int64)
        self._units_of: dict[int, Sequence[UnitCells]] = {}

    def is_current(self) -> bool:
        """Whether the kinds are of use."""
        return self._free.are_current(self._hardware)

    def kinds_of(self, numbers: Numbers) -> Numbers:
        """The kinds of these nodes. Cost: O(1) for each that has changed, O(devices) for each new kind."""
        self._catch_up()
        unknown = numbers[self._kind_of[numbers] == UNKNOWN]
        for number in unknown.tolist():
            self._kind_of[number] = self._kind(number)
        kinds: Numbers = self._kind_of[numbers]
        return kinds

    def one_of(self, kind: int) -> int | None:
        """A node of that kind that is there; None if none is."""
        nodes = np.flatnonzero(self._kind_of == kind)
        return int(nodes[0]) if len(nodes) else None

    def requests(self, kind: int) -> Iterator[tuple[Sequence[Sequence[Take]], int]]:
        """For each request what may be taken of each unit of nodes of that kind, and how many devices."""
        for of_units, (_, _, alternative) in zip(self._devices[kind], self._asked, strict=True):
            yield of_units, _devices_of(of_units) if alternative.mode == "All" else alternative.count

    def devices(self, number: int, unit: int, taken: Cells) -> list[int]:
        """The devices of the node, by position, that take this of the unit in that place."""
        (kind,) = self.kinds_of(np.array([number])).tolist()
        return [
            device
            for of_units in self._devices[kind]
            for take in of_units[unit]
            if take.cells == taken
            for device in take.devices
        ]

    def _catch_up(self) -> None:
        changes = self._free.changes
        more = self._free.size - len(self._kind_of)
        if more > 0:
            self._kind_of = np.pad(self._kind_of, (0, more), constant_values=UNKNOWN)
        if self._seen != changes.now:
            changed = changes.numbers_since(self._seen)
            for number in list(self._units_of) if changed is None else changed:
                node = self._nodes.get(number)
                if node is None or self._units_of.get(number) is not node.units:
                    self._kind_of[number] = UNKNOWN
            self._seen = changes.now

    def _kind(self, number: int) -> int:
        node = self._nodes[number]
        key = self._hardware.of(number), tuple(node.units)
        kind = self._numbers.get(key)
        if kind is None:
            devices = [takes_on(self._free, number, claim, request) for claim, request, _ in self._asked]
            kind = self._numbers[key] = len(self._devices)
            self._devices.append(devices)
        self._units_of[number] = node.units
        return kind


class AskedTakes:
    """The same in the units of a workload."""

    def __init__(self, asked: AskedDevices, workload: FillWorkload) -> None:
        self._asked = asked
        self._workload = workload
        self._known: dict[int, NodeTakes] = {}
        self._kinds_of_nodes = 0

    def of(self, kind: int) -> NodeTakes:
        """What may be taken of nodes of that kind; nothing if there is none."""
        if self._kinds_of_nodes != self._workload.kinds_of_nodes:
            self._kinds_of_nodes = self._workload.kinds_of_nodes
            self._known.clear()
        takes = self._known.get(kind)
        if takes is None:
            number = self._asked.one_of(kind)
            if number is None:
                return _NO_TAKES
            takes = self._known[kind] = self._on(number, kind)
        return takes

    def _on(self, number: int, kind: int) -> NodeTakes:
        requests = [(self._interned(own), count) for own, count in self._asked.requests(kind)]
        return NodeTakes(requests, self._workload.least_taken(number, requests))

    def _interned(self, of_units: Sequence[Sequence[Take]]) -> list[Takes]:
        return [self._workload.units.takes(tuple([take.cells for take in own])) for own in of_units]


_NO_TAKES = NodeTakes((), 0)


def asked_by(claims: Sequence[Claim]) -> Iterator[tuple[Claim, Request, Alternative]]:
    """The requests that take devices, with their first alternatives."""
    for claim in claims:
        for request in claim.requests:
            for first in request.alternatives[:1]:
                if not first.admin_access:
                    yield claim, request, first


def takes_on(free: FreeByNode, number: int, claim: Claim, request: Request) -> Sequence[Sequence[Take]]:
    """What the request may take of each unit; nothing where it ends every attempt. Raises Cancelled."""
    try:
        return free.takes(number, claim, request)
    except AllocationError:
        return [()] * len(free.unit_cells(number))


def _devices_of(of_units: Sequence[Sequence[Take]]) -> int:
    return sum([len(take.devices) for own in of_units for take in own])


def _with_numbers(shape: FillShape, nodes: Mapping[tuple[int, ...], int]) -> FillShape:
    """The shape with as many devices, in place of all, as most of the nodes have that have some.

    nodes: how many have so many devices for each request.
    """
    requests = tuple([(one, _usual(one, nodes) if count == EVERY else count) for one, count in shape.requests])
    return shape if requests == shape.requests else replace(shape, requests=requests)


def _usual(request: int, nodes: Mapping[tuple[int, ...], int]) -> int:
    nodes_by_count: Counter[int] = Counter()
    for devices, number in nodes.items():
        if devices[request]:
            nodes_by_count[devices[request]] += number
    return max(nodes_by_count, key=lambda devices: (nodes_by_count[devices], devices), default=1)


def mebibytes(requested: int) -> int:
    """The bytes that are requested, rounded up."""
    return -(-requested // MEBI)


def _single(alternative: Alternative) -> Alternative:
    return Alternative(
        "",
        alternative.class_name,
        alternative.selectors,
        tolerations=alternative.tolerations,
        capacity=alternative.capacity,
        derived_attributes=alternative.derived_attributes,
    )


MOST_PODS = 1 << 10
"""Pods that ask for different things of which costs are kept; beyond, the least recently used are forgotten."""

STEPS = 8
"""Of preparing another workload, with each decision."""


class FillScores:
    """The scores of the policy on the nodes of a cluster: a `NodeScorer` that compares all of them at once."""

    def __init__(self, policy: FillValue, free: FreeByNode) -> None:
        self.policy = policy
        self._free = free
        self._nodes: dict[int, NodeCells] = {}
        self._workload: FillWorkload | None = None
        self._coming: FillWorkload | None = None
        self._asked: LruCache[Hashable, AskedDevices] = LruCache(MOST_PODS, MOST_PODS)
        self._costs: LruCache[Hashable, PodCosts] = LruCache(MOST_PODS, MOST_PODS)
        self._seen = 0
        self._unseen: dict[int, None] = {}
        """Nodes that have changed, and that the values do not know of yet."""

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """The best score of these nodes, and those that have it; see `NodeScorer.best`."""
        numbers, scores = self._scored(requests, claims, nodes)
        best = scores.max()
        return float(best), mask_of_numbers(numbers[scores == best], self._free.size)

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """The scores of these nodes, and the nodes of each; see `NodeScorer.all`.

        Nodes that are not the best have a score that is at least theirs, and less than the best.
        """
        numbers, scores = self._scored(requests, claims, nodes)
        for score in np.unique(scores).tolist():
            yield score, mask_of_numbers(numbers[scores == score], self._free.size)

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> FromDevices:
        """The policy for the attempt on that node, see `NodeScorer.on`."""
        workload = self._caught_up()
        asked, pod = self._pod(workload, requests, claims)
        now, devices = list(workload.values.units_of(number)), list[int]()
        for place, after in workload.values.steps(pod, number):
            devices += asked.devices(number, place, workload.units.taken(now[place], after))
            now[place] = after
        return FromDevices(self.policy.name, devices)

    def _scored(self, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[Numbers, Floats]:
        workload, numbers = self._caught_up(), numbers_of(nodes)
        _, pod = self._pod(workload, requests, claims)
        return numbers, -workload.values.costs(pod, numbers)

    def _pod(
        self, workload: FillWorkload, requests: PodRequests, claims: Sequence[Claim]
    ) -> tuple[AskedDevices, PodCosts]:
        devices = fingerprint_of(claims)
        asked = self._asked.get(devices, 1, lambda: AskedDevices(self._free, self._nodes, claims))
        if not asked.is_current():
            self._asked = LruCache(MOST_PODS, MOST_PODS)
            self._forget_costs()
            return self._pod(workload, requests, claims)
        needs = requests.amounts.get(CPU, 0), mebibytes(requests.amounts.get(MEMORY, 0))
        key = *needs, devices, id(asked)
        return asked, self._costs.get(key, 1, lambda: PodCosts(*needs, asked.kinds_of, AskedTakes(asked, workload).of))

    def _forget_costs(self) -> None:
        self._costs = LruCache(MOST_PODS, MOST_PODS)

    # -- what there is

    def _caught_up(self) -> FillWorkload:
        """The values as of now, of the workload that was known last."""
        self._free.catch_up_amounts()
        changes = self._free.changes
        changed: Collection[int] | None = changes.numbers_since(self._seen)
        if changed is None:
            changed = sorted({*self._free.numbers, *self._nodes})
        self._seen = changes.now
        for number in changed:
            self._look_at(number)
        self._unseen.update(dict.fromkeys(changed))
        workload = self._known()
        for number in list(self._unseen):  # each stays there until both have looked at it
            workload.look_at(number)
            if self._coming is not None:
                self._coming.look_at(number)
            del self._unseen[number]
        return self._prepared(workload)

    def _known(self) -> FillWorkload:
        if self._workload is None or not (self._workload.is_ready or self._workload.is_current()):
            self._workload = FillWorkload(self._free, self._nodes)
        if not self._workload.is_ready:
            self._workload.prepare()
        elif not self._workload.is_current():
            self._workload.renew()
            self._forget_costs()  # their bounds are of the kinds before
        return self._workload

    def _prepared(self, workload: FillWorkload) -> FillWorkload:
        """The values after a few steps more, if another workload is known meanwhile."""
        if self._coming is not None and not self._coming.is_current():
            self._coming = None
        if self._coming is None:
            if workload.seen == self._free.workload.changes and not workload.values.is_full():
                return workload
            self._coming = FillWorkload(self._free, self._nodes)
        with suppress(Cancelled):  # the values that there are have their say
            self._coming.prepare(STEPS)
        if not self._coming.is_ready:
            return workload
        self._workload, self._coming = self._coming, None
        self._forget_costs()
        return self._workload

    def _look_at(self, number: int) -> None:
        free = self._free.get(number)
        if free is None:
            self._nodes.pop(number, None)
            return
        units, cells = self._free.unit_cells(number), tuple(self._free.cells(number))
        self._nodes[number] = NodeCells(units, cells, free.cpu, free.memory)
