"""The free resources of each node, for policies that look at whole nodes, and for the figures of a simulation.

A node is computed again only if its devices, cpu or memory have changed.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from allocator.allocate import BUDGET_STEPS, share_id_of
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.fleet.alike import fingerprint_of
from allocator.fleet.answer_cache import HardwareKinds
from allocator.fleet.fleet import Fleet
from allocator.model import Alternative, Claim, Request
from allocator.outcome import AllocationError, InvalidClaim
from allocator.policies.hardware import FULL, Cells, Take, UnitCells, cells_left, cells_of, taken_of_local, takes_of
from allocator.policies.whole_nodes import (
    NO_SHAPES,
    UNIT,
    NodeRoom,
    Shape,
    Shapes,
    UnitRequest,
    held_by_claims,
    units_left,
)
from allocator.requests.candidates import devices_selected
from allocator.search.budget import Budget
from allocator.search.rules import bits
from cel.lru import LruCache
from scheduler.state.node_infos import NodeInfos, RowChanges
from scheduler.state.pods import CPU, MEMORY, PodRequests

# The workload: what pods request, and how many request the same, for policies that consider future pods.
#
# Memory is ignored: pods are distinguished by cpu and devices.


COVERED = 0.95
"""The share of the pods that the typical shapes cover; rarer shapes are left out."""

MOST_SHAPES = 1 << 13
"""Shapes that are known; if there are more, the rarest are forgotten."""

START_PODS = 1000
"""For so many pods a start counts, and for half as many with each pod that it does not expect."""

MOST_SEEN = 1 << 16
"""Pods that are known to be counted; one that was not decided for so many others counts again."""


@dataclass(slots=True, eq=False)
class WorkloadShape:
    """Pods that ask for the same. cpu: in thousandths. claims: of one of them. count: how many there are.

    memories: of all of them, in bytes. sizes: what the claims ask for, as it counts for `order`. start: for how many
    pods more it counts, of which nobody has seen one; start_memory: of one of these.
    """

    cpu: int
    claims: tuple[Claim, ...]
    sizes: tuple[object, ...]
    count: int = 0
    memories: int = 0
    start: float = 0.0
    start_memory: int = 0

    @property
    def weight(self) -> float:
        """For how many pods it counts."""
        return self.count + self.start

    @property
    def memory(self) -> int:
        """On average, in bytes."""
        if not self.start:
            return self.memories // self.count
        return int((self.memories + self.start * self.start_memory) / self.weight)

    @property
    def order(self) -> tuple[object, ...]:
        """More of them first, then the larger, by the amounts that are requested; texts of selectors decide last."""
        return self.weight, self.cpu, *self.sizes


@dataclass(slots=True, eq=False)
class _Counted:
    """Pods that ask for this, and how many."""

    requests: PodRequests
    claims: Sequence[Claim]
    number: int = 0


class PodShapes:
    """The shapes and their counts: those that are set, or else those of the pods that were decided so far.

    changes: how often the typical shapes have to be worked out again: when they are set, whenever half as many pods
    again were seen, and with each pod that a start did not expect.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._shapes: dict[Hashable, WorkloadShape] = {}
        self._total = 0
        self._start = 0.0
        self._next = 1.0
        self._is_set = False
        self._seen: LruCache[str, None] = LruCache(MOST_SEEN, MOST_SEEN)

    def set(self, pods: Iterable[tuple[PodRequests, Sequence[Claim]]]) -> None:
        """These pods are the workload; what is decided later changes nothing."""
        self._count_anew(pods)
        self._is_set = True

    def start_with(self, pods: Iterable[tuple[PodRequests, Sequence[Claim]]]) -> None:
        """These pods are expected at first, as if START_PODS like them had come; what is decided later counts as well.

        A pod that asks for what none of these did shows that others come: they count for half as many from then on.
        """
        self._count_anew(pods)
        self._is_set = False
        for shape in self._shapes.values():
            shape.start, shape.start_memory = shape.count * START_PODS / self._total, shape.memory
            shape.count = shape.memories = 0
        self._start, self._total = float(START_PODS) if self._shapes else 0.0, 0
        self._next = self._known + self._known / 2

    @property
    def _known(self) -> float:
        """For how many pods all shapes count."""
        return self._total + self._start

    def _count_anew(self, pods: Iterable[tuple[PodRequests, Sequence[Claim]]]) -> None:
        self._shapes, self._total, self._start = {}, 0, 0.0
        counts: dict[tuple[int, int], _Counted] = {}  # which holds what is counted, so that no other gets its identity
        for requests, claims in pods:
            counts.setdefault((id(requests), id(claims)), _Counted(requests, claims)).number += 1
        for one in counts.values():
            self._add(one.requests, one.claims, one.number)
        self.changes += 1

    def see(self, uid: str, requests: PodRequests, claims: Sequence[Claim]) -> None:
        """A pod is decided, which counts once. Cost: O(1)."""
        if self._is_set:
            return
        self._seen.get(uid, 1, lambda: self._see_new(requests, claims))

    def _see_new(self, requests: PodRequests, claims: Sequence[Claim]) -> None:
        is_unexpected = not self._add(requests, claims).start and self._start > 0
        if is_unexpected:
            self._halve_start()
        if is_unexpected or self._known >= self._next:
            self._next = self._known + self._known // 2
            self.changes += 1

    def _halve_start(self) -> None:
        factor = 0.5 if self._start > 1 else 0.0
        self._start *= factor
        for shape in self._shapes.values():
            shape.start *= factor
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape.weight}

    def _add(self, requests: PodRequests, claims: Sequence[Claim], number: int = 1) -> WorkloadShape:
        cpu = requests.amounts.get(CPU, 0)
        key = cpu, fingerprint_of(claims)
        shape = self._shapes.get(key)
        if shape is None:
            self._forget_rarest()
            shape = self._shapes[key] = WorkloadShape(cpu, tuple(claims), _sizes(claims))
        shape.count += number
        shape.memories += number * requests.amounts.get(MEMORY, 0)
        self._total += number
        return shape

    def _forget_rarest(self) -> None:
        """If there are too many shapes, keep those that were seen most often, the latest of equals."""
        if len(self._shapes) >= MOST_SHAPES:
            latest_first = reversed(self._shapes.items())
            kept = sorted(latest_first, key=lambda one: one[1].weight, reverse=True)[: MOST_SHAPES // 2]
            self._shapes = dict(reversed(kept))
            self._total = sum(shape.count for shape in self._shapes.values())
            self._start = sum(shape.start for shape in self._shapes.values())

    def every(self) -> Sequence[tuple[float, WorkloadShape]]:
        """All shapes, the most frequent first, with their shares. Cost: O(shapes)."""
        shapes = sorted(self._shapes.values(), key=lambda shape: shape.order, reverse=True)
        return [(shape.weight / self._known, shape) for shape in shapes]

    def typical(self) -> Sequence[tuple[float, WorkloadShape]]:
        """The most frequent shapes, until they cover `COVERED` of the pods, with their shares of all that are covered.

        Cost: O(shapes).
        """
        total = self._known
        chosen: list[WorkloadShape] = []
        covered = 0.0
        for shape in sorted(self._shapes.values(), key=lambda shape: shape.order, reverse=True):
            if covered / total >= COVERED:
                break
            chosen.append(shape)
            covered += shape.weight
        return [((shape.weight / total) / (covered / total), shape) for shape in chosen]


def _sizes(claims: Sequence[Claim]) -> tuple[object, ...]:
    """Amounts of capacity, the number of devices, texts of selectors."""
    alternatives = [_first(request.alternatives) for claim in claims for request in claim.requests]
    asked = [one for one in alternatives if one is not None]
    amounts = [sum(amount.nanos for amount in (one.capacity or {}).values()) for one in asked]
    selectors = tuple(text or "" for one in asked for text in one.selectors)
    return tuple(amounts), sum(one.count for one in asked), selectors


def _first(alternatives: Sequence[Alternative]) -> Alternative | None:
    return alternatives[0] if alternatives else None


MOST_REQUESTS = 1 << 12
"""Claims whose requests are remembered, for each kind of node."""


MOST_USES = 1 << 14
"""Kinds of nodes with certain devices in use, of which it is remembered what is left of them."""


_NO_HOLDS = frozenset[int]()


class Rooms:
    """The rooms of the nodes by number. workload: what pods ask for, as far as it is known.

    changes: the numbers of the nodes whose rooms were looked at again. with_holds: rooms say what claims hold.
    """

    def __init__(self, fleet: Fleet, infos: NodeInfos) -> None:
        self.workload = PodShapes()
        self.changes = RowChanges()
        self.with_holds = False
        self._fleet = fleet
        self._infos = infos
        self._rooms: dict[int, NodeRoom] = {}
        self._kinds: HardwareKinds | None = None
        self._hardware: HardwareKinds | None = None
        self._shapes: dict[Hashable, Shapes] = {}
        self._requests: LruCache[Hashable, tuple[UnitRequest, ...]] = LruCache(MOST_REQUESTS, MOST_REQUESTS)
        self._units: LruCache[Hashable, tuple[int, ...]] = LruCache(MOST_USES, MOST_USES)
        self._holds: LruCache[frozenset[int], frozenset[int]] = LruCache(MOST_USES, MOST_USES)
        self._seen: tuple[int, int] = (-1, -1)
        self._seen_rows = 0
        self._seen_workload = -1

    def __getitem__(self, number: int) -> NodeRoom:
        """The free resources of the node, as of the last `catch_up`."""
        return self._rooms[number]

    def get(self, number: int) -> NodeRoom | None:
        """The same, None where there is no such node."""
        return self._rooms.get(number)

    def catch_up(self) -> None:
        """Look at what has changed, and at the workload. Cost: O(nodes) if that has changed."""
        self.catch_up_amounts()
        if self._has_other_shapes():
            for number, room in self._rooms.items():
                self._rooms[number] = replace(room, shapes=self._shapes_on(number))
                self.changes.add(number, len(self._rooms))

    def catch_up_amounts(self) -> None:
        """Look at what has changed of nodes. Cost: O(devices) of each node that has changed."""
        now, touched = self._fleet.changed_nodes(self._seen)
        if now == self._seen and self._seen_rows == self._infos.by_row.changes.now:
            return
        self._seen = now
        numbers = set(bits(self._fleet.all)) | self._rooms.keys() if touched is None else set(touched)
        others = [number for number in self._with_other_amounts() if number not in numbers]
        for number in others:
            cpu, memory = self._amounts(number)
            self._rooms[number] = replace(self._rooms[number], cpu=cpu, memory=memory)
            self.changes.add(number, len(self._rooms))
        for number in sorted(numbers):
            self._look_at(number)
            self.changes.add(number, len(self._rooms))

    @property
    def numbers(self) -> Collection[int]:
        """Of all nodes with a room."""
        return self._rooms.keys()

    @property
    def size(self) -> int:
        """More than the highest number of a node."""
        return self._infos.size

    def kinds(self, claims: Sequence[Claim]) -> HardwareKinds:
        """The kinds of nodes of which these claims ask the same."""
        return self._fleet.kinds(claims)

    def are_current(self, kinds: HardwareKinds) -> bool:
        """Whether `kinds` would return the same again. Cost: O(requests)."""
        return self._fleet.are_current(kinds)

    def unit_cells(self, number: int) -> Sequence[UnitCells]:
        """What the devices of the node are cut from; nothing where its pools contradict themselves."""
        try:
            return cells_of(self._attempt(number).view).units
        except AllocationError:
            return ()

    def cells(self, number: int) -> Sequence[Cells]:
        """What is left of each of these. Cost: O(devices of the pools with anything in use)."""
        try:
            return cells_left(self._attempt(number))
        except AllocationError:
            return ()

    def takes(self, number: int, claim: Claim, request: Request) -> Sequence[Sequence[Take]]:
        """What devices for the first alternative of the request take of each of these. Raises AllocationError."""
        attempt = self._attempt(number)
        first = replace(request, alternatives=request.alternatives[:1])
        devices = devices_selected(self._fleet.current, attempt, [replace(claim, requests=(first,))])
        return takes_of(attempt, first.alternatives[0], devices)

    def requests(self, number: int, claims: Sequence[Claim]) -> tuple[UnitRequest, ...]:
        """What the claims ask of the units of the node. Raises AllocationError. Cost: O(devices), once for a kind."""
        kind = self._fleet.kinds(claims).of(number)
        return self._requests.get(kind, 1, lambda: tuple(self._work_out(number, claims)))

    def _work_out(self, number: int, claims: Sequence[Claim]) -> Iterator[UnitRequest]:
        attempt = self._attempt(number)
        for claim in claims:
            for request in claim.requests:
                yield self._unit_request(attempt, claim, request)

    def _unit_request(self, attempt: NodeAttempt, claim: Claim, request: Request) -> UnitRequest:
        if not request.alternatives:
            raise InvalidClaim(f"claim {claim}, request {request.name}: neither exactly nor firstAvailable is set")
        first = replace(request, alternatives=request.alternatives[:1])
        alternative = first.alternatives[0]
        devices = devices_selected(self._fleet.current, attempt, [replace(claim, requests=(first,))])
        count = devices.bit_count() if alternative.mode == "All" else alternative.count
        taken = taken_of_local(attempt, alternative, devices)
        return UnitRequest(count, tuple(-(-full * UNIT // FULL) for full in taken))

    def _look_at(self, number: int) -> None:
        self._rooms.pop(number, None)
        if not self._fleet.has_node(number):
            return
        name = self._fleet.node(number).name
        try:
            units, holds = self._units_left(number), self._held(number)
        except AllocationError:
            units, holds = (), _NO_HOLDS
        self._rooms[number] = NodeRoom(name, *self._amounts(number), units, holds, self._shapes_on(number))

    def _units_left(self, number: int) -> tuple[int, ...]:
        """What is left of each unit, the same object for equal nodes. Raises InvalidPool."""
        if self._hardware is None or not self._fleet.are_current(self._hardware):
            self._hardware = self._fleet.kinds(())
        key = self._hardware.of(number), self._fleet.usage_on(number)
        return self._units.get(key, 1, lambda: units_left(self._attempt(number)))

    def _held(self, number: int) -> frozenset[int]:
        """How many devices the claims have, the same object where it is equal; nothing where nobody reads it."""
        if not self.with_holds:
            return _NO_HOLDS
        held = held_by_claims(self._attempt(number))
        return self._holds.get(held, 1, lambda: held)

    def _has_other_shapes(self) -> bool:
        """Whether pods ask for something else than before, or the same is something else on nodes."""
        is_same_workload = self._seen_workload == self.workload.changes
        if is_same_workload and self._kinds is not None and self._fleet.are_current(self._kinds):
            return False
        self._seen_workload = self.workload.changes
        self._kinds = self._fleet.kinds([claim for _, shape in self.workload.typical() for claim in shape.claims])
        self._shapes.clear()
        return True

    def _shapes_on(self, number: int) -> Shapes:
        """Nothing before the workload is looked at, and where pools contradict themselves."""
        if self._kinds is None:
            return NO_SHAPES
        kind = self._kinds.of(number)
        if kind not in self._shapes:
            try:
                self._shapes[kind] = Shapes(tuple(self._typical(number)))
            except AllocationError:
                self._shapes[kind] = NO_SHAPES
        return self._shapes[kind]

    def _typical(self, number: int) -> Iterator[Shape]:
        """What the workload asks of the kind of node. A claim that ends every attempt there can go nowhere."""
        units = len(units_left(self._attempt(number)))
        for share, shape in self.workload.typical():
            try:
                yield Shape(share, shape.cpu, self.requests(number, shape.claims))
            except AllocationError:
                yield Shape(share, shape.cpu, (UnitRequest(1, (0,) * units),))

    def _attempt(self, number: int) -> NodeAttempt:
        """Raises InvalidPool."""
        snapshot = self._fleet.current
        view = snapshot.view(self._fleet.node(number))
        return attempt_of(snapshot, view, share_id_of, budget=Budget(BUDGET_STEPS))

    def _amounts(self, number: int) -> tuple[int, int]:
        columns = self._infos.columns
        return int(columns[CPU].free[number]), int(columns[MEMORY].free[number])

    def _with_other_amounts(self) -> Iterator[int]:
        changes = self._infos.by_row.changes
        touched = changes.since(self._seen_rows)
        self._seen_rows = changes.now
        for number in sorted(self._rooms) if touched is None else touched:
            room = self._rooms.get(number)
            if room is not None and (room.cpu, room.memory) != self._amounts(number):
                yield number
