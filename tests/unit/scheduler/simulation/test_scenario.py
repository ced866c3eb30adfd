"""Curves of a scenario: columns by arrived percent, each a mean of what was rounded."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from allocator.gates import DEFAULT_RELEASE, Features
from allocator.policies import policy_of
from scheduler.plugins.profile import ONLY_FILTERS, Profile
from scheduler.simulation.compare import (
    ALLOCATION,
    FRAGMENTATION,
    FRAGMENTATION_RATIO,
    ValueByPercent,
    curve_of,
    differing,
)
from scheduler.simulation.jobs import Rows
from scheduler.simulation.openb import GATES, Openb
from scheduler.simulation.result import Scenario
from scheduler.simulation.scenario import Clocks, Settings, Start, run
from scheduler.simulation.trace import Trace

FEATURES = Features.of(DEFAULT_RELEASE, GATES)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,{gpus},A\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
PODS = f"{HEAD}a,1000,10,1,500,\nb,1000,10,2,1000,\nc,1000,10,1,10,\n"


def a_start(folder: Path, gpus: int = 2, pods: str = PODS) -> Start:
    (folder / "nodes.csv").write_text(NODES.format(gpus=gpus))
    (folder / "w.csv").write_text(pods)
    trace = Openb(folder, "w")
    return Start(trace.inventory(FEATURES), (), Trace(tuple(trace.jobs())))


def a_run(start: Start, rows: Sequence[int], policy: str = "fgd") -> Scenario:
    profiles = [Profile(plugins=ONLY_FILTERS, policy=policy_of(policy))]
    settings = Settings(FEATURES, 1, Rows(tuple(rows)), retries=False)
    return run(start, profiles, settings, Clocks(lambda: 0.0, lambda: 0.0))


def a_curve(folder: Path, *rows: int, metric: str = ALLOCATION) -> ValueByPercent:
    return curve_of(a_run(a_start(folder), rows), metric)


def test_a_refused_pod_has_arrived_and_counts_by_its_cause(tmp_path: Path) -> None:
    found = a_run(a_start(tmp_path), [0, 1, 0])
    assert (found.summary.placed, found.summary.refused, found.summary.refusals) == (2, 1, {"devices": 1})
    assert curve_of(found, ALLOCATION) == {25: 25.0, 125: 25.0, 150: 50.0}


def test_a_column_is_the_mean_of_the_arrivals_that_round_to_it(tmp_path: Path) -> None:
    # 0.5, 1.0, 1.5 and 2.0 % have arrived: 0.5 rounds to 0, 1.5 to 2.
    assert a_curve(tmp_path, 2, 2, 2, 2) == {0: 0.5, 1: 1.0, 2: 1.75}


@pytest.mark.parametrize(("milli", "column", "shown"), [(126, 1, 0.51), (124, 0, 0.5), (374, 1, 1.49), (376, 2, 1.5)])
def test_a_column_keeps_its_number_where_its_rounded_share_is_half_way(
    tmp_path: Path, milli: int, column: int, shown: float
) -> None:
    # Of 25,000, these are 0.504, 0.496, 1.496 and 1.504 %.
    found = a_run(a_start(tmp_path, 25, f"{HEAD}a,1000,10,1,{milli},\n"), [0])
    assert found.by_arrivals.arrived_percent == (shown,)
    assert list(curve_of(found, ALLOCATION)) == [column]


def test_fragments_are_what_the_workload_cannot_use(tmp_path: Path) -> None:
    # 1,500 are left: the whole of it is a fragment for the third of the pods that ask for two whole GPUs.
    assert a_curve(tmp_path, 0, metric=FRAGMENTATION) == {25: 25.0}
    assert a_curve(tmp_path, 0, metric=FRAGMENTATION_RATIO) == {25: pytest.approx(33.33)}


def test_curves_differ_beyond_the_tolerance_and_where_a_column_is_missing() -> None:
    assert differing({0: 1.0, 1: 2.01, 2: 3.02}, {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}) == [2, 3]
