"""Filters and scores say what kube-scheduler's own plugins say of generated pods and clusters, by default.

`PLUGINS_N` and `PLUGINS_SEED` choose how many cases and which, `PLUGINS_RELEASE` another release of Kubernetes than the
usual one, such as 1.37. What differs is shown as small as it gets.
The comparison itself is that of `dra verify scheduling --strict`.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import orjson
import pytest

from allocator.gates import STORAGE_CAPACITY_SCORING, VOLUME_LIMIT_SCALING, Features
from scheduler.cli.verify_scheduling import replay
from scheduler.plugins.node_volume_limits import UNINSTALLED
from scheduler.plugins.volume_restrictions import IN_USE
from tests import extent
from tests.differential.peer import Json, Peer, built_plugins_or_skipped
from tests.differential.shrunk import shrunk
from tests.generators.worlds import ESSENTIAL, cases

CASES = extent.chosen("PLUGINS_N", 300, 20000)
SEED = extent.chosen("PLUGINS_SEED", 1, extent.day())

OTHER = os.environ.get("PLUGINS_RELEASE", "")
STRICT = Features.of(OTHER or "1.36", is_strict=True)

LEAST = CASES // 200 if CASES >= 2000 else 0
"""How often each refusal is met: a hundred times in 20,000 cases. A few cases need not have all."""

U, FOR_GOOD = "Unschedulable", "UnschedulableAndUnresolvable"
REFUSALS = {
    ("", FOR_GOOD, "PreFilterResult"),
    ("DynamicResources", FOR_GOOD, "cannot allocate all claims"),
    ("DynamicResources", FOR_GOOD, "could not find ResourceClaim"),
    ("DynamicResources", FOR_GOOD, "resourceclaim not available on the node"),
    ("InterPodAffinity", FOR_GOOD, "node(s) didn't match pod affinity rules"),
    ("InterPodAffinity", FOR_GOOD, "parsing pod"),
    ("InterPodAffinity", U, "node(s) didn't match pod anti-affinity rules"),
    ("InterPodAffinity", U, "node(s) didn't satisfy existing pods anti-affinity rules"),
    ("NodeAffinity", FOR_GOOD, "node(s) didn't match Pod's node affinity/selector"),
    ("NodeDeclaredFeatures", FOR_GOOD, "node(s) didn't match Pod's required features"),
    ("NodePorts", U, "node(s) didn't have free ports for the requested pod ports"),
    *(
        ("NodeResourcesFit", code, reason)
        for code in (U, FOR_GOOD)
        for reason in ("Insufficient cpu", "Insufficient example.com/card", "Insufficient memory", "Too many pods")
    ),
    ("NodeUnschedulable", FOR_GOOD, "node(s) were unschedulable"),
    ("NodeVolumeLimits", U, "node(s) exceed max volume count"),
    *([("NodeVolumeLimits", U, f"d.example {UNINSTALLED}")] if STRICT.has(VOLUME_LIMIT_SCALING) else []),
    ("PodTopologySpread", FOR_GOOD, "node(s) didn't match pod topology spread constraints (missing required label)"),
    ("PodTopologySpread", U, "node(s) didn't match pod topology spread constraints"),
    ("TaintToleration", FOR_GOOD, "node(s) had untolerated taint(s)"),
    ("VolumeBinding", FOR_GOOD, "PVC was not created for pod (pod is not owner)"),
    ("VolumeBinding", FOR_GOOD, "node(s) did not have enough free storage"),
    ("VolumeBinding", FOR_GOOD, "node(s) didn't find available persistent volumes to bind"),
    ("VolumeBinding", FOR_GOOD, "node(s) didn't match PersistentVolume's node affinity"),
    ("VolumeBinding", FOR_GOOD, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    ("VolumeBinding", FOR_GOOD, "persistentvolumeclaim bound to non-existent persistentvolume"),
    ("VolumeBinding", FOR_GOOD, "persistentvolumeclaim is being deleted"),
    ("VolumeBinding", FOR_GOOD, "pod has unbound immediate PersistentVolumeClaims"),
    ("VolumeBinding", FOR_GOOD, "waiting for ephemeral volume controller to create the persistentvolumeclaim"),
    ("VolumeRestrictions", FOR_GOOD, "persistentvolumeclaim not found"),
    ("VolumeRestrictions", U, "node(s) had no available disk"),
    ("VolumeRestrictions", U, IN_USE),
    ("VolumeZone", FOR_GOOD, "node(s) had no available volume zone"),
    ("VolumeZone", FOR_GOOD, "persistentvolume not found"),
}
"""By plugin, code and reason (`unnamed`)."""

SCORING = {
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
    *(["VolumeBinding"] if STRICT.has(STORAGE_CAPACITY_SCORING) else []),
}


@pytest.fixture(scope="module")
def plugins() -> Iterator[Peer]:
    with Peer(built_plugins_or_skipped(OTHER)) as running:
        yield running


def difference(case: Json, answer: Json) -> str:
    """What differs between our answer and theirs, empty where nothing does."""
    (replayed,) = replay(iter([orjson.dumps({"id": "generated", **case, "expected": answer})]), STRICT)
    return "; ".join(one.text for one in replayed.differences)


def manner(found: str) -> str:
    """The first difference without names and numbers."""
    return re.sub(r"\S*\d\S*", "", found.partition(";")[0])


def refusals_in(answer: Json) -> Iterator[tuple[str, str, str]]:
    """Which plugins refused the pod, or a node: code and reason."""
    for status in (answer["preFilter"], *answer.get("nodes", {}).values()):
        for reason in status.get("reasons", ()):
            yield status.get("plugin", ""), status["code"], unnamed(reason)


def unnamed(reason: str) -> str:
    """The reason without the names of objects, and without what is wrong with a selector."""
    head, broken, _ = reason.partition("parsing pod")
    return broken or re.sub(r' "[^"]*"|(?<=PVC) \S+|(?<=for pod) \S+', "", head)


def scoring_in(answer: Json) -> set[str]:
    """Which plugins scored some node."""
    by_node = (scores["plugins"] for scores in answer.get("scores", {}).values())
    return {plugin for plugins in by_node for plugin, score in plugins.items() if score}


def test_generated_pods_meet_the_same_refusals_and_scores(plugins: Peer) -> None:
    many = cases(Random(SEED), CASES)  # noqa: S311
    refusals: Counter[tuple[str, str, str]] = Counter()
    scoring: set[str] = set()
    differing: list[Json] = []
    for case, answer in zip(many, plugins.ask_all(many), strict=True):
        assert "fault" not in answer, (answer, case)
        refusals.update(refusals_in(answer))
        scoring |= scoring_in(answer)
        if difference(case, answer):
            differing.append(case)
    shown = shrunk(plugins, differing, difference, manner, ESSENTIAL)
    assert not differing, f"{len(differing)} of {len(many)} cases differ, among them\n{shown}"
    assert refusals.keys() <= REFUSALS
    assert {plugin for plugin, _, _ in refusals} == {plugin for plugin, _, _ in REFUSALS}
    assert {one: refusals[one] for one in REFUSALS if refusals[one] < LEAST} == {}
    assert scoring == SCORING
