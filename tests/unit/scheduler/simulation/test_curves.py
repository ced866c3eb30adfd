"""Curves: columns by arrived percent, each a mean of what was rounded."""

from pathlib import Path

import pytest

from allocator.policies import policy_of
from scheduler.simulation.curves import ALLOCATION, FRAGMENTATION, FRAGMENTATION_RATIO, differing
from scheduler.simulation.openb import Openb
from scheduler.simulation.replay import FEATURES, Replay, replay

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,2,A\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,10,1,500,\nb,1000,10,2,1000,\nc,1000,10,1,10,\n"


def a_replay(folder: Path, *rows: int, policy: str = "fgd") -> Replay:
    (folder / "orders").mkdir()
    (folder / "nodes.csv").write_text(NODES)
    (folder / "w.csv").write_text(PODS)
    (folder / "orders" / "w.jsonl").write_text(f'{{"seed": 1, "pods": {list(rows)}, "nodes": [0]}}')
    trace = Openb(folder, "w")
    return replay(trace, trace.inventory(FEATURES), next(iter(trace.orders().values())), policy_of(policy))


def test_a_refused_pod_has_arrived_and_counts_by_its_cause(tmp_path: Path) -> None:
    found = a_replay(tmp_path, 0, 1, 0)
    assert (found.placed, found.refused, found.refusals) == (2, 1, {"devices": 1})
    assert found.curves.columns(ALLOCATION) == {25: 25.0, 125: 25.0, 150: 50.0}


def test_a_column_is_the_mean_of_the_arrivals_that_round_to_it(tmp_path: Path) -> None:
    # 0.5, 1.0, 1.5 and 2.0 % have arrived: 0.5 rounds to 0, 1.5 to 2.
    found = a_replay(tmp_path, 2, 2, 2, 2)
    assert found.curves.columns(ALLOCATION) == {0: 0.5, 1: 1.0, 2: 1.75}


def test_fragments_are_what_the_workload_cannot_use(tmp_path: Path) -> None:
    # 1,500 are left: the whole of it is a fragment for the third of the pods that ask for two whole GPUs.
    found = a_replay(tmp_path, 0)
    assert found.curves.columns(FRAGMENTATION) == {25: 25.0}
    assert found.curves.columns(FRAGMENTATION_RATIO) == {25: pytest.approx(33.33)}


def test_curves_differ_beyond_the_tolerance_and_where_a_column_is_missing() -> None:
    assert differing({0: 1.0, 1: 2.01, 2: 3.02}, {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}) == [2, 3]
