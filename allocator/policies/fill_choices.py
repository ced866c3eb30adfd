"""The choices of a pod on the states of nodes, for the policy fill-value: which devices, and what that loses.

The choices of a single device are all tried; of several devices each is taken where the least is left.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.policies.fill_demand import Array
from allocator.policies.fill_rollouts import FillShape, Units, tightest
from allocator.policies.fill_states import NodeState, NodeStates, Step

UNKNOWN = -1

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Choices:
    """Of one pod, on the states that were asked for.

    Each state has a place among those, and there its choices start. lost: of the value, for each choice. fewer: slots
    that are lost, for each choice and shape.
    """

    def __init__(self, states: NodeStates, asked: FillShape, shapes: int) -> None:
        self._states = states
        self._asked = asked
        self._place: Numbers = np.full(len(states), UNKNOWN)
        self._starts: list[int] = []
        self._lost: list[float] = []
        self._fewer: Array = np.zeros((64, shapes), np.float32)
        self._steps: list[Sequence[Step]] = []

    def __len__(self) -> int:
        return len(self._starts)

    def costs(self, states: Numbers, scarcity: Array) -> Floats:
        """The cost of the best choice in each of these states; infinite where there is none."""
        self._add_all(states)
        best: Floats = np.minimum.reduceat(self._costs(0, len(self._lost), scarcity), self._starts)
        return best[self._place[states]]

    def best(self, state: int, scarcity: Array) -> Sequence[Step]:
        """What becomes of which units in that state by the best choice; nothing where there is none."""
        self._add_all(np.array([state]))
        place = int(self._place[state])
        start, end = [*self._starts, len(self._lost)][place : place + 2]
        return self._steps[start + int(np.argmin(self._costs(start, end, scarcity)))]

    def _costs(self, start: int, end: int, scarcity: Array) -> Floats:
        lost = np.array(self._lost[start:end], np.float64)
        found: Floats = lost + (self._fewer[start:end] @ scarcity).astype(np.float64)
        return found

    def _add_all(self, states: Numbers) -> None:
        self._grow()
        for number in np.unique(states[self._place[states] == UNKNOWN]).tolist():
            self._add(self._states[number])

    def _grow(self) -> None:
        more = len(self._states) - len(self._place)
        if more > 0:
            self._place = np.pad(self._place, (0, more + len(self._place) // 2), constant_values=UNKNOWN)

    def _add(self, state: NodeState) -> None:
        self._place[state.number] = len(self._starts)
        self._starts.append(len(self._lost))
        choices = self._choices(state.units)
        for steps in choices:
            after = self._states.after(state, steps, self._asked)
            self._append(state.value - after.value, state.slots - after.slots, steps)
        if not choices:
            self._append(np.inf, np.zeros_like(state.slots), ())

    def _append(self, lost: float, fewer: Array, steps: Sequence[Step]) -> None:
        row = len(self._lost)
        if row == len(self._fewer):
            self._fewer = np.pad(self._fewer, ((0, row), (0, 0)))
        self._lost.append(lost)
        self._fewer[row] = fewer
        self._steps.append(steps)

    def _choices(self, units: Units) -> list[Sequence[Step]]:
        """Those of a single device, the unit with the least left first."""
        if sum(count for _, count in self._asked.requests) != 1:
            found = self._tightest(units)
            return [] if found is None else [found]
        request = next(request for request, count in self._asked.requests if count)
        of_units = self._states.units
        different = sorted(set(units), key=lambda unit: (of_units.left[unit], unit))
        return [((unit, after),) for unit in different for after in of_units.nexts(unit, request)]

    def _tightest(self, units: Units) -> Sequence[Step] | None:
        now, steps = list(units), list[Step]()
        for request, count in self._asked.requests:
            taken = tightest(self._states.units, now, request, count)
            if taken is None:
                return None
            for place, after in taken:
                steps.append((now[place], after))
                now[place] = after
        return steps
