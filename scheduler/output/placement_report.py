"""Where pods and claims go: a line for each device or the reason why there is none, and all of it as API objects."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from allocator.api import allocation_to_v1
from allocator.api.versions import Json
from allocator.explain.text import OPERATOR, devices_text, inner_cause, node_text, summary
from allocator.model import Claim, DeviceResult
from allocator.outcome import (
    AllBlocked,
    Allocated,
    AllocationError,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    InvalidPoolSeen,
    NotEnough,
    Refused,
)
from allocator.words import listed_up_to
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import POD_SCHEDULED
from scheduler.decision.why_not import NodeAnswer, same_answers
from scheduler.input.inventory import InputClaim
from scheduler.offline.input_claims import Claims, statuses_of, uid_of_pod
from scheduler.offline.placement import HiddenError, PlacedPod, Result, UnplacedPod
from scheduler.offline.room_by_eviction import PodEvictions
from scheduler.output.report import Block, Report
from scheduler.output.table import ColumnTable
from scheduler.state.claims import FINALIZER, Waiting
from scheduler.state.pods_by_priority import priority_of
from scheduler.terminal_text import printable

# Nodes grouped by what they answer: the same reason once, with the range of its numbers.


def answer_text(answer: NodeAnswer) -> str:
    """What a node says, in one line."""
    if isinstance(answer, AllocationError):
        line, _, _ = str(answer).partition("\n")
        return f"ends the attempt on every node: {line}"
    return "can" if isinstance(answer, Allocated) else node_text(answer, reader=OPERATOR)


def by_reason(answers: Mapping[str, NodeAnswer]) -> list[tuple[str, list[str]]]:
    """(what they say, the nodes) for nodes that say the same but for numbers and holders, the most nodes first."""
    groups: dict[Hashable, tuple[list[NodeAnswer], list[str]]] = {}
    for answer, names in same_answers(answers):
        alike, named = groups.setdefault(_key(answer), ([], []))
        alike.append(answer)
        named.extend(names)
    places = {name: place for place, name in enumerate(answers)}
    reported = [(_text(alike), sorted(names, key=places.__getitem__)) for alike, names in groups.values()]
    return sorted(reported, key=lambda group: (-len(group[1]), places[group[1][0]]))


def _key(answer: NodeAnswer) -> Hashable:
    has_invalid = _has_invalid_pool(answer)
    match _cause(answer):
        case NotEnough() as cause:
            return (NotEnough, has_invalid, cause.claim, cause.request, cause.wanted, _reasons(cause.refusals))
        case AllBlocked() as cause:
            return (AllBlocked, has_invalid, cause.claim, cause.request, _reasons(cause.refusals))
        case ConstraintUnmet() as cause:
            return (ConstraintUnmet, has_invalid, cause.claim, cause.constraint, cause.requests, cause.wanted)
        case _:
            return answer_text(answer)


def _cause(answer: NodeAnswer) -> Cause | None:
    return None if isinstance(answer, AllocationError) else inner_cause(answer)


def _has_invalid_pool(answer: NodeAnswer) -> bool:
    return isinstance(answer, Refused) and isinstance(answer.cause, InvalidPoolSeen)


def _reasons(refusals: Sequence[DeviceRefusal]) -> tuple[str, ...]:
    """Selectors last, as they say only what a device is."""
    ordered = sorted(refusals, key=lambda refusal: refusal.category == "selector")
    return tuple(dict.fromkeys(refusal.reason for refusal in ordered))


def _text(answers: Sequence[NodeAnswer]) -> str:
    texts = {answer_text(answer) for answer in answers}
    if len(texts) == 1:
        return texts.pop()
    pools = "; pools are invalid" if _has_invalid_pool(answers[0]) else ""
    return _text_of_many([cause for answer in answers if (cause := _cause(answer))]) + pools


def _text_of_many(causes: Sequence[Cause]) -> str:
    """One text for causes that differ in their numbers only."""
    match causes[0]:
        case NotEnough() as cause:
            left = _range([one.left for one in causes if isinstance(one, NotEnough)])
            wanted = f"request {cause.request} needs {devices_text(cause.wanted)}, {left} are left"
            reasons = ", ".join(_reasons(cause.refusals))
            return f"{wanted} (others {reasons})" if reasons else wanted
        case AllBlocked() as cause:
            total = _range([one.total for one in causes if isinstance(one, AllBlocked)])
            return f"request {cause.request} needs all of {total} devices: some {', '.join(_reasons(cause.refusals))}"
        case ConstraintUnmet() as cause:
            best = _range([one.best for one in causes if isinstance(one, ConstraintUnmet)])
            names = ", ".join(cause.requests)
            return f"at most {best} of {devices_text(cause.wanted)} meet {cause.constraint} together (requests {names})"
        case other:
            raise AssertionError(f"{other} says the same on every node")


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def reason_of(result: UnplacedPod) -> str:
    """Why nothing was placed, in one line: an error of a selector shows the place in its source below that."""
    groups = [(one.node, one.answer, one.number) for one in result.unfit]
    line, _, _ = (result.reason or summary(groups, result.asked, result.updating)).partition("\n")
    return printable("; ".join(filter(None, (line, result.kept))))


def given_up_object(hidden: HiddenError | None) -> Json | None:
    """Where kube-scheduler gives up what is placed here."""
    return {"node": hidden.node, "reason": hidden.reason, "text": hidden.text} if hidden else None


# Where pods and claims go, as a table and as API objects.


NAME = "name"


@dataclass(frozen=True, slots=True)
class PlacementReport(Report):
    """Where pods and claims go, or why nowhere. claims: of the input, as they are then.

    evictions: who has gone for the pods; None where nobody was to go.
    """

    kind = "List"
    api_version = "v1"

    results: Sequence[Result]
    claims: Claims
    evictions: Sequence[PodEvictions] | None = None

    def blocks(self) -> list[Block]:
        """A line for each device. Pods of one workload that one reason refuses share a line."""
        rows = [row for group in together(self.results, _key_of) for row in _rows(group)]
        return [ColumnTable(_HEADER, rows, verdict="does not fit"), *_eviction_tables(self.evictions or ())]

    def wide_blocks(self) -> list[Block]:
        """A line for each device with its class and configurations, and for what each node says of each pod."""
        rows = [row for result in self.results for row in _wide_rows(result)]
        table = ColumnTable([*_HEADER, "CLASS", "CONFIG"], rows, verdict="does not fit")
        return [table, *_eviction_tables(self.evictions or ())]

    def fields(self) -> Json:
        """The claims of the results by namespace and name, then the pods likewise; then who has gone for them."""
        wanted = {(claim.namespace, claim.name) for result in self.results for claim in result.claims}
        items: list[object] = [claim_object(self.claims.objects[key]) for key in sorted(wanted)]
        pods = [(result.pod, result) for result in self.results if result.pod]
        pods.sort(key=lambda pair: (pair[0].namespace, pair[0].name))
        items.extend(pod_object(pod, result, self.claims) for pod, result in pods)
        if self.evictions is None:
            return {"items": items}
        return {"items": items, "preemptions": list(map(_eviction_object, self.evictions))}

    def names(self) -> str:
        """A line for each placed pod and claim, as `kind/namespace/name`."""
        placed = [result for result in self.results if isinstance(result, PlacedPod)]
        names = {f"pod/{result.pod}" for result in placed if result.pod}
        names |= {f"resourceclaim.resource.k8s.io/{claim}" for result in placed for claim in result.claims}
        return "".join(f"{name}\n" for name in sorted(names))

    own_formats = MappingProxyType({NAME: names})


_HEADER = ("POD", "CLAIM", "NODE", "REQUEST", "DEVICE")

_Row = list[str]


def _eviction_tables(evictions: Sequence[PodEvictions]) -> Iterator[ColumnTable]:
    """A line for each pod that has gone."""
    rows = [
        [str(victim), str(priority_of(victim)), one.node, str(one.pod), str(priority_of(one.pod)), claims, budgets]
        for one in evictions
        for claims, budgets in [(", ".join(one.claims) or "-", ", ".join(one.violated) or "-")]
        for victim in one.victims
    ]
    if rows:
        yield ColumnTable(
            ["EVICTED", "PRIORITY", "NODE", "FOR", "ITS PRIORITY", "CLAIMS FREED", "BUDGETS VIOLATED"], rows
        )


def _eviction_object(one: PodEvictions) -> Json:
    """The pod, its node, who has gone from there for it, and what that frees and violates."""
    return {
        "pod": {"namespace": one.pod.namespace, "name": one.pod.name, "priority": priority_of(one.pod)},
        "node": one.node,
        "victims": [
            {"namespace": pod.namespace, "name": pod.name, "priority": priority_of(pod)} for pod in one.victims
        ],
        "claims": list(one.claims),
        "violatedBudgets": list(one.violated),
    }


def workload_of(pod: Pod | None) -> Hashable:
    """What pods of one workload have in common; None for a pod that nothing controls, or none."""
    return (pod.namespace, pod.owner) if pod and pod.owner else None


def and_others(names: Iterable[str]) -> str:
    """The first name, and how many others there are."""
    return listed_up_to(list(dict.fromkeys(names)), 1)


Item = TypeVar("Item")


def together(items: Iterable[Item], key_of: Callable[[Item], Hashable]) -> Iterable[list[Item]]:
    """Items of one key together, at the place of the first; one without a key (None) alone."""
    groups: dict[Hashable, list[Item]] = {}
    for number, item in enumerate(items):
        key = key_of(item)
        groups.setdefault(number if key is None else ("", key), []).append(item)
    return groups.values()


def reason_key(refused: UnplacedPod) -> Hashable:
    """What refused pods of one workload with one reason have in common; None for a pod of none."""
    workload = workload_of(refused.pod)
    return workload and (workload, reason_of(refused))


def _key_of(result: Result) -> Hashable:
    return reason_key(result) if isinstance(result, UnplacedPod) else None


def _rows(group: Sequence[Result]) -> Iterator[_Row]:
    first = group[0]
    if isinstance(first, UnplacedPod):
        claims = and_others(",".join(map(str, result.claims)) for result in group)
        yield [and_others(str(result.pod or "-") for result in group), claims or "-", reason_of(first)]
        return
    yield from ([*row, str(device.id)] if device else [*row, "-"] for row, _, device in _places(first))


def _wide_rows(result: Result) -> Iterator[_Row]:
    if isinstance(result, UnplacedPod):
        yield from _rows([result])
        yield from (["", "", f"{name}: {answer_text(answer)}"] for name, answer in (result.nodes or {}).items())
        return
    for row, claim, device in _places(result):
        yield [*row, *([str(device.id), *_extra(claim, device)] if claim and device else ["-"] * 3)]


def _places(result: PlacedPod) -> Iterator[tuple[_Row, Claim | None, DeviceResult | None]]:
    """(pod, claim, node and request, that claim, its device), a claim or a pod without devices once."""
    pod = str(result.pod or "-")
    for claim in result.claims:
        devices = claim.allocation.results if claim.allocation else ()
        yield from (([pod, str(claim), result.node, device.request], claim, device) for device in devices)
        if claim.allocation and not devices:
            yield [pod, str(claim), result.node, "-"], claim, None
    if not result.claims:
        yield [pod, "-", result.node, "-"], None, None


def _extra(claim: Claim, device: DeviceResult) -> _Row:
    """The class of the request, and how many configurations it gets."""
    allocation = claim.allocation
    assert allocation is not None
    name = device.request
    classes = [a.class_name for request in claim.requests for a in request.alternatives if a.name == name]
    config = [c for c in allocation.config if not c.requests or {name, name.partition("/")[0]} & set(c.requests)]
    return [classes[0] if classes else "-", str(len(config))]


# Results as API objects: claims with their status and pods with their node, as they would be written.
#
# Timestamps of allocations and conditions are omitted, because nothing has been written. A pod that is not placed has
# the reason in its condition PodScheduled. Source: KEP-4381 (finalizer, reservedFor); the resource claim controller
# (resourceClaimStatuses).


def claim_object(found: InputClaim) -> dict[str, object]:
    """The claim with its allocation, reserved for its consumers, and protected from deletion once allocated."""
    raw, claim = found.raw, found.claim
    metadata = {**_shown(raw["metadata"]), "namespace": claim.namespace, "uid": claim.uid}
    status = dict(raw.get("status") or {})
    if claim.allocation is not None:
        if "allocation" not in status:
            status["allocation"] = allocation_to_v1(claim.allocation)
        metadata["finalizers"] = list(dict.fromkeys([*(metadata.get("finalizers") or ()), FINALIZER]))
    reserved = list(status.get("reservedFor") or ())
    reserved += [{"resource": one.resource, "name": one.name, "uid": one.uid} for one in found.consumers]
    if reserved:
        status["reservedFor"] = reserved
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": metadata, **_rest(raw), "status": status}


def pod_object(pod: Pod, result: Result, claims: Claims) -> dict[str, object]:
    """The pod with its node, where it has one, and with the names of its generated claims."""
    raw = dict(pod.raw)
    metadata, spec, status = raw.get("metadata"), raw.get("spec"), raw.get("status")
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    raw["metadata"] = {**_shown(metadata), "namespace": pod.namespace, "uid": uid_of_pod(pod)}
    if isinstance(result, PlacedPod):
        raw["spec"] = {**spec, "nodeName": result.node}
    before = status if isinstance(status, dict) else {}
    if reported := {**_reported(pod, result, claims), **_conditions(before, pod, result)}:
        raw["status"] = {**before, **reported}
    return raw


def _conditions(status: Mapping[str, object], pod: Pod, result: Result) -> dict[str, object]:
    """The pod's conditions, where PodScheduled is another one than it was, or says where kube-scheduler gives up."""
    before = status.get("conditions")
    conditions = before if isinstance(before, list) else []
    others = [one for one in conditions if not (isinstance(one, dict) and one.get("type") == POD_SCHEDULED)]
    if isinstance(result, PlacedPod):
        if len(others) == len(conditions) and not result.hidden:
            return {}
        message = {"message": result.hidden.text} if result.hidden else {}
        return {"conditions": [*others, {"type": POD_SCHEDULED, "status": "True", **message}]}
    reason = "SchedulingGated" if pod.gates else "Unschedulable"
    own = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": reason_of(result)}
    return {"conditions": [*others, own]}


def _reported(pod: Pod, result: Result, claims: Claims) -> dict[str, object]:
    """The fields of pod.status that name generated claims."""
    statuses = _claim_statuses(pod, claims)
    reported: dict[str, object] = {"resourceClaimStatuses": statuses} if statuses else {}
    if isinstance(result, PlacedPod) and result.extended:
        reported["extendedResourceClaimStatus"] = result.extended.status
    return reported


def _claim_statuses(pod: Pod, claims: Claims) -> list[dict[str, object]]:
    pod_claims = claims.of(pod)
    if isinstance(pod_claims, Waiting):
        return []
    names = statuses_of(pod, pod_claims)
    return [
        {"name": entry.name, **({"resourceClaimName": names[entry.name]} if names[entry.name] else {})}
        for entry in pod.claims
        if entry.name in names
    ]


def _shown(metadata: Mapping[str, Any]) -> dict[str, Any]:  # Any: fields of whoever wrote them
    """The metadata without managedFields, which kubectl does not print either, and a dump does not contain."""
    return {key: value for key, value in metadata.items() if key != "managedFields"}


def _rest(raw: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in raw.items() if key not in ("apiVersion", "kind", "metadata", "status")}
