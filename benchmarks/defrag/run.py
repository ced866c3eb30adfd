"""`make bench-defrag`: how long `dra defrag` takes: one move on a large fleet, and three moves on a smaller one.

The program runs in a process of its own, as users start it: the time is that of the whole command, with reading the
input. Its answer is checked before it counts. Prints a table of medians beside the limits, and writes results.json into
a folder. Times depend on the machine and on what else it does.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.cli.run import TARGET_MIB, WITH_ANSWER, CommandRun, WrongOutput
from benchmarks.defrag.cases import CASES, TARGET, Case, write
from benchmarks.endtoend.workload import NAMESPACE
from benchmarks.extender.figures import Row, table
from benchmarks.offline.measurement import measure
from scheduler.installation import description

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is measured (default: 3)")
    parser.add_argument("--only", choices=sorted(CASES), action="append", default=[], help="one case; may come again")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-defrag"), help="folder for the results")
    arguments = parser.parse_args()
    program = Path(sys.executable).with_name("dra")
    if not program.exists():
        sys.exit(f"bench-defrag: there is no {program}; `make bench-defrag` installs it")
    arguments.output.mkdir(parents=True, exist_ok=True)
    chosen = [case for name, case in CASES.items() if name in (arguments.only or CASES)]
    try:
        runs = [one for case in chosen for one in measured(program, case, arguments.rounds)]
    except WrongOutput as error:
        sys.exit(f"bench-defrag: {error}")
    found = [row for case in chosen for row in rows(case, [one for one in runs if one.case == case.title])]
    (arguments.output / "results.json").write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    print(f"ours: {description()}")
    print(table(found))
    print(f"written: {arguments.output / 'results.json'}")


def measured(program: Path, case: Case, rounds: int) -> list[CommandRun]:
    """The case, so many times. Raises WrongOutput."""
    runs: list[CommandRun] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(case, folder / "cluster.json")
        for number in range(rounds):
            tell(f"{case.title}, {case.size}, round {number + 1} of {rounds}", end=": ")
            runs.append(_run(program, case, folder))
            tell(f"{runs[-1].wall_s:.1f} s, {runs[-1].cpu_s:.1f} s of processor time, {runs[-1].peak_mib:.0f} MiB")
    return runs


def _run(program: Path, case: Case, folder: Path) -> CommandRun:
    output, errors = folder / "output.json", folder / "errors.txt"
    asked = ["defrag", str(folder / "cluster.json"), "--for", f"pod/{NAMESPACE}/{TARGET}", "-o", "json"]
    usage = measure([str(program), *asked], output, errors)
    if usage.exit_code not in WITH_ANSWER:
        said = errors.read_text(errors="replace").strip().splitlines()
        raise WrongOutput(f"{case.title}: dra ended with {usage.exit_code}: {said[-1] if said else 'it said nothing'}")
    try:
        is_right = case.is_right(json.loads(output.read_bytes()))
    except (ValueError, LookupError, TypeError) as error:
        raise WrongOutput(f"{case.title}: the output cannot be read: {error}") from error
    if not is_right:
        raise WrongOutput(f"{case.title}: the plan is not the best one")
    return CommandRun(case.title, usage.wall_s, usage.cpu_s, usage.peak_mib)


def rows(case: Case, runs: Sequence[CommandRun]) -> list[Row]:
    """The lines of a case."""
    return [
        Row.of(f"{case.title}, {case.nodes:,} nodes: time", "s", [one.wall_s for one in runs], case.limit_s),
        Row.of(f"{case.title}: processor time", "s", [one.cpu_s for one in runs], None),
        Row.of(f"{case.title}: peak memory", "MiB", [one.peak_mib for one in runs], TARGET_MIB),
    ]


if __name__ == "__main__":
    main()
