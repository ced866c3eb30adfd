"""Preemptions of the live scheduler: who has to go for a pod, what is kept for it meanwhile, and when it may try again.

A preemption begins when a pod fits nowhere. Its record keeps what was won until the pod has its place: victims are
evicted, they leave, their claims release their devices, and then all is held for the pod alone. In a running process
memory is the truth. The annotation on the pod is read after a start or a change of leader, and wins nothing by itself:
what it says is decided anew, with nobody evicted for it.
Source: kube-scheduler's plugin DefaultPreemption and its nominator; KEP-5690.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from allocator.bits import union
from allocator.model import Claim
from allocator.outcome import AllocationError
from scheduler.attempt.eviction import StoredRecord
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.time_limits import MOST_S, MOST_SLICE_S
from scheduler.pod_groups.group import GroupKey, GroupOfPods
from scheduler.pod_groups.group_preemption import GroupPreemption, preempt_for_group
from scheduler.pod_groups.group_reservations import GroupReservations
from scheduler.pod_groups.group_result import GroupUnknown
from scheduler.preemption.eviction_writes import PreemptionWrite, eviction_writes
from scheduler.preemption.preemption import ENDING, Preemption, Preemptor
from scheduler.preemption.records import PreemptionRecord, PreemptionRecords, RecordState, RecordStates, won_by_group
from scheduler.preemption.victims import WinnableClaims
from scheduler.rates import backoff_s
from scheduler.state.claims import Waiting
from scheduler.state.cluster_changes import Event, GivenBack, PodChanged
from scheduler.state.pod_resources import made_up_uid
from scheduler.state.pods_by_priority import priority_of, spares_nobody

FIRST_BACKOFF_S = 20.0
MOST_BACKOFF_S = 1800.0
"""How long a pod waits after a preemption that won no place for it; doubled with each further one."""

TRIES_WITH_OTHERS = 3
"""After so many of these, pods of other schedulers are no victims any more: they may be put back at once."""

LATE_S = 120.0
"""A preemption that lasts longer is told in an event."""

MOST_CLAIMS = 4096
"""Of pods that are looked at in one turn: some milliseconds; the other pods have theirs in the next ones."""

SPARED = "Pods of other schedulers are spared, since preemptions for the pod have won it no place."

ONGOING = "ongoing preemption on nominated nodes"

RELEASING = "not eligible due to claims of preempted pods on the nominated node that still have their devices."

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreemptionTerms:
    """For whom others are evicted, and who."""

    is_on: bool = False
    for_resources: bool = True
    """Also for what is no device, such as CPU."""
    delay_s: float = 0.0
    """How long a pod is pending before."""
    spares: Callable[[Pod], bool] = spares_nobody
    """Whether a pod is never a victim."""


@dataclass(slots=True)
class _Breaker:
    """Preemptions for a pod that ended without a place for it, and when the next may begin."""

    tries: int = 0
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class PlaceToWin:
    """What a pod was found to win."""

    preemption: Preemption
    record: PreemptionRecord
    identity: tuple[object, ...]
    """By what it is recognised if it is decided again."""
    start: int
    """Of its search."""
    claims: tuple[Claim, ...]
    """Those that come free."""


@dataclass(frozen=True, slots=True)
class GroupToWin:
    """What a group was found to win: a record for each member that has a place then."""

    preemption: GroupPreemption
    records: tuple[PreemptionRecord, ...]
    writes: Sequence[PreemptionWrite]


@dataclass(frozen=True, slots=True)
class NothingToWin:
    """Why a pod wins nothing."""

    text: str
    again_s: float | None = None
    """When it may be worth to ask again though nothing happens, None for never."""
    clears: bool = False
    """The nomination that the pod has means nothing any more."""
    drops: bool = False
    """So does what it had won."""
    is_backed_off: bool = False
    """It waits after tries."""


@dataclass(slots=True)
class _Kept:
    """A record by what is known of it beside itself."""

    is_written: bool = False
    """Its evictions are under way."""
    is_for_moves: bool = False
    """Somebody else evicts, and the pods have another place."""
    is_late: bool = False
    was_held: bool = False
    releasing: set[str] = field(default_factory=set)

    @property
    def may_go_on(self) -> bool:
        """Whether this process evicts, and no call is under way."""
        return not self.is_written and not self.is_for_moves


class Preemptions:
    """The preemptions of one process. is_ours: whether a pod is for this scheduler.

    given_back: is called with what is free again for all. ended_in_vain: when a preemption won no place for its pod.
    changes: of the cluster, so far.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what happens to pods is for others to follow
        self,
        cluster: Cluster,
        terms: PreemptionTerms,
        is_ours: Callable[[Pod], bool],
        given_back: Callable[[Event], None],
        ended_in_vain: Callable[[], None],
        reservations: GroupReservations | None = None,
    ) -> None:
        self.reservations = reservations or GroupReservations(cluster, 0.0, lambda _: 0, given_back)
        self.changes = 0
        self.terms = terms
        self._cluster = cluster
        self._is_ours = is_ours
        self._given_back = given_back
        self._ended_in_vain = ended_in_vain
        self._records = PreemptionRecords(cluster)
        self._kept: dict[str, _Kept] = {}
        self._placing: dict[str, PreemptionRecord] = {}
        self._breakers: dict[str, _Breaker] = {}
        self._in_groups: dict[str, str] = {}
        """Of the waiting pods of groups, by uid, under which name the group's breaker is kept."""
        self._failing: set[str] = set()
        self._unlooked: list[str] = []
        """Pods, by uid, whose records `end_hopeless` has still to look at."""
        self._preemptor = Preemptor(cluster, wins_devices=not cluster.fleet.features.is_strict)
        if terms.is_on:
            cluster.by_priority.spares = terms.spares

    @property
    def records(self) -> Mapping[str, PreemptionRecord]:
        """The records by the uid of their pod."""
        return self._records.records

    def states(self) -> RecordStates:
        """How far all of them are now."""
        return RecordStates(self._cluster)

    @contextmanager
    def only_held(self) -> Iterator[None]:
        """While it is open nothing counts as in use that was won from others who still hold it, or is kept for then."""
        with self.reservations.only_held(), self._records.only_held():
            yield

    # -- decisions

    def promised(self, pod: Pod) -> Pod:
        """The pod with the node that it has won, which the watch may not show yet."""
        record = self.records.get(pod.uid)
        return pod if record is None or pod.nominated_node == record.node else replace(pod, nominated_node=record.node)

    @contextmanager
    def seen_by(self, pod: Pod) -> Iterator[None]:
        """Decide for the pod with what is kept for others taken, unless it goes before them."""
        with self.reservations.seen_by(pod), self._records.seen_by(pod):
            yield

    @contextmanager
    def seen_by_group(self, group: GroupOfPods) -> Iterator[None]:
        """Decide for all members at once: what each was promised is free to all of them."""
        waiting = group.waiting
        promised = [pod.uid for pod in waiting if pod.uid in self.records or pod.nominated_node]
        with (
            self.reservations.seen_by(waiting[0], group.key),
            self._records.seen_by(*waiting),
            self._cluster.nominations.without(promised),
        ):
            yield

    def preemption(
        self, cycle: PodCycle, refused: NotPlaced, pending_since: float, now: float
    ) -> PlaceToWin | NothingToWin:
        """What the pod wins, as things are now. Raises AllocationError, TooLong."""
        pod = cycle.pod
        assert pod is not None, "a claim that no pod uses preempts nobody"
        if problem := self._objection(cycle, pod, refused, pending_since + self.terms.delay_s - now):
            return problem
        if problem := self._backed_off(pod, now):
            return problem
        start, spares = self._preemptor.start, self._spares(pod)
        preemption = self._preemptor.preemption(cycle, refused, spares)
        if preemption.candidate is None:
            text = f"{preemption.text} {SPARED}" if spares else preemption.text
            return NothingToWin(text, drops=True, clears=preemption.nominated == "" and bool(pod.nominated_node))
        tries = self._tries(pod)
        record = PreemptionRecord.of(pod, preemption, tries=tries, since=now)
        holdings = map(self._cluster.claims.holding, preemption.claims)
        freed = tuple(one.counted for one in holdings if one is not None and one.counted is not None)
        return PlaceToWin(preemption, record, self._identity(record), start, freed)

    def _tries(self, pod: Pod) -> int:
        return self._breakers[pod.uid].tries if pod.uid in self._breakers else 0

    def _spares(self, pod: Pod) -> Callable[[Pod], bool] | None:
        """Pods of other schedulers, which may have put their victims back at once, after some preemptions in vain."""
        return (lambda victim: not self._is_ours(victim)) if self._tries(pod) >= TRIES_WITH_OTHERS else None

    # -- groups

    def group_preemption(self, group: GroupOfPods, pending_since: float, now: float) -> GroupToWin | NothingToWin:
        """What a refused group wins, as things are now. Raises AllocationError, TooLong."""
        waiting, wait_s = group.waiting, pending_since + self.terms.delay_s - now
        if not self.terms.is_on or not (self.terms.for_resources or any(map(self._may_lack_devices, waiting))):
            return NothingToWin("")
        if wait_s > 0:
            return NothingToWin("", wait_s)
        records = [self.records[pod.uid] for pod in waiting if pod.uid in self.records]
        states = set(map(self.states().of, records))
        is_written = any(self._kept[record.pod.uid].is_written for record in records)
        if states & {RecordState.LEAVING, RecordState.RELEASING} or is_written:
            return NothingToWin(f"pod group preemption: {ONGOING}")
        name = _breaker_of(group.key)
        if states == {RecordState.HELD}:
            self.group_failed(group, now)  # all that it has won is free, and it does not fit
        breaker = self._breakers.get(name, _Breaker())
        if breaker.until > now:
            return NothingToWin(_waits(breaker.tries), breaker.until - now, drops=True, is_backed_off=True)
        won = self._won_by_group(group, breaker.tries, now)
        evicts_others = isinstance(won, GroupToWin) and not all(map(self._is_ours, won.preemption.pods))
        if evicts_others and breaker.tries >= TRIES_WITH_OTHERS:
            return NothingToWin(_waits(breaker.tries), MOST_BACKOFF_S, drops=True, is_backed_off=True)
        return won

    def _won_by_group(self, group: GroupOfPods, tries: int, now: float) -> GroupToWin | NothingToWin:
        cluster = self._cluster
        preemption = preempt_for_group(cluster, group, wins_devices=not cluster.fleet.features.is_strict)
        if isinstance(preemption, GroupUnknown):
            return NothingToWin(f"pod group preemption: {preemption}")
        if preemption.placed is None:
            return NothingToWin(preemption.text, drops=True, clears=True)
        members = preemption.placed.members
        placed = [PreemptionRecord.placed(one.pod, one.placed, tries=tries, since=now) for one in members]
        records = won_by_group(cluster, placed, preemption.pods, preemption.claims)
        nodes = dict.fromkeys(record.node for record in records)
        writes = eviction_writes(cluster, records[0].pod, preemption.pods, nodes, "podgroup")
        return GroupToWin(preemption, records, writes)

    def _may_lack_devices(self, pod: Pod) -> bool:
        return bool(pod.claims or self._cluster.extended_resources.asked_by(pod))

    def group_wins_again(self, won: GroupToWin, group: GroupOfPods, now: float) -> bool:
        """Whether the same comes out now. Raises AllocationError, TooLong."""
        again = self._won_by_group(group, won.records[0].tries, now)
        return isinstance(again, GroupToWin) and self._group_identity(again) == self._group_identity(won)

    def _group_identity(self, won: GroupToWin) -> tuple[object, ...]:
        return [record.node for record in won.records], self._identity(won.records[0])

    def begin_group(self, won: GroupToWin) -> None:
        """Keep what each member has won; the evictions are carried out next."""
        for record in won.records:
            self._begin(record)

    def group_failed(self, group: GroupOfPods, now: float) -> float:
        """As `failed`, of a group: as long as one of these pods waits."""
        name = _breaker_of(group.key)
        waiting = {pod.uid: name for pod in group.waiting if self._waits(pod)}
        self._in_groups.update(waiting)
        wait_s = self.failed(name, now)
        if not waiting:
            self._forget_group(name)  # all have gone while calls for them were under way
        return wait_s

    def _objection(self, cycle: PodCycle, pod: Pod, refused: NotPlaced, wait_s: float) -> NothingToWin | None:
        """Why nobody may go for the pod, whoever it would be. wait_s: until it has been pending for long enough."""
        if not self.terms.is_on or (not self.terms.for_resources and not cycle.lacks_devices):
            return NothingToWin("")
        if wait_s > 0:
            return NothingToWin("", wait_s)
        problem = self._ongoing(pod, refused)
        return NothingToWin(f"preemption: {problem}") if problem else None

    def _backed_off(self, pod: Pod, now: float) -> NothingToWin | None:
        """Why the pod waits before it may win again. All that it has won is free, and it does not fit: that counts."""
        record = self.records.get(pod.uid)
        if record is not None and record.state(self._cluster) is RecordState.HELD:
            self.failed(pod.uid, now)
        breaker = self._breakers.get(pod.uid, _Breaker())
        if breaker.until <= now:
            return None
        # The nomination stays, as it does for every pod that may not preempt now.
        return NothingToWin(_waits(breaker.tries), breaker.until - now, drops=True, is_backed_off=True)

    def again(self, won: PlaceToWin, cycle: PodCycle, refused: NotPlaced) -> bool:
        """Whether the same comes out now. Raises AllocationError, TooLong."""
        after, self._preemptor.start = self._preemptor.start, won.start
        try:
            preemption = self._preemptor.preemption(cycle, refused, self._spares(won.record.pod))
        finally:
            self._preemptor.start = after
        if preemption.candidate is None:
            return False
        return self._identity(PreemptionRecord.of(won.record.pod, preemption)) == won.identity

    def _identity(self, record: PreemptionRecord) -> tuple[object, ...]:
        holdings = ((uid, self._cluster.claims.holding(uid)) for uid in sorted(record.released))
        versions = tuple((uid, holding.version if holding else 0) for uid, holding in holdings)
        return record.node, record.victims, versions

    def _ongoing(self, pod: Pod, refused: NotPlaced) -> str:
        """Why nobody may go for the pod now: others go already, for it or for another pod of its node."""
        record = self._records.ongoing(pod)
        if record is None:
            return ""
        number = self._cluster.number_of(record.node)
        helped = refused.resolvable | union(nodes for _, nodes in refused.lacking)
        if number is None or not helped >> number & 1:
            return ""  # the node is of no use to the pod, whoever goes
        state = record.state(self._cluster)
        if state is RecordState.EVICTING and record.pod.uid == pod.uid and self._kept[pod.uid].may_go_on:
            return ""  # a call has failed: it is tried again
        return RELEASING if state is RecordState.RELEASING else ENDING

    # -- from the decision to the place

    def begin(self, won: PlaceToWin) -> None:
        """Keep what the pod has won; its evictions are carried out next."""
        self._begin(won.record)

    def _begin(self, record: PreemptionRecord) -> None:
        self._records.set(record)
        self._kept[record.pod.uid] = _Kept(is_written=True)
        self._cluster.nominations.set(replace(record.pod, nominated_node=record.node))

    def keep(self, pod: Pod, node: str, moving: Collection[str], now: float) -> bool:
        """Keep for the pod what it gets on the node once these pods (uids) are gone; False where it would not fit.

        Raises AllocationError, TooLong.
        """
        cluster, number = self._cluster, self._cluster.number_of(node)
        pod_claims = cluster.claims_of(pod)
        there = [found for uid in moving if (found := cluster.pods.known(uid)) is not None]
        if number is None or isinstance(pod_claims, Waiting):
            return False
        promised = replace(pod, nominated_node=node)
        cluster.time_limit.give(MOST_SLICE_S)
        with self.seen_by(pod), cluster.time_limit.limited(), cluster.without([one.uid for one in there]):
            given = _given(PodCycle(cluster, promised, [one.claim for one in pod_claims]), number)
        if given is None:
            return False
        released = frozenset(uid for uid in self._claims_of(there) if self._is_held(uid))
        victims = frozenset(one.uid for one in there)
        self._records.set(PreemptionRecord(promised, node, given, victims, released, since=now))
        self._kept[pod.uid] = _Kept(is_for_moves=True)
        cluster.nominations.set(promised)
        return True

    def is_kept_for_moves(self, uid: str) -> bool:
        """Whether something is kept for the pod while others move."""
        return uid in self._kept and self._kept[uid].is_for_moves

    def evicted(self, uid: str, *, has_failed: bool = False) -> float | None:
        """All calls for the pod's preemption have ended. When to try again if one has failed; None: after its backoff.

        At once, unless the calls before them had failed as well.
        """
        if kept := self._kept.get(uid):
            kept.is_written = False
        is_first = uid not in self._failing
        (self._failing.add if has_failed else self._failing.discard)(uid)
        return 0.0 if is_first else None

    def failed(self, uid: str, now: float) -> float:
        """A preemption for the pod has won no place for it; how long the next one has to wait."""
        breaker = self._breakers.setdefault(uid, _Breaker())
        breaker.tries += 1
        wait_s = backoff_s(breaker.tries, FIRST_BACKOFF_S, MOST_BACKOFF_S)
        breaker.until = now + wait_s
        self._ended_in_vain()
        return wait_s

    def placing(self, pod: Pod, placed: Placed) -> None:
        """The pod has a place, which is reserved next: nothing more is kept for it."""
        record = self.records.get(pod.uid)
        if record is None:
            return
        self._placing[pod.uid] = record
        self._forget(pod.uid)
        has_won = tuple(claim.allocation for claim in record.claims)
        if (record.node, has_won) != (placed.node, placed.allocations):
            self._given_back(GivenBack(record.pod, record.claims, record.node))

    def unplaced(self, pod: Pod) -> None:
        """The attempt came to nothing: what the pod has won is kept for it again."""
        record = self._placing.pop(pod.uid, None)
        if record is not None:
            self._records.set(record)
            self._kept[pod.uid] = _Kept()

    def placed(self, uid: str) -> None:
        """The pod is bound."""
        self._placing.pop(uid, None)
        self._breakers.pop(uid, None)
        self._failing.discard(uid)

    def group_placed(self, key: GroupKey) -> None:
        """So many pods of the group are bound as it needs."""
        self._forget_group(_breaker_of(key))

    def _forget_group(self, name: str) -> None:
        self._breakers.pop(name, None)
        self._in_groups = {uid: own for uid, own in self._in_groups.items() if own != name}

    def drop(self, uid: str) -> None:
        """The pod does without: what was kept for it is free for all."""
        record = self.records.get(uid)
        if record is not None:
            self._forget(uid)
            self._given_back(GivenBack(record.pod, record.claims, record.node))

    def _forget(self, uid: str) -> None:
        self._records.drop(uid)
        self._kept.pop(uid, None)

    # -- what the watches show

    def on_event(self, event: Event) -> None:
        """Something has changed, and the cluster knows it."""
        self.changes += 1
        if not isinstance(event, PodChanged):
            return
        pod, old = event.new, event.old
        uid = (pod or old).uid if pod or old else ""  # type: ignore[union-attr] # one of them is there
        if pod is None or pod.is_over or pod.node_name:
            self.placed(uid)
            self.drop(uid)
            name = self._in_groups.pop(uid, "")
            if name and name not in self._in_groups.values():
                self._forget_group(name)  # a new group of that name has nothing to wait for
        elif (record := self.records.get(uid)) is not None:
            self._follow(record, pod, old)

    def _follow(self, record: PreemptionRecord, pod: Pod, old: Pod | None) -> None:
        """A nomination that was shown and is another now ends the preemption; one not shown yet counts."""
        was_shown = old is not None and old.nominated_node == record.node
        if was_shown and pod.nominated_node != record.node:
            self.drop(pod.uid)
        elif pod.nominated_node != record.node:
            self._cluster.nominations.set(replace(pod, nominated_node=record.node))

    def held(self, states: RecordStates) -> Iterator[Pod]:
        """The pods that have just won all that was to come free."""
        for uid, kept in self._kept.items():
            is_held = states.of(self.records[uid]) is RecordState.HELD
            if is_held and not kept.was_held and not kept.is_written:
                yield self.records[uid].pod
            kept.was_held = is_held and not kept.is_written

    def cancelled(self, uid: str) -> None:
        """The pod is not bound: if it goes for others, it is not on its node any more."""
        self._records.cancelled(uid)

    def preemptors_of(self, uid: str) -> list[Pod]:
        """The pods for which this one goes."""
        return [record.pod for record in self.records.values() if uid in record.victims]

    def end_hopeless(self, now: float) -> None:
        """Nobody can win a node that is gone, or devices for a claim that is, and that counts for no quota any more.

        The pod waits before others go for the next claim of its owner. Where records have many claims, some are looked
        at, and the others when this is called next.
        """
        left = MOST_CLAIMS
        self._unlooked = self._unlooked or list(self.records)[::-1]
        while self._unlooked and left > 0:
            record = self.records.get(self._unlooked.pop())
            if record is None:
                continue
            left -= len(record.pod.claims) + 1
            if not self._has_claims(record):
                self.failed(record.pod.uid, now)
                self.drop(record.pod.uid)
            elif self._cluster.number_of(record.node) is None:
                self.drop(record.pod.uid)

    def _has_claims(self, record: PreemptionRecord) -> bool:
        """Whether the claims are there for which the pod has won devices, and may be used."""
        pod_claims = self._cluster.claims_of(record.pod)
        if isinstance(pod_claims, Waiting):
            return False
        usable = {one.claim.uid for one in pod_claims}
        if self._cluster.extended_resources.asked_by(record.pod):
            usable.add(made_up_uid(record.pod))
        return {claim.uid for claim in record.claims} <= usable

    def late(self, now: float, states: RecordStates) -> Iterator[tuple[Pod, str]]:
        """The pods whose victims, or claims of these, have been there for long, and what they wait for; each once."""
        for uid, kept in self._kept.items():
            record = self.records[uid]
            if not kept.is_late and now - record.since >= LATE_S:
                kept.is_late = states.of(record) is not RecordState.HELD
                if kept.is_late:
                    yield record.pod, states.text(record)

    def status(self, uid: str, states: RecordStates) -> str:
        """What becomes of the pod's preemption; empty if there is none."""
        record = self.records.get(uid)
        return states.text(record) if record is not None else ""

    def abandoned(self, states: RecordStates) -> Iterator[Claim]:
        """The claims of records that no pod that is there uses, each once: their devices are to be released."""
        releasing = [uid for uid in self._kept if states.of(self.records[uid]) is RecordState.RELEASING]
        firsts = {id(self.records[uid].released): uid for uid in reversed(releasing)}  # a group's members share it
        under_way = set[str]().union(*(one.releasing for one in self._kept.values())) if firsts else set()
        for uid in reversed(firsts.values()):
            for claim_uid in self.records[uid].released - under_way:
                if (claim := self._abandoned(claim_uid)) is not None:
                    self._kept[uid].releasing.add(claim_uid)
                    under_way.add(claim_uid)
                    yield claim

    def keeps_on(self, claim_uid: str) -> None:
        """The claim was not deallocated: it is looked at again."""
        for kept in self._kept.values():
            kept.releasing.discard(claim_uid)

    def _abandoned(self, uid: str) -> Claim | None:
        holding = self._cluster.claims.holding(uid)
        if holding is None or holding.watched is None or holding.reservation is not None:
            return None
        users = holding.watched.reserved_for
        is_left = bool(users) and all(one.is_of_pods and self._cluster.pods.known(one.uid) is None for one in users)
        return holding.allocated if is_left else None

    # -- after a start, or a change of leader

    def promised_pods(self) -> list[Pod]:
        """The pods of this scheduler that are promised a node, the most important first."""
        promised = [pod for pod in self._cluster.nominations.pods() if self._is_ours(pod) and not pod.is_over]
        return sorted(promised, key=lambda pod: (-priority_of(pod), pod.created, pod.uid))

    def restore(self, pod: Pod, stored: StoredRecord, now: float, most_s: float = MOST_S) -> bool:
        """Keep for the pod what it had won, as far as things allow that now. stored: what its annotation says.

        It gets what is free there, or is held by claims without users that live. Nobody is evicted for it. Its claims
        may be others by now, which fail, or take longer than `most_s`: then nothing is kept.
        """
        if stored.tries > 0:
            self._breakers[pod.uid] = _Breaker(min(stored.tries, TRIES_WITH_OTHERS))
        limit, problem = self._cluster.time_limit, ""
        limit.give(most_s)
        try:
            with self.seen_by(pod), limit.limited():
                record = self._restored(pod, stored, now) if self._waits(pod) else None
        except AllocationError as error:
            record, problem = None, f": {error}"
        if record is None:
            _LOG.info("a preemption of an earlier process is decided anew%s", problem, extra={"pod": str(pod)})
            return False
        self._records.set(record)
        self._kept[pod.uid] = _Kept()
        return True

    def _waits(self, pod: Pod) -> bool:
        """Whether the pod is there, and has no node: that may have changed since its annotation was read."""
        shown = self._cluster.pods.shown(pod.uid)
        return shown is not None and not shown.is_over and not shown.node_name

    def _restored(self, pod: Pod, stored: StoredRecord, now: float) -> PreemptionRecord | None:
        cluster, number = self._cluster, self._cluster.number_of(stored.node)
        pod_claims = cluster.claims_of(pod)
        if number is None or isinstance(pod_claims, Waiting):
            return None
        claims = [one.claim for one in pod_claims]
        own = {claim.uid for claim in claims}
        winnable = WinnableClaims(cluster, own, is_on=True)
        lower = (one for one in cluster.by_priority.on(number) if priority_of(one) < priority_of(pod))
        going = [one for one in lower if one.is_deleting and one.uid in stored.victims]
        unused = winnable.unused(stored.node)
        held = [uid for uid in [*unused, *self._claims_of(going)] if self._is_held(uid)]
        with ExitStack() as gone:
            gone.enter_context(cluster.released(unused))
            gone.enter_context(cluster.without([one.uid for one in going], partial(winnable.frees, stored.node)))
            given = _given(PodCycle(cluster, pod, claims), number)
            released = frozenset(uid for uid in held if not self._is_held(uid))
        if given is None:
            return None
        victims = frozenset(one.uid for one in going)
        return PreemptionRecord(pod, stored.node, given, victims, released, max(stored.tries, 0), now)

    def _claims_of(self, pods: Collection[Pod]) -> list[str]:
        return list(dict.fromkeys(uid for pod in pods for uid in self._cluster.claims.of_pod(pod)))

    def _is_held(self, uid: str) -> bool:
        holding = self._cluster.claims.holding(uid)
        return holding is not None and holding.counted is not None


def _given(cycle: PodCycle, number: int) -> tuple[Claim, ...] | None:
    """The pod's claims without devices, with what they get on the node; None where the pod does not fit there."""
    if cycle.refused_everywhere():
        return None
    asked = cycle.asks_of(number)
    left = cycle.allowed(asked) & cycle.reached & 1 << number
    return cycle.given(number) if left and union(cycle.able(asked, left).values()) else None


def _breaker_of(key: GroupKey) -> str:
    """By which the breaker of a group is known, beside those of pods."""
    return f"{key.source} {key}"


def _waits(tries: int) -> str:
    return f"preemption: backed off after {tries} preemptions that won no place for the pod"
