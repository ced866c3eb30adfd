"""NodeResourcesBalancedAllocation: a node is better, the more the pod brings its cpu and memory into balance.

What counts is the difference between the shares that are requested of both, with the pod and without it; a resource of
which the node has nothing is left out. Pods that request neither are not scored.
Source: kube-scheduler's balanced_allocation.go, with its default resources cpu and memory.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.plugins.cycle import Cycle
from scheduler.plugins.normalize import MAX_SCORE
from scheduler.plugins.plugin import Plugin, Score
from scheduler.state.masks import Numbers
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import CPU, MEMORY, PodRequests

_HALF = MAX_SCORE // 2


def balanced_allocation(requests: PodRequests, infos: NodeInfos, nodes: Numbers) -> Numbers:
    """The scores of these nodes: 75 where the balance stays as it is, from 50 to 100 as it becomes worse or better."""
    with_pod = _balance(infos, nodes, requests.amounts.get(CPU, 0), requests.amounts.get(MEMORY, 0))
    return _HALF + (_HALF + with_pod - _balance(infos, nodes, 0, 0)) // 2


def _balance(infos: NodeInfos, nodes: Numbers, cpu: int, memory: int) -> Numbers:
    """From 50 to 100. cpu, memory: requested beside what pods request that are there.

    The arithmetic is the reference's, in doubles: with exact fractions a score would now and then be higher by one.
    """
    deviation = np.abs(_share(infos, CPU, nodes, cpu) - _share(infos, MEMORY, nodes, memory)) / 2
    deviation[~(_offers(infos, CPU, nodes) & _offers(infos, MEMORY, nodes))] = 0
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _share(infos: NodeInfos, resource: str, nodes: Numbers, more: int) -> NDArray[np.float64]:
    column = infos.columns[resource]
    allocatable = column.allocatable[nodes]
    requested = allocatable - column.free[nodes] + more
    return np.minimum(requested / np.maximum(allocatable, 1), 1)


def _offers(infos: NodeInfos, resource: str, nodes: Numbers) -> NDArray[np.bool_]:
    offers: NDArray[np.bool_] = infos.columns[resource].allocatable[nodes] > 0
    return offers


def _scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
    if cycle.requests.amounts.keys().isdisjoint((CPU, MEMORY)):
        return None
    return balanced_allocation(cycle.requests, cycle.infos, nodes)


NODE_RESOURCES_BALANCED_ALLOCATION = Plugin("NodeResourcesBalancedAllocation", (), score=Score(1, _scores))
