"""`make bench-extender`: how long `dra extender serve` takes to answer filter about 5,000 nodes, 50 times a second.

A client in a process of its own calls over mutual TLS at a steady rate, on a real control plane where claims change as
if pods were bound; beside it, in the same run, the same decisions in process, and the allocator alone. Prints a table
of medians, and writes results.json and runs.json into a folder. Times depend on the machine and on what else it does.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.extender import figures
from benchmarks.extender.cases import CASES
from benchmarks.extender.figures import Round
from benchmarks.extender.measurement import ClientFailed, measure
from scheduler.client.errors import CallFailed
from scheduler.installation import description
from tests.controlplane import binaries
from tests.controlplane.binaries import BuildError, Unavailable
from tests.controlplane.process import StartError

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is measured (default: 3)")
    parser.add_argument("--calls", type=int, default=1500, help="in a round (default: 1500, which take 30 s)")
    parser.add_argument("--only", choices=list(CASES), action="append", default=[], help="one case; may come again")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-extender"), help="folder for the results")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        rounds = compare(arguments.only or list(CASES), arguments.rounds, arguments.calls, arguments.output)
    except (Unavailable, BuildError, StartError, CallFailed, ClientFailed) as error:
        sys.exit(f"bench-extender: {error}")
    print(f"ours: {description()}\n")
    print(figures.table(figures.rows(rounds)))
    print(f"written: {', '.join(str(arguments.output / name) for name in ('results.json', 'runs.json'))}")


def compare(names: Sequence[str], number: int, calls: int, output: Path) -> list[Round]:
    """All rounds of these cases."""
    programs = binaries.find(os.environ, tell)
    rounds: list[Round] = []
    for name in names:
        for one in measure(programs, name, number, calls, tell):
            rounds.append(one)
            _write(rounds, output)
    return rounds


def _write(rounds: Sequence[Round], output: Path) -> None:
    documents = [asdict(row) for row in figures.rows(rounds)]
    (output / "results.json").write_text(json.dumps(documents, indent=1) + "\n")
    (output / "runs.json").write_text(json.dumps([asdict(one) for one in rounds], indent=1) + "\n")


if __name__ == "__main__":
    main()
