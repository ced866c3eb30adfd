"""Recorded decisions of kube-scheduler, where they are at hand: every one is answered alike."""

from pathlib import Path

import pytest

from allocator.gates import Features
from scheduler.cli.verify_scheduling import replay

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "scheduling.jsonl"

pytestmark = pytest.mark.skipif(not VECTORS.is_file(), reason=f"recorded cases are not at hand: {VECTORS} is absent")

MISSING = {
    "InterPodAffinity",
    "NodePorts",
    "NodeResourcesFit",
}
"""Plugins whose answers are not recorded ones yet."""


def test_every_recorded_case_is_answered_as_kube_scheduler_answered() -> None:
    with VECTORS.open("rb") as file:
        verdicts = list(replay(file, Features.of("1.36", is_strict=True)))
    failed = [one for one in verdicts if not {difference.plugin for difference in one.differences} <= MISSING]
    assert len(verdicts) > 1000
    assert [str(one) for one in failed] == []
