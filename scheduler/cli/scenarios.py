"""The scenarios of `dra simulate`: what each is, and how one is run.

Whoever runs one reads the input itself, so that nothing but a plan and results passes between processes.
"""

import hashlib
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO, cast

from allocator.gates import RELEASES, Features
from allocator.outcome import PolicyFailed
from allocator.policies import NAMES
from allocator.policies.own import names_a_class
from allocator.policies.power import PUBLISHED
from allocator.words import and_more, counted
from scheduler import garbage
from scheduler.cli.ending import BAD_INPUT, print_to_stderr
from scheduler.cli.inputs import DecidedBy, Input, decided_by, inventory_of
from scheduler.core_v1.node import PriorityClass
from scheduler.defrag.search import DefragTerms
from scheduler.input.documents import STDIN, Finding, manifests_below, read
from scheduler.input.inventory import Inventory
from scheduler.offline.input_claims import Priorities
from scheduler.output.input_report import MAX_REPORTED
from scheduler.plugins.profile import ONLY_FILTERS, Profile
from scheduler.simulation.changes import InvalidChange, changed, is_change
from scheduler.simulation.jobs import Arrivals, Durations, Endless, Exponential, InvalidWorkload, Poisson, Rows
from scheduler.simulation.openb import GATES, Openb
from scheduler.simulation.power_models import read_power_models
from scheduler.simulation.result import Scenario
from scheduler.simulation.scenario import NOTHING, Clocks, Settings, Start, run
from scheduler.simulation.trace import Trace, order_of, read_trace, trace_of_dump

# Digests of what scenarios read: all of them run on the same input, also if a file is edited meanwhile.


class NotReadTwice(ValueError):
    """A path of which nothing is left once it was read; the text names it."""


def digests_of(paths: Iterable[str]) -> Mapping[str, str]:
    """The digest of each file or folder. Raises NotReadTwice, for a pipe or the like."""
    return {path: digest_of(Path(path)) for path in paths}


def digest_of(path: Path) -> str:
    """Of a file's bytes, or of the manifests below a folder and their names; empty where there is nothing to read."""
    if path.is_dir():
        return _digest(f"{file.relative_to(path)}\0{_file_digest(file)}\n".encode() for file in files_below(path))
    if path.exists() and not path.is_file():
        raise NotReadTwice(
            f"{path}: is not a regular file, and every scenario reads its input: use a file, or - for stdin"
        )
    return _file_digest(path)


def files_below(folder: Path) -> Iterator[Path]:
    """Those that are read of a folder."""
    return (Path(file) for file in manifests_below(str(folder)) if not isinstance(file, Finding))


def policy_digest(policy: str) -> str:
    """Of the module of a user's policy; empty for a built-in one. What the module imports is not looked at."""
    file = module_file(policy)
    return digest_of(file) if file else ""


def module_file(policy: str) -> Path | None:
    """The file of the module of a user's policy."""
    if not names_a_class(policy):
        return None
    name = policy.partition(":")[0]
    spec = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
    return Path(spec.origin) if spec and spec.origin else None


def _file_digest(file: Path) -> str:
    """Empty where it cannot be read: whoever reads it says so."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def _digest(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


TRACE, ORDER, POISSON = "trace", "order:", "poisson:"
"""What `--arrivals` may be."""

WITH, WITHOUT = "with", "without"
"""What `--limits` may be: whether the limits per tenant hold."""

EXPONENTIAL, ENDLESS = "exp:", "none"
"""What `--durations` may be beside `trace`."""

DUMP = "dump"
"""The trace that the input itself holds."""

OPENB_NODES = "nodes.csv"
"""The fleet of the openb trace."""


class ScenarioFailed(Exception):
    """Scenarios cannot be run; each argument is a line for the user."""


class BrokenPolicy(Exception):
    """A scenario cannot be run, but others can; the text is for the user."""


_MOST_PROBLEMS = 10
"""Of so many scenarios the problem is shown; the others are counted."""


def require_none(problems: Sequence[str]) -> None:
    """Raises ScenarioFailed where there are problems of scenarios, one each."""
    if problems:
        more = and_more(len(problems), _MOST_PROBLEMS, "scenario")
        raise ScenarioFailed(*problems[:_MOST_PROBLEMS], *([more] if more else []))


@dataclass(frozen=True, slots=True)
class Variant:
    """A fleet and its arrivals, as the options say."""

    what_if: str = ""
    arrivals: str = TRACE
    inflate: float = 0.0
    time_scale: float = 1.0
    nodes_scale: float = 1.0
    limits: str = WITH
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Those of the options that have several values."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario to be run."""

    variant: Variant
    policy: str
    seed: int

    def __str__(self) -> str:
        named = (f"{name}={value}" for name, value in self.variant.parameters.items())
        return ", ".join([f"policy {self.policy or 'of --config'}", f"seed {self.seed}", *named])

    @property
    def files(self) -> tuple[str, ...]:
        """What it reads beside what all read: objects of its what-if, and the order of its arrivals."""
        objects = (one for one in self.variant.what_if.split(",") if one and not is_change(one))
        order = self.variant.arrivals
        return (*objects, *([order.removeprefix(ORDER)] if order.startswith(ORDER) else []))

    def moved(self, place: Callable[[str], str]) -> "Case":
        """With its files elsewhere."""
        variant = self.variant
        order = f"{ORDER}{place(variant.arrivals.removeprefix(ORDER))}"
        arrivals = order if variant.arrivals.startswith(ORDER) else variant.arrivals
        what_if = ",".join(map(place, variant.what_if.split(",")))
        return replace(self, variant=replace(variant, what_if=what_if, arrivals=arrivals))


@dataclass(frozen=True, slots=True)
class Plan:
    """All that scenarios have in common."""

    paths: tuple[str, ...]
    overlays: tuple[str, ...] = ()
    stdin: bytes = b""
    """What the path `-` stands for."""
    release: str = ""
    gates: tuple[tuple[str, bool], ...] = ()
    is_strict: bool = False
    keep_going: bool = False
    trace: str = ""
    """A path, `dump`, or nothing."""
    config: Path | None = None
    durations: str = TRACE
    retries: bool = True
    preempts: bool = True
    defrag: DefragTerms | None = None
    reservation_s: float = 0.0
    scores: bool = True
    explained: tuple[str, ...] = ()
    group_kinds: tuple[str, ...] = ()
    power_models: Path | None = None
    digests: tuple[tuple[str, str], ...] = ()
    """Of what the scenarios read, by path, or by policy for a user's own; as of the start of the run."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files and folders that all scenarios read."""
        objects = [one for one in (*self.paths, *self.overlays) if one != STDIN and not is_change(one)]
        trace = [] if self.trace in ("", DUMP) else [self.trace]
        more = [str(one) for one in (self.config, self.power_models) if one]
        return (*objects, *trace, *more)

    def moved(self, place: Callable[[str], str]) -> "Plan":
        """With the files elsewhere. place: of a file's name; anything else stays as it is."""
        return replace(
            self,
            paths=tuple(map(place, self.paths)),
            overlays=tuple(map(place, self.overlays)),
            trace=place(self.trace),
            config=Path(place(str(self.config))) if self.config else None,
            power_models=Path(place(str(self.power_models))) if self.power_models else None,
            digests=tuple((place(name), digest) for name, digest in self.digests),
        )

    def digests_of(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these names, as of the start."""
        known = dict(self.digests)
        return {name: known[name] for name in names}

    @property
    def features(self) -> Features:
        """The features in force; the openb trace shares its GPUs."""
        gates = {**dict(self.gates), **(GATES if self.is_openb else {})}
        return Features.of(self.release, gates, is_strict=self.is_strict)

    @property
    def is_openb(self) -> bool:
        """Whether the fleet is that of the openb trace."""
        return len(self.paths) == 1 and Path(self.paths[0]).name == OPENB_NODES


def gates_in_force(features: Features) -> tuple[tuple[str, bool], ...]:
    """Each gate of the release, on or off: what a plan keeps of features."""
    return tuple((gate, gate in features.gates) for gate in sorted(RELEASES[features.release.name].gates))


def planned(plan: Plan, cases: Iterable[Case]) -> Plan:
    """The plan with the digests of all that its scenarios read. Raises NotReadTwice."""
    cases = list(cases)
    paths = dict.fromkeys([*plan.files, *(file for case in cases for file in case.files)])
    policies = {case.policy: policy_digest(case.policy) for case in cases}
    return replace(plan, digests=tuple({**digests_of(paths), **policies}.items()))


def require_unchanged(plan: Plan, case: Case) -> None:
    """Raises ScenarioFailed where something that the scenario reads is not what it was at the start of the run."""
    read = {**digests_of([*plan.files, *case.files]), case.policy: policy_digest(case.policy)}
    for name, before in plan.digests_of(read).items():
        if read[name] != before:
            what = f"the module of policy {name}" if name == case.policy else name
            raise ScenarioFailed(f"{what}: has changed since the run began")


# -- one scenario


def run_case(
    plan: Plan,
    case: Case,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    expected: Start | None = None,
) -> Scenario:
    """Run a scenario. progress: of its arrivals. expected: as of `Start`. Raises ScenarioFailed, BrokenPolicy."""
    with _failing():
        with _silenced():
            start = replace(start_of(plan, case.variant.what_if, case.variant.nodes_scale), expected=expected)
            by, settings = _decided_by(plan, case), _settings(plan, case, start)
        require_unchanged(plan, case)
        try:
            with garbage.making_none() if _makes_no_garbage(by.profiles) else nullcontext():
                scenario = run(
                    start,
                    by.profiles,
                    replace(settings, limits=by.limits if case.variant.limits == WITH else ()),
                    _CLOCKS,
                    progress,
                )
        except PolicyFailed as error:
            raise BrokenPolicy(f"{case}: {error}") from error
        return replace(scenario, policy=case.policy or scenario.policy)


def _makes_no_garbage(profiles: Iterable[Profile]) -> bool:
    """Whether no decision leaves garbage in cycles; of a policy of the user's own that is not known."""
    return all(one.policy.name.partition(":")[0] in NAMES for one in profiles)


@contextmanager
def _failing() -> Iterator[None]:
    """What cannot be used, as ScenarioFailed: each kind of input has its own error, with file, field and value."""
    try:
        yield
    except ValueError as error:
        raise ScenarioFailed(str(error)) from error


@contextmanager
def _silenced() -> Iterator[None]:
    """Findings about the input were printed before; if the command ends, the scenario fails."""
    warnings = io.StringIO()
    try:
        with redirect_stderr(warnings):
            yield
    except SystemExit as end:
        raise ScenarioFailed(*_errors(warnings.getvalue())) from end


def _errors(printed: str) -> Iterator[str]:
    """The lines of errors, without their marks."""
    for line in printed.splitlines():
        if line.startswith(("dra: ", "error: ")):
            yield line.removeprefix("dra: ").removeprefix("error: ")


_CLOCKS = Clocks(time.perf_counter, time.process_time)


def _decided_by(plan: Plan, case: Case) -> DecidedBy:
    by = decided_by(plan.config, case.policy)
    if plan.scores:
        return by
    return replace(by, profiles=[replace(one, plugins=ONLY_FILTERS) for one in by.profiles])


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
        plan.preempts,
        plan.defrag,
        places,
        frozenset(plan.explained),
        variant.parameters,
        group_kinds=frozenset(plan.group_kinds),
        power_models=read_power_models(plan.power_models) if plan.power_models else PUBLISHED,
        reservation_s=plan.reservation_s,
    )


def _durations(text: str) -> Durations:
    if text.startswith(EXPONENTIAL):
        return Exponential(float(text.removeprefix(EXPONENTIAL)))
    return Endless() if text == ENDLESS else None


def _order(file: Path, seed: int, start: Start) -> tuple[Rows, dict[str, int]]:
    """The arrivals and the order of equal nodes that the file has for the seed."""
    nodes = start.inventory.nodes
    order = order_of(file, seed, len(start.jobs), len(nodes))
    return Rows(order.pods), {nodes[row].name: place for place, row in enumerate(order.nodes)}


# -- what scenarios start from


@lru_cache(maxsize=2)
def start_of(plan: Plan, what_if: str, nodes_scale: float) -> Start:
    """The input with a what-if, and so many times its nodes; warnings are printed.

    Raises ValueError, by the kind of what is wrong; ends the command where the input has errors.
    """
    with garbage.staying():
        return _start(plan, what_if, nodes_scale)


def _start(plan: Plan, what_if: str, nodes_scale: float) -> Start:
    if plan.is_openb:
        return _openb_start(plan, what_if, nodes_scale)
    inventory = _inventory(plan, what_if, nodes_scale)
    given = Input.of(inventory, plan.features)
    start = _start_of(plan, inventory, given)
    given.warn_of((job.spec for job in start.jobs), is_simulated=True)
    return start


def _start_of(plan: Plan, inventory: Inventory, given: Input) -> Start:
    """What the trace makes of the input."""
    if not plan.trace:
        return Start(inventory, given.pods)
    if plan.trace == DUMP:
        return _dump_start(inventory, given)
    priorities = Priorities(inventory.of(PriorityClass))
    trace = read_trace(Path(plan.trace), inventory, given.pods, plan.features, priorities.of)
    print_to_stderr(_warnings_of(plan.trace, trace.warnings))
    return Start(inventory, given.pods, trace)


def _warnings_of(file: str, found: Sequence[Finding]) -> Iterator[str]:
    yield from (f"warning: {one}" for one in found[:MAX_REPORTED])
    if more := and_more(len(found), MAX_REPORTED):
        yield f"warning: {file}: {more}"


def _inventory(plan: Plan, what_if: str, nodes_scale: float) -> Inventory:
    inventory = _unchanged(plan, what_if)
    return _changed(inventory, [one for one in what_if.split(",") if is_change(one)], nodes_scale)


def _unchanged(plan: Plan, what_if: str) -> Inventory:
    """The input with the objects of a what-if, and without its changes."""
    files = tuple(one for one in what_if.split(",") if one and not is_change(one))
    return _openb_inventory(plan, files) if plan.is_openb else _read(plan, files)


@lru_cache(maxsize=2)
def _read(plan: Plan, files: tuple[str, ...]) -> Inventory:
    """The input with these objects in place of others, without what only messages name."""
    if plan.stdin:
        sys.stdin = io.TextIOWrapper(io.BytesIO(plan.stdin))
    inventory = inventory_of(read(plan.paths), (*plan.overlays, *files), plan.features, keep_going=plan.keep_going)
    return replace(inventory, places={}, versions={}, labels={})


def _changed(inventory: Inventory, texts: Sequence[str], nodes_scale: float) -> Inventory:
    option = "--nodes-scale"
    try:
        inventory = changed(inventory, (), nodes_scale)
        option = "--set"
        return changed(inventory, texts) if texts else inventory
    except InvalidChange as error:
        raise InvalidChange(f"{option} {error}") from error


def require_usable(plan: Plan, cases: Sequence[Case]) -> None:
    """Raises ScenarioFailed where a what-if, a scale or an order cannot be used, or nothing happens in any scenario.

    Before any scenario runs. A what-if evicts pods: something can happen with it, and nothing without it.
    """
    fleets = _fleets(cases)
    with _failing(), _silenced():
        for what_if, nodes_scale in fleets:
            _inventory(plan, what_if, nodes_scale)
        if not any(start_of(plan, *fleet).has_events for fleet in fleets):
            raise InvalidWorkload(NOTHING)
        first = cases[0].variant  # whose start is read already; other fleets may have other numbers of nodes
        start = start_of(plan, first.what_if, first.nodes_scale)
        for arrivals, seed in sorted({(one.variant.arrivals, one.seed) for one in cases}):
            if arrivals.startswith(ORDER):
                _order(Path(arrivals.removeprefix(ORDER)), seed, start)


def _fleets(cases: Iterable[Case]) -> list[tuple[str, float]]:
    """What the scenarios begin with: each what-if with each scale."""
    return sorted({(one.variant.what_if, one.variant.nodes_scale) for one in cases})


def report_input(plan: Plan, cases: Sequence[Case]) -> None:
    """Print what is to be said of the input, and what only a what-if beside it adds. As `start_of`."""
    first, said = cases[0].variant, _KeptStderr(sys.stderr)
    with redirect_stderr(cast(TextIO, said)):
        start_of(plan, first.what_if, first.nodes_scale)
    for what_if in dict.fromkeys(case.variant.what_if for case in cases[1:] if case.files):
        try:
            with redirect_stderr(io.StringIO()) as text:
                start_of(plan, what_if, first.nodes_scale)
        except (SystemExit, ValueError):  # which `require_usable` reports
            return
        lines = text.getvalue().splitlines()
        print_to_stderr(line for line in lines if line not in said.lines)
        said.lines.update(lines)


class _KeptStderr(io.TextIOBase):
    """Standard error, of which the lines are kept."""

    def __init__(self, stream: TextIO) -> None:
        self.lines: set[str] = set()
        self._stream = stream

    def write(self, text: str) -> int:
        self.lines.update(text.splitlines())
        return self._stream.write(text)

    def isatty(self) -> bool:
        return self._stream.isatty()


def input_code(plan: Plan, cases: Iterable[Case]) -> int:
    """The exit code where all scenarios ran: what they began with may have errors, or pods that are not known."""
    with _silenced():
        inventories = [_unchanged(plan, what_if) for what_if in dict.fromkeys(case.variant.what_if for case in cases)]
    if any(one.errors for one in inventories):
        return BAD_INPUT
    return int(any(one.unseen for one in inventories))


def _dump_start(inventory: Inventory, given: Input) -> Start:
    own = [pod for pod in given.pods if pod.raw]  # those of workloads were never created
    trace = trace_of_dump(inventory, own)
    if trace.undated:
        left_out = counted(trace.undated, "pod is", "pods are")
        print_to_stderr([f"warning: {left_out} left out: metadata.creationTimestamp is missing or no time"])
    return Start(trace.inventory, trace.stays, Trace(tuple(trace.jobs)))


def _openb_start(plan: Plan, what_if: str, nodes_scale: float) -> Start:
    """The fleet of nodes.csv, empty, and a workload beside it."""
    inventory = _inventory(plan, what_if, nodes_scale)
    return Start(inventory, (), Trace(tuple(_openb(plan).jobs())))


def _openb_inventory(plan: Plan, files: Sequence[str]) -> Inventory:
    objects = [one for one in (*plan.overlays, *files) if not is_change(one)]
    if objects:
        raise InvalidWorkload(f"{objects[0]}: a fleet of the openb trace takes changes, such as drain:NODE, no objects")
    inventory = _openb(plan).inventory(plan.features)
    try:
        return changed(inventory, plan.overlays) if plan.overlays else inventory
    except InvalidChange as error:
        raise InvalidChange(f"--overlay {error}") from error


@lru_cache(maxsize=1)
def _openb(plan: Plan) -> Openb:
    file = Path(plan.trace)
    if file.suffix != ".csv" or file.parent.resolve() != Path(plan.paths[0]).parent.resolve():
        raise InvalidWorkload(f"{plan.paths[0]} is a fleet of the openb trace: --trace has to be a .csv file beside it")
    return Openb(file.parent, file.stem)
