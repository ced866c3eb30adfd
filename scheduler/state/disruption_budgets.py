"""PodDisruptionBudgets by namespace, and which evictions of some pods would violate one.

Source: kube-scheduler's preemption/util.go FilterVictimsWithPDBViolation.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from cel.lru import LruCache
from scheduler.core_v1.disruption_budget import PodDisruptionBudget
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.pod import Pod

MOST_KINDS = 1 << 10
"""Kinds of pods, by namespace and labels, for which the budgets that select them are remembered."""

MOST_WORDS = 1 << 18
"""Words of the labels of all these kinds."""


class DisruptionBudgets:
    """The budgets that the watch shows. empty_selects_all: `{}`, and pods without labels, as the API says (1.38)."""

    def __init__(self, *, empty_selects_all: bool = True) -> None:
        self._empty_selects_all = empty_selects_all
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
        found = self._selecting.get(
            key, 1 + len(pod.labels), lambda: [one for one in own.values() if self._selects(one, pod)]
        )
        return [one for one in found if pod.name not in one.disrupted]

    def violated(self, units: Iterable[Sequence[Pod]]) -> list[tuple[PodDisruptionBudget, ...]]:
        """For each of the units, whose pods are evicted together and in this order, the budgets that it violates."""
        # Differs from kube-scheduler 1.37 and later: there the first violated budget ends the count for a pod, and
        # which one comes first is random.
        left: dict[tuple[str, str], int] = {}
        return [tuple(self._taken(unit, left)) for unit in units]

    def _taken(self, unit: Sequence[Pod], left: dict[tuple[str, str], int]) -> dict[PodDisruptionBudget, None]:
        violated: dict[PodDisruptionBudget, None] = {}
        for pod in unit if self._by_namespace else ():
            for budget in self.of(pod):
                left[budget.key] = left.get(budget.key, budget.disruptions_allowed) - 1
                if left[budget.key] < 0:
                    violated[budget] = None
        return violated

    def _forget(self) -> None:
        self._selecting = LruCache(MOST_KINDS, MOST_WORDS)

    def _selects(self, budget: PodDisruptionBudget, pod: Pod) -> bool:
        if not selects(budget.selector, pod.labels):
            return False
        # Differs from kube-scheduler up to 1.37: there an empty selector, or a pod without labels, is never counted.
        return self._empty_selects_all or bool(budget.selector and pod.labels)
