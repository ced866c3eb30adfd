"""What an expression selects, as text and as JSON (docs/cel.md describes each field)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import cel
from allocator.api.versions import Json
from allocator.explain.barren_selectors import BarrenSelector
from allocator.explain.selector_operands import SelectorOperand, blaming
from allocator.model import DeviceID
from allocator.words import agreeing, and_more, counted
from scheduler.output.report import Report
from scheduler.output.table import ColumnTable
from scheduler.status import ExpressionSelection
from scheduler.terminal_text import printable

MOST_LISTED = 10
"""Devices that a table names; of more, only the number is given."""


@dataclass(frozen=True, slots=True)
class SelectionReport(Report):
    """What an expression selects. most: devices that the text names; None for all."""

    kind = "Selection"

    found: ExpressionSelection
    most: int | None = MOST_LISTED

    def blocks(self) -> Iterator[str | ColumnTable]:
        """How many devices match, what it costs, counts by driver, the errors, the parts of `&&`, and the devices."""
        selection, number = self.found, len(self.found.matching)
        least, most = f"{selection.highest_cost:,}", f"{selection.estimated_cost:,}"
        cost = f"cost: at most {most} of {cel.COST_LIMIT:,}, on these devices {least}"
        yield f"{number} of {counted(len(selection.devices), 'device')} {agreeing(number, 'matches', 'match')}; {cost}"
        if selection.devices:
            yield _by_driver(selection)
        yield from (*_failures(selection), *selection.unknown)
        if lines := blaming(selection.operands):
            yield "\n".join(map(printable, lines))
        if number:
            names = [printable(str(device.id)) for device in selection.matching[: self.most]]
            yield "\n".join([*names, *filter(None, [and_more(number, len(names))])])

    def fields(self) -> Json:
        """All of it."""
        selection = self.found
        return {
            "expression": selection.expression,
            "devices": len(selection.devices),
            "estimatedCost": selection.estimated_cost,
            "highestCost": selection.highest_cost,
            "costLimit": cel.COST_LIMIT,
            "matching": [_device(device.id) for device in selection.matching],
            "failing": [{**_device(device), "error": message} for device, message in selection.failures.items()],
            "unknown": list(selection.unknown),
            "parts": [operand_object(one) for one in selection.operands],
        }


def _by_driver(found: ExpressionSelection) -> ColumnTable:
    every = Counter(device.driver for device in found.devices)
    matching = Counter(device.driver for device in found.matching)
    failing = Counter(device.driver for device in found.failures)
    rows = [[name, str(every[name]), str(matching[name]), str(failing[name])] for name in sorted(every)]
    return ColumnTable(["DRIVER", "DEVICES", "MATCH", "FAIL"], rows, frozenset({"DEVICES", "MATCH", "FAIL"}))


def _failures(found: ExpressionSelection) -> list[str]:
    """A line for each error: on how many devices, and the first of them."""
    numbers = Counter(found.failures.values())
    first = {message: device for device, message in reversed(list(found.failures.items()))}
    return [
        f"fails on {counted(number, 'device')}, first on {first[message]}: {message}"
        for message, number in numbers.most_common()
    ]


def barren_object(barren: BarrenSelector) -> Json:
    """A selector that no device passes, with its operands."""
    operands = list(map(operand_object, barren.operands))
    return {"claim": barren.claim, "selector": barren.selector, "parts": operands}


def operand_object(operand: SelectorOperand) -> Json:
    """An operand of a selector's `&&`, and what it says."""
    return {
        "position": operand.position,
        "expression": operand.expression,
        "devices": operand.devices,
        "passAlone": operand.alone,
        "passSoFar": operand.passing,
        "removesLast": operand.removed,
        "asked": operand.asked,
        "refused": operand.refused,
        "failing": operand.failing,
        "error": operand.error or None,
        "values": list(operand.values),
    }


def _device(device: DeviceID) -> Json:
    return {"driver": device.driver, "pool": device.pool, "name": device.device}
