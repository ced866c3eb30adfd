"""`dra verify cel`: recorded pairs of expression and device, replayed; compares result, phase of an error and cost.

One JSON object a line: id, expr, device (as in a v1 ResourceSlice), and the reference's answer: `result`, or `error`
with its phase; `cost` (up to `cost_hi` where the order of a map matters) and `max_cost`, the estimate. A row whose
outcome was another in Kubernetes 1.36 says so in `v136`; costs were recorded for 1.37 only.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import click
import orjson

import cel
from scheduler.cli.ending import stop

Kubernetes = Literal["1.36", "1.37"]
_ENVIRONMENTS: Final[Mapping[str, cel.Environment]] = {"1.36": cel.V1_36, "1.37": cel.V1_37}


class InvalidCase(ValueError):
    """A file that can't be read, or a line that is no recorded case; the text says which."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the reference answered. phase: of its error, None with a result. cost, max_cost: None where not recorded."""

    result: bool | None
    phase: str | None
    max_cost: int | None
    cost: range | None


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded pair."""

    id: str
    expression: str
    device: cel.PlainDevice
    expected: Expected


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one case went; differences is empty where it passed."""

    id: str
    expression: str
    differences: tuple[str, ...]


def verify(paths: Sequence[Path], kubernetes: Kubernetes = "1.37") -> Iterator[Verdict]:
    """Replays the cases of the files in order; raises InvalidCase."""
    environment = _ENVIRONMENTS[kubernetes]
    for path in paths:
        for case in _cases(path, environment):
            yield Verdict(case.id, case.expression, tuple(_differences(case, environment)))


def _cases(path: Path, environment: cel.Environment) -> Iterator[Case]:
    try:
        with click.open_file(str(path), "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _case_at(line, f"{path}: line {number}", environment)
    except OSError as error:
        raise InvalidCase(f"{path}: {error.strerror}") from None


def _case_at(line: bytes, place: str, environment: cel.Environment) -> Case:
    try:
        return _case(orjson.loads(line), environment)
    except (ValueError, TypeError) as error:
        raise InvalidCase(f"{place} is no case: {error}") from None


def _case(found: object, environment: cel.Environment) -> Case:
    row = _object(found, "the line")
    expression = _field(row, "expr")
    if not isinstance(expression, str):
        raise TypeError(f"expr must be a text, not {expression!r}")
    device = cel.device_from_json(_field(row, "device"), has_lists=environment.has_list_attributes)
    return Case(str(row.get("id", "")), expression, device, _expected(row, environment))


def _expected(row: dict[str, object], environment: cel.Environment) -> Expected:
    outcome = row
    if environment is cel.V1_36 and "v136" in row:
        outcome = _object(row["v136"], "v136")
    error = outcome.get("error")
    phase = None if error is None else str(_field(_object(error, "error"), "phase"))
    result = outcome.get("result")
    if phase is None and not isinstance(result, bool):
        raise TypeError("neither result (true or false) nor error is there")
    cost = None
    if environment is cel.V1_37 and "cost" in row:
        low = _number(row, "cost")
        cost = range(low, (_number(row, "cost_hi") if "cost_hi" in row else low) + 1)
    max_cost = _number(row, "max_cost") if environment is cel.V1_37 and "max_cost" in row else None
    return Expected(result if isinstance(result, bool) else None, phase, max_cost, cost)


def _object(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, not {value!r}")
    return value


def _field(row: dict[str, object], name: str) -> object:
    if name not in row:
        raise ValueError(f"{name} is missing")
    return row[name]


def _number(row: dict[str, object], name: str) -> int:
    value = row[name]
    if type(value) is not int:
        raise TypeError(f"{name} must be a number, not {value!r}")
    return value


def _differences(case: Case, environment: cel.Environment) -> Iterator[str]:
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


@click.command(name="cel")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--kubernetes",
    type=click.Choice(sorted(_ENVIRONMENTS)),
    default="1.37",
    show_default=True,
    help="The release whose CEL gave the answers.",
)
def command(files: tuple[Path, ...], kubernetes: Kubernetes) -> None:
    """Replay recorded selectors on recorded devices and compare result, error and cost.

    FILE holds one JSON case a line; - is standard input. Exit code: 0 when all passed, 1 when a case failed, 2 for
    input that is no case.
    """
    counts: Counter[bool] = Counter()
    try:
        for verdict in verify(files, kubernetes):
            counts[not verdict.differences] += 1
            for difference in verdict.differences:
                click.echo(f"{verdict.id}: {verdict.expression}\n    {difference}")
    except InvalidCase as error:
        stop(str(error))
    click.echo(f"{counts[True]} passed, {counts[False]} failed, 0 skipped")
    sys.exit(int(counts[False] > 0))
