"""From the times of single decisions to the lines of the result."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.endtoend.figures import Range
from benchmarks.extender.figures import percentile

WARM_UP = 20
"""Decisions that are not counted: the first one of a template looks at all nodes, and caches fill on both sides."""

TARGET = 5.0
"""How many times as fast as the plugins a decision has to be."""


POLICY_TARGET_MS = 2.0
"""How long a decision by a policy may take on 5,000 nodes."""


class Times(NamedTuple):
    """How long the decisions of one run took, in seconds, one after the other."""

    seconds: Sequence[float]

    @property
    def mean_s(self) -> float:
        """Of those that count."""
        return statistics.fmean(self.seconds[WARM_UP:])

    @property
    def p99_s(self) -> float:
        """Within which 99 of 100 of those that count were."""
        return percentile(self.seconds[WARM_UP:], 0.99)

    @property
    def longest_s(self) -> float:
        """Of those that count."""
        return max(self.seconds[WARM_UP:])


class PolicyRun(NamedTuple):
    """The decisions of a policy on so many nodes, once."""

    policy: str
    nodes: int
    times: Times


class PolicyRow(NamedTuple):
    """One line for a policy: medians of the rounds, in milliseconds."""

    policy: str
    nodes: int
    mean_ms: float
    p99_ms: float
    longest_ms: float
    first_ms: float

    def document(self) -> dict[str, object]:
        """As the JSON has it."""
        return {**self._asdict(), "target_ms": POLICY_TARGET_MS}


class Run(NamedTuple):
    """A case at a size, once. sampled: the plugins as kube-scheduler comes, which looks at a part of the nodes.

    thorough: the plugins on all nodes, as ours are. best: how many of our choices the plugins have looked at, all of
    which they find best.
    """

    case: str
    nodes: int
    ours: Times
    sampled: Times
    thorough: Times
    best: int


class Row(NamedTuple):
    """One line: medians of the rounds, in milliseconds, and how many times faster ours is, round by round."""

    case: str
    nodes: int
    ours_ms: float
    ours_first_ms: float
    ours_p99_ms: float
    sampled_ms: float
    thorough_ms: float
    times_sampled: Range
    times_thorough: Range
    best: int

    def document(self) -> dict[str, object]:
        """As the JSON has it."""
        ratios = {"times_sampled": self.times_sampled._asdict(), "times_thorough": self.times_thorough._asdict()}
        return {**self._asdict(), **ratios, "target": TARGET}


def rows(runs: Sequence[Run]) -> list[Row]:
    """The lines, size by size."""
    keys = dict.fromkeys((one.nodes, one.case) for one in runs)
    return [_row([one for one in runs if (one.nodes, one.case) == key]) for key in keys]


def policy_rows(runs: Sequence[PolicyRun]) -> list[PolicyRow]:
    """The lines of policies, size by size."""
    keys = dict.fromkeys((one.nodes, one.policy) for one in runs)
    return [_policy_row([one for one in runs if (one.nodes, one.policy) == key]) for key in keys]


def _policy_row(runs: Sequence[PolicyRun]) -> PolicyRow:
    times = [one.times for one in runs]
    mean, p99 = _median_ms([one.mean_s for one in times]), _median_ms([one.p99_s for one in times])
    longest, first = _median_ms([one.longest_s for one in times]), _median_ms([one.seconds[0] for one in times])
    return PolicyRow(runs[0].policy, runs[0].nodes, mean, p99, longest, first)


def _row(runs: Sequence[Run]) -> Row:
    return Row(
        runs[0].case,
        runs[0].nodes,
        _median_ms([one.ours.mean_s for one in runs]),
        _median_ms([one.ours.seconds[0] for one in runs]),
        _median_ms([one.ours.p99_s for one in runs]),
        _median_ms([one.sampled.mean_s for one in runs]),
        _median_ms([one.thorough.mean_s for one in runs]),
        _range([one.sampled.mean_s / one.ours.mean_s for one in runs]),
        _range([one.thorough.mean_s / one.ours.mean_s for one in runs]),
        min(one.best for one in runs),
    )


def _median_ms(seconds: Sequence[float]) -> float:
    return 1e3 * statistics.median(seconds)


def _range(ratios: Sequence[float]) -> Range:
    return Range(statistics.median(ratios), min(ratios), max(ratios))


def table(found: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    heads = [
        "nodes",
        "every pod has",
        "ours, ms: mean; p99; the first",
        "the plugins, a part of the nodes, ms",
        "times faster (least to greatest)",
        "the plugins, all nodes, ms",
        "times faster (least to greatest)",
        "choices found best",
    ]
    lines = [heads, ["---"] * len(heads)]
    for row in found:
        ours = f"{row.ours_ms:.3g}; {row.ours_p99_ms:.3g}; {row.ours_first_ms:.3g}"
        sampled, thorough = f"{row.sampled_ms:.3g}", f"{row.thorough_ms:.3g}"
        nodes = f"{row.nodes:,}"
        ratios = _text(row.times_sampled), _text(row.times_thorough)
        lines.append([nodes, row.case, ours, sampled, ratios[0], thorough, ratios[1], str(row.best)])
    return _markdown(lines)


def policy_table(found: Sequence[PolicyRow], head: str = "policy") -> str:
    """The rows of policies, or of what `head` says, as a table of Markdown."""
    heads = ["nodes", head, "mean, ms", "p99, ms", "the longest, ms", "the first, ms"]
    lines = [heads, ["---"] * len(heads)]
    for row in found:
        numbers = (row.mean_ms, row.p99_ms, row.longest_ms, row.first_ms)
        lines.append([f"{row.nodes:,}", row.policy, *[f"{one:.3g}" for one in numbers]])
    return _markdown(lines)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(spread: Range) -> str:
    return f"{spread.median:.1f} ({spread.least:.1f} to {spread.greatest:.1f})"
