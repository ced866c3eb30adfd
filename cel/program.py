"""An expression, compiled: what it reads, what it costs at most, and its answer on a device.

The way of an expression: lexer, parser (with macros), checker, validation, type of the result, plan; each of them may
refuse it with a CompileError. A program keeps nothing of the devices that it has seen, and threads may share it.
Source: k8s.io/dynamic-resource-allocation/cel, CompileCELExpression, DeviceMatches and EvaluateDerivedAttribute.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, TypeVar

from cel.check import cost, validation
from cel.check.checker import Checked, check
from cel.device.device import BoundDevice, Device, bind_device
from cel.device.reads import Reads, reads_of
from cel.environment import V1_37, Environment
from cel.errors import CompileError, EvalError
from cel.memo import Memo
from cel.run import interpreter
from cel.run.frame import COST_LIMIT, Frame
from cel.stack import with_room
from cel.syntax import lexer
from cel.syntax.parser import parse
from cel.values import types
from cel.values.semver import Semver
from cel.values.types import Kind, Type
from cel.values.values import List, Optional, Value, type_of

LONGEST_SOURCE: Final = 10 * 1024  # bytes of UTF-8, as the API server allows
MOST_PROGRAMS: Final = 4096
MOST_TEXT: Final = 2**19  # characters of all programs that are kept; a program takes up to 240 bytes for each
_MOST_CHECKED: Final = 32  # a program is first asked for its cost soon after it was compiled


@dataclass(frozen=True, slots=True)
class Outcome:
    """One evaluation: its value, or the error instead, and its cost (0 where the device could not be read)."""

    value: Value
    error: EvalError | None
    cost: int


class _Compiled(ABC):
    """What programs for selectors and for attributes have in common."""

    def __init__(self, checked: Checked, environment: Environment) -> None:
        planned = interpreter.plan(checked, environment)
        self._evaluate = planned.evaluate
        self._slots = planned.slots
        self._has_lists = environment.has_list_attributes
        self.source: str = checked.source
        self.reads: Reads = reads_of(checked)
        self._environment = environment

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"

    @cached_property
    def estimated_cost(self) -> int:
        """The worst case in the reference's units, at most 2**64 - 1; found when first asked for, as few ask."""
        return with_room(lambda: cost.estimate(_checked(self.source, self._environment)).high)

    def run(self, device: Device | BoundDevice, cost_limit: int = COST_LIMIT) -> Outcome:
        """Evaluates; the error is part of the outcome instead of being raised, and so is the cost."""
        try:
            frame = Frame(bind_device(device, has_lists=self._has_lists), self._slots, cost_limit)
        except EvalError as error:
            return Outcome(None, error, 0)
        try:
            return Outcome(self._result(frame.run(self._evaluate)), None, frame.cost)
        except EvalError as error:
            return Outcome(None, error, frame.cost)

    @abstractmethod
    def _result(self, value: Value) -> Value:
        """What the value of the expression means; raises EvalError of phase "output"."""

    def _raising(self, device: Device | BoundDevice, is_cancelled: Callable[[], bool] | None) -> Value:
        frame = Frame(bind_device(device, has_lists=self._has_lists), self._slots, COST_LIMIT, is_cancelled)
        return self._result(frame.run(self._evaluate))


_Some = TypeVar("_Some", bound=_Compiled)


class Program(_Compiled):
    """A compiled selector.

    source: as written. reads: the parts of a device that it looks at (an attribute that can't be read fails it all the
    same).
    """

    def evaluate(self, device: Device | BoundDevice, is_cancelled: Callable[[], bool] | None = None) -> bool:
        """Whether the device is selected; raises EvalError, Cancelled. is_cancelled: asked by loops now and then."""
        selected = self._raising(device, is_cancelled)
        assert isinstance(selected, bool)
        return selected

    def _result(self, value: Value) -> Value:
        while isinstance(value, Optional) and value.is_present:
            value = value.value
        if isinstance(value, bool):
            return value
        name = type_of(value).name
        raise EvalError(f"CEL result of type {name} could not be converted to bool", "output")


class Attribute(NamedTuple):
    """The value of an attribute, in the form that `Device.attributes` has."""

    kind: str
    value: object


class ValueProgram(_Compiled):
    """A derived attribute: an expression with a bool, an int, a string, a version, or a list of one of these."""

    def evaluate(self, device: Device | BoundDevice, is_cancelled: Callable[[], bool] | None = None) -> Attribute:
        """The attribute; raises EvalError, Cancelled. is_cancelled: asked by loops now and then."""
        attribute = self._raising(device, is_cancelled)
        assert isinstance(attribute, Attribute)
        return attribute

    def _result(self, value: Value) -> Value:
        if not isinstance(value, List):
            return _scalar(value)
        kinds = {_scalar(item).kind for item in value} or {"string"}
        if len(kinds) > 1:
            raise EvalError(f"a list of {' and '.join(sorted(kinds))}", "output")
        return Attribute(f"{kinds.pop()}s", tuple([_scalar(item).value for item in value]))


def _scalar(value: Value) -> Attribute:
    while isinstance(value, Optional) and value.is_present:
        value = value.value
    for class_, kind in ((bool, "bool"), (int, "int"), (str, "string")):
        if type(value) is class_:
            return Attribute(kind, value)
    if isinstance(value, Semver):
        return Attribute("version", value.text)
    if isinstance(value, Type):
        return Attribute("string", value.name)
    raise EvalError(f"unsupported type of an attribute: {type_of(value).name}", "output")


def compile_selector(text: str, environment: Environment = V1_37) -> Program:
    """A selector, compiled or from the cache; raises CompileError, for a refused one from the cache too."""
    return _known(_selectors, text, environment, _selecting)


def compile_value(text: str, environment: Environment = V1_37) -> ValueProgram:
    """The expression of a derived attribute, compiled or from the cache; raises CompileError."""
    return _known(_values, text, environment, _deriving)


class CacheInfo(NamedTuple):
    """How full the cache of programs is: entries, of at most `most`, and how often one was found or made."""

    entries: int
    most: int
    hits: int
    misses: int


def cache_info() -> CacheInfo:
    """The state of the cache of selectors."""
    return CacheInfo(len(_selectors), _selectors.most, _selectors.hits, _selectors.misses)


_selectors: Final[Memo[tuple[str, Environment], Program | CompileError]] = Memo(MOST_PROGRAMS, MOST_TEXT)
_values: Final[Memo[tuple[str, Environment], ValueProgram | CompileError]] = Memo(MOST_PROGRAMS, MOST_TEXT)


def _known(
    memo: Memo[tuple[str, Environment], _Some | CompileError],
    text: str,
    environment: Environment,
    compile_: Callable[[str, Environment], _Some],
) -> _Some:
    """What is made of an expression, now or before; raises CompileError, anew each time."""
    if len(text) > LONGEST_SOURCE:
        return _compiled(text, environment, compile_)

    def make() -> _Some | CompileError:
        try:
            return _compiled(text, environment, compile_)
        except CompileError as error:
            return error.with_traceback(None)

    found = memo.get((text, environment), len(text), make)
    if isinstance(found, CompileError):
        raise CompileError(found.message, found.line, found.column, found.source)
    return found


def _selecting(text: str, environment: Environment) -> Program:
    checked = _checked(text, environment)
    if checked.type not in environment.results:
        raise lexer.error_at(f"must evaluate to bool or the unknown type, not {checked.type}", 0, text)
    return Program(checked, environment)


def _deriving(text: str, environment: Environment) -> ValueProgram:
    checked = _checked(text, environment)
    if not _is_attribute(checked.type):
        kinds = "a primitive scalar (string, integer, boolean, semver) or a list of these scalars"
        raise lexer.error_at(f"must evaluate to {kinds}, not {checked.type}", 0, text)
    return ValueProgram(checked, environment)


def _compiled(text: str, environment: Environment, compile_: Callable[[str, Environment], _Some]) -> _Some:
    """What is made of an expression; raises CompileError, also where its types nest deeper than calls may."""
    try:
        return with_room(lambda: compile_(text, environment))
    except RecursionError:
        raise lexer.error_at("expression recursion limit exceeded: its types nest too deep", 0, text) from None


def _is_attribute(type_: Type) -> bool:
    scalar = type_.parameters[0] if type_.kind is Kind.LIST else type_
    return any(types.is_equivalent(scalar, allowed) for allowed in _SCALARS)


_SCALARS: Final = (types.BOOL, types.INT, types.STRING, types.ANY, types.DYN, types.SEMVER)


@lru_cache(maxsize=_MOST_CHECKED)
def _checked(text: str, environment: Environment) -> Checked:
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise lexer.error_at("not a valid Unicode text", error.start, text) from None
    if length > LONGEST_SOURCE:
        raise lexer.error_at(f"longer than {LONGEST_SOURCE} bytes: {length}", 0, text)
    checked = check(parse(text, environment.syntax), text, environment)
    validation.validate(checked)
    return checked
