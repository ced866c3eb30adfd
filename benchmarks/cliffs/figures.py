"""From the runs to the lines of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.extender.figures import Row

EXPLAIN = "explain"
"""In place of a policy: the explanation of what first-fit says."""

TARGET_S = 6.0
TARGET_MIB = 200.0
TARGET_US = 12.0
"""What an attempt has to stay under, whatever the claims are, and each of its steps where there are many."""

LEAST_STEPS = 10_000
"""Steps of runs whose time for each counts: what comes before them is not of the budget."""


@dataclass(frozen=True, slots=True)
class CliffRun:
    """One attempt, in a process of its own. outcome: `Allocated`, `Refused`, `Exhausted`, or what ended it."""

    case: str
    subject: str
    outcome: str
    steps: int
    cpu_s: float
    peak_mib: float

    @property
    def us_per_step(self) -> float:
        """Processor time of a step."""
        return self.cpu_s / max(self.steps, LEAST_STEPS) * 1e6

    def __str__(self) -> str:
        return (
            f"{self.subject}: {self.outcome} after {self.steps:,} steps, {self.cpu_s:.2f} s of processor time, "
            f"{self.us_per_step:.1f} us a step, {self.peak_mib:.0f} MiB"
        )


def rows(runs: Sequence[CliffRun]) -> list[Row]:
    """The lines of each policy, and of the explanation."""
    subjects = dict.fromkeys(one.subject for one in runs)
    return [row for subject in subjects for row in _rows(subject, [one for one in runs if one.subject == subject])]


def _rows(subject: str, runs: Sequence[CliffRun]) -> list[Row]:
    def row(what: str, unit: str, values: Sequence[float], target: float | None = None) -> Row:
        return Row.of(f"{subject}: {what}", unit, values, target)

    return [
        row("processor time of a step", "us", [one.us_per_step for one in runs], TARGET_US),
        row("processor time", "s", [one.cpu_s for one in runs], TARGET_S),
        row("memory", "MiB", [one.peak_mib for one in runs], TARGET_MIB),
        row("not known", "claims", [float(sum(one.outcome == "Exhausted" for one in runs))]),
    ]
