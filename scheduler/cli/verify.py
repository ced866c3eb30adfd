"""`dra verify`: recorded cases with the reference's answers, replayed; and its subcommand for selectors.

`dra verify cel` replays pairs of expression and device; it compares result, phase of an error and cost. One JSON object
a line: id, expr, device (as in a v1 ResourceSlice), and the reference's answer: `result`, or `error` with its phase;
`cost` (up to `cost_hi` where the order of a map matters) and `max_cost`, the estimate. A row whose outcome was another
in Kubernetes 1.36 says so in `v136`; costs were recorded for 1.37 and 1.38 only.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import click

import cel
from scheduler.cli.ending import FilePath
from scheduler.cli.recorded import InvalidCase, cases_of, field_of, of_kind, replay_all
from scheduler.cli.verify_allocation import command as allocation
from scheduler.cli.verify_scheduling import command as scheduling
from scheduler.kinds import Raw

Kubernetes = Literal["1.36", "1.37", "1.38"]
_ENVIRONMENTS: Final[Mapping[str, cel.Environment]] = {
    "1.36": cel.V1_36,
    "1.37": cel.V1_37,
    "1.38": cel.V1_38,
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What the reference answered. phase: of its error, None with a result. cost, max_cost: None where not recorded."""

    result: bool | None
    phase: str | None
    max_cost: int | None
    cost: range | None


@dataclass(frozen=True, slots=True)
class CelCase:
    """One recorded pair."""

    id: str
    expression: str
    device: cel.PlainDevice
    expected: Expected


@dataclass(frozen=True, slots=True)
class ReplayedExpression:
    """How one case went; differences is empty where it passed."""

    id: str
    expression: str
    differences: tuple[str, ...]


def replay(lines: Iterator[bytes], kubernetes: Kubernetes = "1.37") -> Iterator[ReplayedExpression]:
    """How each case went. Raises InvalidCase for a line that is none, with its number."""
    environment = _ENVIRONMENTS[kubernetes]
    for case in cases_of(lines, partial(_case, environment=environment)):
        yield ReplayedExpression(case.id, case.expression, tuple(_differences(case, environment)))


def _case(row: Raw, environment: cel.Environment) -> CelCase:
    expression = field_of(row, "expr", str)
    manner = {"has_lists": environment.has_list_attributes, "on_demand": environment.reads_on_demand}
    device = cel.device_from_json(field_of(row, "device"), **manner)
    return CelCase(str(row.get("id", "")), expression, device, _expected(row, environment))


def _expected(row: Raw, environment: cel.Environment) -> Expected:
    outcome = row
    if environment is cel.V1_36 and "v136" in row:
        outcome = of_kind(row["v136"], "v136", dict)
    error = outcome.get("error")
    phase = None if error is None else field_of(of_kind(error, "error", dict), "phase", str)
    result = outcome.get("result")
    if phase is None and not isinstance(result, bool):
        raise InvalidCase("must have result (true or false) or error")
    cost = None
    if environment is not cel.V1_36 and "cost" in row:
        low = field_of(row, "cost", int)
        cost = range(low, (field_of(row, "cost_hi", int) if "cost_hi" in row else low) + 1)
    max_cost = field_of(row, "max_cost", int) if environment is not cel.V1_36 and "max_cost" in row else None
    return Expected(result if isinstance(result, bool) else None, phase, max_cost, cost)


def _differences(case: CelCase, environment: cel.Environment) -> Iterator[str]:
    expected = case.expected
    try:
        program = cel.compile(case.expression, environment)
    except cel.CompileError as error:
        if expected.phase != "compile":
            yield f"expected {_outcome(expected)}, got a compile error: {error.message}"
        return
    outcome = program.run(case.device)
    phase = None if outcome.error is None else outcome.error.phase
    if (phase, outcome.value) != (expected.phase, expected.result):
        got = _text(outcome.value) if outcome.error is None else f"a {phase} error: {outcome.error.message}"
        yield f"expected {_outcome(expected)}, got {got}"
    if expected.max_cost not in (None, program.estimated_cost):
        yield f"expected an estimated cost of {expected.max_cost}, got {program.estimated_cost}"
    if expected.cost is not None and outcome.cost not in expected.cost:
        most = expected.cost[-1]
        bounds = f"{expected.cost.start}" if most == expected.cost.start else f"{expected.cost.start} to {most}"
        yield f"expected a cost of {bounds}, got {outcome.cost}"


def _outcome(expected: Expected) -> str:
    return _text(expected.result) if expected.phase is None else f"a {expected.phase} error"


def _text(result: object) -> str:
    return "true" if result else "false"


@click.group(name="verify")
def command() -> None:
    """Replay recorded cases and compare the answers.

    Each subcommand prints the cases that differ, and last a line that begins with
    `N passed, M failed, K skipped`.
    """


@command.command(name="cel", epilog="\b\nExample:\n  dra verify cel cases.jsonl --kubernetes 1.36")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=FilePath(allow_dash=True))
@click.option(
    "--kubernetes",
    type=click.Choice(sorted(_ENVIRONMENTS)),
    default="1.37",
    show_default=True,
    help="Kubernetes release that produced the answers.",
)
def cel_command(files: tuple[str, ...], kubernetes: Kubernetes) -> None:
    """Replay recorded selectors on recorded devices and compare result, error and cost.

    FILE contains one JSON case per line; - is standard input. Exit code: 0 if no case failed, 1 if one failed, 2 for
    invalid input.
    """
    counts: Counter[bool] = Counter()
    for replayed in replay_all(files, partial(replay, kubernetes=kubernetes)):
        counts[not replayed.differences] += 1
        for difference in replayed.differences:
            click.echo(f"{replayed.id}: {replayed.expression}\n    {difference}")
    click.echo(f"{counts[True]} passed, {counts[False]} failed, 0 skipped")
    sys.exit(int(counts[False] > 0))


command.add_command(allocation)
command.add_command(scheduling)
