"""`make bench-traces`: its processes, what policies know at first, and what is told of a record."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.traces.run import KNOWN, NOTHING, Replay, compare, read, replays_of, run

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,2,A\nnode-1,8000,1024,1,A\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
ONE, TWO = "one,1000,10,1,1000,\n", "two,1000,10,2,1000,\n"
ORDER = '{"workload": "w", "seed": 7, "pods": [0, 1], "nodes": [0, 1]}\n'

KILLED = """
import os
import signal
from pathlib import Path

from benchmarks.traces import run


def orphaned(folder, replay):
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()


run.run = orphaned
if __name__ == "__main__":
    list(run.measured(Path(), [run.Replay("w", "fgd", seed) for seed in range(2)], jobs=2))
"""


def test_processes_end_with_a_benchmark_that_is_ended(tmp_path: Path) -> None:
    """They have its standard output, which is read until nobody has it any more."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, script], capture_output=True, check=False, timeout=100, env=environment)
    assert (found.returncode, found.stdout) == (-15, b"")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pod with one GPU comes before one with two, which only the first node has; another workload has only such."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "w.csv").write_text(HEAD + ONE + TWO)
    (tmp_path / "large.csv").write_text(HEAD + TWO)
    (tmp_path / "orders" / "w.jsonl").write_text(ORDER)
    return tmp_path


@pytest.mark.parametrize(("start", "placed"), [(KNOWN, 2), ("large", 2), (NOTHING, 1)])
def test_a_workload_that_is_known_or_expected_finds_its_place(folder: Path, start: str, placed: int) -> None:
    assert run(folder, Replay("w", "fill-value", 7, start)).summary.placed == placed


def test_each_start_is_a_run_of_the_policies_that_learn(folder: Path) -> None:
    found = list(replays_of(folder, ["nothing", "large"]))
    assert [(one.policy, one.start_shapes) for one in found] == [
        ("fgd", "nothing"),
        ("fgd", "large"),
        ("fill-value", "nothing"),
        ("fill-value", "large"),
    ]
    assert str(found[0]) == "w fgd 7 started with nothing"


def test_a_curve_that_differs_is_told_with_its_first_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replays = [Replay("w", "best-fit", 7), Replay("w", "fgd", 7), Replay("w", "first-fit", 7)]
    others = "other,BestFit,7,1,1\nw,Random,7,1,1\n"
    for metric, best_fit, fgd in (
        ("allocation", "33.33,0", "33.33,100"),
        ("fragmentation", "0,0", "0,0"),
        ("fragmentation-ratio", "50,1", "0,0"),
    ):
        rows = f"w,BestFit,7,{best_fit}\nw,FGD,7,{fgd}\n{others}"
        (folder / f"recorded-{metric}.csv").write_text(f"workload,policy,seed,33,100\n{rows}")
    results, equal, differ = compare([(one, run(folder, one)) for one in replays], read(folder))
    assert capsys.readouterr().out.splitlines() == [
        "w best-fit 7 allocation: 1 of 2 columns differ, first 100: 100.0, recorded 0.0",
        "w best-fit 7 fragmentation-ratio: 2 of 2 columns differ, first 33: 0.0, recorded 50.0",
    ]
    assert (equal, differ) == (4, 2)
    assert [(one.policy, one.at_100, one.columns, one.differing) for one in results] == [
        ("best-fit", 100.0, 6, 3),
        ("fgd", 100.0, 6, 0),
        ("first-fit", 33.33, 0, 0),
    ]
