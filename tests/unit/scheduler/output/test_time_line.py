"""The last hour of a program: what is sampled, how much a sample looks at, and how much is kept."""

from itertools import count

import pytest

from allocator import status as statuses
from allocator.cluster.snapshot import Snapshot
from allocator.model import PoolID
from scheduler.output import time_line as module
from scheduler.output.time_line import MOST_SAMPLES, NOT_COUNTED, WORK_S
from tests.builders import a_class, a_pod, watched
from tests.unit.scheduler.extender.clusters import add_node
from tests.unit.scheduler.output.shown import Program, a_holder


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pools that were counted."""
    found: list[str] = []

    def status(snapshot: Snapshot, pool_id: PoolID) -> statuses.PoolStatus:
        found.append(pool_id.pool)
        return statuses.pool_status(snapshot, pool_id)

    monkeypatch.setattr(module, "pool_status", status)
    return found


def test_a_sample_has_queue_decisions_a_second_and_the_allocated_share_of_each_class() -> None:
    program = Program(2, 2)
    program.cluster.set_claim(watched(a_holder("a", "gpu-1", pool="node-1")), 1)
    program.waiting = [{"pod": "ml/a"}, {"pod": "ml/b"}]
    moments = iter([0.0, 10.0, *[10.0] * 9])
    line = program.time_line(lambda: next(moments))
    for name in "abcde":
        program.decisions.placed(0.0, a_pod(name=name), "node-0", [])
    line.sample()
    ((number, sample),) = line.kept()
    assert (number, sample.waiting, sample.decisions, sample.shares) == (1, 2, 0.5, {"gpu": 0.25})
    assert sample.cells() == ["1970-01-01T00:00:10Z", "2", "0.5", "gpu 25.0%"]


def test_the_share_follows_claims_pools_and_classes(counted: list[str]) -> None:
    program = Program(2, 2)
    line = program.time_line()
    line.sample()
    counted.clear()
    line.sample()
    assert counted == []
    program.cluster.set_claim(watched(a_holder("a", "gpu-0", pool="node-1")), 1)
    line.sample()
    assert counted == ["node-1"]
    program.cluster.remove_slice("node-0")
    line.sample()
    add_node(program.cluster, "node-7", "gpu-0", "gpu-1")
    line.sample()
    program.cluster.set_class(a_class("more"))
    line.sample()
    program.cluster.remove_slice("node-1")
    line.sample()
    shares = [sample.shares for _, sample in line.kept()][::-1]
    gpu, both = [None if one is None else one["gpu"] for one in shares], shares[-2:]
    assert gpu == [0, 0, 0.25, 0.5, 0.25, 0.25, 0]
    assert both == [{"gpu": 0.25, "more": 0.25}, {"gpu": 0, "more": 0}]


def test_a_sample_costs_no_more_on_a_larger_cluster(counted: list[str]) -> None:
    """With a clock on which a pool takes two thirds of what a sample may take."""
    for nodes in (3, 30):
        counted.clear()
        ticks = count()
        line = Program(*[1] * nodes).time_line(lambda ticks=ticks: next(ticks) * WORK_S * 2 / 3)  # type: ignore[misc]
        looked = []
        while next(iter([sample.shares for _, sample in line.kept()]), None) is None:
            before = len(counted)
            line.sample()
            looked.append(len(counted) - before)
        assert max(looked) == 2
        assert len(counted) == nodes
        assert line.kept().__next__()[1].shares == {"gpu": 0}


def test_until_all_is_counted_the_share_is_not_known() -> None:
    ticks = count()
    line = Program(1, 1, 1).time_line(lambda: next(ticks) * WORK_S)
    line.sample()
    ((_, sample),) = line.kept()
    assert (sample.shares, sample.cells()[3]) == (None, NOT_COUNTED)


def test_only_the_last_hour_is_kept() -> None:
    line = Program(1).time_line()
    for _ in range(MOST_SAMPLES + 5):
        line.sample()
    kept = [number for number, _ in line.kept()]
    assert kept == list(range(MOST_SAMPLES + 5, 5, -1))
