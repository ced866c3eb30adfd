"""Scenarios in several processes of this machine.

Each worker is a pool of one process, so that the death of a process is that of one scenario, which runs again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized

from scheduler.cli.scenarios import BrokenPolicy, Case, Plan, require_none, run_case
from scheduler.simulation.result import Scenario
from scheduler.worker_pool import SPAWN, end_pools, end_with_parent

MOST_RUNS = 3
"""How often a scenario is begun whose process dies; the last time alone, as most processes die for want of memory."""

_LOOK_S = 0.5
"""The time between two looks at the progress."""


def in_processes(
    plan: Plan, cases: Sequence[Case], jobs: int, progress: Callable[[float, int], None]
) -> Iterator[tuple[Case, Scenario]]:
    """Each scenario when it has finished. jobs: processes. progress: as of `scenario_runs`.

    Raises ScenarioFailed: at once for a scenario that cannot be run; after all others for one that always dies,
    or whose policy fails.
    """
    with _workers(jobs) as workers:
        runs = _Runs(plan, cases, workers)
        while not runs.are_over:
            runs.begin()
            yield from runs.ended()
            progress(runs.done, len(cases))
    require_none(runs.problems)


def died(case: Case) -> str:
    """What is said of a scenario that no process has survived."""
    return f"{case}: whenever it ran, its process died, at least {MOST_RUNS} times: it may lack memory"


@dataclass(frozen=True, slots=True)
class _ScenarioRun:
    """A run of a scenario. number: which one it is, from 1."""

    case: Case
    number: int

    @property
    def is_last(self) -> bool:
        return self.number == MOST_RUNS


class _Worker:
    """A process that runs one scenario at a time. done: the share of it that is done. pool: of this process alone."""

    def __init__(self) -> None:
        self.done: Synchronized[float] = SPAWN.Value("d", 0.0)
        self.pool = self._started()

    def submit(self, plan: Plan, case: Case) -> Future[Scenario]:
        """Begin with the scenario; a process that has died is replaced."""
        self.done.value = 0.0
        try:
            return self.pool.submit(_run, plan, case)
        except BrokenProcessPool:
            self.pool = self._started()
            return self.pool.submit(_run, plan, case)

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=SPAWN, initializer=_begin, initargs=(self.done,))


@contextmanager
def _workers(number: int) -> Iterator[list[_Worker]]:
    """Those that are idle. At the end all are ended, whatever they do."""
    workers = [_Worker() for _ in range(number)]
    try:
        yield workers
    finally:
        end_pools(worker.pool for worker in workers)


class _Runs:
    """The runs of the scenarios: which wait, which are running. problems: of scenarios that cannot be run."""

    def __init__(self, plan: Plan, cases: Iterable[Case], workers: Iterable[_Worker]) -> None:
        self.problems: list[str] = []
        self._plan = plan
        self._waiting = deque(_ScenarioRun(case, 1) for case in cases)
        self._running: dict[Future[Scenario], tuple[_ScenarioRun, _Worker]] = {}
        self._idle = list(workers)
        self._finished = 0

    @property
    def are_over(self) -> bool:
        return not self._waiting and not self._running

    @property
    def done(self) -> float:
        """How many scenarios are done, with the shares of those that run."""
        return self._finished + len(self.problems) + sum(worker.done.value for _, worker in self._running.values())

    def begin(self) -> None:
        """Give idle workers what waits."""
        while self._idle and self._waiting and self._may_begin(self._waiting[0]):
            run, worker = self._waiting.popleft(), self._idle.pop()
            self._running[worker.submit(self._plan, run.case)] = run, worker

    def ended(self) -> Iterator[tuple[Case, Scenario]]:
        """The scenarios that finish within a moment. Raises ScenarioFailed."""
        for future in wait(self._running, timeout=_LOOK_S, return_when=FIRST_COMPLETED).done:
            run, worker = self._running.pop(future)
            self._idle.append(worker)
            try:
                scenario = future.result()
            except BrokenProcessPool:
                self._again(run)
            except BrokenPolicy as error:
                self.problems.append(str(error))
            else:
                self._finished += 1
                yield run.case, scenario

    def _may_begin(self, run: _ScenarioRun) -> bool:
        """A last run is alone."""
        return not self._running or not (run.is_last or any(other.is_last for other, _ in self._running.values()))

    def _again(self, run: _ScenarioRun) -> None:
        """After those that wait, unless it was the last time."""
        if run.is_last:
            self.problems.append(died(run.case))
        else:
            self._waiting.append(_ScenarioRun(run.case, run.number + 1))


# -- in the worker


_done: "Synchronized[float] | None" = None
"""Where this process writes how far its scenario is."""


def _begin(done: "Synchronized[float]") -> None:
    global _done  # noqa: PLW0603 - a process has one scenario
    _done = done
    end_with_parent()


def _run(plan: Plan, case: Case) -> Scenario:
    return run_case(plan, case, _report)


def _report(done: int, arrivals: int) -> None:
    assert _done is not None
    _done.value = done / arrivals
