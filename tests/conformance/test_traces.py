"""The recorded curves of a real trace, which lie beside the checkout: see benchmarks/traces."""

from pathlib import Path

import pytest

from benchmarks.traces.run import Replay, compare, read, run

FOLDER = Path(__file__).parents[2].parent / "shared" / "traces" / "openb"


def test_a_run_gives_the_recorded_curves(capsys: pytest.CaptureFixture[str]) -> None:
    if not FOLDER.exists():
        pytest.skip(f"the recorded traces are not there: {FOLDER}")
    replay = Replay("multigpu50", "fgd", 42)
    (result,), equal, differ = compare([(replay, run(FOLDER, replay))], read(FOLDER))
    assert (equal, differ) == (3, 0), capsys.readouterr().out
    assert (result.columns, result.differing) == (393, 0)
