"""Explanations as a page: the answer, its details, the devices of all nodes, and what each node says."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

from allocator.explain.offer import Funnel
from allocator.model import DeviceID
from allocator.outcome import Allocated
from allocator.status.pool_status import PoolStatus
from scheduler.decision.node_answers import Answer
from scheduler.offline.pod_explanation import Explanation
from scheduler.output.columns import ColumnTable
from scheduler.output.data_page import DataPage, PageTable, data_page, tree
from scheduler.output.device_map import MAP, device_map
from scheduler.output.explanation_text import detail_lines, first_line, reason_of, subject_of, verdict_text
from scheduler.output.markup import element
from scheduler.output.node_groups import answer_text
from scheduler.output.status_page import states_of, states_text
from scheduler.status.claim_status import ClaimStatus
from scheduler.terminal_text import printable

_ASKED = "FOR THE REQUESTS"
_ALL = "Pending pods and claims"


def explanation_page(explanation: Explanation, pools: Sequence[PoolStatus], claims: Iterable[ClaimStatus]) -> str:
    """The page of one explanation, as HTML. pools, claims: as they are without what is explained."""
    devices = device_map(pools, claims)
    asked = _asked(explanation)
    rows = [[*row, asked.get(row[0], "-")] for row in devices.table.rows]
    described = replace(devices, table=ColumnTable([*devices.table.header, _ASKED], rows))
    return data_page(
        DataPage(
            subject_of(explanation),
            [f"{first_line(explanation)}."],
            [*_nodes(explanation), described],
            replace(MAP, marks=_ASKED, mark_text="of the node that is described"),
            [element("section", {}, element("h2", {}, "Details"), tree(list(detail_lines(explanation))))],
        )
    )


class ExplanationsPage:
    """The page of several explanations, of which it keeps what it shows: what each node says is much more."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = []
        self._details: list[Element] = []

    def add(self, one: Explanation) -> None:
        """One more."""
        self._rows.append([subject_of(one), verdict_text(one), one.node or "-", reason_of(one)])
        self._details.append(_folded(one))

    def html(self, counted: str, pools: Sequence[PoolStatus], claims: Iterable[ClaimStatus]) -> str:
        """The page. counted: how many fit, in words. pools, claims: after all of them."""
        header = ["POD OR CLAIM", "VERDICT", "NODE", "REASON"]
        table = PageTable("explained", "Pods and claims", ColumnTable(header, self._rows))
        answer = [f"{counted}.", states_text(states_of(pools))]
        heading = element("h2", {}, "Details")
        sections = [element("section", {}, heading, *self._details)] if self._details else []
        return data_page(DataPage(_ALL, answer, [table, device_map(pools, claims)], MAP, details=sections))


def _folded(explanation: Explanation) -> Element:
    summary = element("summary", {}, printable(first_line(explanation)))
    return element("details", {}, summary, tree(list(detail_lines(explanation))))


def _nodes(explanation: Explanation) -> Iterator[PageTable]:
    answers = explanation.answers
    if answers:
        rows = [_node_row(explanation, name, answer) for name, answer in answers.items()]
        header = ["NODE", "ANSWER", "REFUSED BY", "REASON", "SCORE"]
        yield PageTable("nodes", "Answers of the nodes", ColumnTable(header, rows))


def _node_row(explanation: Explanation, name: str, answer: Answer) -> list[str]:
    role = " (described above)" if name == explanation.node else ""
    if isinstance(answer, Allocated):
        return [name, f"can{role}", "-", "-", ", ".join(f"{one:g}" for one in answer.score)]
    plugin = explanation.plugins.get(name, "-") if isinstance(answer, str) else "DynamicResources"
    return [name, f"cannot{role}", plugin, answer_text(answer), "-"]


def _asked(explanation: Explanation) -> Mapping[str, str]:
    """What becomes of the devices of the node that is described, by device."""
    on_node = explanation.on_node
    if on_node is None:
        return {}
    found: dict[str, list[str]] = {}
    for funnel in on_node.offer.funnels:
        for device, text in _of_request(funnel):
            found.setdefault(str(device), []).append(f"{funnel.request}: {text}")
    for taken in _taken(on_node.answer):
        found[str(taken)] = [*found.get(str(taken), ()), "taken"]
    return {device: "; ".join(texts) for device, texts in found.items()}


def _of_request(funnel: Funnel) -> Iterator[tuple[DeviceID, str]]:
    for refusal in funnel.refusals:
        # The phrase follows a number of devices: `4 are in use`.
        yield from ((device, refusal.reason.removeprefix("are ")) for device in refusal.devices)
    yield from ((device, "left") for device in funnel.left)


def _taken(answer: object) -> Iterator[DeviceID]:
    if isinstance(answer, Allocated):
        yield from (result.id for allocation in answer.allocations for result in allocation.results)
