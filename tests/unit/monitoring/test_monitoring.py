"""Alerts and the dashboard read metrics that exist, with labels that they have; each alert has its page."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from allocator.limit_use import LimitStatus
from allocator.limits import ONE_DEVICE, TenantLimit
from scheduler.extender.program import ExtenderMetrics, ExtenderReading
from scheduler.guard.reviewer import GuardMetrics, GuardReading
from scheduler.runtime.metrics import (
    AttemptResult,
    CommonMetrics,
    Metrics,
    Point,
    PointStatus,
    Reading,
    Watch,
)

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "manifests" / "monitoring"
RUNBOOKS = ROOT / "docs" / "runbooks"
OF_THE_SCRAPE = {"job", "instance"}
SELECTOR = re.compile(r"\b((?:scheduler|dra|leader|process)_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"([a-z_]+)(=~|=)\"([^\"]*)\"")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")

SHARE_OF_ANOTHER = re.compile(r"max by \(([^)]*)\) \((\w+)\) >= ([0-9.]+) \* max by \(\1\) \((\w+)\) > 0")
"""An alert's expression: a metric reaches a share of another one of the same labels, and is above 0."""

Labels = Mapping[str, set[str]]
"""The values of each label of a metric."""


def limits(used: int, most: int) -> list[LimitStatus]:
    return [LimitStatus(TenantLimit("few", most=most * ONE_DEVICE), (0, ""), used * ONE_DEVICE, most * ONE_DEVICE)]


def scheduler(used: int = 1, most: int = 1) -> Metrics:
    watch = Watch("pods", objects=0, restarts=0, refused=0, failures=0, silence_s=0, is_alive=True)
    queues = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
    leases = {"dra-scheduler": True}
    metrics = Metrics(
        lambda: Reading(
            queues,
            {("mine", "NodePorts"): 0},
            {"nodes": 0},
            [watch],
            0,
            0,
            0,
            0,
            leases,
            {"Bind": 0},
            limits(used, most),
        )
    )
    for result in AttemptResult:
        metrics.attempted("mine", result, 1)
    metrics.scheduled(1, 1)
    metrics.decided(1)
    metrics.passed("mine", Point.PRE_BIND, PointStatus.SUCCESS, 1)
    return metrics


def extender(used: int = 1, most: int = 1) -> ExtenderMetrics:
    metrics = ExtenderMetrics(lambda: ExtenderReading([], 0, 0, {"Bind": 0}, limits(used, most)))
    for verb, code in (("filter", 200), ("prioritize", 503)):
        metrics.called(verb, code, 1)
    return metrics


def guard(used: int = 1, most: int = 1) -> GuardMetrics:
    metrics = GuardMetrics(lambda: GuardReading([], 0, {"dra-guard": True}, limits(used, most)))
    metrics.called("verb", 200, 1)
    return metrics


def own_gauges() -> set[str]:
    """What the scheduler says of itself at the moment."""
    families = text_string_to_metric_families(scheduler().exposition("")[0].decode())
    return {family.name for family in families if family.type == "gauge" and family.name.startswith("dra_scheduler_")}


def samples(metrics: CommonMetrics) -> Iterator[tuple[str, Mapping[str, str]]]:
    for family in text_string_to_metric_families(metrics.exposition("")[0].decode()):
        yield from ((sample.name, sample.labels) for sample in family.samples)


def exported() -> Mapping[str, Labels]:
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for metrics in (scheduler(), extender(), guard()):
        for name, labels in samples(metrics):
            found[name].update({label: found[name][label] | {value} for label, value in labels.items()})
            _ = found[name]
    return found


EXPORTED = exported()


def missing(query: str) -> list[str]:
    """What the query reads and nobody exports: metrics, labels of one, values of a label."""
    return [*_unknown_metrics(query), *_unknown_groupings(query)]


def _unknown_metrics(query: str) -> Iterator[str]:
    for name, matchers in SELECTOR.findall(query):
        if name not in EXPORTED:
            yield name
        for label, operator, value in MATCHER.findall(matchers):
            values = EXPORTED.get(name, {}).get(label, set())
            if not all(any(re.fullmatch(one, found) for found in values) for one in _wanted(operator, value)):
                yield f'{name}{{{label}{operator}"{value}"}}'


def _wanted(operator: str, value: str) -> list[str]:
    """The patterns, each of which has to match something."""
    return value.split("|") if operator == "=~" else [re.escape(value)]


def _unknown_groupings(query: str) -> Iterator[str]:
    read = [EXPORTED.get(name, {}).keys() for name, _ in SELECTOR.findall(query)]
    known = OF_THE_SCRAPE.union(*read)
    for group in GROUPING.findall(query):
        yield from (f"by ({label})" for label in group.split(", ") if label not in known)


def rules() -> list[dict[str, Any]]:
    rule = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())
    return [one for group in rule["spec"]["groups"] for one in group["rules"]]


def queries() -> list[str]:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_nothing_unknown_is_overlooked() -> None:
    assert missing('sum by (resource) (rate(dra_guard_answers_total{answer="no"}[5m]))') == [
        'dra_guard_answers_total{answer="no"}',
        "by (resource)",
    ]
    assert missing("dra_scheduler_nothing > 0") == ["dra_scheduler_nothing"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alert_reads_what_is_exported(rule: Mapping[str, Any]) -> None:
    assert missing(rule["expr"]) == []


@pytest.mark.parametrize("query", queries())
def test_dashboard_reads_what_is_exported(query: str) -> None:
    assert SELECTOR.search(query)
    assert missing(query) == []


def test_dashboard_shows_all_that_the_scheduler_says_of_itself_at_the_moment() -> None:
    assert own_gauges() - {name for query in queries() for name, _ in SELECTOR.findall(query)} == set()


def test_panels_do_not_overlap_and_have_different_ids() -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    cells = [cell for panel in panels for cell in _cells(**panel["gridPos"])]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)


def _cells(x: int, y: int, w: int, h: int) -> list[tuple[int, int]]:
    assert x + w <= 24
    return [(x + column, y + line) for column in range(w) for line in range(h)]


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    names = {rule["alert"] for rule in rules()}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == names
    assert all(rule["annotations"]["runbook"] == f"docs/runbooks/{rule['alert']}.md" for rule in rules())


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("DRA*.md")), ids=lambda page: page.stem)
def test_page_says_what_to_look_at_and_what_to_do(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.stem}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Impact", "Diagnosis", "Remedy"]
    assert missing(" ".join(re.findall(r"`(sum [^`]*)`", text))) == []


def test_every_alert_is_listed_with_its_severity() -> None:
    listed = re.findall(
        r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", (ROOT / "docs/monitoring.md").read_text(), re.MULTILINE
    )
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]


def firing(alert: str, metrics: CommonMetrics) -> set[tuple[str, ...]]:
    """For which labels the expression of the alert, a share of another metric, is true of what the program exposes."""
    (rule,) = [one for one in rules() if one["alert"] == alert]
    read = SHARE_OF_ANOTHER.fullmatch(rule["expr"])
    assert read, rule["expr"]
    labels, part, share, whole = read.groups()
    parts, wholes = (_by(labels.split(", "), name, metrics) for name in (part, whole))
    return {one for one, value in parts.items() if one in wholes and value >= float(share) * wholes[one] and value > 0}


def _by(labels: list[str], name: str, metrics: CommonMetrics) -> Mapping[tuple[str, ...], float]:
    """The greatest value for each of the labels, which every sample has."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(metrics.exposition("")[0].decode()):
        for sample in [one for one in family.samples if one.name == name]:
            key = tuple(sample.labels[label] for label in labels)
            found[key] = max(found.get(key, sample.value), sample.value)
    assert found, f"{name} is not exposed"
    return found


@pytest.mark.parametrize("program", [scheduler, extender, guard])
@pytest.mark.parametrize(
    ("used", "most", "is_firing"), [(89, 100, False), (90, 100, True), (9, 10, True), (0, 0, False)]
)
def test_limit_alert_fires_at_nine_tenths_of_what_each_program_exposes(
    program: Callable[[int, int], CommonMetrics], used: int, most: int, *, is_firing: bool
) -> None:
    assert firing("DRALimitNearlyReached", program(used, most)) == ({("few", "")} if is_firing else set())
