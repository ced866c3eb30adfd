"""What an expression selects, as text and as JSON (docs/cel.md describes each field)."""

from collections import Counter

import cel
from allocator.explain.selector_operands import SelectorOperand, blaming
from allocator.model import DeviceID
from allocator.words import agreeing, and_more, counted
from scheduler.output.data_page import aligned
from scheduler.output.status_report import API_VERSION
from scheduler.status import ExpressionSelection
from scheduler.terminal_text import printable

KIND = "Selection"
MOST_LISTED = 10
"""Devices that a table names; of more, only the number is given."""

Json = dict[str, object]


def selection_text(found: ExpressionSelection, most: int | None = MOST_LISTED) -> str:
    """How many devices match, what it costs, counts by driver, the devices, and the errors. most: None names all."""
    number, whole = len(found.matching), len(found.devices)
    cost = f"cost: at most {found.estimated_cost:,} of {cel.COST_LIMIT:,}, on these devices {found.highest_cost:,}"
    lines = [f"{number} of {counted(whole, 'device')} {agreeing(number, 'matches', 'match')}; {cost}"]
    if whole:
        lines += ["", _by_driver(found)]
    lines += [f"\n{one}" for one in (*_failures(found), *found.unknown)]
    if not number and (told := blaming(found.operands)):
        lines += ["", *map(printable, told)]
    if number:
        names = [str(device.id) for device in found.matching[:most]]
        lines += ["", *map(printable, names), *filter(None, [and_more(number, len(names))])]
    return "\n".join(lines)


def _by_driver(found: ExpressionSelection) -> str:
    every = Counter(device.driver for device in found.devices)
    matching = Counter(device.driver for device in found.matching)
    failing = Counter(device.driver for device in found.failures)
    rows = [[name, str(every[name]), str(matching[name]), str(failing[name])] for name in sorted(every)]
    return aligned(["DRIVER", "DEVICES", "MATCH", "FAIL"], rows, frozenset({"DEVICES", "MATCH", "FAIL"}))


def _failures(found: ExpressionSelection) -> list[str]:
    """A line for each error: on how many devices, and the first of them."""
    numbers = Counter(found.failures.values())
    first = {message: device for device, message in reversed(list(found.failures.items()))}
    return [
        f"fails on {counted(number, 'device')}, first on {first[message]}: {message}"
        for message, number in numbers.most_common()
    ]


def selection_object(found: ExpressionSelection) -> Json:
    """All of it. Fields are only added."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "expression": found.expression,
        "devices": len(found.devices),
        "estimatedCost": found.estimated_cost,
        "highestCost": found.highest_cost,
        "costLimit": cel.COST_LIMIT,
        "matching": [_device(device.id) for device in found.matching],
        "failing": [{**_device(device), "error": message} for device, message in found.failures.items()],
        "unknown": list(found.unknown),
        "parts": [operand_object(one) for one in found.operands],
    }


def operand_object(operand: SelectorOperand) -> Json:
    """An operand of a selector's `&&`, and what it says."""
    return {
        "position": operand.position,
        "expression": operand.expression,
        "asked": operand.asked,
        "refused": operand.refused,
        "failing": operand.failing,
        "error": operand.error or None,
        "values": list(operand.values),
    }


def _device(device: DeviceID) -> Json:
    return {"driver": device.driver, "pool": device.pool, "name": device.device}
