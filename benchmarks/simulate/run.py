"""`make bench-simulate`: how long `dra simulate` takes, and whether an arrival costs more on more nodes.

`dra generate` makes the fleet, of nodes with eight GPUs each, and the trace, of pods that arrive and leave. The program
runs in a process of its own, as users start it, and its answer is checked before it counts. Prints a table of medians,
and writes results.json and runs.json into a folder. Times depend on the machine and on what else it does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.extender.figures import table
from benchmarks.offline.answer import WrongOutput
from benchmarks.offline.measurement import measure
from benchmarks.simulate import answer, figures
from benchmarks.simulate.figures import LOADS, FleetLoad, SimulationRun
from scheduler.installation import description

tell = partial(print, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Terms:
    """How loads are measured. policy: as of `dra simulate`. share: as `--load` of `dra generate`."""

    policy: str
    share: str
    rounds: int


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [one.nodes for one in LOADS]
    nodes_help = f"measure the fleet of so many nodes; may come again (default: {', '.join(map(str, sizes))})"
    parser.add_argument("--nodes", type=int, choices=sizes, action="append", default=[], help=nodes_help)
    parser.add_argument("--policy", default="best-fit", help="as of `dra simulate` (default: best-fit)")
    parser.add_argument("--load", default="0.9", help="as of `dra generate` (default: 0.9)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each load is measured (default: 1)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-simulate"), help="folder for the results")
    arguments = parser.parse_args()
    program = Path(sys.executable).with_name("dra")
    if not program.exists():
        sys.exit(f"bench-simulate: there is no {program}; `make bench-simulate` installs it")
    arguments.output.mkdir(parents=True, exist_ok=True)
    loads = [one for one in LOADS if one.nodes in (arguments.nodes or sizes)]
    try:
        runs = measure_all(program, loads, Terms(arguments.policy, arguments.load, arguments.rounds), arguments.output)
    except WrongOutput as error:
        sys.exit(f"bench-simulate: {error}")
    print(f"policy {arguments.policy}, load {arguments.load}; ours: {description()}")
    print(table(figures.rows(runs)))
    print(f"written: {', '.join(str(arguments.output / name) for name in ('results.json', 'runs.json'))}")


def measure_all(program: Path, loads: Sequence[FleetLoad], terms: Terms, output: Path) -> list[SimulationRun]:
    """All loads by the program `dra`, from the smallest. Raises WrongOutput."""
    runs: list[SimulationRun] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for load in loads:
            _generate(program, load, terms.share, folder)
            for number in range(terms.rounds):
                tell(f"{load}, round {number + 1} of {terms.rounds}", end=": ")
                runs.append(_run(program, load, terms.policy, folder))
                tell(runs[-1])
                _write(runs, output)
    return runs


def _generate(program: Path, load: FleetLoad, share: str, folder: Path) -> None:
    size = ("--nodes", str(load.nodes), "--pods", str(load.arrivals), "--load", share)
    with (folder / "fleet.jsonl").open("wb") as fleet:
        trace = ("--trace", str(folder / "trace.jsonl"))
        subprocess.run([str(program), "generate", *size, *trace], stdout=fleet, stderr=subprocess.DEVNULL, check=True)


def _run(program: Path, load: FleetLoad, policy: str, folder: Path) -> SimulationRun:
    output, errors = folder / "output.json", folder / "errors.txt"
    inputs = (str(folder / "fleet.jsonl"), "--trace", str(folder / "trace.jsonl"))
    usage = measure([str(program), "simulate", *inputs, "--policy", policy, "-o", "json"], output, errors)
    if usage.exit_code:
        said = errors.read_text(errors="replace").strip().splitlines()
        raise WrongOutput(f"{load}: dra ended with {usage.exit_code}: {said[-1] if said else 'it said nothing'}")
    try:
        found = answer.check(answer.read(output), load)
    except WrongOutput as error:
        raise WrongOutput(f"{load}: {error}") from error
    in_use = found.mean_allocated_percent, found.peak_allocated_percent
    return SimulationRun(load, usage.wall_s, usage.cpu_s, usage.peak_mib, found.placed, found.decisions, *in_use)


def _write(runs: Sequence[SimulationRun], output: Path) -> None:
    documents = [asdict(row) for row in figures.rows(runs)]
    (output / "results.json").write_text(json.dumps(documents, indent=1) + "\n")
    (output / "runs.json").write_text(json.dumps([asdict(one) for one in runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
