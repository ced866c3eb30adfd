"""Recorded decisions of kube-scheduler, where they are at hand: every one is answered alike."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import dra

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "scheduling.jsonl"

pytestmark = pytest.mark.skipif(not VECTORS.is_file(), reason=f"recorded cases are not at hand: {VECTORS} is absent")

CASES = 1038


def verify(*options: str) -> Result:
    return CliRunner().invoke(dra, ["verify", "scheduling", *options, str(VECTORS)], prog_name="dra")


def test_every_recorded_case_is_answered_as_kube_scheduler_answered() -> None:
    result = verify()
    assert result.stdout == f"{CASES} passed, 0 failed, 0 skipped; postFilter of 266 cases not compared\n"
    assert result.exit_code == 0


def test_where_we_do_better_each_case_is_named_by_its_line_in_the_list_of_differences() -> None:
    result = verify("--no-strict")
    *differing, by_plugin, last = result.stdout.splitlines()
    assert all(line.startswith("DIFFERS ") for line in differing)
    assert by_plugin.startswith("cases that differ by plugin: ")
    assert last.startswith(f"{CASES} passed, 0 failed, 0 skipped")
    assert result.exit_code == 0
