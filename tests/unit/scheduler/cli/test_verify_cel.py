"""Recorded selectors are replayed from files and from standard input; what is no case is told with its line."""

import json
from pathlib import Path

import pytest

from tests.unit.scheduler.cli.command import dra

PASSES = json.dumps({"id": 1, "expr": "true", "device": {"driver": "d.io"}, "result": True})
FAILS = json.dumps({"id": 2, "expr": "false", "device": {"driver": "d.io"}, "result": True})


def test_cases_come_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{PASSES}\n{FAILS}\n")
    reported = "2: false\n    expected true, got false\n1 passed, 1 failed, 0 skipped\n"
    for run in (dra("verify", "cel", path), dra("verify", "cel", "-", stdin=path.read_text())):
        assert (run.code, run.out) == (1, reported)


def test_what_is_no_case_is_reported_with_its_line(tmp_path: Path) -> None:
    run = dra("verify", "cel", "-", stdin=f"{PASSES}\n{{}}\n")
    assert (run.code, run.err) == (2, "dra: -: line 2 is not a valid case: expr is missing\n")
    assert dra("verify", "cel", tmp_path / "none").err.endswith("/none: No such file or directory\n")


@pytest.mark.parametrize("kind", ["allocation", "cel", "scheduling"])
def test_a_file_without_a_case_is_no_success(kind: str) -> None:
    run = dra("verify", kind, "-", stdin="\n")
    assert (run.code, run.out, run.err) == (2, "", "dra: - contains no case\n")
