"""Compares a run with a recorded one: curves over arrivals, from a CSV as `-o csv` writes it.

A row has `policy` and `seed`, and a column for each arrived percent. `metric` says which curve it is; without that
column the name of the file does. Rows of figures, which are no curves, are left aside, and so are those of other
workloads (`workload`), policies, seeds and parameters. Policies are recognised without hyphens, in any case, and by
their beginning.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path

from scheduler.simulation.result import Scenario

ValueByPercent = Mapping[int, float]
"""Values in percent, or counts, by arrived percent."""

ALLOCATION = "allocation"
FRAGMENTATION = "fragmentation"
FRAGMENTATION_RATIO = "fragmentation-ratio"

METRICS: Mapping[str, str] = {
    FRAGMENTATION_RATIO: "fragmentation_ratio",
    FRAGMENTATION: "fragmentation_percent",
    ALLOCATION: "allocated_percent",
    "time-s": "time_s",
    "arrivals": "arrivals",
    "waiting": "waiting",
    "running": "running",
    "largest-block": "largest_block",
    "whole-units": "whole_units",
    "whole-nodes": "whole_nodes",
    "evictions": "evictions",
    "watts": "watts",
}
"""Metric to the column of a series; a name that another one begins with comes after it."""

FIGURE = "summary."
"""What the metric of a row begins with that is a figure of the summary, in the column `value`."""


_MOST_DIGITS = 19
"""Of seeds, and of the numbers of columns."""


class InvalidRecord(ValueError):
    """A file without a usable record of these scenarios. The message names file, line, column and value."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The number of equal curves, and a line for each that differs."""

    equal: int
    differences: Sequence[str]
    unrecorded: Sequence[str]
    """A line for each scenario without a curve."""
    columns: int
    """How many columns were compared, of all recorded curves."""
    differing: int
    """How many of these columns differ."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    metric: str
    policy: str
    seed: int
    parameters: str
    workload: str
    curve: ValueByPercent

    def is_of(self, scenario: Scenario, workload: str) -> bool:
        """Whether the row belongs to the scenario."""
        return (
            self.seed == scenario.seed
            and _is_named(scenario.policy, self.policy)
            and self.parameters == parameters_text(scenario.parameters)
            and self.workload in ("", workload)
        )


def parameters_text(parameters: Mapping[str, str]) -> str:
    """The parameters in one cell."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def curve_of(scenario: Scenario, metric: str) -> ValueByPercent:
    """A curve of the scenario by arrived percent; nothing if the scenario does not have it."""
    series = scenario.by_arrivals
    values: tuple[float, ...] = getattr(series, METRICS[metric])
    return dict(zip((round(percent) for percent in series.arrived_percent), values, strict=bool(values)))


@dataclass(frozen=True, slots=True)
class Record:
    """The curves of a file."""

    file: Path
    curves: Sequence[_Recorded]


def read_record(file: Path) -> Record:
    """Read a file of recorded curves. Raises InvalidRecord."""
    curves: dict[tuple[str | int, ...], _Recorded] = {}
    for line, recorded in _read(file):
        key = (recorded.metric, recorded.policy, recorded.seed, recorded.parameters, recorded.workload)
        if key in curves:
            raise InvalidRecord(
                f"{file}, line {line}: has the {recorded.metric} of {recorded.policy} {recorded.seed} again"
            )
        curves[key] = recorded
    if not curves:
        raise InvalidRecord(f"{file}: holds no curve")
    return Record(file, list(curves.values()))


def compare(record: Record, scenarios: Sequence[Scenario], workload: str) -> Comparison:
    """Compare each recorded curve of the scenarios. Raises InvalidRecord if there is no such curve."""
    equal = compared_columns = differing_columns = 0
    differences, compared = [], set[int]()
    for recorded in record.curves:
        for number, scenario in enumerate(scenarios):
            if not recorded.is_of(scenario, workload):
                continue
            compared.add(number)
            simulated = curve_of(scenario, recorded.metric)
            columns = differing(simulated, recorded.curve)
            equal += not columns
            compared_columns += len(recorded.curve)
            differing_columns += len(columns)
            if columns:
                differences.append(_difference(scenario, recorded, simulated, columns))
    if not equal and not differences:
        raise InvalidRecord(f"{record.file}: holds no row of these policies, seeds and parameters")
    left = [one for number, one in enumerate(scenarios) if number not in compared]
    unrecorded = [f"{_name(one)}: {record.file} has no curve of it" for one in left]
    return Comparison(equal, differences, unrecorded, compared_columns, differing_columns)


def differing(found: ValueByPercent, recorded: ValueByPercent, tolerance: float = 0.01) -> list[int]:
    """The columns in which a curve differs from the record by more than the tolerance."""
    slack = tolerance + 1e-9
    return [c for c, value in recorded.items() if c not in found or abs(found[c] - value) > slack]


def _name(scenario: Scenario) -> str:
    return " ".join(filter(None, (parameters_text(scenario.parameters), scenario.policy, str(scenario.seed))))


def _difference(scenario: Scenario, recorded: _Recorded, found: ValueByPercent, columns: Sequence[int]) -> str:
    first = columns[0]
    ours = found.get(first, "nothing")
    return (
        f"{_name(scenario)} {recorded.metric}: {len(columns)} of {len(recorded.curve)} columns differ, "
        f"first {first}: {ours}, recorded {recorded.curve[first]}"
    )


def _is_named(policy: str, recorded: str) -> bool:
    ours, theirs = policy.replace("-", "").casefold(), recorded.replace("-", "").casefold()
    return ours == theirs or (len(theirs) > 3 and ours.startswith(theirs))


def _read(file: Path) -> Iterator[tuple[int, _Recorded]]:
    """The rows of curves, each with its line."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines)
            rows, columns = list(reader), reader.fieldnames or ()
    except OSError as error:
        raise InvalidRecord(f"{file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidRecord(f"{file}: is not CSV: {error}") from error
    if twice := [column for column, number in Counter(columns).items() if number > 1]:
        raise InvalidRecord(f"{file}, line 1: column {twice[0]!r} is there twice")
    for line, row in enumerate(rows, 2):
        if not (row.get("metric") or "").startswith(FIGURE):
            yield line, _recorded(file, f"{file}, line {line}", row)


def _recorded(file: Path, place: str, row: Mapping[str, str | None]) -> _Recorded:
    if None in row:
        raise InvalidRecord(f"{place}: has more values than there are columns")
    metric = row.get("metric") or next((name for name in METRICS if name in file.stem), "")
    if metric not in METRICS:
        raise InvalidRecord(f"{place}: metric: {metric!r} is not one of {', '.join(sorted(METRICS))}")
    for column in ("policy", "seed"):
        if not row.get(column):
            raise InvalidRecord(f"{place}: {column}: is missing")
    seed = row["seed"] or ""
    if not _is_whole(seed):
        raise InvalidRecord(f"{place}: seed: {seed!r:.80} is not a whole number")
    curve = {int(name): _number(place, name, text) for name, text in row.items() if _is_whole(name) and text}
    if not curve:
        raise InvalidRecord(f"{place}: has no value for any arrived percent")
    return _Recorded(
        metric, row["policy"] or "", int(seed), row.get("parameters") or "", row.get("workload") or "", curve
    )


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _number(place: str, column: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = nan
    if not isfinite(number):
        raise InvalidRecord(f"{place}: {column}: {text!r:.80} is not a number")
    return number
