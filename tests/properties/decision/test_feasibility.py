"""Filters, counts and the choice over all nodes at once are what each node says for itself."""

from collections import Counter
from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.bits import Mask, bits
from allocator.model import Node
from allocator.policies.contract import Score
from scheduler.core_v1.pod import Pod
from scheduler.decision.filters import feasible, pick, rejections
from scheduler.plugins.plugin import Rejected
from scheduler.state.pods import pod_requests
from tests.builders import a_cycle
from tests.properties.decision import naive, strategies
from tests.properties.decision.clusters import GeneratedCluster, Step, assigned, steps

ranks = st.lists(st.integers(0, 8), min_size=5, max_size=5)


@given(steps, strategies.pods_named("new"), ranks)
@settings(max_examples=100)
def test_any_history_of_nodes_and_pods_leaves_what_each_node_says(
    steps: list[Step], pod: Pod, ranks: list[int]
) -> None:
    cluster = GeneratedCluster()
    for step, *arguments in steps:
        if step == "ask":
            agree(cluster, pod, ranks)
        else:
            getattr(cluster, step)(*arguments)
    agree(cluster, pod, ranks)


@given(
    strategies.wide_nodes,
    strategies.wide_nodes,
    strategies.crowds,
    st.one_of(strategies.neighbours_named("new"), strategies.spreading_pods),
    ranks,
)
@settings(max_examples=60)
def test_in_any_crowd_each_node_says_the_same_of_the_pods_around_it(
    nodes: tuple[Node, ...],
    changed: tuple[Node, ...],
    crowd: list[tuple[int, Pod]],
    pod: Pod,
    ranks: list[int],
) -> None:
    """It is asked in between, so that what it keeps has to follow pods and nodes."""
    cluster, half = GeneratedCluster(), len(crowd) // 2
    for node in nodes:
        cluster.set_node(node)
    for number, other in crowd[:half]:
        cluster.add_pod(number, other)
    agree(cluster, pod, ranks)
    for number, other in crowd[half:]:
        cluster.add_pod(number, other)
    agree(cluster, pod, ranks)
    for node in changed[::2]:
        cluster.set_node(node)
    agree(cluster, pod, ranks)
    for _, other in crowd[::2]:
        cluster.remove_pod(other)
    agree(cluster, pod, ranks)


def agree(cluster: GeneratedCluster, pod: Pod, ranks: list[int]) -> None:
    cycle, templates = a_cycle(pod, cluster.infos, cluster.templates), cluster.templates
    said = {number: naive.reasons(pod, one, cluster.nodes.values()) for number, one in cluster.nodes.items()}
    able = feasible(cycle, templates.plugins)
    assert set(bits(able)) == {number for number, reasons in said.items() if not reasons}
    refused = [one for _, one in rejections(cycle, templates)]
    assert Counter(dict(reported(refused))) == Counter(reason for reasons in said.values() for reason in reasons)
    groups: dict[tuple[int, Score], Mask] = {}
    for number in cluster.nodes:
        key = (ranks[number], (float(number % 2),))
        groups[key] = groups.get(key, 0) | 1 << number
    assert pick(cycle, templates.plugins, groups, able, cluster.order) == naive_pick(cluster, pod, able, ranks)


def reported(refused: Sequence[Rejected]) -> Iterator[tuple[str, int]]:
    """How many nodes are refused for each reason."""
    for reason in {one.reason for one in refused}:
        yield reason, sum(one.nodes.bit_count() for one in refused if one.reason == reason)


def naive_pick(cluster: GeneratedCluster, pod: Pod, able: int, ranks: list[int]) -> tuple[int, int] | None:
    among = {number: cluster.nodes[number] for number in bits(able)}
    by_name = {name: ranks[number] for number, name in enumerate(strategies.NAMES)}
    everywhere = cluster.nodes.values()
    totals = {n: naive.total(pod, one, list(among.values()), by_name, everywhere) for n, one in among.items()}
    best = min(totals, key=lambda number: (-(number % 2), -totals[number], number), default=None)
    return None if best is None else (best, totals[best])


@given(steps, assigned)
@settings(max_examples=50)
def test_a_pod_that_comes_and_goes_leaves_no_trace(steps: list[Step], passing: Pod) -> None:
    cluster = GeneratedCluster()
    for step, *arguments in steps:
        if step != "ask":
            getattr(cluster, step)(*arguments)
    if passing.uid in cluster.where:
        return
    before = state(cluster)
    for number in cluster.nodes:
        cluster.add_pod(number, passing)
        cluster.remove_pod(passing)
    assert state(cluster) == before


def state(cluster: GeneratedCluster) -> object:
    columns = {name: (list(one.free), list(one.allocatable)) for name, one in cluster.infos.columns.items()}
    used = {name: both for name, both in columns.items() if any(map(any, both))}
    probes = [port for pod in (cluster.nodes[n].pods for n in cluster.nodes) for one in pod for port in one.host_ports]
    return used, list(cluster.infos.scored_cpu), list(cluster.infos.scored_memory), cluster.infos.ports.clashes(probes)


@given(strategies.pods_named("new"))
@settings(max_examples=100)
def test_requests_are_the_sum_of_what_lasts_or_the_largest_moment_of_starting(pod: Pod) -> None:
    found = pod_requests(pod)
    assert found.amounts == naive.requests(pod)
    assert (found.scored_cpu, found.scored_memory) == (naive.scored(pod, "cpu"), naive.scored(pod, "memory"))
