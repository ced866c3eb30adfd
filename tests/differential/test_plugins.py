"""Filters and scores say what kube-scheduler's own plugins say of generated pods and clusters, by default.

`PLUGINS_N` and `PLUGINS_SEED` choose how many cases and which. What differs is shown as small as it gets.
The comparison itself is that of `dra verify scheduling --strict`.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import orjson
import pytest

from allocator.gates import Features
from scheduler.cli.verify_scheduling import replay
from tests.differential.peer import Json, Peer, built_plugins_or_skipped
from tests.differential.shrunk import shrunk
from tests.generators.worlds import ESSENTIAL, cases

CASES = int(os.environ.get("PLUGINS_N", "300"))
SEED = int(os.environ.get("PLUGINS_SEED", "1"))

STRICT = Features.of("1.36", is_strict=True)

REFUSING = {
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}
SCORING = {
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
}


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with Peer(built_plugins_or_skipped(tmp_path_factory.mktemp("plugins"))) as running:
        yield running


def difference(case: Json, answer: Json) -> str:
    """What differs between our answer and theirs, empty where nothing does."""
    (replayed,) = replay(iter([orjson.dumps({"id": "generated", **case, "expected": answer})]), STRICT)
    return "; ".join(one.text for one in replayed.differences)


def manner(found: str) -> str:
    """The first difference without names and numbers."""
    return re.sub(r"\S*\d\S*", "", found.partition(";")[0])


def seen_in(answer: Json) -> Iterator[tuple[str, str]]:
    """Which plugins had a say in the answer: refused a node, or scored some."""
    for status in (answer["preFilter"], *answer.get("nodes", {}).values()):
        yield status.get("plugin", ""), status["code"]
    for scores in answer.get("scores", {}).values():
        yield from ((plugin, "scores") for plugin, score in scores["plugins"].items() if score)


def test_generated_pods_meet_the_same_refusals_and_scores(plugins: Peer) -> None:
    many = cases(Random(SEED), CASES)  # noqa: S311
    seen: Counter[tuple[str, str]] = Counter()
    differing: list[Json] = []
    for case, answer in zip(many, plugins.ask_all(many), strict=True):
        assert "fault" not in answer, (answer, case)
        seen.update(seen_in(answer))
        if difference(case, answer):
            differing.append(case)
    shown = shrunk(plugins, differing, difference, manner, ESSENTIAL)
    assert not differing, f"{len(differing)} of {len(many)} cases differ, among them\n{shown}"
    assert {plugin for plugin, code in seen if code.startswith("Unschedulable")} - {""} == REFUSING, seen
    assert {plugin for plugin, code in seen if code == "scores"} == SCORING, seen
