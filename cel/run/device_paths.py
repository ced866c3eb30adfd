"""Fast evaluation of the paths into `device`, of which most selectors consist: without intermediate maps.

The results and the cost are those of `run.paths.ValuePath`: one unit for the path and one for each qualifier applied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from cel.device import BoundDevice
from cel.errors import EvalAbortedError, EvalError
from cel.run.frame import Evaluate, Frame, costing
from cel.run.paths import ConstantQualifier, ValuePath, look_up, no_such_key
from cel.values.values import ABSENT, MISSING, Optional, Value

# The paths of a device that an expression reads.


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


def device(frame: Frame) -> Value:
    """The variable `device` as a map."""
    return frame.device.value


def evaluator(path: ValuePath) -> Evaluate:
    """The fastest evaluation of a path."""
    if not path.qualifiers:
        return costing(1, path.root)
    if any(not isinstance(qualifier, ConstantQualifier) for qualifier in path.qualifiers):
        return path.evaluate
    keys = tuple([qualifier.value for qualifier in path.qualifiers if isinstance(qualifier, ConstantQualifier)])
    if any(qualifier.is_optional or qualifier.is_test for qualifier in path.qualifiers[:-1]):
        return path.evaluate
    fast = _in_device(path, keys) if path.root is device else None
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
