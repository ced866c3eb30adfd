"""An explanation as text and as a page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

import click

from allocator.explain.node_explanation import NodeExplanation, PassedOver
from allocator.explain.offer import Funnel
from allocator.explain.selector_operands import blaming
from allocator.explain.text import (
    OPERATOR,
    conflict_text,
    constraint_offer_text,
    devices_text,
    near_miss,
    node_text,
    refusal_text,
    remedy_texts,
    summary,
)
from allocator.model import Claim, DeviceID
from allocator.outcome import Allocated, AllocationError, Exhausted
from allocator.policies.contract import FIRST_FIT
from allocator.status import PoolStatus
from allocator.words import counted, listed_up_to
from scheduler.decision.cluster import Cluster
from scheduler.decision.why_not import NodeAnswer, PluginRefusal, same_answers
from scheduler.offline.pod_explanation import Explanation, Verdict
from scheduler.output.data_page import ColumnTable, DataPage, PageTable, data_page, element, tree
from scheduler.output.status_report import MAP, closed_nodes, device_map, states_of, states_text
from scheduler.output.table import answer_text, by_reason
from scheduler.status import ClaimStatus
from scheduler.terminal_text import printable

# An explanation as text: the result in one line, the details of one node, then the other nodes by reason.


MOST_NAMED = 4
"""Devices or nodes that a line names; others are counted."""

_VERDICTS: Mapping[Verdict, str] = {"Fits": "fits", "DoesNotFit": "does not fit", "NotKnown": "may or may not fit"}


def text_of(explanation: Explanation) -> str:
    """The whole explanation; the verdict is green or red on a terminal."""
    verdict = click.style(verdict_text(explanation), fg="green" if explanation.verdict == "Fits" else "red")
    return "\n".join([_first_line(explanation, verdict), *map(printable, detail_lines(explanation))])


def first_line(explanation: Explanation) -> str:
    """The verdict and its reason."""
    return _first_line(explanation, verdict_text(explanation))


def _first_line(explanation: Explanation, verdict: str) -> str:
    return f"{subject_of(explanation)} {verdict}: {printable(reason_of(explanation))}"


def verdict_text(explanation: Explanation) -> str:
    """The verdict in words."""
    return _VERDICTS[explanation.verdict]


def detail_lines(explanation: Explanation) -> Iterator[str]:
    """The lines after the first one; each is indented by what it belongs to."""
    if explanation.kept:
        yield f"  {explanation.kept}"
    if hidden := explanation.hidden:
        yield f"  kube-scheduler gives it up at node {hidden.node}: {hidden.reason}"
    yield from (f"  {line}" for claim in explanation.claims for line in _allocated(claim))
    if explanation.answers:
        yield from ("", *_node_lines(explanation))
    if others := _by_plugin(explanation):
        yield from ("", "other nodes", *(f"  {_nodes_text(names)}: {reason}" for reason, names in by_reason(others)))


def subject_of(explanation: Explanation) -> str:
    """What is explained, such as `pod ml/train-0`."""
    if explanation.pod is not None:
        return f"pod {explanation.pod}"
    return f"claim {explanation.claims[0]}"


def reason_of(explanation: Explanation) -> str:
    """Why, in one line."""
    answers, node = explanation.answers or {}, explanation.node
    if explanation.summary:
        return explanation.summary
    if explanation.is_asked_for:
        can = sum(isinstance(answer, Allocated) for answer in answers.values())
        here = f"node {node} can" if explanation.verdict == "Fits" else f"node {node}: {answer_text(answers[node])}"
        return f"{here} ({can} of {len(answers)} nodes can)"
    if explanation.verdict == "Fits":
        able = [name for name, answer in answers.items() if isinstance(answer, Allocated)]
        is_first_fit = explanation.policy == FIRST_FIT.name
        best = "the best by score" if is_first_fit else f"the best by policy {explanation.policy}"
        return f"node {node}, {f'{best} of {len(able)}' if len(able) > 1 else 'the only one'} that can"
    answer = answers[node]
    if isinstance(answer, AllocationError):
        return str(answer).partition("\n")[0]
    groups = [(names[0], one, len(names)) for one, names in same_answers(answers)]
    refused = [(name, one, number) for name, one, number in groups if not isinstance(one, AllocationError)]
    return summary(refused, len(answers), explanation.updating)


def other_answers(explanation: Explanation) -> dict[str, NodeAnswer]:
    """What the other nodes say."""
    return {name: answer for name, answer in (explanation.answers or {}).items() if name != explanation.node}


def _by_plugin(explanation: Explanation) -> dict[str, NodeAnswer]:
    """The same, with the plugin that refuses each node."""
    answers = other_answers(explanation)
    texts: dict[tuple[str, str], str] = {}
    return {name: _with_plugin(answer, explanation.plugins.get(name, ""), texts) for name, answer in answers.items()}


def _with_plugin(answer: NodeAnswer, plugin: str, texts: dict[tuple[str, str], str]) -> NodeAnswer:
    """texts: those that were made so far, which nodes share."""
    if not plugin or not isinstance(answer, str):
        return answer
    return texts.setdefault((plugin, answer), f"{plugin}: {answer}")


def _node_lines(explanation: Explanation) -> Iterator[str]:
    node, on_node = explanation.node, explanation.on_node
    answer = (explanation.answers or {})[node]
    yield f"node {node}, {_role(explanation, answer)}"
    if isinstance(answer, str):
        yield from (f"  {line}" for line in _plugin_lines(explanation.refusal, answer))
    if on_node is None:
        return
    if isinstance(answer, str):
        yield f"  its devices: {'would fit' if isinstance(on_node.answer, Allocated) else 'would not fit either'}"
    yield from (f"  {line}" for line in _device_lines(on_node, node))


def _plugin_lines(refusal: PluginRefusal | None, answer: str) -> Iterator[str]:
    if refusal is None:
        yield answer
        return
    yield f"{refusal.plugin}: {answer}"
    if refusal.remedies:
        yield "  would pass if"
        yield from (f"    {text}" for text in refusal.remedies)


def _role(explanation: Explanation, answer: NodeAnswer) -> str:
    if explanation.is_asked_for:
        return "given by --node"
    if isinstance(answer, AllocationError):
        return "where the attempt ends"
    return "selected" if isinstance(answer, Allocated) else "the nearest"


def _device_lines(on_node: NodeExplanation, node: str) -> Iterator[str]:
    for funnel in on_node.offer.funnels:
        yield from _funnel_lines(funnel, _taken(on_node, funnel))
    yield from (f"claim {offered.claim}, {constraint_offer_text(offered)}" for offered in on_node.offer.constraints)
    yield from (f"pool {pool.driver}/{pool.pool} {what}" for pool, what in on_node.offer.unusable)
    for one in on_node.passed_over:
        yield f"claim {one.claim}, {one.request} was passed over: {passed_over_text(one)}"
    if isinstance(on_node.answer, AllocationError):
        yield from str(on_node.answer).splitlines()
    elif isinstance(on_node.answer, Exhausted):
        yield node_text(on_node.answer, reader=OPERATOR)
    if on_node.conflict:
        yield conflict_text(on_node.conflict, node)
    if on_node.remedies or not isinstance(on_node.answer, Allocated | AllocationError):
        yield from _remedy_lines(on_node)


def _funnel_lines(funnel: Funnel, taken: Sequence[DeviceID]) -> Iterator[str]:
    wanted = f"all of {devices_text(funnel.wanted)}" if funnel.mode == "All" else devices_text(funnel.wanted)
    yield f"claim {funnel.claim}, request {funnel.request}: needs {wanted}, the node has {funnel.total}"
    for refusal in funnel.refusals:
        yield f"  {refusal_text(refusal, reader=OPERATOR)}"
        yield from (f"    {line}" for line in blaming(funnel.operands.get(refusal.reason, ())))
    unjudged = f"; a selector fails on {len(funnel.unjudged)} of them" if funnel.unjudged else ""
    yield f"  {len(funnel.left)} left{_named(funnel.left)}{unjudged}"
    if taken:
        yield f"  takes {', '.join(map(str, taken))}"
    elif reported := near_miss(funnel):
        yield f"  {reported}"


def _taken(on_node: NodeExplanation, funnel: Funnel) -> list[DeviceID]:
    if not isinstance(on_node.answer, Allocated):
        return []
    own = zip(on_node.claims, on_node.answer.allocations, strict=True)
    results = [one for claim, allocation in own if claim == funnel.claim for one in allocation.results]
    return [one.id for one in results if one.request == funnel.request]


def passed_over_text(one: PassedOver) -> str:
    """Why an alternative was not taken."""
    if isinstance(one.answer, Allocated):
        return "it is available only if an earlier request took another alternative"
    return answer_text(one.answer)


def _remedy_lines(on_node: NodeExplanation) -> Iterator[str]:
    has_many = len({funnel.claim for funnel in on_node.offer.funnels}) > 1
    if on_node.remedies:
        yield "it is known to fit if" if isinstance(on_node.answer, Exhausted) else "would fit if"
        yield from (f"  {text}" for text in remedy_texts(on_node.remedies, has_many_claims=has_many))
    else:
        yield "no single change that makes it fit was found"
    if not on_node.is_whole:
        yield "some changes could not be verified within the budget"


def _allocated(claim: Claim) -> Iterator[str]:
    if claim.allocation is not None:
        devices = ", ".join(f"{one.request}: {one.id}" for one in claim.allocation.results)
        yield f"claim {claim} is allocated: {devices or 'no device'}"


def _named(devices: Sequence[DeviceID]) -> str:
    if not devices:
        return ""
    return f": {listed_up_to(list(map(str, devices)), MOST_NAMED)}"


def _nodes_text(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'node')} ({listed_up_to(names, MOST_NAMED)})"


# Explanations as a page: the answer, its details, the devices of all nodes, and what each node says.


_ASKED = "FOR THE REQUESTS"
_CHECK = "CHECK"
_LEFT, _TAKEN = "✓", "★"
_ALL = "Pending pods and claims"


def explanation_page(
    explanation: Explanation,
    pools: Sequence[PoolStatus],
    claims: Iterable[ClaimStatus],
    cluster: Cluster,
    head: Sequence[str],
) -> str:
    """The page of one explanation, as HTML. pools, claims: as they are without what is explained."""
    devices = device_map(pools, claims, cluster)
    asked, checks = _asked(explanation), _Checks(explanation)
    rows = [[*row, asked.get(row[0], "-"), checks.symbols.get(row[0], "-")] for row in devices.table.rows]
    described = replace(devices, table=ColumnTable([*devices.table.header, _ASKED, _CHECK], rows))
    return data_page(
        DataPage(
            subject_of(explanation),
            [f"{first_line(explanation)}."],
            [*_nodes(explanation), described, closed_nodes(cluster)],
            replace(
                MAP,
                marks=_ASKED,
                mark_text=f"reached by {explanation.node}, the node that is described",
                check=_CHECK,
                checks=checks.legend,
            ),
            [element("section", {}, element("h2", {}, "Details"), tree(list(detail_lines(explanation))))],
        ),
        head,
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
        table = PageTable("explained", "Pods and claims", ColumnTable(header, self._rows))
        answer = [f"{counted}.", states_text(states_of(pools))]
        heading = element("h2", {}, "Details")
        sections = [element("section", {}, heading, *self._details)] if self._details else []
        tables = [table, device_map(pools, claims, cluster), closed_nodes(cluster)]
        return data_page(DataPage(_ALL, answer, tables, MAP, details=sections), head)


def _folded(explanation: Explanation) -> Element:
    summary = element("summary", {}, printable(first_line(explanation)))
    return element("details", {}, summary, tree(list(detail_lines(explanation))))


def _nodes(explanation: Explanation) -> Iterator[PageTable]:
    answers = explanation.answers
    if answers:
        rows = [_node_row(explanation, name, answer) for name, answer in answers.items()]
        header = ["NODE", "ANSWER", "REFUSED BY", "REASON", "SCORE"]
        yield PageTable("nodes", "Answers of the nodes", ColumnTable(header, rows))


def _node_row(explanation: Explanation, name: str, answer: NodeAnswer) -> list[str]:
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
    for taken in _taken_devices(on_node.answer):
        found[str(taken)] = [*found.get(str(taken), ()), "taken"]
    return {device: "; ".join(texts) for device, texts in found.items()}


class _Checks:
    """What the map shows of the devices of the node that is described.

    symbols: by device, the number of the first check that removes it, unless a request can have it. legend: their
    meanings, as (symbol, text).
    """

    def __init__(self, explanation: Explanation) -> None:
        self.symbols: dict[str, str] = {}
        self.legend: list[tuple[str, str]] = []
        on_node = explanation.on_node
        if on_node is None:
            return
        for funnel in on_node.offer.funnels:
            for refusal in funnel.refusals:
                number = str(len(self.legend) + 1)
                self.legend.append((number, f"request {funnel.request}: {refusal_text(refusal, reader=OPERATOR)}"))
                for device in refusal.devices:
                    self.symbols.setdefault(str(device), number)
        left = [str(device) for funnel in on_node.offer.funnels for device in funnel.left]
        taken = [str(device) for device in _taken_devices(on_node.answer)]
        self._mark(_LEFT, "passes all checks of a request", left)
        self._mark(_TAKEN, "taken", taken)

    def _mark(self, symbol: str, text: str, devices: Sequence[str]) -> None:
        self.symbols |= dict.fromkeys(devices, symbol)
        if devices:
            self.legend.append((symbol, text))


def _of_request(funnel: Funnel) -> Iterator[tuple[DeviceID, str]]:
    for refusal in funnel.refusals:
        # The phrase follows a number of devices: `4 are in use`.
        yield from ((device, refusal.reason.removeprefix("are ")) for device in refusal.devices)
    yield from ((device, "left") for device in funnel.left)


def _taken_devices(answer: object) -> Iterator[DeviceID]:
    if isinstance(answer, Allocated):
        yield from (result.id for allocation in answer.allocations for result in allocation.results)
