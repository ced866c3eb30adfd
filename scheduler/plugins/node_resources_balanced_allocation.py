"""NodeResourcesBalancedAllocation: a node is better, the more the pod brings its cpu and memory into balance.

What counts is how far the shares differ that are requested of them, with the pod and without it; other resources can be
configured. One of which the node has nothing is left out. Pods that request none of them are not scored.
Source: kube-scheduler's balanced_allocation.go.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.plugins.cycle import Cycle
from scheduler.plugins.normalize import MAX_SCORE
from scheduler.plugins.plugin import Plugin, Score
from scheduler.state.masks import Flags, Floats, Numbers
from scheduler.state.nodes import NodeInfos
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
    allocatable = [infos.columns[name].allocatable[nodes] for name in counting]
    free = [infos.columns[name].free[nodes] for name in counting]
    requested = [offered - left for offered, left in zip(allocatable, free, strict=True)]
    with_pod = [one + requests.amounts.get(name, 0) for name, one in zip(counting, requested, strict=True)]
    return _HALF + (_HALF + _balance(with_pod, allocatable) - _balance(requested, allocatable)) // 2


def _counting(requests: PodRequests, infos: NodeInfos, resources: Sequence[str]) -> Iterator[str]:
    """Those of the resources that count: extended ones only where the pod requests them."""
    for name in resources:
        if name in infos.columns and name != PODS and (name in OF_NODES or requests.amounts.get(name)):
            yield name


def _balance(requested: Sequence[Numbers], allocatable: Sequence[Numbers]) -> Numbers:
    """From 50 to 100. requested, allocatable: by resource.

    The arithmetic is the reference's, in doubles: with exact fractions a score would now and then be higher by one.
    """
    shares = [np.minimum(one / np.maximum(of, 1), 1) for one, of in zip(requested, allocatable, strict=True)]
    offered = [of > 0 for of in allocatable]
    deviation = _deviation(shares, offered)
    balance: Numbers = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return balance


def _deviation(shares: Sequence[Floats], offered: Sequence[Flags]) -> Floats:
    """How far the shares of a node differ, of the resources that it offers: half of the difference, if they are two."""
    if len(shares) == _PAIR:
        return np.where(offered[0] & offered[1], np.abs(shares[0] - shares[1]) / 2, 0.0)
    number = np.sum(offered, axis=0)
    highest = np.max([np.where(has, share, 0.0) for share, has in zip(shares, offered, strict=True)], axis=0)
    lowest = np.min([np.where(has, share, 1.0) for share, has in zip(shares, offered, strict=True)], axis=0)
    half = np.where(number == _PAIR, (highest - lowest) / 2, 0.0)
    return np.where(number > _PAIR, _standard_deviation(shares, offered, number), half)


def _standard_deviation(shares: Sequence[Floats], offered: Sequence[Flags], number: Numbers) -> Floats:
    # One after the other, as the reference adds them up.
    total, squares, number = np.zeros(len(number)), np.zeros(len(number)), np.maximum(number, 1)
    for share, has in zip(shares, offered, strict=True):
        total += np.where(has, share, 0.0)
    for share, has in zip(shares, offered, strict=True):
        apart = share - total / number
        squares += np.where(has, apart * apart, 0.0)
    return np.sqrt(squares / number)


def node_resources_balanced_allocation(resources: Sequence[str] = (CPU, MEMORY)) -> Plugin:
    """The plugin. resources: whose balance counts."""

    def scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
        if cycle.requests.amounts.keys().isdisjoint(resources):
            return None
        requests, infos = cycle.requests, cycle.infos
        kept = infos.by_row.of(
            (NAME, tuple(resources), requests.key),
            len(requests.amounts),
            lambda rows: balanced_allocation(requests, infos, rows, resources),
        )
        return kept[nodes]

    return Plugin(NAME, (), score=Score(1, scores))


NODE_RESOURCES_BALANCED_ALLOCATION = node_resources_balanced_allocation()
