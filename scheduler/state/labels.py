"""Nodes by label, domains of a topology key, and pods that a selector matches."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from allocator.bits import Mask, union
from allocator.cluster.node_affinity import all_hold, term_problem
from allocator.fleet.nodes import NodeTable
from allocator.model import Node, NodeSelector, Requirement, Term
from scheduler.core_v1.label_selectors import Labels, LabelSelector, selector_problem, selects
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import REPLICATION_CONTROLLER, SERVICE, PodSelector
from scheduler.state.masks import Flags, Numbers

# The nodes that a selector matches, by the index of their labels (`NodeTable`): no node is evaluated individually.
#
# A selector costs a few operations on masks for each value that it names. `Topology` has the same labels as arrays,
# for sums over the nodes of a domain.


class NodeLabels:
    """The nodes that selectors match."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    @property
    def all(self) -> Mask:
        """The nodes."""
        return self._table.all

    @property
    def version(self) -> int:
        """Changes with every change of a node or a label."""
        return self._table.version

    def having(self, key: str) -> Mask:
        """The nodes with the label."""
        return union([having.nodes for having in self._table.by_value(key).values()])

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
        for requirement in requirements:
            nodes &= self._holding(requirement)
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
                by_value = self._table.by_value(key).items()
                return union(having.nodes for value, having in by_value if all_hold((requirement,), {key: value}))

    def valued(self, key: str, values: Iterable[str]) -> Mask:
        """The nodes with one of these values."""
        by_value = self._table.by_value(key)
        return union([having.nodes for value in values if (having := by_value.get(value))])


def _makes_sense(term: Term) -> bool:
    return bool(term.expressions or term.fields) and not term_problem(term)


# The topology domains of nodes: nodes that share the value of a label.
#
# One array for each label key that was requested, updated with each node, so that a question costs a few array
# operations. Keys that no node has share one, because pods can name as many of them as their authors think of.
# `NodeTable` has the same labels as masks, for selectors.


NOWHERE = -1
"""The domain of a node without the label, and of a number that no node has."""

# Of a domain more, the last one, which is that of nodes that are in none; np.append would take three times as long.
_NONE: Numbers = np.zeros(1, np.int64)
_ONE_FLAG: Mapping[bool, Flags] = {value: np.full(1, value) for value in (False, True)}


@dataclass(slots=True, eq=False)
class Domains:
    """The domains of a label key. of_nodes: the domain's position by node number, or NOWHERE. number: of positions.

    version: changes with every change of them.
    """

    of_nodes: Numbers
    positions: dict[str, int] = field(default_factory=dict)
    version: int = 0
    _present: tuple[int, Numbers] | None = None

    @property
    def number(self) -> int:
        """One more than the highest position; nodes have gone from some, perhaps."""
        return len(self.positions)

    @property
    def labelled(self) -> Flags:
        """The nodes that are in a domain."""
        return self.of_nodes >= 0

    @property
    def present(self) -> Numbers:
        """The positions of those that nodes are in. Cost: O(nodes), where they have changed."""
        if self._present is None or self._present[0] != self.version:
            numbers = np.unique(self.of_nodes)
            self._present = self.version, numbers[numbers >= 0]
        return self._present[1]

    def within(self, nodes: Flags) -> "Domains":
        """The domains of these nodes alone, as they are now."""
        return Domains(np.where(nodes, self.of_nodes, NOWHERE), self.positions)

    def sums(self, counts: Numbers) -> Numbers:
        """The sum over each domain's nodes. counts: by node number."""
        return np.bincount(self.of_nodes - NOWHERE, counts, self.number - NOWHERE)[-NOWHERE:].astype(np.int64)

    def spread_out(self, sums: Numbers) -> Numbers:
        """By node number, the number of the node's domain; 0 for nodes that are in none."""
        return np.concatenate((sums, _NONE))[self.of_nodes]

    def nodes_of(self, is_meant: Flags, *, elsewhere: bool = False) -> Flags:
        """The nodes of these domains. is_meant: by position. elsewhere: whether those are meant that are in none."""
        return np.concatenate((is_meant, _ONE_FLAG[elsewhere]))[self.of_nodes]


@dataclass(slots=True, eq=False)
class DomainSums:
    """The sums of counts over domains, which follow the counts until the domains change. version: of the domains."""

    domains: Domains
    version: int
    by_domain: Numbers

    @staticmethod
    def of(domains: Domains, counts: Numbers) -> "DomainSums":
        """Of these counts, by node number."""
        return DomainSums(domains, domains.version, domains.sums(counts))

    def are_of(self, domains: Domains) -> bool:
        """Whether they are of these domains as they are now."""
        return self.domains is domains and self.version == domains.version

    def add(self, number: int, count: int) -> None:
        """So many more are on the node."""
        if self.version == self.domains.version and (position := self.domains.of_nodes[number]) >= 0:
            self.by_domain[position] += count


class Topology:
    """The labels of nodes by number, and the domains that were asked for. size: more than any node number.

    version: changes with every label of a node. keys_version: with every key that a node is the first or last to have.
    """

    def __init__(self, size: int) -> None:
        self.version = self.keys_version = 0
        self._labels: dict[int, Labels] = {}
        self._keys: Counter[str] = Counter()
        self._domains: dict[str, Domains] = {}
        self._nowhere = _nowhere(size)
        self._size = size

    def set_node(self, number: int, node: Node) -> None:
        """The node has this number, which is below the size, and may have changed."""
        old = self._labels.get(number)
        if old != node.labels:
            self._labels[number] = node.labels
            self._relabel(number, old or {}, node.labels)

    def remove_node(self, number: int) -> None:
        """No node has this number any more."""
        old = self._labels.pop(number, None)
        if old is not None:
            self._relabel(number, old, {})

    def has(self, key: str) -> bool:
        """Whether a node has the label."""
        return key in self._keys

    def domains(self, key: str) -> Domains:
        """The domains of the label key. Cost: O(nodes) when it is asked for first."""
        if key not in self._keys:
            return self._nowhere
        domains = self._domains.get(key)
        if domains is None or domains.number > 2 * self._size:
            self.version += domains is not None
            domains = self._domains[key] = _nowhere(self._size)
            for number, labels in self._labels.items():
                _put(domains, key, number, labels)
        return domains

    def grow(self, size: int) -> None:
        """Make room for node numbers below this."""
        for domains in self._domains.values():
            domains.of_nodes = np.pad(domains.of_nodes, (0, size - self._size), constant_values=NOWHERE)
            domains.version += 1
        self._nowhere = _nowhere(size)
        self._size = size
        self.version += 1

    def _relabel(self, number: int, old: Labels, new: Labels) -> None:
        self.version += 1
        self._count_keys(old, new)
        for key, domains in self._domains.items():
            _put(domains, key, number, new)

    def _count_keys(self, old: Labels, new: Labels) -> None:
        for key in new.keys() - old.keys():
            self._keys[key] += 1
            self.keys_version += self._keys[key] == 1
        for key in old.keys() - new.keys():
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
                self._domains.pop(key, None)
                self.keys_version += 1


def _nowhere(size: int) -> Domains:
    """No node is in any."""
    return Domains(np.full(size, NOWHERE, np.int64))


def _put(domains: Domains, key: str, number: int, labels: Labels) -> None:
    value = labels.get(key)
    position = NOWHERE if value is None else domains.positions.setdefault(value, len(domains.positions))
    if domains.of_nodes[number] != position:
        domains.of_nodes[number] = position
        domains.version += 1


# The Services and controllers of pods: the labels by which pods without spread constraints are spread.
#
# Source: kube-scheduler's helper DefaultSelector.


class PodSelectors:
    """Those that are there: Services by namespace, controllers by kind, namespace and name."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, PodSelector]] = {}
        self._controllers: dict[tuple[str, str, str], PodSelector] = {}

    def set(self, found: PodSelector) -> None:
        """The object is there, or has changed."""
        if found.kind == SERVICE:
            self._services.setdefault(found.namespace, {})[found.name] = found
        else:
            self._controllers[found.kind, found.namespace, found.name] = found

    def remove(self, gone: PodSelector) -> None:
        """The object is gone, if it was there."""
        if gone.kind == SERVICE:
            services = self._services.get(gone.namespace, {})
            services.pop(gone.name, None)
            if not services:
                self._services.pop(gone.namespace, None)
        else:
            self._controllers.pop((gone.kind, gone.namespace, gone.name), None)

    def default_selector(self, pod: Pod) -> LabelSelector:
        """What the Services that select the pod and its controller select together; () where there are none.

        Cost: O(Services of the namespace).
        """
        services = self._services.get(pod.namespace, {}).values()
        labels = _by_key(one.selector for one in services if selects(one.selector, pod.labels))
        owner = pod.owner and self._controllers.get((pod.owner.kind, pod.namespace, pod.owner.name))
        if not owner:
            return tuple(labels.values())
        if owner.kind == REPLICATION_CONTROLLER:  # where it contradicts a Service, it prevails
            return tuple((labels | _by_key([owner.selector])).values())
        return tuple(dict.fromkeys((*labels.values(), *(owner.selector or ()))))


def _by_key(selectors: Iterable[LabelSelector]) -> dict[str, Requirement]:
    """The labels that selectors ask for, each of which has one requirement a key."""
    return {one.key: one for selector in selectors for one in selector or ()}
