"""From the runs to the lines of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.extender.figures import Row

TARGET_S = 900.0
TARGET_MIB = 4096.0
"""What the run of `LARGEST` has to stay under."""


@dataclass(frozen=True, slots=True)
class FleetLoad:
    """A fleet and the pods that arrive."""

    nodes: int
    arrivals: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.arrivals:,} arrivals"


LARGEST = FleetLoad(100_000, 1_000_000)
LOADS = (FleetLoad(1_000, 10_000), FleetLoad(10_000, 100_000), LARGEST)
"""As many pods for each node, so that the time of one shows what grows with the fleet."""


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """A load, once. placed: pods that got a node. mean_percent: of the devices in use, while pods arrive.

    peak_percent: of the same the most. The fleet is empty at the start, so that the mean is below the load.
    """

    load: FleetLoad
    wall_s: float
    cpu_s: float
    peak_mib: float
    placed: int
    decisions: int
    mean_percent: float
    peak_percent: float

    @property
    def arrival_us(self) -> float:
        """Processor time for one arrival, with its departure, its retries, and its share of start-up and reading."""
        return 1e6 * self.cpu_s / self.load.arrivals

    def __str__(self) -> str:
        return (
            f"{self.wall_s:.1f} s, {self.cpu_s:.1f} s of processor time, {self.peak_mib:.0f} MiB, "
            f"{self.placed:,} placed, {self.decisions:,} decisions, "
            f"{self.mean_percent:g} % in use on average while pods arrive, {self.peak_percent:g} % at most"
        )


def rows(runs: Sequence[SimulationRun]) -> list[Row]:
    """The lines, load by load."""
    loads = dict.fromkeys(one.load for one in runs)
    return [row for load in loads for row in _rows(load, [one for one in runs if one.load == load])]


def _rows(load: FleetLoad, runs: Sequence[SimulationRun]) -> list[Row]:
    def row(what: str, unit: str, values: Sequence[float], target: float | None = None) -> Row:
        return Row.of(f"{load}: {what}", unit, values, target if load == LARGEST else None)

    return [
        row("time", "s", [one.wall_s for one in runs], TARGET_S),
        row("processor time", "s", [one.cpu_s for one in runs]),
        row("processor time, an arrival", "us", [one.arrival_us for one in runs]),
        row("peak memory", "MiB", [one.peak_mib for one in runs], TARGET_MIB),
        row("decisions", "", [one.decisions for one in runs]),
    ]
