"""NodeResourcesBalancedAllocation: a node scores higher, the more the pod balances its use of cpu and memory.

The score compares the shares of the resources that are requested, with and without the pod. Other resources can be
configured. A resource that the node does not have is left out. Pods that request none of them are not scored.
Source: kube-scheduler's balanced_allocation.go.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.plugins.cycle import Cycle
from scheduler.plugins.normalize import MAX_SCORE
from scheduler.plugins.plugin import Plugin, Score
from scheduler.state.masks import Flags, Floats, Numbers
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pod_requests import CPU, MEMORY, OF_NODES, PODS, PodRequests

NAME = "NodeResourcesBalancedAllocation"

_HALF = MAX_SCORE // 2


_PAIR = 2


def balanced_allocation(
    requests: PodRequests, infos: NodeInfos, nodes: Numbers, resources: Sequence[str] = (CPU, MEMORY)
) -> Numbers:
    """The scores of these nodes: 75 where the balance stays as it is, from 50 to 100 as it becomes worse or better."""
    counting = list(_counting(requests, infos, resources))
    if not counting:
        return np.full(len(nodes), _HALF + _HALF // 2, np.int64)
    columns = [infos.columns[name] for name in counting]
    allocatable = np.array([column.allocatable[nodes] for column in columns])
    requested = allocatable - np.array([column.free[nodes] for column in columns])
    by_pod = [[requests.amounts.get(name, 0)] for name in counting]
    with_pod, without = _balance(requested + np.array([by_pod, [[0]] * len(counting)]), allocatable)
    found: Numbers = _HALF + (_HALF + with_pod - without) // 2
    return found


def _counting(requests: PodRequests, infos: NodeInfos, resources: Sequence[str]) -> Iterator[str]:
    """Those of the resources that count: extended ones only where the pod requests them."""
    for name in resources:
        if name in infos.columns and name != PODS and (name in OF_NODES or requests.amounts.get(name)):
            yield name


def _balance(requested: Numbers, allocatable: Numbers) -> Numbers:
    """From 50 to 100, by case and node. requested: by case, resource and node; allocatable: by resource and node.

    The arithmetic is the reference's, in doubles: with exact fractions a score would now and then be higher by one.
    """
    shares = np.minimum(requested / np.maximum(allocatable, 1), 1)
    balance: Numbers = ((1 - _deviation(shares, allocatable > 0)) * MAX_SCORE).astype(np.int64)
    return balance


def _deviation(shares: Floats, offered: Flags) -> Floats:
    """How far the shares of a node differ, of the resources that it offers: half of the difference, if they are two."""
    if len(offered) == _PAIR:
        return np.where(offered[0] & offered[1], np.abs(shares[:, 0] - shares[:, 1]) / 2, 0.0)
    number = np.sum(offered, axis=0)
    highest = np.max(np.where(offered, shares, 0.0), axis=1)
    lowest = np.min(np.where(offered, shares, 1.0), axis=1)
    half = np.where(number == _PAIR, (highest - lowest) / 2, 0.0)
    return np.where(number > _PAIR, _standard_deviation(shares, offered, number), half)


def _standard_deviation(shares: Floats, offered: Flags, number: Numbers) -> Floats:
    # One resource after the other, as the reference adds them up.
    number = np.maximum(number, 1)
    total, squares = np.zeros_like(shares[:, 0]), np.zeros_like(shares[:, 0])
    for resource, has in enumerate(offered):
        total += np.where(has, shares[:, resource], 0.0)
    for resource, has in enumerate(offered):
        apart = shares[:, resource] - total / number
        squares += np.where(has, apart * apart, 0.0)
    return np.sqrt(squares / number)


def node_resources_balanced_allocation(resources: Sequence[str] = (CPU, MEMORY)) -> Plugin:
    """The plugin. resources: whose balance counts."""

    def scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
        if cycle.requests.amounts.keys().isdisjoint(resources):
            return None
        requests, infos = cycle.requests, cycle.infos
        return infos.by_row.at(
            nodes,
            (NAME, tuple(resources), requests.key),
            len(requests.amounts),
            lambda rows: balanced_allocation(requests, infos, rows, resources),
        )

    return Plugin(NAME, (), score=Score(1, scores))


NODE_RESOURCES_BALANCED_ALLOCATION = node_resources_balanced_allocation()
