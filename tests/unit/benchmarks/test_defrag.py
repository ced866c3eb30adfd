"""The benchmark of moves: its input, what counts as an answer, and its figures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.cli.run import CommandRun
from benchmarks.defrag.cases import CASES, PINNED, TARGET, Case, objects, write
from benchmarks.defrag.run import rows
from tests.unit.scheduler.cli.command import dra

SMALL = {name: replace(case, nodes=2 * PINNED) for name, case in CASES.items()}


@pytest.mark.parametrize("case", SMALL.values(), ids=lambda case: str(case.title))
def test_the_answer_of_the_program_is_right_and_another_is_not(tmp_path: Path, case: Case) -> None:
    write(case, tmp_path / "cluster.json")
    run = dra("defrag", tmp_path / "cluster.json", "--for", f"pod/default/{TARGET}", "-o", "json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert case.is_right(found)
    assert not case.is_right({**found, "moves": found["moves"][1:]})
    assert not case.is_right({**found, "isBest": False})
    assert found["search"]["sets"] <= 2 * PINNED  # those that cannot move are tried first, and one more


def test_pods_have_as_many_devices_as_the_case_says() -> None:
    case = SMALL["one"]
    claims = [one for one in objects(case) if one["kind"] == "ResourceClaim" and "status" in one]
    devices = [(r["pool"], r["device"]) for c in claims for r in c["status"]["allocation"]["devices"]["results"]]
    assert len(devices) == len(set(devices)) == case.nodes * sum(case.devices)


def test_figures_stand_beside_their_limits() -> None:
    case = CASES["three"]
    runs = [CommandRun(case.title, seconds, seconds, 100 * seconds) for seconds in (3.0, 1.0, 2.0)]
    assert [(one.ours, one.target) for one in rows(case, runs)] == [(2.0, 20.0), (2.0, None), (200.0, 1024.0)]
