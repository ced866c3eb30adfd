"""How the time of a decision grows with what is there: nodes, allocated claims, shares. It should not."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.allocator import cases, ours

NODES = (100, 300, 1000, 3000, 10_000)
CLAIMS = (0, 1000, 3000, 9000)
SHARES = (0, 1000, 10_000, 50_000)


def plot(path: Path) -> None:
    """Write the three curves as one SVG."""
    mpl.use("svg")
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True)
    curves: Sequence[tuple[str, Sequence[int], Callable[[int], float]]] = (
        ("nodes", NODES, decision_with_nodes),
        ("allocated claims, 1,000 nodes", CLAIMS, decision_with_claims),
        ("shares elsewhere", SHARES, decision_with_shares),
    )
    for axis, (label, sizes, measure) in zip(axes, curves, strict=True):
        axis.plot(sizes, [1e6 * measure(size) for size in sizes], marker="o")
        axis.set_xlabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("decision, us (median)")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def decision_with_nodes(nodes: int) -> float:
    """Seconds for a decision that looks at every node."""
    return _median_decision(nodes, 0)


def decision_with_claims(claims: int) -> float:
    """Seconds for a decision while so many devices of 1,000 nodes are taken."""
    return _median_decision(1000, claims)


def decision_with_shares(shares: int) -> float:
    """Seconds for an attempt while so many shares are in use in another pool."""
    return ours.attempt_seconds(ours.decoded(cases.shares_elsewhere(shares)), 50)


def _median_decision(nodes: int, before: int) -> float:
    fleet = ours.fleet_of(ours.decoded(cases.cluster(nodes, 1)))
    place = ours.placing(fleet, ours.decoded(cases.cluster(1, 1)).claims)
    for number in range(before + 10):
        place(number)
    times = []
    for number in range(200):
        started = time.perf_counter()
        place(before + 10 + number)
        times.append(time.perf_counter() - started)
    return statistics.median(times)
