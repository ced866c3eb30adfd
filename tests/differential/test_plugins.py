"""Filters and scores say of every node what kube-scheduler's own plugins say, reasons and numbers included."""

import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from allocator.model import Node
from allocator.search.rules import bits
from scheduler.core_v1.node import decode_node
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.decision.feasibility import feasible, refused_by_all, rejections
from scheduler.decision.templates import Templates
from scheduler.plugins.cycle import Cycle
from scheduler.state.masks import Numbers, numbers_of
from scheduler.state.nodes import NodeInfos
from tests.builders import a_cycle
from tests.differential.peer import GO_IS_MISSING, ROOT, Json, Peer, PeerError, has_go
from tests.differential.raw_objects import Resize, raw_node, raw_pod
from tests.properties.decision import naive, strategies

MODULE = ROOT / "tests" / "controlplane"
ELSEWHERE = ("DynamicResources", "NodeResourcesBalancedAllocation", "ImageLocality")
"""Plugins that are compared by other tests."""

FLAGS = ("-trimpath", "-mod=readonly")  # those of the control plane, whose packages are compiled already


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    if not has_go():
        pytest.skip(GO_IS_MISSING)
    program = tmp_path_factory.mktemp("plugins") / "plugins"
    command = ["go", "build", *FLAGS, "-o", str(program), "./plugins"]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)} in {MODULE} failed:\n{done.stderr}")
    with Peer(program) as running:
        yield running


class Case(NamedTuple):
    """A pod, and a cluster of nodes and of pods on them."""

    pod: Pod
    nodes: Sequence[Node]
    on_nodes: Sequence[tuple[Pod, int, Sequence[Resize]]]

    def raw(self) -> Json:
        placed = ((pod, self.nodes[place % len(self.nodes)].name, resizes) for pod, place, resizes in self.on_nodes)
        return {
            "namespaces": [{"metadata": {"name": name, "labels": of_it}} for name, of_it in naive.NAMESPACES.items()],
            "pod": raw_pod(self.pod),
            "nodes": [raw_node(node) for node in self.nodes],
            "pods": [raw_pod(*one) for one in placed],
        }


maybe = st.one_of(st.none(), strategies.asked)
resizes = st.lists(st.builds(Resize, maybe, maybe, st.sampled_from([False, False, True])), max_size=3)
placed = st.tuples(st.sampled_from("abcdefgh").flatmap(strategies.pods_named), st.integers(0, 4), resizes)
cases = st.builds(
    Case,
    strategies.pods_named("new"),
    st.lists(strategies.nodes, min_size=1, max_size=5, unique_by=lambda node: node.name),
    st.lists(placed, max_size=8, unique_by=lambda one: one[0].uid),
)


@given(cases)
@settings(
    max_examples=200,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_pod_meets_the_same_refusals_and_scores(plugins: Peer, case: Case) -> None:
    raw = case.raw()
    assert answer(raw) == told_by(plugins.ask(raw), raw["pod"])


def answer(raw: Json) -> Json:
    """Our answer in the form of theirs."""
    infos, templates = NodeInfos(naive.NAMESPACES), Templates()
    names = {number: node["metadata"]["name"] for number, node in enumerate(raw["nodes"])}
    for number, raw_one in enumerate(raw["nodes"]):
        node, errors = decode_node(raw_one)
        assert node, errors
        infos.set_node(number, node)
        templates.set_node(number, node)
    numbers = {name: number for number, name in names.items()}
    for raw_other in raw["pods"]:
        infos.add_pod(numbers[raw_other["spec"]["nodeName"]], pod_of(raw_other))
    pod = pod_of(raw["pod"])
    cycle = a_cycle(pod, infos, templates)
    left = numbers_of(feasible(cycle, templates.plugins))
    scores = scores_of(cycle, templates, left)
    return {
        "refused": refused_by(cycle, templates, names),
        "scores": {
            plugin: {names[n]: int(s) for n, s in zip(left, own, strict=True)} for plugin, own in scores.items()
        },
    }


def pod_of(raw: Json) -> Pod:
    pod, errors = decode_pod(raw)
    assert pod, errors
    return pod


def refused_by(cycle: Cycle, templates: Templates, names: dict[int, str]) -> dict[str, Json]:
    if refused := refused_by_all(cycle, templates.plugins):
        plugin, reason = refused
        return {name: {"plugin": plugin.name, "reasons": [reason], "resolvable": False} for name in names.values()}
    told: dict[str, Json] = {}
    for plugin, one in rejections(cycle, templates):
        for number in bits(one.nodes):
            first = {"plugin": plugin.name, "reasons": [], "resolvable": bool(one.resolvable >> number & 1)}
            told.setdefault(names[number], first)["reasons"].append(one.reason)
    return {name: {**refusal, "reasons": sorted(refusal["reasons"])} for name, refusal in told.items()}


def scores_of(cycle: Cycle, templates: Templates, left: Numbers) -> dict[str, Numbers]:
    not_asked = set(ELSEWHERE)
    if cycle.pod.budget:  # see plugins/node_resources_fit: there it does not count for the pod in hand
        not_asked.add("NodeResourcesFit")
    found = {
        one.name: one.score.scores(cycle, left, cycle.template.counts_of(one.name)[left])
        for one in templates.plugins
        if one.score and one.name not in not_asked
    }
    return {name: own for name, own in found.items() if own is not None}


def told_by(answer: Json, pod: Json) -> Json:
    refused = {name: {**one, "reasons": sorted(one["reasons"])} for name, one in answer["refused"].items()}
    left_out = {"NodeResourcesFit"} if "resources" in pod["spec"] else set()
    return {"refused": refused, "scores": {name: own for name, own in answer["scores"].items() if name not in left_out}}
