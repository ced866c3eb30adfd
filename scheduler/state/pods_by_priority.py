"""The pods on each node by their priority: who could go for a pod of a higher one, and where nobody can.

Which nodes have somebody lower is one comparison for all of them. Mirror pods are none who could go: deleting one frees
nothing, and its kubelet makes the object again.
"""

from collections.abc import Callable, Collection

import numpy as np

from scheduler.core_v1.pod import Pod
from scheduler.state.masks import Flags

HIGHEST = 1 << 40
"""More than every priority."""

_FEWEST_ROWS = 64


def priority_of(pod: Pod) -> int:
    """The pod's priority, 0 where it says none."""
    return pod.priority or 0


class PodsByPriority:
    """Pods by the number of their node. takes_static: whether mirror pods count as others do.

    spares: whether a pod is never to go, whatever its priority; it does not count here.
    least: by node number the lowest priority of its pods, HIGHEST where it has none. changes: by node number, how often
    its pods have changed.
    """

    def __init__(self, *, takes_static: bool) -> None:
        self.spares: Callable[[Pod], bool] = spares_nobody
        # Differs from kube-scheduler, which takes mirror pods for victims.
        self._takes_static = takes_static
        self.least = np.full(_FEWEST_ROWS, HIGHEST, np.int64)
        self.changes = np.zeros(_FEWEST_ROWS, np.int64)
        self._on_node: dict[int, dict[str, Pod]] = {}

    def on(self, number: int) -> Collection[Pod]:
        """The pods on the node that can be evicted, whatever their priority."""
        return self._on_node.get(number, {}).values()

    def add_pod(self, number: int, pod: Pod) -> None:
        """The pod is on the node of that number."""
        self._grow(number)
        if not self.may_go(pod):
            return
        self._on_node.setdefault(number, {})[pod.uid] = pod
        self.changes[number] += 1
        self.least[number] = min(self.least[number], priority_of(pod))

    def remove_pod(self, number: int, pod: Pod) -> None:
        """The pod that was added is there no more."""
        own = self._on_node.get(number, {})
        counted = own.pop(pod.uid, None)
        if counted is None:
            return
        self.changes[number] += 1
        if not own:
            del self._on_node[number]
        if priority_of(counted) == self.least[number]:
            self.least[number] = min(map(priority_of, own.values()), default=HIGHEST)

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        """The pod that was added is this one by now."""
        self.remove_pod(number, old)
        self.add_pod(number, new)

    def may_go(self, pod: Pod) -> bool:
        """Whether the pod can be evicted for one of a higher priority."""
        return (self._takes_static or not pod.is_static) and not self.spares(pod)

    def _grow(self, number: int) -> None:
        if number >= len(self.least):
            more = max(number + 1, 2 * len(self.least)) - len(self.least)
            self.least = np.pad(self.least, (0, more), constant_values=HIGHEST)
            self.changes = np.pad(self.changes, (0, more))

    def lower_than(self, priority: int, size: int) -> Flags:
        """By node number below `size`, whether somebody on it has a lower priority."""
        flags = np.zeros(size, np.bool_)
        common = min(size, len(self.least))
        flags[:common] = self.least[:common] < priority
        return flags


def spares_nobody(_: Pod) -> bool:
    """Every pod of a lower priority may go."""
    return False
