"""However an expression spends its cost, it looks at the time again and again."""

import sys
from collections.abc import Sequence
from itertools import islice
from types import FrameType

import pytest

import cel
from cel.check.checker import declared_in
from cel.check.overloads import Overload
from cel.values import types
from cel.values.types import Kind, Type
from tests.unit.cel.ext.expressions import DEVICE

TEXT = "ab" * 300
LOOPS = 60  # fewer than the iterations after which a loop looks at the time whatever is in it
CALLS = 8
MOST_CALLS_BETWEEN_LOOKS = 250_000

OPERATORS = {"_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_==_": "==", "_<_": "<", "@in": " in "}

VALUES = {
    Kind.STRING: ("y", "'a?'", "'1.2.3-' + y", "'http://a/' + y"),
    Kind.INT: ("3", "100000"),
    Kind.UINT: ("3u",),
    Kind.DOUBLE: ("1.5",),
    Kind.BOOL: ("true",),
    Kind.BYTES: ("bytes(y)",),
    Kind.LIST: ("y.split('')", "[y, y]", "lists.range(300)"),
    Kind.MAP: ("{'a': y}",),
    Kind.TIMESTAMP: ("timestamp('2024-01-01T00:00:00Z')",),
    Kind.DURATION: ("duration('1h')",),
}
OTHERS = {types.QUANTITY: "quantity('80Gi')", types.SEMVER: "semver('1.2.3')"}
"""Of each type arguments that are a lot of work, about the text `y`."""


def values_of(type_: Type) -> Sequence[str]:
    return VALUES.get(type_.kind) or (OTHERS.get(type_, "dyn(y)"), "y")


def call_of(overload: Overload) -> str:
    """A call of the overload, with different arguments."""
    name, values = overload.function, [values_of(one) for one in overload.parameters]
    arguments = [several[number % len(several)] for number, several in enumerate(values)]
    if name in OPERATORS:
        return f"({OPERATORS[name].join(f'({one})' for one in arguments)})"
    if overload.member:
        return f"({arguments[0]}).{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


def compiled(call: str) -> cel.Program | None:
    """The call many times in a row in short loops; None if no such call compiles."""
    body = " || ".join([f"dyn({call}) == dyn(0)"] * CALLS)
    try:
        return cel.compile(f"['{TEXT}'].exists(x, [{', '.join(['x'] * LOOPS)}].exists(y, {body})) || true", cel.V1_38)
    except cel.CompileError:
        return None


def most_calls_between_looks(program: cel.Program) -> int:
    """Functions that are called between two looks at the time, Python's own included."""
    count, last, most = 0, 0, 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    def look() -> bool:
        nonlocal last, most
        last, most = count, max(most, count - last)
        return False

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        program.judge(DEVICE, look)
    finally:
        sys.setprofile(before)
    return max(most, count - last)


FUNCTIONS = sorted(declared_in(cel.V1_38).functions)


@pytest.mark.parametrize("part", range(8))
def test_whatever_functions_are_called_looks_at_the_time_come_between_them(part: int) -> None:
    tried = 0
    for name in islice(FUNCTIONS, part, None, 8):
        for overload in declared_in(cel.V1_38).functions[name].overloads:
            program = compiled(call_of(overload))
            if program is not None:
                tried += 1
                assert most_calls_between_looks(program) < MOST_CALLS_BETWEEN_LOOKS, call_of(overload)
    assert tried > 10
