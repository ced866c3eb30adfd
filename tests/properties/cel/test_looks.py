"""However an expression spends its cost, it looks at the time again and again."""

import sys
from collections.abc import Callable, Sequence
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
MOST_CALLS_OF_WORK = 8

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


SMALL = {Kind.STRING: ("y", "'a'"), Kind.BYTES: ("b'a'",), Kind.LIST: ("[y, y]", "[1, 2]")}


def small_values_of(type_: Type) -> Sequence[str]:
    return SMALL.get(type_.kind) or values_of(type_)


def call_of(overload: Overload, values_of: Callable[[Type], Sequence[str]] = values_of) -> str:
    """A call of the overload, with different arguments."""
    name, values = overload.function, [values_of(one) for one in overload.parameters]
    arguments = [several[number % len(several)] for number, several in enumerate(values)]
    if name in OPERATORS:
        return f"({OPERATORS[name].join(f'({one})' for one in arguments)})"
    if overload.member:
        return f"({arguments[0]}).{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


def compiled(call: str, text: str = TEXT) -> cel.Program | None:
    """The call many times in a row in short loops; None if no such call compiles."""
    body = " || ".join([f"dyn({call}) == dyn(0)"] * CALLS)
    try:
        return cel.compile(f"['{text}'].exists(x, [{', '.join(['x'] * LOOPS)}].exists(y, {body})) || true", cel.V1_38)
    except cel.CompileError:
        return None


def calls_of(program: cel.Program) -> tuple[int, int, int]:
    """Functions that are called, Python's own included; most of them between two looks at the time; the work."""
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
        work = program.judge(DEVICE, look).work
    finally:
        sys.setprofile(before)
    return count, max(most, count - last), work


FUNCTIONS = sorted(declared_in(cel.V1_38).functions)


@pytest.mark.parametrize("part", range(8))
def test_whatever_functions_are_called_looks_at_the_time_come_between_them(part: int) -> None:
    tried = 0
    for name in islice(FUNCTIONS, part, None, 8):
        for overload in declared_in(cel.V1_38).functions[name].overloads:
            program = compiled(call_of(overload))
            if program is not None:
                tried += 1
                _, between_looks, _ = calls_of(program)
                assert between_looks < MOST_CALLS_BETWEEN_LOOKS, call_of(overload)
    assert tried > 10


@pytest.mark.parametrize("part", range(8))
def test_each_small_call_is_charged_for_what_it_calls(part: int) -> None:
    tried = 0
    for name in islice(FUNCTIONS, part, None, 8):
        for overload in declared_in(cel.V1_38).functions[name].overloads:
            call = call_of(overload, small_values_of)
            program = compiled(call, "1.2.3-a")
            if program is not None:
                tried += 1
                calls, _, work = calls_of(program)
                assert calls < MOST_CALLS_OF_WORK * work, call
    assert tried > 10
