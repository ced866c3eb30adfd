"""PodDisruptionBudgets by namespace, and which evictions of some pods would violate one.

Source: kube-scheduler's preemption/util.go FilterVictimsWithPDBViolation.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from cel.cache import LruCache
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget

MOST_KINDS = 1 << 10
"""Kinds of pods, by namespace and labels, for which the budgets that select them are remembered."""

MOST_WORDS = 1 << 18
"""Words of the labels of all these kinds."""


class DisruptionBudgets:
    """The budgets that the watch shows. changes: how often they have changed.

    empty_selects_all: `{}` selects all pods, and every selector also those without labels, as the API says (1.38).
    """

    def __init__(self, *, empty_selects_all: bool = True) -> None:
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
        return violated_of([self.all_of(unit) for unit in units])

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
        violated: tuple[PodDisruptionBudget, ...] = ()
        for budget in unit:
            left[id(budget)] = rest = left.get(id(budget), budget.disruptions_allowed) - 1
            if rest < 0 and budget not in violated:
                violated = (*violated, budget)
        violations.append(violated)
    return violations
