"""An explanation as text, as a page, and as an object for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from allocator.api.versions import Json
from allocator.explain.node_explanation import (
    ClaimsReleased,
    Conflict,
    ConflictingRequest,
    ConstraintDropped,
    CountLowered,
    Member,
    NodeExplanation,
    PassedOver,
    Remedy,
    SelectorCorrected,
    SelectorsDropped,
    TaintsTolerated,
)
from allocator.explain.offer import ConstraintOffer, Funnel, Offer
from allocator.explain.selector_operands import SelectorOperand, blaming
from allocator.explain.text import (
    OPERATOR,
    conflict_text,
    constraint_offer_text,
    devices_text,
    near_miss,
    node_text,
    refusal_text,
    remedy_text,
    remedy_texts,
    summary,
)
from allocator.model import Claim, DeviceID, DeviceResult
from allocator.outcome import Allocated, AllocationError, DeviceRefusal, Exhausted, Outcome
from allocator.policies.contract import FIRST_FIT
from allocator.search.rules import Category
from allocator.status import PoolStatus
from allocator.words import listed_up_to
from scheduler.decision.cluster import Cluster
from scheduler.decision.why_not import NodeAnswer, PluginRefusal, same_answers
from scheduler.offline.pod_explanation import Explanation, Verdict
from scheduler.output.data_page import DataPage, PageTable, data_page, element, tree
from scheduler.output.eviction_report import MOST_NAMED, eviction_lines, eviction_tables, evictions_object, nodes_text
from scheduler.output.placement_report import answer_text, by_reason, given_up_object
from scheduler.output.report import Block, PagedReport
from scheduler.output.selection_report import barren_object, operand_object
from scheduler.output.status_report import MAP, closed_nodes, device_map
from scheduler.output.table import ColumnTable, Sentence
from scheduler.status import ClaimStatus
from scheduler.terminal_text import printable

# An explanation as text: the result in one line, the details of one node, then the other nodes by reason.


KIND = "Explanation"

_VERDICTS: Mapping[Verdict, str] = {
    "Fits": "fits",
    "DoesNotFit": "does not fit",
    "NotKnown": "may or may not fit",
    "CannotRun": "cannot run",
}


@dataclass(frozen=True, slots=True)
class ExplanationReport(PagedReport):
    """An explanation. pools, claims: of a page, as they are without what is explained."""

    kind = KIND

    explained: Explanation
    pools: Sequence[PoolStatus] = ()
    claims: Sequence[ClaimStatus] = ()
    cluster: Cluster | None = None

    def blocks(self) -> Iterator[Block]:
        """The result in one line, the details of one node, then the other nodes by reason."""
        first, *others = self.sections()
        yield Sentence("\n".join(first), verdict_text(self.explained))
        yield from map("\n".join, others)

    def sections(self) -> Iterator[list[str]]:
        """The lines of each part; each is indented by what it belongs to."""
        explained = self.explained
        yield [printable(first_line(explained)), *map(printable, _about_it(explained))]
        if explained.answers:
            yield list(map(printable, _node_lines(explained)))
        if explained.barren:
            yield ["all devices", *(f"  {printable(line)}" for found in explained.barren for line in found.lines)]
        if others := _by_plugin(explained):
            lines = [f"  {nodes_text(names)}: {reason}" for reason, names in by_reason(others)]
            yield ["other nodes", *map(printable, lines)]
        if explained.evictions:
            yield list(
                map(printable, eviction_lines(explained.evictions, explained.node, is_alone=explained.is_asked_for))
            )

    def fields(self) -> Json:
        """All of it."""
        return explanation_fields(self.explained)

    def html(self, head: Sequence[str] = ()) -> str:
        """The answer, its details, the devices of all nodes, and what each node says."""
        explained = self.explained
        devices = device_map(self.pools, self.claims, self.cluster)
        asked, checks = _asked(explained), _Checks(explained)
        marked = devices.table.with_column(_ASKED, [asked.get(row[0], "-") for row in devices.table.rows])
        marked = marked.with_column(_CHECK, [checks.symbols.get(row[0], "-") for row in marked.rows])
        mark = f"reached by {explained.node}, which is described"
        look = replace(MAP, marks=_ASKED, mark_text=mark, check=_CHECK, checks=checks.legend)
        return data_page(
            DataPage(
                subject_of(explained),
                [f"{first_line(explained)}."],
                [
                    *_nodes(explained),
                    *eviction_tables(explained.evictions),
                    replace(devices, table=marked),
                    closed_nodes(self.cluster),
                ],
                look,
                [element("section", {}, element("h2", {}, "Details"), tree(self.details()))],
            ),
            head,
        )

    def details(self) -> list[str]:
        """The lines after the first one."""
        return [line for section in self.sections() for line in section][1:]


def first_line(explanation: Explanation) -> str:
    """The verdict and its reason."""
    return f"{subject_of(explanation)} {verdict_text(explanation)}: {printable(reason_of(explanation))}"


def verdict_text(explanation: Explanation) -> str:
    """The verdict in words."""
    return _VERDICTS[explanation.verdict]


def _about_it(explanation: Explanation) -> Iterator[str]:
    """The lines below the first one that are about no node."""
    if explanation.kept:
        yield f"  {explanation.kept}"
    yield from [f"  {explanation.hidden.text}"] if explanation.hidden else []
    yield from (f"  {line}" for claim in explanation.claims for line in _allocated(claim))


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
    for better in on_node.passed_over:
        yield f"claim {better.claim}, {better.request} was passed over: {passed_over_text(better)}"
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


# Explanations as a page: the answer, its details, the devices of all nodes, and what each node says.


_ASKED = "FOR THE REQUESTS"
_CHECK = "CHECK"
_LEFT, _TAKEN = "✓", "★"


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
    by_device: dict[str, list[str]] = {}
    for funnel in on_node.offer.funnels:
        for device, text in _of_request(funnel):
            by_device.setdefault(str(device), []).append(f"{funnel.request}: {text}")
    for taken in _taken_devices(on_node.answer):
        by_device[str(taken)] = [*by_device.get(str(taken), ()), "taken"]
    return {device: "; ".join(texts) for device, texts in by_device.items()}


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


# An explanation as an object for programs: docs/explain.md describes each field, and fields are only added.


_MOST_WHOLE = 2**63 - 1

_KINDS: Mapping[Category, str] = {
    "selector": "Selector",
    "in use": "InUse",
    "capacity": "Capacity",
    "taint": "Taint",
    "other": "Other",
}


def explanation_fields(explanation: Explanation) -> Json:
    """The whole explanation."""
    pod, features = explanation.pod, explanation.features
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name} if pod else None,
        "claims": [_claim(claim) for claim in explanation.claims],
        "features": {
            "kubernetes": features.release.name,
            "gates": sorted(features.gates),
            "strict": features.is_strict,
        },
        "policy": explanation.policy,
        "verdict": explanation.verdict,
        "reason": reason_of(explanation),
        "keptBy": explanation.kept or None,
        "givenUpAt": given_up_object(explanation.hidden),
        "selectors": [barren_object(one) for one in explanation.barren],
        "node": _node(explanation) if explanation.node else None,
        "otherNodes": list(_other_nodes(explanation)),
        "preemption": evictions_object(explanation.evictions) if explanation.evictions else None,
    }


def _other_nodes(explanation: Explanation) -> Iterator[Json]:
    said: dict[int, Json] = {}
    for name, answer in other_answers(explanation).items():
        if id(answer) not in said:
            said[id(answer)] = {"verdict": _verdict_on_node(answer), "reason": answer_text(answer)}
        plugin = explanation.plugins.get(name) if isinstance(answer, str) else None
        yield {"name": name, **said[id(answer)], "plugin": plugin, "score": _score(answer)}


def _claim(claim: Claim) -> Json:
    allocation = claim.allocation
    return {
        "namespace": claim.namespace,
        "name": claim.name,
        "allocated": None if allocation is None else [_result(result) for result in allocation.results],
    }


def _node(explanation: Explanation) -> Json:
    answer = (explanation.answers or {}).get(explanation.node)
    named: Json = {"name": explanation.node, "verdict": "Fits" if answer is None else _verdict_on_node(answer)}
    if answer is not None:
        named |= {"reason": answer_text(answer), "refusedBy": _refused_by(answer), "score": _score(answer)}
        refusal = explanation.refusal
        named |= {
            "plugin": refusal.plugin if refusal else None,
            "wouldPassIf": list(refusal.remedies) if refusal else [],
        }
    return named | (_devices_json(explanation.on_node, explanation.node) if explanation.on_node else {})


def _score(answer: NodeAnswer) -> list[float] | None:
    return [_number(one) for one in answer.score] if isinstance(answer, Allocated) else None


def _number(score: float) -> float:
    """The same, as JSON can have it: sums of counters may be whole numbers of more than 64 bits."""
    return score if abs(score) <= _MOST_WHOLE else float(score)


def _refused_by(answer: NodeAnswer) -> str | None:
    """What refuses the node: `Devices`, or `Node` for any other reason."""
    if isinstance(answer, Allocated):
        return None
    return "Node" if isinstance(answer, str) else "Devices"


def _verdict_on_node(answer: NodeAnswer) -> Verdict:
    if isinstance(answer, Allocated):
        return "Fits"
    return "NotKnown" if isinstance(answer, Exhausted) else "DoesNotFit"


def _devices_json(on_node: NodeExplanation, node: str) -> Json:
    has_many = len(on_node.claims) > 1
    return {
        "devices": _verdict_on_node(on_node.answer),
        "steps": None if isinstance(on_node.answer, AllocationError) else on_node.answer.steps,
        "error": str(on_node.answer) if isinstance(on_node.answer, AllocationError) else None,
        **_offer(on_node.offer),
        "taken": _taken_objects(on_node.claims, on_node.answer),
        "passedOver": [_passed_over(one) for one in on_node.passed_over],
        "conflict": _conflict(on_node.conflict, node) if on_node.conflict else None,
        "remedies": [{**_remedy(one), "text": remedy_text(one, has_many_claims=has_many)} for one in on_node.remedies],
        "allRemediesTried": on_node.is_whole,
    }


def _offer(offer: Offer) -> Json:
    unusable = [{"driver": pool.driver, "pool": pool.pool, "problem": what} for pool, what in offer.unusable]
    return {
        "requests": [_funnel(funnel) for funnel in offer.funnels],
        "constraints": [_constraint_offer(offered) for offered in offer.constraints],
        "unusablePools": unusable,
    }


def _funnel(funnel: Funnel) -> Json:
    return {
        "claim": funnel.claim,
        "request": funnel.request,
        "allocationMode": funnel.mode,
        "wanted": funnel.wanted,
        "total": funnel.total,
        "matching": funnel.matching,
        "refused": [_refusal(refusal, funnel.operands.get(refusal.reason, ())) for refusal in funnel.refusals],
        "left": _devices(funnel.left),
        "selectorFailsOn": _devices(funnel.unjudged),
    }


def _refusal(refusal: DeviceRefusal, operands: Sequence[SelectorOperand]) -> Json:
    return {
        "kind": _KINDS[refusal.category],
        "reason": refusal.reason,
        "count": refusal.number,
        "devices": _devices(refusal.devices),
        "holders": [{"claim": claim, "devices": number} for claim, number in refusal.holders],
        "short": [
            {"capacity": short.capacity, "devices": short.devices, "everyShareTakesAll": short.takes_all}
            for short in refusal.short
        ],
        "parts": [operand_object(one) for one in operands],
    }


def _constraint_offer(offered: ConstraintOffer) -> Json:
    return {
        "claim": offered.claim,
        "position": offered.position,
        offered.field: offered.attribute,
        "requests": list(offered.requests),
        "wanted": offered.wanted,
        "best": offered.best,
        "values": [{"value": one.value, "free": one.free, "matching": one.matching} for one in offered.values],
        "without": offered.without,
    }


def _taken_objects(claims: Sequence[str], answer: Outcome | AllocationError) -> list[Json]:
    if not isinstance(answer, Allocated):
        return []
    own = zip(claims, answer.allocations, strict=True)
    return [{"claim": claim, **_result(result)} for claim, allocation in own for result in allocation.results]


def _passed_over(one: PassedOver) -> Json:
    return {"claim": one.claim, "request": one.request, "reason": passed_over_text(one)}


def _conflict(conflict: Conflict, node: str) -> Json:
    return {
        "wishes": [_member(member) for member in conflict.members],
        "minimal": conflict.is_minimal,
        "wanted": conflict.wanted,
        "inCommon": conflict.in_common,
        "limits": list(conflict.limits),
        "text": conflict_text(conflict, node),
    }


def _member(member: Member) -> Json:
    if isinstance(member, ConflictingRequest):
        return {"claim": member.claim, "request": member.request}
    return {"claim": member.claim, "constraint": member.position, member.field: member.attribute}


def _remedy(remedy: Remedy) -> Json:
    match remedy:
        case CountLowered():
            return {"kind": "LowerCount", **_where(remedy), "count": remedy.count, "insteadOfAll": remedy.of_all}
        case SelectorCorrected(position=position, correction=correction):
            changed = {"expression": correction.expression, "word": correction.word, "by": correction.by}
            return {"kind": "CorrectSelector", **_where(remedy), "selector": position, **changed}
        case SelectorsDropped(positions=positions):
            return {"kind": "DropSelectors", **_where(remedy), "selectors": list(positions)}
        case ConstraintDropped(constraint):
            return {"kind": "DropConstraint", **_member(constraint)}
        case ClaimsReleased(claims):
            return {"kind": "ReleaseClaims", "claims": list(claims)}
        case TaintsTolerated(taints):
            tolerated = [
                {"claim": one.claim, "request": one.request, "key": one.key, "effect": one.effect} for one in taints
            ]
            return {"kind": "TolerateTaints", "taints": tolerated}


def _where(remedy: CountLowered | SelectorCorrected | SelectorsDropped) -> Json:
    return {"claim": remedy.claim, "request": remedy.request}


def _devices(devices: Sequence[DeviceID]) -> list[Json]:
    return [{"driver": one.driver, "pool": one.pool, "device": one.device} for one in devices]


def _result(result: DeviceResult) -> Json:
    return {"request": result.request, "driver": result.driver, "pool": result.pool, "device": result.device}
