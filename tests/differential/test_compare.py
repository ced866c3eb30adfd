"""`dra compare` with the real allocator: the bundled fleet has the same answers."""

from pathlib import Path

from tests.differential.peer import ROOT, built_or_skipped
from tests.unit.scheduler.cli.command import dra

FLEET = Path(ROOT) / "manifests" / "examples" / "fleet"


def test_the_bundled_fleet_is_allocated_as_by_the_reference() -> None:
    run = dra("compare", FLEET, "--kubernetes", "1.37", "--peer", built_or_skipped("1.37"))
    assert (run.code, run.out.splitlines()[0]) == (0, "0 of 9 differ"), run.err
