"""One answer of a command: made once, and printed as text, as an object in JSON or YAML, or as a page."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import orjson

from allocator.api.versions import Json
from scheduler.input.yaml_1_1 import dump
from scheduler.output.table import PLAIN, ColumnTable, Sentence, TextLayout
from scheduler.terminal_text import json_of

API_VERSION = "dra-scheduler.dev/v1alpha1"

TEXT, WIDE, JSON, YAML, PAGE = "table", "wide", "json", "yaml", "html"
FORMATS = (TEXT, JSON, YAML)
"""What every report can be printed as. PAGE: a page of its own, of the reports that have one."""

Block = str | Sentence | ColumnTable


class Report(ABC):
    """An answer. kind, api_version: of its object. own_formats: formats that other reports do not have, by name."""

    kind: ClassVar[str]
    api_version: ClassVar[str] = API_VERSION
    own_formats: ClassVar[Mapping[str, Callable[[Any], str]]] = {}  # Any: the report itself

    @abstractmethod
    def blocks(self) -> Iterable[Block]:
        """Sentences and tables for a terminal, in their order."""

    @abstractmethod
    def fields(self) -> Json:
        """All of it, for programs, whatever the text shows. Fields are only added; a page of docs describes each."""

    def wide_blocks(self) -> Iterable[Block]:
        """The same for a wide terminal: with all rows and columns."""
        return self.blocks()


class PagedReport(Report):
    """An answer that can be a page as well."""

    @abstractmethod
    def html(self, head: Sequence[str] = ()) -> str:
        """Its sentences, tables and pictures. head: what it says of the input."""


def rendered(report: Report, output: str, layout: TextLayout = PLAIN, head: Sequence[str] = ()) -> str:
    """The report in that format, with the line end after it; empty if there is nothing to be said. head: of a page."""
    if output in report.own_formats:
        return report.own_formats[output](report)
    match output:
        case "json":
            return json_text(object_of(report)) + "\n"
        case "yaml":
            return dump(object_of(report))
        case "html":
            assert isinstance(report, PagedReport), f"{report.kind} has no page"
            return report.html(head)
        case _:
            text = text_of(report, layout, is_wide=output == WIDE)
            return f"{text}\n" if text else ""


def listed(reports: Iterable[Report], kind: str, output: str, layout: TextLayout = PLAIN) -> Iterator[str]:
    """Reports of a kind, piece by piece: one of them may have a megabyte."""
    if output != JSON:
        for number, report in enumerate(reports):
            yield "\n" * bool(number) + rendered(report, output, layout)
        return
    whole = json_text({"apiVersion": API_VERSION, "kind": f"{kind}List", "items": [0]})
    before, _, after = whole.partition("\n    0")
    yield before
    separator = ""
    for report in reports:
        yield separator + f"\n{json_text(object_of(report))}".replace("\n", "\n    ")
        separator = ","
    yield (after if separator else after.lstrip()) + "\n"


def text_of(report: Report, layout: TextLayout = PLAIN, *, is_wide: bool = False) -> str:
    """Its sentences and tables, with an empty line in between."""
    return laid_out(report.wide_blocks() if is_wide else report.blocks(), layout)


def laid_out(blocks: Iterable[Block], layout: TextLayout = PLAIN) -> str:
    """The blocks as text, with an empty line in between."""
    return "\n\n".join("\n".join(layout.lines(one) if isinstance(one, str) else one.lines(layout)) for one in blocks)


def object_of(report: Report) -> Json:
    """The report as an object with a version."""
    return {"apiVersion": report.api_version, "kind": report.kind, **report.fields()}


def json_text(value: object) -> str:
    """The value as JSON for people, indented."""
    return json_of(value, orjson.OPT_INDENT_2)


# How old something is, in the words of kubectl.


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_STEPS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)
"""(below so many seconds, the unit's seconds and name, those of the second unit, if there is one)."""


def age(created: str, now: datetime) -> str:
    """How old it is, in the words of kubectl; `<unknown>` without a time stamp. created: RFC 3339."""
    if not created:
        return "<unknown>"
    return duration(int((now - datetime.fromisoformat(created).astimezone(UTC)).total_seconds()))


def duration(seconds: int) -> str:
    """A duration as kubectl writes it: two units while the second one matters, then one.

    Source: k8s.io/apimachinery/pkg/util/duration HumanDuration.
    """
    if seconds < 0:
        return "0s"
    _, size, unit, part, lesser = next(step for step in _STEPS if seconds < step[0])
    rest = seconds % size // part if part else 0
    return f"{seconds // size}{unit}" + (f"{rest}{lesser}" if rest else "")
