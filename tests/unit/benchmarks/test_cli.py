"""The benchmark of subcommands: its input, what counts as an answer, and its figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cli.cases import Case, bound, cases, dump, write
from benchmarks.cli.run import TARGET_MIB, CommandRun, WrongOutput, measure_all, rows
from benchmarks.endtoend.workload import Size
from tests.unit.scheduler.cli.command import dra

SMALL = Size(12, 20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "cluster.json"
    write(SMALL, path)
    return path


@pytest.mark.parametrize("case", cases(SMALL).values(), ids=lambda case: str(case.title))
def test_the_answers_of_the_program_are_right_and_others_are_not(cluster: Path, case: Case) -> None:
    run = dra(case.title, *case.arguments, cluster, "-o", "json")
    assert run.code in (0, 1), run.err
    found = json.loads(run.out)
    assert case.is_right(found, SMALL)
    assert not case.is_right(other(found), SMALL)


def other(found: Any) -> Any:  # Any: JSON
    """An answer about something else."""
    wrong = {"items": [{"level": "error"}], "copies": 0, "before": {"placed": 0, "notPlaced": 0}}
    drivers = [{"devices": 0, "allocated": 0}]
    return {**found, **{key: one for key, one in {**wrong, "drivers": drivers}.items() if key in found}}


def test_most_pods_have_their_devices_and_no_two_the_same() -> None:
    claims = [one for one in dump(SMALL) if one["kind"] == "ResourceClaim" and "status" in one]
    devices = [(r["pool"], r["device"]) for c in claims for r in c["status"]["allocation"]["devices"]["results"]]
    assert len(devices) == len(set(devices)) == bound(SMALL) == 18


def a_program(folder: Path, text: str) -> Path:
    program = folder / "dra"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo no >&2; exit 2", "claims: dra ended with 2: no"),
        ("exit 3", "claims: dra ended with 3: it said nothing"),
        ("echo {", "claims: the output cannot be read"),
        ("echo '{}'", "claims: the output cannot be read"),
        ("""echo '{"items": []}'""", "claims: the answer is not that about the input"),
    ],
)
def test_a_run_without_the_answer_does_not_count(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(WrongOutput, match=said):
        measure_all(a_program(tmp_path, text), [cases(SMALL)["claims"]], SMALL, 1)


def test_figures_are_medians_with_what_they_have_to_stay_under() -> None:
    case = cases(SMALL)["status"]
    runs = [CommandRun("status", seconds, seconds, 100 * seconds) for seconds in (3.0, 1.0, 2.0)]
    found = rows(runs, [case])
    assert [(one.case, one.ours, one.target) for one in found] == [
        ("status: time", 2.0, case.limit_s),
        ("status: processor time", 2.0, None),
        ("status: peak memory", 200.0, TARGET_MIB),
    ]
