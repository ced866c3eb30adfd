"""Recorded allocations with the reference's answers, where they are at hand: every one is answered alike."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import dra

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors"
FILES = ("allocation.jsonl", "allocation-edge.jsonl")
OF_1_38 = "allocation-1.38.jsonl"

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"recorded cases are not at hand: {VECTORS} is absent")


def verify(path: Path, *options: str) -> Result:
    return CliRunner().invoke(dra, ["verify", "allocation", *options, str(path)], prog_name="dra")


@pytest.mark.parametrize(("name", "release"), [*((name, "1.37") for name in FILES), (OF_1_38, "1.38")])
def test_every_recorded_case_is_answered_as_the_reference_answered(name: str, release: str) -> None:
    cases = sum(1 for line in (VECTORS / name).read_text().splitlines() if line.strip())
    result = verify(VECTORS / name, "--kubernetes", release, "--strict")
    assert cases > 0
    assert result.stdout == f"{cases} passed, 0 failed, 0 skipped\n"
    assert result.exit_code == 0


def with_another_device(case: Any) -> bool:
    """Change the first device that was recorded; False where none was."""
    for allocation in case["expected"]["results"] or ():
        for result in (allocation or {}).get("devices", {}).get("results") or ():
            result["device"] = "another"
            return True
    return False


def test_an_answer_that_was_changed_is_reported_for_each_case(tmp_path: Path) -> None:
    cases = [orjson.loads(line) for line in (VECTORS / FILES[0]).read_text().splitlines()]
    changed = [case["name"] for case in cases if with_another_device(case)]
    path = tmp_path / "changed.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, cases)))
    result = verify(path)
    failed = [line.split(": ")[0] for line in result.stdout.splitlines()[:-1]]
    assert len(changed) > len(cases) // 3
    assert failed == [f"FAILED {name}" for name in changed]
    assert result.exit_code == 1
