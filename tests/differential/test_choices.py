"""What the benchmark of decisions compares is equal: kube-scheduler's plugins find each node that we choose the best.

Pod after pod, each on top of what those before it have taken; who chooses worse is found out.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from benchmarks.cycle.cases import CASES, cluster
from benchmarks.cycle.ours import cycle, loaded
from benchmarks.endtoend.workload import EVERY_FILTER, Asks, node_name
from tests.differential.peer import built_plugins_or_skipped

NODES, WAITING = 120, 40


@pytest.fixture(scope="module")
def plugins() -> Path:
    return built_plugins_or_skipped()


def judged(plugins: Path, asks: Asks, chosen: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    case = orjson.dumps(cluster(asks, NODES, len(chosen))) + b"\n" + orjson.dumps(chosen)
    return subprocess.run([plugins, "judge"], input=case, capture_output=True, check=False)


@pytest.mark.parametrize("asks", CASES.values(), ids=CASES)
def test_each_node_that_we_choose_is_one_of_the_best(plugins: Path, asks: Asks) -> None:
    found, waiting = loaded(cluster(asks, NODES, WAITING))
    said = judged(plugins, asks, [cycle(found, pod) for pod in waiting])
    assert (said.returncode, said.stderr) == (0, b"")
    assert orjson.loads(said.stdout) == {"best": WAITING}


def test_a_node_that_is_refused_is_an_error(plugins: Path) -> None:
    """Two pods of an app on one node, which its anti-affinity forbids."""
    said = judged(plugins, EVERY_FILTER, [node_name(0)] * 2)
    assert said.returncode == 1
    assert b"pod pod-00121: node node-00000 is refused" in said.stderr


def test_a_node_that_is_worse_is_an_error(plugins: Path) -> None:
    said = judged(plugins, Asks("nothing"), [node_name(0)] * WAITING)
    assert said.returncode == 1
    assert b"which is less than" in said.stderr
