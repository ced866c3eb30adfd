"""The recorded answers of Kubernetes' own CEL: every one is ours too, cost included."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.cli.verify import Kubernetes, cel_command, replay

VECTORS = Path(__file__).parents[3] / "shared" / "vectors" / "cel.jsonl"
VECTORS_1_38 = VECTORS.with_name("cel-1.38.jsonl")
needs_vectors = pytest.mark.skipif(not VECTORS.is_file(), reason="no recorded vectors beside the project")

CASE: dict[str, Any] = {
    "id": 1,
    "expr": "device.driver == 'd.io'",
    "device": {"driver": "d.io"},
    "result": True,
    "cost": 3,
    "max_cost": 3,
}


@needs_vectors
@pytest.mark.parametrize("kubernetes", ["1.37", "1.36"])
def test_every_recorded_answer_is_ours(kubernetes: Kubernetes) -> None:
    with VECTORS.open("rb") as lines:
        replayed = list(replay(lines, kubernetes))
    assert len(replayed) > 1500
    assert [replayed for replayed in replayed if replayed.differences] == []


@needs_vectors
def test_every_answer_that_changed_with_1_38_is_ours() -> None:
    with VECTORS_1_38.open("rb") as lines:
        found = list(replay(lines, "1.38"))
    assert len(found) > 300
    assert [one for one in found if one.differences] == []


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def replayed(tmp_path: Path, *rows: object, options: tuple[str, ...] = ()) -> tuple[int, str]:
    result = CliRunner().invoke(cel_command, [str(written(tmp_path / "cases.jsonl", *rows)), *options])
    return result.exit_code, result.output


def test_equal_answers_pass(tmp_path: Path) -> None:
    assert replayed(tmp_path, CASE, CASE) == (0, "2 passed, 0 failed, 0 skipped\n")


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"result": False}, "expected false, got true"),
        ({"cost": 4}, "expected a cost of 4, got 3"),
        ({"cost": 4, "cost_hi": 7}, "expected a cost of 4 to 7, got 3"),
        ({"max_cost": 8}, "expected an estimated cost of 8, got 3"),
        ({"error": {"phase": "runtime"}, "result": None}, "expected a runtime error, got true"),
        ({"expr": "device.foo"}, "expected true, got a compile error: undefined field 'foo'"),
        ({"expr": "1 / 0 == 1", "max_cost": 2, "cost": 2}, "expected true, got a runtime error: division by zero"),
    ],
)
def test_each_difference_is_reported_and_fails(tmp_path: Path, change: dict[str, Any], difference: str) -> None:
    code, output = replayed(tmp_path, CASE, {**CASE, **change})
    assert code == 1
    assert difference in output
    assert output.endswith("1 passed, 1 failed, 0 skipped\n")


def test_cost_within_the_recorded_range_passes(tmp_path: Path) -> None:
    assert replayed(tmp_path, {**CASE, "cost": 1, "cost_hi": 5})[0] == 0


def test_row_may_have_another_outcome_in_1_36(tmp_path: Path) -> None:
    row = {**CASE, "expr": "dyn(true)", "cost": 0, "max_cost": 1, "v136": {"error": {"phase": "compile"}}}
    assert replayed(tmp_path, row)[0] == 0
    assert replayed(tmp_path, row, options=("--kubernetes", "1.36"))[0] == 0
    assert replayed(tmp_path, {**row, "v136": {"result": True}}, options=("--kubernetes", "1.36"))[0] == 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([], "the line must be an object, not a list of 0 entries"),
        ({}, "expr is missing"),
        ({**CASE, "expr": 1}, "expr must be text, not 1"),
        ({"expr": "true"}, "device is missing"),
        ({**CASE, "device": "d"}, "device: not an object"),
        ({**CASE, "result": None}, "must have result (true or false) or error"),
        ({**CASE, "cost": "3"}, 'cost must be a number, not "3"'),
        ({**CASE, "cost_hi": []}, "cost_hi must be a number, not a list of 0 entries"),
        ({**CASE, "max_cost": True}, "max_cost must be a number, not true"),
        ({**CASE, "error": "no"}, 'error must be an object, not "no"'),
        ({**CASE, "error": {}}, "phase is missing"),
        ({**CASE, "device": {"driver": "d", "capacity": {"m": {"value": "many"}}}}, "quantities must match"),
    ],
)
def test_line_that_is_no_case_is_named(tmp_path: Path, row: object, problem: str) -> None:
    code, output = replayed(tmp_path, CASE, row)
    assert code == 2
    assert f"cases.jsonl: line 2 is not a valid case: {problem}" in output


def test_missing_file_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(cel_command, [str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2
    assert "none.jsonl: No such file or directory" in result.output
