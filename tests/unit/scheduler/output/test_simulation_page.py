"""The page of a simulation: what it shows, and that it needs nothing else."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from scheduler.output.simulation_report import SimulationReport
from scheduler.simulation.result import Distribution, ExplainedAttempt, ShapeSummary, SimulationResult
from tests.unit.scheduler.simulated import SUMMARY, a_result, a_scenario

VOID = {"meta"}


class _Page(HTMLParser):
    """The text of each element, of charts without their labels; open tags that nobody closes fail."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += f" {data}" if "small" in self.open else data
        elif {"h1", "h2", "h3"} & set(self.open):
            self.headings.append(data)

    def row(self, *beginning: str) -> list[str]:
        return next(row for row in self.rows if tuple(row[: len(beginning)]) == beginning)


def read(result: SimulationResult) -> _Page:
    page = _Page()
    page.feed(SimulationReport(result).html())
    page.close()
    assert not page.open
    return page


TWO = a_result(
    a_scenario("best-fit", 42, allocated=(0, 50, 75)),
    a_scenario("best-fit", 43, allocated=(0, 50, 85)),
    a_scenario("fgd", 42, allocated=(0, 50, 90)),
    a_scenario("fgd", 43, allocated=(0, 50, 90)),
)


def test_policies_are_compared_by_the_mean_of_their_seeds_with_the_range() -> None:
    page = read(TWO)
    assert page.row("Policy", "Arrived")[3] == "Allocated at the end, %"
    assert page.row("best-fit", "100")[3] == "80 75 to 85"
    assert page.row("fgd", "100")[3] == "90"
    assert page.headings[0] == "Simulation of best-fit and fgd"


def test_the_best_is_bold_unless_all_are_alike() -> None:
    text = SimulationReport(TWO).html()
    assert re.findall(r"<strong>([^<]*)</strong>", text) == ["90"]


def test_each_chart_has_all_policies_and_a_table_of_its_values() -> None:
    page = read(TWO)
    charts = [attributes for tag, attributes in page.tags if tag == "svg" and attributes["class"] == "chart"]
    assert page.headings[2:5] == [
        "Allocated against what has been requested",
        "Allocated over time",
        "Waiting over time",
    ]
    assert len(charts) == 3
    assert all("best-fit" in (one["aria-label"] or "") and "fgd" in (one["aria-label"] or "") for one in charts)
    assert sum(tag == "details" for tag, _ in page.tags) == 3
    assert page.row("100", "80") == ["100", "80", "90"]


def test_allocation_has_a_chart_of_where_policies_differ() -> None:
    line = [float(at) for at in range(101)]
    page = read(a_result(a_scenario("a", allocated=line), a_scenario("b", allocated=[min(at, 90.0) for at in line])))
    assert page.headings[2:4] == [
        "Allocated against what has been requested",
        "Allocated against what has been requested, where policies differ (the vertical axis does not start at 0)",
    ]
    assert page.row("90", "90")


def test_time_is_in_the_unit_of_its_length() -> None:
    assert read(TWO).row("virtual time, minutes")
    long = a_scenario()
    days = replace(long, by_time=replace(long.by_time, time_s=(0.0, 5e5, 1e6)))
    assert read(a_result(days)).row("virtual time, days")


def test_parameters_have_a_part_each_and_an_overview() -> None:
    page = read(
        a_result(*(a_scenario(policy, parameters={"load": load}) for load in ("0.8", "1.1") for policy in ("a", "b")))
    )
    assert [one for one in page.headings if one in ("Overview", "load 0.8", "load 1.1")] == [
        "Overview",
        "load 0.8",
        "load 1.1",
    ]
    assert page.row("load 1.1") == ["load 1.1", "80", "80"]


def test_shapes_causes_and_refusals_are_rows_with_a_column_for_each_policy() -> None:
    shapes = (ShapeSummary("2 gpu", 300, 30, 10.0, Distribution()), ShapeSummary("1 nic", 5, 5, 100.0, Distribution()))
    other = a_scenario("fgd", summary=replace(SUMMARY, shapes=shapes, causes={}, refusals={"taint": 2}))
    page = read(a_result(a_scenario("best-fit", 42), a_scenario("best-fit", 43), other))
    assert page.row("2 gpu") == ["2 gpu", "80", "10"]
    assert page.row("1 nic") == ["1 nic", "-", "100"]
    assert page.row("devices") == ["devices", "10", "-"]
    assert page.row("taint") == ["taint", "-", "2"]


def test_explained_attempts_say_the_node_or_the_reason() -> None:
    explained = [ExplainedAttempt("ml/a", 1.5, 1, reason="0/4 nodes"), ExplainedAttempt("ml/a", 9.0, 2, node="node-1")]
    page = read(a_result(a_scenario(explained=explained)))
    assert page.row("ml/a", "best-fit", "42", "1.50") == ["ml/a", "best-fit", "42", "1.50", "1", "0/4 nodes"]
    assert page.row("ml/a", "best-fit", "42", "9")[-1] == "node-1"


def test_names_are_never_markup() -> None:
    hostile = '<script>alert("&amp;")</script>'
    shapes = (ShapeSummary(hostile, 1, 1, 100.0, Distribution()),)
    summary = replace(SUMMARY, shapes=shapes, refusals={hostile: 1})
    scenario = a_scenario(hostile, parameters={hostile: hostile}, summary=summary)
    page = read(a_result(scenario))
    assert not any(tag == "script" for tag, _ in page.tags)
    assert page.row(hostile, "100")


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    text = SimulationReport(TWO).html()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(|\bon\w+=", text)


@pytest.mark.parametrize("allocated", [(), (0.0,)])
def test_without_a_curve_there_are_tables_alone(allocated: tuple[float, ...]) -> None:
    page = read(a_result(a_scenario(allocated=allocated)))
    assert not any(tag == "svg" for tag, _ in page.tags)
    assert page.row("best-fit", "100")


def test_the_same_result_gives_the_same_page() -> None:
    assert SimulationReport(TWO).html() == SimulationReport(TWO).html()
