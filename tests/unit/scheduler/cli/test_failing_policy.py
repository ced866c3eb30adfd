"""A policy of the user's that fails: what is said of it, and what becomes of everything else."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.cli import run_scenarios
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.cli.test_simulate import result
from tests.unit.scheduler.manifests import Json, a_cluster, a_pod

MODULE = """\
from allocator.policies.whole_nodes import NodePolicy
class Devices:
    name, reads = "own", ()
    def order(self, attempt, requests):
        return self.first
    def first(self, slot, domain, picks):
        yield 0
    def score(self, attempt, requests, picks):
        return (1,)
class Nodes(NodePolicy):
    name = "own"
    def score_node(self, needs, room):
        return 1.0
"""

FAILURES = [
    ("Devices", "order(self, attempt, requests)", "return 1 / 0", ":16: order: ZeroDivisionError: division by zero"),
    (
        "Devices",
        "order(self, attempt, requests)",
        "return 1",
        ":15: order: returned 1, which is not a function or None",
    ),
    (
        "Devices",
        "first(self, slot, domain, picks)",
        "return 1",
        ":4: order: returned 1, which is not a list of devices",
    ),
    ("Devices", "first(self, slot, domain, picks)", "return [{}[0]]", ":16: order: KeyError: 0"),
    ("Devices", "first(self, slot, domain, picks)", "yield {}[0]", ":16: order: KeyError: 0"),
    ("Devices", "first(self, slot, domain, picks)", "yield 'a'", ":4: order: returned 'a', which is not the position"),
    ("Devices", "first(self, slot, domain, picks)", "yield -1", ":4: order: returned -1, which is not the position"),
    ("Devices", "score(self, attempt, requests, picks)", "return 5", ":15: score: returned 5, which is not a tuple"),
    (
        "Devices",
        "score(self, attempt, requests, picks)",
        "return (None,)",
        ":15: score: returned None, which is not a n",
    ),
    ("Nodes", "score_node(self, needs, room)", "raise ValueError", ":16: score_node: ValueError"),
    ("Nodes", "score_node(self, needs, room)", "raise SystemExit(0)", ":16: score_node: SystemExit: 0"),
    ("Nodes", "score_node(self, needs, room)", "pass", ":15: score_node: returned None, which is not a number"),
    ("Nodes", "score_node(self, needs, room)", "return '1'", ":15: score_node: returned '1', which is not a number"),
    ("Nodes", "score_node(self, needs, room)", "return float('nan')", ":15: score_node: returned nan, which is not"),
    ("Nodes", "picks(self, needs, room)", "return [7]", ":15: picks: returned 7, which is not a UnitPick of 2 units"),
    ("Nodes", "picks(self, needs, room)", "return None", ":15: picks: returned None, which is not a UnitPick"),
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    yield folder / "failing_policies.py"
    sys.modules.pop("failing_policies", None)


def pods() -> list[Json]:
    return [*a_cluster("n1"), *(a_pod(name, template="one") for name in "ab")]


def written(module: Path, base: str, method: str, does: str) -> None:
    own = [] if base == "Nodes" and "score_node" in method else ["    def score_node(self, needs, room): return 1.0"]
    text = f"class Own({base}):\n    def {method}:\n        {does}\n"
    module.write_text(MODULE + text + ("\n".join(own) if base == "Nodes" else ""))


@pytest.mark.parametrize("failure", FAILURES)
def test_the_error_names_policy_pod_line_and_exception(
    failure: tuple[str, str, str, str], tmp_path: Path, module: Path
) -> None:
    *policy, problem = failure
    written(module, *policy)
    run = dra("simulate", saved(tmp_path, *pods()), "--policy", "failing_policies:Own")
    assert (run.code, run.out) == (2, "")
    begin = "dra: policy failing_policies:Own, seed 42: pod default/a: policy own failed: "
    assert run.err.startswith(f"{begin}{module}{problem}")
    assert len(run.err.splitlines()) == 1


def test_a_pod_that_the_policy_fails_for_is_not_placed(tmp_path: Path, module: Path) -> None:
    written(module, "Nodes", "score_node(self, needs, room)", "return {}['x']")
    run = dra("allocate", saved(tmp_path, *pods()), "--policy", "failing_policies:Own")
    assert run.code == 1
    assert run.out.count(f"policy own failed: {module}:16: score_node: KeyError: 'x'") == 2


@pytest.mark.parametrize("few", [0, run_scenarios.FEW])
def test_other_scenarios_are_kept_and_a_corrected_policy_goes_on_with_them(
    few: int, tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_scenarios, "FEW", few)
    written(module, "Nodes", "score_node(self, needs, room)", "return {}['x']")
    policies = [text for name in ("failing_policies:Own", "pack", "spread") for text in ("--policy", name)]
    options: list[str | Path] = [
        saved(tmp_path, *pods()),
        *policies,
        "--results",
        tmp_path / "runs",
        "--jobs",
        "2",
        "-o",
        "json",
    ]
    run = dra("simulate", *options)
    assert (run.code, run.out) == (2, "")
    kept, problem = run.err.splitlines()
    assert kept == f"2 finished scenarios are in {tmp_path / 'runs'}; --resume goes on"
    assert problem.endswith(f"{module}:16: score_node: KeyError: 'x'")
    written(module, "Nodes", "score_node(self, needs, room)", "return 2.0")
    sys.modules.pop("failing_policies")
    found = result(dra("simulate", *options, "--resume"))
    assert [(one.policy, one.summary.placed) for one in found.scenarios] == [
        ("failing_policies:Own", 2),
        ("pack", 2),
        ("spread", 2),
    ]


def test_of_many_scenarios_with_problems_the_first_are_shown(tmp_path: Path, module: Path) -> None:
    written(module, "Nodes", "score_node(self, needs, room)", "return {}['x']")
    run = dra("simulate", saved(tmp_path, *pods()), "--policy", "failing_policies:Own", "--seeds", "1-13")
    lines = run.err.splitlines()
    assert [line.split(", ")[1].partition(":")[0] for line in lines[:-1]] == [f"seed {n}" for n in range(1, 11)]
    assert lines[-1] == "dra: and 3 more scenarios"
