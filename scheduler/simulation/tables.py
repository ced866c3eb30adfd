"""The result of simulations as text: a table of the policies, one of the shapes, and CSV."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scheduler.simulation.compare import FIGURE, METRICS, curve_of, parameters_text
from scheduler.simulation.result import Scenario, SimulationResult, Summary, figures
from scheduler.terminal_text import aligned, printable

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
    return "\n".join([*aligned([header, *rows]), *tables, *_explained(result.scenarios)])


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
    rows = [[name, str(arrivals[name]), *(_accepted(group, name) for group in groups)] for name in shown]
    yield ""
    yield from aligned([["PLACED %, BY WHAT PODS REQUEST", "ARRIVED", *_titles(groups)], *rows])
    if len(arrivals) > len(shown):
        yield f"and {len(arrivals) - len(shown)} more"


def _accepted(group: Sequence[Scenario], name: str) -> str:
    found = [shape for one in group for shape in one.summary.shapes if shape.shape == name]
    arrived = sum(shape.arrivals for shape in found)
    return f"{100 * sum(shape.placed for shape in found) / arrived:.2f}" if arrived else "-"


def _titles(groups: Sequence[Sequence[Scenario]]) -> list[str]:
    return [" ".join(filter(None, (group[0].policy, parameters_text(group[0].parameters)))) for group in groups]


def _alignments(groups: Sequence[Sequence[Scenario]]) -> Iterator[str]:
    """For each topology attribute, the share of claims with several devices that have them at one place."""
    names = sorted({name for group in groups for one in group for name in one.summary.alignment})
    if names:
        rows = [[name, *(_aligned(group, name) for group in groups)] for name in names]
        yield ""
        yield from aligned([["CLAIMS WITH ALL DEVICES AT ONE PLACE, %", *_titles(groups)], *rows])


def _aligned(group: Sequence[Scenario], name: str) -> str:
    found = [one.summary.alignment[name] for one in group if name in one.summary.alignment]
    claims = sum(one.claims for one in found)
    return f"{100 * sum(one.aligned for one in found) / claims:.2f}" if claims else "-"


def _failures(groups: Sequence[Sequence[Scenario]]) -> Iterator[str]:
    """Why attempts found no node, where pods were never decided: no policy could help these."""
    if not any(one.summary.failed for group in groups for one in group):
        return
    numbers = [sum((Counter(one.summary.refusals) for one in group), Counter[str]()) for group in groups]
    reasons = [reason for reason, _ in sum(numbers, Counter[str]()).most_common()]
    rows = [[name, *(str(found[name]) for found in numbers)] for name in reasons[:MOST_SHAPES]]
    yield ""
    yield from aligned([["REFUSED ATTEMPTS, BY REASON", *_titles(groups)], *rows])
    if len(reasons) > len(rows):
        yield f"and {len(reasons) - len(rows)} more"


def _explained(scenarios: Sequence[Scenario]) -> Iterator[str]:
    for scenario in scenarios:
        for one in scenario.explained:
            who = " ".join(filter(None, (scenario.policy, str(scenario.seed), parameters_text(scenario.parameters))))
            what = f"node {one.node}" if one.node else one.reason
            yield f"\n{one.pod}, {who}, {one.time_s:g}s, attempt {one.attempt}: {printable(what)}"


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
