"""Recorded decisions of kube-scheduler, where they are at hand: every one is answered alike."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import dra

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors"

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"recorded cases are not at hand: {VECTORS} is absent")

CASES = 1038


def verify(*options: str, file: str = "scheduling.jsonl") -> Result:
    return CliRunner().invoke(dra, ["verify", "scheduling", *options, str(VECTORS / file)], prog_name="dra")


def test_every_recorded_case_is_answered_as_kube_scheduler_answered() -> None:
    result = verify("--kubernetes", "1.36")
    assert result.stdout == f"{CASES} passed, 0 failed, 0 skipped; postFilter of 266 cases not compared\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(("release", "cases"), [("1.37", 146), ("1.38", 155)])
def test_what_a_later_release_answers_otherwise_is_answered_so_there(release: str, cases: int) -> None:
    result = verify("--kubernetes", release, file=f"scheduling-{release}.jsonl")
    assert result.stdout == f"{cases} passed, 0 failed, 0 skipped; postFilter of 0 cases not compared\n"
    assert result.exit_code == 0


@pytest.mark.parametrize("release", ["1.36", "1.37", "1.38"])
def test_what_kube_scheduler_crashes_on_is_answered(release: str) -> None:
    result = verify("--kubernetes", release, file="crash-1.37.jsonl")
    assert result.stdout == "1 passed, 0 failed, 0 skipped; postFilter of 0 cases not compared\n"
    assert result.exit_code == 0


def test_where_we_do_better_each_case_is_named_by_its_line_in_the_list_of_differences() -> None:
    result = verify("--no-strict", "--kubernetes", "1.36")
    *differing, by_plugin, last = result.stdout.splitlines()
    assert all(line.startswith("DIFFERS ") for line in differing)
    assert by_plugin.startswith("cases that differ by plugin: ")
    assert last.startswith(f"{CASES} passed, 0 failed, 0 skipped")
    assert result.exit_code == 0
