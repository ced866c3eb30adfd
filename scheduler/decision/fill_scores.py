"""The nodes that the policy fill-value finds best: its values of a cluster, kept up with what changes.

If the workload has changed, its values are prepared beside the decisions, a few steps with each, and take effect when
all are there.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence

import numpy as np

from allocator.fleet.questions import fingerprint_of
from allocator.model import Claim
from allocator.policies.fill_value import FillValue, FromDevices
from allocator.policies.fill_values import PodCosts
from allocator.search.rules import Mask
from cel.lru import LruCache
from scheduler.decision.fill_workload import AskedDevices, AskedTakes, FillWorkload, NodeCells, mebibytes
from scheduler.decision.rooms import Rooms
from scheduler.state.masks import Floats, Numbers, mask_of_numbers, numbers_of
from scheduler.state.pod_requests import CPU, MEMORY, PodRequests

MOST_PODS = 1 << 10
"""Pods that ask for different things of which costs are kept; beyond, the least recently used are forgotten."""

STEPS = 8
"""Of preparing another workload, with each decision."""


class FillScores:
    """The scores of the policy on the rooms of a cluster: the same face as `NodeScores`."""

    def __init__(self, policy: FillValue, rooms: Rooms) -> None:
        self.policy = policy
        self._rooms = rooms
        self._nodes: dict[int, NodeCells] = {}
        self._workload: FillWorkload | None = None
        self._coming: FillWorkload | None = None
        self._asked: LruCache[Hashable, AskedDevices] = LruCache(MOST_PODS, MOST_PODS)
        self._costs: LruCache[Hashable, PodCosts] = LruCache(MOST_PODS, MOST_PODS)
        self._seen = 0

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """The best score of these nodes, and those that have it; see `NodeScores.best`."""
        numbers, scores = self._scored(requests, claims, nodes)
        best = scores.max()
        return float(best), mask_of_numbers(numbers[scores == best], self._rooms.size)

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """The scores of these nodes, and the nodes of each; see `NodeScores.all`.

        Nodes that are not the best have a score that is at least theirs, and less than the best.
        """
        numbers, scores = self._scored(requests, claims, nodes)
        for score in np.unique(scores).tolist():
            yield score, mask_of_numbers(numbers[scores == score], self._rooms.size)

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> FromDevices:
        """The policy for the attempt on that node, which has room for the pod. Raises AllocationError."""
        workload = self._caught_up()
        asked, pod = self._pod(workload, requests, claims)
        now, found = list(workload.values.units_of(number)), list[int]()
        for place, after in workload.values.steps(pod, number):
            found += asked.devices(number, place, workload.units.taken(now[place], after))
            now[place] = after
        return FromDevices(self.policy.name, found)

    def _scored(self, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[Numbers, Floats]:
        workload, numbers = self._caught_up(), numbers_of(nodes)
        _, pod = self._pod(workload, requests, claims)
        return numbers, -workload.values.costs(pod, numbers)

    def _pod(
        self, workload: FillWorkload, requests: PodRequests, claims: Sequence[Claim]
    ) -> tuple[AskedDevices, PodCosts]:
        devices = fingerprint_of(claims)
        asked = self._asked.get(devices, 1, lambda: AskedDevices(self._rooms, self._nodes, claims))
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
        self._rooms.catch_up_amounts()
        changes = self._rooms.changes
        changed: Collection[int] | None = changes.since(self._seen)
        if changed is None:
            changed = sorted({*self._rooms.numbers, *self._nodes})
        self._seen = changes.now
        for number in changed:
            self._look_at(number)
        workload = self._known()
        for number in changed:
            workload.look_at(number)
        if self._coming is not None:
            for number in changed:
                self._coming.look_at(number)
        return self._prepared(workload)

    def _known(self) -> FillWorkload:
        if self._workload is None:
            self._workload = FillWorkload(self._rooms, self._nodes)
            self._workload.prepare_all()
        elif not self._workload.is_current():
            self._workload.renew()
            self._forget_costs()  # their bounds are of the kinds before
        return self._workload

    def _prepared(self, workload: FillWorkload) -> FillWorkload:
        """The values after a few steps more, if another workload is known meanwhile."""
        if self._coming is not None and not self._coming.is_current():
            self._coming = None
        if self._coming is None:
            if workload.seen == self._rooms.workload.changes and not workload.values.is_full():
                return workload
            self._coming = FillWorkload(self._rooms, self._nodes)
        self._coming.prepare(STEPS)
        if not self._coming.is_ready:
            return workload
        self._workload, self._coming = self._coming, None
        self._forget_costs()
        return self._workload

    def _look_at(self, number: int) -> None:
        room = self._rooms.get(number)
        if room is None:
            self._nodes.pop(number, None)
            return
        units, cells = self._rooms.unit_cells(number), tuple(self._rooms.cells(number))
        self._nodes[number] = NodeCells(units, cells, room.cpu, room.memory)
