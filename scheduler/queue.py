"""The pending pods, and when each is tried next.

A pod is in one place: `active` (to be tried, by priority, then as namespaces take turns, then by waiting time),
`in flight` (being tried), `backoff` (to be retried at a certain time), `unschedulable` (rejected until an event may
help, or for 5 minutes) or `gated` (not to be tried yet, because of its gates or missing claims). Events that occur
while a pod is in flight are kept, and evaluated if it is rejected, so that no event between the attempt's view of the
cluster and its end is lost. Time is an argument, in seconds of one monotonic clock.

Differs from kube-scheduler: namespaces take turns, a pod in backoff is never tried early, and backoff has no windows of
one second.
Source: kube-scheduler's PriorityQueue.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count, islice
from math import inf

from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.fair_queue import FairQueue, PodOrder, QueuedItem
from scheduler.plugins.plugin import Reason, Refusal, RefusedPod
from scheduler.plugins.profile import PLUGINS
from scheduler.rates import USUAL_BACKOFF, PodBackoff
from scheduler.state.claims import awaited_claims
from scheduler.state.cluster_changes import ClaimChanged, Event, GivenBack, NodeChanged, PodChanged

# Which event may help which rejected pod, by the hints of its plugins and by changes of the pod itself.
#
# Source: kube-scheduler's queueing hints (KEP-4247).


def helps(pod: Pod, refusal: Refusal, event: Event) -> bool:
    """True where the event may make the refused pod fit. pod: as it is now."""
    if isinstance(event, PodChanged) and _is_of(event, pod):
        return event.old is not None and event.new is not None and asks_differently(event.old, event.new)
    if isinstance(event, GivenBack) and event.pod.uid == pod.uid:
        return False
    who = RefusedPod(pod, refusal)
    hints = (reason.hints.get(type(event)) for reason in refusal.reasons)
    return any(hint(who, event) for hint in hints if hint)


def concerned(event: Event, reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Those of the reasons that the event may matter to; pods whose own claim or own self it is aside."""
    if isinstance(event, ClaimChanged) and not event.is_released:
        return ()
    hinting = tuple(reason for reason in reasons if type(event) in reason.hints)
    if isinstance(event, PodChanged) and not event.is_less:
        return tuple(reason for reason in hinting if reason.counts_pods) if event.is_counted_differently else ()
    if isinstance(event, NodeChanged):
        return tuple(reason for reason in hinting if _may_matter(event, reason))
    return hinting


def asks_differently(old: Pod, new: Pod) -> bool:
    """True where anything has changed that decides where the pod can be."""
    return any(getattr(old, name) != getattr(new, name) for name in _POD_FIELDS)


def _is_of(event: PodChanged, pod: Pod) -> bool:
    return any(one.uid == pod.uid for one in (event.old, event.new) if one)


def _may_matter(event: NodeChanged, reason: Reason) -> bool:
    """False where nothing of the node has changed that the reason looks at: kubelets report often, mostly the same."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return any(getattr(old, name) != getattr(new, name) for name in reason.node_fields)


_POD_FIELDS = frozenset({"gates", "group"}.union(*(plugin.pod_fields for plugin in PLUGINS)))


GATED_S = 10.0
"""A pod that waits longer for its claims to be made is to be told: kube-controller-manager makes them sooner."""

ASKED_EVERY_S = 60.0
"""So often such a pod is asked what it waits for by now."""

FLUSH_EVERY_S = 30.0
LOOK_S = 0.001
"""For each of its claims a pod that waits for one is looked at so much later again: a claim's events are many, and cost
its author nothing."""

FEW_CLAIMS = 32
"""Claims of a pod that is looked at whenever one of them changes."""

MOST_EVENTS = 256
"""Events that are kept for pods in flight: each looks at all of them, and to one that has missed some any may help."""


class PodPlace(StrEnum):
    """Where a pod is."""

    ACTIVE = "active"
    IN_FLIGHT = "in flight"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


_TOLD_OF_GATES = (PodPlace.GATED, PodPlace.UNSCHEDULABLE)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod of the queue."""

    pod: Pod
    number: int
    since: float
    """When it was last refused or failed, and before that when it came; it orders pods of one priority."""
    place: PodPlace = PodPlace.GATED
    attempts: int = 0
    """How often it was tried."""
    refused: int = 0
    """How many tries ended in a refusal."""
    failed: int = 0
    """How many tries ended in an error since the last that did not."""
    first: float | None = None
    """When it could be tried first; None until then."""
    gate: str = ""
    """Why it is not to be tried yet."""
    looked_at: float = -inf
    """When an event made us look whether it may be tried."""
    looks_again: bool = False
    """Whether we shall look without a further event."""
    reported_gate: str = ""
    """The gate that the pod was told of."""
    refusal: Refusal | None = None
    trouble: str = ""
    """Why the last try ended in an error, or the pod is held; empty if it was refused, and before the first try."""
    ready: float = 0.0
    """When its backoff ends."""
    spent_s: float = 0.0
    """What a decision about it has taken that is not made yet."""
    left_to: str = ""
    """By what another process has shown that it is at work on the pod."""
    left_until: float = 0.0
    """So long it is left to that process."""
    seen_events: int = 0

    @property
    def order(self) -> PodOrder:
        """Higher priority first, then the longer wait, then the one that came first."""
        return -(self.pod.priority or 0), self.since, self.number


class Queue:
    """The queue. gate: why a pod is not to be tried yet (its claims), empty where it can be; asked again on its events.

    on_move: called with each pod's new place and the reason for the move, for metrics. look_s: as `LOOK_S`.
    """

    def __init__(
        self,
        now: float,
        *,
        gate: Callable[[Pod], str],
        on_move: Callable[[PodPlace, str], None],
        backoff: PodBackoff = USUAL_BACKOFF,
        look_s: float = 0.0,
    ) -> None:
        self._gate = gate
        self._look_s = look_s
        self._looks: list[tuple[float, str, str]] = []
        self._backoffs = backoff
        self._on_move = on_move
        self._pods: dict[str, QueuedPod] = {}
        self._counts = dict.fromkeys(PodPlace, 0)
        self._active_in: Counter[tuple[int, str]] = Counter()  # by priority and namespace
        self._flying_in: Counter[tuple[int, str]] = Counter()
        self._by_place = {PodPlace.ACTIVE: self._active_in, PodPlace.IN_FLIGHT: self._flying_in}
        self._numbers = count()
        self._active = FairQueue(self._is_current)
        self._rests: Callable[[Pod], bool] = lambda _: False
        self._rests_until = now
        self._backoff: list[tuple[float, int, str]] = []
        self._waiting = _WaitingPods()
        self._gated: dict[str, float] = {}  # since when pods wait for their claims that were not told, the first first
        self._told: dict[str, float] = {}  # since when they were told or asked last, the first first
        self._in_flight: dict[str, QueuedPod] = {}
        self._events: deque[Event] = deque()
        self._forgotten_events = 0
        self._next_flush = now + FLUSH_EVERY_S

    def add(self, pod: Pod, now: float) -> None:
        """The pod waits for a node; where it did so before, it has changed."""
        entry_before = self._pods.get(pod.uid)
        if entry_before is not None:
            self._update(entry_before, pod, now)
            return
        entry = self._pods[pod.uid] = QueuedPod(pod, next(self._numbers), now)
        self._count(entry, 1)
        self._activate(entry, now, "PodAdd")
        if entry.place is PodPlace.GATED:
            self._on_move(PodPlace.GATED, "PodAdd")

    def remove(self, uid: str) -> None:
        """The pod is gone, is bound, or names another scheduler; unknown pods are ignored."""
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._count(entry, -1)
            self._waiting.discard(entry)
            self._land(entry)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to try, which is in flight from now on; None where there is none to be tried now.

        `done`, `refused` or `failed` has to follow. Cost: O(log(pods) + namespaces whose pods rest).
        """
        self._release(now)
        uid = self._active.pop(self._resting(now))
        if uid is None:
            return None
        self._fly(self._pods[uid])
        return self._pods[uid]

    def used(self, pod: Pod, amount: float) -> None:
        """The namespace of the pod has used so much of the turns: those of its priority in others go first for that."""
        self._active.used(pod.priority or 0, pod.namespace, amount)

    def rest(self, until: float, who: Callable[[Pod], bool]) -> None:
        """Until then such pods are not tried; in place of those before."""
        self._rests_until, self._rests = until, who

    def _resting(self, now: float) -> Callable[[str], bool]:
        if now >= self._rests_until:
            return lambda _: False
        return lambda uid: self._rests(self._pods[uid].pod)

    def take(self, uid: str, now: float) -> QueuedPod | None:
        """Try this pod as well, out of its turn; None where it is being tried, or is not to be tried yet.

        `done`, `refused` or `failed` has to follow.
        """
        entry = self._pods.get(uid)
        if entry is None or entry.place is PodPlace.IN_FLIGHT or self._gate_of(entry.pod):
            return None
        entry.first = now if entry.first is None else entry.first
        entry.gate = ""  # others of its group have come since it was looked at
        self._waiting.discard(entry)
        self._fly(entry)
        return entry

    def _fly(self, entry: QueuedPod) -> None:
        self._move(entry, PodPlace.IN_FLIGHT)
        entry.attempts += 1
        entry.seen_events = self._forgotten_events + len(self._events)
        self._in_flight[entry.pod.uid] = entry

    def long_gated(self, now: float) -> Iterator[QueuedPod]:
        """The pods that have waited for claims, or for others of their group, for so long that they are to be told why.

        Each once for a reason.
        """
        for waiting, after_s in ((self._gated, GATED_S), (self._told, ASKED_EVERY_S)):
            while waiting and now - next(iter(waiting.values())) >= after_s:
                uid = next(iter(waiting))
                del waiting[uid]
                entry = self._pods.get(uid)
                if entry is None or entry.pod.gates or not entry.gate or entry.place not in _TOLD_OF_GATES:
                    continue
                of_others = entry.gate if entry.place is PodPlace.UNSCHEDULABLE else ""
                entry.gate = self._gate_of(entry.pod) or of_others  # its own is not looked at whenever others come
                if not entry.gate:
                    self._activate(entry, now, "UnschedulableTimeout")
                    continue
                self._told.pop(uid, None)
                self._told[uid] = now
                if entry.gate != entry.reported_gate:
                    entry.reported_gate = entry.gate
                    yield entry

    def next_ready(self, now: float) -> float | None:
        """When `pop` may have a pod without another call before: `now`, later, or None for never."""
        self._release(now)
        if self._active.has_next(self._resting(now)):
            return now
        self._drop_stale_backoff()
        times = [waiting[0][0] for waiting in (self._backoff, self._looks) if waiting]
        if self._active.has_next(lambda _: False):
            times.append(self._rests_until)
        if self._waiting.uids(PodPlace.UNSCHEDULABLE):
            times.append(self._next_flush)
        return min(times, default=None)

    def done(self, uid: str) -> None:
        """The pod in flight has its node, or needs none any more."""
        self.remove(uid)

    def refused(self, uid: str, refusal: Refusal, now: float, *, gate: str = "") -> None:
        """The pod in flight fits nowhere; it waits for an event that helps, of which some may have come already.

        gate: what other pods of its group wait for, which it is to be told as those are; "" where it was told already.
        """
        entry = self._in_flight.get(uid)
        if entry is None:
            return
        entry.refused += 1
        entry.failed = 0
        entry.since = now
        entry.refusal, entry.trouble, entry.gate = refusal, "", gate
        missed = entry.seen_events < self._forgotten_events
        is_helped = missed or any(helps(entry.pod, refusal, event) for event in self._events_since(entry))
        self._land(entry)
        if is_helped:
            self._retry(entry, now, "ScheduleAttemptFailure")
        else:
            self._put(entry, PodPlace.UNSCHEDULABLE, "ScheduleAttemptFailure")
            self._remember_gate(entry, now)

    def failed(self, uid: str, now: float, after_s: float | None = None, *, why: str = "") -> None:
        """The attempt for the pod in flight ended in an error; it is tried again after a time, whatever happens.

        after_s: that time, where the error says it and is none of the pod's; the backoff otherwise. why: the error; ""
        if the one before still says it.
        """
        entry = self._in_flight.get(uid)
        if entry is None:
            return
        entry.failed += after_s is None
        entry.since = now
        entry.refusal, entry.trouble = None, why or entry.trouble
        self._land(entry)
        if after_s is None:
            self._retry(entry, now, "ScheduleAttemptFailure")
        else:
            self._put_off(entry, now + after_s, "ScheduleAttemptFailure")

    def held(self, uid: str, now: float, until: float | None = None, *, why: str = "") -> None:
        """The pod in flight was not tried after all, and is to come again then, or after its backoff. why: as above."""
        entry = self._in_flight.get(uid)
        if entry is not None:
            entry.attempts -= 1
            self.failed(uid, now, None if until is None else until - now, why=why)

    def has_others(self, pod: Pod, among: Callable[[str], bool] = bool) -> bool:
        """Whether a pod of another namespace, of its priority or a higher one, can be tried now. among: these."""
        return _has_others(self._active_in, pod.namespace, pod.priority or 0, among)

    def has_others_in_flight(self, namespace: str, least_priority: float = -inf) -> bool:
        """Whether a pod of another namespace, with such a priority, is being tried or bound."""
        return _has_others(self._flying_in, namespace, least_priority)

    def on_event(self, event: Event, now: float) -> None:
        """Something else than a pod of this queue has changed. Cost: O(pods that wait for reasons it matters to)."""
        if self._in_flight:
            self._remember(event)
        for uid in self._concerned(event) if self._waiting else ():
            entry = self._pods[uid]
            if entry.place is PodPlace.GATED:
                self._look(entry, now, type(event).__name__)
            elif entry.refusal and helps(entry.pod, entry.refusal, event):
                self._retry(entry, now, type(event).__name__)

    def _look(self, entry: QueuedPod, now: float, why: str) -> None:
        """See whether the pod may be tried: at once, or after a while if that takes long and was done just now."""
        claims = len(entry.pod.claims)
        ready = entry.looked_at + self._look_s * claims if claims > FEW_CLAIMS else now
        if ready <= now:
            entry.looked_at = now
            self._activate(entry, now, why)
        elif not entry.looks_again:
            entry.looks_again = True
            heappush(self._looks, (ready, entry.pod.uid, why))

    def wake(self, uid: str, now: float, why: str) -> None:
        """Try the pod again, when its backoff has gone, if it waits for an event. why: for metrics."""
        entry = self._pods.get(uid)
        if entry is not None and entry.place is PodPlace.UNSCHEDULABLE:
            self._retry(entry, now, why)

    def look_again(self, uid: str, now: float, why: str) -> bool:
        """Something has changed that the pod waits for, and that is no event of the queue. why: for metrics.

        Whether it is tried now or later.
        """
        entry = self._pods.get(uid)
        if entry is not None and entry.place is PodPlace.GATED:
            self._activate(entry, now, why)
        else:
            self.wake(uid, now, why)
        return self.is_tried(uid)

    def goes_first(self, uid: str) -> None:
        """Of the pods of its priority that are to be tried, the pod is the first."""
        entry = self._pods.get(uid)
        if entry is not None and entry.place is PodPlace.ACTIVE:
            entry.since = 0.0
            self._active.push_first((entry.order, entry.pod.uid))

    def is_tried(self, uid: str) -> bool:
        """Whether the pod is being tried, or will be without an event."""
        entry = self._pods.get(uid)
        return entry is not None and entry.place not in (PodPlace.UNSCHEDULABLE, PodPlace.GATED)

    def get(self, uid: str) -> QueuedPod | None:
        """The pod, wherever it is."""
        return self._pods.get(uid)

    def pods(self) -> Iterator[Pod]:
        """All pods, wherever they are."""
        return (entry.pod for entry in self._pods.values())

    def pending(self) -> Mapping[PodPlace, int]:
        """How many pods are in each place."""
        return dict(self._counts)

    def unschedulable(self) -> Mapping[tuple[str, str], int]:
        """How many pods wait, by scheduler name and plugin; one that was refused by several plugins counts for each."""
        return self._waiting.counts()

    def dump(self) -> Iterator[dict[str, object]]:
        """All pods, as JSON, for a person who asks why a pod is pending; times as they were given.

        In the order in which they came; each as it is when it is its turn, since the queue may go on in between.
        """
        return (_as_json(entry) for entry in tuple(self._pods.values()))

    def _update(self, entry: QueuedPod, pod: Pod, now: float) -> None:
        old, order = entry.pod, entry.order
        self._count(entry, -1)
        entry.pod = pod
        self._count(entry, 1)
        if entry.place is PodPlace.IN_FLIGHT:
            self._remember(PodChanged(old, pod))
        elif entry.place is PodPlace.GATED:
            self._activate(entry, now, "PodUpdate")
        elif entry.place is PodPlace.UNSCHEDULABLE and asks_differently(old, pod):
            self._retry(entry, now, "PodUpdate")
        elif entry.place is PodPlace.ACTIVE and entry.order != order:
            self._push_active(entry)

    def _concerned(self, event: Event) -> list[str]:
        uids = dict.fromkeys(self._waiting.refused_for(concerned(event, self._waiting.reasons)))
        if isinstance(event, ClaimChanged):
            uids.update(dict.fromkeys(self._waiting.users_of(event.key)))
        return list(uids)

    def _activate(self, entry: QueuedPod, now: float, why: str) -> None:
        """To the active pods, or to the gated ones where something is still missing."""
        entry.gate = self._gate_of(entry.pod)
        if entry.gate:
            self._remember_gate(entry, now)
            self._put(entry, PodPlace.GATED, why)
            return
        entry.first = now if entry.first is None else entry.first
        self._put(entry, PodPlace.ACTIVE, why)
        self._push_active(entry)

    def _remember_gate(self, entry: QueuedPod, now: float) -> None:
        """The pod is told of it, if it still waits then."""
        if entry.gate and not entry.pod.gates:
            (self._gated if entry.gate != entry.reported_gate else self._told).setdefault(entry.pod.uid, now)

    def _gate_of(self, pod: Pod) -> str:
        return _own_gates(pod) or self._gate(pod)

    def _retry(self, entry: QueuedPod, now: float, why: str) -> None:
        """To be tried again, when its backoff has gone."""
        ready = entry.since + self._backoffs.after(entry.failed or entry.refused)
        if ready <= now:
            self._activate(entry, now, why)
            return
        self._put_off(entry, ready, why)

    def _put_off(self, entry: QueuedPod, ready: float, why: str) -> None:
        entry.ready = ready
        self._put(entry, PodPlace.BACKOFF, why)
        heappush(self._backoff, (ready, entry.number, entry.pod.uid))

    def _put(self, entry: QueuedPod, place: PodPlace, why: str) -> None:
        if entry.place is not place:
            self._on_move(place, why)
        self._waiting.discard(entry)
        self._move(entry, place)
        if place in (PodPlace.UNSCHEDULABLE, PodPlace.GATED):
            self._waiting.put(entry)

    def _move(self, entry: QueuedPod, place: PodPlace) -> None:
        self._count(entry, -1)
        entry.place = place
        self._count(entry, 1)

    def _count(self, entry: QueuedPod, number: int) -> None:
        self._counts[entry.place] += number
        if (counts := self._by_place.get(entry.place)) is not None:
            key = entry.pod.priority or 0, entry.pod.namespace
            counts[key] += number
            if not counts[key]:
                del counts[key]

    def _push_active(self, entry: QueuedPod) -> None:
        self._active.push(entry.pod.namespace, (entry.order, entry.pod.uid))

    def _release(self, now: float) -> None:
        """Move on what waits for time alone."""
        while self._backoff and self._backoff[0][0] <= now:
            ready, number, uid = heappop(self._backoff)
            if self._is_in_backoff(uid, number, ready):
                self._activate(self._pods[uid], now, "BackoffComplete")
        while self._looks and self._looks[0][0] <= now:
            _, uid, why = heappop(self._looks)
            waiting = self._pods.get(uid)
            if waiting is not None and waiting.looks_again:
                waiting.looks_again = False
                if waiting.place is PodPlace.GATED:
                    self._look(waiting, now, why)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_EVERY_S
            for uid in list(self._waiting.uids(PodPlace.UNSCHEDULABLE)):
                if now - self._pods[uid].since > self._backoffs.most_unschedulable_s:
                    self._retry(self._pods[uid], now, "UnschedulableTimeout")

    def _is_in_backoff(self, uid: str, number: int, ready: float) -> bool:
        """A pod that was taken out of its turn may be there again, until another time."""
        entry = self._pods.get(uid)
        is_there = entry is not None and entry.number == number and entry.place is PodPlace.BACKOFF
        return is_there and entry is not None and entry.ready == ready

    def _is_current(self, item: QueuedItem) -> bool:
        """Entries stay when their pod leaves or changes; they are recognised when they come up."""
        order, uid = item
        entry = self._pods.get(uid)
        return entry is not None and entry.place is PodPlace.ACTIVE and entry.order == order

    def _drop_stale_backoff(self) -> None:
        while self._backoff and not self._is_in_backoff(self._backoff[0][2], self._backoff[0][1], self._backoff[0][0]):
            heappop(self._backoff)

    def _land(self, entry: QueuedPod) -> None:
        """The pod is in flight no more; events that nobody in flight has to look at again are forgotten."""
        if self._in_flight.pop(entry.pod.uid, None) is None:
            return
        oldest = next(iter(self._in_flight.values()), None)
        keep_from = oldest.seen_events if oldest else self._forgotten_events + len(self._events)
        while self._forgotten_events < keep_from:
            self._events.popleft()
            self._forgotten_events += 1

    def _remember(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) > MOST_EVENTS:
            self._events.popleft()
            self._forgotten_events += 1

    def _events_since(self, entry: QueuedPod) -> Iterable[Event]:
        return islice(self._events, entry.seen_events - self._forgotten_events, None)


class _WaitingPods:
    """The pods that wait for events, found by what they wait for."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[PodPlace, tuple[Reason, ...], tuple[NamespacedName, ...]]] = {}
        self._by_place: dict[PodPlace, dict[str, None]] = {}
        self._by_reason: dict[Reason, dict[str, None]] = {}
        self._by_claim: dict[NamespacedName, dict[str, None]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._known)

    def put(self, entry: QueuedPod) -> None:
        """The pod waits in its place, as it is now."""
        self.discard(entry)
        uid, is_refused = entry.pod.uid, entry.place is PodPlace.UNSCHEDULABLE
        reasons = tuple(entry.refusal.reasons) if is_refused and entry.refusal else ()
        claims = tuple(dict.fromkeys(awaited_claims(entry.pod)))  # two entries may name one claim
        self._known[uid] = (entry.place, reasons, claims)
        self._by_place.setdefault(entry.place, {})[uid] = None
        for reason in reasons:
            self._by_reason.setdefault(reason, {})[uid] = None
        for key in claims:
            self._by_claim.setdefault(key, {})[uid] = None
        self._counts.update(_refusers(entry.pod, reasons))

    def discard(self, entry: QueuedPod) -> None:
        """The pod waits for no event, if it did."""
        uid = entry.pod.uid
        waiting = self._known.pop(uid, None)
        if waiting is None:
            return
        place, reasons, claims = waiting
        del self._by_place[place][uid]
        for reason in reasons:
            del self._by_reason[reason][uid]
        for key in claims:
            self._by_claim[key].pop(uid, None)
            if not self._by_claim[key]:
                del self._by_claim[key]
        self._counts.subtract(_refusers(entry.pod, reasons))

    def uids(self, place: PodPlace) -> Mapping[str, None]:
        """The pods in this place."""
        return self._by_place.get(place, {})

    @property
    def reasons(self) -> Iterable[Reason]:
        """What pods wait for, or have waited for."""
        return self._by_reason

    def refused_for(self, reasons: Iterable[Reason]) -> Iterator[str]:
        """The pods that were refused for one of these."""
        for reason in reasons:
            yield from self._by_reason.get(reason, {})

    def users_of(self, claim: NamespacedName) -> Iterable[str]:
        """The pods that need the claim."""
        return self._by_claim.get(claim, {})

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many pods wait, or none by now, by scheduler name and the plugin that refused them."""
        return dict(self._counts)


def _has_others(
    counts: Iterable[tuple[int, str]], namespace: str, least_priority: float, among: Callable[[str], bool] = bool
) -> bool:
    return any(priority >= least_priority and other != namespace and among(other) for priority, other in counts)


def _refusers(pod: Pod, reasons: Iterable[Reason]) -> set[tuple[str, str]]:
    return {(pod.scheduler_name, reason.plugin) for reason in reasons if reason.plugin}


def _as_json(entry: QueuedPod) -> dict[str, object]:
    refusal = None if entry.gate else entry.refusal  # what was said before is not why it waits now
    return {
        "pod": str(entry.pod),
        "uid": entry.pod.uid,
        "queue": str(entry.place),
        "priority": entry.pod.priority or 0,
        "attempts": entry.attempts,
        "since": entry.since,
        "ready": entry.ready if entry.place is PodPlace.BACKOFF else None,
        "gate": entry.gate,
        "reasons": sorted(map(str, refusal.reasons)) if refusal else [],
        "message": refusal.message if refusal else "" if entry.gate else entry.trouble,
    }


def _own_gates(pod: Pod) -> str:
    return f"scheduling is gated by {', '.join(pod.gates)}" if pod.gates else ""
