"""`make cliffs`: what an attempt with the whole budget takes on claims that are hard to satisfy, for every policy.

Each attempt has a process of its own. Prints a table with the processor time of a step, which is the figure, that of
the attempt and its memory, and writes results.json and runs.json into a folder. The exit code is 1 if one is over a
limit.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.explain.node_explanation import explain_on
from allocator.outcome import AllocationError, Outcome
from allocator.policies import policy_of
from benchmarks.cliffs import figures
from benchmarks.cliffs.cases import NODE, HardCase, designed, drawn
from benchmarks.cliffs.figures import EXPLAIN, CliffRun
from benchmarks.extender.figures import table
from scheduler.installation import description

SUBJECTS = ("first-fit", "pack", "spread", "least-fragmentation", "topology", EXPLAIN)
"""Policies that order devices themselves, and the explanation; all others order by a table of units."""

MOST_S = 60
"""Processor time after which an attempt is stopped."""

tell = partial(print, file=sys.stderr, flush=True)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=1000, help="claims at random, one policy each (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="of those (default: 1)")
    parser.add_argument(
        "--designed", action=argparse.BooleanOptionalAction, default=True, help="the claims by design (default: yes)"
    )
    parser.add_argument("--only", choices=SUBJECTS, action="append", default=[], help="one of them; may come again")
    parser.add_argument("--output", type=Path, default=Path(".cache/cliffs"), help="folder for the results")
    arguments = parser.parse_args()
    subjects = [one for one in SUBJECTS if one in (arguments.only or SUBJECTS)]
    arguments.output.mkdir(parents=True, exist_ok=True)
    runs: list[CliffRun] = []
    for case, subject in _pairs(designed() if arguments.designed else (), subjects, arguments.seed, arguments.random):
        runs.append(measured(case, subject))
        tell(f"{case.name}: {runs[-1]}")
    rows = figures.rows(runs)
    print(f"{len(runs)} attempts; ours: {description()}")
    print(table(rows))
    for name, lines in (("results.json", rows), ("runs.json", runs)):
        (arguments.output / name).write_text(json.dumps([asdict(one) for one in lines], indent=1) + "\n")
        print(f"written: {arguments.output / name}")
    sys.exit(any(one.cpu_s > figures.TARGET_S or one.peak_mib > figures.TARGET_MIB for one in runs))


def _pairs(
    by_design: Iterable[HardCase], subjects: Sequence[str], seed: int, number: int
) -> Iterator[tuple[HardCase, str]]:
    """Each case by design with each subject, the others with one after the other."""
    yield from ((case, subject) for case in by_design for subject in subjects)
    yield from zip(drawn(seed, number), cycle(subjects), strict=False)


def measured(case: HardCase, subject: str) -> CliffRun:
    """The attempt, in a child that shares what was prepared."""
    snapshot = case.snapshot()
    snapshot.view(NODE)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S + 1))
        os.write(writing, json.dumps(asdict(_attempt(case, snapshot, subject))).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        written = stream.read()
    os.waitpid(child, 0)
    return CliffRun(**json.loads(written)) if written else CliffRun(case.name, subject, "stopped", 0, MOST_S, 0)


def _attempt(case: HardCase, snapshot: Snapshot, subject: str) -> CliffRun:
    before, start = _peak_mib(), time.process_time()
    answer, steps = _answer(case, snapshot, subject)
    cpu_s = time.process_time() - start
    return CliffRun(case.name, subject, type(answer).__name__, steps, cpu_s, _peak_mib() - before)


def _answer(case: HardCase, snapshot: Snapshot, subject: str) -> tuple[Outcome | AllocationError, int]:
    """The answer, and in how many steps."""
    if subject == EXPLAIN:
        found = explain_on(snapshot, NODE, case.claims, {})
        return found.answer, found.steps
    try:
        outcome = allocate(snapshot, NODE, case.claims, policy=policy_of(subject))
    except AllocationError as error:
        return error, 0
    return outcome, outcome.steps


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
