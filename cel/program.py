"""A compiled expression: what it reads, what it costs at most, and its answer on a device.

It is compiled in an environment, of which there is one for each version of the language. Programs keep no state
between evaluations, and threads may share them.
Source: k8s.io/dynamic-resource-allocation/cel, DeviceMatches and EvaluateDerivedAttribute.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from cel.device import BoundDevice, DeviceLike, bind_device
from cel.errors import EvalError
from cel.run.frame import COST_LIMIT, Frame, Planned, Reads
from cel.run.patterns import WORK_OF_AN_INSTRUCTION
from cel.stack import with_room
from cel.values.semver import Semver
from cel.values.types import Type
from cel.values.values import List, Optional, Value, type_of


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """One version of the language, compared by identity. Its declarations are in `cel.check.checker`.

    has_list_attributes: whether attributes can have several values. reads_on_demand: an attribute that cannot be read
    fails where it is read; before, it failed every expression. counts_all: estimates know the sizes of keys and
    elements at any depth, and count the fields of values of any type.
    """

    name: str
    has_list_attributes: bool = True
    reads_on_demand: bool = False
    counts_all: bool = False

    def __repr__(self) -> str:
        return f"Environment({self.name})"


V1_38: Final = Environment("1.38", reads_on_demand=True, counts_all=True)
"""Kubernetes 1.38."""
V1_37: Final = Environment("1.37")
"""Kubernetes 1.37."""
V1_36: Final = Environment("1.36", has_list_attributes=False)
"""Kubernetes 1.36 with its default feature gates."""
V1_36_LISTS: Final = Environment("1.36 lists")
"""Kubernetes 1.36 with the gate for list attributes."""
V1_38_NEW: Final = Environment("new in 1.38", has_list_attributes=False)
"""What the API server of 1.38 takes in new objects without that gate: the language of the release before."""
V1_37_NEW: Final = Environment("new in 1.37", has_list_attributes=False)
"""The same of 1.37."""
V1_36_NEW: Final = Environment("new in 1.36", has_list_attributes=False)
"""The same of 1.36."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one evaluation: value or error, and cost (0 if the device could not be read)."""

    value: Value
    error: EvalError | None
    cost: int


class _Compiled(ABC):
    """The base of programs for selectors and for derived attributes. compiling: the work that it was to compile it."""

    def __init__(
        self, source: str, reads: Reads, environment: Environment, planned: Planned, estimate: Callable[[], int]
    ) -> None:
        self.source = source
        self.reads = reads
        self._environment = environment
        self._evaluate, self._slots, compiled = planned
        self.compiling = WORK_OF_A_CHARACTER * len(source) + WORK_OF_AN_INSTRUCTION * compiled
        self._estimate = estimate

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"

    @cached_property
    def estimated_cost(self) -> int:
        """The worst case in the reference's units, at most 2**64 - 1; computed on the first access."""
        return with_room(self._estimate)

    def run(self, device: DeviceLike | BoundDevice, cost_limit: int = COST_LIMIT) -> Outcome:
        """Evaluates the program. The outcome contains the error, if any, and the cost."""
        try:
            frame = Frame(self._bound(device), self._slots, cost_limit)
        except EvalError as error:
            return Outcome(None, error, 0)
        try:
            return Outcome(self._result(frame.run(self._evaluate)), None, frame.cost)
        except EvalError as error:
            return Outcome(None, error, frame.cost)

    def _bound(self, device: DeviceLike | BoundDevice) -> BoundDevice:
        environment = self._environment
        return bind_device(device, has_lists=environment.has_list_attributes, on_demand=environment.reads_on_demand)

    @abstractmethod
    def _result(self, value: Value) -> Value:
        """Converts the value of the expression; raises EvalError of phase "output"."""

    def _raising(self, device: DeviceLike | BoundDevice, is_cancelled: Callable[[], bool] | None) -> Value:
        frame = Frame(self._bound(device), self._slots, COST_LIMIT, is_cancelled)
        return self._result(frame.run(self._evaluate))

    def _worked(self, device: DeviceLike | BoundDevice, is_cancelled: Callable[[], bool] | None) -> "Worked":
        """The value or error, with the work that it was. Raises Cancelled."""
        try:
            frame = Frame(self._bound(device), self._slots, COST_LIMIT, is_cancelled)
        except EvalError as error:
            return Worked(error, WORK_OF_AN_EVALUATION)
        try:
            return Worked(self._result(frame.run(self._evaluate)), WORK_OF_AN_EVALUATION + frame.work)
        except EvalError as error:
            return Worked(error, WORK_OF_AN_EVALUATION + frame.work)


class Worked(NamedTuple):
    """What an evaluation has found, a value or an error, and the work that it was.

    Work is the cost and what the cost leaves out, in units of a quarter of a microsecond at most.
    """

    found: Value
    work: int


WORK_OF_A_CHARACTER: Final = 15
"""Of an expression that is compiled."""

WORK_OF_AN_EVALUATION: Final = 25
"""Besides its cost."""


class Program(_Compiled):
    """A compiled selector.

    reads: the paths of a device that the result depends on. Up to 1.37 an attribute that cannot be read fails every
    program.
    """

    def evaluate(self, device: DeviceLike | BoundDevice, is_cancelled: Callable[[], bool] | None = None) -> bool:
        """Whether the device is selected; raises EvalError, Cancelled. is_cancelled: polled by loops."""
        selected = self._raising(device, is_cancelled)
        assert isinstance(selected, bool)
        return selected

    def judge(self, device: DeviceLike | BoundDevice, is_cancelled: Callable[[], bool] | None = None) -> Worked:
        """Whether the device is selected, or the error; raises Cancelled. is_cancelled: polled by loops."""
        return self._worked(device, is_cancelled)

    def _result(self, value: Value) -> Value:
        while isinstance(value, Optional) and value.is_present:
            value = value.value
        if isinstance(value, bool):
            return value
        name = type_of(value).name
        raise EvalError(f"CEL result of type {name} could not be converted to bool", "output")


class Attribute(NamedTuple):
    """The value of an attribute, in the form that `DeviceLike.attributes` has."""

    kind: str
    value: object


class ValueProgram(_Compiled):
    """A derived attribute: an expression with a bool, an int, a string, a version, or a list of one of these."""

    def evaluate(self, device: DeviceLike | BoundDevice, is_cancelled: Callable[[], bool] | None = None) -> Attribute:
        """The attribute; raises EvalError, Cancelled. is_cancelled: polled by loops."""
        attribute = self._raising(device, is_cancelled)
        assert isinstance(attribute, Attribute)
        return attribute

    def derive(self, device: DeviceLike | BoundDevice, is_cancelled: Callable[[], bool] | None = None) -> Worked:
        """The attribute, or the error; raises Cancelled. is_cancelled: polled by loops."""
        return self._worked(device, is_cancelled)

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
