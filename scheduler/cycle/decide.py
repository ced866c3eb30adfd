"""One attempt to place a pod: what the cluster is now, and what follows from it; nothing is changed.

In kube-scheduler's order: what holds for every node (claims, classes), the filters, the devices, the scores. All nodes
are looked at. Whoever asks reserves what comes out before anything else is decided.
Source: the scheduling cycle of kube-scheduler; its DynamicResources plugin for texts.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.explain import nearest_miss
from allocator.fleet import Fleet
from allocator.gates import ADMIN_ACCESS
from allocator.model import Allocation, Claim, NodeSelector
from allocator.outcome import Allocated, AllocationError
from allocator.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.cycle import admin_access
from scheduler.cycle.choice import Groups, pick
from scheduler.cycle.feasibility import counts, feasible, fit_error, refusals
from scheduler.cycle.hints import Reason, Refusal, reasons_of
from scheduler.cycle.node_info import NodeInfos
from scheduler.cycle.patience import Patience, TooLong
from scheduler.cycle.pod_requests import PodRequests, pod_requests
from scheduler.cycle.templates import Templates
from scheduler.cycle.unsupported import unsupported

NO_DEVICES = "cannot allocate all claims"
NOT_REACHED = "resourceclaim not available on the node"


class View(Protocol):
    """The cluster as an attempt sees it; see `scheduler.cycle.cluster`."""

    @property
    def fleet(self) -> Fleet:
        """Nodes and devices."""
        ...

    @property
    def infos(self) -> NodeInfos:
        """What pods take of the nodes."""
        ...

    @property
    def templates(self) -> Templates:
        """What filters say of nodes alone."""
        ...

    @property
    def patience(self) -> Patience:
        """How long a decision may take."""
        ...

    @property
    def extended_resources(self) -> Collection[str]:
        """Those that device classes stand for."""
        ...

    @property
    def start(self) -> float:
        """Where nodes that are equally good are looked for first, of all numbers, in [0, 1)."""
        ...

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace, none where it is not known."""
        ...

    def reached(self, selector: NodeSelector) -> Mask:
        """The nodes that the selector matches."""
        ...

    def number_of(self, node: str) -> int | None:
        """The node's number, None where it is not there."""
        ...

    def name_of(self, number: int) -> str:
        """The name of the node with that number."""
        ...


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes to the node. allocations: of the claims that had none, in their order."""

    node: str
    claims: tuple[Claim, ...]
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The pod fits nowhere. stuck: its allocated claims that keep it from a node where it could be otherwise."""

    refusal: Refusal
    stuck: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt cannot be decided: kube-scheduler's status Error."""

    reason: str


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The attempt has taken its time. What was worked out by then is kept: the next one goes on from there."""

    reason: str


Verdict = Placed | NotPlaced | Failed | OutOfTime


def decide(
    view: View,
    pod: Pod,
    claims: Sequence[Claim],
    full: Iterable[Claim] = (),
    failed: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:
    """What becomes of the pod. claims: its own, each once. full: those that no further pod can use.

    failed: uids of allocated claims whose devices will not be made ready, with the reason: on no node can they be used.
    Cost: O(what has changed since a pod like this was decided), array operations over all nodes, and one allocation.
    """
    try:
        with view.patience.limited():
            return _decided(view, pod, claims, full, failed)
    except TooLong as error:
        return OutOfTime(str(error))
    except AllocationError as error:
        return Failed(str(error))


def _decided(
    view: View, pod: Pod, claims: Sequence[Claim], full: Iterable[Claim], failed: Mapping[str, str]
) -> Placed | NotPlaced:
    requests = pod_requests(pod)
    pending = [claim for claim in claims if claim.allocation is None]
    if problem := _for_every_node(view, pod, pending, full):
        reason, text = problem
        message = fit_error(view.fleet.all.bit_count(), Counter(), before=text)
        return NotPlaced(Refusal(frozenset({reason}), requests, _classes(pending), message))
    left = _allowed(view, pod, requests)
    reached = left & reached_by_all(view, claims, failed)
    groups: Groups = view.fleet.scores(pending, reached) if pending else {(0, ()): reached}
    chosen = pick(view.templates.of(pod), requests, view.infos, groups, reached, view.start)
    if chosen is None:
        return _not_placed(view, pod, requests, claims, left, failed)
    number, _ = chosen
    outcome = view.fleet.allocate(number, pending) if pending else None
    assert outcome is None or isinstance(outcome, Allocated), f"node {view.name_of(number)} was able: {outcome}"
    return Placed(view.name_of(number), tuple(claims), outcome.allocations if outcome else ())


def _for_every_node(view: View, pod: Pod, pending: Sequence[Claim], full: Iterable[Claim]) -> tuple[Reason, str] | None:
    """What keeps the pod from every node, whatever is free."""
    if problem := unsupported(pod, view.extended_resources):
        return Reason.UNSUPPORTED, problem
    return refused_everywhere(view, pending, full)


def refused_everywhere(view: View, pending: Sequence[Claim], full: Iterable[Claim]) -> tuple[Reason, str] | None:
    """What is wrong with the claims on every node, whatever is free. full: those that no further pod can use."""
    for claim in full:
        problem = f"resourceclaim {claim} is reserved for {RESERVED_FOR_MAX} pods already, which is the limit"
        return Reason.CLAIMS, problem
    if missing := _missing_class(view, pending):
        return Reason.CLASSES, missing
    if view.fleet.features.has(ADMIN_ACCESS):
        for claim in filter(admin_access.is_asked_for, pending):
            if problem := admin_access.refusal(claim, view.labels_of(claim.namespace)):
                return Reason.ADMIN_ACCESS, problem
    return None


def _missing_class(view: View, pending: Iterable[Claim]) -> str:
    known = view.fleet.classes
    for claim in pending:
        for request in claim.requests:
            for one in request.alternatives:
                if one.class_name and one.class_name not in known:
                    return f"request {one.name}: device class {one.class_name} does not exist"
    return ""


def _classes(claims: Iterable[Claim]) -> frozenset[str]:
    return frozenset(one.class_name for claim in claims for request in claim.requests for one in request.alternatives)


def _allowed(view: View, pod: Pod, requests: PodRequests) -> Mask:
    """The nodes where the pod can be, devices aside; a pod that has its node already cannot be anywhere else."""
    if not pod.node_name:
        return feasible(pod, requests, view.templates.of(pod), view.infos)
    number = view.number_of(pod.node_name)
    return 0 if number is None else 1 << number


def reached_by_all(view: View, claims: Iterable[Claim], failed: Container[str] = ()) -> Mask:
    """The nodes that reach what the claims have. failed: uids of claims that can be used on none."""
    reached = view.fleet.all
    for claim in claims:
        if claim.uid in failed:
            return 0
        if claim.allocation and claim.allocation.node_selector is not None:
            reached &= view.reached(claim.allocation.node_selector)
    return reached


def _not_placed(  # noqa: PLR0913, PLR0917 - what was decided on, and what is left of it
    view: View, pod: Pod, requests: PodRequests, claims: Sequence[Claim], left: Mask, failed: Mapping[str, str]
) -> NotPlaced:
    pending = [claim for claim in claims if claim.allocation is None]
    reached = left & reached_by_all(view, claims, failed)
    refused = list(refusals(pod, requests, view.templates.of(pod), view.infos)) if not pod.node_name else []
    told, explanation = counts(refused), next(iter(failed.values()), "") if left else ""
    reasons = set(reasons_of(refused)) if refused or not view.fleet.all else set()
    if left != reached:
        told[NOT_REACHED] += (left & ~reached).bit_count()
        reasons.add(Reason.DEVICES)
    if reached:
        told[NO_DEVICES] += reached.bit_count()
        reasons.add(Reason.DEVICES)
        explanation = _explanation(view, pending, reached)
    message = fit_error(view.fleet.all.bit_count(), told, explanation=explanation)
    stuck = [one for one in claims if one.allocation and left & ~reached_by_all(view, [one], failed)]
    # A node that is to be the pod's, and is not there, is refused by name.
    reasons = reasons or {Reason.NODE_NAME}
    return NotPlaced(Refusal(frozenset(reasons), requests, _classes(pending), message), tuple(stuck))


def _explanation(view: View, pending: Sequence[Claim], reached: Mask) -> str:
    """What the nearest node lacks. Cost: O(states of nodes)."""
    groups = view.fleet.refusals(pending, reached).groups
    nodes = {view.name_of((mask & -mask).bit_length() - 1): outcome for outcome, mask in groups}
    return nearest_miss(nodes) if nodes else ""
