"""No event that makes a refused pod fit goes by without a hint that says so, whatever came before it."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core_v1.pod import Pod
from scheduler.decision.filters import rejections
from scheduler.plugins.plugin import NO_NODES, Refusal
from scheduler.plugins.profile import REASONS
from scheduler.queue import concerned, helps
from scheduler.state.cluster_changes import Event, NodeChanged, PodChanged
from scheduler.state.pods import pod_requests
from tests.builders import a_cycle
from tests.properties.decision import naive, strategies
from tests.properties.decision.clusters import GeneratedCluster, Step, steps


def fits(cluster: GeneratedCluster, pod: Pod) -> bool:
    return any(not naive.reasons(pod, one, cluster.nodes.values()) for one in cluster.nodes.values())


def refusal_of(cluster: GeneratedCluster, pod: Pod) -> Refusal:
    requests = pod_requests(pod)
    found = rejections(a_cycle(pod, cluster.infos, cluster.templates), cluster.templates)
    reasons = frozenset(plugin.reason for plugin, _ in found) or frozenset({NO_NODES})
    return Refusal(reasons, requests)


def events_of(cluster: GeneratedCluster, step: Step) -> list[Event]:
    """What the step changes, told as watches would tell it; the step is done."""
    nodes = {number: one.node for number, one in cluster.nodes.items()}
    pods = on_nodes(cluster)
    name, *arguments = step
    if name != "ask":
        getattr(cluster, name)(*arguments)
    now = {number: one.node for number, one in cluster.nodes.items()}
    after = on_nodes(cluster)
    gone: list[Event] = [PodChanged(pod, None) for uid, pod in pods.items() if uid not in after]
    come: list[Event] = [PodChanged(None, pod) for uid, pod in after.items() if uid not in pods]
    moved = [number for number in nodes.keys() | now.keys() if nodes.get(number) != now.get(number)]
    return [*gone, *come, *(NodeChanged(nodes.get(number), now.get(number)) for number in moved)]


def on_nodes(cluster: GeneratedCluster) -> dict[str, Pod]:
    return {pod.uid: replace(pod, node_name=one.node.name) for one in cluster.nodes.values() for pod in one.pods}


@given(steps, strategies.pods_named("new"), st.integers(0, 15))
@settings(max_examples=80)
def test_a_refused_pod_that_comes_to_fit_has_been_reported(steps: list[Step], pod: Pod, attempted_after: int) -> None:
    cluster = GeneratedCluster()
    for step in steps[:attempted_after]:
        events_of(cluster, step)
    if fits(cluster, pod):
        return
    refusal = refusal_of(cluster, pod)
    for step in steps[attempted_after:]:
        events = events_of(cluster, step)
        if any(helps(pod, refusal, event) for event in events):
            return
        assert not fits(cluster, pod)


@given(steps, strategies.pods_named("new"))
@settings(max_examples=40)
def test_events_are_looked_at_for_every_reason_that_they_help(steps: list[Step], pod: Pod) -> None:
    cluster = GeneratedCluster()
    for step in steps:
        for event in events_of(cluster, step):
            for reason in REASONS:
                if helps(pod, Refusal(frozenset({reason}), pod_requests(pod)), event):
                    assert reason in concerned(event, REASONS)
