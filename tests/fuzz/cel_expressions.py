"""`make fuzz-cel`: untrusted expressions, without end or for some seconds, in a process with little memory.

Starts from generated selectors and from all that was kept, and breaks them: characters and tokens exchanged, parts
repeated, doubled and nested. Whatever comes out must be refused with a CompileError or answered within its cost, in
time. What is not is printed with its seed, and ends the run.
"""

import argparse
import resource
import signal
import sys
import time
from random import Random
from types import FrameType

import cel
from tests.generators.devices import devices
from tests.generators.expressions import selector

MEMORY = 2 << 30  # bytes of address space
LONGEST_SECONDS = 20  # for one expression on one device; the dearest one allowed takes a few
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


class TooSlowError(BaseException):
    """An expression took longer than any should; no `except Exception` in between may swallow it."""


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60); 0: without end")
    parser.add_argument("--seed", type=int, default=1, help="of the first expression (default: 1)")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_slow)
    started, count, answered, seed = time.monotonic(), 0, 0, arguments.seed
    while not arguments.seconds or time.monotonic() - started < arguments.seconds:
        text = broken(Random(seed))  # noqa: S311
        signal.alarm(LONGEST_SECONDS)
        try:
            answered += is_answered(text, Random(seed))  # noqa: S311
        except BaseException:
            print(f"seed {seed}: {text!r}", file=sys.stderr)
            raise
        signal.alarm(0)
        count, seed = count + 1, seed + 1
        if count % 1000 == 0:
            print(f"{count:,} expressions, {answered:,} of them answered", file=sys.stderr)
    print(f"{count:,} expressions from seed {arguments.seed} on: {answered:,} answered, all others refused")


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlowError(f"more than {LONGEST_SECONDS} s")


def broken(rng: Random) -> str:
    """An expression, mutated a few times."""
    text = str(selector(rng))
    for _ in range(rng.randrange(8)):
        start, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        part = text[start:end]
        replacement = rng.choice(
            [
                rng.choice(TOKENS),
                part * rng.choice([0, 2, 50]),
                rng.choice("([{!-") * rng.choice([1, 30, 300]) + part,
                f"[1, 2, 3].map(x, {part})" * rng.choice([1, 3]),
                chr(rng.choice([0, 0x7F, 0xD800, 0x10FFFF, rng.randrange(0x3000)])),
                str(selector(rng)),
            ]
        )
        text = text[:start] + replacement + text[end:]
    return text[:20_000]


def is_answered(text: str, rng: Random) -> bool:
    """Whether an expression compiles; raises whatever it should not."""
    try:
        program = cel.compile(text)
    except cel.CompileError as error:
        return not str(error)
    assert 0 <= program.estimated_cost < 2**64
    for device in devices(rng, 3):
        outcome = program.run(cel.device_from_json(device))
        assert isinstance(outcome.value, bool) or outcome.error is not None
    return True


if __name__ == "__main__":
    main()
