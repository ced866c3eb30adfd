"""`make bench-guard`: what `dra guard serve` adds to an allocation, 50 times a second.

Claims are allocated in pairs on a real control plane; the API server asks the guard about one of each pair. Prints a
table of medians, and writes results.json and runs.json into a folder. Times depend on the machine and on what else it
does; differences in pairs do so less.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.endtoend.workload import DEVICES_OF_NODE
from benchmarks.extender.figures import table
from benchmarks.guard.figures import rows
from benchmarks.guard.measurement import NotAsked, PairedRound, measure
from scheduler.client.errors import CallFailed
from scheduler.installation import description
from tests.controlplane import binaries
from tests.controlplane.binaries import BuildError, Unavailable
from tests.controlplane.process import StartError

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often it is measured (default: 3)")
    parser.add_argument("--pairs", type=int, default=1000, help="in a round (default: 1000, which take 20 s)")
    parser.add_argument("--nodes", type=int, default=500, help="with ten devices each (default: 500)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-guard"), help="folder for the results")
    arguments = parser.parse_args()
    # Twice as many: no device is given again in the round after the one that released it.
    most = arguments.nodes * DEVICES_OF_NODE // 4
    if not 0 < arguments.pairs <= most:
        parser.error(f"--pairs {arguments.pairs}: must be 1 to {most} with {arguments.nodes} nodes")
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        found = compare(arguments.nodes, arguments.pairs, arguments.rounds, arguments.output)
    except (Unavailable, BuildError, StartError, CallFailed, NotAsked) as error:
        sys.exit(f"bench-guard: {error}")
    print(f"ours: {description()}; {arguments.nodes:,} nodes, {arguments.pairs:,} pairs\n")
    print(table(rows(found)))
    print(f"written: {', '.join(str(arguments.output / name) for name in ('results.json', 'runs.json'))}")


def compare(nodes: int, pairs: int, number: int, output: Path) -> list[PairedRound]:
    """All rounds."""
    rounds: list[PairedRound] = []
    for one in measure(binaries.find(os.environ, tell), nodes, pairs, number, tell):
        rounds.append(one)
        _write(rounds, output)
    return rounds


def _write(rounds: Sequence[PairedRound], output: Path) -> None:
    documents = [asdict(row) for row in rows(rounds)]
    (output / "results.json").write_text(json.dumps(documents, indent=1) + "\n")
    (output / "runs.json").write_text(json.dumps([asdict(one) for one in rounds], indent=1) + "\n")


if __name__ == "__main__":
    main()
