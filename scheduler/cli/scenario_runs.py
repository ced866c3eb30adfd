"""Runs all scenarios of `dra simulate`: in this process, in several, or in a cluster of workers.

What has finished is kept in a folder, if one is given, and is not run again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from scheduler.cli.run_folder import RunFolder
from scheduler.cli.scenarios import BrokenPolicy, Case, Plan, require_none, run_case, start_of
from scheduler.cli.worker_processes import in_processes
from scheduler.simulation.result import Scenario

FEW = 5_000
"""Arrivals of all scenarios together that are faster done than other processes started."""

Progress = Callable[[float, int], None]
"""Called with the scenarios that are done, a share of one for what is done of it, and with their number."""


class Runner(Protocol):
    """Runs scenarios, and yields each when it has finished. Raises ScenarioFailed, after all others have finished."""

    def __call__(self, plan: Plan, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Scenario]]:
        """Run them."""


def run_all(
    plan: Plan, cases: Sequence[Case], runner: Runner, folder: RunFolder | None, progress: Progress
) -> Iterator[tuple[Case, Scenario]]:
    """The scenarios, in any order. folder: where they are kept, and those that are there are taken.

    Raises ScenarioFailed.
    """
    left = []
    for case in cases:
        if folder and (found := folder.find(case)):
            yield case, found
        else:
            left.append(case)
    for case, scenario in runner(plan, left, progress):
        if folder:
            folder.keep(case, scenario)
        yield case, scenario


def on_this_machine(jobs: int) -> Runner:
    """In so many processes, if that is faster than in this one."""

    def run(plan: Plan, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Scenario]]:
        if jobs > 1 and len(cases) > 1 and _arrivals(plan, cases) > FEW:
            return in_processes(plan, cases, min(jobs, len(cases)), progress)
        return _one_by_one(plan, cases, progress)

    return run


def _arrivals(plan: Plan, cases: Sequence[Case]) -> int:
    """How many there are in all scenarios, by the first of them."""
    first = cases[0].variant
    return len(start_of(plan, first.what_if, first.nodes_scale).jobs) * len(cases)


def _one_by_one(plan: Plan, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Scenario]]:
    problems: list[str] = []
    for number, case in enumerate(cases):

        def of_all(done: int, arrivals: int, before: int = number) -> None:
            progress(before + done / arrivals, len(cases))

        try:
            yield case, run_case(plan, case, of_all)
        except BrokenPolicy as error:
            problems.append(str(error))
    require_none(problems)
