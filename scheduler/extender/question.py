"""What kube-scheduler's calls have in common: a pod's requirements, nodes, who could go from them, and turns.

For preempt, kube-scheduler selects victims for what it looks at itself. Where these free enough devices, the node is
kept as it came: they are those that `scheduler.preemption` finds. Where they do not, others go beside them, or instead
of them where our filters find the same victims for the same reasons; a node where devices are short whoever goes is
left out. From 1.38 on, kube-scheduler also asks about nodes where nobody has to go for what it looks at: there all
victims are ours. It takes the first hundred, or a tenth, of the nodes that filter leaves open; so of more nodes filter
leaves only those open that can be won.
Source: kube-scheduler's framework/preemption callExtenders; extender.go ProcessPreemption.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from allocator.bits import Mask
from allocator.fleet.answers import Rank
from allocator.model import Claim
from allocator.outcome import Allocated, AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.time_limits import FREE_S, REST, NamespaceShare, TooLong, timed_out
from scheduler.preemption.preemption import NodeToWin, Preemptor
from scheduler.state.claims import ClaimObject, Waiting, claims_of, full
from scheduler.state.masks import Flags, Numbers, flags_of, mask_of
from scheduler.state.pods import pod_requests
from scheduler.state.pods_by_priority import priority_of


class Hopeless(Exception):
    """No node can give the pod its devices as its claims are; the message says why.

    is_behind: the claims have changed since, as kube-scheduler knows already. kept: a claim that is being deleted, and
    stays for as long as it is allocated for the pod.
    """

    def __init__(self, reason: str, *, is_behind: bool = False, kept: Claim | None = None) -> None:
        super().__init__(reason)
        self.is_behind = is_behind
        self.kept = kept


def needs_of(cluster: Cluster, pod: Pod) -> PodCycle:
    """What the pod needs, as things are now. Raises Hopeless."""
    claims = cluster.claims_of(pod)
    if isinstance(claims, Waiting):
        kept = claims.kept.claim if claims.kept is not None else None
        raise Hopeless(claims.reason, is_behind=claims.is_behind, kept=kept)
    needs = PodCycle(cluster, pod, [one.claim for one in claims], full(pod, claims))
    if problem := needs.claims_refused_everywhere():
        raise Hopeless(problem[1])
    return needs


class Asked:
    """The nodes of a question. mask: those that the cluster knows."""

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self._names = np.array(names, np.object_)
        self._numbers: Numbers = np.fromiter(cluster.numbers_of(names), np.int64, len(names))
        self._size = int(self._numbers.max(initial=-1)) + 1
        flags = np.zeros(self._size, np.bool_)
        flags[self._numbers[self._numbers >= 0]] = True
        self.mask = mask_of(flags)

    def unknown(self) -> list[str]:
        """The names of nodes that the cluster does not know."""
        return self._listed(self._numbers < 0)

    def named(self, nodes: Mask) -> list[str]:
        """The names of those that are in the mask, in the order of the question."""
        within = np.append(flags_of(nodes & self.mask, self._size), np.False_)  # the last is for those not known
        return self._listed(within[self._numbers])

    def _listed(self, flags: Flags) -> list[str]:
        names: list[str] = self._names[flags].tolist()
        return names


def best_last(cluster: Cluster, pod: Pod, pending: Sequence[Claim], ranks: Mapping[Rank, Mask]) -> list[Mask]:
    """The nodes in groups of equals, by the policy, then by the alternatives that requests get there."""
    groups = _by_policy(cluster, pod, pending, ranks)
    return [groups[rank] for rank in sorted(groups, key=lambda rank: (rank[1], rank[0]))]


def _by_policy(cluster: Cluster, pod: Pod, pending: Sequence[Claim], ranks: Mapping[Rank, Mask]) -> Mapping[Rank, Mask]:
    """The nodes by rank and score, also where the policy looks at whole nodes; an earlier alternative goes before."""
    scorer, requests = cluster.scorer_of(pod), pod_requests(pod)
    if scorer is None:
        return ranks
    cluster.expect(pod, pending)

    def by_score() -> Mapping[Rank, Mask]:
        return {
            (rank, (float(rank), score)): nodes
            for (rank, _), able in ranks.items()
            for score, nodes in scorer.all(str(pod), requests, pending, able)
        }

    return cluster.time_limit.scored(by_score, ranks)


def preemptor_of(cluster: Cluster) -> Preemptor:
    """Who looks for victims; in strict mode nobody is added to those that kube-scheduler has selected."""
    return Preemptor(cluster, wins_devices=not cluster.fleet.features.is_strict)


@dataclass(frozen=True, slots=True)
class JudgedNode:
    """A node that kube-scheduler would take victims from. won: who goes instead; None where it is kept as it came."""

    name: str
    is_kept: bool
    won: NodeToWin | None = None


def judged_nodes(preemptor: Preemptor, pod: Pod, victims: Mapping[str, Collection[str]]) -> Iterator[JudgedNode]:
    """Which of the nodes to keep, one after the other. victims: uids of pods by node.

    Cost: O(nodes) allocations, and a few decisions for each node where the victims do not free enough devices.
    """
    cluster = preemptor.cluster
    try:
        needs = needs_of(cluster, pod)
    except Hopeless:
        yield from (JudgedNode(node, is_kept=False) for node in victims)
        return
    own = {claim.uid for claim in needs.claims}
    is_by_resource = bool(needs.pending and cluster.extended_resources.asked_by(pod))
    for node, uids in victims.items():
        number = cluster.number_of(node)
        if not uids and not preemptor.wins_devices:
            yield JudgedNode(node, is_kept=True)
        elif number is None or not needs.reached >> number & 1:
            yield JudgedNode(node, is_kept=False)
        elif (
            _stay(cluster, uids)
            # kube-scheduler has looked at devices for extended resources without those that the claims need.
            or is_by_resource
            or not _fits(cluster, number, needs, _freed(cluster, frozenset(uids), own))
        ):
            won = _won(preemptor, pod, needs, number, frozenset(uids)) if preemptor.wins_devices else None
            yield JudgedNode(node, is_kept=won is not None, won=won)
        else:
            yield JudgedNode(node, is_kept=True)


def _won(preemptor: Preemptor, pod: Pod, needs: PodCycle, number: int, uids: frozenset[str]) -> NodeToWin | None:
    """Who goes from the node for everything that the pod needs; None where it cannot be won."""
    cluster = preemptor.cluster
    lower = {one.uid for one in cluster.by_priority.on(number) if priority_of(one) < priority_of(pod)}
    going = {uid for uid in uids if not _stays(cluster, uid)}
    if not going <= lower:
        return None  # the caches show something else by now
    try:
        without_devices = [claim for claim in needs.claims if claim.allocation is not None]
        plain = preemptor.on_node(PodCycle(cluster, pod, without_devices), number)
        is_explained = plain is not None and {one.uid for one in plain.pods} == going
        won = preemptor.on_node(needs, number, () if is_explained else going)
    except AllocationError:
        return None
    return won if won is not None and won.victims else None


def winnable(preemptor: Preemptor, needs: PodCycle, nodes: Mask) -> Mask:
    """Those of the nodes, which lack devices, that filter leaves open: somebody there may go for them."""
    if needs.pod is None or not needs.pod.preempts:
        return 0
    try:
        return preemptor.winnable(needs, nodes)
    except AllocationError:
        return 0


def _stay(cluster: Cluster, uids: Iterable[str]) -> bool:
    return any(_stays(cluster, uid) for uid in uids)


def _stays(cluster: Cluster, uid: str) -> bool:
    """Whether the pod is no victim, although kube-scheduler takes it for one: a mirror pod, or one that is spared."""
    pod = cluster.pods.bound(uid)
    # Differs from kube-scheduler, which takes mirror pods for victims.
    return pod is not None and not cluster.by_priority.may_go(pod)


def _fits(cluster: Cluster, number: int, needs: PodCycle, freed: Iterable[Claim]) -> bool:
    if not needs.pending:
        return True
    try:
        return isinstance(cluster.fleet.allocate(number, needs.pending, tuple(freed)), Allocated)
    except AllocationError:
        return False


def _freed(cluster: Cluster, gone: frozenset[str], own: Collection[str]) -> Iterator[Claim]:
    """The devices that are free once these pods are gone. own: uids of claims that the pod itself needs as well."""
    held = {one.claim.uid: one for uid in gone for one in _used_by(cluster, uid)}
    for claim_uid in held.keys() - own:
        users = {user.uid for user in held[claim_uid].reserved_for}
        holding = cluster.claims.holding(claim_uid)
        # A claim that is reserved for nobody keeps its devices: only the end of its last consumer frees them.
        if users and users <= gone and holding and holding.counted:
            yield holding.counted


def _used_by(cluster: Cluster, pod_uid: str) -> Sequence[ClaimObject]:
    """The claims of a pod that is on a node."""
    pod = cluster.pods.bound(pod_uid)
    claims = claims_of(pod, cluster.claims) if pod else ()
    return () if isinstance(claims, Waiting) else claims


# Decisions are made in turns, between which probes, bindings and watches are heard.
#
# kube-scheduler asks about one pod at a time, and waits. An answer rests as a turn does: the next question comes at
# once. If others need the time, the call ends with its turn, and the decision goes on when kube-scheduler asks again.


MOST_UNFINISHED = 1024
"""Unfinished decisions of which is known what they took; beyond that, the oldest one begins with a short turn again."""

Decided = TypeVar("Decided")


@dataclass(slots=True)
class TimeSlice:
    """A turn of a decision. took_s: what it took of the processor's time. is_placed: whether a node passed."""

    took_s: float = 0.0
    is_placed: bool = False


class TimeSlices:
    """The turns of an extender's decisions, whose time counts for the pods' namespaces.

    clock: seconds that only go forward. processor: seconds that this thread has had of it.
    """

    def __init__(
        self,
        cluster: Cluster,
        share: NamespaceShare,
        clock: Callable[[], float],
        processor: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._share = share
        self._clock, self._processor, self._sleep = clock, processor, sleep
        self._spent_s: dict[str, float] = {}
        """What unfinished decisions have taken, by the uid of the pod; the last one at the end."""

    async def take(
        self, pod: Pod, decide: Callable[[TimeSlice], Decided], before: Callable[[], None] = lambda: None
    ) -> Decided:
        """What is decided for the pod. Raises TooLong, and what `decide` and `before` raise.

        decide: called for each turn. It begins anew, and finds the intermediate results that are kept. before: called
        ahead of each turn, raises where the rest has to wait for the next call about the pod.
        """
        limit, spent_s = self._cluster.time_limit, self._spent_s.get(pod.uid, 0.0)
        while spent_s < limit.most_s:
            before()
            slice_, most_s = TimeSlice(), self._share.slice_s(pod.namespace, spent_s)
            try:
                with self._counted(pod.namespace, slice_), limit.limited(most_s):
                    decided = decide(slice_)
            except TooLong:
                spent_s += max(slice_.took_s, most_s)  # by the clock, a busy machine had the rest
                self._keep(pod.uid, spent_s)
            else:
                self._spent_s.pop(pod.uid, None)
                return decided
            finally:
                if slice_.took_s > FREE_S:
                    await self._sleep(slice_.took_s * REST)
        self._spent_s.pop(pod.uid, None)
        raise TooLong(timed_out(limit.most_s))

    def _keep(self, uid: str, spent_s: float) -> None:
        self._spent_s.pop(uid, None)
        self._spent_s[uid] = spent_s
        if len(self._spent_s) > MOST_UNFINISHED:
            del self._spent_s[next(iter(self._spent_s))]

    @contextmanager
    def _counted(self, namespace: str, slice_: TimeSlice) -> Iterator[None]:
        """Counts the time that the context is open for the namespace."""
        self._cluster.fleet.refresh()  # what events have changed is worked out whoever is next, and is none of its time
        limit = self._cluster.time_limit
        began, scored_s = self._processor(), limit.scored_s
        try:
            yield
        finally:
            slice_.took_s = self._processor() - began
            charged_s = slice_.took_s - (limit.scored_s - scored_s)
            self._share.spent(namespace, charged_s, self._clock(), is_placed=slice_.is_placed)
