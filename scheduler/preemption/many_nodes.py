"""Victims on many nodes at once, where the node's own resources are all that is short there.

Everything else lets the pod pass with all pods there, and does so the more with some of them gone. So what is to be
found out is arithmetic on columns: a row for each node, a place in it for each of its pods, the most important first.
Rows are kept, and filled again when the node's pods have changed.
Source: kube-scheduler's SelectVictimsOnNode, for NodeResourcesFit.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.bits import Mask
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.preemption.victims import LOWEST, EvictionCost, Unit
from scheduler.state.masks import Flags, Floats, Numbers, mask_of_numbers, numbers_once
from scheduler.state.pods import PODS, PodRequests
from scheduler.state.pods_by_priority import HIGHEST, violated_of

_FEWEST_PLACES = 8

ByPlace = NDArray[np.int64]
"""A row for each node, a column for each place of a pod."""


class PodTable:
    """The pods of nodes, in rows by node number. priorities: HIGHEST where there is no pod."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = np.zeros(0, np.int64)
        self.units: list[Sequence[Unit]] = []
        self._freed: dict[int, Sequence[int]] = {}
        self._budgets: dict[int, tuple[int, Sequence[Sequence[PodDisruptionBudget]]]] = {}
        self.priorities = np.zeros((0, _FEWEST_PLACES), np.int64)
        self.started = np.zeros((0, _FEWEST_PLACES))
        self.amounts: dict[str, ByPlace] = {}

    def refresh(self, numbers: Sequence[int], resources: Sequence[str]) -> None:
        """Bring the rows of these nodes up to date. Cost: O(pods on those whose pods have changed)."""
        changes = self._cluster.by_priority.changes
        self._grow(len(changes))
        for resource in resources:
            if resource not in self.amounts:
                self.amounts[resource] = np.zeros(self.priorities.shape, np.int64)
                self._seen[:] = -1
        rows = np.array(numbers, np.int64)
        for number in rows[self._seen[rows] != changes[rows]].tolist():
            self._fill(number)
            self._seen[number] = changes[number]

    def lower(self, number: int, priority: int, most_freed: Callable[[Pod], int]) -> list[tuple[Unit, int]]:
        """Who could go from the node, the most important first, and how many devices come free then at most."""
        self.refresh([number], ())
        units = self.units[number]
        if number not in self._freed:
            self._freed[number] = [sum(map(most_freed, unit.pods)) for unit in units]
        return [
            (unit, freed) for unit, freed in zip(units, self._freed[number], strict=True) if unit.priority < priority
        ]

    def budgets(self, number: int) -> Sequence[Sequence[PodDisruptionBudget]]:
        """By place the budgets from which an eviction takes one. The row is up to date."""
        budgets = self._cluster.budgets
        known = self._budgets.get(number)
        if known is None or known[0] != budgets.changes:
            known = budgets.changes, [budgets.all_of(unit.pods) for unit in self.units[number]]
            self._budgets[number] = known
        return known[1]

    def _fill(self, number: int) -> None:
        units = sorted(map(Unit.of, self._cluster.by_priority.on(number)), key=lambda unit: unit.importance)
        self.units[number] = units
        self._freed.pop(number, None)
        self._budgets.pop(number, None)
        count = len(units)
        self._widen(count)
        self.priorities[number] = HIGHEST
        if not count:
            return
        self.priorities[number, :count] = [unit.priority for unit in units]
        self.started[number, :count] = [unit.started for unit in units]
        requests = [self._cluster.infos.requests_of(unit.pods[0].uid).amounts for unit in units]
        for resource, table in self.amounts.items():
            table[number, :count] = 1 if resource == PODS else [one.get(resource, 0) for one in requests]

    def _grow(self, size: int) -> None:
        more = size - len(self._seen)
        if more > 0:
            self._seen = np.pad(self._seen, (0, more), constant_values=-1)
            self.units += [()] * more
            self._pad(((0, more), (0, 0)))

    def _widen(self, places: int) -> None:
        more = places - self.priorities.shape[1]
        if more > 0:
            self._pad(((0, 0), (0, more)))

    def _pad(self, by: tuple[tuple[int, int], tuple[int, int]]) -> None:
        self.priorities = np.pad(self.priorities, by, constant_values=HIGHEST)
        self.started = np.pad(self.started, by)
        self.amounts = {resource: np.pad(table, by) for resource, table in self.amounts.items()}


@dataclass(frozen=True, slots=True)
class NodesAtOnce:
    """What was found of some nodes, in their order."""

    numbers: Sequence[int]
    table: PodTable
    fits: Sequence[bool]
    """Whether the pod fits with everybody lower gone."""
    victims: NDArray[np.bool_]
    """By node and place."""
    violating: NDArray[np.bool_]
    costs: Sequence[EvictionCost]
    short: Mapping[str, Flags]
    """By resource, whether it is still too little then."""

    def victims_on(self, place: int) -> list[Unit]:
        """On one of the nodes, by its place among them."""
        units = self.table.units[self.numbers[place]]
        return [units[one] for one in self.victims[place].nonzero()[0].tolist()]

    def lacking(self, tried: int, size: int) -> Iterator[tuple[str, Mask]]:
        """By resource which of the first so many nodes have too little of it whoever goes. size: above all numbers."""
        rows = np.array(self.numbers[:tried], np.int64)
        for resource, short in self.short.items():
            if nodes := mask_of_numbers(rows[short[:tried]], size):
                yield resource, nodes


def nodes_at_once(
    table: PodTable, cluster: Cluster, numbers: Sequence[int], priority: int, requests: PodRequests
) -> NodesAtOnce:
    """Who has to go from each of the nodes. requests: of the preemptor."""
    needed = {PODS: 1, **requests.amounts}
    table.refresh(numbers, list(needed))
    rows = np.array(numbers, np.int64)
    lower = table.priorities[rows] < priority
    amounts = {resource: table.amounts[resource][rows] for resource in needed}
    left = {
        resource: _free(cluster, resource, rows) + (amounts[resource] * lower).sum(axis=1) - amount
        for resource, amount in needed.items()
    }
    short = {resource: slack < 0 for resource, slack in left.items()}
    fits = ~np.logical_or.reduce(list(short.values()))
    violating = _violating(table, cluster, numbers, lower)
    victims = np.zeros_like(lower)
    for first in (True, False):
        among = lower & (violating if first else ~violating)
        _spare(among, amounts, left, victims)
    costs = _costs(table, rows, victims, violating)
    return NodesAtOnce(numbers, table, fits.tolist(), victims, violating, costs, short)


def _free(cluster: Cluster, resource: str, rows: Numbers) -> Numbers:
    column = cluster.infos.columns.get(resource)
    return column.free[rows] if column is not None else np.full(len(rows), -HIGHEST, np.int64)


def _spare(
    among: NDArray[np.bool_], amounts: Mapping[str, ByPlace], left: dict[str, Numbers], victims: NDArray[np.bool_]
) -> None:
    """Give back whom there is room for, place by place; the others are victims. left: what is free, which it lowers."""
    for place in np.flatnonzero(among.any(axis=0)).tolist():
        asked = among[:, place]
        stays = asked.copy()
        for resource, slack in left.items():
            stays &= amounts[resource][:, place] <= slack
        for resource, slack in left.items():
            np.subtract(slack, amounts[resource][:, place] * stays, out=slack)
        victims[:, place] |= asked & ~stays


def _violating(
    table: PodTable, cluster: Cluster, numbers: Sequence[int], lower: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    violating = np.zeros_like(lower)
    if not cluster.budgets.namespaces:
        return violating
    firsts = lower.argmax(axis=1).tolist()  # pods are in the order of their priorities: all that follow are lower
    for row, number in enumerate(numbers):
        own = table.budgets(number)
        if any(own) and lower[row, firsts[row]]:
            for place, violated in enumerate(violated_of(own[firsts[row] :]), start=firsts[row]):
                if violated:
                    violating[row, place] = True
    return violating


def _costs(
    table: PodTable, rows: Numbers, victims: NDArray[np.bool_], violating: NDArray[np.bool_]
) -> Sequence[EvictionCost]:
    priorities, started = table.priorities[rows], table.started[rows]
    highest = np.where(victims, priorities, -LOWEST).max(axis=1)
    sums = (np.where(victims, priorities + LOWEST, 0)).sum(axis=1)
    first = victims & (priorities == highest[:, None])
    earliest: Floats = np.where(first, started, np.inf).min(axis=1)
    columns = ((victims & violating).sum(axis=1), highest, sums, victims.sum(axis=1), -earliest)
    return list(zip(*(one.tolist() for one in columns), strict=True))


def windows(nodes: Mask, start: int, size: int) -> Iterator[list[int]]:
    """The nodes in the order of their numbers from this one on, so many at a time."""
    numbers = numbers_once(nodes).tolist()
    first = bisect_left(numbers, start) % max(len(numbers), 1)
    numbers = numbers[first:] + numbers[:first]
    return (numbers[begin : begin + size] for begin in range(0, len(numbers), size))
