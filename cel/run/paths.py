"""Paths: a variable or the result of a call, followed by fields and indices.

The reference plans `a.b[c].?d` as one step with a list of qualifiers, and its costs follow from that: one unit for the
path, one for each qualifier that is applied. After the first optional qualifier, an absent value ends the path with
`optional.none()` instead of an error. A path can also start with a conditional; then each branch gets the qualifiers.
Source: interpreter/attributes.go of github.com/google/cel-go.
"""

from abc import ABC, abstractmethod
from typing import Final

from cel.errors import EvalAbortedError, EvalError
from cel.run.frame import Evaluate, Frame
from cel.stack import with_room
from cel.values.numbers import text_of_double
from cel.values.values import ABSENT, MISSING, List, Map, Optional, Uint, Value, type_of

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
