"""NodeResourcesBalancedAllocation: a node scores higher, the more the pod balances its use of cpu and memory.

The score compares the shares of the resources that are requested, with and without the pod. Other resources can be
configured. A resource that the node does not have is left out. Pods that request none of them are not scored.
Source: kube-scheduler's balanced_allocation.go.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from scheduler.plugins.plugin import MAX_SCORE, Cycle, Plugin, Score
from scheduler.state.masks import Flags, Floats, Numbers, Rows, at, at_least, smaller
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import CPU, MEMORY, OF_NODES, PODS, PodRequests

NAME = "NodeResourcesBalancedAllocation"

_HALF = MAX_SCORE // 2


_PAIR = 2

MOST_KEPT = 1 << 14
"""Scores of single nodes that are remembered, by what they have, what is left, and what the pod requests."""


def balanced_allocation(
    requests: PodRequests, infos: NodeInfos, nodes: Rows, resources: Sequence[str] = (CPU, MEMORY)
) -> Rows:
    """The scores of these nodes: 75 where the balance stays as it is, from 50 to 100 as it becomes worse or better."""
    counting = list(_counting(requests, infos, resources))
    if not counting:
        return 0 * nodes + _HALF + _HALF // 2
    columns = [infos.columns[name] for name in counting]
    allocatable = [at(column.allocatable, nodes) for column in columns]
    free = [at(column.free, nodes) for column in columns]
    amounts = [requests.amounts.get(name, 0) for name in counting]
    if isinstance(nodes, int):
        return _score_of_one(tuple(allocatable), tuple(free), tuple(amounts))
    return _score(allocatable, free, amounts)


@lru_cache(MOST_KEPT)
def _score_of_one(allocatable: tuple[int, ...], free: tuple[int, ...], amounts: tuple[int, ...]) -> int:
    return _score(allocatable, free, amounts)


def _score(allocatable: Sequence[Rows], free: Sequence[Rows], amounts: Sequence[int]) -> Rows:
    """All by resource. free: below 0 where pods request more than there is. amounts: what the pod requests."""
    requested = [whole - left for whole, left in zip(allocatable, free, strict=True)]
    with_pod = [before + amount for before, amount in zip(requested, amounts, strict=True)]
    score: Rows = _HALF + (_HALF + _balance(with_pod, allocatable) - _balance(requested, allocatable)) // 2
    return score


def _counting(requests: PodRequests, infos: NodeInfos, resources: Sequence[str]) -> Iterator[str]:
    """Those of the resources that count: extended ones only where the pod requests them."""
    for name in resources:
        if name in infos.columns and name != PODS and (name in OF_NODES or requests.amounts.get(name)):
            yield name


def _balance(requested: Sequence[Rows], allocatable: Sequence[Rows]) -> Rows:
    """From 50 to 100, by node. requested, allocatable: by resource, and by node.

    The arithmetic is the reference's, in doubles: with exact fractions a score would now and then be higher by one.
    """
    # Of more than all, the share is 1.
    taken = [smaller(amount, whole) for amount, whole in zip(requested, allocatable, strict=True)]
    shares = [amount / at_least(1, whole) for amount, whole in zip(taken, allocatable, strict=True)]
    balance: Rows = _truncated((1 - _deviation(shares, [whole > 0 for whole in allocatable])) * MAX_SCORE)
    return balance


def _truncated(score: Any) -> Any:  # Any: one number, or many
    return int(score) if isinstance(score, float) else score.astype(np.int64)


def _deviation(shares: Sequence[Any], offered: Sequence[Any]) -> Any:  # Any: of one node, or of many
    """How far the shares of a node differ, of the resources that it offers: half of the difference, if they are two."""
    if len(offered) == _PAIR:
        return abs(shares[0] - shares[1]) / 2 * (offered[0] & offered[1])
    return _deviation_of_many(np.array(shares), np.array(offered))


def _deviation_of_many(shares: Floats, offered: Flags) -> Floats:
    number = np.sum(offered, axis=0)
    highest = np.max(np.where(offered, shares, 0.0), axis=0)
    lowest = np.min(np.where(offered, shares, 1.0), axis=0)
    half = np.where(number == _PAIR, (highest - lowest) / 2, 0.0)
    return np.where(number > _PAIR, _standard_deviation(shares, offered, number), half)


def _standard_deviation(shares: Floats, offered: Flags, number: Numbers) -> Floats:
    # One resource after the other, as the reference adds them up.
    number = np.maximum(number, 1)
    total, squares = np.zeros_like(shares[0]), np.zeros_like(shares[0])
    for share, has in zip(shares, offered, strict=True):
        total += np.where(has, share, 0.0)
    for share, has in zip(shares, offered, strict=True):
        apart = share - total / number
        squares += np.where(has, apart * apart, 0.0)
    deviation: Floats = np.sqrt(squares / number)
    return deviation


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
