"""`make bench-traces TRACES=FOLDER`: the openb workloads of a folder, replayed, beside the recorded curves.

FOLDER/openb has nodes.csv, a CSV and an order of arrivals for each workload, and recorded curves (recorded-*.csv); the
trace is cluster-trace-gpu-v2023 of github.com/alibaba/clusterdata, the record that of the simulator of "Beware of
Fragmentation" (USENIX ATC 2023), github.com/hkust-adsl/kubernetes-scheduler-simulator. Prints a line for each curve
that differs by more than 0.01 in a column, then how many are equal; the exit code is 1 where one differs. Writes
results.json. Runs are spread over all cores.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

from allocator.policies import policy_of
from benchmarks.traces import record
from benchmarks.traces.record import Curve, InvalidRecord, Key
from scheduler import garbage
from scheduler.cli.run_scenarios import worker_pool
from scheduler.input.inventory import Inventory
from scheduler.installation import description
from scheduler.simulation.curves import ALLOCATION, KINDS, differing
from scheduler.simulation.openb import InvalidTrace, Openb
from scheduler.simulation.replay import FEATURES, replay

OURS = ("first-fit", "fill-value")
"""Policies that are replayed beside those of the record."""

LEARNING = ("fgd", "fill-value")
"""Policies to which the workload's shapes matter."""

KNOWN, NOTHING = "", "nothing"
"""What policies know of the shapes at first, if not those of another workload: all of them, or none."""

tell = partial(print, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run. start_shapes: what the policy knows at first, and goes on learning from; KNOWN: the workload."""

    workload: str
    policy: str
    seed: int
    start_shapes: str = KNOWN

    def __str__(self) -> str:
        start = f" started with {self.start_shapes}" if self.start_shapes else ""
        return f"{self.workload} {self.policy} {self.seed}{start}"


@dataclass(frozen=True, slots=True)
class Result:
    """A run as results.json has it. start_shapes: see `Scenario`. columns: of the record, compared over all its curves.

    at_100, at_130: allocated percent when that much has arrived, None if it did not. differing: of the columns.
    """

    workload: str
    policy: str
    seed: int
    at_100: float | None
    at_130: float | None
    columns: int
    differing: int
    seconds: float
    start_shapes: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its curves by kind, and how long it took. arrivals: that were decided."""

    scenario: Scenario
    curves: Mapping[str, Curve]
    seconds: float
    arrivals: int


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder with openb/ in it")
    parser.add_argument("--workload", action="append", default=[], help="only this one; may come again")
    parser.add_argument("--policy", action="append", default=[], help="only this one; may come again")
    parser.add_argument("--seed", action="append", type=int, default=[], help="only this one; may come again")
    parser.add_argument(
        "--start-shapes",
        action="append",
        default=[],
        metavar="nothing|WORKLOAD",
        help="fgd and fill-value do not know the workload's shapes, but learn them from what arrives; at first they "
        "expect nothing, or the shapes of another workload; may come again; nothing is compared with the record",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-traces"), help="folder for the results")
    arguments = parser.parse_args()
    folder = arguments.traces / "openb"
    try:
        recorded = record.read(folder)
        scenarios = [
            one
            for one in scenarios_of(folder, arguments.start_shapes)
            if one.workload in (arguments.workload or [one.workload])
            and one.policy in (arguments.policy or [one.policy])
            and one.seed in (arguments.seed or [one.seed])
        ]
        if not scenarios:
            sys.exit(f"bench-traces: {folder}: nothing to replay")
        tell(f"{len(scenarios)} runs; {description()}")
        results, equal, differ = compare(measured(folder, scenarios, arguments.jobs), recorded)
    except (InvalidTrace, InvalidRecord) as error:
        sys.exit(f"bench-traces: {error}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.json").write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    print(f"{equal} curves equal, {differ} differ")
    sys.exit(int(differ > 0))


def scenarios_of(folder: Path, starts: Sequence[str] = ()) -> Iterator[Scenario]:
    """All workloads that have an order, with all their seeds, by all policies. Raises InvalidTrace.

    starts: with each of these starts, by the policies to which it matters.
    """
    policies = LEARNING if starts else (*record.POLICIES, *OURS)
    orders = sorted((folder / "orders").glob("*.jsonl"))
    if not orders:
        raise InvalidTrace(f"{folder / 'orders'}: no order of arrivals")
    for file in orders:
        for order in _trace(folder, file.stem)[0].orders().values():
            for policy, start in product(policies, starts or (KNOWN,)):
                yield Scenario(file.stem, policy, order.seed, start)


def measured(folder: Path, scenarios: Sequence[Scenario], jobs: int) -> Iterator[Run]:
    """The runs in their order."""
    if jobs == 1:
        yield from (_run_alone(folder, one) for one in scenarios)
        return
    with worker_pool(jobs) as pool:
        yield from pool.map(partial(_run_alone, folder), scenarios)


def _run_alone(folder: Path, scenario: Scenario) -> Run:
    """One replay in a process of ours, where the collector works as in `dra simulate`."""
    _trace(folder, scenario.workload)
    with garbage.making_none():
        return run(folder, scenario)


def run(folder: Path, scenario: Scenario) -> Run:
    """One replay. seconds: of this process, without reading the input."""
    trace, inventory = _trace(folder, scenario.workload)
    order = trace.orders()[scenario.seed]
    policy = policy_of(scenario.policy)
    start = time.process_time()
    found = replay(trace, inventory, order, policy, start=_start(folder, scenario.start_shapes))
    seconds = time.process_time() - start
    curves = {kind: dict(found.curves.columns(kind)) for kind in KINDS}
    return Run(scenario, curves, round(seconds, 3), len(order.pods))


def _start(folder: Path, shapes: str) -> Sequence[Openb] | None:
    if shapes == KNOWN:
        return None
    return [] if shapes == NOTHING else [_trace(folder, shapes)[0]]


@cache
def _trace(folder: Path, workload: str) -> tuple[Openb, Inventory]:
    trace = Openb(folder, workload)
    return trace, trace.inventory(FEATURES)


def compare(runs: Iterable[Run], recorded: Mapping[Key, Curve]) -> tuple[list[Result], int, int]:
    """The results, and how many curves are equal and differ, each of which is told."""
    results: list[Result] = []
    equal = differ = 0
    for one in runs:
        scenario, columns, wrong = one.scenario, 0, 0
        for kind in KINDS:
            curve = recorded.get((kind, scenario.workload, scenario.policy, scenario.seed))
            if curve is None or scenario.start_shapes != KNOWN:
                continue
            found = differing(one.curves[kind], curve)
            columns, wrong = columns + len(curve), wrong + len(found)
            equal, differ = equal + (not found), differ + bool(found)
            if found:
                print(_difference(kind, one, curve, found), flush=True)
        results.append(_result(one, columns, wrong))
        pace = f"{1000 * one.seconds / one.arrivals:.2f} ms an arrival"
        tell(f"{scenario}: {results[-1].at_100} {results[-1].at_130}, {pace}")
    return results, equal, differ


def _result(one: Run, columns: int, differing: int) -> Result:
    at, run_of = one.curves[ALLOCATION].get, one.scenario
    reached = at(100), at(130)
    return Result(
        run_of.workload, run_of.policy, run_of.seed, *reached, columns, differing, one.seconds, run_of.start_shapes
    )


def _difference(kind: str, one: Run, recorded: Curve, columns: Sequence[int]) -> str:
    first = columns[0]
    who = f"{one.scenario.workload} {one.scenario.policy} {one.scenario.seed} {kind}"
    ours = one.curves[kind].get(first, "nothing")
    return f"{who}: {len(columns)} of {len(recorded)} columns differ, first {first}: {ours}, recorded {recorded[first]}"


if __name__ == "__main__":
    main()
