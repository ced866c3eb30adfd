"""Errors of expressions.

A `CompileError` rejects the expression before any device is seen, and has a position.
An `EvalError` concerns one device. Logic (`&&`, `||`, `?:`, `all`, `exists`) may absorb an `EvalError`,
except an `EvalAbortedError`, which ends the evaluation at once.
"""

from typing import Literal

Phase = Literal["device", "runtime", "output"]


class CompileError(Exception):
    """An expression that the API server rejects.

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
    """The evaluation on one device failed.

    phase: "device" if the device itself cannot be read (every expression fails on it), "runtime" during the evaluation,
    "output" if the result has the wrong type.
    """

    def __init__(self, message: str, phase: Phase = "runtime") -> None:
        super().__init__(message)
        self.message = message
        self.phase: Phase = phase


def bare(error: EvalError) -> EvalError:
    """The error without traceback and context.

    Their frames refer to the error: a cycle that stays until garbage collection, and grows whenever it is raised again.
    """
    error.__context__ = None
    return error.with_traceback(None)


class EvalAbortedError(EvalError):
    """The evaluation was aborted: it reached a limit, or the reference would crash here. Logic does not absorb it."""


class Cancelled(Exception):
    """The caller cancelled the evaluation."""


def no_such_overload() -> EvalError:
    """The error of a call whose arguments fit no overload."""
    return EvalError("no such overload")
