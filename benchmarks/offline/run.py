"""`make bench-offline`: how long `dra allocate` takes on a large file, with none, a tenth and all of the pods refused.

The program runs in a process of its own, as users start it, and its answer is checked before it counts. Prints a table
of medians, and writes results.json and runs.json into a folder. Times depend on the machine and on what else it does.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.endtoend.workload import Size
from benchmarks.extender.figures import table
from benchmarks.offline import answer, figures
from benchmarks.offline.answer import WrongOutput
from benchmarks.offline.cases import CASES, LEAST_PODS, MOST_PODS_OF_NODE, Case, write
from benchmarks.offline.figures import Run
from benchmarks.offline.measurement import measure
from scheduler.installation import description

ENDED_WELL = (0, 1)
"""Exit codes of `dra allocate` that come with an answer: everything was placed, or something was not."""

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000, help="with eight devices each (default: 5000)")
    parser.add_argument("--pods", type=int, default=10_000, help="with a claim each (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is measured (default: 3)")
    parser.add_argument("--only", choices=list(CASES), action="append", default=[], help="one case; may come again")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-offline"), help="folder for the results")
    arguments = parser.parse_args()
    size = Size(arguments.nodes, arguments.pods)
    if size.pods < LEAST_PODS:
        parser.error(f"--pods: {size.pods} are too few, {LEAST_PODS} are needed")
    if size.pods > size.nodes * MOST_PODS_OF_NODE:
        parser.error(f"--nodes: {size.nodes} are too few, one is needed for each {MOST_PODS_OF_NODE} pods")
    program = Path(sys.executable).with_name("dra")
    if not program.exists():
        sys.exit(f"bench-offline: there is no {program}; `make bench-offline` installs it")
    arguments.output.mkdir(parents=True, exist_ok=True)
    cases = [case for name, case in CASES.items() if name in (arguments.only or CASES)]
    try:
        runs = measure_all(program, cases, size, arguments.rounds, arguments.output)
    except WrongOutput as error:
        sys.exit(f"bench-offline: {error}")
    print(f"{size}; ours: {description()}")
    print(table(figures.rows(runs)))
    print(f"written: {', '.join(str(arguments.output / name) for name in ('results.json', 'runs.json'))}")


def measure_all(program: Path, cases: Sequence[Case], size: Size, rounds: int, output: Path) -> list[Run]:
    """All cases by the program `dra`, round after round. Raises WrongAnswer."""
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases:
            write(case, size, _input(folder, case))
        for number in range(rounds):
            for case in cases:
                tell(f"round {number + 1} of {rounds}: {case.title}", end=": ")
                runs.append(_run(program, case, size, folder))
                tell(runs[-1])
                _write(runs, output)
    return runs


def _run(program: Path, case: Case, size: Size, folder: Path) -> Run:
    output, errors = folder / "output.json", folder / "errors.txt"
    usage = measure([str(program), "allocate", str(_input(folder, case)), "-o", "json"], output, errors)
    if usage.exit_code not in ENDED_WELL:
        said = errors.read_text(errors="replace").strip().splitlines()
        raise WrongOutput(f"{case.title}: dra ended with {usage.exit_code}: {said[-1] if said else 'it said nothing'}")
    try:
        found = answer.check(answer.read(output), case, size.pods)
    except WrongOutput as error:
        raise WrongOutput(f"{case.title}: {error}") from error
    return Run(case.title, usage.wall_s, usage.cpu_s, usage.peak_mib, found.placed, found.refused)


def _input(folder: Path, case: Case) -> Path:
    return folder / f"{case.title.replace(' ', '-')}.json"


def _write(runs: Sequence[Run], output: Path) -> None:
    documents = [asdict(row) for row in figures.rows(runs)]
    (output / "results.json").write_text(json.dumps(documents, indent=1) + "\n")
    (output / "runs.json").write_text(json.dumps([asdict(one) for one in runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
