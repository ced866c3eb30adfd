"""No event of storage, nodes and pods, some of them only nominated, makes a refused pod fit without a hint."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import PodVolumes
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.queue import helps
from scheduler.state.cluster_changes import Event
from tests.builders import amounts
from tests.properties.plugins import naive
from tests.properties.plugins.naive import Storage
from tests.properties.plugins.strategies import extras, furniture, pods_that_ask, steps
from tests.properties.plugins.world import Step, World

ROOM = amounts(cpu="8", memory="8Gi", pods="100")


def with_room(step: Step) -> Step:
    """Nodes say what they have; else nothing fits them."""
    kind, *rest = step
    return (kind, replace(rest[0], allocatable=ROOM)) if kind == "nodes" else step


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """What happens; some of the pods are only nominated to their node."""
    found = []
    for step in [*draw(furniture), *draw(steps), *draw(steps)]:
        kind, *rest = with_room(step)
        if kind == "pods" and draw(st.booleans()):
            pod = rest[0]
            found.append((kind, replace(pod, node_name="", nominated_node=pod.node_name)))
        else:
            found.append((kind, *rest))
    return found


def fits(storage: Storage, pod: Pod) -> bool:
    """Whether some node takes the pod, and would beside those that are nominated to it."""
    return naive.is_ready(storage, pod) and any(
        not any(plugin(state, pod, node) for state in states(storage, node.name) for plugin in naive.PLUGINS.values())
        for node in storage.nodes.values()
    )


def states(storage: Storage, node: str) -> Iterator[Storage]:
    yield storage
    there = {
        name: replace(one, node_name=node) if one.nominated_node == node and not one.node_name else one
        for name, one in storage.pods.items()
    }
    yield replace(storage, pods=there)


@given(histories(), extras, st.integers(0, 6), st.integers(12, 40))
@settings(max_examples=150)
def test_a_refused_pod_whose_volumes_come_to_fit_has_been_told(
    history: list[Step], extra: PodVolumes, which: int, attempted_after: int
) -> None:
    pods = pods_that_ask(extra)
    pod, world = pods[which % len(pods)], World()
    for step in history[:attempted_after]:
        world.do(step)
    verdict = decide(world.cluster, pod, [])
    assert isinstance(verdict, NotPlaced) is not fits(world.storage, pod)
    if not isinstance(verdict, NotPlaced):
        return
    for step in history[attempted_after:]:
        if is_told(pod, verdict, world.told(step)):
            event("woken")
            return
        assert not fits(world.storage, pod)


def is_told(pod: Pod, verdict: NotPlaced, events: Iterator[Event]) -> bool:
    return any(helps(pod, verdict.refusal, one) for one in events)
