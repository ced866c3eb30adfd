"""The command `dra` as a person runs it, in this process."""

import re
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exception

from click.testing import CliRunner

from scheduler.cli.main import dra as program
from tests.unit.scheduler.manifests import Json, text_of

_PROGRESS = re.compile(r"^(reading the input \.\.\.|asking every node \.\.\.|placing: \d+ of \d+)\n", re.MULTILINE)
ROOM = re.compile(r"^warning: free resources are assumed .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """What a run came to: exit code, standard output, and standard error without progress and room of nodes."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines that tell an error of the input, without their mark."""
        return [line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: ")]


def dra(*arguments: str | Path, stdin: str | bytes = "") -> Run:
    """Run it; whatever is raised beyond the exit of a command fails the test."""
    result = CliRunner().invoke(program, [str(one) for one in arguments], input=stdin, prog_name="dra")
    exception = result.exception
    assert exception is None or isinstance(exception, SystemExit), "".join(format_exception(exception))
    return Run(result.exit_code, result.stdout, without_progress(result.stderr))


def without_progress(reported: str) -> str:
    """Standard error but for how far the command is, which it tells after a second: a busy machine takes so long.

    And but for the room that nodes have: most tests do not give them any.
    """
    return ROOM.sub("", _PROGRESS.sub("", reported))


def saved(folder: Path, *objects: Json, name: str = "input.yaml") -> Path:
    """A file with these objects."""
    path = folder / name
    path.write_text(text_of(*objects))
    return path
