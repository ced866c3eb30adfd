"""`make bench-traces TRACES=FOLDER`: the openb workloads of a folder, simulated, beside the recorded curves.

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

from allocator.gates import DEFAULT_RELEASE
from scheduler.cli.run_scenarios import worker_pool
from scheduler.cli.scenarios import ENDLESS, ORDER, Case, Plan, ScenarioFailed, Variant, planned, run_case, start_of
from scheduler.input.inventory import Inventory
from scheduler.installation import description
from scheduler.simulation.compare import (
    ALLOCATION,
    FRAGMENTATION,
    FRAGMENTATION_RATIO,
    InvalidRecord,
    Record,
    ValueByPercent,
    curve_of,
    read_record,
)
from scheduler.simulation.compare import compare as compare_curves
from scheduler.simulation.result import Scenario
from scheduler.simulation.scenario import Start
from scheduler.simulation.trace import InvalidLine, json_lines

RECORDED = ("best-fit", "dot-product", "gpu-packing", "gpu-clustering", "fgd")
"""Our policies that the record has; its Random depends on the order of threads."""

OURS = ("first-fit", "fill-value")
"""Policies that are simulated beside those of the record."""

LEARNING = ("fgd", "fill-value")
"""Policies to which the workload's shapes matter."""

KNOWN, NOTHING = "", "nothing"
"""What policies know of the shapes at first, if not those of another workload: all of them, or none."""

tell = partial(print, file=sys.stderr, flush=True)


class NothingToReplay(ValueError):
    """The folder has no order of arrivals."""


@dataclass(frozen=True, slots=True)
class Replay:
    """One run. start_shapes: what the policy knows at first, and goes on learning from; KNOWN: the workload."""

    workload: str
    policy: str
    seed: int
    start_shapes: str = KNOWN

    @property
    def is_recorded(self) -> bool:
        """Whether the record has its curves."""
        return self.policy in RECORDED and self.start_shapes == KNOWN

    def __str__(self) -> str:
        start = f" started with {self.start_shapes}" if self.start_shapes else ""
        return f"{self.workload} {self.policy} {self.seed}{start}"


@dataclass(frozen=True, slots=True)
class Result:
    """A run as results.json has it. start_shapes: see `Replay`. columns: of the record, compared over all its curves.

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
        record = read(folder)
        replays = [
            one
            for one in replays_of(folder, arguments.start_shapes)
            if one.workload in (arguments.workload or [one.workload])
            and one.policy in (arguments.policy or [one.policy])
            and one.seed in (arguments.seed or [one.seed])
        ]
        if not replays:
            sys.exit(f"bench-traces: {folder}: nothing to replay")
        tell(f"{len(replays)} runs; {description()}")
        results, equal, differ = compare(measured(folder, replays, arguments.jobs), record)
    except (NothingToReplay, InvalidLine, InvalidRecord, ScenarioFailed) as error:
        sys.exit(f"bench-traces: {error}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.json").write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    print(f"{equal} curves equal, {differ} differ")
    sys.exit(int(differ > 0))


def read(folder: Path) -> Sequence[Record]:
    """The recorded curves. Raises InvalidRecord."""
    return [read_record(folder / f"recorded-{one}.csv") for one in (ALLOCATION, FRAGMENTATION, FRAGMENTATION_RATIO)]


def replays_of(folder: Path, starts: Sequence[str] = ()) -> Iterator[Replay]:
    """All workloads that have an order, with all their seeds, by all policies. Raises NothingToReplay, InvalidLine.

    starts: with each of these starts, by the policies to which it matters.
    """
    policies = LEARNING if starts else (*RECORDED, *OURS)
    orders = sorted((folder / "orders").glob("*.jsonl"))
    if not orders:
        raise NothingToReplay(f"{folder / 'orders'}: no order of arrivals")
    for file in orders:
        for line in json_lines(file):
            for policy, start in product(policies, starts or (KNOWN,)):
                yield Replay(file.stem, policy, line.whole_number("seed"), start)


def measured(folder: Path, replays: Sequence[Replay], jobs: int) -> Iterator[tuple[Replay, Scenario]]:
    """The runs in their order."""
    if jobs == 1:
        yield from zip(replays, map(partial(run, folder), replays), strict=True)
        return
    with worker_pool(jobs) as pool:
        yield from zip(replays, pool.map(partial(run, folder), replays), strict=True)


def run(folder: Path, replay: Replay) -> Scenario:
    """One run, as `dra simulate` runs it. Raises ScenarioFailed."""
    plan = _plan(folder, replay.workload)
    expected = None if replay.start_shapes == KNOWN else _start(folder, replay.start_shapes)
    return run_case(plan, Case(_variant(folder, replay.workload), replay.policy, replay.seed), expected=expected)


def _start(folder: Path, shapes: str) -> Start:
    return Start(Inventory(), ()) if shapes == NOTHING else start_of(_plan(folder, shapes), "", 1.0)


@cache
def _plan(folder: Path, workload: str) -> Plan:
    """Pods arrive in the order, none ends, none is tried again, and of nodes that are equal the first is taken."""
    plan = Plan(
        (str(folder / "nodes.csv"),),
        trace=str(folder / f"{workload}.csv"),
        release=DEFAULT_RELEASE,
        durations=ENDLESS,
        retries=False,
        scores=False,
    )
    return planned(plan, [Case(_variant(folder, workload), policy, 0) for policy in (*RECORDED, *OURS)])


def _variant(folder: Path, workload: str) -> Variant:
    return Variant(arrivals=f"{ORDER}{folder / 'orders' / workload}.jsonl")


def compare(runs: Iterable[tuple[Replay, Scenario]], record: Sequence[Record]) -> tuple[list[Result], int, int]:
    """The results, and how many curves are equal and differ, each of which is told. Raises InvalidRecord."""
    results: list[Result] = []
    equal = differ = 0
    for replay, scenario in runs:
        compared = record if replay.is_recorded else ()
        found = [compare_curves(one, [scenario], replay.workload) for one in compared]
        equal += sum(one.equal for one in found)
        differ += sum(len(one.differences) for one in found)
        for difference in (line for one in found for line in one.differences):
            print(replay.workload, difference, flush=True)
        allocation = curve_of(scenario, ALLOCATION)
        columns, differing = sum(one.columns for one in found), sum(one.differing for one in found)
        results.append(_result(replay, allocation, columns, differing, scenario.measured.seconds))
        pace = f"{1000 * scenario.measured.seconds / scenario.summary.arrivals:.2f} ms an arrival"
        tell(f"{replay}: {results[-1].at_100} {results[-1].at_130}, {pace}")
    return results, equal, differ


def _result(replay: Replay, allocation: ValueByPercent, columns: int, differing: int, seconds: float) -> Result:
    reached = allocation.get(100), allocation.get(130)
    return Result(
        replay.workload, replay.policy, replay.seed, *reached, columns, differing, seconds, replay.start_shapes
    )


if __name__ == "__main__":
    main()
