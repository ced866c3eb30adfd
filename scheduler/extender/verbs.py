"""What kube-scheduler calls: filter, prioritize, preempt and bind."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import numpy as np

from allocator.bits import Mask, union
from allocator.explain.text import node_text
from allocator.fleet.answers import Rank
from allocator.model import Claim
from allocator.outcome import AllocationError, Exhausted
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import NOT_REACHED, PodCycle
from scheduler.decision.time_limits import CHEAP_FIRST, OTHERS_FIRST, RECENT_S, NamespaceShare, TooLong
from scheduler.extender import wire
from scheduler.extender.bind import Binds
from scheduler.extender.poke import Poke
from scheduler.extender.question import (
    Asked,
    Hopeless,
    TimeSlice,
    TimeSlices,
    best_last,
    judged_nodes,
    needs_of,
    preemptor_of,
    winnable,
)
from scheduler.extender.wire import MAX_SCORE
from scheduler.output.time_line import DecisionLog
from scheduler.preemption.preemption import NodeToWin, Preemptor
from scheduler.runtime.server import Malformed
from scheduler.state.claims import Waiting
from scheduler.state.masks import mask_of, numbers_of
from scheduler.state.pod_resources import may_ask

# How many nodes pass filter: enough for a good choice, as kube-scheduler alone samples a large cluster.
#
# kube-scheduler with an extender has to filter every node, because the extender might accept any. But it scores only
# nodes that pass here, and its scores are most of what a decision about thousands of nodes takes. Source: kube-
# scheduler's numFeasibleNodesToFind.


FEWEST = 100
"""So many nodes pass at least, if they can."""

_HIGHEST_PERCENT, _LOWEST_PERCENT, _NODES_A_PERCENT = 50, 5, 125


def nodes_to_find(nodes: int, percent: int) -> int:
    """How many of so many nodes are enough. percent: of them; 0 for kube-scheduler's own, which falls with the size."""
    share = percent or max(_HIGHEST_PERCENT - nodes // _NODES_A_PERCENT, _LOWEST_PERCENT)
    return nodes if nodes < FEWEST else max(nodes * share // 100, FEWEST)


class Sampling:
    """Which of the nodes that can take a pod pass. percent: as above; 100 for all of them.

    only_best: none passes but those that the policy finds best. Equal nodes take turns, so that all of the cluster is
    used.
    """

    def __init__(self, percent: int = 100, *, only_best: bool = False) -> None:
        self._percent = percent
        self._only_best = only_best
        self._calls = count()

    def is_enough(self, able: Mask, asked: int) -> bool:
        """Whether so few nodes are able that all of them pass. asked: how many nodes the question is about."""
        return able.bit_count() <= (1 if self._only_best else nodes_to_find(asked, self._percent))

    def passing(self, best_first: Iterable[Mask], asked: int) -> Mask:
        """As many of the nodes as are enough. best_first: nodes that are equal to the policy, the best ones first."""
        left, call, passed = nodes_to_find(asked, self._percent), next(self._calls), 0
        for nodes in islice(best_first, 1 if self._only_best else None):
            number = nodes.bit_count()
            passed |= nodes if number <= left else _rotated(nodes, left, call)
            left -= min(number, left)
        return passed


def _rotated(nodes: Mask, number: int, call: int) -> Mask:
    """So many of the nodes. call: its number; each call goes on where the one before it ended."""
    if not number:
        return 0
    numbers = numbers_of(nodes)
    flags = np.zeros(int(numbers[-1]) + 1, np.bool_)
    flags[numbers[(call * number + np.arange(number)) % len(numbers)]] = True
    return mask_of(flags)


# Answers of bind wait for each other, so that kube-scheduler keeps its connections.
#
# Its client keeps two idle connections, one of which filter uses. A third one is closed, and a call that finds none
# opens a new one: for nearly every pod, since pods are not bound as regularly as they are asked about. A TLS handshake
# costs both sides more than the call. So an answer that would leave a third connection idle waits until the next call
# of bind takes one. Source: DefaultMaxIdleConnsPerHost of Go's net/http, which kube-scheduler's client of extenders
# does not change.


QUIET_S = 0.05
"""No answer waits any longer after so much time without a call of bind."""

MOST_HELD = 32
"""Answers that wait at the same time."""


class HeldAnswers:
    """The answers of bind that wait, the oldest first. quiet_s, most: as above."""

    def __init__(self, quiet_s: float = QUIET_S, most: int = MOST_HELD) -> None:
        self._quiet_s = quiet_s
        self._most = most
        self._has_room = True
        self._held: deque[asyncio.Future[None]] = deque()
        self._quiet: asyncio.TimerHandle | None = None

    def called(self) -> None:
        """A call of bind has taken a connection."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(self._quiet_s, self._release_all)
        if self._held:
            self._release()
        else:
            self._has_room = True

    async def wait(self) -> None:
        """Wait until the connection of an answer would be kept. Each answer comes after its call."""
        if self._has_room or self._quiet is None:
            self._has_room = False
            return
        if len(self._held) == self._most:
            self._release()
        held = asyncio.get_running_loop().create_future()
        self._held.append(held)
        await held

    def _release(self) -> None:
        held = self._held.popleft()
        if not held.done():  # its call may have been cancelled
            held.set_result(None)

    def _release_all(self) -> None:
        self._quiet = None
        while self._held:
            self._release()


# filter: which of the nodes can provide the devices of the pod, and why the others cannot.
#
# All answers come from the caches and from reservations. Nothing is read from the API server, and nothing is reserved:
# kube-scheduler may take any of the nodes, or none.
#
# Differs from the plugin DynamicResources up to 1.37: nodes with too few devices are reported as unresolvable.
# kube-scheduler's preemption evaluates nodes with its in-tree filters only, which do not know about devices, so it
# would not find useful victims. From 1.38 on it asks `preempt`, and the nodes that can be won are left open for that.


EVERY_NODE = Sampling()
UNKNOWN_NODE = "node {} is not known yet to the extender"


class Undecided(Exception):
    """There is no answer now, and there may be one soon: kube-scheduler tries the pod again after its backoff."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that pass, in the order of the question, and why the others do not, unless there are enough.

    failed: why it is not known whether the node could, or why it cannot before somebody is evicted. unresolvable: why
    the node cannot. stuck: where it is known that
    no node passes, the allocated claims of the pod that keep it from some of them, or one that is being deleted.
    """

    passed: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    stuck: tuple[Claim, ...] = ()


def filter_nodes(
    cluster: Cluster,
    pod: Pod,
    names: Sequence[str],
    sampling: Sampling = EVERY_NODE,
    preemptor: Preemptor | None = None,
) -> Filtered:
    """The answer for a pod that has claims. sampling: how many of the nodes that can pass. Raises Undecided.

    preemptor: None where no node that lacks devices is left open for preemption.
    Cost: O(nodes asked about, and what has changed since a pod like this was asked about); where none of them passes,
    that of a preemption.
    """
    try:
        needs = needs_of(cluster, pod)
    except Hopeless as error:
        if error.is_behind:
            # No event would bring the pod back: kube-scheduler has seen the claim before us.
            raise Undecided(f"pod {pod}: {error} yet") from error
        kept = (error.kept,) if error.kept is not None else ()
        return Filtered((), {}, dict.fromkeys(names, str(error)), kept)
    asked = Asked(cluster, names)
    reached = asked.mask & needs.reached
    ranks = _able(cluster, pod, needs.pending, reached)
    able = union(ranks.values())
    if not sampling.is_enough(able, len(names)):
        best_first = reversed(best_last(cluster, pod, needs.pending, ranks))
        return Filtered(asked.named(sampling.passing(best_first, len(names))))
    failed = {name: UNKNOWN_NODE.format(name) for name in asked.unknown()}
    unresolvable = dict.fromkeys(asked.named(asked.mask & ~reached), NOT_REACHED)
    won: dict[str, str] = {}
    open_ = winnable(preemptor, needs, reached & ~able) if preemptor is not None and not able else 0
    for (text, is_known), nodes in _refused(cluster, pod, needs.pending, reached & ~able).items():
        (unresolvable if is_known else failed).update(dict.fromkeys(asked.named(nodes & ~(open_ * is_known)), text))
        won.update(dict.fromkeys(asked.named(nodes & (open_ * is_known)), text))
    stuck = () if able or failed else tuple(_stuck(needs, asked.mask))
    return Filtered(asked.named(able), failed | won, unresolvable, stuck)


def without_classes(cluster: Cluster, pod: Pod, found: Filtered) -> Filtered:
    """Without the nodes that provide extended resources of the pod only by a claim of a device class.

    kube-scheduler leaves these resources to its plugin DynamicResources, which is off where the extender allocates: it
    would bind the pod without its devices. Up to 1.36 a gate could keep it from that. A class that has gone counts as
    well: kube-scheduler may not have heard of that.
    """
    if pod.has_unread_containers:
        return replace(found, passed=(), unresolvable={**found.unresolvable, **dict.fromkeys(found.passed, pod.excess)})
    if not cluster.extended_resources.may_be_of_a_class(pod):
        return found
    asked, passed, refused = Asked(cluster, found.passed), [], dict(found.unresolvable)
    for nodes, missing in cluster.extended_resources.without_plugin(pod, cluster.infos, asked.mask):
        if missing:
            reason = f"only a device class provides {', '.join(missing)}, and the extender makes no claim for it"
            refused.update(dict.fromkeys(asked.named(nodes), reason))
        else:
            passed = asked.named(nodes)
    failed = {name: UNKNOWN_NODE.format(name) for name in asked.unknown()}
    return replace(found, passed=passed, failed={**found.failed, **failed}, unresolvable=refused)


def _able(cluster: Cluster, pod: Pod, pending: Sequence[Claim], reached: Mask) -> Mapping[Rank, Mask]:
    """The nodes that can provide the devices, by rank and the policy's score."""
    if not pending:
        return {(0, ()): reached}
    try:
        return cluster.fleet.scores(pending, reached)
    except AllocationError as error:
        raise Undecided(f"pod {pod}: {error}") from error


def _refused(cluster: Cluster, pod: Pod, pending: Sequence[Claim], nodes: Mask) -> Mapping[tuple[str, bool], Mask]:
    """The nodes by why they refuse, and by whether that is certain: not where the budget of steps was spent."""
    by_reason: dict[tuple[str, bool], Mask] = {}
    for outcome, refused in cluster.fleet.unable_by_node(pending, nodes) if nodes else ():
        key = node_text(outcome, reader=pod.namespace), not isinstance(outcome, Exhausted)
        by_reason[key] = by_reason.get(key, 0) | refused
    return by_reason


def _stuck(needs: PodCycle, asked: Mask) -> Iterator[Claim]:
    return (one for one in needs.claims if one.allocation and asked & ~needs.reached_by(one))


# prioritize: how good each node is for the pod's devices, from 0 to 10; called where `ranking` is `prioritize`.
#
# Nodes are ordered by the allocator's policy, then by the alternatives that requests with firstAvailable get there;
# kube-scheduler adds its own scores. Only the order matters: the best nodes get 10, the worst 0, the others are spread
# evenly between them.


def prioritize(cluster: Cluster, pod: Pod, names: Sequence[str]) -> Mapping[str, int]:
    """The scores of the nodes; all 0 if they are equal, or if the pod's claims changed meanwhile."""
    scores = dict.fromkeys(names, 0)
    claims = cluster.claims_of(pod)
    pending = [] if isinstance(claims, Waiting) else [one.claim for one in claims if one.claim.allocation is None]
    if not pending:
        return scores
    asked = Asked(cluster, names)
    try:
        groups = best_last(cluster, pod, pending, cluster.fleet.scores(pending, asked.mask))
    except AllocationError:
        return scores  # filter says what is wrong
    for place, nodes in enumerate(groups):
        score = round(MAX_SCORE * place / (len(groups) - 1)) if len(groups) > 1 else 0
        scores.update(dict.fromkeys(asked.named(nodes), score))
    return scores


# The four verbs, from the body of a call to the body of its answer.
#
# If anything is wrong with a call, its answer says so where kube-scheduler shows it, and never that a node fits.


MOST_ERRORS = 16
"""Of a pod that cannot be read, of which the caller is told."""


def is_ours(pod: Pod, schedulers: Collection[str]) -> bool:
    """Whether the extender allocates the pod's claims. schedulers: the profiles that it allocates for."""
    return bool(pod.claims) and pod.scheduler_name in schedulers


class Verbs:
    """What the extender answers.

    schedulers: the profiles whose pods it allocates for; those of all others pass. unready: why there is no answer yet,
    empty where there is. binds: None where kube-scheduler allocates itself and only asks for advice. poke:
    learns who is refused. decisions: keeps the last answers, for people. sampling: how many nodes pass. clock: seconds
    that only go forward. processor: seconds that this thread has had of it.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and how
        self,
        cluster: Cluster,
        schedulers: Collection[str],
        unready: Callable[[], str],
        binds: Binds | None,
        poke: Poke,
        *,
        decisions: DecisionLog,
        sampling: Sampling = EVERY_NODE,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._schedulers = frozenset(schedulers)
        self._unready = unready
        self._binds = binds
        self._poke = poke
        self._decisions = decisions
        self._sampling = sampling
        self._answers = HeldAnswers()
        self._clock = clock
        self._time = NamespaceShare()
        self._slices = TimeSlices(cluster, self._time, clock, processor, sleep)
        self._preemptor = preemptor_of(cluster)
        adds_victims = binds is not None and cluster.fleet.features.release.extenders_add_victims
        self._leaves_open = self._preemptor if adds_victims and self._preemptor.wins_devices else None

    async def filter(self, body: bytes) -> bytes:
        """An ExtenderFilterResult for ExtenderArgs."""
        try:
            args = wire.read(wire.ExtenderArgs, body)
            pod = self._pod(args.Pod)
            if self._binds is not None and is_ours(pod, self._schedulers):
                await self._binds.expected.before(pod)
            filtered = await self._filtered(pod, wire.names_of(args))
        except (Malformed, Undecided, TooLong) as problem:
            return wire.error_result(str(problem))
        return wire.filter_result(args, filtered.passed, filtered.failed, filtered.unresolvable)

    async def prioritize(self, body: bytes) -> bytes:
        """A HostPriorityList for ExtenderArgs. Raises Malformed."""
        args = wire.read(wire.ExtenderArgs, body)
        pod, names = self._pod(args.Pod), wire.names_of(args)
        scores: Mapping[str, int] = dict.fromkeys(names, 0)
        if is_ours(pod, self._schedulers) and not self._unready():
            with suppress(TooLong):
                scores = await self._slices.take(pod, lambda _: prioritize(self._cluster, pod, names))
        return wire.host_priorities(scores)

    async def preempt(self, body: bytes) -> bytes:
        """An ExtenderPreemptionResult for ExtenderPreemptionArgs. Raises Malformed."""
        args = wire.read(wire.ExtenderPreemptionArgs, body)
        pod, victims = self._pod(args.Pod), wire.meta_victims(args)
        if not is_ours(pod, self._schedulers):
            return wire.preemption_result(victims)
        if self._unready():
            return wire.preemption_result({})
        left = {node: [victim.UID for victim in one.Pods or ()] for node, one in victims.items()}
        kept: dict[str, wire.MetaVictims] = {}

        def judge(_: TimeSlice) -> None:
            for node in judged_nodes(self._preemptor, pod, dict(left)):
                del left[node.name]  # the next turn judges the others
                if node.is_kept:
                    kept[node.name] = victims[node.name] if node.won is None else _meta_victims(node.won)

        with suppress(TooLong):
            await self._slices.take(pod, judge)
        return wire.preemption_result(kept)

    async def bind(self, body: bytes) -> bytes:
        """An ExtenderBindingResult for ExtenderBindingArgs."""
        try:
            args = wire.read(wire.ExtenderBindingArgs, body)
        except Malformed as problem:
            return wire.error_result(str(problem))
        assert self._binds is not None, "kube-scheduler binds itself"
        self._answers.called()
        error = self._unready() or await self._binds.bind(args)
        result = "not bound" if error else "bound"
        self._decisions.answered(time.time(), f"{args.PodNamespace}/{args.PodName}", result, error, args.Node)
        await self._answers.wait()
        return wire.error_result(error)

    def _pod(self, raw: Mapping[str, Any]) -> Pod:
        """The pod of a call, as the watch has decoded it if it is of the same version. Raises Malformed."""
        metadata = raw.get("metadata")
        uid, version = (
            (metadata.get("uid"), metadata.get("resourceVersion")) if isinstance(metadata, dict) else ("", "")
        )
        shown = self._cluster.pods.known(uid) if isinstance(uid, str) else None
        if shown is not None and version and version == shown.resource_version:
            return shown
        pod, errors = decode_pod(raw, keeps_raw=False)
        if pod is None:
            raise Malformed("; ".join(f"Pod.{error}" for error in errors[:MOST_ERRORS]))
        return pod

    async def _filtered(self, pod: Pod, names: Sequence[str]) -> Filtered:
        if self._leaves_out_classes(pod):
            if unready := self._unready():
                raise Undecided(unready)
            filtered = await self._filtered_by_claims(pod, names)
            return without_classes(self._cluster, pod, filtered)
        return await self._filtered_by_claims(pod, names)

    def _leaves_out_classes(self, pod: Pod) -> bool:
        """Whether the pod may request extended resources for which nobody makes a claim: the plugin is off."""
        asks = may_ask(pod) or pod.has_unread_containers
        return asks and self._binds is not None and pod.scheduler_name in self._schedulers

    async def _filtered_by_claims(self, pod: Pod, names: Sequence[str]) -> Filtered:
        if not is_ours(pod, self._schedulers):
            return Filtered(names)
        return await self._slices.take(
            pod, lambda slice_: self._filtered_now(pod, names, slice_), before=lambda: self._require_time(pod)
        )

    def _require_time(self, pod: Pod) -> None:
        """Raises Undecided."""
        if unready := self._unready():
            raise Undecided(unready)
        if self._binds is not None and self._binds.is_under_way(pod.uid):
            raise Undecided(f"pod {pod} is being bound")
        if others_first := self._others_first(pod.namespace):
            raise Undecided(others_first)

    def _filtered_now(self, pod: Pod, names: Sequence[str], slice_: TimeSlice) -> Filtered:
        self._time.tried(pod.namespace, pod.priority or 0, self._clock())
        filtered = filter_nodes(self._cluster, pod, names, self._sampling, self._leaves_open)
        slice_.is_placed = bool(filtered.passed)
        self._note(pod, names, filtered)
        return filtered

    def _others_first(self, namespace: str) -> str:
        """Why others go first: they need the time, and the namespace has used its share; empty where they do not.

        kube-scheduler asks about one pod at a time, so that others need it as soon as they have pending pods, and for a
        while afterwards.
        """
        now = self._clock()
        has_used = self._time.waits_until(namespace) > now
        if not has_used and self._time.waits_for_cheap_until(namespace) <= now:
            return ""
        pending = {one.namespace for one in self._cluster.pods.pending() if is_ours(one, self._schedulers)}
        pending.discard(namespace)
        if has_used and (pending or self._time.others_tried_at(namespace) + RECENT_S > now):
            return OTHERS_FIRST
        if not has_used and (any(map(self._time.is_cheap, pending)) or self._time.has_recent_cheap(now)):
            return CHEAP_FIRST
        return ""

    def _note(self, pod: Pod, names: Sequence[str], found: Filtered) -> None:
        result = f"{len(found.passed)} of {len(names)} nodes pass"
        self._decisions.answered(time.time(), str(pod), result, _first_reason(found))
        if found.passed:
            self._poke.passed(pod.uid)
            if self._binds is not None:
                self._binds.expected.passed(pod)
        else:
            self._poke.refused(pod)
            if self._binds is not None:
                self._binds.refused(pod.uid)
        # Asked about the nominated node alone, kube-scheduler asks about all others next.
        is_about_all = not pod.nominated_node or list(names) != [pod.nominated_node]
        if self._binds is not None and found.stuck and is_about_all:
            self._binds.free(pod, found.stuck)


def _meta_victims(won: NodeToWin) -> wire.MetaVictims:
    pods = [wire.MetaPod(UID=one.uid) for one in won.pods]
    return wire.MetaVictims(Pods=pods, NumPDBViolations=won.violations)


def _first_reason(found: Filtered) -> str:
    """Why one of the nodes does not pass; there may be thousands, which say the same."""
    for refused in (found.unresolvable, found.failed):
        for name, reason in refused.items():
            return f"{name}: {reason}"
    return ""
