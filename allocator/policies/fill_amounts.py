"""What rollouts fill of the units of nodes, for the policy fill-value: worked out once for each set of units.

For most amounts of cpu and memory the rollouts do the same, so that what was worked out for one counts for others.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from allocator.policies.fill_rollouts import PLENTY, Filled, Rollouts, Units
from allocator.policies.unit_states import UnitStates

MOST_KEPT: Final = 1 << 17
"""Amounts that are kept; beyond, all are forgotten."""


class FillAmounts:
    """The amounts by units, which have numbers. units: of each. worth: of these. totals: see `Rollouts.totals`."""

    def __init__(self, states: UnitStates, rollouts: Rollouts) -> None:
        self.units: list[Units] = []
        self.worth: list[int] = []
        self.totals: list[list[int]] = []
        self._states = states
        self._rollouts = rollouts
        self._numbers: dict[Units, int] = {}
        self._least_cpu: dict[int, list[int]] = {}
        self._filled: dict[int, list[Filled]] = {}
        self._short: dict[tuple[int, int, int], int] = {}
        self._kept = 0
        self.rolled_out = 0

    def number(self, units: Iterable[int]) -> int:
        """The number of these units, those left out that no request of the workload can use."""
        serves, left = self._states.serves, self._states.left
        ordered = sorted([(left[unit], unit) for unit in units if serves[unit]])
        own = tuple([unit for _, unit in ordered])
        known = self._numbers.get(own)
        if known is None:
            known = self._numbers[own] = len(self.units)
            self.units.append(own)
            self.totals.append(self._rollouts.totals(own))
            self.worth.append(sum([self._states.worth[unit] for unit in own]))
        return known

    def of(self, units: int, cpu: int, memory: int) -> int:
        """What all sequences together fill of the units of that number. Cost: a rollout of each, the first time."""
        least = self._least_cpu.get(units)
        if least is not None:
            place = bisect_right(least, cpu) - 1
            if place >= 0:
                filled = self._filled[units][place]
                if cpu <= filled.most_cpu and memory >= filled.least_memory:
                    return filled.amount
        known = self._short.get((units, cpu, memory))
        return self._work_out(units, cpu, memory) if known is None else known

    def _work_out(self, units: int, cpu: int, memory: int) -> int:
        if self._kept >= MOST_KEPT:
            self._least_cpu.clear()
            self._filled.clear()
            self._short.clear()
            self._kept = 0
        self._kept += 1
        self.rolled_out += 1
        found = self._rollouts.fill(self.units[units], cpu, memory)
        if found.least_memory == PLENTY:
            self._short[units, cpu, memory] = found.amount
        else:
            self._keep(units, found)
        return found.amount

    def _keep(self, units: int, found: Filled) -> None:
        least = self._least_cpu.get(units)
        if least is None:
            least = self._least_cpu[units] = []
            self._filled[units] = []
        place = bisect_right(least, found.least_cpu)
        least.insert(place, found.least_cpu)
        self._filled[units].insert(place, found)
