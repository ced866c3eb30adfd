"""`make bench-partitions`: policies on GPUs that MIG partitions, for mixes of profiles, loads and seeds.

25 nodes with 4 GPUs each (`dra generate --preset mig`); pods arrive at random and run for an hour on average; one that
finds no place is given up. Prints a table of accepted and allocated shares, the mean and range over the seeds, and
writes results.jsonl, one line for each run; runs that are there already are not run again. The exit code is 1 where
fill-value accepts less than the best of the others in the mean.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from allocator.gates import DEFAULT_RELEASE
from scheduler.cli.run_scenarios import worker_pool
from scheduler.cli.scenarios import Case, Plan, Variant, planned, run_case
from scheduler.installation import description
from scheduler.simulation.blueprint import Blueprint, machines_of, shapes_of
from scheduler.simulation.catalogue import MIXES, PRESETS

POLICIES = ("first-fit", "best-fit", "least-fragmentation", "fgd", "min-fragmentation", "fill-value")
LOADS = (0.85, 1.0, 1.15)
NODES, DEVICES = 25, 4
MEAN_DURATION_S = 3600.0

tell = partial(print, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation."""

    mix: str
    load: float
    policy: str
    seed: int
    pods: int


@dataclass(frozen=True, slots=True)
class Shares:
    """What it came to, in percent. seconds: of processor time."""

    run: Run
    accepted: float
    allocated: float
    seconds: float


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mix", action="append", default=[], choices=tuple(MIXES), help="only this one; may come again"
    )
    parser.add_argument("--load", action="append", type=float, default=[], help="only this one; may come again")
    parser.add_argument("--policy", action="append", default=[], help="only this one; may come again")
    parser.add_argument("--seeds", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--first-seed", type=int, default=1, help="the first one (default: 1)")
    parser.add_argument("--pods", type=int, default=1500, help="arrivals of each run (default: 1500)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-partitions"), help="folder for the results")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    asked = product(seeds, arguments.mix or MIXES, arguments.load or LOADS, arguments.policy or POLICIES)
    runs = [Run(mix, load, policy, seed, arguments.pods) for seed, mix, load, policy in asked]
    tell(f"{len(runs)} runs; {description()}")
    results = list(all_of(runs, arguments.output / "results.jsonl", arguments.jobs))
    print("\n".join(table(results)))
    sys.exit(int(not all(fill_value_is_best(results))))


def all_of(runs: Sequence[Run], file: Path, jobs: int) -> Iterator[Shares]:
    """The results of the runs, those from the file first; others are added to it as they come."""
    known = {one.run: one for one in read(file)} if file.exists() else {}
    yield from (known[run] for run in runs if run in known)
    missing = [run for run in runs if run not in known]
    with worker_pool(jobs) as pool, file.open("a") as written:
        for shares in pool.map(simulate, missing):
            written.write(json.dumps(asdict(shares)) + "\n")
            written.flush()
            yield shares


def read(file: Path) -> Iterator[Shares]:
    """The results in the file."""
    for line in file.read_text().splitlines():
        raw = json.loads(line)
        yield Shares(**{**raw, "run": Run(**raw["run"])})


def simulate(run: Run) -> Shares:
    """One run, as `dra generate` and `dra simulate` would make it."""
    preset = PRESETS["mig"]
    shapes = shapes_of(preset, MIXES[run.mix], DEVICES)
    blueprint = Blueprint(run.seed, machines_of(preset, {}), NODES, DEVICES, shapes, run.pods, "default")
    with tempfile.TemporaryDirectory() as folder:
        fleet, trace = Path(folder) / "fleet.jsonl", Path(folder) / "pods.jsonl"
        _write(fleet, (*blueprint.fleet(), *blueprint.templates()))
        _write(trace, blueprint.trace(run.load, MEAN_DURATION_S))
        plan = Plan((str(fleet),), trace=str(trace), release=DEFAULT_RELEASE, retries=False, scores=False)
        case = Case(Variant(), run.policy, run.seed)
        scenario = run_case(planned(plan, [case]), case)
    summary = scenario.summary
    assert summary.acceptance_percent is not None
    return Shares(run, summary.acceptance_percent, summary.mean_allocated_percent, scenario.measured.seconds)


def _write(file: Path, objects: Iterable[object]) -> None:
    file.write_text("".join(json.dumps(one) + "\n" for one in objects))


def table(results: Sequence[Shares]) -> Iterator[str]:
    """A row for each mix and load: for each policy, accepted and allocated percent, the range over seeds behind."""
    policies = [policy for policy in POLICIES if any(one.run.policy == policy for one in results)]
    for what in ("accepted", "allocated"):
        yield f"| {what} % | " + " | ".join(f"`{policy}`" for policy in policies) + " |"
        yield "| --- " * (len(policies) + 1) + "|"
        for mix, load in dict.fromkeys((one.run.mix, one.run.load) for one in results):
            cells = []
            for policy in policies:
                shares = [getattr(one, what) for one in results if _is_of(one.run, mix, load, policy)]
                cells.append(f"{mean(shares):.2f} ({min(shares):.1f} to {max(shares):.1f})" if shares else "")
            yield f"| {mix} {load} | " + " | ".join(cells) + " |"
        yield ""


def _is_of(run: Run, mix: str, load: float, policy: str) -> bool:
    return (run.mix, run.load, run.policy) == (mix, load, policy)


def fill_value_is_best(results: Sequence[Shares]) -> Iterator[bool]:
    """For each mix and load, whether fill-value accepts at least what the best of the others does, in the mean."""
    for mix, load in dict.fromkeys((one.run.mix, one.run.load) for one in results):
        means = {
            policy: mean(shares)
            for policy in POLICIES
            if (shares := [one.accepted for one in results if _is_of(one.run, mix, load, policy)])
        }
        ours = means.pop("fill-value", None)
        if ours is None or not means:
            continue
        best = max(means, key=means.__getitem__)
        word = "at least" if ours >= means[best] else "LESS THAN"
        print(f"{mix} {load}: fill-value accepts {ours:.3f} %, {word} {best} with {means[best]:.3f} %")
        yield ours >= means[best]


if __name__ == "__main__":
    main()
