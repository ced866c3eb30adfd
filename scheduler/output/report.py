"""One answer of a command: made once, and printed as text, as an object in JSON or YAML, or as a page."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import orjson

from allocator.api.versions import Json
from scheduler.input.yaml_1_1 import dump
from scheduler.output.data_page import ColumnTable, DataPage, data_page
from scheduler.terminal_text import json_of

API_VERSION = "dra-scheduler.dev/v1alpha1"

TEXT, JSON, YAML = "table", "json", "yaml"
FORMATS = (TEXT, JSON, YAML)
PAGE = "html"
"""A page of its own, of the reports that have one."""


class Report(ABC):
    """An answer. kind: of its object."""

    kind: ClassVar[str]

    @abstractmethod
    def blocks(self) -> Iterable[str | ColumnTable]:
        """Sentences and tables for a terminal, in their order."""

    @abstractmethod
    def fields(self) -> Json:
        """All of it, for programs, whatever the text shows. Fields are only added; a page of docs describes each."""


class PagedReport(Report):
    """An answer that can be a page as well."""

    @abstractmethod
    def page(self) -> DataPage:
        """Its sentences, tables and map."""


def rendered(report: Report, output: str, head: Sequence[str] = ()) -> str:
    """The report in that format, with the line end after it; empty if there is nothing to be said. head: of a page."""
    match output:
        case "json":
            return json_text(object_of(report)) + "\n"
        case "yaml":
            return dump(object_of(report))
        case "html":
            assert isinstance(report, PagedReport), f"{report.kind} has no page"
            return data_page(report.page(), head)
        case _:
            text = text_of(report)
            return f"{text}\n" if text else ""


def text_of(report: Report) -> str:
    """Its sentences and tables, with an empty line in between."""
    return "\n\n".join(map(str, report.blocks()))


def object_of(report: Report) -> Json:
    """The report as an object with a version."""
    return {"apiVersion": API_VERSION, "kind": report.kind, **report.fields()}


def json_text(value: object) -> str:
    """The value as JSON for people, indented."""
    return json_of(value, orjson.OPT_INDENT_2)
