"""Who has to go from one node: units by importance, the budgets that they violate, and who can be given back.

A unit goes as a whole: a pod, or a group of pods. All that are lower than the preemptor are taken away first; if it
fits then, each is given back in its order if the preemptor still fits. Fitting is monotone in who is gone: a run of
units that can all stay is found by one look, and the others by halving; v victims of n units take O(v log n) looks.
Source: kube-scheduler's preemption.go SelectVictimsOnNode.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import inf

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.state.pods_by_priority import DisruptionBudgets, priority_of

_REMEMBERED = 1 << 14


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that go together. importance: the smaller, the more important. started: when, inf where it did not yet."""

    pods: tuple[Pod, ...]
    priority: int
    started: float

    @staticmethod
    def of(pod: Pod) -> "Unit":
        """The pod alone."""
        return Unit((pod,), priority_of(pod), moment(pod.started))

    @property
    def uids(self) -> list[str]:
        """Of its pods."""
        return [pod.uid for pod in self.pods]

    @property
    def importance(self) -> tuple[int, int, float, str]:
        """By priority, as a group of more pods, by who started earlier; then by uid, which decides nothing."""
        # Differs from kube-scheduler up to 1.37, to which pods of one priority and start time have no order.
        return -self.priority, -len(self.pods), self.started, self.pods[0].uid


@lru_cache(_REMEMBERED)
def moment(text: str) -> float:
    """The time in seconds; what has not started yet is newer than everything."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp() if text else inf


def lower_units(pods: Collection[Pod], priority: int) -> list[Unit]:
    """Those of the pods that are lower, the most important first."""
    units = [Unit.of(pod) for pod in pods if priority_of(pod) < priority]
    return sorted(units, key=lambda unit: unit.importance)


@dataclass(frozen=True, slots=True)
class Reprieve:
    """The order in which units are given back: first those whose eviction violates a budget, and how many they are."""

    units: Sequence[Unit]
    violating: int
    violated: Sequence[tuple[PodDisruptionBudget, ...]]
    """The budgets, of the first ones."""

    @staticmethod
    def of(units: Sequence[Unit], budgets: DisruptionBudgets) -> "Reprieve":
        """units: the most important first. The split is made once, before anybody is given back."""
        violated = budgets.violated([unit.pods for unit in units])
        first = [(unit, own) for unit, own in zip(units, violated, strict=True) if own]
        others = [unit for unit, own in zip(units, violated, strict=True) if not own]
        return Reprieve([*(unit for unit, _ in first), *others], len(first), [own for _, own in first])

    def violations(self, victims: Iterable[Unit]) -> tuple[int, tuple[PodDisruptionBudget, ...]]:
        """How many pods of the victims violate a budget, and which budgets these are."""
        gone = {unit.pods[0].uid for unit in victims}
        violating = [
            (unit, own) for unit, own in zip(self.units, self.violated, strict=False) if unit.pods[0].uid in gone
        ]
        budgets = {budget: None for _, own in violating for budget in own}
        return sum(len(unit.pods) for unit, _ in violating), tuple(budgets)


Away = Callable[[Sequence[Unit]], AbstractContextManager[None]]
"""Takes units away for the time of a context."""


def victims_of(units: Sequence[Unit], fits: Callable[[], bool], away: Away) -> list[Unit]:
    """Those of the units, which are all there, that have to go; each is given back if the preemptor fits with it.

    It fits with all of them gone, and everybody else who can be is away. The order of the units decides.
    """
    if fits():
        return []
    return _victims_among(units, fits, away)


def _victims_among(units: Sequence[Unit], fits: Callable[[], bool], away: Away) -> list[Unit]:
    """The same where not all of them can stay."""
    if len(units) == 1:
        return list(units)
    first, last = units[: len(units) // 2], units[len(units) // 2 :]
    with away(last):
        victims = victims_of(first, fits, away)
    with away(victims):
        return [*victims, *victims_of(last, fits, away)]


def guessed_victims(
    gains: Sequence[tuple[Unit, int]], missing: int, enough: int, fits_without: Callable[[Sequence[Unit]], bool]
) -> list[Unit] | None:
    """The same as `victims_of` in one look, where it is right that the last units go that have enough together.

    gains: in their order, with what comes free of each at most. missing: so much has to be gained in any case. None:
    nothing is known then. Whoever is not among these goes in no case, since it fits with them gone; and each of them
    goes if it does not fit without it, whoever of those after it goes as well.
    """
    gained, first = 0, len(gains)
    while gained < enough and first:
        first -= 1
        gained += gains[first][1]
    after = gains[first:]
    going = [unit for unit, gain in after if gain]
    if gained < enough or not fits_without(going):
        return None
    for place, (unit, gain) in enumerate(after):
        if gain and gained - gain >= missing:
            others = [one for other, (one, more) in enumerate(after) if (more and one is not unit) or other > place]
            if fits_without(others):
                return None
    return going


EvictionCost = tuple[int, int, int, int, float]
"""What a node costs; the least is chosen. Source: kube-scheduler's pickOneNodeForPreemption."""

LOWEST = 1 << 31
"""Makes each priority count as positive, so that fewer victims of a negative priority are better."""


def cost_of(victims: Sequence[Unit], violations: int) -> EvictionCost:
    """Violations, the highest priority, the sum of all, how many pods; then the latest of the first starts is best.

    victims: the most important first; none cost nothing.
    """
    if not victims:
        return 0, -LOWEST, 0, 0, -inf
    pods = [(unit.priority, moment(pod.started)) for unit in victims for pod in unit.pods]
    highest = victims[0].priority
    earliest = min(started for priority, started in pods if priority == highest)
    return violations, highest, sum(priority + LOWEST for priority, _ in pods), len(pods), -earliest


def least_cost(gains: Sequence[tuple[Unit, int]], needed: int) -> EvictionCost | None:
    """What victims cost at least of which that much has to be gained; None where all of them gain less.

    gains: the most important first, and what there is of each at most. Somebody has to go in any case.
    """
    if needed <= 0:
        gains, needed = [(unit, 1) for unit, _ in gains], 1
    cheapest = [(unit, gain) for unit, gain in reversed(gains) if gain > 0]
    if not cheapest or sum(gain for _, gain in cheapest) < needed:
        return None
    most, gained, highest = max(gain for _, gain in cheapest), 0, 0
    for unit, gain in cheapest:
        highest, gained = unit.priority, gained + gain
        if gained >= needed:
            break
    count = max(1, -(-needed // most))
    sums = sum(unit.priority + LOWEST for unit, _ in cheapest[:count])
    # At the highest priority, so many have to go at least, and the first of them started no later than that many did.
    below = sum(gain for unit, gain in cheapest if unit.priority < highest)
    started = sorted((unit.started for unit, _ in cheapest if unit.priority == highest), reverse=True)
    return 0, highest, sums, count, -started[max(1, -(-(needed - below) // most)) - 1]
