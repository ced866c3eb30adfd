"""The state of one evaluation: the device, the variables of macros, what it has cost so far."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn, TypeAlias, final

from cel.device.device import BoundDevice
from cel.errors import Cancelled, EvalAbortedError, EvalError, bare
from cel.run.patterns import PatternBudget
from cel.stack import on_own_stack
from cel.values.values import MAX_UINT, List, Map, Value

COST_LIMIT: Final = 1_000_000  # per evaluation, as in kube-scheduler and the API server
MOST_PARTS: Final = 2**23  # of all aggregates that calls are given in one evaluation
TURNS: Final = 256  # of loops, between two looks whether the answer is still wanted: well below a millisecond


@final
class Frame:
    """cost, limit: in the reference's units. slots: one per variable of a macro, numbered while planning.

    parts_left: of all lists and maps that calls are given, see `handle`. patterns: what calls may still compile.
    is_cancelled: asked now and then by loops. turns: of all loops so far.
    """

    __slots__ = ("cost", "device", "is_cancelled", "limit", "parts_left", "patterns", "slots", "turns")

    def __init__(
        self, device: BoundDevice, slots: int, limit: int, is_cancelled: Callable[[], bool] | None = None
    ) -> None:
        self.device = device
        self.is_cancelled = is_cancelled
        self.turns = 0
        self.cost = 0
        self.limit = limit
        self.slots: list[Value] = [None] * slots
        self.parts_left = MOST_PARTS
        self.patterns: PatternBudget | None = None

    def run(self, evaluate: "Evaluate") -> Value:
        """The value of an expression; begins anew on a stack of its own where there is no room. Raises EvalError."""
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

    def _ended(self, error: EvalError) -> EvalError:
        self.slots.clear()  # they may hold it
        return bare(error)

    def turn(self) -> None:
        """A loop begins its next turn. Raises Cancelled."""
        self.turns += 1
        if self.turns % TURNS == 0 and self.is_cancelled is not None and self.is_cancelled():
            raise Cancelled("cancelled while an expression was evaluated")

    def charge(self, cost: int) -> None:
        """Adds to the cost; raises EvalAbortedError beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            self.stop()

    def give_back(self) -> None:
        """Takes a unit off; where there is none, the reference's counter wraps around to beyond any limit."""
        self.cost -= 1
        if self.cost < 0:
            self.cost = MAX_UINT
            self.stop()

    def stop(self) -> NoReturn:
        """Ends the evaluation, which has cost more than its limit."""
        raise EvalAbortedError("operation cancelled: actual cost limit exceeded")

    def handle(self, value: Value) -> None:
        """Notes that a call is given `value`; raises EvalAbortedError where that is too much work in all.

        The reference has no such limit: its cost counts the elements of a list, but not what is inside of them.
        """
        if type(value) is List or isinstance(value, Map):
            self.parts_left -= value.weight
            if self.parts_left < 0:
                raise EvalAbortedError(f"operation cancelled: work on more than {MOST_PARTS} parts of lists and maps")

    def handle_pattern(self, pattern: Value) -> None:
        """Notes that a call compiles `pattern`; raises EvalAbortedError where that is too much work in all."""
        if self.patterns is None:
            self.patterns = PatternBudget()
        if isinstance(pattern, str):
            with suppress(ValueError):  # of a pattern that is none, which the call tells
                self.patterns.spend(pattern)


Evaluate: TypeAlias = Callable[[Frame], Value]


class Planned(NamedTuple):
    """A whole expression ready to run, with the number of slots that its variables need."""

    evaluate: Evaluate
    slots: int
