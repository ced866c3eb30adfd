"""Several explanations: pods of one workload that one reason refuses are told once, as text and on a page."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from allocator.status import PoolStatus
from scheduler.decision.cluster import Cluster
from scheduler.output.data_page import DataPage, PageTable, data_page, element, tree
from scheduler.output.explanation_report import ExplanationReport, first_line, reason_of, subject_of, verdict_text
from scheduler.output.placement_report import workload_of
from scheduler.output.report import Block
from scheduler.output.status_report import MAP, closed_nodes, device_map, states_of, states_text
from scheduler.output.table import ColumnTable, Sentence
from scheduler.status import ClaimStatus
from scheduler.terminal_text import printable

_ALL = "Pending pods and claims"


@dataclass(slots=True)
class _SameExplanations:
    """What is kept of explanations that say the same: of the first, its row, and the subject and node of each."""

    subject: str
    verdict: str
    line: str
    row: list[str]
    sections: Sequence[Sequence[str]]
    details: Element | None
    each: list[tuple[str, str]]

    @property
    def more(self) -> str:
        """How many others there are, in words."""
        return f" and {len(self.each) - 1:,} more" if len(self.each) > 1 else ""

    def folded(self) -> Element:
        """What is said of all of them, below one line."""
        line = f"{self.subject}{self.more}{self.line.removeprefix(self.subject)}"
        details = [self.details] if self.details else []
        return element("details", {}, element("summary", {}, printable(line)), *details)


class Explanations:
    """Several explanations, of which it keeps what it shows: what each node says is much more."""

    def __init__(self, *, is_page: bool) -> None:
        self._is_page = is_page
        self._told: dict[Hashable, _SameExplanations] = {}

    def add(self, report: ExplanationReport) -> None:
        """One more."""
        explained = report.explained
        reason, verdict = reason_of(explained), verdict_text(explained)
        workload = workload_of(explained.pod) if explained.verdict != "Fits" else None
        key = (workload, verdict, reason) if workload else len(self._told)
        told = self._told.get(key)
        each = (subject_of(explained), explained.node or "-")
        if told:
            told.each.append(each)
            return
        row = [each[0], verdict, each[1], reason]
        details = tree(report.details()) if self._is_page else None
        sections = [] if self._is_page else list(report.sections())
        self._told[key] = _SameExplanations(each[0], verdict, first_line(explained), row, sections, details, [each])

    def blocks(self) -> Iterator[Block]:
        """Each as text. Pods of one workload that one reason refuses are told once."""
        for told in self._told.values():
            first, *others = map("\n".join, told.sections)
            yield Sentence(f"{told.subject}{told.more}{first.removeprefix(told.subject)}", told.verdict)
            yield from others

    def html(
        self,
        counted: str,
        pools: Sequence[PoolStatus],
        claims: Iterable[ClaimStatus],
        cluster: Cluster,
        head: Sequence[str],
    ) -> str:
        """The page. counted: how many fit, in words. pools, claims: after all of them."""
        header = ["POD OR CLAIM", "VERDICT", "NODE", "REASON"]
        told = list(self._told.values())
        rows = [[f"{one.subject}{one.more}", *one.row[1:]] for one in told]
        members = {at: [[name, "", node, ""] for name, node in one.each] for at, one in enumerate(told) if one.more}
        table = PageTable("explained", "Pods and claims", ColumnTable(header, rows), members=members)
        answer = [f"{counted}.", states_text(states_of(pools))]
        heading = element("h2", {}, "Details")
        details = [one.folded() for one in told]
        sections = [element("section", {}, heading, *details)] if details else []
        tables = [table, device_map(pools, claims, cluster), closed_nodes(cluster)]
        return data_page(DataPage(_ALL, answer, tables, MAP, details=sections), head)
