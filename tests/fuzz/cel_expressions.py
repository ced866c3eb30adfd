"""Untrusted expressions: generated selectors, broken.

Whatever comes out must be refused with a CompileError or answered within its cost, in time.
"""

from random import Random

import cel
from tests.fuzz.mutation import MAX_CHARACTERS, changed_text
from tests.fuzz.target import FuzzTarget
from tests.generators.devices import devices
from tests.generators.expressions import selector

TOKENS = (
    *"()[]{}.,?:!-",
    *(
        "&&",
        "||",
        "==",
        "in",
        "'a'",
        "9223372036854775807",
        "1u",
        "1e308",
        "b'\\xff'",
        "device",
        ".all(x, ",
        ".map(x, ",
    ),
    *("lists.range(99999)", ".matches('(a|b)*c')", "'a'.matches('\\\\pL{100}' + ", ".format([", "duration('1s')"),
    *("quantity('1e-999999999')", "cel.bind(y, ", ".transformMapEntry(k, v, ", ".?", "[?", "/*", "//", "`", "\n", "\0"),
)


def broken(rng: Random) -> str:
    """An expression, changed in a few places, and now and then in a macro."""
    text = changed_text(rng, str(selector(rng)), TOKENS, str(selector(rng)))
    for _ in range(rng.choice([0, 0, 1, 3])):
        text = f"[1, 2, 3].map(x, {text})"
    return text[:MAX_CHARACTERS]


def is_answered(text: str) -> bool:
    """Whether an expression compiles; raises whatever it should not."""
    try:
        program = cel.compile(text)
    except cel.CompileError as error:
        return not str(error)
    assert 0 <= program.estimated_cost < 2**64
    for device in devices(Random(text), 3):  # noqa: S311 - no secret
        outcome = program.run(cel.device_from_json(device))
        assert isinstance(outcome.value, bool) or outcome.error is not None
    return True


TARGET = FuzzTarget(broken, is_answered, longest_s=20)
"""The dearest expression that is allowed takes a few seconds on a device."""
