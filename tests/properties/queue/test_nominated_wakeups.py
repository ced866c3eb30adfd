"""No event of nodes, pods and nominations makes a refused pod fit without a hint that says so."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from allocator.model import Node
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.queue import helps
from scheduler.state.cluster_changes import Event, NodeChanged, PodChanged
from tests.builders import kubernetes
from tests.properties.decision import naive, strategies
from tests.properties.decision.naive import NaiveNode

Step = tuple[Any, ...]


@dataclass
class World:
    """Nodes and pods by name, of which some are nominated: as decisions see them, and as they are."""

    cluster: Cluster = field(default_factory=lambda: Cluster(kubernetes(), is_ours=lambda _: True))
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, labels in naive.NAMESPACES.items():
            self.cluster.set_namespace(Namespace(name, labels))

    def told(self, step: Step) -> list[Event]:
        """The step is done; what watches tell of it."""
        match step:
            case ("node", node):
                old, self.nodes[node.name] = self.nodes.get(node.name), node
                self.cluster.set_node(node)
                return [NodeChanged(old, node)]
            case ("no node", name):
                gone = self.nodes.pop(name, None)
                if gone:
                    self.cluster.remove_node(name)
                return [NodeChanged(gone, None)] if gone else []
            case ("pod", pod):
                before, self.pods[pod.name] = self.pods.get(pod.name), pod
                self.cluster.set_pod(pod)
                return [PodChanged(before, pod)]
            case (_, name):
                ended = self.pods.pop(name, None)
                if ended:
                    self.cluster.remove_pod(ended.uid)
                return [PodChanged(ended, None)] if ended else []
        return []

    def fits(self, pod: Pod) -> bool:
        """Whether some node takes the pod, and would beside those that are nominated to it."""
        return any(not any(self._reasons(pod, name)) for name in self.nodes)

    def _reasons(self, pod: Pod, name: str) -> Iterator[list[str]]:
        nodes = {one.name: NaiveNode(one, self._on(one.name)) for one in self.nodes.values()}
        yield naive.reasons(pod, nodes[name], nodes.values())
        nominated = [one for one in self.pods.values() if one.nominated_node == name and not one.node_name]
        first = [one for one in nominated if (one.priority or 0) >= (pod.priority or 0)]
        nodes[name].pods += first
        yield naive.reasons(pod, nodes[name], nodes.values())

    def _on(self, name: str) -> list[Pod]:
        return [one for one in self.pods.values() if one.node_name == name]


names = st.sampled_from(strategies.NAMES)
priorities = st.sampled_from([None, 5])


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Another pod: on a node, or nominated to one, for which it does not move once it is there."""
    name, node = draw(st.sampled_from("abcd")), draw(names)
    kinds = strategies.pods_named(name) | strategies.neighbours_named(name)
    pod = replace(draw(kinds), priority=draw(priorities))
    is_there = draw(st.booleans())
    own = replace(pod, uid=f"{pod.uid}-{node}-{is_there}", name=f"{name}-{node}-{is_there}")
    return replace(own, node_name=node) if is_there else replace(own, nominated_node=node)


steps = st.lists(
    st.one_of(
        *(st.tuples(st.just("node"), strategies.nodes) for _ in range(3)),
        *(st.tuples(st.just("pod"), pods()) for _ in range(4)),
        st.tuples(st.just("no node"), names),
        *(st.tuples(st.just("no pod"), pods().map(lambda pod: pod.name)) for _ in range(2)),
    ),
    min_size=6,
    max_size=20,
)
mine = (strategies.pods_named("new") | strategies.neighbours_named("new")).flatmap(
    lambda pod: priorities.map(lambda priority: replace(pod, priority=priority))
)


@given(steps, mine, st.integers(2, 16))
@settings(max_examples=150)
def test_a_refused_pod_that_comes_to_fit_beside_nominated_ones_has_been_told(
    history: list[Step], pod: Pod, attempted_after: int
) -> None:
    world = World()
    for step in history[:attempted_after]:
        world.told(step)
    verdict = decide(world.cluster, pod, [])
    assert isinstance(verdict, NotPlaced) is not world.fits(pod)
    if not isinstance(verdict, NotPlaced):
        return
    for step in history[attempted_after:]:
        if any(helps(pod, verdict.refusal, one) for one in world.told(step)):
            event("woken")
            return
        assert not world.fits(pod)
