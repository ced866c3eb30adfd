"""The free resources of each node, for policies that look at whole nodes, and for the figures of a simulation.

A node is computed again only if its devices, cpu or memory have changed.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from allocator.allocate import share_id_of
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.fleet.fleet import Fleet
from allocator.fleet.questions import fingerprint_of
from allocator.model import Claim, Request
from allocator.outcome import AllocationError, InvalidClaim
from allocator.policies.cells import Cells, Take, UnitCells, cells_left, cells_of, takes_of
from allocator.policies.fullness import FULL, taken_of_local
from allocator.policies.whole_nodes import UNIT, NodeRoom, Shape, Shapes, UnitRequest, held_by_claims, units_left
from allocator.requests.candidates import devices_looked_at
from allocator.search.rules import bits
from cel.lru import LruCache
from scheduler.decision.typical_pods import PodShapes
from scheduler.state.masks import Numbers
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pod_requests import CPU, MEMORY

MOST_REQUESTS = 1 << 12
"""Claims whose requests are remembered, for each kind of node."""


class Rooms:
    """The rooms of the nodes by number. workload: what pods ask for, as far as it is known.

    changed_at: by number, at which `now` the room was looked at last.
    """

    def __init__(self, fleet: Fleet, infos: NodeInfos) -> None:
        self.workload = PodShapes()
        self.now = 0
        self.changed_at: Numbers = np.zeros(0, np.int64)
        self._fleet = fleet
        self._infos = infos
        self._rooms: dict[int, NodeRoom] = {}
        self._shapes: dict[Hashable, Shapes] = {}
        self._requests: LruCache[Hashable, tuple[UnitRequest, ...]] = LruCache(MOST_REQUESTS, MOST_REQUESTS)
        self._free: dict[str, Numbers] = {CPU: np.zeros(0, np.int64), MEMORY: np.zeros(0, np.int64)}
        self._seen: tuple[int, int] = (-1, -1)
        self._seen_workload = 0

    def __getitem__(self, number: int) -> NodeRoom:
        """The free resources of the node, as of the last `catch_up`."""
        return self._rooms[number]

    def get(self, number: int) -> NodeRoom | None:
        """The same, None where there is no such node."""
        return self._rooms.get(number)

    def catch_up(self) -> None:
        """Look at what has changed. Cost: O(nodes) array operations, and O(devices) of each node that has changed."""
        self._seen, touched = self._fleet.changed_nodes(self._seen)
        self._grow()
        numbers = set(bits(self._fleet.all)) | self._rooms.keys() if touched is None else set(touched)
        if self._seen_workload != self.workload.changes:
            self._seen_workload = self.workload.changes
            self._shapes.clear()
            numbers |= self._rooms.keys()
        others = set(self._with_other_amounts()) - numbers
        if not numbers and not others:
            return
        self.now += 1
        for number in sorted(others):
            cpu, memory = self._amounts(number)
            self._rooms[number] = replace(self._rooms[number], cpu=cpu, memory=memory)
            self.changed_at[number] = self.now
        for number in sorted(numbers):
            self._look_at(number)
            self.changed_at[number] = self.now

    def kind(self, number: int) -> Hashable:
        """Equal for nodes of which claims ask the same."""
        return self._fleet.node_fingerprint(number)

    def numbers(self) -> Iterable[int]:
        """The nodes that there are."""
        return self._rooms

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
        devices = devices_looked_at(self._fleet.current, attempt, [replace(claim, requests=(first,))])
        return takes_of(attempt, first.alternatives[0], devices)

    def requests(self, number: int, claims: Sequence[Claim]) -> tuple[UnitRequest, ...]:
        """What the claims ask of the units of the node. Raises AllocationError. Cost: O(devices), once for a kind."""
        key = (self._fleet.node_fingerprint(number), fingerprint_of(claims))
        return self._requests.get(key, 1, lambda: tuple(self._work_out(number, claims)))

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
        devices = devices_looked_at(self._fleet.current, attempt, [replace(claim, requests=(first,))])
        count = devices.bit_count() if alternative.mode == "All" else alternative.count
        taken = taken_of_local(attempt, alternative, devices)
        return UnitRequest(count, tuple(-(-full * UNIT // FULL) for full in taken))

    def _look_at(self, number: int) -> None:
        self._rooms.pop(number, None)
        if not self._fleet.all >> number & 1:
            return
        name = self._fleet.node(number).name
        try:
            attempt = self._attempt(number)
            units, holds, shapes = units_left(attempt), held_by_claims(attempt), self._shapes_on(number)
        except AllocationError:
            units, holds, shapes = (), frozenset[int](), Shapes()
        self._rooms[number] = NodeRoom(name, *self._amounts(number), units, holds, shapes)

    def _shapes_on(self, number: int) -> Shapes:
        kind = self._fleet.node_fingerprint(number)
        if kind not in self._shapes:
            self._shapes[kind] = Shapes(tuple(self._typical(number)))
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
        return attempt_of(snapshot, snapshot.view(self._fleet.node(number)), share_id_of)

    def _amounts(self, number: int) -> tuple[int, int]:
        return int(self._free[CPU][number]), int(self._free[MEMORY][number])

    def _with_other_amounts(self) -> Iterator[int]:
        for resource, known in self._free.items():
            free = self._infos.columns[resource].free
            changed = np.flatnonzero(free != known)
            known[changed] = free[changed]
            yield from (number for number in changed.tolist() if number in self._rooms)

    def _grow(self) -> None:
        more = self._infos.size - len(self.changed_at)
        if more > 0:
            self.changed_at = np.pad(self.changed_at, (0, more))
            self._free = {resource: np.pad(known, (0, more)) for resource, known in self._free.items()}
