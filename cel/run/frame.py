"""The frame of one evaluation: device, variables of macros, cost so far."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn, TypeAlias, final

from cel.device import BoundDevice
from cel.errors import Cancelled, EvalAbortedError, EvalError, bare
from cel.run.patterns import PatternBudget
from cel.stack import on_own_stack
from cel.values.values import MAX_UINT, List, Map, Value

COST_LIMIT: Final = 1_000_000  # per evaluation, as in kube-scheduler and the API server
MOST_ELEMENTS: Final = 2**23  # of all aggregates that calls process in one evaluation
ITERATIONS_PER_POLL: Final = 256  # between two polls of `is_cancelled`: well below a millisecond


@final
class Frame:
    """The state of one evaluation, and its cost in the reference's units.

    beyond: of the cost what was refused, and not done. stops_early: an operand that fails ends its call, literal or
    comparison, which then costs nothing but for `==`, `!=` and `!`; before 1.38 the operand beside it was evaluated,
    too, and the step was charged.

    slots: the values of the variables of macros, numbered by the planner. elements_left: that calls may still process,
    see `spend_elements`. patterns: that calls may still compile. is_cancelled: polled by loops. iterations: of all
    loops so far.
    """

    __slots__ = (
        "beyond",
        "cost",
        "device",
        "elements_left",
        "is_cancelled",
        "iterations",
        "limit",
        "patterns",
        "slots",
        "stops_early",
    )

    def __init__(
        self, device: BoundDevice, slots: int, limit: int, is_cancelled: Callable[[], bool] | None = None
    ) -> None:
        self.device = device
        self.stops_early = device.on_demand  # both came with 1.38
        self.is_cancelled = is_cancelled
        self.iterations = 0
        self.cost = 0
        self.beyond = 0
        self.limit = limit
        self.slots: list[Value] = [None] * slots
        self.elements_left = MOST_ELEMENTS
        self.patterns: PatternBudget | None = None

    def run(self, evaluate: "Evaluate") -> Value:
        """The value of an expression; starts again on a new stack if this one overflows. Raises EvalError."""
        try:
            return evaluate(self)
        except EvalError as error:
            raise self._ended(error) from None
        except RecursionError:
            self.__init__(self.device, len(self.slots), self.limit, self.is_cancelled)
        try:
            return on_own_stack(evaluate, self)
        except EvalError as error:
            raise self._ended(error) from None
        except RecursionError:
            raise EvalAbortedError("operation cancelled: nested deeper than calls may nest") from None

    @property
    def work(self) -> int:
        """The cost, and what it leaves out: elements that calls have processed, and patterns that they compiled."""
        compiled = 0 if self.patterns is None else self.patterns.spent
        return min(self.cost - self.beyond, self.limit) + (MOST_ELEMENTS - self.elements_left) // 4 + 5 * compiled

    def _ended(self, error: EvalError) -> EvalError:
        self.slots.clear()  # they may hold it
        return bare(error)

    def iterate(self) -> None:
        """Counts an iteration of a loop. Raises Cancelled."""
        self.iterations += 1
        if self.iterations % ITERATIONS_PER_POLL == 0 and self.is_cancelled is not None and self.is_cancelled():
            raise Cancelled("cancelled while an expression was evaluated")

    def charge(self, cost: int) -> None:
        """Adds to the cost; raises EvalAbortedError beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            self.stop(cost)

    def refund(self) -> None:
        """Refunds one unit. At zero, the reference's counter wraps around, and exceeds any limit."""
        self.cost -= 1
        if self.cost < 0:
            self.cost = MAX_UINT
            self.stop(MAX_UINT)

    def stop(self, beyond: int = 0) -> NoReturn:
        """Aborts the evaluation, whose cost exceeds the limit. beyond: what of it is not done."""
        self.beyond = beyond
        raise EvalAbortedError("operation cancelled: actual cost limit exceeded")

    def spend_elements(self, value: Value) -> None:
        """Counts the elements of an argument of a call; raises EvalAbortedError beyond the limit.

        The reference has no such limit: its cost counts the elements of a list, but not those of nested ones.
        """
        if type(value) is List or isinstance(value, Map):
            self.elements_left -= value.weight
            if self.elements_left < 0:
                raise EvalAbortedError(
                    f"operation cancelled: work on more than {MOST_ELEMENTS} parts of lists and maps"
                )

    def spend_pattern(self, pattern: Value) -> None:
        """Counts a pattern that a call compiles; raises EvalAbortedError beyond the limit."""
        if self.patterns is None:
            self.patterns = PatternBudget()
        if isinstance(pattern, str):
            with suppress(ValueError):  # the call itself reports an invalid pattern
                self.patterns.spend(pattern)


Evaluate: TypeAlias = Callable[[Frame], Value]


class Planned(NamedTuple):
    """An expression that is ready to run, and the number of slots that its variables need."""

    evaluate: Evaluate
    slots: int


def costing(cost: int, step: Evaluate, *, is_lost: bool = False) -> Evaluate:
    """A step at a fixed cost, charged even if it fails, unless `is_lost` and the frame stops early."""

    def evaluate(frame: Frame) -> Value:
        try:
            value = step(frame)
        except EvalAbortedError:
            raise
        except EvalError:
            if not (is_lost and frame.stops_early):
                frame.charge(cost)
            raise
        frame.charge(cost)
        return value

    return evaluate
