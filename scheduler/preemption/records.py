"""What preemptors have won and do not have yet: a record each, and the devices that are kept for them meanwhile.

From the first eviction until the preemptor has its place, cpu, ports and volumes of its node are kept for it by the
nomination (`status.nominatedNodeName`), and devices by the record. They count as taken for all pods that do not go
before the preemptor, from the beginning: what is free already as well as what its victims still have.
Source: KEP-5690 for what is kept against whom.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from allocator.cluster.usage import occupying
from allocator.model import Claim
from allocator.words import counted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.preemption.preemption import Preemption
from scheduler.state.pods_by_priority import priority_of


class RecordState(Enum):
    """How far a preemption is: in all but the last state nobody else has to go for a pod of its node."""

    EVICTING = "evicting"
    """A victim was not deleted yet."""
    LEAVING = "leaving"
    """A victim is still there."""
    RELEASING = "releasing"
    """A claim of theirs still has its devices."""
    HELD = "held"
    """All of it is free, but for the preemptor."""


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """What a pod has won on a node."""

    pod: Pod
    node: str
    claims: tuple[Claim, ...] = ()
    """Its own that had no devices, with what they get there; the last may be for extended resources, not made yet."""
    victims: frozenset[str] = frozenset()
    """Uids of pods."""
    released: frozenset[str] = frozenset()
    """Uids of claims that come free."""
    tries: int = 0
    """Preemptions that ended without a place for the pod."""
    since: float = 0.0
    """When the record was made, by the clock of who keeps it."""
    cancelled: frozenset[str] = frozenset()
    """Of those, which were not bound yet, and are not any more."""
    here: tuple[frozenset[str], frozenset[str]] | None = None
    """Of a member of a group, what of both is on its own node; of a pod all of it is."""

    @staticmethod
    def of(pod: Pod, won: Preemption, *, tries: int = 0, since: float = 0.0) -> "PreemptionRecord":
        """Of a preemption that has found a node."""
        assert won.candidate is not None, "nothing was won"
        victims = frozenset(one.uid for one in won.candidate.pods)
        return PreemptionRecord(pod, won.candidate.node, won.given, victims, frozenset(won.claims), tries, since)

    @staticmethod
    def placed(pod: Pod, placed: Placed, *, tries: int = 0, since: float = 0.0) -> "PreemptionRecord":
        """Of a member of a group, with the place that it gets; who goes is for `won_by_group` to say."""
        return PreemptionRecord(pod, placed.node, placed.given, tries=tries, since=since)

    @property
    def victims_text(self) -> str:
        """How many go."""
        return counted(len(self.victims), "pod that is preempted", "pods that are preempted")

    def state(self, cluster: Cluster) -> RecordState:
        """How far it is, by what the watches show."""
        there = [found for uid in self.staying(cluster) if (found := cluster.pods.known(uid)) is not None]
        if any(not found.is_deleting for found in there):
            return RecordState.EVICTING
        if there:
            return RecordState.LEAVING
        is_held = any(self._is_to_be_released(cluster, uid) for uid in self.released)
        return RecordState.RELEASING if is_held else RecordState.HELD

    def staying(self, cluster: Cluster) -> list[str]:
        """The victims (uids) that are not gone from their node yet; one that was cancelled is there, and on no node."""
        return [uid for uid in self.victims - self.cancelled if cluster.pods.node_of(uid)]

    def _is_to_be_released(self, cluster: Cluster, uid: str) -> bool:
        """Whether the claim still has its devices, and no pod but victims uses them: one may have come meanwhile."""
        holding = cluster.claims.holding(uid)
        if holding is None or holding.watched is None or holding.allocated is None:
            return False
        users = {user.uid for user in holding.watched.reserved_for if user.is_of_pods}
        return not any(map(cluster.is_live, users - self.victims))


def won_by_group(
    cluster: Cluster, members: Iterable[PreemptionRecord], victims: Sequence[Pod], claims: Iterable[str]
) -> tuple[PreemptionRecord, ...]:
    """The records of a group, which wins all of this together. claims: uids of those that come free."""
    gone, released = frozenset(victim.uid for victim in victims), frozenset(claims)
    uids: dict[str, list[str]] = {}
    claims_on: dict[str, set[str]] = {}
    for victim in victims:
        uids.setdefault(victim.node_name, []).append(victim.uid)
        claims_on.setdefault(victim.node_name, set()).update(cluster.claims.of_pod(victim))
    here = {node: (frozenset(own), released & claims_on[node]) for node, own in uids.items()}
    nothing = frozenset[str](), frozenset[str]()
    return tuple(replace(one, victims=gone, released=released, here=here.get(one.node, nothing)) for one in members)


class RecordStates:
    """How far records are at one moment. Members of a group win the same, which is looked at once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[int, int, frozenset[str]], tuple[PreemptionRecord, RecordState]] = {}
        """With the record, for as long as whose identities are the key."""
        self._staying: dict[tuple[int, int, frozenset[str]], int] = {}

    def of(self, record: PreemptionRecord) -> RecordState:
        """How far it is. Cost: O(victims, and claims that come free), for the first of its group."""
        key = self._key(record)
        if key not in self._known:
            self._known[key] = record, record.state(self._cluster)
        return self._known[key][1]

    def text(self, record: PreemptionRecord) -> str:
        """What is still there, without names, which may be of other namespaces. Cost: as `of`."""
        number, state, key = len(record.victims), self.of(record), self._key(record)
        if state is RecordState.HELD:
            return f"node {record.node} is kept for it, with all that {counted(number, 'preempted pod')} had to give"
        if state is RecordState.RELEASING:
            return f"waiting for claims of {counted(number, 'preempted pod')} to be deallocated on node {record.node}"
        if key not in self._staying:
            self._staying[key] = len(record.staying(self._cluster))
        return f"waiting for {self._staying[key]} of {counted(number, 'preempted pod')} to end on node {record.node}"

    def _key(self, record: PreemptionRecord) -> tuple[int, int, frozenset[str]]:
        return id(record.victims), id(record.released), record.cancelled


class PreemptionRecords:
    """The records by the uid of their pod; the cluster counts their devices as taken while they are here."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._records: dict[str, PreemptionRecord] = {}

    @property
    def records(self) -> Mapping[str, PreemptionRecord]:
        """All of them."""
        return MappingProxyType(self._records)

    def set(self, record: PreemptionRecord) -> None:
        """The pod has won this, in place of what it had won before."""
        self.drop(record.pod.uid)
        self._records[record.pod.uid] = record
        self._cluster.fleet.add_allocated(record.claims)

    def drop(self, pod_uid: str) -> None:
        """The pod has its place, or does without; nothing is kept for it, if there was anything."""
        record = self._records.pop(pod_uid, None)
        if record is not None:
            self._cluster.fleet.remove_allocated(record.claims)

    def cancelled(self, victim: str) -> None:
        """The attempt to bind the pod, by uid, has ended without that."""
        for uid, record in list(self._records.items()):
            if victim in record.victims:
                self._records[uid] = replace(record, cancelled=record.cancelled | {victim})

    def on(self, node: str) -> Iterator[PreemptionRecord]:
        """Those of a node."""
        return (one for one in self._records.values() if one.node == node)

    def ongoing(self, pod: Pod) -> PreemptionRecord | None:
        """A record of the node that the pod is nominated to whose victims or their claims are not gone yet.

        Nobody may be evicted for the pod meanwhile.
        """
        states = RecordStates(self._cluster)
        ongoing_records = (one for one in self.on(pod.nominated_node) if states.of(one) is not RecordState.HELD)
        return next(ongoing_records, None) if pod.nominated_node else None

    @contextmanager
    def seen_by(self, pod: Pod, *others: Pod) -> Iterator[None]:
        """Decide for the pod: what is kept for itself, and for pods of lower priority, is free to it meanwhile.

        others: of its group, for which it is decided as well.
        """
        own = {record.uid for record in (pod, *others)}
        passed = [record for record in self._records.values() if record.pod.uid in own or self._is_lower(record, pod)]
        with self._uncounted(passed):
            yield

    @contextmanager
    def only_held(self) -> Iterator[None]:
        """Count once what others still hold, and not again as won from them, or as kept for when they have ended."""
        states = RecordStates(self._cluster)
        with self._uncounted([one for one in self._records.values() if self._waits(one, states)]):
            yield

    def _waits(self, record: PreemptionRecord, states: RecordStates) -> bool:
        """Whether others have what it is about, as far as is known."""
        if record.victims or record.released:
            return states.of(record) is not RecordState.HELD
        devices = (result.id for claim in record.claims for result in occupying(claim))
        return any(map(self._cluster.claims.holders, devices))

    @contextmanager
    def _uncounted(self, passed: Sequence[PreemptionRecord]) -> Iterator[None]:
        claims = [claim for record in passed for claim in record.claims]
        if not claims:
            yield
            return
        self._cluster.fleet.remove_allocated(claims)
        try:
            yield
        finally:
            self._cluster.fleet.add_allocated(claims)

    @staticmethod
    def _is_lower(record: PreemptionRecord, pod: Pod) -> bool:
        return priority_of(record.pod) < priority_of(pod)
