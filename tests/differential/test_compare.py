"""`dra compare` with the real allocator: the bundled fleet has the same answers, as docs/compare.md says."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.reference import ROOT
from tests.differential.peer import built_or_skipped
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.cli.test_examples import examples

FLEET = Path(ROOT) / "manifests" / "examples" / "fleet"


def test_the_bundled_fleet_is_allocated_as_by_the_reference() -> None:
    run = dra("compare", FLEET, "--kubernetes", "1.37", "--peer", built_or_skipped("1.37"))
    assert (run.code, run.out.splitlines()[0]) == (0, "0 of 9 differ"), run.err


def without_times(lines: Sequence[str]) -> Sequence[Sequence[str]]:
    return [re.sub(r"[\d.]+ ms", "N ms", line).split() for line in lines]


def test_the_page_shows_what_is_printed_but_for_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    [(command, shown)] = examples("compare")
    run = dra(*shlex.split(command)[1:], "--peer", built_or_skipped("1.37"))
    assert without_times(run.out.splitlines()) == without_times(shown)
