"""Which operand of a selector's `&&` refuses devices, on how many, and what these devices have instead.

The operands are asked in order, and none of a device on which one before it is false. One that fails is no answer yet:
a later one may be false, and then the selector is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cel
from allocator.model import Device
from allocator.words import and_more

Some = TypeVar("Some")

MOST_VALUES = 3
"""Values of a device's attribute that are named; of others only the number is given."""

_ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class SelectorOperand:
    """An operand and what it says. position: from 1. asked: devices on which none before it is false.

    refused, failing: on how many of those it is false, or fails. error: of the first on which it fails. values: what
    the devices that it refuses have of what it reads, in words.
    """

    position: int
    expression: str
    asked: int
    refused: int
    failing: int
    error: str = ""
    values: tuple[str, ...] = ()

    def text(self, whole: int) -> str:
        """In a line. whole: how many operands there are."""
        told = [f"is false on {self.refused}"] if self.refused else []
        told += [f"fails on {self.failing} ({self.error})"] if self.failing else []
        values = f": {', '.join(self.values)}" if self.values else ""
        line = " ".join(self.expression.split())
        return f"part {self.position} of {whole}, {line}, {' and '.join(told) or f'is true on {self.asked}'}{values}"


def operands_of(
    expression: str,
    devices: Sequence[Device],
    environment: cel.Environment,
    charge: Callable[[int], None] = lambda _work: None,
) -> tuple[SelectorOperand, ...]:
    """The operands of a selector, over devices that it refuses; none if it is no conjunction. Cost: O(devices) each.

    charge: is told the work of each evaluation, and ends them by what it raises.
    """
    if not devices:  # as of each selector that does not compile: it refuses none
        return ()
    operands = cel.conjuncts(expression)
    return tuple(_asked(operands, devices, environment, charge)) if len(operands) > 1 else ()


def blaming(operands: Sequence[SelectorOperand]) -> list[str]:
    """A line for each operand that is not true on all devices of which it is asked."""
    return [one.text(len(operands)) for one in operands if one.refused or one.failing]


def _asked(
    operands: Sequence[str], devices: Sequence[Device], environment: cel.Environment, charge: Callable[[int], None]
) -> Iterator[SelectorOperand]:
    for position, operand in enumerate(operands, start=1):
        try:
            program = cel.compile(operand, environment)
        except cel.CompileError:  # a variable of `cel.bind` around it, say
            continue
        judged = list(_judged(program, devices, charge))
        refused = [device for device, found in judged if found is False]
        errors = [found.message for _, found in judged if isinstance(found, cel.EvalError)]
        values = tuple(_values(program.reads, refused))
        yield SelectorOperand(
            position, operand, len(devices), len(refused), len(errors), next(iter(errors), ""), values
        )
        devices = [device for device, found in judged if found is not False]


def _judged(
    program: cel.Program, devices: Sequence[Device], charge: Callable[[int], None]
) -> Iterator[tuple[Device, bool | cel.EvalError]]:
    for device in devices:
        found, work = program.judge(device)
        charge(work)
        yield device, found if isinstance(found, cel.EvalError) else found is True


def _values(reads: cel.Reads, devices: Sequence[Device]) -> Iterator[str]:
    """What the devices have of each attribute, capacity or driver that is read."""
    for path in sorted(reads.paths):
        counts = Counter(value for device in devices if (value := _value(device, path)))
        if values := [f"{value} on {number}" for value, number in counts.most_common(MOST_VALUES)]:
            more = and_more(len(counts), MOST_VALUES, "value")
            yield f"{'/'.join(path[1:]) or path[0]} is {', '.join(values)}{f' {more}' if more else ''}"


def _value(device: Device, path: tuple[str, ...]) -> str:
    """What the device has at the path, in words; empty for a path of another kind."""
    match path:
        case ("driver",):
            return device.driver
        case ("attributes", domain, name):
            found = _named(device.attributes, device.driver, domain, name)
            return _ABSENT if found is None else _shown(*found)
        case ("capacity", domain, name):
            amount = _named(device.capacity, device.driver, domain, name)
            return _ABSENT if amount is None else amount.text
        case _:
            return ""


def _named(table: Mapping[str, Some], driver: str, domain: str, name: str) -> Some | None:
    """An entry by its name with domain; one without a domain is of the driver's."""
    return table.get(f"{domain}/{name}") or (table.get(name) if domain == driver else None)


def _shown(type_: str, value: object) -> str:
    return str(value).lower() if type_ == "bool" else str(value)
