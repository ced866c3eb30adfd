"""Recorded decisions of kube-scheduler, where they are at hand: every one is answered alike."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import dra

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors"

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"recorded cases are not at hand: {VECTORS} is absent")

CASES = {"scheduling": 1038, "preemption": 600, "devices-preemption": 300}


def verify(name: str, *options: str) -> Result:
    return CliRunner().invoke(dra, ["verify", "scheduling", *options, str(VECTORS / f"{name}.jsonl")], prog_name="dra")


@pytest.mark.parametrize("name", CASES)
def test_every_recorded_case_is_answered_as_kube_scheduler_answered(name: str) -> None:
    result = verify(name, "--kubernetes", "1.36")
    assert result.stdout == f"{CASES[name]} passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(("release", "cases"), [("1.37", 146), ("1.38", 155)])
def test_what_a_later_release_answers_otherwise_is_answered_so_there(release: str, cases: int) -> None:
    result = verify(f"scheduling-{release}", "--kubernetes", release)
    assert result.stdout == f"{cases} passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


@pytest.mark.parametrize("release", ["1.36", "1.37", "1.38"])
def test_what_kube_scheduler_crashes_on_is_answered(release: str) -> None:
    result = verify("crash-1.37", "--kubernetes", release)
    assert result.stdout == "1 passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(("name", "cases"), [("gangs", 300), ("gangs-devices", 200)])
def test_groups_have_as_many_pods_placed_as_kube_scheduler_places_and_no_more_evicted(name: str, cases: int) -> None:
    result = verify(name, "--no-strict", "--kubernetes", "1.37")
    assert result.stdout == f"{cases} passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


def test_the_greedy_cycle_of_groups_ends_as_in_kube_scheduler() -> None:
    result = verify("gangs", "--kubernetes", "1.37")
    assert result.stdout == "300 passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


@pytest.mark.parametrize("name", CASES)
def test_where_we_do_better_each_case_is_named_by_its_line_in_the_list_of_differences(name: str) -> None:
    result = verify(name, "--no-strict", "--kubernetes", "1.36")
    *differing, by_plugin, last = result.stdout.splitlines()
    assert all(line.startswith("DIFFERS ") for line in differing)
    assert by_plugin.startswith("cases that differ by plugin: ")
    assert last.startswith(f"{CASES[name]} passed, 0 failed, 0 skipped")
    assert result.exit_code == 0
