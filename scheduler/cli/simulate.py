"""`dra simulate`: arrivals and departures of pods on a fleet, by several policies."""

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from allocator.gates import Features
from allocator.policies import NAMES, UnknownPolicy, policy_of
from allocator.policies.contract import FIRST_FIT
from allocator.words import counted, whole_number
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import feature_options, page_head
from scheduler.cli.dask_cluster import on_cluster
from scheduler.cli.ending import FilePath, NumberRange, print_to_stderr, stop
from scheduler.cli.inputs import (
    POLICY,
    groups_option,
    keep_going_option,
    overlay_option,
    paths_argument,
    seconds_of,
    time_of,
)
from scheduler.cli.printing import Progress, output_option, print_report
from scheduler.cli.run_scenarios import RunFolder, Runner, on_this_machine, opened, run_all
from scheduler.cli.scenarios import (
    ENDLESS,
    EXPONENTIAL,
    ORDER,
    POISSON,
    TRACE,
    WITH,
    WITHOUT,
    Case,
    Plan,
    ScenarioFailed,
    Variant,
    gates_in_force,
    input_code,
    planned,
    report_input,
    require_usable,
)
from scheduler.defrag.search import DefragTerms
from scheduler.input.documents import STDIN
from scheduler.installation import description
from scheduler.output.report import JSON, PAGE, TEXT
from scheduler.output.simulation_report import CSV, SimulationReport
from scheduler.simulation.changes import is_change, unknown_change
from scheduler.simulation.compare import InvalidRecord, Record, compare, read_record
from scheduler.simulation.power_models import read_power_models
from scheduler.simulation.result import Scenario, SimulationResult

_MOST_SEEDS, _MOST_DIGITS = 10_000, 19
_SET = "set"

_EPILOG = """
\b
Exit codes: 0 if all scenarios ran, 1 if --compare finds a difference, or an object of an unknown kind has claims; 2 for
invalid input.

\b
Examples:
  dra simulate cluster.yaml pending.yaml --policy first-fit --policy fgd       the pending pods, by two policies
  dra simulate cluster.yaml --trace day.jsonl --policy fgd                     events of a day
  dra simulate dump/ --trace dump --time-scale 0.5                             the dump's own pods, twice as fast
  dra simulate dump/ --trace dump --arrivals poisson:0.9 --seeds 1-5           its pods, at random, at a load of 90 %
  dra simulate dump/ --trace dump --set add:gpu-a:4 --set drain:gpu-b          beside two other fleets
  dra simulate nodes.csv --trace default.csv --no-retries -o csv               the openb trace
"""


def _seeds(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        numbers = (first, last) if dash else (first, first)
        if not all(number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS for number in numbers):
            raise click.BadParameter(f"{part!r:.80} is neither a whole number nor a range such as 42-51")
        begin, end = map(int, numbers)
        if end < begin or len(seeds) + end - begin >= _MOST_SEEDS:
            raise click.BadParameter(f"{part!r} is empty, or more than {_MOST_SEEDS} seeds")
        seeds += range(begin, end + 1)
    return tuple(dict.fromkeys(seeds))


def _policies(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            policy_of(text)
        except UnknownPolicy as error:
            raise click.BadParameter(str(error)) from error
    return tuple(dict.fromkeys(texts))


def _what_ifs(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        for part in text.split(","):
            if not is_change(part) and not (part and Path(part).exists()):
                raise click.BadParameter(unknown_change(part))
    return texts


def _folder(_context: click.Context, _option: click.Parameter, folder: Path | None) -> Path | None:
    if folder is not None and not folder.name:
        raise click.BadParameter(f"{str(folder)!r} is no folder of its own")
    return folder


def _arrivals(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if text.startswith(POISSON):
            _number(text.removeprefix(POISSON), f"{text!r}: the load")
        elif text != TRACE and not (text.startswith(ORDER) and text != ORDER):
            raise click.BadParameter(f"{text!r} is not one of {TRACE}, {POISSON}LOAD, {ORDER}FILE")
    return tuple(dict.fromkeys(texts)) or (TRACE,)


def _durations(_context: click.Context, _option: click.Parameter, text: str) -> str:
    if text.startswith(EXPONENTIAL):
        _number(text.removeprefix(EXPONENTIAL), f"{text!r}: the mean")
    elif text not in (TRACE, ENDLESS):
        raise click.BadParameter(f"{text!r} is not one of {TRACE}, {EXPONENTIAL}SECONDS, {ENDLESS}")
    return text


def _defrag(_context: click.Context, _option: click.Parameter, text: str) -> DefragTerms | None:
    """The terms; None where nothing moves."""
    if not text:
        return None
    fields = dict(one.partition("=")[::2] for one in text.split(","))
    if unknown := sorted(fields.keys() - {"every", "max-moves"}):
        raise click.BadParameter(f"{text!r}: {unknown[0]} is neither every nor max-moves")
    if "every" not in fields:
        raise click.BadParameter(f"{text!r} does not say every=TIME")
    moves, every_s = whole_number(fields.get("max-moves", "5"), sys.maxsize), seconds_of(fields["every"])
    if not every_s:
        raise click.BadParameter(f"{fields['every']!r}: the time is not above 0")
    if not moves:
        raise click.BadParameter(f"{fields['max-moves']!r:.80}: max-moves is a number above 0")
    return DefragTerms(every_s, moves)


def _costing(terms: DefragTerms | None, cost_s: float) -> DefragTerms | None:
    if terms is None and cost_s:
        raise click.UsageError("--move-cost needs --defrag.")
    return replace(terms, cost_s=cost_s) if terms is not None else None


def _numbers(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(_number(text, "") for text in texts))


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise click.BadParameter(f"{what} {text!r} is not a number above 0".strip())
    return number


def _factor_option(name: str, metavar: str, text: str) -> Callable[..., Any]:
    return click.option(name, multiple=True, metavar=metavar, callback=_numbers, help=f"{text} Can be repeated.")


@click.command(name="simulate", epilog=_EPILOG)
@paths_argument
@click.option(
    "--trace",
    default="",
    metavar="FILE|dump",
    help="Trace to replay: events in JSON lines, a workload of the openb trace (.csv, with nodes.csv as PATH), or "
    "`dump`: the pods of the input at their own times. Default: the pending pods, one after the other.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar=POLICY,
    callback=_policies,
    shell_complete=cluster_source.policies,
    help=f"Policies to compare: {', '.join(NAMES)}, or classes of your own (docs/policies.md). "
    f"Can be repeated.  [default: that of --config, or {FIRST_FIT.name}]",
)
@click.option(
    "--config",
    type=FilePath(path_type=Path),
    metavar="FILE",
    help="Configuration file of the live scheduler, whose profiles are used; --policy replaces their policy.",
)
@click.option(
    "--seeds", default="42", show_default=True, metavar="42-51", callback=_seeds, help="Seeds of random values."
)
@click.option(
    "--arrivals",
    multiple=True,
    metavar="trace|poisson:LOAD|order:FILE",
    callback=_arrivals,
    help="When pods arrive: at the times of the trace; at random times, at a rate that keeps LOAD of the capacity in "
    "use (1: all of it); or in the order of FILE for the seed. Can be repeated.  [default: trace]",
)
@click.option(
    "--durations",
    default=TRACE,
    show_default=True,
    metavar="trace|exp:SECONDS|none",
    callback=_durations,
    help="How long pods run: as in the trace; exponentially distributed with this mean; or forever.",
)
@_factor_option(
    "--inflate", "PERCENT", "Add or leave out random pods until all pods together request this percent of the capacity."
)
@_factor_option(
    "--time-scale",
    "FACTOR",
    "Multiply the times of arrivals and events, but not durations, nor the times that poisson:LOAD draws.",
)
@_factor_option("--nodes-scale", "FACTOR", "Keep this share of the nodes, or add copies of them.")
@click.option(
    "--limits",
    type=click.Choice([WITH, WITHOUT]),
    multiple=True,
    help="Whether the limits per tenant of --config hold. Given twice, both are compared.  [default: with]",
)
@click.option(
    "--set",
    "what_ifs",
    multiple=True,
    metavar="CHANGE,...|PATH",
    callback=_what_ifs,
    help="What-if to run beside the unchanged fleet: drain:NODE, cordon:NODE, taint:NODE:KEY=VALUE:EFFECT, fail:NODE, "
    "add:NODE:COUNT, remove:node/NODE, or objects that replace others, as for --overlay. Can be repeated.",
)
@overlay_option
@click.option("--no-retries", is_flag=True, help="Give up pods at the first refusal.")
@click.option("--no-preemption", is_flag=True, help="Evict no pod for a pod of higher priority.")
@click.option(
    "--defrag",
    default="",
    metavar="every=TIME[,max-moves=N]",
    callback=_defrag,
    help="Every TIME (such as 3600, 90m or 1h), move up to N (5) running pods so that pods that wait have a place; a "
    "moved pod loses its run.",
)
@click.option(
    "--move-cost",
    type=NumberRange(0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="With --defrag: a pod runs for so much longer for each time that it was moved.",
)
@click.option(
    "--group-reservation",
    default="0s",
    show_default=True,
    metavar="TIME",
    callback=time_of,
    help="How long a group of pods waits before it holds nodes and devices as they free, and how long it holds them, "
    "such as 600 or 10m; 0: never.",
)
@click.option(
    "--no-scores",
    is_flag=True,
    help="Ignore kube-scheduler's scores: of nodes that are equal to the policy, select the first.",
)
@click.option(
    "--power-models",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Watts by model of GPU and CPU, added to the published ones or in their place (docs/simulate.md).",
)
@click.option("--explain", multiple=True, metavar="NS/NAME", help="Record each attempt for this pod. Can be repeated.")
@click.option(
    "--compare",
    "records",
    multiple=True,
    type=FilePath(path_type=Path),
    metavar="FILE.csv",
    help="Compare the curves with recorded ones, such as the output of -o csv; exit with 1 if one differs by "
    "more than 0.01. Can be repeated.",
)
@output_option(TEXT, JSON, CSV, PAGE)
@click.option(
    "--results",
    "folder",
    callback=_folder,
    type=FilePath(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the results of finished scenarios.",
)
@click.option("--resume", is_flag=True, help="Continue the run in --results; finished scenarios are not run again.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Number of processes.  [default: one for each core]"
)
@click.option(
    "--scheduler",
    "address",
    default="",
    metavar="tcp://HOST:PORT",
    help="Run the scenarios in the workers of this dask scheduler, on many machines (docs/simulate.md).",
)
@feature_options
@groups_option
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    paths: tuple[str, ...],
    overlays: tuple[str, ...],
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    what_ifs: tuple[str, ...],
    records: tuple[Path, ...],
    output: str,
    folder: Path | None,
    resume: bool,
    jobs: int | None,
    address: str,
    features: Features,
    **options: Any,
) -> None:
    """Simulate arrivals and departures of pods on a fleet, and compare policies.

    PATH is the state at the start, as for `dra allocate`. Bound pods stay on their nodes, allocated claims keep their
    devices. The live scheduler's own code makes each decision under a virtual clock, with its queue, backoff and hints:
    a refused pod is retried when an event may help it, or takes the place of pods of lower priority, and a pod that
    ends releases its devices. Everything but the
    duration of decisions is the same on every run and machine.
    """
    plan = Plan(
        paths=paths,
        overlays=overlays,
        stdin=sys.stdin.buffer.read() if STDIN in paths else b"",
        release=features.release.name,
        gates=gates_in_force(features),
        is_strict=features.is_strict,
        keep_going=options["keep_going"],
        trace=options["trace"],
        config=options["config"],
        durations=options["durations"],
        retries=not options["no_retries"],
        preempts=not options["no_preemption"],
        defrag=_costing(options["defrag"], options["move_cost"]),
        reservation_s=options["group_reservation"],
        scores=not options["no_scores"],
        explained=tuple(_full_name(name) for name in options["explain"]),
        group_kinds=tuple(sorted(set(options["group_kinds"]))),
        power_models=options["power_models"],
    )
    own = ("",) if plan.config else (FIRST_FIT.name,)
    cases = [Case(*one) for one in itertools.product(_variants(what_ifs, options), policies or own, seeds)]
    if resume and not folder:
        stop("--resume needs --results DIR")
    if address and jobs:
        raise click.UsageError("--jobs is for this machine, and excludes --scheduler.")
    try:
        recorded = [read_record(file) for file in records]
        with on_cluster(address) if address else nullcontext(on_this_machine(jobs or os.cpu_count() or 1)) as runner:
            plan = planned(plan, cases)
            result = _result(plan, cases, runner, folder, resumes=resume)
    except ScenarioFailed as error:
        stop(*error.args)
    except ValueError as error:
        stop(str(error))
    except OSError as error:
        stop(f"{error.filename}: {error.strerror}")
    print_report(SimulationReport(result), output, page_head(paths, features))
    differs = _differs(recorded, result, Path(plan.trace).stem) if recorded else False
    sys.exit(input_code(plan, cases) or int(differs))


def _result(
    plan: Plan, cases: Sequence[Case], runner: Runner, folder: Path | None, *, resumes: bool
) -> SimulationResult:
    """Of all scenarios, in the order of their cases. Raises ScenarioFailed, ValueError."""
    if folder:
        _require_apart(folder, plan.files)
    report_input(plan, cases)
    if plan.power_models:
        read_power_models(plan.power_models)
    require_usable(plan, cases)
    with opened(folder, plan, resumes=resumes) if folder else nullcontext() as kept:
        finished: list[tuple[Case, Scenario]] = []
        try:
            with Progress(doing="simulating", has_bar=True) as progress:
                finished.extend(run_all(plan, cases, runner, kept, progress.show))
        except (ScenarioFailed, KeyboardInterrupt) as error:
            print_to_stderr(_unfinished(error, len(finished), kept))
            raise
    places = {_key(case): place for place, case in enumerate(cases)}
    return SimulationResult(
        description(), tuple(one for _, one in sorted(finished, key=lambda pair: places[_key(pair[0])]))
    )


def _key(case: Case) -> tuple[object, ...]:
    return case.policy, case.seed, *case.variant.parameters.items()


def _require_apart(folder: Path, inputs: Sequence[str]) -> None:
    for path in inputs:
        if folder.resolve().is_relative_to(Path(path).resolve()):
            raise ScenarioFailed(f"--results {folder} is below {path}, and would be read as input")


def _unfinished(error: BaseException, finished: int, folder: RunFolder | None) -> list[str]:
    """What is said of scenarios that have finished when others have not."""
    begin = "interrupted: " if isinstance(error, KeyboardInterrupt) else ""
    if folder:
        return [f"{begin}{_finished(folder.kept)} in {folder.folder}; --resume goes on"]
    return [f"{begin}{_finished(finished)} lost; --results DIR keeps them"] if finished else []


def _finished(number: int) -> str:
    return counted(number, "finished scenario is", "finished scenarios are")


def _variants(what_ifs: Sequence[str], options: dict[str, Any]) -> list[Variant]:
    """All combinations; only what has several values is a parameter."""
    choices: dict[str, Sequence[Any]] = {
        "what_if": ("", *dict.fromkeys(what_ifs)),
        "arrivals": options["arrivals"],
        "inflate": options["inflate"] or (0.0,),
        "time_scale": options["time_scale"] or (1.0,),
        "nodes_scale": options["nodes_scale"] or (1.0,),
        "limits": tuple(dict.fromkeys(options["limits"])) or (WITH,),
    }
    varied = [name for name, values in choices.items() if len(values) > 1]
    variants = []
    for values in itertools.product(*choices.values()):
        named = dict(zip(choices, values, strict=True))
        parameters = {_option_of(name): _shown(named[name]) for name in varied if named[name] != ""}
        variants.append(replace(Variant(**named), parameters=parameters))
    return variants


def _option_of(name: str) -> str:
    return _SET if name == "what_if" else name.replace("_", "-")


def _shown(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _full_name(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _differs(records: Sequence[Record], result: SimulationResult, workload: str) -> bool:
    """Whether a curve differs from a recorded one; the differences are printed."""
    try:
        comparisons = [compare(one, result.scenarios, workload) for one in records]
    except InvalidRecord as error:
        stop(str(error))
    differences = [line for one in comparisons for line in one.differences]
    print_to_stderr([*differences, *(line for one in comparisons for line in one.unrecorded)])
    print_to_stderr([f"{sum(one.equal for one in comparisons)} curves equal, {len(differences)} differ"])
    return bool(differences)
