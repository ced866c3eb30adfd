"""Who could go for a pod: the pods on each node by their priority, and the PodDisruptionBudgets that hold them.

Which nodes have somebody lower is one comparison for all of them. Mirror pods are none who could go: deleting one frees
nothing, and its kubelet makes the object again.
Source: kube-scheduler's preemption/util.go FilterVictimsWithPDBViolation.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from cel.cache import LruCache
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
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

    def take_away(self, number: int, pod: Pod) -> Callable[[], None]:
        """Remove the pod; what is returned adds it again."""
        self.remove_pod(number, pod)
        return partial(self.add_pod, number, pod)

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


MOST_KINDS = 1 << 10
"""Kinds of pods, by namespace and labels, for which the budgets that select them are remembered."""

MOST_WORDS = 1 << 18
"""Words of the labels of all these kinds."""


class DisruptionBudgets:
    """The budgets that the watch shows. changes: how often they have changed.

    empty_selects_all: `{}` selects all pods, and every selector also those without labels, as the API says (1.38).
    look: called for each pod, for the time that a decision has; raises Cancelled.
    """

    def __init__(self, *, empty_selects_all: bool = True, look: Callable[[], None] = lambda: None) -> None:
        self._look = look
        self._empty_selects_all = empty_selects_all
        self.changes = 0
        self._by_namespace: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._selecting: LruCache[Hashable, Sequence[PodDisruptionBudget]] = LruCache(MOST_KINDS, MOST_WORDS)

    def set(self, budget: PodDisruptionBudget) -> None:
        """The budget is there, or has changed."""
        self._by_namespace.setdefault(budget.namespace, {})[budget.name] = budget
        self._forget()

    def remove(self, budget: PodDisruptionBudget) -> None:
        """The budget is gone, if it was there."""
        own = self._by_namespace.get(budget.namespace, {})
        own.pop(budget.name, None)
        if not own:
            self._by_namespace.pop(budget.namespace, None)
        self._forget()

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, PodDisruptionBudget]]:
        """By namespace and name; no namespace is without one."""
        return self._by_namespace

    def of(self, pod: Pod) -> Sequence[PodDisruptionBudget]:
        """The budgets from which an eviction of the pod takes one."""
        self._look()
        own = self._by_namespace.get(pod.namespace)
        if not own:
            return ()
        key = pod.namespace, frozenset(pod.labels.items())
        selecting = self._selecting.get(
            key, 1 + len(pod.labels), lambda: [one for one in own.values() if self._selects(one, pod)]
        )
        return [one for one in selecting if pod.name not in one.disrupted]

    def violated(self, units: Iterable[Sequence[Pod]]) -> list[tuple[PodDisruptionBudget, ...]]:
        """For each of the units, whose pods are evicted together and in this order, the budgets that it violates."""
        # Differs from kube-scheduler 1.37 and later: there the first violated budget ends the count for a pod, and
        # which one comes first is random.
        return violated_of(map(self.all_of, units))

    def all_of(self, unit: Sequence[Pod]) -> Sequence[PodDisruptionBudget]:
        """The same for pods that are evicted together; a budget comes again for each of its pods."""
        return [budget for pod in unit for budget in self.of(pod)] if self._by_namespace else ()

    def _forget(self) -> None:
        self.changes += 1
        self._selecting = LruCache(MOST_KINDS, MOST_WORDS)

    def _selects(self, budget: PodDisruptionBudget, pod: Pod) -> bool:
        if not selects(budget.selector, pod.labels):
            return False
        # Differs from kube-scheduler up to 1.37: there an empty selector, or a pod without labels, is never counted.
        return self._empty_selects_all or bool(budget.selector and pod.labels)


def violated_of(units: Iterable[Sequence[PodDisruptionBudget]]) -> list[tuple[PodDisruptionBudget, ...]]:
    """The budgets that each violates. units: the budgets from which it takes one, in the order of the evictions."""
    left: dict[int, int] = {}
    violations: list[tuple[PodDisruptionBudget, ...]] = []
    for unit in units:
        violated: dict[int, PodDisruptionBudget] = {}
        for budget in unit:
            left[id(budget)] = rest = left.get(id(budget), budget.disruptions_allowed) - 1
            if rest < 0:
                violated[id(budget)] = budget
        violations.append(tuple(violated.values()))
    return violations
