"""The steps of an evaluation: logic, equality, literals and comprehensions.

Each function takes the steps of the operands, and returns the closure that evaluates the node. Errors are exceptions;
logic and comprehensions catch EvalError, but never EvalAbortedError. Costs are in the reference's units.
Source: interpreter/interpretable.go and cel/library.go of github.com/google/cel-go.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeGuard

from cel import stack
from cel.check.overloads import LIST_COST, MAP_COST, MESSAGE_COST, STRING_FACTOR, scaled
from cel.errors import EvalAbortedError, EvalError, bare, no_such_overload
from cel.ext.stdlib import cost_of_comparison, cost_of_equality
from cel.run.calls import both
from cel.run.frame import WORK_OF_AN_OPERATOR, Evaluate, Frame, costing
from cel.values.values import (
    GrowingList,
    GrowingMap,
    List,
    Map,
    Optional,
    Value,
    equal,
    key_of,
    size_of,
    type_of,
    weight_of,
)

# Logic


def logic(left: Evaluate, right: Evaluate, *, decisive: bool) -> Evaluate:
    """`&&` (decisive: False) and `||` (True): a decisive side wins over an error of the other one."""
    other = not decisive

    def evaluate(frame: Frame) -> Value:
        error: EvalError | None = None
        try:
            first = left(frame)
        except EvalAbortedError:
            raise
        except EvalError as failure:
            error = bare(failure)
        else:
            if first is decisive:
                return decisive
            if first is not other:
                error = no_such_overload()
        if error is None:
            second = right(frame)
        else:
            second = _absorbed(right, frame)
            if second is not decisive:
                raise error
        if second is decisive or second is other:
            return second
        raise no_such_overload()

    return evaluate


def _absorbed(evaluate: Evaluate, frame: Frame) -> Value:
    try:
        return evaluate(frame)
    except EvalAbortedError:
        raise
    except EvalError as error:
        bare(error)
        return None


def true_unless_false(operand: Evaluate) -> Evaluate:
    """The condition of `all` and `exists`: only `false` ends the loop, an error does not."""

    def evaluate(frame: Frame) -> Value:
        value = _absorbed(operand, frame)
        frame.charge(1)
        return value is not False

    return evaluate


def equality(left: Evaluate, right: Evaluate) -> Evaluate:
    """`==`."""

    def evaluate(frame: Frame) -> Value:
        first, second, error = both(frame, left, right)
        if error is not None:
            frame.charge(cost_of_equality((first, second), *_sizes(frame)))
            raise error
        if type(first) is str and type(second) is str:
            shorter = min(len(first), len(second))
            frame.cost += _TEXT_COSTS[shorter] if shorter < _MOST_TEXT_COSTS else scaled(shorter, STRING_FACTOR)
            if frame.cost > frame.limit:
                frame.stop()
            return first == second
        frame.charge(cost_of_equality((first, second), *_sizes(frame)))
        return _equal(frame, first, second)

    return evaluate


def _sizes(frame: Frame) -> tuple[Callable[[Value], int], ...]:
    return (size_of,) if frame.stops_early else ()


_MOST_TEXT_COSTS: Final = 256
_TEXT_COSTS: Final = [scaled(size, STRING_FACTOR) for size in range(_MOST_TEXT_COSTS)]


def inequality(left: Evaluate, right: Evaluate) -> Evaluate:
    """`!=`: true if the values cannot be compared."""

    def evaluate(frame: Frame) -> Value:
        first, second, error = both(frame, left, right)
        frame.charge(cost_of_comparison((first, second), *_sizes(frame)))
        if error is not None:
            raise error
        try:
            return not _equal(frame, first, second)
        except EvalAbortedError:
            raise
        except EvalError:
            return True

    return evaluate


def _equal(frame: Frame, left: Value, right: Value) -> bool:
    frame.calls += 2 * WORK_OF_AN_OPERATOR  # values of two types take longer
    frame.spend_elements(left)
    frame.spend_elements(right)
    return equal(left, right)


def or_else(left: Evaluate, right: Evaluate, *, unwraps: bool) -> Evaluate:
    """`or` and `orValue` (which unwraps): the right side if the left one is absent."""

    def evaluate(frame: Frame) -> Value:
        optional = left(frame)
        if not isinstance(optional, Optional):
            raise no_such_overload()
        if not optional.is_present:
            return right(frame)
        return optional.value if unwraps else optional

    return evaluate


def remembered(call: Evaluate) -> Evaluate:
    """A call with constant arguments, such as `semver("1.2.3")`: evaluated once, but charged each time."""
    known: list[tuple[Value, int]] = []

    def evaluate(frame: Frame) -> Value:
        if known:
            value, cost = known[0]
            frame.charge(cost)
            return value
        before = frame.cost
        value = call(frame)
        if weight_of(value) <= _HEAVIEST_REMEMBERED:
            known.append((value, frame.cost - before))
        return value

    return evaluate


_HEAVIEST_REMEMBERED: Final = 1000


def with_room(step: Evaluate) -> Evaluate:
    """The same step, on a new stack if there is little space left."""
    return lambda frame: stack.with_room(step, frame)


# Aggregates


def listed(elements: Sequence[Evaluate], optionals: frozenset[int]) -> Evaluate:
    """`[a, ?b]`."""
    wanted = [(element, index in optionals) for index, element in enumerate(elements)]

    def evaluate(frame: Frame) -> Value:
        items: list[Value] = []
        for element, is_optional in wanted:
            value = element(frame)
            if not is_optional:
                items.append(value)
            elif _is_present(value):
                items.append(value.value)
        return List(items)

    return costing(LIST_COST, evaluate, is_lost=True)


def _is_present(value: Value) -> TypeGuard[Optional]:
    """Whether an optional entry is present; raises EvalError if the value is no optional."""
    if not isinstance(value, Optional):
        raise EvalError("cannot initialize optional entry from non-optional value")
    return value.is_present


class Pair(NamedTuple):
    """An entry of a map literal."""

    key: Evaluate
    value: Evaluate
    is_optional: bool


def mapped(pairs: Sequence[Pair]) -> Evaluate:
    """`{key: value, ?key: optional}`; an absent value removes an earlier entry with an equal key."""

    def evaluate(frame: Frame) -> Value:
        entries: dict[Hashable, tuple[Value, Value]] = {}
        for pair in pairs:
            key, value = pair.key(frame), pair.value(frame)
            if not pair.is_optional:
                entries[key_of(key)] = key, value
            elif _is_present(value):
                entries[key_of(key)] = key, value.value
            else:
                entries.pop(key_of(key), None)
        return Map(entries.values())

    return costing(MAP_COST, evaluate, is_lost=True)


class FieldStep(NamedTuple):
    """A field of a message literal; convert: the value as one of the field's type, raises EvalError."""

    name: str
    value: Evaluate
    is_optional: bool
    convert: Callable[[Value], Value]


def constructed(fields: Sequence[FieldStep], make: Callable[[Mapping[str, Value]], Value]) -> Evaluate:
    """`Message{field: value}`: charged also where the values cannot be converted."""

    def evaluate(frame: Frame) -> Value:
        try:
            values = _given(fields, frame)
        except EvalAbortedError:
            raise
        except EvalError:
            if not frame.stops_early:
                frame.charge(MESSAGE_COST)
            raise
        frame.charge(MESSAGE_COST)
        return make({field.name: field.convert(values[field.name]) for field in fields if field.name in values})

    return evaluate


def _given(fields: Sequence[FieldStep], frame: Frame) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in fields:
        value = field.value(frame)
        if field.is_optional:
            if not _is_present(value):
                values.pop(field.name, None)
                continue
            value = value.value
        values[field.name] = value
    return values


# Variables of macros


class _Unused:
    """Marks the slot of a variable that has not been evaluated yet."""


_UNUSED: Final = _Unused()


def variable(slot: int) -> Evaluate:
    """Reads the variable of a loop."""
    return lambda frame: frame.slots[slot]


def accumulator(slot: int) -> Evaluate:
    """Reads the accumulator of a loop, or its second variable; each may be an error."""

    def evaluate(frame: Frame) -> Value:
        value = frame.slots[slot]
        if isinstance(value, EvalError):
            raise bare(value)
        return value

    return evaluate


def bound(slot: int, value: Evaluate) -> Evaluate:
    """Reads the variable of `cel.bind`, which is evaluated on the first read."""

    def evaluate(frame: Frame) -> Value:
        known = frame.slots[slot]
        if known is _UNUSED:
            try:
                known = value(frame)
            except EvalAbortedError:
                raise
            except EvalError as error:
                known = error
            frame.slots[slot] = known
        if isinstance(known, EvalError):
            raise bare(known)
        return known

    return evaluate


def binding(slot: int, result: Evaluate) -> Evaluate:
    """`cel.bind`."""

    def evaluate(frame: Frame) -> Value:
        frame.slots[slot] = _UNUSED
        return result(frame)

    return evaluate


def appended(left: Evaluate, right: Evaluate) -> Evaluate:
    """The `+` by which a macro appends to its result."""

    def evaluate(frame: Frame) -> Value:
        items, more, error = both(frame, left, right)
        if error is None or not frame.stops_early:
            frame.charge(1)
        if error is not None:
            raise error
        assert isinstance(items, GrowingList)
        assert isinstance(more, List)
        items.extend(more)
        return items

    return evaluate


# Loops


class Fold(NamedTuple):
    """The steps of a comprehension."""

    slots: tuple[int, int, int | None]
    """Of the accumulator, the first and the second variable."""
    range_: Evaluate
    start: Callable[[], Value]
    condition: Evaluate
    step: Evaluate
    result: Evaluate


def looped(loop: Fold) -> Evaluate:
    """Evaluates a comprehension over a list or map."""
    accumulator_slot, first_slot, second_slot = loop.slots
    condition, step = loop.condition, loop.step

    def evaluate(frame: Frame) -> Value:
        slots = frame.slots
        iterations = _iterations(loop.range_(frame), frame, has_two=second_slot is not None)
        slots[accumulator_slot] = loop.start()
        for turn in iterations:
            if second_slot is None:
                slots[first_slot] = turn
            else:
                slots[first_slot], slots[second_slot] = turn  # type: ignore[misc]
            frame.iterate()
            if _absorbed(condition, frame) is False:
                break
            try:
                slots[accumulator_slot] = step(frame)
            except EvalAbortedError:
                raise
            except EvalError as error:
                slots[accumulator_slot] = error
        return _finished(loop.result(frame))

    return evaluate


def _iterations(range_: Value, frame: Frame, *, has_two: bool) -> Iterable[Value]:
    """What a loop goes through; since 1.38 also an empty text, which has nothing."""
    if isinstance(range_, List):
        return enumerate(range_) if has_two else range_
    if isinstance(range_, Map):
        return range_.pairs() if has_two else range_
    if frame.stops_early and isinstance(range_, str | bytes) and not range_:
        return ()
    problem = "unsupported comprehension range type: {}" if has_two else "got '{}', expected iterable type"
    raise EvalError(problem.format(type_of(range_)))


def _finished(value: Value) -> Value:
    """The result of a comprehension, as an immutable value."""
    if isinstance(value, GrowingList):
        return List(value)
    return Map(value.items()) if isinstance(value, GrowingMap) else value
