"""The recorded curves of a real trace, which lie beside the checkout: see benchmarks/traces."""

from pathlib import Path

import pytest

from benchmarks.traces.record import read
from benchmarks.traces.run import Run, Scenario, compare, run

FOLDER = Path(__file__).parents[2].parent / "shared" / "traces" / "openb"


@pytest.fixture(scope="module")
def replayed() -> Run:
    if not FOLDER.exists():
        pytest.skip(f"the recorded traces are not there: {FOLDER}")
    return run(FOLDER, Scenario("multigpu50", "fgd", 42))


def test_a_replay_gives_the_recorded_curves(replayed: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (result,), equal, differ = compare([replayed], read(FOLDER))
    assert (equal, differ) == (3, 0), capsys.readouterr().out
    assert (result.columns, result.differing) == (393, 0)


def test_a_curve_that_differs_is_told_with_its_first_column(replayed: Run, capsys: pytest.CaptureFixture[str]) -> None:
    key = ("allocation", "multigpu50", "fgd", 42)
    curve = read(FOLDER)[key]
    (result,), equal, differ = compare([replayed], {key: {**curve, 90: 12.5, 95: 0.0}})
    assert (equal, differ, result.differing) == (0, 1, 2)
    ours = replayed.curves["allocation"][90]
    expected = f"multigpu50 fgd 42 allocation: 2 of 131 columns differ, first 90: {ours}, recorded 12.5\n"
    assert capsys.readouterr().out == expected
