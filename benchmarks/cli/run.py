"""`make bench-cli`: how long the subcommands take that answer questions about a cluster, on a large file.

The program runs in a process of its own, as users start it, and its answer is checked before it counts. Prints a table
of medians, and writes results.json into a folder. Times depend on the machine and on what else it does.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.cli.cases import Case, cases, write
from benchmarks.endtoend.workload import Size
from benchmarks.extender.figures import Row, table
from benchmarks.offline.measurement import RunUsage, measure
from scheduler.installation import description

TARGET_MIB = 1024.0
"""What every subcommand has to stay under."""

WITH_ANSWER = (0, 1)
"""Exit codes of a subcommand that come with an answer."""

tell = partial(print, file=sys.stderr, flush=True)


class WrongOutput(Exception):
    """A subcommand failed, or answered something else than it has to."""


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A subcommand, once."""

    case: str
    wall_s: float
    cpu_s: float
    peak_mib: float


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000, help="with eight devices each (default: 5000)")
    parser.add_argument("--pods", type=int, default=10_000, help="with a claim each (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each subcommand is measured (default: 3)")
    parser.add_argument("--only", action="append", default=[], help="one subcommand; may come again")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-cli"), help="folder for the results")
    arguments = parser.parse_args()
    size = Size(arguments.nodes, arguments.pods)
    known = cases(size)
    if unknown := [name for name in arguments.only if name not in known]:
        parser.error(f"--only: {unknown[0]} is not one of {', '.join(known)}")
    program = Path(sys.executable).with_name("dra")
    if not program.exists():
        sys.exit(f"bench-cli: there is no {program}; `make bench-cli` installs it")
    arguments.output.mkdir(parents=True, exist_ok=True)
    chosen = [case for name, case in known.items() if name in (arguments.only or known)]
    try:
        runs = measure_all(program, chosen, size, arguments.rounds)
    except WrongOutput as error:
        sys.exit(f"bench-cli: {error}")
    found = rows(runs, chosen)
    (arguments.output / "results.json").write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    print(f"{size}; ours: {description()}")
    print(table(found))
    print(f"written: {arguments.output / 'results.json'}")


def measure_all(program: Path, chosen: Sequence[Case], size: Size, rounds: int) -> list[CommandRun]:
    """All subcommands of the program `dra`, round after round. Raises WrongOutput."""
    runs: list[CommandRun] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(size, folder / "cluster.json")
        for number in range(rounds):
            for case in chosen:
                tell(f"round {number + 1} of {rounds}: {case.title}", end=": ")
                usage = _run(program, case, size, folder)
                runs.append(CommandRun(case.title, usage.wall_s, usage.cpu_s, usage.peak_mib))
                tell(f"{usage.wall_s:.1f} s, {usage.cpu_s:.1f} s of processor time, {usage.peak_mib:.0f} MiB")
    return runs


def _run(program: Path, case: Case, size: Size, folder: Path) -> RunUsage:
    output, errors = folder / "output.json", folder / "errors.txt"
    subject = [*case.arguments, str(folder / "cluster.json")]
    usage = measure([str(program), case.title, *subject, "-o", "json"], output, errors)
    if usage.exit_code not in WITH_ANSWER:
        said = errors.read_text(errors="replace").strip().splitlines()
        raise WrongOutput(f"{case.title}: dra ended with {usage.exit_code}: {said[-1] if said else 'it said nothing'}")
    try:
        is_right = case.is_right(json.loads(output.read_bytes()), size)
    except (ValueError, LookupError, TypeError) as error:
        raise WrongOutput(f"{case.title}: the output cannot be read: {error}") from error
    if not is_right:
        raise WrongOutput(f"{case.title}: the answer is not that about the input")
    return usage


def rows(runs: Sequence[CommandRun], chosen: Sequence[Case]) -> list[Row]:
    """The lines, subcommand by subcommand."""
    return [row for case in chosen for row in _rows(case, [one for one in runs if one.case == case.title])]


def _rows(case: Case, runs: Sequence[CommandRun]) -> list[Row]:
    def row(what: str, unit: str, values: Sequence[float], target: float | None = None) -> Row:
        return Row.of(f"{case.title}: {what}", unit, values, target)

    return [
        row("time", "s", [one.wall_s for one in runs], case.limit_s),
        row("processor time", "s", [one.cpu_s for one in runs]),
        row("peak memory", "MiB", [one.peak_mib for one in runs], TARGET_MIB),
    ]


if __name__ == "__main__":
    main()
