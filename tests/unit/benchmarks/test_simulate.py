"""The pure parts of the benchmark of simulations, and one small run of all of it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.offline.answer import WrongOutput
from benchmarks.simulate.answer import check, read
from benchmarks.simulate.figures import LARGEST, TARGET_MIB, TARGET_S, FleetLoad, SimulationRun, rows
from benchmarks.simulate.run import Terms, measure_all
from scheduler.simulation.result import Summary
from tests.unit.scheduler.simulated import SUMMARY

SMALL = FleetLoad(4, 40)
PROGRAM = Path(sys.executable).with_name("dra")


def a_run(load: FleetLoad, cpu_s: float) -> SimulationRun:
    return SimulationRun(load, cpu_s + 1, cpu_s, 100, load.arrivals, load.arrivals, 50.0, 80.0)


def test_a_run_of_the_program_is_measured_and_its_answer_checked(tmp_path: Path) -> None:
    (run,) = measure_all(PROGRAM, [SMALL], Terms("best-fit", "0.9", 1), tmp_path)
    assert run.placed == 40
    assert run.decisions >= 40
    assert 0 < run.mean_percent < run.peak_percent <= 100
    assert sorted(one.name for one in tmp_path.iterdir()) == ["results.json", "runs.json"]


def test_a_policy_that_does_not_exist_is_reported_in_the_program_s_words(tmp_path: Path) -> None:
    with pytest.raises(WrongOutput, match=r"4 nodes, 40 arrivals: dra ended with 2: .*no-such"):
        measure_all(PROGRAM, [SMALL], Terms("no-such", "0.9", 1), tmp_path)


def test_an_answer_in_which_pods_are_missing_does_not_count(tmp_path: Path) -> None:
    measured = tmp_path / "output.json"
    measured.write_text('{"scenarios": []}')
    with pytest.raises(WrongOutput, match="no result of one scenario"):
        read(measured)


RIGHT = replace(SUMMARY, arrivals=40, placed=40, ended=40, running=0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(RIGHT, arrivals=39), "39 pods arrived, but there are 40"),
        (replace(RIGHT, placed=37), "37 of 40 pods were placed, less than 95%"),
        (replace(RIGHT, ended=39, running=1), "of 40 pods that were placed, 39 have ended"),
    ],
)
def test_a_summary_counts_if_pods_have_come_and_gone(wrong: Summary, said: str) -> None:
    assert check(RIGHT, SMALL) is RIGHT
    with pytest.raises(WrongOutput, match=said):
        check(wrong, SMALL)


def test_limits_are_for_the_largest_load_alone() -> None:
    found = rows([a_run(SMALL, 2), a_run(SMALL, 4), a_run(LARGEST, 500)])
    assert [row.target for row in found if row.target] == [TARGET_S, TARGET_MIB]
    arrival = next(row for row in found if row.case == "4 nodes, 40 arrivals: processor time, an arrival")
    assert (arrival.ours, arrival.least, arrival.greatest) == (75_000, 50_000, 100_000)
    assert replace(a_run(SMALL, 2), cpu_s=4).arrival_us == 100_000
