"""The result of simulations as text: a table of the policies, one of the shapes, and CSV."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocator.words import and_more
from scheduler.output.data_page import aligned
from scheduler.simulation.compare import FIGURE, METRICS, curve_of, parameters_text
from scheduler.simulation.result import Scenario, SimulationResult, Summary, figures
from scheduler.terminal_text import printable

MOST_SHAPES = 20
"""Shapes that the table shows, those with most arrivals; others are counted."""

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class _TableColumn:
    """digits: after the point. is_time: seconds, which are worded."""

    title: str
    value: Callable[[Summary], float]
    digits: int = 0
    is_time: bool = False


_COLUMNS = (
    _TableColumn("ARRIVED", lambda one: one.arrivals),
    _TableColumn("PLACED", lambda one: one.placed),
    _TableColumn("WAITING", lambda one: one.waiting + one.refused + one.failed),
    _TableColumn("ALLOCATED %", lambda one: one.allocated_percent, 2),
    _TableColumn("MEAN %", lambda one: one.mean_allocated_percent, 2),
    _TableColumn("FRAGMENTED %", lambda one: one.fragmentation_percent, 2),
    _TableColumn("WAIT MEAN", lambda one: one.waiting_s.mean, is_time=True),
    _TableColumn("P99", lambda one: one.waiting_s.p99, is_time=True),
    _TableColumn("WHOLE UNITS", lambda one: one.whole_units),
    _TableColumn("WHOLE NODES", lambda one: one.whole_nodes),
    _TableColumn("EVICTED", lambda one: one.evictions),
)


def table(result: SimulationResult) -> str:
    """A line for each policy and parameter: the mean over seeds, with the range where they differ; then the shapes."""
    groups = _groups(result.scenarios)
    has_parameters = any(one.parameters for one in result.scenarios)
    header = ["POLICY", *(["PARAMETERS"] if has_parameters else []), *(column.title for column in _COLUMNS)]
    rows = [
        [
            group[0].policy,
            *([parameters_text(group[0].parameters) or "-"] if has_parameters else []),
            *(_cell([column.value(one.summary) for one in group], column) for column in _COLUMNS),
        ]
        for group in groups
    ]
    tables = (*_shapes(groups), *_alignments(groups), *_failures(groups))
    return "\n".join([aligned(header, rows), *tables, *_explained(result.scenarios)])


def _groups(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """The scenarios that differ only in their seeds."""
    found: dict[tuple[str, str], list[Scenario]] = {}
    for one in scenarios:
        found.setdefault((parameters_text(one.parameters), one.policy), []).append(one)
    return list(found.values())


def _cell(values: Sequence[float], column: _TableColumn) -> str:
    def text(value: float) -> str:
        return _time(value) if column.is_time else f"{value:.{column.digits}f}"

    mean, least, most = text(sum(values) / len(values)), text(min(values)), text(max(values))
    return mean if least == most else f"{mean} ({least} to {most})"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g}s"
    return f"{seconds / 60:.3g}m" if seconds < _HOUR_S else f"{seconds / _HOUR_S:.4g}h"


def _shapes(groups: Sequence[Sequence[Scenario]]) -> Iterator[str]:
    """For each shape, the share of its pods that got a node."""
    arrivals: dict[str, int] = {}
    for one in (one for group in groups for one in group):
        for shape in one.summary.shapes:
            arrivals[shape.shape] = max(arrivals.get(shape.shape, 0), shape.arrivals)
    shown = sorted(arrivals, key=lambda name: (-arrivals[name], name))[:MOST_SHAPES]
    if not shown:
        return
    placed = [acceptance(group) for group in groups]
    rows = [[name, str(arrivals[name]), *(_cell_of(name, of) for of in placed)] for name in shown]
    yield ""
    yield aligned(["PLACED %, BY WHAT PODS REQUEST", "ARRIVED", *_titles(groups)], rows)
    if more := and_more(len(arrivals), len(shown)):
        yield more


def _titles(groups: Sequence[Sequence[Scenario]]) -> list[str]:
    return [" ".join(filter(None, (group[0].policy, parameters_text(group[0].parameters)))) for group in groups]


def _alignments(groups: Sequence[Sequence[Scenario]]) -> Iterator[str]:
    """For each topology attribute, the share of claims with several devices that have them at one place."""
    names = sorted({name for group in groups for one in group for name in one.summary.alignment})
    if names:
        claims = [alignment(group) for group in groups]
        rows = [[name, *(_cell_of(name, of) for of in claims)] for name in names]
        yield ""
        yield aligned(["CLAIMS WITH ALL DEVICES AT ONE PLACE, %", *_titles(groups)], rows)


def _cell_of(name: str, percentages: Mapping[str, float]) -> str:
    return f"{percentages[name]:.2f}" if name in percentages else "-"


def _failures(groups: Sequence[Sequence[Scenario]]) -> Iterator[str]:
    """Why attempts found no node, where pods were never decided: no policy could help these."""
    if not any(one.summary.failed for group in groups for one in group):
        return
    numbers = [sum((Counter(one.summary.refusals) for one in group), Counter[str]()) for group in groups]
    reasons = [reason for reason, _ in sum(numbers, Counter[str]()).most_common()]
    rows = [[name, *(str(found[name]) for found in numbers)] for name in reasons[:MOST_SHAPES]]
    yield ""
    yield aligned(["REFUSED ATTEMPTS, BY REASON", *_titles(groups)], rows)
    if more := and_more(len(reasons), len(rows)):
        yield more


def _explained(scenarios: Sequence[Scenario]) -> Iterator[str]:
    for scenario in scenarios:
        for one in scenario.explained:
            who = " ".join(filter(None, (scenario.policy, str(scenario.seed), parameters_text(scenario.parameters))))
            what = f"node {one.node}" if one.node else one.reason
            yield f"\n{one.pod}, {who}, {one.time_s:g}s, attempt {one.attempt}: {printable(what)}"


def acceptance(scenarios: Sequence[Scenario]) -> Mapping[str, float]:
    """By shape, the percentage of its pods that got a node, in all scenarios together."""
    shapes = [(one.shape, one.placed, one.arrivals) for scenario in scenarios for one in scenario.summary.shapes]
    return _percentages(shapes)


def alignment(scenarios: Sequence[Scenario]) -> Mapping[str, float]:
    """By topology attribute, the percentage of aligned claims, in all scenarios together."""
    found = [(name, one.aligned, one.claims) for of in scenarios for name, one in of.summary.alignment.items()]
    return _percentages(found)


def _percentages(found: Iterable[tuple[str, int, int]]) -> Mapping[str, float]:
    """By name, of (name, part, whole)."""
    parts, wholes = Counter[str](), Counter[str]()
    for name, some, all_ in found:
        parts[name] += some
        wholes[name] += all_
    return {name: 100 * parts[name] / whole for name, whole in wholes.items() if whole}


def csv_text(result: SimulationResult) -> str:
    """A row for each curve over arrivals, as `--compare` reads it, and for each figure of the summary."""
    curves = [(metric, one, curve_of(one, metric)) for one in result.scenarios for metric in METRICS]
    columns = range(max((percent for _, _, curve in curves for percent in curve), default=-1) + 1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["metric", "policy", "seed", "parameters", "value", *columns])
    for metric, one, curve in curves:
        if curve:
            writer.writerow([metric, *_who(one), "", *(curve.get(percent, "") for percent in columns)])
    for one in result.scenarios:
        for name, value in figures(one.summary).items():
            writer.writerow([f"{FIGURE}{name}", *_who(one), value, *("" for _ in columns)])
    return text.getvalue()


def _who(one: Scenario) -> tuple[str, int, str]:
    return one.policy, one.seed, parameters_text(one.parameters)
