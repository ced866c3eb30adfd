"""Untrusted text: whatever it is, it is refused or answered, within its cost, and in the same way every time."""

import re
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cel
from cel.check.checker import declared_in
from cel.check.overloads import Overload
from cel.syntax import parser
from cel.syntax.macros import MACROS
from tests.generators.devices import devices
from tests.generators.expressions import selector
from tests.unit.cel.frames import FEWEST, with_frames_left

TOKENS = [
    *"()[]{}.,?:+-*/%!<>",
    *["&&", "||", "==", "!=", "in", "true", "null", "'a'", '"""', "b'x'", "r'\\'", "1", "2u", "1.5", "0x1", "`a b`"],
    *[
        "device",
        ".driver",
        ".attributes",
        "['d.io']",
        ".i",
        "has(",
        ".map(x, ",
        ".exists(x, ",
        "cel.bind(x, ",
        "x",
        "//",
    ],
    *[
        "optional.of(",
        ".?a",
        "[?0]",
        "lists.range(9)",
        "quantity('1')",
        "duration('1s')",
        "\n",
        " ",
        "é",
        "\ud800",
        "\0",
    ],
]
WRITTEN = re.compile(r"[a-zA-Z][.\w]*")
DEVICE = cel.PlainDevice("d.io", {"i": ("int", 1), "l": ("strings", ("a", "b"))})

texts = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(TOKENS), max_size=25).map("".join))


def compiled(text: str, environment: cel.Environment = cel.V1_37) -> cel.Program | cel.CompileError:
    try:
        return cel.compile(text, environment)
    except cel.CompileError as error:
        return error


@given(texts)
@example("'\\")
@example("a" * 20_000)
@settings(max_examples=400)
def test_any_text_is_refused_or_answered(text: str) -> None:
    program = compiled(text)
    if isinstance(program, cel.CompileError):
        assert program.line >= 1
        assert program.column >= 1
        assert str(program)
        return
    outcome = program.run(DEVICE)
    assert isinstance(outcome.value, bool) or outcome.error is not None
    assert 0 <= program.estimated_cost < 2**64


VALUES = ["1", "2u", "1.5", "true", "null", "b'x'", "'a%s'", "''", "['a']", "{'a': 1}", "optional.none()"]
VALUES += ["semver('1.0.0')", "quantity('1')", "duration('1s')", "timestamp(0)"]
DRAWS = 30


@pytest.mark.parametrize("environment", [cel.V1_36, cel.V1_37, cel.V1_38], ids=["1.36", "1.37", "1.38"])
def test_any_function_refuses_or_answers_values_of_any_type(environment: cel.Environment) -> None:
    """Of which the checker knows nothing: a call finds out as it runs, and so does what counts its work."""
    random = Random(1)  # noqa: S311 - cases of a test
    functions = {name: one for name, one in declared_in(environment).functions.items() if WRITTEN.fullmatch(name)}
    for name, function in functions.items():
        overloads = [one for one in function.overloads for _ in range(DRAWS)]
        programs = [compiled(call_of(random, one, name), environment) for one in overloads]
        outcomes = [one.run(DEVICE) for one in programs if isinstance(one, cel.Program)]
        assert outcomes, name
        assert all(isinstance(one.value, bool) or one.error is not None for one in outcomes)


def call_of(random: Random, overload: Overload, name: str) -> str:
    operands = [f"dyn({random.choice(VALUES)})" for _ in overload.parameters]
    receiver = f"{operands.pop(0)}." if overload.member else ""
    return f"dyn({receiver}{name}({', '.join(operands)})) == true"


@given(st.integers(0, 2**32))
@settings(max_examples=150)
def test_answer_depends_on_nothing_but_what_is_read(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    program = compiled(str(selector(rng)))
    if isinstance(program, cel.CompileError) or () in program.reads.paths:
        return
    one, other = (cel.device_from_json(device) for device in devices(rng, 2))
    if any(_part(one, path) != _part(other, path) for path in program.reads.paths):
        return
    first, second = program.run(one), program.run(other)
    if "device" not in {outcome.error.phase for outcome in (first, second) if outcome.error is not None}:
        assert (first.value, first.cost) == (second.value, second.cost)


def _part(device: cel.DeviceLike, path: tuple[str, ...]) -> object:
    """What is under a path, as far as two devices can be compared by it."""
    if path == ("driver",):
        return device.driver
    if path == ("allowMultipleAllocations",):
        return device.allow_multiple_allocations
    table = device.attributes if path[0] == "attributes" else device.capacity
    entries = {(*_qualified(name, device.driver),): str(entry) for name, entry in table.items()}
    return {name: entry for name, entry in entries.items() if name[: len(path) - 1] == path[1:]}


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


@given(
    st.lists(
        st.sampled_from(["(", "[", "{1:", "!", "-", "f(", "a[", "a.b(", "true ? ", "1 + ", "[1].all(x, "]), max_size=400
    ),
    st.sampled_from([FEWEST, 200, 700]),
)
@settings(max_examples=100)
def test_depth_never_exceeds_the_room_of_the_stack(openings: list[str], frames: int) -> None:
    closings = {
        "(": ")",
        "[": "]",
        "{1:": "}",
        "f(": ")",
        "a[": "]",
        "a.b(": ")",
        "true ? ": " : true",
        "[1].all(x, ": ")",
    }
    text = "".join(openings) + "1" + "".join(closings.get(opening, "") for opening in reversed(openings))
    try:
        parser.parse(text, parser.Syntax(MACROS))
    except cel.CompileError:
        return
    program = with_frames_left(frames, lambda: compiled(text))
    if isinstance(program, cel.CompileError):
        assert "recursion" not in program.message
    else:
        assert with_frames_left(frames, lambda: program.run(DEVICE).cost) == program.run(DEVICE).cost


@given(st.integers(1, 60), st.sampled_from(["X + X", "[X, X]", "[X] + [X]"]))
@settings(max_examples=40)
def test_shared_values_are_bounded_however_often_they_double(times: int, form: str) -> None:
    text = f"x{times} == x{times}"
    for number in range(times, 0, -1):
        text = f"cel.bind(x{number}, {form.replace('X', f'x{number - 1}')}, {text})"
    outcome = cel.compile(f"cel.bind(x0, [1], {text})").run(DEVICE)
    assert outcome.value is True or isinstance(outcome.error, cel.EvalAbortedError)
