"""The frame of one evaluation (device, variables of macros, cost so far), and paths from what it holds."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, TypeAlias, final

from cel.device import BoundDevice
from cel.errors import Cancelled, EvalAbortedError, EvalError, bare
from cel.run.patterns import WORK_OF_AN_INSTRUCTION, Pattern, PatternBudget, known_pattern
from cel.stack import on_own_stack, with_room
from cel.values.numbers import text_of_double
from cel.values.values import ABSENT, MAX_UINT, MISSING, List, Map, Optional, Uint, Value, type_of

COST_LIMIT: Final = 1_000_000  # per evaluation, as in kube-scheduler and the API server
MOST_BESIDE: Final = 2**23  # work in one evaluation
MOST_ELEMENTS: Final = 2**23  # of all aggregates that calls process in one evaluation
# Besides their costs, which count the sizes of what calls read and make:
WORK_OF_AN_OPERATOR: Final = 2
WORK_OF_A_FUNCTION: Final = 16  # to parse a URL or a quantity takes some microseconds
WORK_OF_AN_ERROR: Final = 12
ITERATIONS_PER_POLL: Final = 256  # between two polls of `is_cancelled`: well below a millisecond
WORK_PER_POLL: Final = 4096  # of a call, or elements of its arguments: it is not made without such a poll


@final
class Frame:
    """The state of one evaluation, and its cost in the reference's units.

    beyond: of the cost what was refused, and not done. beside: work that the cost leaves out. calls: the work of calls
    as such, whatever their size. stops_early: an operand that fails ends its call, literal or comparison, which then
    costs nothing but for `==`, `!=` and `!`; before 1.38 the operand beside it was evaluated, too, and the step was
    charged.

    slots: the values of the variables of macros, numbered by the planner. elements_left: that calls may still process,
    see `spend_elements`. patterns: that calls may still compile. is_cancelled: polled by loops, and before calls
    that are much work. iterations: of all loops so far.
    """

    __slots__ = (
        "_polled_at",
        "beside",
        "beyond",
        "calls",
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
        self._polled_at = 0
        self.cost = 0
        self.beyond = 0
        self.beside = 0
        self.calls = 0
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
        """The cost, and what it leaves out: calls, elements that they processed, patterns that they compiled."""
        compiled = 0 if self.patterns is None else self.patterns.spent
        elements = MOST_ELEMENTS - self.elements_left
        left_out = self.beside + self.calls + elements // 4 + WORK_OF_AN_INSTRUCTION * compiled
        return min(self.cost - self.beyond, self.limit) + left_out

    def _ended(self, error: EvalError) -> EvalError:
        self.slots.clear()  # they may hold it
        return bare(error)

    def iterate(self) -> None:
        """Counts an iteration of a loop. Raises Cancelled."""
        self.iterations += 1
        if self.iterations % ITERATIONS_PER_POLL == 0:
            self._poll()
        else:
            self.poll_by_cost()

    def poll_by_cost(self) -> None:
        """Looks at the time if much was charged since the last time. Raises Cancelled."""
        if self.cost - self._polled_at > WORK_PER_POLL:
            self._poll()

    def _poll(self) -> None:
        self._polled_at = self.cost
        if self.is_cancelled is not None and self.is_cancelled():
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
            before = self.elements_left
            self.elements_left -= value.weight
            if before // WORK_PER_POLL != self.elements_left // WORK_PER_POLL:
                self._poll()
            if self.elements_left < 0:
                raise EvalAbortedError(
                    f"operation cancelled: work on more than {MOST_ELEMENTS} parts of lists and maps"
                )

    def spend_beside(self, work: int) -> None:
        """Counts work of a call that its cost leaves out. Raises Cancelled."""
        before = self.beside
        self.beside += work
        if self.beside > MOST_BESIDE:
            raise EvalAbortedError("operation cancelled: calls such as searches take too long")
        if before // WORK_PER_POLL != self.beside // WORK_PER_POLL:
            self._poll()

    def spend_search(self, text: Value, pattern: Value, known: PatternBudget | None, *, finds_all: bool) -> None:
        """Counts a search before it is made, with compiling its pattern. Raises Cancelled, EvalAbortedError.

        known: the constant patterns of the expression, if this is one of them.
        """
        if not isinstance(text, str) or not isinstance(pattern, str):
            return
        if known is None:
            if self.patterns is None:
                self.patterns = PatternBudget()
            known = self.patterns
        with suppress(ValueError):  # the call itself reports an invalid pattern
            known.spend(pattern)
        compiled = known_pattern(pattern)
        anew = WORK_OF_AN_INSTRUCTION * compiled.compiled if known.is_large else 0
        search = compiled.work_on(text, finds_all=finds_all) if isinstance(compiled, Pattern) else 0
        self.spend_beside(anew + search)


Evaluate: TypeAlias = Callable[[Frame], Value]


class Planned(NamedTuple):
    """An expression that is ready to run, and the number of slots that its variables need.

    compiled: instructions of its constant patterns.
    """

    evaluate: Evaluate
    slots: int
    compiled: int


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


# Paths: a variable or the result of a call, followed by fields and indices.
#
# The reference plans `a.b[c].?d` as one step with a list of qualifiers, and its costs follow from that: one unit for
# the path, one for each qualifier that is applied. After the first optional qualifier, an absent value ends the path
# with `optional.none()` instead of an error. A path can also start with a conditional; then each branch gets the
# qualifiers. Source: interpreter/attributes.go of github.com/google/cel-go.


_KEY_CLASSES: Final = frozenset({str, int, Uint, bool, float})


def is_key(value: Value) -> bool:
    """Whether a value can be an index."""
    return type(value) in _KEY_CLASSES


class Qualifier(ABC):
    """One field or index. is_optional: written with a question mark; is_test: the last of `has(...)`."""

    __slots__ = ("is_optional", "is_test")

    def __init__(self, *, is_optional: bool = False, is_test: bool = False) -> None:
        self.is_optional = is_optional
        self.is_test = is_test

    @abstractmethod
    def key(self, frame: Frame) -> Value:
        """The key to look up; raises EvalError."""

    def apply(self, frame: Frame, value: Value) -> Value:
        """The value of the key (of a test: whether there is one); costs one unit, also on failure."""
        try:
            key = self.key(frame)
        except EvalAbortedError:
            raise
        except EvalError:
            frame.charge(1)
            raise
        frame.charge(1)
        own = look_up(value, key, is_presence_test=self.is_test)
        return own is not MISSING if self.is_test else own

    def find(self, frame: Frame, value: Value) -> Value:
        """The value of the key, or MISSING; costs one unit if it is present, since 1.38 on failure, too."""
        try:
            own = look_up(value, self.key(frame), is_presence_test=True)
        except EvalAbortedError:
            raise
        except EvalError:
            if frame.stops_early:
                frame.charge(1)
            raise
        if own is not MISSING:
            frame.charge(1)
        return own


class ConstantQualifier(Qualifier):
    """A field, or an index that is a literal."""

    __slots__ = ("value",)

    def __init__(self, value: Value, *, is_optional: bool = False, is_test: bool = False) -> None:
        super().__init__(is_optional=is_optional, is_test=is_test)
        self.value = value

    def key(self, frame: Frame) -> Value:
        """The literal."""
        del frame
        return self.value


class ComputedQualifier(Qualifier):
    """An index that is computed."""

    __slots__ = ("_evaluate",)

    def __init__(self, evaluate: Evaluate, *, is_optional: bool = False) -> None:
        super().__init__(is_optional=is_optional)
        self._evaluate = evaluate

    def key(self, frame: Frame) -> Value:
        """The value of the expression in the brackets."""
        key = self._evaluate(frame)
        if not is_key(key):
            raise EvalError(f"invalid qualifier type: {type_of(key).name}")
        return key


class Path(ABC):
    """Something that qualifiers can be added to; `evaluate` is its value as an operand."""

    __slots__ = ()

    @abstractmethod
    def add(self, qualifier: Qualifier) -> None:
        """Appends a qualifier, while planning."""

    @abstractmethod
    def resolve(self, frame: Frame) -> Value:
        """The value, without charging the unit for the path itself."""

    @abstractmethod
    def evaluate(self, frame: Frame) -> Value:
        """The value; charges the full cost."""


class ValuePath(Path):
    """A path from a variable or from the result of another expression, the root."""

    __slots__ = ("qualifiers", "root")

    def __init__(self, root: Evaluate) -> None:
        self.root = root
        self.qualifiers: list[Qualifier] = []

    def add(self, qualifier: Qualifier) -> None:
        """Appends a qualifier."""
        self.qualifiers.append(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """Applies the qualifiers one after the other."""
        return self.applied(frame, self.root(frame))

    def applied(self, frame: Frame, value: Value) -> Value:
        """Applies the qualifiers to the value of the root."""
        is_optional = type(value) is Optional
        if type(value) is Optional:
            if not value.is_present:
                return value
            value = value.value
        for qualifier in self.qualifiers:
            if is_optional or qualifier.is_optional:
                is_optional = True
                value = qualifier.find(frame, value)
                if value is MISSING:
                    return ABSENT
            else:
                value = qualifier.apply(frame, value)
        return Optional(value) if is_optional else value

    def evaluate(self, frame: Frame) -> Value:
        """The value; of `has(...)` a bool, which costs nothing by itself."""
        if self.is_test:
            value = self.resolve(frame)
            return value.is_present if isinstance(value, Optional) else value
        try:
            value = self.resolve(frame)
        except EvalAbortedError:
            raise
        except EvalError:
            frame.charge(1)
            raise
        frame.charge(1)
        return value

    @property
    def is_test(self) -> bool:
        """Whether this is `has(...)`."""
        return bool(self.qualifiers) and self.qualifiers[-1].is_test


class ConditionalPath(Path):
    """`condition ? a : b`, whose branches are paths."""

    __slots__ = ("_condition", "_if_false", "_if_true", "_is_test")

    def __init__(self, condition: Evaluate, if_true: Path, if_false: Path) -> None:
        self._condition = condition
        self._if_true = if_true
        self._if_false = if_false
        self._is_test = False

    def add(self, qualifier: Qualifier) -> None:
        """Appends the qualifier to both branches."""
        self._is_test = qualifier.is_test
        self._if_true.add(qualifier)
        self._if_false.add(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """The value of the branch that the condition chooses."""
        chosen = self._condition(frame)
        if chosen is True:
            return self._if_true.resolve(frame)
        if chosen is False:
            return self._if_false.resolve(frame)
        raise EvalError("no such overload")

    def evaluate(self, frame: Frame) -> Value:
        """The value; a conditional costs nothing by itself, and before 1.38 `has(...)` of one even refunds a unit."""
        if not self._is_test:
            return self.resolve(frame)
        try:
            value = self.resolve(frame)
        except EvalAbortedError:
            raise
        except EvalError:
            if not frame.stops_early:
                frame.refund()
            raise
        if not frame.stops_early:
            frame.refund()
        return value.is_present if isinstance(value, Optional) else value


class GuardedPath(Path):
    """A path that continues on a new stack if there is little space left."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, qualifier: Qualifier) -> None:
        """Appends the qualifier to the path."""
        self._path.add(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """As the path does."""
        return with_room(self._path.resolve, frame)

    def evaluate(self, frame: Frame) -> Value:
        """As the path does."""
        return with_room(self._path.evaluate, frame)


def look_up(value: Value, key: Value, *, is_presence_test: bool) -> Value:
    """The field or element `key` of a value; if absent, MISSING in a presence test, else raises EvalError."""
    if isinstance(value, Map):
        own = value.find(key)
        if own is MISSING and not is_presence_test:
            raise no_such_key(key)
        return own
    if isinstance(value, List):
        index = list_index(key)
        if 0 <= index < len(value):
            return value[index]
        if is_presence_test:
            return MISSING
        raise EvalError(f"index out of bounds: {text_of_key(key)}")
    if is_presence_test:
        return MISSING
    raise no_such_key(key)


def list_index(key: Value) -> int:
    """The index of a list for a key, which must be a whole number; raises EvalError."""
    if type(key) is int:
        return key
    if type(key) is float or type(key) is Uint:
        if abs(key) < 2**63 and float(key).is_integer():
            return int(key)
        raise EvalError(f"unsupported index value {text_of_key(key)} in list")
    raise EvalError(f"unsupported index type '{type_of(key)}' in list")


def no_such_key(key: Value) -> EvalError:
    """The error of a field or entry that is absent."""
    return EvalError(f"no such key: {text_of_key(key)}")


def text_of_key(key: Value) -> str:
    """A key as errors show it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return text_of_double(key)
    return key if isinstance(key, str) else str(int(key)) if isinstance(key, int) else repr(key)


# Fast evaluation of the paths into `device`, of which most selectors consist: without intermediate maps.
#
# The results and the cost are those of `ValuePath`: one unit for the path and one for each qualifier applied.


DevicePath: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """The paths that an expression reads, such as ("driver",) or ("attributes", domain, identifier).

    A shorter path includes everything below it, the empty path the whole device. No path includes another one.
    texts: the literal strings that a path is compared with, by `==`, `!=` or `in`, such as (("driver",), "a.example").
    """

    paths: frozenset[DevicePath]
    texts: frozenset[tuple[DevicePath, str]] = frozenset()


_TABLES: Final = frozenset({"attributes", "capacity"})
_FIELDS: Final = {"driver": "driver", "allowMultipleAllocations": "allow_multiple_allocations"}


def device_variable(frame: Frame) -> Value:
    """The variable `device` as a map."""
    return frame.device.value


def device_evaluator(path: ValuePath) -> Evaluate:
    """The fastest evaluation of a path."""
    if not path.qualifiers:
        return costing(1, path.root)
    if any(not isinstance(qualifier, ConstantQualifier) for qualifier in path.qualifiers):
        return path.evaluate
    keys = tuple([qualifier.value for qualifier in path.qualifiers if isinstance(qualifier, ConstantQualifier)])
    if any(qualifier.is_optional or qualifier.is_test for qualifier in path.qualifiers[:-1]):
        return path.evaluate
    fast = _in_device(path, keys) if path.root is device_variable else None
    if fast is not None:
        return fast
    last = path.qualifiers[-1]
    return path.evaluate if last.is_optional or last.is_test else _fields(path, keys)


def _in_device(path: ValuePath, keys: tuple[Value, ...]) -> Evaluate | None:
    last = path.qualifiers[-1]
    match keys:
        case (str(field),) if field in _FIELDS and not last.is_optional and not last.is_test:
            return _field(_FIELDS[field])
        case (str(table), str(domain)) if table in _TABLES and not last.is_optional and not last.is_test:
            return _entries(table, domain)
        case (str(table), str(domain), str(identifier)) if table in _TABLES and "/" not in domain + identifier:
            read = BoundDevice.attribute if table == "attributes" else BoundDevice.amount
            return _entry_of_kind(last, read, domain, identifier)
    return None


_Read: TypeAlias = Callable[[BoundDevice, str, str, str], Value]


def _entry_of_kind(last: object, read: _Read, domain: str, identifier: str) -> Evaluate:
    assert isinstance(last, ConstantQualifier)
    if last.is_test:
        return _test(read, domain, identifier)
    return (_optional_entry if last.is_optional else _entry)(read, domain, identifier)


def _field(name: str) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        frame.charge(2)
        value: Value = getattr(frame.device, name)
        return value

    return evaluate


def _entries(table: str, domain: str) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        frame.charge(3)
        return frame.device.entries(table, domain)

    return evaluate


def _entry(read: _Read, domain: str, identifier: str) -> Evaluate:
    name = f"{domain}/{identifier}"

    def evaluate(frame: Frame) -> Value:
        frame.cost += 4
        if frame.cost > frame.limit:
            frame.stop()
        value = read(frame.device, domain, identifier, name)
        if value is MISSING:
            raise no_such_key(identifier)
        return value

    return evaluate


def _optional_entry(read: _Read, domain: str, identifier: str) -> Evaluate:
    name = f"{domain}/{identifier}"

    def evaluate(frame: Frame) -> Value:
        try:
            value = read(frame.device, domain, identifier, name)
        except EvalError:
            frame.charge(4)
            raise
        if value is MISSING:
            frame.charge(3)
            return ABSENT
        frame.charge(4)
        return Optional(value)

    return evaluate


def _test(read: _Read, domain: str, identifier: str) -> Evaluate:
    name = f"{domain}/{identifier}"

    def evaluate(frame: Frame) -> Value:
        frame.charge(3)
        return read(frame.device, domain, identifier, name) is not MISSING

    return evaluate


def _fields(path: ValuePath, keys: tuple[Value, ...]) -> Evaluate:
    """A path of literal keys from a variable or from the result of an expression."""
    root, count = path.root, len(keys)

    def evaluate(frame: Frame) -> Value:
        try:
            value = root(frame)
        except EvalAbortedError:
            raise
        except EvalError:
            frame.charge(1)
            raise
        if isinstance(value, Optional):
            frame.charge(1)
            return path.applied(frame, value)
        frame.charge(1 + count)
        left = count
        try:
            for key in keys:
                left -= 1
                value = look_up(value, key, is_presence_test=False)
        except EvalError:
            frame.cost -= left
            raise
        return value

    return evaluate
