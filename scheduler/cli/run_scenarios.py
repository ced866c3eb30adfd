"""Runs of scenarios: in this process, in several, or from what a folder holds of an earlier run."""

import hashlib
import json
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import IO, Protocol

from scheduler import VERSION
from scheduler.cli.ending import print_to_stderr
from scheduler.cli.scenarios import BrokenPolicy, Case, Plan, ScenarioFailed, require_none, run_case, start_of
from scheduler.installation import sources_digest
from scheduler.simulation.result import InvalidResult, Scenario, scenario_json, scenario_of

# Pools of processes that end with the one that started them, however that ends.


SPAWN = get_context("spawn")
"""How their processes are started."""


@contextmanager
def worker_pool(number: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes. At the end all are ended, whatever they do."""
    pool = ProcessPoolExecutor(number, mp_context=SPAWN, initializer=end_with_parent)
    try:
        yield pool
    finally:
        end_pools([pool])


def end_pools(pools: Iterable[ProcessPoolExecutor]) -> None:
    """End all processes that this one has started: nobody waits for what those of the pools do."""
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    for child in active_children():
        child.terminate()


def end_with_parent() -> None:
    """In a process of a pool: Ctrl-C goes to all of a terminal, of which the first ends the others, also by dying."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


# The folder of `dra simulate --results`: one file for each scenario that has finished, and what run they are of.
#
# A scenario's file is written whole or not at all, and its name has a digest of everything that decides what comes of
# the scenario: the options, the contents of the input, and the program. So no scenario is taken for another one.


_PLAN, _LOCK = "plan.json", "lock"

Identity = Mapping[str, object]
"""What decides what comes of all scenarios of a run, in JSON's types."""


class RunFolder:
    """A folder that this process alone writes to. kept: how many of the run's scenarios are in it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.kept = 0
        self._plan = plan
        self._identity = identity_of(plan)

    def find(self, case: Case) -> Scenario | None:
        """The scenario, if it has finished. A file that is not whole is reported, and as if it were not there."""
        file = self.folder / self._name(case)
        try:
            scenario = scenario_of(file.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ScenarioFailed(f"{file}: cannot be read: {error.strerror}") from error
        except InvalidResult as error:
            print_to_stderr([f"warning: {file}: is not a whole result, its scenario runs again: {error}"])
            return None
        self.kept += 1
        return replace(scenario, parameters=case.variant.parameters)

    def keep(self, case: Case, scenario: Scenario) -> None:
        """Write it. Raises ScenarioFailed, if it cannot be written."""
        _write(self.folder / self._name(case), scenario_json(scenario))
        self.kept += 1

    def require_same(self, *, resumes: bool) -> None:
        """Raises ScenarioFailed unless the folder is empty, or holds this run and resumes is true."""
        file = self.folder / _PLAN
        if not file.exists():
            if resumes:
                raise ScenarioFailed(f"{self.folder}: holds no run to be resumed")
            _write(file, json.dumps(self._identity, indent=1).encode())
        elif not resumes:
            raise ScenarioFailed(f"{self.folder}: holds a run already: --resume goes on with it")
        elif differing := sorted(_differing(_stored(file), self._identity)):
            raise ScenarioFailed(f"{self.folder}: holds another run: {', '.join(differing)} differ")

    def _name(self, case: Case) -> str:
        text = json.dumps([self._identity, _case_identity(self._plan, case)], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{''.join(c if c.isalnum() else '-' for c in case.policy)}-{case.seed}-{digest}.json"


@contextmanager
def opened(folder: Path, plan: Plan, *, resumes: bool) -> Iterator[RunFolder]:
    """The folder, for this process alone. Raises ScenarioFailed."""
    run_folder = RunFolder(folder, plan)
    with _locked(folder):
        run_folder.require_same(resumes=resumes)
        yield run_folder


def identity_of(plan: Plan) -> Identity:
    """Of a run. Its scenarios add what is theirs."""
    fields = {name: value for name, value in asdict(plan).items() if name != "digests"}
    return {
        **fields,
        "program": f"{VERSION} {sources_digest()}",
        "stdin": hashlib.sha256(plan.stdin).hexdigest(),
        "config": str(plan.config or ""),
        "power_models": str(plan.power_models or ""),
        "gates": dict(plan.gates),
        "files": plan.digests_of(plan.files),
        **{name: list(value) for name, value in fields.items() if isinstance(value, tuple) and name != "gates"},
    }


def _case_identity(plan: Plan, case: Case) -> Identity:
    """Of a scenario, beside that of its run. Its parameters only say which of its options were varied."""
    variant = {name: value for name, value in asdict(case.variant).items() if name != "parameters"}
    return {**variant, "policy": case.policy, "seed": case.seed, "files": plan.digests_of([*case.files, case.policy])}


def _differing(before: Identity, now: Identity) -> Iterator[str]:
    for name in {*before, *now}:
        old, new = before.get(name), now.get(name)
        if name == "files" and isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"the contents of {file}" for file in old.keys() & new.keys() if old[file] != new[file])
        elif old != new:
            yield name


def _stored(file: Path) -> Identity:
    try:
        stored = json.loads(file.read_text())
    except OSError as error:
        raise ScenarioFailed(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ScenarioFailed(f"{file}: is not JSON: {error}") from error
    if not isinstance(stored, dict):
        raise ScenarioFailed(f"{file}: is not an object")
    return stored


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other process has the folder meanwhile; the system frees it, however this process ends."""
    import fcntl  # not on every system; only --results needs it

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("a+")
    except OSError as error:
        raise ScenarioFailed(f"{folder}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise ScenarioFailed(f"{folder}: is in use by another run, process {file.read() or 'unknown'}") from error
        _name_process(file, folder)
        yield


def _name_process(file: IO[str], folder: Path) -> None:
    try:
        file.truncate(0)
        file.write(f"{os.getpid()}")
        file.flush()
    except OSError as error:
        raise ScenarioFailed(f"{folder}: cannot be written: {error.strerror}") from error


def _write(file: Path, content: bytes) -> None:
    """All of it, or nothing, also if the machine stops."""
    partial = file.with_suffix(".partial")
    try:
        with partial.open("wb") as opened_file:
            opened_file.write(content)
            opened_file.flush()
            os.fsync(opened_file.fileno())
        partial.replace(file)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise ScenarioFailed(f"{file}: cannot be written: {error.strerror}") from error


# Scenarios in several processes of this machine.
#
# Each worker is a pool of one process, so that the death of a process is that of one scenario, which runs again.


MOST_RUNS = 3
"""How often a scenario is begun whose process dies; the last time alone, as most processes die for want of memory."""

_LOOK_S = 0.5
"""The time between two looks at the progress."""


def in_processes(
    plan: Plan, cases: Sequence[Case], jobs: int, progress: Callable[[float, int], None]
) -> Iterator[tuple[Case, Scenario]]:
    """Each scenario when it has finished. jobs: processes. progress: is told how many are done, and of how many.

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


# Runs all scenarios of `dra simulate`: in this process, in several, or in a cluster of workers.
#
# What has finished is kept in a folder, if one is given, and is not run again.


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
        if folder and (finished := folder.find(case)):
            yield case, finished
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
