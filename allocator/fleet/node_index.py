"""The nodes of a fleet by name and by label, so that those that a slice may reach are found without asking all."""

from collections.abc import Iterable
from typing import Final

from allocator.cluster.node_affinity import NAME_FIELD
from allocator.cluster.slice_index import Label
from allocator.model import Node

MOST_KEYS: Final = 64
"""Label keys that are indexed; beyond, the least recently used is indexed again when it is needed."""


class NodeIndex:
    """Nodes by number; a label key is indexed when it is first used."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._by_name: dict[str, int] = {}
        self._by_label: dict[str, dict[str, set[int]]] = {}

    def set(self, number: int, node: Node) -> None:
        """Keep the node of that number. Raises ValueError if another number has a node of that name."""
        if self._by_name.get(node.name, number) != number:
            raise ValueError(f"node {node.name} has number {self._by_name[node.name]} already, and is given {number}")
        self.remove(number)
        self._nodes[number] = node
        self._by_name[node.name] = number
        for key, by_value in self._by_label.items():
            if key in node.labels:
                by_value.setdefault(node.labels[key], set()).add(number)

    def remove(self, number: int) -> None:
        """Forget the node of that number, if there is one."""
        node = self._nodes.pop(number, None)
        if node is None:
            return
        del self._by_name[node.name]
        for key, by_value in self._by_label.items():
            if key in node.labels:
                numbers = by_value[node.labels[key]]
                numbers.discard(number)
                if not numbers:
                    del by_value[node.labels[key]]

    def number_of(self, name: str) -> int | None:
        """The number of the node of that name."""
        return self._by_name.get(name)

    def with_one_of(self, labels: Iterable[Label] | None) -> Iterable[int]:
        """The nodes that have one of the labels; None means all. Cost: O(nodes) for a key not asked for before."""
        if labels is None:
            return self._nodes
        return {number for key, value in labels for number in self._with(key, value)}

    def _with(self, key: str, value: str) -> Iterable[int]:
        if key == NAME_FIELD:
            number = self._by_name.get(value)
            return () if number is None else (number,)
        by_value = self._by_label.pop(key, None)
        if by_value is None:
            by_value = {}
            for number, node in self._nodes.items():
                if key in node.labels:
                    by_value.setdefault(node.labels[key], set()).add(number)
        self._by_label[key] = by_value  # at the end: the first is the least recently used
        if len(self._by_label) > MOST_KEYS:
            del self._by_label[next(iter(self._by_label))]
        return by_value.get(value, ())
