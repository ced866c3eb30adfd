"""`make bench-e2e`: pods bound on a real control plane by kube-scheduler, alone and with our extender, and by ours.

And by a client that only writes; kube-scheduler and ours also place pods that every filter looks at. Each run has a
control plane of its own, one after the other, all of them several times. Prints a table of medians and ratios, and
writes results.json, runs.json and bound.svg into a folder; the first two after every run. Rates depend on the machine
and on what else it does; ratios of one round do so much less.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.endtoend import figures
from benchmarks.endtoend.contender import Contender
from benchmarks.endtoend.contenders.ceiling import Ceiling
from benchmarks.endtoend.contenders.extender import WithExtender
from benchmarks.endtoend.contenders.guarded import Guarded
from benchmarks.endtoend.contenders.kube_scheduler import KubeScheduler
from benchmarks.endtoend.contenders.ours import Ours
from benchmarks.endtoend.contenders.pair import Pair
from benchmarks.endtoend.correctness import WrongState
from benchmarks.endtoend.figures import Run
from benchmarks.endtoend.measurement import measure
from benchmarks.endtoend.plot import plot
from benchmarks.endtoend.watch import Stalled
from benchmarks.endtoend.workload import EVERY_FILTER, PLAIN, PODS_OF_APP, SIZES, Asks, Load, Size, size_of
from scheduler.client.errors import CallFailed
from scheduler.installation import description
from tests.controlplane import binaries
from tests.controlplane.binaries import BuildError, Unavailable
from tests.controlplane.process import StartError

CONTENDERS: Sequence[Contender] = (
    KubeScheduler(),
    Ours(),
    Guarded(),
    Pair(),
    WithExtender(),
    WithExtender(is_sidecar=True),
    Ceiling(),
)

ASKS: Mapping[str, Asks] = {"claim": PLAIN, "every": EVERY_FILTER}
"""What each pod asks for, by a name for flags."""

FILTERING = frozenset({figures.PEER, figures.OURS})
"""The contenders that are compared on more than plain pods."""

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    all_names = [contender.name for contender in CONTENDERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default: 3)")
    parser.add_argument("--sizes", type=size_of, nargs="+", default=SIZES, metavar="NODES:PODS", help="instead of all")
    parser.add_argument("--only", choices=all_names, action="append", default=[], help="one contender; may come again")
    parser.add_argument("--asks", choices=list(ASKS), action="append", default=[], help="one kind of pods; the same")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-e2e"), help="folder for the results")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    contenders = [contender for contender in CONTENDERS if contender.name in (arguments.only or all_names)]
    asks = [one for name, one in ASKS.items() if name in (arguments.asks or ASKS)]
    try:
        runs = compare(contenders, arguments.sizes, asks, arguments.rounds, arguments.output)
    except (Unavailable, BuildError, StartError, CallFailed, Stalled, WrongState) as error:
        sys.exit(f"bench-e2e: {error}")
    names = {contender.column: contender.name for contender in contenders}
    print(f"ours: {description()}\n")
    print(figures.table(figures.rows(runs, list(names)), names))
    plot(runs, names, arguments.output / "bound.svg")
    print(f"written: {', '.join(str(arguments.output / name) for name in ('results.json', 'runs.json', 'bound.svg'))}")


def compare(
    contenders: Sequence[Contender], sizes: Sequence[Size], asks: Sequence[Asks], rounds: int, output: Path
) -> list[Run]:
    """All sizes by all contenders, round after round."""
    programs = binaries.find(os.environ, tell)
    columns = [contender.column for contender in contenders]
    runs: list[Run] = []
    for number in range(rounds):
        for size in sizes:
            for contender, load in _compared(contenders, size, asks):
                tell(f"round {number + 1} of {rounds}: {load}, {contender.name}", end=": ")
                runs.append(measure(programs, contender, load, partial(tell, end=", ")))
                tell(f"{figures.rate(runs[-1]):.0f} pods/s")
                _write(runs, columns, output)
    return runs


def _compared(contenders: Sequence[Contender], size: Size, asks: Sequence[Asks]) -> Iterator[tuple[Contender, Load]]:
    """Who places what at this size: pods that keep apart need more nodes than an app has pods."""
    for one in asks:
        for contender in contenders:
            if one is PLAIN or (contender.column in FILTERING and size.nodes > PODS_OF_APP):
                yield contender, Load(size, one)


def _write(runs: Sequence[Run], columns: Sequence[str], output: Path) -> None:
    documents = [row.document() for row in figures.rows(runs, columns)]
    (output / "results.json").write_text(json.dumps(documents, indent=1) + "\n")
    (output / "runs.json").write_text(json.dumps([run._asdict() for run in runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
