"""An explanation as a JSON object, versioned: docs/explain.md describes each field, and fields are only added."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from allocator.api.versions import Json
from allocator.explain.conflict import Conflict, ConflictingRequest, Member
from allocator.explain.node_explanation import NodeExplanation, PassedOver
from allocator.explain.offer import ConstraintOffer, Funnel, Offer
from allocator.explain.remedies import (
    ClaimsReleased,
    ConstraintDropped,
    CountLowered,
    Remedy,
    SelectorCorrected,
    SelectorsDropped,
    TaintsTolerated,
)
from allocator.explain.selector_operands import SelectorOperand
from allocator.explain.text import conflict_text, remedy_text
from allocator.gates import Features
from allocator.model import Claim, DeviceID, DeviceResult
from allocator.outcome import Allocated, AllocationError, DeviceRefusal, Exhausted, Outcome
from allocator.search.rules import Category
from scheduler.decision.why_not import NodeAnswer
from scheduler.offline.pod_explanation import Explanation, Verdict
from scheduler.output.explanation import other_answers, passed_over_text, reason_of
from scheduler.output.report import API_VERSION, json_text
from scheduler.output.selection_report import operand_object
from scheduler.output.table import answer_text

KIND = "Explanation"

_MOST_WHOLE = 2**63 - 1

_KINDS: Mapping[Category, str] = {
    "selector": "Selector",
    "in use": "InUse",
    "capacity": "Capacity",
    "taint": "Taint",
    "other": "Other",
}


def listed(explanations: Iterable[Explanation]) -> Iterator[bytes]:
    """A list of them as JSON, piece by piece: one of them may have a megabyte."""
    whole = orjson.dumps({"apiVersion": API_VERSION, "kind": f"{KIND}List", "items": [0]}, option=orjson.OPT_INDENT_2)
    before, _, after = whole.partition(b"\n    0")
    yield before
    separator = b""
    for one in explanations:
        text = json_text(object_of(one)).encode()
        yield separator + b"\n    " + text.replace(b"\n", b"\n    ")
        separator = b","
    yield (after if separator else after.lstrip()) + b"\n"


def object_of(explanation: Explanation) -> Json:
    """The whole explanation."""
    pod = explanation.pod
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pod": {"namespace": pod.namespace, "name": pod.name} if pod else None,
        "claims": [_claim(claim) for claim in explanation.claims],
        "features": _features(explanation.features),
        "policy": explanation.policy,
        "verdict": explanation.verdict,
        "reason": reason_of(explanation),
        "keptBy": explanation.kept or None,
        "givenUpAt": {"node": hidden.node, "reason": hidden.reason} if (hidden := explanation.hidden) else None,
        "node": _node(explanation) if explanation.node else None,
        "otherNodes": list(_other_nodes(explanation)),
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


def _features(features: Features) -> Json:
    return {"kubernetes": features.release.name, "gates": sorted(features.gates), "strict": features.is_strict}


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
        "taken": _taken(on_node.claims, on_node.answer),
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


def _taken(claims: Sequence[str], answer: Outcome | AllocationError) -> list[Json]:
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
        case SelectorCorrected(position=position, correction=one):
            changed = {"expression": one.expression, "word": one.word, "by": one.by}
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
