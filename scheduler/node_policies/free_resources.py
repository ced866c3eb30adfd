"""The free resources of each node, for policies that look at whole nodes, and for the figures of a simulation.

A node is computed again only if its devices, cpu or memory have changed.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace

from allocator.allocate import BUDGET_STEPS, share_id_of
from allocator.bits import bits
from allocator.candidates import devices_selected
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.fleet.answer_cache import HardwareKinds
from allocator.fleet.fleet import Fleet
from allocator.memo import ChangedNumbers, Topic
from allocator.model import Claim, Request
from allocator.outcome import AllocationError, Budget, InvalidClaim
from allocator.policies.hardware import (
    FULL,
    UNIT,
    Cells,
    Take,
    UnitCells,
    cells_left,
    cells_of,
    taken_of_local,
    takes_of,
)
from allocator.policies.power import PUBLISHED, HardwarePower, node_power
from allocator.policies.whole_nodes import (
    NO_SHAPES,
    FreeResources,
    Shape,
    Shapes,
    UnitRequest,
    held_by_claims,
    units_left,
)
from cel import Cancelled
from cel.cache import LruCache
from scheduler.node_policies.typical_pods import PodShapes
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import CPU, MEMORY

MOST_REQUESTS = 1 << 12
"""Claims whose requests are remembered, for each kind of node."""


MOST_USES = 1 << 14
"""Kinds of nodes with certain devices in use, of which it is remembered what is left of them."""


_POWER: Topic[HardwarePower | None] = Topic("power")

_NO_HOLDS = frozenset[int]()


class FreeByNode:
    """What is free of each node, by number. workload: what pods ask for, as far as it is known.

    changes: the numbers of the nodes that were looked at again.
    with_holds: it is also said what claims hold. with_power: and what nodes draw, by
    power_models. is_cancelled: whether it is time to give up; what was worked out until then is kept.
    """

    def __init__(self, fleet: Fleet, infos: NodeInfos, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        self.workload = PodShapes()
        self.changes = ChangedNumbers()
        self.with_holds = False
        self.with_power = False
        self.power_models = PUBLISHED
        self._fleet = fleet
        self._infos = infos
        self._is_cancelled = is_cancelled
        self._unshaped: dict[int, None] = {}
        self._nodes: dict[int, FreeResources] = {}
        self._kinds: HardwareKinds | None = None
        self._hardware: HardwareKinds | None = None
        self._shapes: dict[Hashable, Shapes] = {}
        self._requests: LruCache[Hashable, tuple[UnitRequest, ...]] = LruCache(MOST_REQUESTS, MOST_REQUESTS)
        self._units: LruCache[Hashable, tuple[int, ...]] = LruCache(MOST_USES, MOST_USES)
        self._holds: LruCache[frozenset[int], frozenset[int]] = LruCache(MOST_USES, MOST_USES)
        self._seen: tuple[int, int] = (-1, -1)
        self._seen_rows = 0
        self._seen_workload = -1

    def __getitem__(self, number: int) -> FreeResources:
        """The free resources of the node, as of the last `catch_up`."""
        return self._nodes[number]

    def get(self, number: int) -> FreeResources | None:
        """The same, None where there is no such node."""
        return self._nodes.get(number)

    def catch_up(self) -> None:
        """Look at what has changed, and at the workload. Cost: O(nodes) if that has changed. Raises Cancelled."""
        self.catch_up_amounts()
        if self._has_other_shapes():
            self._unshaped = dict.fromkeys(self._nodes)
        for number in list(self._unshaped):
            if (free := self._nodes.get(number)) is not None:
                self._nodes[number] = replace(free, shapes=self._shapes_on(number))
                self.changes.note(number, len(self._nodes))
            del self._unshaped[number]

    def look(self) -> None:
        """For loops over what users may have many of. Raises Cancelled when it is time to give up."""
        if self._is_cancelled():
            raise Cancelled("cancelled between the nodes that a policy looks at")

    def catch_up_amounts(self) -> None:
        """Look at what has changed of nodes. Cost: O(devices) of each node that has changed."""
        now, touched = self._fleet.changed_nodes(self._seen)
        if now == self._seen and self._seen_rows == self._infos.by_row.changes.now:
            return
        self._seen = now
        numbers = set(bits(self._fleet.all)) | self._nodes.keys() if touched is None else set(touched)
        others = [number for number in self._with_other_amounts() if number not in numbers]
        for number in others:
            cpu, memory = self._amounts(number)
            self._nodes[number] = replace(self._nodes[number], cpu=cpu, memory=memory)
            self.changes.note(number, len(self._nodes))
        for number in sorted(numbers):
            self._look_at(number)
            self.changes.note(number, len(self._nodes))

    @property
    def numbers(self) -> Collection[int]:
        """Of all nodes that are known."""
        return self._nodes.keys()

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
        """What devices for the first alternative of the request take of each of these.

        Raises AllocationError and Cancelled; what was worked out until then is kept.
        """
        attempt = self._attempt(number, self._is_cancelled)
        first = replace(request, alternatives=request.alternatives[:1])
        devices = devices_selected(self._fleet.current, attempt, [replace(claim, requests=(first,))])
        return takes_of(attempt, first.alternatives[0], devices)

    def selected(self, number: int, claim: Claim, request: Request) -> int:
        """How many devices of the node satisfy the first alternative, whatever is in use.

        Raises AllocationError and Cancelled.
        """
        first = replace(request, alternatives=request.alternatives[:1])
        own = [replace(claim, requests=(first,))]
        return devices_selected(self._fleet.current, self._attempt(number, self._is_cancelled), own).bit_count()

    def requests(self, number: int, claims: Sequence[Claim]) -> tuple[UnitRequest, ...]:
        """What the claims ask of the units of the node. Cost: O(devices), once for a kind.

        Raises AllocationError and Cancelled.
        """
        kind = self._fleet.kinds(claims).of(number)
        return self._requests.get(kind, 1, lambda: tuple(self._work_out(number, claims)))

    def _work_out(self, number: int, claims: Sequence[Claim]) -> Iterator[UnitRequest]:
        attempt = self._attempt(number, self._is_cancelled)
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
        self._nodes.pop(number, None)
        if not self._fleet.has_node(number):
            return
        name = self._fleet.node(number).name
        try:
            units, holds = self._units_left(number), self._held(number)
        except AllocationError:
            units, holds = (), _NO_HOLDS
        power = self._power(number) if self.with_power else None
        self._nodes[number] = FreeResources(name, *self._amounts(number), units, holds, NO_SHAPES, power)
        self._unshaped[number] = None

    def _power(self, number: int) -> HardwarePower | None:
        """What the node draws, worked out once for its devices."""
        cpu = int(self._infos.columns[CPU].allocatable[number])
        try:
            view = self._fleet.current.view(self._fleet.node(number))
        except AllocationError:
            return None
        models = self.power_models
        return view.memo.remember((_POWER, cpu, models), lambda: node_power(view, cpu, models))

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
        kinds = self._fleet.kinds([claim for _, shape in self.workload.typical() for claim in shape.claims])
        self._seen_workload, self._kinds = self.workload.changes, kinds  # once it was not cancelled
        self._shapes.clear()
        return True

    def _shapes_on(self, number: int) -> Shapes:
        """Nothing before the workload is looked at, and where pools contradict themselves. Raises Cancelled."""
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
            self.look()
            try:
                yield Shape(share, shape.cpu, self.requests(number, shape.claims))
            except AllocationError:
                yield Shape(share, shape.cpu, (UnitRequest(1, (0,) * units),))

    def _attempt(self, number: int, is_cancelled: Callable[[], bool] = lambda: False) -> NodeAttempt:
        """Raises InvalidPool."""
        snapshot = self._fleet.current
        view = snapshot.view(self._fleet.node(number))
        return attempt_of(snapshot, view, share_id_of, is_cancelled, budget=Budget(BUDGET_STEPS))

    def _amounts(self, number: int) -> tuple[int, int]:
        columns = self._infos.columns
        return int(columns[CPU].free[number]), int(columns[MEMORY].free[number])

    def _with_other_amounts(self) -> Iterator[int]:
        changes = self._infos.by_row.changes
        touched = changes.numbers_since(self._seen_rows)
        self._seen_rows = changes.now
        for number in sorted(self._nodes) if touched is None else touched:
            free = self._nodes.get(number)
            if free is not None and (free.cpu, free.memory) != self._amounts(number):
                yield number
