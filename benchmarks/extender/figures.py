"""From the times of all rounds to the lines of the result."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

TARGET_MS = 20.0
"""Within which 99 of 100 calls have to be answered."""


@dataclass(frozen=True, slots=True)
class Called:
    """What came of calls over the network.

    calls_s: how long each took. cpu_s: of the extender, for a call and the changes that come with it. peak_mib: the
    most memory that it had at a time. changes_rate: claims that changed in a second.
    """

    calls_s: Sequence[float]
    cpu_s: float
    peak_mib: float
    changes_rate: float


@dataclass(frozen=True, slots=True)
class Round:
    """A case, once.

    first_s: how long the first call for each set of new claims took, before all rounds. decision_s: how long each of
    the same decisions took in process. fleet_s: the allocator alone.
    """

    case: str
    first_s: Sequence[float]
    called: Called
    decision_s: Sequence[float]
    fleet_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the median of the rounds, the least, the greatest; what it has to be at most, if anything."""

    case: str
    unit: str
    ours: float
    least: float
    greatest: float
    target: float | None = None

    @staticmethod
    def of(case: str, unit: str, values: Sequence[float], target: float | None = None) -> "Row":
        """The line of these values, one for each round."""
        return Row(case, unit, statistics.median(values), min(values), max(values), target)


def percentile(times: Sequence[float], part: float) -> float:
    """The least of the times that so great a part of them does not exceed."""
    return sorted(times)[math.ceil(part * len(times)) - 1]


def rows(rounds: Sequence[Round]) -> list[Row]:
    """The lines, case by case."""
    cases = dict.fromkeys(one.case for one in rounds)
    return [row for case in cases for row in _rows(case, [one for one in rounds if one.case == case])]


def _rows(case: str, rounds: Sequence[Round]) -> list[Row]:
    def row(what: str, unit: str, values: Sequence[float], target: float | None = None) -> Row:
        return Row.of(f"{case}: {what}", unit, values, target)

    def times(what: str, all_of_them: Sequence[Sequence[float]], part: float, target: float | None = None) -> Row:
        return row(what, "ms", [1e3 * percentile(times, part) for times in all_of_them], target)

    called = [one.called for one in rounds]
    calls, decisions, fleets = (
        [one.calls_s for one in called],
        [one.decision_s for one in rounds],
        [one.fleet_s for one in rounds],
    )
    return [
        times("filter over mutual TLS, median", calls, 0.5),
        times("filter over mutual TLS, p99", calls, 0.99, TARGET_MS),
        times("filter over mutual TLS, greatest", calls, 1.0),
        times("the decision in process, median", decisions, 0.5),
        times("the decision in process, p99", decisions, 0.99),
        times("the allocator alone, median", fleets, 0.5),
        times("the allocator alone, p99", fleets, 0.99),
        times("the first call ever for new claims, greatest", [rounds[0].first_s], 1.0),
        row("processor time of the extender, a call", "ms", [1e3 * one.cpu_s for one in called]),
        row("peak memory of the extender", "MiB", [one.peak_mib for one in called]),
        row("changes of claims meanwhile", "1/s", [one.changes_rate for one in called]),
    ]


def table(found: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = [["case", "unit", "ours", "least to greatest", "target"], ["---"] * 5]
    for row in found:
        target = "-" if row.target is None else f"under {row.target:g}"
        spread = f"{_number(row.least)} to {_number(row.greatest)}"
        lines.append([row.case, row.unit, _number(row.ours), spread, target])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
