"""`make bench-plan`: how good plans of `dra plan` are on small instances, and how long `--remove` takes on big fleets.

Random instances are compared with all ways to place their pods. For `--remove`, the program runs in a process of its
own, as users start it, and its answer is checked before it counts. Prints a table of figures beside their limits, and
writes results.json into a folder; the exit code is 1 where a limit is missed. Times depend on the machine and its load.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.cli.run import WITH_ANSWER, CommandRun, WrongOutput
from benchmarks.offline.measurement import measure
from benchmarks.plan.cases import CASES, RemovalCase, write
from benchmarks.plan.instances import Compared, an_instance, compared
from scheduler.installation import description

LEAST_EQUAL = 0.95
"""Of the plans, so many have to cost the least."""

tell = partial(print, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the result. is_kept: the limit."""

    case: str
    ours: str
    limit: str = "-"
    is_kept: bool = True


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=200, help="random ones that have a plan (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the first instance (default: 0)")
    parser.add_argument("--rounds", type=int, default=1, help="how often --remove is measured (default: 1)")
    parser.add_argument("--nodes", choices=sorted(CASES), action="append", default=[], help="one fleet of --remove")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-plan"), help="folder for the results")
    arguments = parser.parse_args()
    program = Path(sys.executable).with_name("dra")
    if not program.exists():
        sys.exit(f"bench-plan: there is no {program}; `make bench-plan` installs it")
    arguments.output.mkdir(parents=True, exist_ok=True)
    chosen = [case for name, case in CASES.items() if name in (arguments.nodes or CASES)]
    figures = list(quality(list(islice(with_plans(arguments.seed), arguments.instances))))
    try:
        figures += [one for case in chosen for one in of_runs(case, measured(program, case, arguments.rounds))]
    except WrongOutput as error:
        sys.exit(f"bench-plan: {error}")
    (arguments.output / "results.json").write_text(json.dumps([asdict(one) for one in figures], indent=1) + "\n")
    print(f"ours: {description()}")
    print("\n".join(table(figures)))
    print(f"written: {arguments.output / 'results.json'}")
    sys.exit(int(not all(one.is_kept for one in figures)))


@dataclass(frozen=True, slots=True)
class Timed:
    """An instance, and how long all of it took: the plan, and the comparison."""

    compared: Compared
    seconds: float


def with_plans(seed: int) -> Iterator[Timed]:
    """Instances that have a plan, without end."""
    for number in count(seed):
        started = time.perf_counter()
        one = compared(an_instance(Random(number)))  # noqa: S311 - no secret
        if one.optimum is not None:
            yield Timed(one, time.perf_counter() - started)


def quality(instances: Sequence[Timed]) -> Iterator[Figure]:
    """How good the plans are."""
    every = [one.compared for one in instances]
    equal = sum(one.is_equal for one in every)
    dearer = sum(not one.is_near for one in every)
    above = sum(not one.has_valid_bound for one in every)
    share = equal / len(every)
    yield Figure(
        "plans that cost the least", f"{equal} of {len(every)} ({share:.1%})", "95 %", is_kept=share >= LEAST_EQUAL
    )
    yield Figure("plans that cost more than one node more", str(dearer), "0", is_kept=not dearer)
    yield Figure("bounds that are missing or above the optimum", str(above), "0", is_kept=not above)
    yield Figure("no plan found, although there is one", str(sum(not one.is_found for one in every)))
    yield Figure("a plan and its comparison, ms", _spread([1000 * one.seconds for one in instances]))


def measured(program: Path, case: RemovalCase, rounds: int) -> list[CommandRun]:
    """The case, so many times. Raises WrongOutput."""
    runs: list[CommandRun] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(case, folder / "cluster.json")
        for number in range(rounds):
            tell(f"{case.title}, round {number + 1} of {rounds}", end=": ")
            runs.append(_run(program, case, folder))
            tell(f"{runs[-1].wall_s:.1f} s, {runs[-1].cpu_s:.1f} s of processor time, {runs[-1].peak_mib:.0f} MiB")
    return runs


def _run(program: Path, case: RemovalCase, folder: Path) -> CommandRun:
    output, errors = folder / "output.json", folder / "errors.txt"
    asked = ["plan", str(folder / "cluster.json"), "--remove", "-o", "json"]
    usage = measure([str(program), *asked], output, errors)
    if usage.exit_code not in WITH_ANSWER:
        raise WrongOutput(
            f"{case.title}: dra ended with {usage.exit_code}: {errors.read_text(errors='replace')[-200:]}"
        )
    if not case.is_right(json.loads(output.read_bytes())):
        raise WrongOutput(f"{case.title}: other nodes could go")
    return CommandRun(case.title, usage.wall_s, usage.cpu_s, usage.peak_mib)


def of_runs(case: RemovalCase, runs: Sequence[CommandRun]) -> Iterator[Figure]:
    """The lines of a case."""
    yield Figure(f"{case.title}: time, s", _spread([one.wall_s for one in runs]))
    yield Figure(f"{case.title}: processor time, s", _spread([one.cpu_s for one in runs]))
    yield Figure(f"{case.title}: peak memory, MiB", _spread([one.peak_mib for one in runs]))


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """The figures as a table of Markdown."""
    yield "| case | ours (least to greatest) | limit |"
    yield "| --- | --- | --- |"
    yield from (
        f"| {one.case} | {one.ours} | {one.limit if one.is_kept else f'{one.limit}: MISSED'} |" for one in figures
    )


if __name__ == "__main__":
    main()
