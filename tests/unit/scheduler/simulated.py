"""Results of simulations for tests; a field that a case varies is named."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.simulation.result import (
    AlignmentSummary,
    Distribution,
    ExplainedAttempt,
    FleetSize,
    Measured,
    Scenario,
    Series,
    ShapeSummary,
    SimulationResult,
    Summary,
)

SUMMARY = Summary(
    arrivals=100,
    placed=80,
    ended=0,
    running=80,
    waiting=20,
    refused=0,
    failed=0,
    withdrawn=0,
    acceptance_percent=80.0,
    allocated_percent=75.0,
    mean_allocated_percent=50.0,
    peak_allocated_percent=75.0,
    fragmentation_percent=10.0,
    fragmentation_ratio=40.0,
    mean_fragmentation_percent=5.0,
    causes={"devices": 10.0},
    largest_block=2.0,
    whole_units=3,
    whole_nodes=1,
    evictions=0,
    decisions=120,
    refusals={"node(s) cannot provide devices": 40},
    waiting_s=Distribution(80, 1.5, 1.0, 3.0, 7.0, 9.0),
    shapes=(ShapeSummary("2 gpu", 100, 80, 80.0, Distribution()),),
    alignment={"resource.kubernetes.io/numaNode": AlignmentSummary(40, 30, 75.0)},
    end_s=7200.0,
)


def a_scenario(
    policy: str = "best-fit",
    seed: int = 42,
    *,
    parameters: Mapping[str, str] | None = None,
    allocated: Sequence[float] = (0.0, 50.0, 75.0),
    summary: Summary = SUMMARY,
    explained: Sequence[ExplainedAttempt] = (),
) -> Scenario:
    """allocated: in percent, at equal distances of what arrived, up to 100 %, and of two hours."""
    last = max(1, len(allocated) - 1)
    series = Series(
        time_s=tuple(7200.0 * place / last for place in range(len(allocated))),
        arrived_percent=tuple(100.0 * place / last for place in range(len(allocated))),
        allocated_percent=tuple(allocated),
        waiting=tuple(float(place) for place in range(len(allocated))),
        evictions=tuple(0.0 for _ in allocated),
    )
    return Scenario(
        policy=policy,
        seed=seed,
        parameters=parameters or {},
        fleet=FleetSize(4, 16, 0),
        summary=replace(summary, allocated_percent=allocated[-1] if allocated else 0.0),
        by_arrivals=series,
        by_time=series,
        measured=Measured(1.5, Distribution(120, 0.5, 0.4, 0.9, 2.0, 9.0)),
        explained=tuple(explained),
    )


def a_result(*scenarios: Scenario) -> SimulationResult:
    """The document of these."""
    return SimulationResult("dra-scheduler 0", scenarios)
