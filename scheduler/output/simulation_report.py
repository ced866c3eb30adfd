"""The result of simulations: tables of the policies, CSV, and a page with charts."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar
from xml.etree.ElementTree import Element

import orjson

from allocator.api.versions import Json
from allocator.words import agreeing, and_more, listed
from scheduler.output.data_page import STYLE, Child, document, element, head_line, table
from scheduler.output.line_chart import NARROW, WIDE, Band, Chart, Curve, band, detail, line_chart, number
from scheduler.output.report import Block, PagedReport
from scheduler.output.table import ColumnTable
from scheduler.simulation.compare import FIGURE, METRICS, curve_of, parameters_text
from scheduler.simulation.result import (
    ExplainedAttempt,
    GroupSummary,
    Scenario,
    Series,
    SimulationResult,
    Summary,
    figures,
    result_json,
)
from scheduler.terminal_text import printable

CSV = "csv"

MOST_SHAPES = 20
"""Shapes that the table shows, those with most arrivals; others are counted."""

_HOUR_S = 3600.0

Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class _TableColumn(Generic[Of]):
    """A column of the tables: what it takes from a summary, and how that is printed."""

    title: str
    value: Callable[[Of], float]
    digits: int = 0
    """After the point."""
    is_time: bool = False
    """Seconds, which are worded."""
    is_only_if_any: bool = False
    """Left out where all values are 0."""


_COLUMNS: Sequence[_TableColumn[Summary]] = (
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
    _TableColumn("PREEMPTED", lambda one: one.preempted, is_only_if_any=True),
    _TableColumn("MOVED", lambda one: one.moved, is_only_if_any=True),
    _TableColumn("LOST", lambda one: one.lost_s, is_time=True, is_only_if_any=True),
)


_OF_GROUPS: Sequence[_TableColumn[GroupSummary]] = (
    _TableColumn("ARRIVED", lambda one: one.arrivals),
    _TableColumn("PLACED", lambda one: one.placed),
    _TableColumn("WAITING", lambda one: one.waiting),
    _TableColumn("INCOMPLETE", lambda one: one.incomplete),
    _TableColumn("WAIT P50", lambda one: one.waiting_s.p50, is_time=True),
    _TableColumn("P90", lambda one: one.waiting_s.p90, is_time=True),
    _TableColumn("P99", lambda one: one.waiting_s.p99, is_time=True),
)


Parameters = tuple[tuple[str, str], ...]
Policies = Mapping[str, Sequence[Scenario]]
"""The scenarios of each policy, one for each seed."""


@dataclass(frozen=True, slots=True)
class SimulationReport(PagedReport):
    """What simulations show: tables, curves as CSV, and a page of its own with all policies in each chart.

    The page loads nothing and runs no script. Scenarios that differ only in their seeds are one line, with the range
    over seeds.
    """

    kind = "Simulation"

    result: SimulationResult

    def blocks(self) -> Iterator[Block]:
        """A line for each policy and parameter: the mean over seeds, with the range where they differ; then shapes."""
        groups = [group for policies in self.groups().values() for group in policies.values()]
        has_parameters = any(group[0].parameters for group in groups)
        summaries = [one.summary for one in self.result.scenarios]
        columns = [one for one in _COLUMNS if not one.is_only_if_any or any(map(one.value, summaries))]
        header = ["POLICY", *(["PARAMETERS"] if has_parameters else []), *(column.title for column in columns)]
        rows = [
            [
                group[0].policy,
                *([parameters_text(group[0].parameters) or "-"] if has_parameters else []),
                *(_range_text([column.value(one.summary) for one in group], column) for column in columns),
            ]
            for group in groups
        ]
        yield ColumnTable(header, rows)
        yield from (*_shapes(groups), *_tenants(groups), *_alignments(groups), *_pod_groups(groups), *_failures(groups))
        yield from _explained_text(self.result.scenarios)

    def fields(self) -> Json:
        """The document."""
        document: Json = orjson.loads(result_json(self.result))
        return document

    def html(self, head: Sequence[str] = ()) -> str:
        """Tables, and charts with all policies in each."""
        groups = self.groups()
        parts = [*_overview(groups)] if len(groups) > 1 else []
        parts += [part for parameters, policies in groups.items() for part in _group(parameters, policies)]
        title = f"Simulation of {listed(list(dict.fromkeys(one.policy for one in self.result.scenarios)))}"
        heading, explained = _heading(title, self.result, head), _explained(self.result)
        return document(title, STYLE, element("main", {}, *heading, *parts, *explained))

    def csv(self) -> str:
        """A row for each curve over arrivals, as `--compare` reads it, and for each figure of the summary."""
        scenarios = self.result.scenarios
        curves = [(metric, scenario, curve_of(scenario, metric)) for scenario in scenarios for metric in METRICS]
        columns = range(max((percent for _, _, curve in curves for percent in curve), default=-1) + 1)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["metric", "policy", "seed", "parameters", "value", *columns])
        for metric, scenario, curve in curves:
            if curve:
                writer.writerow([metric, *_who(scenario), "", *(curve.get(percent, "") for percent in columns)])
        for scenario in scenarios:
            for name, value in figures(scenario.summary).items():
                writer.writerow([f"{FIGURE}{name}", *_who(scenario), value, *("" for _ in columns)])
        return text.getvalue()

    def groups(self) -> Mapping[Parameters, Policies]:
        """The scenarios by parameters, then by policy, in the order of the result."""
        by_parameters: dict[Parameters, dict[str, list[Scenario]]] = {}
        for scenario in self.result.scenarios:
            by_parameters.setdefault(tuple(scenario.parameters.items()), {}).setdefault(scenario.policy, []).append(
                scenario
            )
        return by_parameters

    own_formats = MappingProxyType({CSV: csv})


def _range_text(values: Sequence[float], column: _TableColumn[Of]) -> str:
    def text(value: float) -> str:
        return _time(value) if column.is_time else f"{value:.{column.digits}f}"

    mean, least, most = text(sum(values) / len(values)), text(min(values)), text(max(values))
    return mean if least == most else f"{mean} ({least} to {most})"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g}s"
    return f"{seconds / 60:.3g}m" if seconds < _HOUR_S else f"{seconds / _HOUR_S:.4g}h"


def _shapes(groups: Sequence[Sequence[Scenario]]) -> Iterator[ColumnTable]:
    """For each shape, the share of its pods that got a node."""
    arrivals: dict[str, int] = {}
    for scenario in (scenario for group in groups for scenario in group):
        for shape in scenario.summary.shapes:
            arrivals[shape.shape] = max(arrivals.get(shape.shape, 0), shape.arrivals)
    shown = sorted(arrivals, key=lambda name: (-arrivals[name], name))[:MOST_SHAPES]
    if not shown:
        return
    placed = [acceptance(group) for group in groups]
    rows = [[name, str(arrivals[name]), *(_cell_of(name, of) for of in placed)] for name in shown]
    yield ColumnTable(["PLACED %, BY WHAT PODS REQUEST", "ARRIVED", *_titles(groups)], [*rows, *_rest(arrivals, rows)])


def _tenants(groups: Sequence[Sequence[Scenario]]) -> Iterator[ColumnTable]:
    """Where limits are compared, by namespace the share of its pods that got a node, and how long these waited."""
    if not any("limits" in group[0].parameters for group in groups):
        return
    names = sorted({of.shape for group in groups for one in group for of in one.summary.namespaces})
    rows = [[name, *(_of_tenant(name, group) for group in groups)] for name in names[:MOST_SHAPES]]
    yield ColumnTable(["PLACED %, WAIT MEAN, BY NAMESPACE", *_titles(groups)], [*rows, *_rest(names, rows)])


def _of_tenant(name: str, group: Sequence[Scenario]) -> str:
    of_name = [of for one in group for of in one.summary.namespaces if of.shape == name]
    arrivals, placed = sum(one.arrivals for one in of_name), sum(one.placed for one in of_name)
    waited = sum(one.waiting_s.mean * one.placed for one in of_name)
    return f"{100 * placed / arrivals:.2f}, {_time(waited / placed) if placed else '-'}" if arrivals else "-"


def _pod_groups(groups: Sequence[Sequence[Scenario]]) -> Iterator[ColumnTable]:
    """For each number of pods that groups place at once, how long these waited; then who is kept together."""
    sizes = sorted({of.minimum for group in groups for one in group for of in one.summary.groups})
    rows = [
        [str(size), title, *(_range_text([column.value(one) for one in found], column) for column in _OF_GROUPS)]
        for size in sizes
        for title, group in zip(_titles(groups), groups, strict=True)
        if (found := [of for one in group for of in one.summary.groups if of.minimum == size])
    ]
    if rows:
        header = ["GROUPS OF", "POLICY", *(column.title for column in _OF_GROUPS)]
        yield ColumnTable(header, [*rows[:MOST_SHAPES], *_rest(rows, rows[:MOST_SHAPES])])
    kept = [together(group) for group in groups]
    if names := sorted({name for one in kept for name in one}):
        cells = [[name, *(_cell_of(name, of) for of in kept)] for name in names]
        yield ColumnTable(["GROUPS IN ONE DOMAIN, %", *_titles(groups)], cells)


def _titles(groups: Sequence[Sequence[Scenario]]) -> list[str]:
    return [" ".join(filter(None, (group[0].policy, parameters_text(group[0].parameters)))) for group in groups]


def _alignments(groups: Sequence[Sequence[Scenario]]) -> Iterator[ColumnTable]:
    """For each topology attribute, the share of claims with several devices that have them at one place."""
    names = sorted({name for group in groups for one in group for name in one.summary.alignment})
    if names:
        claims = [alignment(group) for group in groups]
        rows = [[name, *(_cell_of(name, of) for of in claims)] for name in names]
        yield ColumnTable(["CLAIMS WITH ALL DEVICES AT ONE PLACE, %", *_titles(groups)], rows)


def _cell_of(name: str, percentages: Mapping[str, float]) -> str:
    return f"{percentages[name]:.2f}" if name in percentages else "-"


def _failures(groups: Sequence[Sequence[Scenario]]) -> Iterator[ColumnTable]:
    """Why attempts found no node, where pods were never decided: no policy could help these."""
    if not any(one.summary.failed for group in groups for one in group):
        return
    numbers = [sum((Counter(one.summary.refusals) for one in group), Counter[str]()) for group in groups]
    reasons = [reason for reason, _ in sum(numbers, Counter[str]()).most_common()]
    rows = [[name, *(str(found[name]) for found in numbers)] for name in reasons[:MOST_SHAPES]]
    yield ColumnTable(["REFUSED ATTEMPTS, BY REASON", *_titles(groups)], [*rows, *_rest(reasons, rows)])


def _rest(every: Sized, rows: Sized) -> list[list[str]]:
    """A row that counts those that have none."""
    more = and_more(len(every), len(rows))
    return [[more]] if more else []


def _explained_text(scenarios: Sequence[Scenario]) -> Iterator[str]:
    for scenario in scenarios:
        for tried in scenario.explained:
            who = " ".join(filter(None, (scenario.policy, str(scenario.seed), parameters_text(scenario.parameters))))
            node = f"node {tried.node}" if tried.node else ""
            yield f"{tried.pod}, {who}, {tried.time_s:g}s, attempt {tried.attempt}: {printable(_came_of(tried, node))}"


def _came_of(one: ExplainedAttempt, node: str) -> str:
    """The node with who was evicted for it, or why there is none."""
    return ": ".join(filter(None, [node, one.reason]))


def acceptance(scenarios: Sequence[Scenario]) -> Mapping[str, float]:
    """By shape, the percentage of its pods that got a node, in all scenarios together."""
    shapes = [(one.shape, one.placed, one.arrivals) for scenario in scenarios for one in scenario.summary.shapes]
    return _percentages(shapes)


def alignment(scenarios: Sequence[Scenario]) -> Mapping[str, float]:
    """By topology attribute, the percentage of aligned claims, in all scenarios together."""
    aligned = [(name, one.aligned, one.claims) for of in scenarios for name, one in of.summary.alignment.items()]
    return _percentages(aligned)


def together(scenarios: Sequence[Scenario]) -> Mapping[str, float]:
    """By label of nodes, the percentage of the groups that name it whose pods are in one domain, in all scenarios."""
    groups = [(name, one.together, one.groups) for of in scenarios for name, one in of.summary.together.items()]
    return _percentages(groups)


def _percentages(found: Iterable[tuple[str, int, int]]) -> Mapping[str, float]:
    """By name, of (name, part, whole)."""
    parts, wholes = Counter[str](), Counter[str]()
    for name, some, all_ in found:
        parts[name] += some
        wholes[name] += all_
    return {name: 100 * parts[name] / whole for name, whole in wholes.items() if whole}


def _who(one: Scenario) -> tuple[str, int, str]:
    return one.policy, one.seed, parameters_text(one.parameters)


# The page.


Column = Callable[[Series], Sequence[float]]

_TIMES = 200
"""Points of a curve over time."""

_UNITS = ((3 * 86400.0, 86400.0, "days"), (3 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"))
"""(from this many seconds on, seconds of the unit, its name)."""


@dataclass(frozen=True, slots=True)
class _Picture:
    """A chart of a column. is_only_if_any: left out where all values are 0."""

    title: str
    y_label: str
    column: Column
    is_only_if_any: bool = True


_OVER_ARRIVALS = (
    _Picture("Allocated", "% of the capacity", lambda one: one.allocated_percent, is_only_if_any=False),
    _Picture("Fragmentation", "% of the capacity", lambda one: one.fragmentation_percent),
    _Picture("Fragmentation ratio", "% of what is free", lambda one: one.fragmentation_ratio),
    _Picture("Power", "watts", lambda one: one.watts),
)
_OVER_TIME = (
    _Picture("Allocated", "% of the capacity", lambda one: one.allocated_percent, is_only_if_any=False),
    _Picture("Fragmentation", "% of the capacity", lambda one: one.fragmentation_percent),
    _Picture("Waiting", "pods", lambda one: one.waiting),
    _Picture("Largest block", "idle units on one node", lambda one: one.largest_block),
    _Picture("Whole units", "units with nothing in use", lambda one: one.whole_units),
    _Picture("Whole nodes", "nodes with nothing in use", lambda one: one.whole_nodes),
    _Picture("Evictions", "pods so far", lambda one: one.evictions),
    _Picture("Power", "watts", lambda one: one.watts),
)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A column of a table of policies. best: which of the values is the best one, for figures where one is."""

    title: str
    value: Callable[[Scenario], float]
    best: Callable[[Sequence[float]], float] | None = None


_PLACED = _Figure("Placed, %", lambda one: one.summary.acceptance_percent, max)
_ALLOCATED = _Figure("Allocated over time, %", lambda one: one.summary.mean_allocated_percent, max)
_WAIT = _Figure("Wait p99, s", lambda one: one.summary.waiting_s.p99, min)
_OF_OVERVIEW = (_PLACED, _ALLOCATED, _WAIT)
_PLACEMENT = (
    _Figure("Arrived", lambda one: one.summary.arrivals),
    _PLACED,
    _Figure("Allocated at the end, %", lambda one: one.summary.allocated_percent, max),
    _ALLOCATED,
    _Figure("Fragmentation at the end, %", lambda one: one.summary.fragmentation_percent, min),
    _Figure("Largest block", lambda one: one.summary.largest_block, max),
    _Figure("Whole units", lambda one: one.summary.whole_units, max),
    _Figure("Whole nodes", lambda one: one.summary.whole_nodes, max),
    _Figure("Watts at the end", lambda one: one.summary.watts, min),
    _Figure("Energy, Wh", lambda one: one.summary.energy_wh, min),
)
_TIME = (
    _Figure("Wait p50, s", lambda one: one.summary.waiting_s.p50),
    _Figure("Wait p90, s", lambda one: one.summary.waiting_s.p90),
    _WAIT,
    _Figure("Waiting at the end", lambda one: one.summary.waiting),
    _Figure("Evicted", lambda one: one.summary.evictions, min),
    _Figure("Evicted for a higher priority", lambda one: one.summary.preempted, min),
    _Figure("Moved for another pod", lambda one: one.summary.moved, min),
    _Figure("Run in vain, s", lambda one: one.summary.lost_s, min),
    _Figure("Attempts", lambda one: one.summary.decisions),
    _Figure("Decision p50, ms", lambda one: one.measured.decision_ms.p50),
    _Figure("Decision p99, ms", lambda one: one.measured.decision_ms.p99),
)


def _heading(title: str, result: SimulationResult, head: Sequence[str]) -> Iterator[Element]:
    fleets = dict.fromkeys(one.fleet for one in result.scenarios)
    sizes = [f"{one.nodes:,} nodes with {one.units:,} units and {one.pods:,} pods at the start" for one in fleets]
    seeds = list(dict.fromkeys(str(one.seed) for one in result.scenarios))
    yield element("h1", {}, title)
    yield head_line(head)
    yield element(
        "p", {}, f"{listed(sizes)}; {agreeing(len(seeds), 'seed')} {listed(seeds)}. Program: {result.program}"
    )


def _overview(groups: Mapping[Parameters, Policies]) -> Iterator[Element]:
    """The figures that most decisions are made by, a row for each set of parameters."""
    yield element("h2", {}, "Overview")
    names = list(dict.fromkeys(policy for policies in groups.values() for policy in policies))
    for figure in _OF_OVERVIEW:
        rows: list[list[Child]] = []
        for parameters, policies in groups.items():
            cells = dict(zip(policies, _cells(figure, list(policies.values())), strict=True))
            rows.append([_words(parameters), *(cells.get(name, "-") for name in names)])
        yield _scrolled(table(["Parameters", *names], rows, figure.title), f"Overview: {figure.title}")


def _words(parameters: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters) or "as given"


def _group(parameters: Sequence[tuple[str, str]], policies: Policies) -> Iterator[Element]:
    yield element("h2", {}, _words(parameters) if parameters else "Policies")
    for title, shown in (("Placement", _PLACEMENT), ("Waiting and decisions", _TIME)):
        yield _scrolled(_figures(title, shown, policies), f"{title}, {_words(parameters)}")
    yield element("p", {}, _note(policies))
    yield from _pictures(_OVER_ARRIVALS, _over_arrivals, policies)
    yield from _pictures(_OVER_TIME, _over_time, policies)
    yield from _tables(policies)


def _note(policies: Policies) -> str:
    most = max(map(len, policies.values()))
    seeds = f"Mean of {most} seeds; small figures and shaded areas are the range over them. " if most > 1 else ""
    return f"{seeds}Bold: the best of the policies. Times of decisions depend on the machine."


def _figures(caption: str, figures: Sequence[_Figure], policies: Policies) -> Element:
    columns = [_cells(figure, list(policies.values())) for figure in figures]
    rows: list[list[Child]] = [[name, *cells] for name, *cells in zip(policies, *columns, strict=True)]
    return table(["Policy", *(figure.title for figure in figures)], rows, caption)


def _cells(figure: _Figure, policies: Sequence[Sequence[Scenario]]) -> Sequence[Element]:
    """A cell for each policy; the best are bold, unless all are."""
    values = [[figure.value(one) for one in found] for found in policies]
    means = [round(_mean(of), 2) for of in values]
    best = figure.best(means) if figure.best and min(means) < max(means) else None
    return [_cell(mean, of, is_best=mean == best) for mean, of in zip(means, values, strict=True)]


def _cell(mean: float, values: Sequence[float], *, is_best: bool) -> Element:
    text: Child = element("strong", {}, number(mean)) if is_best else number(mean)
    least, most = (number(round(of(values), 2)) for of in (min, max))
    return element("span", {}, text, *([element("small", {}, f"{least} to {most}")] if least != most else []))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _scrolled(inner: Element, name: str, kind: str = "wide") -> Element:
    """A box that the keyboard reaches and scrolls. name: for screen readers."""
    return element("div", {"class": kind, "tabindex": "0", "role": "region", "aria-label": name}, inner)


# -- charts


@dataclass(frozen=True, slots=True)
class _Domain:
    """What a kind of charts is drawn over: the series of a scenario, its places, and how these are worded."""

    words: str
    label: str
    series: Callable[[Scenario], Series]
    places_of: Callable[[Series], Sequence[float]]
    places: Sequence[float]


def _over_arrivals(policies: Policies) -> _Domain:
    places = {place for one in _all(policies) for place in one.by_arrivals.arrived_percent}
    label = "requested by the pods that have arrived, % of the capacity"
    words = "against what has been requested"
    return _Domain(words, label, lambda one: one.by_arrivals, lambda one: one.arrived_percent, sorted(places))


def _over_time(policies: Policies) -> _Domain:
    last = max((place for one in _all(policies) for place in one.by_time.time_s[-1:]), default=0.0)
    size, name = next(((size, name) for least, size, name in _UNITS if last >= least), (1.0, "seconds"))
    places = [last * step / _TIMES / size for step in range(_TIMES + 1)] if last else []
    return _Domain(
        "over time",
        f"virtual time, {name}",
        lambda one: one.by_time,
        lambda one: [time_s / size for time_s in one.time_s],
        places,
    )


def _all(policies: Policies) -> Iterator[Scenario]:
    return (one for found in policies.values() for one in found)


def _pictures(
    pictures: Sequence[_Picture], over: Callable[[Policies], _Domain], policies: Policies
) -> Iterator[Element]:
    axis = over(policies)
    if len(axis.places) < 2:
        return
    for picture in pictures:
        bands = _bands(picture, axis, policies)
        if not bands or (picture.is_only_if_any and not any(any(one.highs) for one in bands)):
            continue
        chart = Chart(f"{picture.title} {axis.words}", axis.label, picture.y_label, bands)
        yield _figure(chart)
        if picture is _OVER_ARRIVALS[0] and (end := detail(bands)):
            title = f"{chart.title}, where policies differ (the vertical axis does not start at 0)"
            yield _figure(Chart(title, axis.label, picture.y_label, end, from_zero=False))


def _bands(picture: _Picture, axis: _Domain, policies: Policies) -> Sequence[Band]:
    """A band for each policy that has values."""
    bands = [band(policy, _curves(picture, axis, scenarios), axis.places) for policy, scenarios in policies.items()]
    return [one for one in bands if len(one.places) > 1]


def _curves(picture: _Picture, axis: _Domain, scenarios: Sequence[Scenario]) -> Sequence[Curve]:
    """Of the scenarios that have the column."""
    curves = [(axis.places_of(axis.series(one)), picture.column(axis.series(one))) for one in scenarios]
    return [(places, values) for places, values in curves if values]


def _figure(chart: Chart) -> Element:
    heading = element("h3", {}, chart.title)
    values = _scrolled(_values(chart), f"Values: {chart.title}", "values")
    shown = element("details", {}, element("summary", {}, "Values as a table"), values)
    pictures = [line_chart(chart, frame) for frame in (WIDE, NARROW)]
    return element("section", {}, heading, *pictures, shown)


def _values(chart: Chart) -> Element:
    """The means of all bands at each place, about thirty of them."""
    by_place = [dict(zip(one.places, one.means, strict=True)) for one in chart.bands]
    places = sorted(set().union(*by_place))
    every = max(1, len(places) // 30)
    shown = [place for at, place in enumerate(places) if at % every == 0 or at == len(places) - 1]
    rows: list[list[Child]] = [
        [number(round(place, 2)), *(number(of[place]) if place in of else "" for of in by_place)] for place in shown
    ]
    return table([chart.x_label, *(one.name for one in chart.bands)], rows, f"{chart.title}: {chart.y_label}")


# -- tables


def _tables(policies: Policies) -> Iterator[Element]:
    yield from _table("Placed, %, by what pods request", "Requested devices", policies, acceptance)
    yield from _table("Claims with all devices at one place, %", "Topology attribute", policies, alignment)
    yield from _table("Wait p99 of groups, s", "Pods placed at once", policies, _share_of(_waits_of_groups))
    yield from _table("Groups in one domain, %", "Label of nodes", policies, together)
    yield from _table(
        "Fragmentation at the end by cause, % of the capacity", "Cause", policies, _share_of(lambda s: s.causes)
    )
    yield from _table("Refused attempts by reason", "Reason", policies, _share_of(lambda s: s.refusals))


def _waits_of_groups(summary: Summary) -> Mapping[str, float]:
    return {str(one.minimum): one.waiting_s.p99 for one in summary.groups if one.placed}


ValueByRow = Mapping[str, float]
"""A value for each row of a table, by the row's name."""


def _share_of(values_of: Callable[[Summary], Mapping[str, float]]) -> Callable[[Sequence[Scenario]], ValueByRow]:
    """The mean over seeds; a seed without a row has 0 there."""

    def of(found: Sequence[Scenario]) -> ValueByRow:
        values = [values_of(one.summary) for one in found]
        names = dict.fromkeys(name for one in values for name in one)
        return {name: _mean([one.get(name, 0.0) for one in values]) for name in names}

    return of


def _table(
    title: str, column: str, policies: Policies, rows_of: Callable[[Sequence[Scenario]], ValueByRow]
) -> Iterator[Element]:
    """A row for each name, a column for each policy."""
    columns = [rows_of(found) for found in policies.values()]
    rows: list[list[Child]] = [
        [name, *(number(round(column[name], 2)) if name in column else "-" for column in columns)]
        for name in dict.fromkeys(name for column in columns for name in column)
    ]
    if rows:
        yield element("section", {}, element("h3", {}, title), _scrolled(table([column, *policies], rows), title))


def _explained(result: SimulationResult) -> Iterator[Element]:
    rows: list[list[Child]] = [
        [one.pod, scenario.policy, str(scenario.seed), number(one.time_s), str(one.attempt), _came_of(one, one.node)]
        for scenario in result.scenarios
        for one in scenario.explained
    ]
    if rows:
        yield element("h2", {}, "Explained attempts")
        yield _scrolled(
            table(["Pod", "Policy", "Seed", "Time, s", "Attempt", "Node, or why there is none"], rows),
            "Explained attempts",
        )
