"""Which devices an expression accepts, over a whole fleet: devices that agree in what it reads are asked once."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import cel
from allocator.cluster.read_key import ReadKey
from allocator.model import Device, DeviceClass


class ExpressionAnswers:
    """An expression and its answers so far. Raises cel.CompileError where it does not compile."""

    def __init__(self, expression: str, environment: cel.Environment) -> None:
        self._program = cel.compile(expression, environment)
        self._read = ReadKey.of_programs([self._program.reads])
        self._answers: dict[Hashable, cel.Outcome] = {}

    def of(self, device: Device) -> bool | None:
        """Whether the device is accepted; None if the expression fails on it."""
        outcome = self.outcome(device)
        return None if outcome.error is not None else outcome.value is True

    def outcome(self, device: Device) -> cel.Outcome:
        """The answer with its cost, or why there is none."""
        key = device.driver, self._read.of(device)
        if key not in self._answers:
            self._answers[key] = self._program.run(device)
        return self._answers[key]


class OrderedResult(NamedTuple):
    """What the last of some expressions says of the devices that pass all others."""

    accepted: tuple[Device, ...]
    failing: tuple[Device, ...]


class OrderedAnswers:
    """Expressions over devices as an allocation asks them: in order, none of a device that one before it refuses."""

    def __init__(self, devices: Iterable[Device], environment: cel.Environment) -> None:
        self._devices = tuple(devices)
        self._environment = environment
        self._results: dict[tuple[str, ...], OrderedResult] = {}

    def passing(self, expressions: tuple[str, ...]) -> tuple[Device, ...]:
        """The devices that pass all of the expressions, none where one does not compile."""
        return self.of(expressions).accepted if expressions else self._devices

    def of(self, expressions: tuple[str, ...]) -> OrderedResult:
        """The answers of the last one. Cost: O(devices that pass the others), once."""
        if expressions not in self._results:
            devices = self.passing(expressions[:-1])
            self._results[expressions] = self._asked(expressions[-1], devices) if devices else OrderedResult((), ())
        return self._results[expressions]

    def _asked(self, expression: str, devices: tuple[Device, ...]) -> OrderedResult:
        try:
            answers = ExpressionAnswers(expression, self._environment)
        except cel.CompileError:
            return OrderedResult((), ())
        found = [(device, answers.of(device)) for device in devices]
        accepted = tuple(device for device, answer in found if answer)
        return OrderedResult(accepted, tuple(device for device, answer in found if answer is None))


class Membership:
    """The devices that a class selects; none where a selector of it does not compile, or is of an unknown type."""

    def __init__(self, device_class: DeviceClass, environment: cel.Environment) -> None:
        self.name = device_class.name
        self._selectors: list[ExpressionAnswers] | None = []
        for selector in device_class.selectors:
            try:
                self._selectors.append(ExpressionAnswers(selector or "", environment))
            except cel.CompileError:
                self._selectors = None
                break

    def has(self, device: Device) -> bool:
        """True if all selectors accept the device."""
        return self._selectors is not None and all(one.of(device) for one in self._selectors)
