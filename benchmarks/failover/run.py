"""`make bench-failover`: the leader of two replicas ends while 1,500 pods wait; how soon the other one goes on.

Killed, and told to end. Each failover has a control plane of its own. A run counts only if every pod is bound in the
end, with a device of its own. Prints a table of medians, and writes runs.json into a folder.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.endtoend.correctness import WrongState
from benchmarks.endtoend.watch import Stalled
from benchmarks.endtoend.workload import Size, size_of
from benchmarks.failover.measurement import Ending, Failover, Times, measure
from scheduler.client.errors import CallFailed
from scheduler.installation import description
from tests.controlplane import binaries
from tests.controlplane.binaries import BuildError, Unavailable
from tests.controlplane.process import StartError

SIZE = Size(500, 2500)
WAITING = 1500

LINES: Sequence[tuple[str, Callable[[Times], float], dict[Ending, float]]] = (
    ("end of the leader to the next one", lambda one: one.leads_s, {Ending.KILL: 18, Ending.TERM: 3}),
    ("next leader to its first binding", lambda one: one.first_s, {Ending.KILL: 3, Ending.TERM: 3}),
    ("next leader to its last binding", lambda one: one.all_s, {}),
)
"""What is measured, in seconds, and within what it has to be."""

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--size", type=size_of, default=SIZE, metavar="NODES:PODS", help="default: 500:2500")
    parser.add_argument("--waiting", type=int, default=WAITING, help="pods that wait then (default: 1500)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-failover"), help="folder for the results")
    arguments = parser.parse_args()
    if not 0 < arguments.waiting < arguments.size.pods:
        parser.error(
            f"--waiting {arguments.waiting}: must be 1 to {arguments.size.pods - 1}, since some pods are bound before"
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        found = compare(arguments.size, arguments.waiting, arguments.rounds, arguments.output)
    except (Unavailable, BuildError, StartError, CallFailed, Stalled, WrongState) as error:
        sys.exit(f"bench-failover: {error}")
    print(f"ours: {description()}; {arguments.size}, {arguments.waiting:,} wait\n")
    print(table(found))
    print(f"written: {arguments.output / 'runs.json'}")


def compare(size: Size, waiting: int, rounds: int, output: Path) -> list[Times]:
    """Both endings, round after round."""
    programs = binaries.find(os.environ, tell)
    found: list[Times] = []
    for number in range(rounds):
        for ending in Ending:
            tell(f"round {number + 1} of {rounds}: {ending}", end=": ")
            found.append(measure(programs, Failover(size, waiting, ending), partial(tell, end=", ")))
            tell(f"led after {found[-1].leads_s:.1f} s, bound after {found[-1].first_s:.1f} s more")
            (output / "runs.json").write_text(json.dumps([one._asdict() for one in found], indent=1) + "\n")
    return found


def table(found: Sequence[Times]) -> str:
    """The medians as a table of Markdown."""
    lines = ["| leader ends by | s | median (least to greatest) | at most |", "| --- | --- | --- | --- |"]
    for ending in dict.fromkeys(Ending(one.ending) for one in found):
        for name, value, limits in LINES:
            values = [value(one) for one in found if one.ending == ending]
            spread = f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
            limit = f"{limits[ending]:g}" if ending in limits else ""
            lines.append(f"| {ending} | {name} | {spread} | {limit} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
