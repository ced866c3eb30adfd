"""From the times of all rounds to the lines of the result."""

import statistics
from collections.abc import Sequence

from benchmarks.extender.figures import Row, percentile
from benchmarks.guard.measurement import PairedRound

TARGET_MS = 3.0
"""The 99th percentile of allocations with the guard exceeds that without by less."""


def rows(rounds: Sequence[PairedRound]) -> list[Row]:
    """The lines."""
    return [
        *(_of_times("asked about", [one.guarded_s for one in rounds])),
        *(_of_times("not asked about", [one.free_s for one in rounds])),
        _row("added at the median", [_added_ms(one, 0.5) for one in rounds]),
        _row("added at p99", [_added_ms(one, 0.99) for one in rounds], TARGET_MS),
        _row("median of the differences in pairs", [_median_difference_ms(one) for one in rounds]),
        _row("processor time of the guard, a pair", [1e3 * one.cpu_s for one in rounds]),
    ]


def _of_times(what: str, times: Sequence[Sequence[float]]) -> list[Row]:
    parts = {"median": 0.5, "p99": 0.99}
    return [_row(f"{what}: {name}", [1e3 * percentile(one, part) for one in times]) for name, part in parts.items()]


def _added_ms(one: PairedRound, part: float) -> float:
    return 1e3 * (percentile(one.guarded_s, part) - percentile(one.free_s, part))


def _median_difference_ms(one: PairedRound) -> float:
    return 1e3 * statistics.median(with_ - without for with_, without in zip(one.guarded_s, one.free_s, strict=True))


def _row(what: str, values: Sequence[float], target: float | None = None) -> Row:
    return Row.of(what, "ms", values, target)
