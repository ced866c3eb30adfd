"""What pods take from each node, in columns: one array for each resource, one row for each node.

Pods of every scheduler count, and so do assumed ones. A decision evaluates all nodes at once: a change of a pod or node
changes a few numbers, and a decision reads a few array operations. Rows are the node numbers of the caller. Pods are
counted even if their node does not exist.
Source: kube-scheduler's NodeInfo.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from allocator.model import Node
from scheduler.core_v1.affinity_term import PodAffinity
from scheduler.core_v1.host_ports import HostPort
from scheduler.core_v1.label_selector import Labels
from scheduler.core_v1.pod import Pod
from scheduler.state.affinity_terms import HeldTerms
from scheduler.state.by_row import ByRow
from scheduler.state.masks import Numbers
from scheduler.state.node_images import Images
from scheduler.state.pod_counts import PodCounts, PodLabels
from scheduler.state.pod_requests import CPU, MEMORY, PODS, PodRequests, allocatable_units, pod_requests
from scheduler.state.ports import UsedPorts
from scheduler.state.topology_domains import Topology

_FEWEST_ROWS = 64


class Miscounted(ValueError):
    """A pod was added twice, or removed from where it is not: what is taken would no longer be the truth."""


@dataclass(slots=True)
class ResourceColumn:
    """One resource on all nodes. free: allocatable less what pods request; below 0 where they request too much."""

    allocatable: Numbers
    free: Numbers


@dataclass(frozen=True, slots=True)
class _Taken:
    number: int
    requests: PodRequests
    ports: tuple[HostPort, ...]
    affinity: PodAffinity
    labels: PodLabels


class NodeInfos:
    """The nodes' columns, of what nodes offer. scored_cpu, scored_memory: what pods take as scores count it.

    by_row: what follows from single rows of these and of nothing else.
    namespaces: the labels of each by its name, as they are at any time.
    """

    def __init__(self, namespaces: Mapping[str, Labels]) -> None:
        self.namespaces = namespaces
        self.columns: dict[str, ResourceColumn] = {}
        self.scored_cpu = np.zeros(_FEWEST_ROWS, np.int64)
        self.scored_memory = np.zeros(_FEWEST_ROWS, np.int64)
        self.ports = UsedPorts()
        self.topology = Topology(_FEWEST_ROWS)
        self.terms = HeldTerms(namespaces, self.topology)
        self.pods = PodCounts(namespaces, _FEWEST_ROWS)
        self.images = Images()
        self.by_row = ByRow(_FEWEST_ROWS)
        self._taken: dict[str, _Taken] = {}
        for resource in (PODS, CPU, MEMORY):
            self._column(resource)

    @property
    def size(self) -> int:
        """The length of the columns: more than the highest node number."""
        return len(self.scored_cpu)

    def set_node(self, number: int, node: Node) -> None:
        """The node has this number, and may have changed. Cost: O(pods) more for a resource that no node offered."""
        self._grow(number)
        offered = dict(allocatable_units(node.allocatable))
        for resource in offered:
            self._column(resource)
        for resource, column in self.columns.items():
            _offer(column, number, offered.get(resource, 0))
        self.by_row.touch(number)
        self.topology.set_node(number, node)
        self.images.set_node(number, node.images)

    def remove_node(self, number: int) -> None:
        """The node offers nothing any more; its pods count until they are removed, one by one."""
        self._grow(number)
        for column in self.columns.values():
            _offer(column, number, 0)
        self.by_row.touch(number)
        self.topology.remove_node(number)
        self.images.remove_node(number)

    def add_pod(self, number: int, pod: Pod) -> None:
        """Count the pod on the node. Raises Miscounted where it is counted already, here or elsewhere."""
        if pod.uid in self._taken:
            raise Miscounted(f"pod {pod} ({pod.uid}) is counted on node number {self._taken[pod.uid].number} already")
        self._grow(number)
        taken = self._taken[pod.uid] = _taken(number, pod)
        self._count(number, taken.requests, 1)
        self.ports.add(number, taken.ports)
        self.terms.add(number, taken.affinity)
        self.pods.add(number, taken.labels)

    def remove_pod(self, number: int, pod: Pod) -> None:
        """Undo `add_pod` exactly, whatever the pod says by now. Raises Miscounted where it is not counted there."""
        taken = self._counted(number, pod)
        del self._taken[pod.uid]
        self._count(number, taken.requests, -1)
        self.ports.remove(number, taken.ports)
        self.terms.remove(number, taken.affinity)
        self.pods.remove(number, taken.labels)

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        """The pod is this one by now. Raises Miscounted where it is not counted there.

        Binding alone changes the labels of most pods: the API server adds those of the node's topology (KEP-4742).
        """
        before, now = self._counted(number, new), _taken(number, new)
        self._taken[new.uid] = now
        if before.requests != now.requests:
            self._count(number, before.requests, -1)
            self._count(number, now.requests, 1)
        if before.ports != now.ports:
            self.ports.remove(number, before.ports)
            self.ports.add(number, now.ports)
        if before.affinity != now.affinity:
            self.terms.remove(number, before.affinity)
            self.terms.add(number, now.affinity)
        if before.labels != now.labels:
            self.pods.remove(number, before.labels)
            self.pods.add(number, now.labels)

    def _counted(self, number: int, pod: Pod) -> _Taken:
        taken = self._taken.get(pod.uid)
        if taken is None or taken.number != number:
            raise Miscounted(f"pod {pod} ({pod.uid}) is not counted on node number {number}")
        return taken

    def _count(self, number: int, requests: PodRequests, sign: int) -> None:
        for resource, amount in requests.amounts.items():
            # What no node offers has no column: pods can be made to request whatever their author thinks of.
            if resource in self.columns:
                self.columns[resource].free[number] -= sign * amount
        self.columns[PODS].free[number] -= sign
        self.scored_cpu[number] += sign * requests.scored_cpu
        self.scored_memory[number] += sign * requests.scored_memory
        self.by_row.touch(number)

    def _column(self, resource: str) -> ResourceColumn:
        found = self.columns.get(resource)
        if found is None:
            found = self.columns[resource] = ResourceColumn(
                np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
            )
            for taken in self._taken.values():
                found.free[taken.number] -= taken.requests.amounts.get(resource, 0)
            self.by_row.forget(self.size)
        return found

    def _grow(self, number: int) -> None:
        if number < self.size:
            return
        more = max(number + 1, 2 * self.size) - self.size
        for column in self.columns.values():
            column.allocatable = np.pad(column.allocatable, (0, more))
            column.free = np.pad(column.free, (0, more))
        self.scored_cpu = np.pad(self.scored_cpu, (0, more))
        self.scored_memory = np.pad(self.scored_memory, (0, more))
        self.topology.grow(self.size)
        self.pods.grow(self.size)
        self.by_row.forget(self.size)


def _taken(number: int, pod: Pod) -> _Taken:
    labels = PodLabels(pod.namespace, pod.labels, pod.is_deleting)
    return _Taken(number, pod_requests(pod), pod.host_ports, pod.pod_affinity, labels)


def _offer(column: ResourceColumn, number: int, amount: int) -> None:
    column.free[number] += amount - column.allocatable[number]
    column.allocatable[number] = amount
