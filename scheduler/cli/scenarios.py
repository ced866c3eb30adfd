"""The scenarios of `dra simulate`: what each is, and how they are run, in this process or over all cores.

A worker reads the input itself, so that nothing but a plan and results passes between processes. What has finished is
on disk, if a folder is given, and is not run again.
"""

import fcntl
import hashlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from multiprocessing import active_children, get_context
from pathlib import Path

from allocator.api.findings import shown
from allocator.gates import CONSUMABLE_CAPACITY, RELEASES, Features
from scheduler.cli.ending import print_to_stderr
from scheduler.cli.inputs import Input, Source, inventory_of, profiles_of
from scheduler.input.inventory import Inventory
from scheduler.offline.priorities import Priorities
from scheduler.plugins.profile import Profile
from scheduler.simulation.changes import InvalidChange, changed, is_change
from scheduler.simulation.dump import trace_of_dump
from scheduler.simulation.jobs import Arrivals, Durations, Endless, Exponential, InvalidWorkload, Poisson, Rows
from scheduler.simulation.openb import Openb
from scheduler.simulation.openb_times import openb_jobs
from scheduler.simulation.replay import ONLY_FILTERS
from scheduler.simulation.result import InvalidResult, Scenario, scenario_json, scenario_of
from scheduler.simulation.scenario import Clocks, Settings, Start, run
from scheduler.simulation.trace import Trace, read_trace

TRACE, ORDER, POISSON = "trace", "order:", "poisson:"
"""What `--arrivals` may be."""

EXPONENTIAL, ENDLESS = "exp:", "none"
"""What `--durations` may be beside `trace`."""

FEW = 5_000
"""Arrivals of all scenarios together that are faster done than other processes started."""

MOST_DEATHS = 3
"""Times that worker processes may die while no scenario finishes."""

DUMP = "dump"
"""The trace that the input itself holds."""

OPENB_NODES = "nodes.csv"
"""The fleet of the openb trace."""

_PLAN = "plan.json"
_LOCK = "lock"


class ScenarioFailed(Exception):
    """A scenario cannot be run; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A fleet and its arrivals, as the options say. parameters: those of the options that have several values."""

    what_if: str = ""
    arrivals: str = TRACE
    inflate: float = 0.0
    time_scale: float = 1.0
    nodes_scale: float = 1.0
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario to be run."""

    variant: Variant
    policy: str
    seed: int

    @property
    def name(self) -> str:
        """Of its file: the same for the same scenario, however many others are run beside it."""
        variant = json.dumps(asdict(self.variant), sort_keys=True)
        digest = hashlib.sha256(f"{self.policy} {variant}".encode()).hexdigest()[:12]
        return f"{''.join(c if c.isalnum() else '-' for c in self.policy)}-{self.seed}-{digest}.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that scenarios have in common. stdin: what the path `-` stands for. trace: a path, `dump`, or nothing."""

    paths: tuple[str, ...]
    overlays: tuple[str, ...] = ()
    stdin: bytes = b""
    release: str = ""
    gates: tuple[tuple[str, bool], ...] = ()
    is_strict: bool = False
    keep_going: bool = False
    trace: str = ""
    config: Path | None = None
    durations: str = TRACE
    retries: bool = True
    scores: bool = True
    explained: tuple[str, ...] = ()

    @property
    def features(self) -> Features:
        """The features in force; the openb trace shares its GPUs."""
        gates = {**dict(self.gates), **({CONSUMABLE_CAPACITY: True} if self.is_openb else {})}
        return Features.of(self.release, gates, is_strict=self.is_strict)

    @property
    def is_openb(self) -> bool:
        """Whether the fleet is that of the openb trace."""
        return len(self.paths) == 1 and Path(self.paths[0]).name == OPENB_NODES


def gates_in_force(features: Features) -> tuple[tuple[str, bool], ...]:
    """Each gate of the release, on or off: what a plan keeps of features."""
    return tuple((gate, gate in features.gates) for gate in sorted(RELEASES[features.release.name].gates))


# -- one scenario


def run_case(plan: Plan, case: Case, progress: Callable[[int, int], None] = lambda _done, _all: None) -> Scenario:
    """Run a scenario. Raises ScenarioFailed."""
    try:
        with _silenced():
            start = start_of(plan, case.variant.what_if, case.variant.nodes_scale)
            profiles, settings = _profiles(plan, case.policy), _settings(plan, case, start)
        return replace(run(start, profiles, settings, _CLOCKS, progress), policy=case.policy)
    except ValueError as error:  # each kind of input has its own, with file, field and value
        raise ScenarioFailed(str(error)) from error


@contextmanager
def _silenced() -> Iterator[None]:
    """Findings about the input were printed before; if the command ends, the scenario fails."""
    warnings = io.StringIO()
    try:
        with redirect_stderr(warnings):
            yield
    except SystemExit as end:
        raise ScenarioFailed(warnings.getvalue().removeprefix("dra: ").rstrip()) from end


_CLOCKS = Clocks(time.perf_counter, time.process_time)


def _profiles(plan: Plan, policy: str) -> Sequence[Profile]:
    profiles = profiles_of(plan.config, policy)
    if plan.scores:
        return profiles
    return [replace(one, plugins=ONLY_FILTERS) for one in profiles]


def _settings(plan: Plan, case: Case, start: Start) -> Settings:
    variant, places = case.variant, dict[str, int]()
    arrivals: Arrivals = None
    if variant.arrivals.startswith(POISSON):
        arrivals = Poisson(float(variant.arrivals.removeprefix(POISSON)))
    elif variant.arrivals.startswith(ORDER):
        arrivals, places = _order(Path(variant.arrivals.removeprefix(ORDER)), case.seed, start)
    return Settings(
        plan.features,
        case.seed,
        arrivals,
        variant.inflate,
        _durations(plan.durations),
        variant.time_scale,
        plan.retries,
        places,
        frozenset(plan.explained),
        variant.parameters,
    )


def _durations(text: str) -> Durations:
    if text.startswith(EXPONENTIAL):
        return Exponential(float(text.removeprefix(EXPONENTIAL)))
    return Endless() if text == ENDLESS else None


def _order(file: Path, seed: int, start: Start) -> tuple[Rows, dict[str, int]]:
    """The arrivals and the order of equal nodes that the file has for the seed."""
    seeds: list[object] = []
    for number, text in enumerate(_lines(file), 1):
        place = f"{file}, line {number}"
        try:
            line = json.loads(text)
        except ValueError as error:
            raise InvalidWorkload(f"{place}: is not JSON: {error}") from error
        if not isinstance(line, dict) or "pods" not in line:
            raise InvalidWorkload(f"{place}: pods: is required")
        seeds.append(line.get("seed"))
        if line.get("seed") == seed:
            nodes = start.inventory.nodes
            rows = _rows(place, "nodes", line.get("nodes", []), len(nodes))
            places = {nodes[row].name: position for position, row in enumerate(rows)}
            return Rows(_rows(place, "pods", line["pods"], len(start.jobs))), places
    raise InvalidWorkload(f"{file}: has no line with seed {seed}, only {', '.join(map(str, seeds))}")


def _lines(file: Path) -> Sequence[str]:
    try:
        return file.read_text().splitlines()
    except OSError as error:
        raise InvalidWorkload(f"{file}: cannot be read: {error.strerror}") from error


def _rows(place: str, field_name: str, rows: object, number: int) -> tuple[int, ...]:
    if not isinstance(rows, list):
        raise InvalidWorkload(f"{place}: {field_name}: {shown(rows)} is not a list")
    for position, row in enumerate(rows):
        if type(row) is not int or not 0 <= row < number:
            raise InvalidWorkload(f"{place}: {field_name}[{position}]: {shown(row)} is not a row, of {number} from 0")
    return tuple(rows)


# -- what scenarios start from


@lru_cache(maxsize=2)
def start_of(plan: Plan, what_if: str, nodes_scale: float) -> Start:
    """The input with a what-if, and so many times its nodes; warnings are printed.

    Raises ValueError, by the kind of what is wrong; ends the command where the input has errors.
    """
    if plan.is_openb:
        return _openb_start(plan, what_if, nodes_scale)
    parts = what_if.split(",") if what_if else []
    files = [one for one in parts if not is_change(one)]
    if plan.stdin:
        sys.stdin = io.TextIOWrapper(io.BytesIO(plan.stdin))
    inventory = inventory_of(Source(plan.paths), (*plan.overlays, *files), plan.features, keep_going=plan.keep_going)
    inventory = _changed(inventory, [one for one in parts if is_change(one)], nodes_scale)
    given = Input.of(inventory, plan.features)
    if not plan.trace:
        return Start(inventory, given.pods)
    if plan.trace == DUMP:
        return _dump_start(inventory, given)
    priorities = Priorities(inventory.priority_classes)
    return Start(
        inventory, given.pods, read_trace(Path(plan.trace), inventory, given.pods, plan.features, priorities.of)
    )


def _changed(inventory: Inventory, texts: Sequence[str], nodes_scale: float) -> Inventory:
    try:
        return changed(inventory, texts, nodes_scale)
    except InvalidChange as error:
        raise InvalidChange(f"--set {error}") from error


def _dump_start(inventory: Inventory, given: Input) -> Start:
    own = [pod for pod in given.pods if pod.raw]  # those of workloads were never created
    found = trace_of_dump(inventory, own)
    if found.undated:
        print_to_stderr([f"warning: {found.undated} pods without a metadata.creationTimestamp are left out"])
    return Start(found.inventory, found.stays, Trace(tuple(found.jobs)))


def _openb_start(plan: Plan, what_if: str, nodes_scale: float) -> Start:
    """The fleet of nodes.csv, empty, and a workload beside it."""
    file = Path(plan.trace)
    if file.suffix != ".csv" or file.parent.resolve() != Path(plan.paths[0]).parent.resolve():
        raise InvalidWorkload(f"{plan.paths[0]} is a fleet of the openb trace: --trace has to be a .csv file beside it")
    trace = Openb(file.parent, file.stem)
    inventory = _changed(trace.inventory(plan.features), what_if.split(",") if what_if else [], nodes_scale)
    return Start(inventory, (), Trace(tuple(openb_jobs(trace, file))))


# -- all scenarios


def run_all(
    plan: Plan, cases: Sequence[Case], jobs: int, folder: Path | None, progress: Callable[[int, int], None]
) -> Iterator[Scenario]:
    """The scenarios, in any order. jobs: processes. folder: where they are kept, and those that are there are taken.

    progress: of all arrivals in one process, else of scenarios. Raises ScenarioFailed.
    """
    left = []
    for case in cases:
        if (found := _kept(folder, case)) is not None:
            yield found
        else:
            left.append(case)
    is_worth_it = jobs > 1 and len(left) > 1 and _arrivals(plan, left) > FEW
    done = _in_processes if is_worth_it else _one_by_one
    for case, scenario in done(plan, left, min(jobs, len(left)), progress):
        if folder is not None:
            _write(folder / case.name, scenario_json(scenario))
        yield scenario


def _arrivals(plan: Plan, cases: Sequence[Case]) -> int:
    """How many there are in all scenarios, by the first of them."""
    first = cases[0].variant
    return len(start_of(plan, first.what_if, first.nodes_scale).jobs) * len(cases)


def _one_by_one(
    plan: Plan, cases: Sequence[Case], _jobs: int, progress: Callable[[int, int], None]
) -> Iterator[tuple[Case, Scenario]]:
    for number, case in enumerate(cases):

        def of_all(done: int, total: int, before: int = number) -> None:
            progress(before * total + done, len(cases) * total)

        yield case, run_case(plan, case, of_all)


def _in_processes(
    plan: Plan, cases: Sequence[Case], jobs: int, progress: Callable[[int, int], None]
) -> Iterator[tuple[Case, Scenario]]:
    """If a worker dies, what has not finished is run again, by half as many: memory is what they lack most often."""
    left, deaths = list(cases), 0
    while left:
        before = len(cases) - len(left)
        try:
            for case, scenario in _in_pool(plan, left, jobs, lambda done, _: progress(before + done, len(cases))):  # noqa: B023 - it is called while the loop stands here
                deaths = 0
                left = [one for one in left if one is not case]
                yield case, scenario
        except BrokenProcessPool as error:
            deaths += 1
            if deaths == MOST_DEATHS:
                names = ", ".join(f"{one.policy} seed {one.seed}" for one in left[:jobs])
                problem = f"worker processes died {deaths} times before another scenario finished"
                raise ScenarioFailed(f"{problem}; memory may be short; not finished: {names}") from error
            jobs = max(1, jobs // 2)
            print_to_stderr([f"warning: a worker process has died; {len(left)} scenarios go on with --jobs {jobs}"])


def _in_pool(
    plan: Plan, cases: Sequence[Case], jobs: int, progress: Callable[[int, int], None]
) -> Iterator[tuple[Case, Scenario]]:
    """Raises BrokenProcessPool if a worker dies."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_ignore_interrupts) as pool:
        running: dict[Future[Scenario], Case] = {pool.submit(run_case, plan, case): case for case in cases}
        try:
            while running:
                done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
                progress(len(cases) - len(running), len(cases))
        finally:
            if running:  # Ctrl-C, or an error: nobody waits for the others
                pool.shutdown(wait=False, cancel_futures=True)
                for child in active_children():
                    child.terminate()


def _ignore_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal: the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- on disk


@contextmanager
def opened_folder(folder: Path, identity: Mapping[str, object], *, resumes: bool) -> Iterator[None]:
    """A folder for the scenarios of this command alone, while the context is open.

    identity: of what decides. Raises ScenarioFailed, OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise ScenarioFailed(f"{folder}: is in use by another run, of process {lock.read().strip()}") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        _check_identity(folder, identity, resumes=resumes)
        yield


def _check_identity(folder: Path, identity: Mapping[str, object], *, resumes: bool) -> None:
    file, identity = folder / _PLAN, json.loads(json.dumps(identity))
    if not file.exists():
        if resumes:
            raise ScenarioFailed(f"{folder}: holds no run to be resumed")
        _write(file, json.dumps(identity, indent=1).encode())
        return
    if not resumes:
        raise ScenarioFailed(f"{folder}: holds a run already: --resume goes on with it")
    try:
        before = json.loads(file.read_text())
    except ValueError as error:
        raise ScenarioFailed(f"{file}: is not JSON: {error}") from error
    differing = sorted(key for key in {*identity, *before} if identity.get(key) != before.get(key))
    if differing:
        raise ScenarioFailed(f"{folder}: holds another run: {', '.join(differing)} differ")


def digest_of(paths: Sequence[str]) -> str:
    """Of the contents of files, and of all files below folders. Raises OSError."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(one for one in Path(path).rglob("*") if one.is_file()) if Path(path).is_dir() else [Path(path)]
        for file in files:
            digest.update(f"{file}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _kept(folder: Path | None, case: Case) -> Scenario | None:
    file = folder / case.name if folder else None
    if file is None or not file.exists():
        return None
    try:
        return scenario_of(file.read_bytes())
    except InvalidResult as error:
        raise ScenarioFailed(f"{file}: {error}") from error


def _write(file: Path, content: bytes) -> None:
    """All of it, or nothing."""
    part = file.with_suffix(".part")
    part.write_bytes(content)
    part.replace(file)
