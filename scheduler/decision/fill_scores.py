"""The nodes that the policy fill-value finds best: its values of a cluster, kept up with what changes.

All is worked out anew when the workload has changed, or a pod requests what none did before.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from allocator.fleet.hardware_kinds import HardwareKinds
from allocator.fleet.questions import fingerprint_of
from allocator.model import Alternative, Claim, Request
from allocator.outcome import AllocationError
from allocator.policies.cells import Cells, Take
from allocator.policies.fill_rollouts import FillShape
from allocator.policies.fill_value import FillValue, FromDevices
from allocator.policies.fill_values import FillNode, FillValues
from allocator.policies.unit_states import UnitKind, UnitStates
from allocator.search.rules import Mask
from scheduler.decision.rooms import Rooms
from scheduler.decision.typical_pods import WorkloadShape
from scheduler.state.masks import Floats, Numbers, mask_of_numbers, numbers_of
from scheduler.state.pod_requests import CPU, MEMORY, PodRequests

MOST_REQUESTS = 1 << 10
"""Different requests that are remembered; beyond, those of the workload alone are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class _NodeKind:
    """Nodes with equal devices. takes: for each request, for each unit."""

    units: Sequence[UnitKind]
    takes: Sequence[Sequence[Sequence[Take]]]


class FillScores:
    """The scores of the policy on the rooms of a cluster: the same face as `NodeScores`."""

    def __init__(self, policy: FillValue, rooms: Rooms) -> None:
        self.policy = policy
        self._rooms = rooms
        self._requests: dict[Hashable, tuple[int, Claim, Request]] = {}
        self._hardware: HardwareKinds | None = None
        self._kinds: dict[Hashable, _NodeKind] = {}
        self._values = FillValues(UnitStates(0), ())
        self._seen = 0
        self._seen_workload = -1
        self._seen_requests = -1
        self._largest = 0

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """The best score of these nodes, and those that have it; see `NodeScores.best`."""
        numbers, scores = self._scored(requests, claims, nodes)
        best = scores.max()
        return float(best), mask_of_numbers(numbers[scores == best], self._rooms.size)

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """The scores of these nodes, and the nodes of each; see `NodeScores.all`."""
        numbers, scores = self._scored(requests, claims, nodes)
        for score in np.unique(scores).tolist():
            yield score, mask_of_numbers(numbers[scores == score], self._rooms.size)

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> FromDevices:
        """The policy for the attempt on that node, which has room for the pod. Raises AllocationError."""
        asked = self._caught_up(requests, claims)
        kind, found = self._kind(number), list[int]()
        cells = list(self._rooms.cells(number))
        now = self._units(kind, cells)
        wanted = [request for request, _ in asked.requests]
        for before, after in self._values.steps(_key(requests, claims), asked, number):
            unit, taken = now.index(before), self._values.units.taken(before, after)
            now[unit] = after
            found += [
                device
                for request in wanted
                for take in kind.takes[request][unit]
                if take.cells == taken
                for device in take.devices
            ]
        return FromDevices(self.policy.name, found)

    def _scored(self, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[Numbers, Floats]:
        asked, numbers = self._caught_up(requests, claims), numbers_of(nodes)
        return numbers, -self._values.costs(_key(requests, claims), asked, numbers)

    # -- what there is

    def _caught_up(self, requests: PodRequests, claims: Sequence[Claim]) -> FillShape:
        """What the pod requests, with all values as of now."""
        self._rooms.catch_up()
        asked, memory = self._numbered(claims), requests.amounts.get(MEMORY, 0)
        changed: Collection[int] | None = self._rooms.changes.since(self._seen)
        if changed is None or not self._is_current() or memory > self._largest or self._values.is_full():
            while memory > self._largest:
                self._largest = 2 * self._largest + 1
            self._start_anew()
            asked, changed = self._numbered(claims), self._rooms.numbers
        for number in changed:
            self._look_at(number)
        self._seen = self._rooms.changes.now
        return FillShape(0, requests.amounts.get(CPU, 0), memory, asked)

    def _is_current(self) -> bool:
        """Whether pods request the same as before, and the same is the same on nodes."""
        is_same = (self._seen_workload, self._seen_requests) == (self._rooms.workload.changes, len(self._requests))
        return is_same and self._hardware is not None and self._rooms.are_current(self._hardware)

    def _start_anew(self) -> None:
        if len(self._requests) > MOST_REQUESTS:
            self._requests.clear()
        shapes = [self._shape(share, one) for share, one in self._rooms.workload.every()]
        every = [replace(claim, requests=(request,)) for _, claim, request in self._requests.values()]
        self._hardware, self._kinds = self._rooms.kinds(every), {}
        units = UnitStates(len(self._requests))
        self._values = FillValues(units, ())
        kinds = [self._kind(number) for number in self._rooms.numbers]
        whole = [self._units(kind, [one.unit.whole for one in kind.units]) for kind in kinds]
        self._values = FillValues(units, shapes, map(tuple, whole), self._largest)
        self._seen_workload, self._seen_requests = self._rooms.workload.changes, len(self._requests)

    def _shape(self, share: float, shape: WorkloadShape) -> FillShape:
        return FillShape(share, shape.cpu, shape.memory, self._numbered(shape.claims))

    def _numbered(self, claims: Sequence[Claim]) -> tuple[tuple[int, int], ...]:
        """The number of each request, by its first alternative, and how many devices it asks for."""
        found: list[tuple[int, int]] = []
        for claim in claims:
            for request in claim.requests:
                for one in request.alternatives[:1]:
                    if not one.admin_access:
                        key = fingerprint_of([Claim("", "", "", (Request("", (_single(one),)),))])
                        number, _, _ = self._requests.setdefault(key, (len(self._requests), claim, request))
                        found.append((number, one.count))
        return tuple(found)

    def _look_at(self, number: int) -> None:
        room = self._rooms.get(number)
        if room is None:
            self._values.remove_node(number)
            return
        units = self._units(self._kind(number), self._rooms.cells(number))
        self._values.set_node(number, FillNode(tuple(units), max(0, room.cpu), max(0, room.memory)))

    def _units(self, kind: _NodeKind, cells: Sequence[Cells]) -> list[int]:
        return [self._values.units.number(unit, own) for unit, own in zip(kind.units, cells, strict=True)]

    def _kind(self, number: int) -> _NodeKind:
        assert self._hardware is not None, "nodes are looked at by `_caught_up` alone"
        units = self._rooms.unit_cells(number)
        key = self._hardware.of(number), tuple(units)
        known = self._kinds.get(key)
        if known is None:
            takes = [self._takes(number, claim, request) for _, claim, request in self._requests.values()]
            cells = [[[take.cells for take in of] for of in takes_of] for takes_of in takes]
            known = self._kinds[key] = _NodeKind(self._values.units.kinds(units, cells), takes)
        return known

    def _takes(self, number: int, claim: Claim, request: Request) -> Sequence[Sequence[Take]]:
        """What the request may take of each unit; nothing where it ends every attempt."""
        try:
            return self._rooms.takes(number, claim, request)
        except AllocationError:
            return [()] * len(self._rooms.unit_cells(number))


def _single(alternative: Alternative) -> Alternative:
    return Alternative(
        "",
        alternative.class_name,
        alternative.selectors,
        tolerations=alternative.tolerations,
        capacity=alternative.capacity,
        derived_attributes=alternative.derived_attributes,
    )


def _key(requests: PodRequests, claims: Sequence[Claim]) -> Hashable:
    return requests.amounts.get(CPU, 0), requests.amounts.get(MEMORY, 0), fingerprint_of(claims)
