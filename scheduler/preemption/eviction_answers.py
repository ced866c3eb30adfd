"""What evictions could do for a pod on each node: who would go, or why nobody can make room for it.

For those who want to know why. A decision stops at the first node that will do; this asks every node, and names pods
and claims that are in the way. Nothing changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from allocator.bits import bits
from allocator.explain.text import OPERATOR, inner_cause, node_text
from allocator.model import Claim
from allocator.outcome import NotEnough, Outcome
from allocator.words import and_more, counted, listed_up_to
from scheduler.core_v1.pod import Pod
from scheduler.decision.pod_cycle import NO_DEVICES, PodCycle
from scheduler.decision.schedule_result import NotPlaced
from scheduler.decision.why_not import refusal_on
from scheduler.preemption.preemption import (
    NEVER,
    NO_VICTIMS,
    NOT_HELPFUL,
    NodeToWin,
    Preemption,
    Preemptor,
)
from scheduler.preemption.victims import WinnableClaims, lower_units
from scheduler.state.pods_by_priority import priority_of

MOST_NAMED = 3
"""Pods that a reason names, and claims that have one; others are counted."""

NOT_FOR_DEVICES = "kube-scheduler evicts nobody for devices"

_MIRROR_PODS = "mirror pods, which the kubelet makes again"
_SPARED_PODS = "pods that the configuration spares (neverPreempt, preemptPodsOf)"


@dataclass(frozen=True, slots=True)
class EvictionAnswers:
    """Of all nodes for a pod that fits nowhere."""

    off: str = ""
    """Why nobody is evicted for the pod whatever a node says, else empty."""
    found: Preemption | None = None
    """What is evicted for the pod, or would be if it were not off."""
    claims: tuple[str, ...] = ()
    """The names of those that come free on the node that costs the least."""
    candidates: Mapping[str, NodeToWin] = field(default_factory=dict)
    """Of every node that can be won."""
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node why it cannot be won."""

    @property
    def won(self) -> NodeToWin | None:
        """The node that costs the least, if one can be won."""
        return self.found.candidate if self.found is not None else None


def eviction_answers(
    cycle: PodCycle, refused: NotPlaced, *, wins_devices: bool = True, of_nodes: bool = True, off: str = ""
) -> EvictionAnswers:
    """What evictions could do for the pod of the cycle. refused: what was decided for it; nothing has changed since.

    of_nodes: what each node says, else only what becomes of the pod. off: why nobody is evicted for any pod like this
    one, or empty. Raises AllocationError.
    Cost: as of a preemption that tries every node, and a few decisions on each that cannot be won.
    """
    pod = cycle.pod
    assert pod is not None, "a claim that no pod uses evicts nobody"
    preemption = _found(cycle, refused, wins_devices, of_nodes)
    if not pod.preempts:
        off = NEVER
        cycle = PodCycle(cycle.cluster, pod.changed(preempts=True), cycle.claims, cycle.full, cycle.failed)
        preemption = _found(cycle, refused, wins_devices, of_nodes)
    if preemption.candidate is None and not wins_devices and refused.lacking:
        wins_devices, off = True, NOT_FOR_DEVICES
        preemption = _found(cycle, refused, wins_devices, of_nodes)
    if preemption.deallocates:
        names = ", ".join(map(str, preemption.deallocates))
        return EvictionAnswers(off or f"claim {names} keeps the pod from nodes: it is deallocated first", preemption)
    if preemption.candidate is None and preemption.nominated is None:
        return EvictionAnswers(off or preemption.text.partition("preemption: ")[2], preemption)
    reasons = _Reasons(cycle, wins_devices=wins_devices)
    return EvictionAnswers(
        off,
        preemption,
        tuple(map(reasons.name_of, preemption.claims)),
        {one.node: one for one in preemption.candidates},
        dict(reasons.by_node(preemption)) if of_nodes else {},
    )


def _found(cycle: PodCycle, refused: NotPlaced, wins_devices: bool, tries_all: bool) -> Preemption:  # noqa: FBT001
    return Preemptor(cycle.cluster, wins_devices=wins_devices, tries_all=tries_all).preemption(cycle, refused)


class _Reasons:
    """Why nobody can make room for a pod, by node."""

    def __init__(self, cycle: PodCycle, *, wins_devices: bool) -> None:
        assert cycle.pod is not None
        self._cycle, self._pod, self._cluster = cycle, cycle.pod, cycle.cluster
        self._priority = priority_of(cycle.pod)
        self._wins = wins_devices
        self._claims = WinnableClaims(cycle.cluster, {one.uid for one in cycle.claims}, is_on=wins_devices)

    def by_node(self, found: Preemption) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The reasons of each node that cannot be won."""
        said: dict[int, list[str]] = {}
        for reason, nodes in found.refused.items():
            for number in bits(nodes):
                said.setdefault(number, []).append(reason)
        won = {one.number for one in found.candidates}
        for number in bits(self._cluster.fleet.all):
            if number not in won:
                name = self._cluster.name_of(number)
                yield name, tuple(self._of(number, said.get(number, [NOT_HELPFUL])))

    def name_of(self, uid: str) -> str:
        """Of a claim that is there."""
        holding = self._cluster.claims.holding(uid)
        return str(holding.watched.claim) if holding is not None and holding.watched is not None else uid

    def _of(self, number: int, reasons: Sequence[str]) -> Iterator[str]:
        if reasons == [NOT_HELPFUL]:
            yield "evictions do not help there"
            return
        lower = [pod for unit in lower_units(self._cluster.by_priority.on(number), self._priority) for pod in unit.pods]
        if lower:
            yield from self._not_enough(number, reasons, lower)
        else:
            yield "no pod of lower priority" if NO_VICTIMS in reasons else ", ".join(reasons)
            yield from self._in_the_way(number, self._held_on(number) if self._lacks_devices(number) else (), ())
        yield from self._staying(number)

    def _not_enough(self, number: int, reasons: Sequence[str], lower: Sequence[Pod]) -> Iterator[str]:
        """What is missing with everybody lower gone, and the claims that stay although their users go."""
        node, uids = self._cluster.name_of(number), [pod.uid for pod in lower]
        with self._without(node, uids):
            cycle = PodCycle(self._cluster, self._pod, self._cycle.claims, self._cycle.full, self._cycle.failed)
            outcome = refusal_on(cycle, number) if NO_DEVICES in reasons else None
        missing = [one for one in reasons if one != NO_DEVICES]
        if outcome is not None:
            missing.append(node_text(outcome, reader=OPERATOR))
        gone = counted(len(lower), "pod of lower priority goes", "pods of lower priority go")
        yield f"not enough even if {gone}: {'; '.join(missing)}"
        if outcome is not None:
            yield from self._in_the_way(number, self._holding(number, outcome), uids)

    @contextmanager
    def _without(self, node: str, uids: Collection[str]) -> Iterator[None]:
        unused = self._claims.unused(node)
        with self._cluster.released(unused), self._cluster.without(uids, partial(self._claims.frees, node)):
            yield

    def _lacks_devices(self, number: int) -> bool:
        pending = self._cycle.asks_of(number).pending
        return bool(pending) and not self._cycle.giving(self._cycle.asks_of(number)) >> number & 1

    def _holding(self, number: int, outcome: Outcome) -> Mapping[str, Claim]:
        """The claims that have what the pod lacks; all that have devices of the node where that is not said."""
        held = self._held_on(number)
        cause = inner_cause(outcome)
        if not isinstance(cause, NotEnough):
            return held
        names = {name for one in cause.refusals for name, _ in one.holders}
        return {uid: claim for uid, claim in held.items() if str(claim) in names} if names else {}

    def _held_on(self, number: int) -> Mapping[str, Claim]:
        """The claims that hold devices which the node reaches, by uid."""
        fleet, claims = self._cluster.fleet, self._cluster.claims
        holdings = (one for device in fleet.reached_by(fleet.node(number)) for one in claims.holders(device).items())
        held = {uid: one.counted for uid, one in holdings if one.counted is not None}
        return dict(sorted(held.items(), key=lambda item: str(item[1])))

    def _in_the_way(self, number: int, held: Iterable[str], gone: Collection[str]) -> Iterator[str]:
        """Why claims keep their devices although these pods go."""
        node = self._cluster.name_of(number)
        problems = (self._claims.kept_by(node, uid, gone, self._user_text) for uid in held if self._wins)
        staying = list(filter(None, problems))
        yield from staying[:MOST_NAMED]
        if len(staying) > MOST_NAMED:
            yield f"{and_more(len(staying), MOST_NAMED, 'claim')} that keep devices"

    def _user_text(self, user: Pod) -> str:
        if user.is_static:
            return f"pod {user}, a mirror pod"
        if self._cluster.by_priority.spares(user):
            return f"pod {user}, which the configuration spares"
        if priority_of(user) >= self._priority:
            return f"pod {user} of priority {priority_of(user)}"
        return f"pod {user} on node {user.node_name}" if user.node_name else f"pod {user}"

    def _staying(self, number: int) -> Iterator[str]:
        """The pods on the node that are not lower, or that deleting does not end."""
        own = self._on_nodes.get(number, ())
        not_lower = sorted((pod for pod in own if priority_of(pod) >= self._priority), key=priority_of, reverse=True)
        if not_lower:
            names = listed_up_to([f"{pod} ({priority_of(pod)})" for pod in not_lower], MOST_NAMED)
            yield f"equal or higher priority: {names}"
        lower = [pod for pod in own if priority_of(pod) < self._priority]
        never = [pod for pod in lower if not self._cluster.by_priority.may_go(pod)]
        for text, is_static in ((_MIRROR_PODS, True), (_SPARED_PODS, False)):
            if named := sorted(str(pod) for pod in never if pod.is_static == is_static):
                yield f"{text}: {listed_up_to(named, MOST_NAMED)}"

    @cached_property
    def _on_nodes(self) -> Mapping[int, Sequence[Pod]]:
        by_node: dict[int, list[Pod]] = {}
        for number, pod in self._cluster.pods.on_nodes():
            by_node.setdefault(number, []).append(pod)
        return by_node
