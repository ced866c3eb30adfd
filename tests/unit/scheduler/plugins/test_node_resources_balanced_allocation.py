import numpy as np
import pytest

from scheduler.core_v1.pod import Pod
from scheduler.decision.filters import PodSignatures
from scheduler.plugins.node_resources_balanced_allocation import (
    NODE_RESOURCES_BALANCED_ALLOCATION,
    node_resources_balanced_allocation,
)
from scheduler.plugins.plugin import Plugin
from scheduler.state.node_infos import NodeInfos
from tests.builders import a_container, a_cycle, a_node, a_pod, amounts


def score(pod: Pod, *on_node: Pod, plugin: Plugin = NODE_RESOURCES_BALANCED_ALLOCATION, **offer: str) -> int | None:
    infos = NodeInfos({})
    infos.set_node(0, a_node(allocatable=amounts(**(offer or {"cpu": "4", "memory": "4Gi"}))))
    for other in on_node:
        infos.add_pod(0, other)
    assert plugin.score is not None
    found = plugin.score.scores(a_cycle(pod, infos, PodSignatures()), np.arange(1), np.zeros(1, np.int64))
    return None if found is None else int(found[0])


def taking(name: str = "other", **requests: str) -> Pod:
    return a_pod(a_container(**requests), name=name)


PROCESSOR = taking("pod", cpu="2", memory="1Mi")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((taking(cpu="1m", memory="2Gi"),), 87),
        ((taking(cpu="1", memory="1535Mi"),), 69),
        ((), 62),
    ],
)
def test_a_node_whose_balance_the_pod_mends_is_better_than_one_that_it_upsets(
    others: tuple[Pod, ...], expected: int
) -> None:
    assert score(PROCESSOR, *others) == expected


def test_a_pod_that_leaves_the_balance_as_it_is_gets_75() -> None:
    assert score(taking("pod", cpu="1", memory="1Gi")) == 75


def test_more_than_there_is_counts_as_all_of_it() -> None:
    full = taking(cpu="4", memory="4Gi")
    assert score(taking("pod", cpu="4", memory="1Mi"), full) == 75


def test_a_resource_that_the_node_does_not_have_is_left_out() -> None:
    assert score(PROCESSOR, cpu="4") == 75


def test_pods_that_request_neither_cpu_nor_memory_are_not_scored() -> None:
    assert score(a_pod(a_container())) is None
    assert score(a_pod(a_container(**{"ephemeral-storage": "1Gi"}))) is None


def test_overhead_and_requests_of_the_pod_as_a_whole_count() -> None:
    assert score(a_pod(overhead=amounts(cpu="2", memory="1Mi"))) == score(PROCESSOR)
    assert score(a_pod(a_container(cpu="1"), budget=amounts(cpu="2", memory="1Mi"))) == score(PROCESSOR)


GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("resources", "pod", "expected"),
    [
        (("cpu", "memory", GPU), {"cpu": "2", "memory": "2Gi", GPU: "2"}, 75),
        # Shares of 0.5, 0.5 and 1: a deviation of 0.2357, so 76 of 100 with the pod, and 100 without it.
        (("cpu", "memory", GPU), {"cpu": "2", "memory": "2Gi", GPU: "4"}, 50 + (50 + 76 - 100) // 2),
        # Shares of 0.5 and 1, and memory of no account: half of the difference is 0.25.
        (("cpu", GPU), {"cpu": "2", "memory": "1Gi", GPU: "4"}, 50 + (50 + 75 - 100) // 2),
        (("cpu", "memory", GPU), {"cpu": "2", "memory": "2Gi"}, 75),
        ((GPU,), {"cpu": "2"}, None),
        (("pods", GPU), {GPU: "1"}, 75),
    ],
)
def test_other_resources_can_be_balanced(resources: tuple[str, ...], pod: dict[str, str], expected: int | None) -> None:
    plugin = node_resources_balanced_allocation(resources)
    assert score(taking("pod", **pod), plugin=plugin, cpu="4", memory="4Gi", **{GPU: "4"}) == expected
