"""The nodes that a selector matches, by an index of their labels: no node is evaluated individually.

A label is indexed when it is first needed, and kept up to date from then on. A selector costs a few operations on masks
for each value that it names. `topology_domains` has the same labels as arrays, for sums over the nodes of a domain.
"""

from collections.abc import Iterable, Mapping

from allocator.cluster.node_affinity import all_hold, term_problem
from allocator.model import NodeSelector, Requirement, Term
from allocator.search.rules import Mask
from scheduler.core_v1.label_selector import Labels, LabelSelector, selector_problem
from scheduler.state.masks import union


class NodeLabels:
    """The labels of nodes by number. all: the nodes. version: changes with every change of a node or a label."""

    def __init__(self) -> None:
        self.all: Mask = 0
        self.version = 0
        self._labels: dict[int, Labels] = {}
        self._nodes: dict[str, dict[str, Mask]] = {}

    def set_node(self, number: int, labels: Labels) -> None:
        """The node has this number, and may have changed."""
        if self._labels.get(number) == labels:
            return
        self.remove_node(number)
        self._labels[number] = labels
        for key, by_value in self._nodes.items():
            _add(by_value, labels.get(key), 1 << number)
        self.all |= 1 << number

    def remove_node(self, number: int) -> None:
        """No node has this number any more."""
        labels = self._labels.pop(number, {})
        for key, by_value in self._nodes.items():
            _remove(by_value, labels.get(key), 1 << number)
        self.all &= ~(1 << number)
        self.version += 1

    def valued(self, key: str, values: Iterable[str]) -> Mask:
        """The nodes with one of these values."""
        by_value = self._by_value(key)
        return union(by_value.get(value, 0) for value in values)

    def having(self, key: str) -> Mask:
        """The nodes with the label."""
        return union(self._by_value(key).values())

    def selected(self, selector: NodeSelector) -> Mask:
        """The nodes that one of the terms matches; one that is invalid matches none.

        Terms are of volumes, which Kubernetes holds against the labels of nodes alone: their fields are not looked at.
        """
        return union(self._meeting(term.expressions) for term in selector if _makes_sense(term))

    def matching(self, selector: LabelSelector) -> Mask:
        """The nodes that the label selector matches; none if there is no selector, or it is invalid."""
        return 0 if selector is None or selector_problem(selector) else self._meeting(selector)

    def _meeting(self, requirements: Iterable[Requirement]) -> Mask:
        nodes = self.all
        for one in requirements:
            nodes &= self._holding(one)
        return nodes

    def _holding(self, requirement: Requirement) -> Mask:
        key, values = requirement.key, requirement.values
        match requirement.operator:
            case "In":
                return self.valued(key, values)
            case "NotIn":
                return self.all & ~self.valued(key, values)
            case "Exists":
                return self.having(key)
            case "DoesNotExist":
                return self.all & ~self.having(key)
            case _:
                by_value = self._by_value(key).items()
                return union(nodes for value, nodes in by_value if all_hold((requirement,), {key: value}))

    def _by_value(self, key: str) -> Mapping[str, Mask]:
        if key not in self._nodes:
            by_value = self._nodes[key] = {}
            for number, labels in self._labels.items():
                _add(by_value, labels.get(key), 1 << number)
        return self._nodes[key]


def _makes_sense(term: Term) -> bool:
    return bool(term.expressions or term.fields) and not term_problem(term)


def _add(by_value: dict[str, Mask], value: str | None, node: Mask) -> None:
    if value is not None:
        by_value[value] = by_value.get(value, 0) | node


def _remove(by_value: dict[str, Mask], value: str | None, node: Mask) -> None:
    if value is not None:
        by_value[value] &= ~node
        if not by_value[value]:
            del by_value[value]
