"""A cluster kept twice, as a decision sees it and node by node, and what may happen to it."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.decision.filters import NodeOrder, PodSignatures
from scheduler.state.node_infos import NodeInfos
from tests.properties.decision import naive, strategies
from tests.properties.decision.naive import NaiveNode

Step = tuple[Any, ...]
"""A method of Cluster by name, or `ask`, and its arguments."""


@dataclass
class GeneratedCluster:
    """The same nodes and pods twice: as columns and masks, and one by one."""

    infos: NodeInfos = field(default_factory=lambda: NodeInfos(naive.NAMESPACES))
    templates: PodSignatures = field(default_factory=PodSignatures)
    order: NodeOrder = field(default_factory=lambda: NodeOrder({}))
    nodes: dict[int, NaiveNode] = field(default_factory=dict)
    where: dict[str, int] = field(default_factory=dict)

    def set_node(self, node: Node) -> None:
        number = strategies.NAMES.index(node.name)
        self.infos.set_node(number, node)
        self.templates.set_node(number, node)
        self.order.set_node(number, node.name)
        self.nodes.setdefault(number, NaiveNode(node)).node = node

    def remove_node(self, number: int) -> None:
        if number in self.nodes:
            for pod in list(self.nodes[number].pods):
                self.remove_pod(pod)
            self.infos.remove_node(number)
            self.templates.remove_node(number)
            del self.nodes[number]

    def add_pod(self, number: int, pod: Pod) -> None:
        if number in self.nodes and pod.uid not in self.where:
            self.infos.add_pod(number, pod)
            self.nodes[number].pods.append(pod)
            self.where[pod.uid] = number

    def remove_pod(self, pod: Pod) -> None:
        number = self.where.pop(pod.uid, None)
        if number is not None:
            self.infos.remove_pod(number, pod)
            found = self.nodes[number]
            found.pods = [other for other in found.pods if other.uid != pod.uid]


numbers = st.integers(0, len(strategies.NAMES) - 1)
assigned = st.sampled_from(["a", "b", "c", "d"]).flatmap(strategies.pods_named)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set_node"), strategies.nodes),
        st.tuples(st.just("set_node"), strategies.nodes),
        st.tuples(st.just("add_pod"), numbers, assigned),
        st.tuples(st.just("add_pod"), numbers, assigned),
        st.tuples(st.just("remove_pod"), assigned),
        st.tuples(st.just("remove_node"), numbers),
        st.tuples(st.just("ask")),
    ),
    min_size=3,
    max_size=16,
)
