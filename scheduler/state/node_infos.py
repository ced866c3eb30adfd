"""What pods take from each node, in columns: one array for each resource, one row for each node.

Pods of every scheduler count, and so do assumed ones. A decision evaluates all nodes at once: a change of a pod or node
changes a few numbers, and a decision reads a few array operations. Rows are the node numbers of the caller. Pods are
counted even if their node does not exist.
Source: kube-scheduler's NodeInfo.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocator.bits import Mask, union
from allocator.memo import ChangedNumbers
from allocator.model import Image, Node
from cel.cache import LruCache
from scheduler.core_v1.label_selectors import NO_POD_AFFINITY, Labels, PodAffinity
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import ANY_ADDRESS, HostPort
from scheduler.state.labels import Topology
from scheduler.state.masks import Numbers, mask_of, mask_of_numbers
from scheduler.state.pods import CPU, MEMORY, PODS, PodRequests, allocatable_units, pod_requests, without_entries
from scheduler.state.pods_by_labels import EqualPods, HeldTerms, PodCounts, PodLabels

# Values derived from single rows of the nodes' columns: cached, and computed again for rows that have changed.


WorkOut = Callable[[Any], Any]  # Any: of one row its number or flag, of an array of rows an array of theirs
"""Numbers or flags by row; each follows from its own row alone."""

MOST_KEPT = 128
"""Arrays that are kept; beyond, the least recently used one is forgotten."""

MOST_WORDS = 1 << 18
"""Words of all keys: what a single pod requests has room for thousands."""


FEW_ROWS = 32
"""So many are worked out as fast as those that have changed since they were asked for."""

FEW_CHANGED = 8
"""So many are worked out faster one by one, without arrays."""


@dataclass(slots=True, eq=False)
class _Values:
    """values: by row. seen: the last change that they know. mask: the rows with a flag, None until it is needed."""

    values: NDArray[Any]  # Any: numbers or flags, by the key
    seen: int
    mask: Mask | None = None

    def set(self, row: int, value: Any) -> None:  # Any: one of the values
        """The row has this value."""
        if self.mask is not None and self.values[row] != value:
            self.mask ^= 1 << row
        self.values[row] = value

    def set_all(self, rows: Numbers, values: NDArray[Any]) -> None:  # Any: some of the values
        """The rows have these values."""
        if self.mask is not None:
            flipped = rows[self.values[rows] != values]
            self.mask ^= mask_of_numbers(flipped, len(self.values))
        self.values[rows] = values


class ByRow:
    """Arrays with a number for each row, by what they are asked for. changes: of rows."""

    def __init__(self, rows: int) -> None:
        self.changes = ChangedNumbers()
        self.forget(rows)

    def touch(self, row: int) -> None:
        """The row has changed."""
        self.changes.note(row, self._rows)

    def forget(self, rows: int) -> None:
        """The columns are others, and have so many rows."""
        self._rows = rows
        self._kept: LruCache[Hashable, _Values] = LruCache(MOST_KEPT, MOST_WORDS)

    def of(self, key: Hashable, words: int, work_out: WorkOut) -> NDArray[Any]:  # Any: numbers or flags
        """The values by row, for reading. work_out: those of certain rows, which nothing else may decide.

        words: of the key. Cost: O(rows that have changed since the key was asked for).
        """
        return self._caught_up(key, words, work_out).values

    def at(self, rows: Numbers, key: Hashable, words: int, work_out: WorkOut) -> Numbers:
        """The numbers of these rows; of a few, nothing needs to be kept."""
        if len(rows) <= FEW_CHANGED:
            return np.array([work_out(row) for row in rows.tolist()], np.int64)
        values: Numbers = work_out(rows) if len(rows) <= FEW_ROWS else self.of(key, words, work_out)[rows]
        return values

    def mask(self, key: Hashable, words: int, work_out: WorkOut) -> Mask:
        """The rows with a flag, as `of` has it. Cost: as there, and O(rows / 8) where many have changed."""
        kept = self._caught_up(key, words, work_out)
        if kept.mask is None:
            kept.mask = mask_of(kept.values)
        return kept.mask

    def _caught_up(self, key: Hashable, words: int, work_out: WorkOut) -> _Values:
        kept = self._kept.get(key, words, lambda: _Values(work_out(np.arange(self._rows)), self.changes.now))
        if kept.seen != self.changes.now:
            changed = self.changes.numbers_since(kept.seen)
            if changed is None or len(changed) > FEW_CHANGED:
                rows = np.arange(self._rows) if changed is None else np.array(changed, np.int64)
                kept.set_all(rows, work_out(rows))
            else:
                for row in changed:
                    kept.set(row, work_out(row))
            kept.seen = self.changes.now
        return kept


# Host ports that pods use on nodes, and the nodes on which a pod's ports are not free.
#
# A port on all addresses conflicts with the same port on any address, and vice versa. Source: kube-scheduler's
# HostPortInfo and its plugin NodePorts.


class UsedPorts:
    """Who holds which port where; each pod counts, so that a port is free once the last of them is gone."""

    def __init__(self) -> None:
        self._holders: Counter[tuple[HostPort, int]] = Counter()
        self._nodes: dict[tuple[int, str], dict[str, Mask]] = {}

    def add(self, number: int, ports: Iterable[HostPort]) -> None:
        """A pod on the node holds these."""
        for port in ports:
            self._holders[port, number] += 1
            by_address = self._nodes.setdefault((port.port, port.protocol), {})
            by_address[port.address] = by_address.get(port.address, 0) | 1 << number

    def remove(self, number: int, ports: Iterable[HostPort]) -> None:
        """A pod on the node, which was added, holds these no more."""
        for port in ports:
            self._holders[port, number] -= 1
            if not self._holders[port, number]:
                del self._holders[port, number]
                self._free(number, port)

    def clashes(self, ports: Iterable[HostPort]) -> Mask:
        """The nodes on which one of the ports is not free. Cost: O(ports), and addresses in use, for any."""
        taken = 0
        for port in ports:
            by_address = self._nodes.get((port.port, port.protocol), {})
            if port.address == ANY_ADDRESS:
                taken |= union(by_address.values())
            else:
                taken |= by_address.get(port.address, 0) | by_address.get(ANY_ADDRESS, 0)
        return taken

    def _free(self, number: int, port: HostPort) -> None:
        by_address = self._nodes[port.port, port.protocol]
        by_address[port.address] &= ~(1 << number)
        if not by_address[port.address]:
            del by_address[port.address]
        if not by_address:
            del self._nodes[port.port, port.protocol]


# Which nodes have which image, and of what size. Source: kube-scheduler's ImageStateSummary.


class Images:
    """The images on all nodes, by name and size: one of several architectures differs in it."""

    def __init__(self) -> None:
        self._on_node: dict[int, tuple[Image, ...]] = {}
        self._by_name: dict[str, dict[int, Mask]] = {}

    @property
    def total(self) -> int:
        """How many nodes there are."""
        return len(self._on_node)

    def set_node(self, number: int, images: tuple[Image, ...]) -> None:
        """The node has these images. Cost: O(images), nothing where they are the same as before."""
        if self._on_node.get(number) == images:
            return
        self.remove_node(number)
        self._on_node[number] = images
        for name, size in _sizes(images).items():
            sizes = self._by_name.setdefault(name, {})
            sizes[size] = sizes.get(size, 0) | 1 << number

    def remove_node(self, number: int) -> None:
        """The node is gone, if it was there."""
        for name, size in _sizes(self._on_node.pop(number, ())).items():
            sizes = self._by_name[name]
            sizes[size] ^= 1 << number
            if not sizes[size]:
                del sizes[size]
            if not sizes:
                del self._by_name[name]

    def spread_size(self, name: str) -> tuple[int, Mask] | None:
        """The size of the image in proportion to the nodes that have it, and these nodes; None where none has it.

        Differs from kube-scheduler: of several sizes that on the lowest node number counts, there that on the node that
        had the image first.
        """
        sizes = self._by_name.get(name)
        if sizes is None:
            return None
        nodes, (size, _) = union(sizes.values()), min(sizes.items(), key=_lowest)
        return int(size * (nodes.bit_count() / self.total)), nodes


def _lowest(size: tuple[int, Mask]) -> Mask:
    _, nodes = size
    return nodes & -nodes


def _sizes(images: tuple[Image, ...]) -> dict[str, int]:
    """The size of each name; the first of several counts."""
    sizes: dict[str, int] = {}
    for image in images:
        for name in image.names:
            sizes.setdefault(name, image.size)
    return sizes


_FEWEST_ROWS = 64

_ALWAYS = (PODS, CPU, MEMORY)
"""What has a column whether a node offers it or not."""

MOST_UNOFFERED = 32
"""Columns of what no node offers any more, since one may do so again soon; beyond, all of these are forgotten."""


class Miscounted(ValueError):
    """A pod was added twice, or removed from where it is not: what is taken would no longer be the truth."""


@dataclass(slots=True)
class ResourceColumn:
    """One resource on all nodes. free: allocatable less what pods request; below 0 where they request too much.

    nodes: how many offer some of it.
    """

    allocatable: Numbers
    free: Numbers
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class _Taken:
    number: int
    requests: PodRequests
    labels: PodLabels
    ports: tuple[HostPort, ...] = ()
    affinity: PodAffinity = NO_POD_AFFINITY


class NodeInfos:
    """The nodes' columns, of what nodes offer. scored_cpu, scored_memory: what pods take as scores count it.

    by_row: what follows from single rows of these and of nothing else.
    namespaces: the labels of each by its name, as they are at any time. look: at the time of a decision.
    """

    def __init__(self, namespaces: Mapping[str, Labels], look: Callable[[], None] = lambda: None) -> None:
        self.namespaces = namespaces
        self.columns: dict[str, ResourceColumn] = {}
        self.scored_cpu = np.zeros(_FEWEST_ROWS, np.int64)
        self.scored_memory = np.zeros(_FEWEST_ROWS, np.int64)
        self.ports = UsedPorts()
        self.topology = Topology(_FEWEST_ROWS)
        self.terms = HeldTerms(namespaces, self.topology)
        self.pods = PodCounts(namespaces, _FEWEST_ROWS, look)
        self.images = Images()
        self.by_row = ByRow(_FEWEST_ROWS)
        self._taken: dict[str, _Taken] = {}
        for resource in _ALWAYS:
            self._column(resource)

    @property
    def size(self) -> int:
        """The length of the columns: more than the highest node number."""
        return len(self.scored_cpu)

    def set_node(self, number: int, node: Node) -> None:
        """The node has this number, and may have changed. Cost: O(pods) more for a resource that no node offered."""
        self._grow(number)
        offered = dict(allocatable_units(node.allocatable))
        for resource, amount in offered.items():
            if amount:
                self._column(resource)
        for resource, column in self.columns.items():
            _offer(column, number, offered.get(resource, 0))
        self._forget_unoffered()
        self.by_row.touch(number)
        self.topology.set_node(number, node)
        self.images.set_node(number, node.images)

    def remove_node(self, number: int) -> None:
        """The node offers nothing any more; its pods count until they are removed, one by one."""
        self._grow(number)
        for column in self.columns.values():
            _offer(column, number, 0)
        self._forget_unoffered()
        self.by_row.touch(number)
        self.topology.remove_node(number)
        self.images.remove_node(number)

    def add_pod(self, number: int, pod: Pod) -> None:
        """Count the pod on the node. Raises Miscounted where it is counted already, here or elsewhere."""
        self._add_new(pod, _taken(number, pod))

    def add_promised(self, number: int, promised: "Promised") -> None:
        """Count what the pod takes of the node, and its labels; not its ports and terms: there may be thousands.

        What these keep away is asked of the pod. Raises Miscounted as `add_pod`; `remove_pod` undoes it.
        """
        self._add_new(promised.pod, _Taken(number, promised.requests, promised.labels))

    def _add_new(self, pod: Pod, taken: _Taken) -> None:
        if pod.uid in self._taken:
            raise Miscounted(f"pod {pod} ({pod.uid}) is counted on node number {self._taken[pod.uid].number} already")
        self._grow(taken.number)
        self._add(pod.uid, taken)

    def _add(self, uid: str, taken: _Taken) -> None:
        self._taken[uid] = taken
        self._count(taken.number, taken.requests, 1)
        self.ports.add(taken.number, taken.ports)
        self.terms.add(taken.labels.namespace, taken.number, taken.affinity)
        self.pods.add(taken.number, taken.labels)

    def remove_pod(self, number: int, pod: Pod) -> None:
        """Undo `add_pod` exactly, whatever the pod says by now. Raises Miscounted where it is not counted there."""
        taken = self._counted(number, pod)
        del self._taken[pod.uid]
        self._count(number, taken.requests, -1)
        self.ports.remove(number, taken.ports)
        self.terms.remove(taken.labels.namespace, number, taken.affinity)
        self.pods.remove(number, taken.labels)

    def take_away(self, number: int, pod: Pod) -> Callable[[], None]:
        """Remove the pod as `remove_pod` does; what is returned adds what it took again, and works nothing out."""
        taken = self._counted(number, pod)
        self.remove_pod(number, pod)
        return partial(self._add, pod.uid, taken)

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        """The pod is this one by now. Raises Miscounted where it is not counted there.

        Binding alone changes the labels of most pods: the API server adds the topology labels of the node (KEP-4742).
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
            self.terms.remove(before.labels.namespace, number, before.affinity)
            self.terms.add(now.labels.namespace, number, now.affinity)
        if before.labels != now.labels:
            self.pods.remove(number, before.labels)
            self.pods.add(number, now.labels)

    def requests_of(self, uid: str) -> PodRequests:
        """What a pod that is counted takes. Raises KeyError where it is not."""
        return self._taken[uid].requests

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
        column = self.columns.get(resource)
        if column is None:
            column = self.columns[resource] = ResourceColumn(
                np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
            )
            for taken in self._taken.values():
                column.free[taken.number] -= taken.requests.amounts.get(resource, 0)
            self.by_row.forget(self.size)
        return column

    def _forget_unoffered(self) -> None:
        left = [name for name, column in self.columns.items() if not column.nodes and name not in _ALWAYS]
        if len(left) > MOST_UNOFFERED:
            for resource in left:
                del self.columns[resource]
            self.by_row.forget(self.size)

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
    return _Taken(number, pod_requests(pod), labels, pod.host_ports, pod.pod_affinity)


def _offer(column: ResourceColumn, number: int, amount: int) -> None:
    before = column.allocatable[number]
    column.nodes += bool(amount) - bool(before)
    column.free[number] += amount - before
    column.allocatable[number] = amount


# Pods that are nominated to a node (`status.nominatedNodeName`) and not bound yet.
#
# Pods of every scheduler count: kube-scheduler nominates after preemption or before a long binding, and so do Cluster
# Autoscaler and this program. kube-scheduler counts only its own pods. Source: kube-scheduler's nominator; KEP-5278.


@dataclass(frozen=True)
class Promised:
    """A pod that was promised a node, with what each decision looks at of it: it is worked out once."""

    pod: Pod

    @cached_property
    def requests(self) -> PodRequests:
        """What it takes of a node."""
        return pod_requests(self.pod)

    @cached_property
    def labels(self) -> PodLabels:
        """What others look at."""
        labels = PodLabels(self.pod.namespace, self.pod.labels, self.pod.is_deleting)
        return replace(labels, known_key=labels.key)

    @cached_property
    def ports(self) -> UsedPorts:
        """Its own, on node number 0."""
        held = UsedPorts()
        held.add(0, self.pod.host_ports)
        return held

    @cached_property
    def _kept_away(self) -> LruCache[Hashable, frozenset[str]]:
        return LruCache(MOST_KINDS, MOST_WORDS)

    def keeps_away_in(self, pods: EqualPods) -> frozenset[str]:
        """The topology keys of its required terms of anti-affinity, the first ones, that are about these pods."""
        terms = self.pod.pod_affinity.required_anti[:MOST_TERMS]
        if not terms:
            return frozenset()
        return self._kept_away.get(
            pods.key, pods.words, lambda: frozenset(term.topology_key for term in terms if pods.is_matched(term))
        )


MOST_TERMS = 32
"""Terms of anti-affinity of a promised pod that count before it has come; it is placed anew where others break them."""

MOST_KINDS = 64
"""Kinds of pods of which a promised one remembers whether it keeps them away."""


class Nominations:
    """The pods by the name of the node. is_placed: whether a pod (by uid) is counted on a node already."""

    def __init__(self, is_placed: Callable[[str], bool]) -> None:
        self._is_placed = is_placed
        self._nodes: dict[str, str] = {}
        self._pods: dict[str, dict[str, Promised]] = {}

    def set(self, pod: Pod) -> None:
        """The watch shows the pod."""
        self.remove(pod.uid)
        if pod.nominated_node and not pod.node_name and not pod.is_finished:
            self._nodes[pod.uid] = pod.nominated_node
            self._pods.setdefault(pod.nominated_node, {})[pod.uid] = Promised(pod)

    def remove(self, uid: str) -> None:
        """The watch shows that the pod is gone."""
        node = self._nodes.pop(uid, None)
        if node is not None:
            del self._pods[node][uid]
            if not self._pods[node]:
                del self._pods[node]

    @contextmanager
    def without(self, uids: Collection[str]) -> Iterator[None]:
        """As if these pods were not nominated, until the end of the context. Cost: O(pods of their nodes)."""
        by_node: dict[str, dict[str, None]] = {}
        for uid in uids:
            if node := self._nodes.get(uid):
                by_node.setdefault(node, {})[uid] = None
        with without_entries(self._pods, by_node):
            yield

    def on(self, node: str) -> Sequence[Pod]:
        """The pods that were promised the node, and are on none."""
        return [one.pod for uid, one in self._pods.get(node, {}).items() if not self._is_placed(uid)]

    def pods(self) -> list[Pod]:
        """All that were promised a node, and are on none."""
        return [pod for node in self._pods for pod in self.on(node)]

    def before(self, pod: Pod) -> Iterator[tuple[str, Sequence[Promised]]]:
        """The nodes where other pods go before this one, since their priority is as high or higher."""
        for node, pods in self._pods.items():
            first = [one for one in pods.values() if self._goes_before(one.pod, pod)]
            if first:
                yield node, first

    def _goes_before(self, one: Pod, pod: Pod) -> bool:
        is_higher = (one.priority or 0) >= (pod.priority or 0)
        return is_higher and one.uid != pod.uid and not self._is_placed(one.uid)
