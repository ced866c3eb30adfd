"""What a CEL expression selects of a fleet, what it costs, and on which devices it fails."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import cel
from allocator.did_you_mean import did_you_mean
from allocator.explain.selector_operands import SelectorOperand, operands_of
from allocator.model import Device, DeviceID
from allocator.status.matching import ExpressionAnswers

TABLES = ("attributes", "capacity")
"""What of a device has names of its own."""


@dataclass(frozen=True, slots=True)
class ExpressionSelection:
    """The answers of an expression. failures: the message of each device on which it fails, in order.

    estimated_cost: the worst case, which the API server limits; highest_cost: on these devices. unknown: drivers,
    attributes and capacities that it names and no device has, with what may be meant. operands: those of its `&&`,
    none if it is none.
    """

    expression: str
    devices: Sequence[Device]
    matching: Sequence[Device]
    failures: Mapping[DeviceID, str]
    estimated_cost: int
    highest_cost: int
    unknown: Sequence[str] = ()
    operands: Sequence[SelectorOperand] = ()


def select(expression: str, devices: Sequence[Device], environment: cel.Environment) -> ExpressionSelection:
    """The answers on all devices. Raises cel.CompileError. Cost: O(devices)."""
    answers, highest = ExpressionAnswers(expression, environment), 0
    matching, failures = list[Device](), dict[DeviceID, str]()
    for device in devices:
        outcome = answers.outcome(device)
        highest = max(highest, outcome.cost)
        if outcome.error is not None:
            failures[device.id] = outcome.error.message
        elif outcome.value:
            matching.append(device)
    program = cel.compile(expression, environment)
    unknown = list(known_names(devices).unknown_to(program.reads)) if devices else []
    operands = operands_of(expression, devices, environment)
    return ExpressionSelection(
        expression, devices, matching, failures, program.estimated_cost, highest, unknown, operands
    )


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Of devices. drivers: those that publish them. qualified: attributes and capacities with domain, by `TABLES`."""

    drivers: Collection[str]
    qualified: Mapping[str, Collection[str]]

    def unknown_to(self, reads: cel.Reads) -> Iterator[str]:
        """What an expression reads or names and no device has, in words; one that reads a whole map names none."""
        drivers = {text for path, text in reads.texts if path == ("driver",)}
        for name in sorted(drivers.difference(self.drivers)):
            yield f"no device has the driver {name}{did_you_mean(name, self.drivers)}"
        read = {(path[0], f"{path[1]}/{path[2]}") for path in reads.paths if len(path) == 3 and path[0] in TABLES}
        for table, name in sorted(read):
            if name not in (known := self.qualified[table]):
                yield f"no device has {name} in its {table}{did_you_mean(name, known)}"


def known_names(devices: Sequence[Device]) -> KnownNames:
    """The names of these devices. Cost: O(devices)."""
    return KnownNames({one.driver for one in devices}, {table: fully_named(devices, table) for table in TABLES})


def fully_named(devices: Iterable[Device], table: str) -> Counter[str]:
    """The names with their domain of all `attributes`, or of all `capacity`, and how many devices have each."""
    return Counter(
        name if "/" in name else f"{device.driver}/{name}" for device in devices for name in getattr(device, table)
    )
