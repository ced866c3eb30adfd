"""From the runs to the lines of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.extender.figures import Row

TARGET_S = 10.0
TARGET_MIB = 900.0
"""What a run has to stay under, whoever is refused."""


@dataclass(frozen=True, slots=True)
class Run:
    """A case, once."""

    case: str
    wall_s: float
    cpu_s: float
    peak_mib: float
    placed: int
    refused: int

    def __str__(self) -> str:
        return (
            f"{self.wall_s:.1f} s, {self.cpu_s:.1f} s of processor time, {self.peak_mib:.0f} MiB, "
            f"{self.placed:,} placed, {self.refused:,} refused"
        )


def rows(runs: Sequence[Run]) -> list[Row]:
    """The lines, case by case."""
    cases = dict.fromkeys(one.case for one in runs)
    return [row for case in cases for row in _rows(case, [one for one in runs if one.case == case])]


def _rows(case: str, runs: Sequence[Run]) -> list[Row]:
    def row(what: str, unit: str, values: Sequence[float], target: float | None = None) -> Row:
        return Row.of(f"{case}: {what}", unit, values, target)

    return [
        row("time", "s", [one.wall_s for one in runs], TARGET_S),
        row("processor time", "s", [one.cpu_s for one in runs]),
        row("peak memory", "MiB", [one.peak_mib for one in runs], TARGET_MIB),
        row("placed", "pods", [one.placed for one in runs]),
        row("refused", "pods", [one.refused for one in runs]),
    ]
