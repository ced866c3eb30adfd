"""Recorded decisions of kube-scheduler, where they are at hand: every one is answered alike."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import dra

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors"
CASES = {"scheduling": 1038, "preemption": 600, "devices-preemption": 300}
FILES = {name: VECTORS / f"{name}.jsonl" for name in CASES}

missing = [str(path) for path in FILES.values() if not path.is_file()]
pytestmark = pytest.mark.skipif(
    bool(missing), reason=f"recorded cases are not at hand: {', '.join(missing)} are absent"
)


def verify(name: str, *options: str) -> Result:
    return CliRunner().invoke(dra, ["verify", "scheduling", *options, str(FILES[name])], prog_name="dra")


@pytest.mark.parametrize("name", CASES)
def test_every_recorded_case_is_answered_as_kube_scheduler_answered(name: str) -> None:
    result = verify(name)
    assert result.stdout == f"{CASES[name]} passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


@pytest.mark.parametrize("name", CASES)
def test_where_we_do_better_each_case_is_named_by_its_line_in_the_list_of_differences(name: str) -> None:
    result = verify(name, "--no-strict")
    *differing, by_plugin, last = result.stdout.splitlines()
    assert all(line.startswith("DIFFERS ") for line in differing)
    assert by_plugin.startswith("cases that differ by plugin: ")
    assert last.startswith(f"{CASES[name]} passed, 0 failed, 0 skipped")
    assert result.exit_code == 0
