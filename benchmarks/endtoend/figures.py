"""From what a run saw to the figures of it, and from the figures of all runs to the table.

A rate is that of the bindings alone, from the first to the last; what comes before is a figure of its own.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.endtoend.workload import PLAIN, Size

OURS, PEER, CEILING = "ours", "peer", "ceiling"
_DECISION = "scheduler_scheduling_algorithm_duration_seconds"


class Decisions(NamedTuple):
    """How long decisions took. p99_at_most_s: the bound of the histogram's bucket with the 99th of 100."""

    mean_s: float
    p99_at_most_s: float


class Run(NamedTuple):
    """One contender, once. bound_s: from its start to each binding, ascending; decisions: None where unknown.

    begun_s: from its start until each of several schedulers had bound a pod; None for a single one.
    asks: the name of what each pod asks for.
    reported: how many events were stored in the end; reported_s: when the last was. Memory and processor: until then.
    """

    column: str
    size: Size
    asks: str
    bound_s: Sequence[float]
    reported: int
    reported_s: float
    peak_mib: float
    cpu_s: float
    decisions: Decisions | None
    begun_s: float | None = None


class Measure(NamedTuple):
    """One line for each size. is_rate: more is better."""

    name: str
    unit: str
    value: Callable[[Run], float | None]
    is_rate: bool = False


class Range(NamedTuple):
    """The median, and how far the rounds are apart."""

    median: float
    least: float
    greatest: float


class Row(NamedTuple):
    """One line of the result. medians: by column. ratio: how many times ours is better than the peer, round by round.

    of_ceiling: ours as a part of the ceiling, of rates alone. None: not measured.
    """

    case: str
    unit: str
    medians: Mapping[str, float | None]
    ratio: Range | None
    of_ceiling: Range | None

    def document(self) -> Mapping[str, object]:
        """As the JSON has it: medians beside each other, and each ratio with its least and greatest."""
        ratio, of_ceiling = (spread or (None, None, None) for spread in (self.ratio, self.of_ceiling))
        named = {"ratio": ratio[0], "least": ratio[1], "greatest": ratio[2]}
        of_named = {
            "of_ceiling": of_ceiling[0],
            "of_ceiling_least": of_ceiling[1],
            "of_ceiling_greatest": of_ceiling[2],
        }
        return {"case": self.case, "unit": self.unit, **self.medians, **named, **of_named}


def decisions_in(metrics: str) -> Decisions | None:
    """What the metrics of a scheduler say of its decisions, kube-scheduler's names taken; None where they do not."""
    families = (family for family in text_string_to_metric_families(metrics) if family.name == _DECISION)
    samples = [sample for family in families for sample in family.samples]
    count = sum(sample.value for sample in samples if sample.name == f"{_DECISION}_count")
    if not count:
        return None
    seconds = sum(sample.value for sample in samples if sample.name == f"{_DECISION}_sum")
    within: defaultdict[float, float] = defaultdict(float)
    for sample in samples:
        if sample.name == f"{_DECISION}_bucket":
            within[float(sample.labels["le"])] += sample.value
    return Decisions(seconds / count, min(bound for bound, number in within.items() if number >= 0.99 * count))


def rate(run: Run) -> float:
    """Pods bound in a second, from the first to the last."""
    return len(run.bound_s) / (run.bound_s[-1] - run.bound_s[0])


def rate_together(run: Run) -> float | None:
    """The same from when each of several schedulers has bound a pod: before, the last of them is still starting."""
    if run.begun_s is None:
        return None
    since = [one for one in run.bound_s if one >= run.begun_s]
    return len(since) / (run.bound_s[-1] - run.begun_s)


def reported_rate(run: Run) -> float | None:
    """Pods bound and told of by an event in a second, from the first binding; None for who tells nothing."""
    return run.reported / (run.reported_s - run.bound_s[0]) if run.reported else None


MEASURES = (
    Measure("bound", "pods/s", rate, is_rate=True),
    Measure("bound, once all schedulers bind", "pods/s", rate_together, is_rate=True),
    Measure("bound, event stored", "pods/s", reported_rate, is_rate=True),
    Measure("start to first binding", "s", lambda run: run.bound_s[0]),
    Measure("decision, mean", "ms", lambda run: run.decisions and 1e3 * run.decisions.mean_s),
    Measure("decision, p99 at most", "ms", lambda run: run.decisions and 1e3 * run.decisions.p99_at_most_s),
    Measure("processor time a pod, start included", "ms", lambda run: 1e3 * run.cpu_s / run.size.pods),
    Measure("peak memory", "MiB", lambda run: run.peak_mib),
)


def rows(runs: Sequence[Run], columns: Sequence[str]) -> list[Row]:
    """The lines, size by size. columns: of those that were measured, in the order in which they are shown."""
    return [row for size in dict.fromkeys(run.size for run in runs) for row in _rows_of(size, runs, columns)]


def _rows_of(size: Size, runs: Sequence[Run], columns: Sequence[str]) -> Iterator[Row]:
    of_size = [run for run in runs if run.size == size]
    plain = [run for run in of_size if run.asks == PLAIN.name]
    for asks in dict.fromkeys(run.asks for run in of_size):
        own = [run for run in of_size if run.asks == asks]
        yield from (_row(measure, own, columns) for measure in MEASURES)
        if plain and asks != PLAIN.name:
            yield _part_of_plain(own, plain, columns)


def _row(measure: Measure, runs: Sequence[Run], columns: Sequence[str]) -> Row:
    values = {column: [measure.value(run) for run in runs if run.column == column] for column in columns}
    ours, peer, ceiling = (values.get(column, ()) for column in (OURS, PEER, CEILING))
    ratio = _spread(ours, peer) if measure.is_rate else _spread(peer, ours)
    of_ceiling = _spread(ours, ceiling) if measure.is_rate else None
    return Row(_case(runs[0], measure.name), measure.unit, _medians(values, columns), ratio, of_ceiling)


def _part_of_plain(runs: Sequence[Run], plain: Sequence[Run], columns: Sequence[str]) -> Row:
    """How much of its own rate with plain pods each contender has left, round by round."""
    values = {column: _ratios(_rates(runs, column), _rates(plain, column)) for column in columns}
    return Row(_case(runs[0], "bound, of the rate of plain pods"), "", _medians(values, columns), None, None)


def _rates(runs: Sequence[Run], column: str) -> Sequence[float]:
    return [rate(run) for run in runs if run.column == column]


def _case(run: Run, measure: str) -> str:
    asks = "" if run.asks == PLAIN.name else f", {run.asks}"
    return f"{run.size}{asks}: {measure}"


def _medians(values: Mapping[str, Sequence[float | None]], columns: Sequence[str]) -> Mapping[str, float | None]:
    return {column: _median(values.get(column, ())) for column in dict.fromkeys((OURS, PEER, CEILING, *columns))}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _spread(above: Sequence[float | None], below: Sequence[float | None]) -> Range | None:
    """Of the ratios, round by round; a round that one of them has not come to is left out."""
    ratios = _ratios(above, below)
    return Range(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def _ratios(above: Sequence[float | None], below: Sequence[float | None]) -> Sequence[float]:
    return [a / b for a, b in zip(above, below, strict=False) if a is not None and b]


def table(found: Sequence[Row], names: Mapping[str, str]) -> str:
    """The rows as a table of Markdown. names: of the columns."""
    heads = ["case", "unit", *names.values(), "times better (least to greatest)", "of the ceiling"]
    lines = [heads, ["---"] * len(heads)]
    for row in found:
        medians = [_number(row.medians[column]) for column in names]
        lines.append([row.case, row.unit, *medians, _text(row.ratio), _text(row.of_ceiling)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(spread: Range | None) -> str:
    return f"{spread.median:.2f} ({spread.least:.2f} to {spread.greatest:.2f})" if spread else "-"
