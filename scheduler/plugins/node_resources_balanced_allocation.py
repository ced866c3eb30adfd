"""NodeResourcesBalancedAllocation: a node is better, the more the pod brings its cpu and memory into balance.

What counts is the difference between the shares that are requested of both, with the pod and without it; a resource of
which the node has nothing is left out. Pods that request neither are not scored.
Source: kube-scheduler's balanced_allocation.go, with its default resources cpu and memory.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.plugins.cycle import Cycle
from scheduler.plugins.normalize import MAX_SCORE
from scheduler.plugins.plugin import Plugin, Score
from scheduler.state.masks import Numbers
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import CPU, MEMORY, PodRequests

_HALF = MAX_SCORE // 2


def balanced_allocation(requests: PodRequests, infos: NodeInfos, nodes: Numbers) -> Numbers:
    """The scores of these nodes: 75 where the balance stays as it is, from 50 to 100 as it becomes worse or better."""
    allocatable = [infos.columns[name].allocatable[nodes] for name in (CPU, MEMORY)]
    free = [infos.columns[name].free[nodes] for name in (CPU, MEMORY)]
    requested = [offered - left for offered, left in zip(allocatable, free, strict=True)]
    with_pod = [one + requests.amounts.get(name, 0) for name, one in zip((CPU, MEMORY), requested, strict=True)]
    return _HALF + (_HALF + _balance(with_pod, allocatable) - _balance(requested, allocatable)) // 2


def _balance(requested: Sequence[Numbers], allocatable: Sequence[Numbers]) -> Numbers:
    """From 50 to 100. requested, allocatable: of cpu and memory.

    The arithmetic is the reference's, in doubles: with exact fractions a score would now and then be higher by one.
    """
    cpu, memory = (np.minimum(one / np.maximum(of, 1), 1) for one, of in zip(requested, allocatable, strict=True))
    deviation = np.abs(cpu - memory) / 2
    deviation[(allocatable[0] == 0) | (allocatable[1] == 0)] = 0
    balance: Numbers = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return balance


def _scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
    if cycle.requests.amounts.keys().isdisjoint((CPU, MEMORY)):
        return None
    return balanced_allocation(cycle.requests, cycle.infos, nodes)


NODE_RESOURCES_BALANCED_ALLOCATION = Plugin("NodeResourcesBalancedAllocation", (), score=Score(1, _scores))
