"""The budget of an attempt: how much work may be done before the answer is that it is not known.

Work is counted in what is read: devices, values, amounts, units of the cost of an expression. `WORK_OF_A_STEP` of it is
a step of the search, so that all steps take about as long, wherever the work is done.
"""

from typing import Final, final

from allocator.outcome import AllocationError

WORK_OF_A_STEP: Final = 50
"""Devices, values and amounts read that count as one step; a fifth of a microsecond each."""

FREE_STEPS: Final = 10_000
"""What an attempt may do before its search without using up its budget: far more than usual claims need."""

_UNLIMITED: Final = 1 << 62


class OutOfSteps(AllocationError):
    """The budget is spent before the search begins: whether there is an answer is not known."""


@final
class Budget:
    """The steps of one attempt, or of several. spent: work so far. evaluated: expressions that are charged already."""

    __slots__ = ("_most", "evaluated", "spent")

    def __init__(self, steps: int = _UNLIMITED) -> None:
        self.spent = 0
        self.evaluated: set[str] = set()
        self._most = (steps + FREE_STEPS) * WORK_OF_A_STEP

    @property
    def steps(self) -> int:
        """How many of the steps are spent."""
        return max(0, self.spent // WORK_OF_A_STEP - FREE_STEPS)

    def charge(self, work: int) -> None:
        """Count work that is done, or about to be. Raises OutOfSteps."""
        self.spent += work
        if self.spent > self._most:
            raise OutOfSteps(f"no answer within {self.steps} steps")
