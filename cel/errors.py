"""What can go wrong with an expression, and whose fault it is.

`CompileError` is the author's: the expression is refused before any device is seen, with its position.
`EvalError` is met on one device. Logic (`&&`, `||`, `?:`, `all`, `exists`) may absorb an `EvalError`,
except an `EvalAbortedError`, which ends the evaluation at once.
"""

from typing import Literal

Phase = Literal["device", "runtime", "output"]


class CompileError(Exception):
    """An expression that the API server refuses.

    line, column: 1-based; column counts code points. source: the whole expression.
    `str()` shows the line of the source with a caret below the position.
    """

    phase = "compile"

    def __init__(self, message: str, line: int, column: int, source: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.source = source

    def __str__(self) -> str:
        heading = f"{self.line}:{self.column}: {self.message}"
        lines = self.source.split("\n")
        if not self.source or self.line > len(lines):
            return heading
        text = lines[self.line - 1].replace("\t", " ")
        start = max(0, self.column - 81)
        pointer = "." * (self.column - 1 - start) + "^"
        return f"{heading}\n | {text[start : start + 160]}\n | {pointer}"


class EvalError(Exception):
    """An expression has no answer on one device.

    phase: "device" where the device itself cannot be read (then every expression fails on it),
    "runtime" while evaluating, "output" where the answer is of the wrong type.
    """

    def __init__(self, message: str, phase: Phase = "runtime") -> None:
        super().__init__(message)
        self.message = message
        self.phase: Phase = phase


def bare(error: EvalError) -> EvalError:
    """The error without the calls that it came through.

    They hold it in turn: a ring that stays until garbage is collected, and grows each time the error is raised again.
    """
    error.__context__ = None
    return error.with_traceback(None)


class EvalAbortedError(EvalError):
    """The evaluation was ended: a limit was reached, or the reference would crash here. No logic absorbs it."""


class Cancelled(Exception):
    """The caller wants no answer any more."""


def no_such_overload() -> EvalError:
    """The error of a function that is called with values for which it is not declared."""
    return EvalError("no such overload")
