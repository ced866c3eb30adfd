"""Scoring strategies of NodeResourcesFit: the score of a node for its resource usage with the pod on it.

Each is a weighted mean over resources. A resource that the node does not have is left out. All numbers are integers,
divided as kube-scheduler divides them.
Source: kube-scheduler's least_allocated.go, most_allocated.go, requested_to_capacity_ratio.go, resource_allocation.go.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.plugins.plugin import MAX_SCORE
from scheduler.state.masks import Numbers, Rows, at, at_least, smaller
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import CPU, MEMORY, OF_NODES, PODS, PodRequests

CPU_AND_MEMORY: Mapping[str, int] = {CPU: 1, MEMORY: 1}
"""What counts where nothing else is said, by weight."""

MAX_UTILIZATION = 100
MAX_SHAPE_SCORE = 10

Worth = Callable[[Any, Any], Any]  # Any: numbers of one node, or of many
"""What it is worth, from 0 to 100, that so much is requested of so much; of nothing it does not matter."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoringStrategy:
    """What nodes are worth, each by itself.

    resources: that count, by weight. leaves_out_0: resources worth nothing, of the mean.
    """

    worth: Worth
    resources: Mapping[str, int] = field(default_factory=lambda: CPU_AND_MEMORY)
    leaves_out_0: bool = False

    def scores(self, requests: PodRequests, infos: NodeInfos, nodes: Rows) -> Rows:
        """The scores of these nodes with the pod. requests: the pod's."""
        total = weights = 0 * nodes
        for resource, weight in self.resources.items():
            if use := _use(resource, requests, infos, nodes):
                requested, allocatable = use
                worth, counts = self.worth(requested, allocatable), allocatable > 0
                if self.leaves_out_0:
                    worth = worth * counts
                    counts = worth > 0
                total, weights = total + weight * worth, weights + weight * counts
        return self._mean(total, at_least(1, weights))

    def _mean(self, total: Rows, weights: Rows) -> Rows:
        # RequestedToCapacityRatio alone rounds, a half upwards.
        return (2 * total + weights) // (2 * weights) if self.leaves_out_0 else total // weights


def _use(resource: str, requests: PodRequests, infos: NodeInfos, nodes: Rows) -> tuple[Rows, Rows] | None:
    """What is requested of the resource on these nodes with the pod, and allocatable; None where it does not count.

    Differs from kube-scheduler: what a node gives by claim for a device class is not counted.
    """
    column = infos.columns.get(resource)
    if column is None or resource == PODS:
        return None
    allocatable = at(column.allocatable, nodes)
    if resource == CPU:
        return at(infos.scored_cpu, nodes) + requests.scored_cpu, allocatable
    if resource == MEMORY:
        return at(infos.scored_memory, nodes) + requests.scored_memory, allocatable
    amount = requests.amounts.get(resource, 0)
    if not amount and resource not in OF_NODES:
        return None
    return allocatable - at(column.free, nodes) + amount, allocatable


def _least_allocated(requested: Rows, allocatable: Rows) -> Rows:
    return at_least(0, allocatable - requested) * MAX_SCORE // at_least(1, allocatable)


def _most_allocated(requested: Rows, allocatable: Rows) -> Rows:
    return smaller(requested, allocatable) * MAX_SCORE // at_least(1, allocatable)


def least_allocated(resources: Mapping[str, int] = CPU_AND_MEMORY) -> ScoringStrategy:
    """The more is left, the better."""
    return ScoringStrategy(_least_allocated, resources)


def most_allocated(resources: Mapping[str, int] = CPU_AND_MEMORY) -> ScoringStrategy:
    """The less is left, the better."""
    return ScoringStrategy(_most_allocated, resources)


def requested_to_capacity_ratio(
    shape: Sequence[tuple[int, int]], resources: Mapping[str, int] = CPU_AND_MEMORY
) -> ScoringStrategy:
    """The score that a line through points has at the use of a node.

    shape: points of utilization, 0 to 100, and score, 0 to 10, in the order of their utilization.
    """
    by_utilization = scores_along(shape)

    def worth(requested: Rows, allocatable: Rows) -> Rows:
        percent = smaller(requested, allocatable) * MAX_UTILIZATION // at_least(1, allocatable)
        return at(by_utilization, percent)

    return ScoringStrategy(worth, resources, leaves_out_0=True)


def scores_along(shape: Sequence[tuple[int, int]]) -> Numbers:
    """The score, from 0 to 100, at each percent of utilization. shape: as of `requested_to_capacity_ratio`."""
    return np.array([_on_line(shape, percent) for percent in range(MAX_UTILIZATION + 1)], np.int64)


def _on_line(shape: Sequence[tuple[int, int]], percent: int) -> int:
    """The score at this utilization; before the first point and behind the last one it is theirs."""
    before: tuple[int, int] | None = None
    for utilization, points in shape:
        score = points * MAX_SCORE // MAX_SHAPE_SCORE
        if percent <= utilization:
            return score if before is None else _between(before, (utilization, score), percent)
        before = utilization, score
    assert before is not None, "a shape has points"
    return before[1]


def _between(start: tuple[int, int], end: tuple[int, int], percent: int) -> int:
    return start[1] + _toward_0((end[1] - start[1]) * (percent - start[0]), end[0] - start[0])


def _toward_0(number: int, divisor: int) -> int:
    """The quotient without its fraction, as Go divides. divisor: above 0."""
    return number // divisor if number >= 0 else -(-number // divisor)
