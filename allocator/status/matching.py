"""Which devices an expression accepts, over a whole fleet: devices that agree in what it reads are asked once."""

from collections.abc import Hashable

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
