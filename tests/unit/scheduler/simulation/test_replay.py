"""What a policy knows of a workload when a replay begins."""

from pathlib import Path

import pytest

from allocator.policies import policy_of
from benchmarks.traces.run import Scenario, run, scenarios_of
from scheduler.simulation.openb import Openb
from scheduler.simulation.replay import FEATURES, replay

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,2,A\nnode-1,8000,1024,1,A\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
ONE, TWO = "one,1000,10,1,1000,\n", "two,1000,10,2,1000,\n"
ORDER = '{"workload": "w", "seed": 7, "pods": [0, 1], "nodes": [0, 1]}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pod with one GPU comes before one with two, which only the first node has; another workload has only such."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "w.csv").write_text(HEAD + ONE + TWO)
    (tmp_path / "large.csv").write_text(HEAD + TWO)
    (tmp_path / "orders" / "w.jsonl").write_text(ORDER)
    return tmp_path


def placed(folder: Path, start: list[str] | None) -> int:
    trace = Openb(folder, "w")
    known = None if start is None else [Openb(folder, name) for name in start]
    order = trace.orders()[7]
    return replay(trace, trace.inventory(FEATURES), order, policy_of("fill-value"), start=known).placed


def test_a_workload_that_is_known_or_expected_finds_its_place(folder: Path) -> None:
    assert placed(folder, None) == 2
    assert placed(folder, ["large"]) == 2
    assert placed(folder, []) == 1


def test_each_start_is_a_scenario_of_the_policies_that_learn(folder: Path) -> None:
    found = list(scenarios_of(folder, ["nothing", "large"]))
    assert [(one.policy, one.start_shapes) for one in found] == [
        ("fgd", "nothing"),
        ("fgd", "large"),
        ("fill-value", "nothing"),
        ("fill-value", "large"),
    ]
    assert str(found[0]) == "w fgd 7 started with nothing"
    assert (
        run(folder, found[-1]).curves["allocation"] == run(folder, Scenario("w", "fill-value", 7)).curves["allocation"]
    )
    assert run(folder, found[-2]).curves["allocation"] != run(folder, found[-1]).curves["allocation"]
