"""The queue is what a list of pods would be of which every one remembers all events since its attempt."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.plugins.plugin import Refusal
from scheduler.plugins.profile import REASONS
from scheduler.queue import FEW_CLAIMS, LOOK_S, PodPlace, Queue, helps
from scheduler.state.cluster_changes import (
    ClaimChanged,
    ClassChanged,
    Event,
    GivenBack,
    NodeChanged,
    PodChanged,
    SliceChanged,
)
from scheduler.state.pods import PodRequests
from tests.builders import a_claim, a_class, a_node, a_pod, a_slice, an_allocated_claim

NAMES = ("a", "b", "c", "d")
CLAIMS = ("mine", "ours")
FLUSH_EVERY_S = 30.0
MOST_UNSCHEDULABLE_S = 300.0

Step = tuple[Any, ...]


@dataclass
class NaivePod:
    pod: Pod
    number: int
    since: float
    place: PodPlace = PodPlace.ACTIVE
    refused: int = 0
    failed: int = 0
    ready: float = 0.0
    refusal: Refusal | None = None
    events: list[Event] = field(default_factory=list)


class NaiveQueue:
    """No index, no heap, no log: every pod is looked at for everything."""

    def __init__(self) -> None:
        self.pods: dict[str, NaivePod] = {}
        self.claims: set[str] = set()
        self.number = 0
        self.next_flush = FLUSH_EVERY_S

    def gate(self, pod: Pod) -> str:
        return "missing" if any(one.claim_name not in self.claims for one in pod.claims) else ""

    def activate(self, one: NaivePod) -> None:
        one.place = PodPlace.GATED if one.pod.gates or self.gate(one.pod) else PodPlace.ACTIVE

    def retry(self, one: NaivePod, now: float) -> None:
        tries = one.failed or one.refused
        one.ready = one.since + (min(2.0 ** (tries - 1), 10.0) if tries else 0.0)
        if one.ready <= now:
            self.activate(one)
        else:
            one.place = PodPlace.BACKOFF

    def add(self, pod: Pod, now: float) -> None:
        one = self.pods[pod.uid] = NaivePod(pod, self.number, now)
        self.number += 1
        self.activate(one)

    def update(self, old: Pod, new: Pod, now: float) -> None:
        self.pods[new.uid].pod = new
        self.event(PodChanged(old, new), now)

    def event(self, event: Event, now: float) -> None:
        for one in self.pods.values():
            one.events.append(event)
            if one.place is PodPlace.GATED:
                self.activate(one)
            elif one.place is PodPlace.UNSCHEDULABLE and one.refusal and helps(one.pod, one.refusal, event):
                self.retry(one, now)

    def pop(self, now: float) -> str | None:
        self.release(now)
        active = [one for one in self.pods.values() if one.place is PodPlace.ACTIVE]
        first = min(active, key=lambda one: (-(one.pod.priority or 0), one.since, one.number), default=None)
        if first is None:
            return None
        first.place, first.events = PodPlace.IN_FLIGHT, []
        return first.pod.uid

    def release(self, now: float) -> None:
        for one in self.pods.values():
            if one.place is PodPlace.BACKOFF and one.ready <= now:
                self.activate(one)
        if now >= self.next_flush:
            self.next_flush = now + FLUSH_EVERY_S
            for one in self.pods.values():
                if one.place is PodPlace.UNSCHEDULABLE and now - one.since > MOST_UNSCHEDULABLE_S:
                    self.retry(one, now)

    def end(self, uid: str, refusal: Refusal | None, now: float) -> None:
        one = self.pods[uid]
        one.since, one.refusal = now, refusal
        one.refused, one.failed = (one.refused + 1, 0) if refusal else (one.refused, one.failed + 1)
        if refusal is None or any(helps(one.pod, refusal, event) for event in one.events):
            self.retry(one, now)
        else:
            one.place = PodPlace.UNSCHEDULABLE


class Both:
    """The queue and the naive one, told the same."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naive = NaiveQueue()
        self.queue = Queue(0.0, gate=self.naive.gate, on_move=lambda _place, _why: None)

    def add(self, pod: Pod) -> None:
        if pod.uid not in self.naive.pods:
            self.queue.add(pod, self.now)
            self.naive.add(pod, self.now)

    def update(self, name: str, change: dict[str, Any]) -> None:
        known = self.naive.pods.get(f"uid-{name}")
        if known:
            old, new = known.pod, replace(known.pod, **change)
            self.queue.add(new, self.now)
            self.naive.update(old, new, self.now)

    def remove(self, name: str) -> None:
        self.queue.remove(f"uid-{name}")
        self.naive.pods.pop(f"uid-{name}", None)

    def event(self, event: Event) -> None:
        self.queue.on_event(event, self.now)
        self.naive.event(event, self.now)

    def claim(self, name: str, *, exists: bool) -> None:
        """It comes or goes, unless it is there or gone already."""
        if exists == (name in self.naive.claims):
            return
        (self.naive.claims.add if exists else self.naive.claims.discard)(name)
        claim = a_claim(name=name)
        self.event(ClaimChanged(None, claim) if exists else ClaimChanged(claim, None))

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def pop(self) -> None:
        found = self.queue.pop(self.now)
        assert (found.pod.uid if found else None) == self.naive.pop(self.now)

    def end(self, position: int, refusal: Refusal | None) -> None:
        flying = [uid for uid, one in self.naive.pods.items() if one.place is PodPlace.IN_FLIGHT]
        if not flying:
            return
        uid = flying[position % len(flying)]
        if refusal:
            self.queue.refused(uid, refusal, self.now)
        else:
            self.queue.failed(uid, self.now)
        self.naive.end(uid, refusal, self.now)

    def agree(self) -> None:
        ready = self.queue.next_ready(self.now)
        self.naive.release(self.now)
        places = {uid: one.place for uid, one in self.naive.pods.items()}
        assert {uid: found.place for uid in places if (found := self.queue.get(uid))} == places
        counts = {place: sum(one is place for one in places.values()) for place in PodPlace}
        assert self.queue.pending() == counts
        assert ready == self.next_ready(self.naive.pods.values())
        for one in self.naive.pods.values():
            if one.place is PodPlace.UNSCHEDULABLE:
                assert one.refusal is not None
                assert not any(helps(one.pod, one.refusal, event) for event in one.events), "a wake-up was lost"

    def next_ready(self, pods: Iterable[NaivePod]) -> float | None:
        times = [one.ready for one in pods if one.place is PodPlace.BACKOFF]
        times += [self.now for one in pods if one.place is PodPlace.ACTIVE]
        times += [self.naive.next_flush for one in pods if one.place is PodPlace.UNSCHEDULABLE]
        return min(times, default=None)


def pods_named(name: str) -> st.SearchStrategy[Pod]:
    return st.builds(
        lambda priority, gates, claims: a_pod(name=name, priority=priority, gates=gates, claims=claims),
        st.sampled_from([None, 0, 0, 5]),
        st.sampled_from([(), (), ("g",)]),
        st.sampled_from([(), *((PodClaim("dev", claim_name=claim),) for claim in CLAIMS)]),
    )


names = st.sampled_from(NAMES)
held = an_allocated_claim("gpu-0")
mine_held = an_allocated_claim("gpu-1", name="mine")
events = st.sampled_from(
    [
        NodeChanged(None, a_node()),
        NodeChanged(a_node(unschedulable=True), a_node()),
        SliceChanged(None, a_slice("gpu-0")),
        ClaimChanged(held, None),
        ClaimChanged(None, held),
        ClaimChanged(a_claim(name="mine"), mine_held),
        ClaimChanged(mine_held, a_claim(name="mine")),
        ClassChanged(None, a_class("gpu")),
        ClassChanged(None, a_class("nic")),
        PodChanged(a_pod(name="x", node_name="n"), None),
        GivenBack(a_pod(name="x"), (held,)),
        GivenBack(a_pod(name="a"), (a_claim(name="mine"),)),
    ]
)
refusals = st.builds(
    lambda reasons, classes: Refusal(frozenset(reasons), PodRequests({}, 0, 0), frozenset(classes)),
    st.lists(st.sampled_from(list(REASONS)), min_size=1, max_size=3),
    st.sampled_from([(), ("gpu",)]),
)
changes = st.sampled_from([{"node_selector": {"a": "b"}}, {"gates": ()}, {"phase": "Pending"}, {"claims": ()}])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), names.flatmap(pods_named)),
        st.tuples(st.just("update"), names, changes),
        st.tuples(st.just("remove"), names),
        st.tuples(st.just("event"), events),
        st.tuples(st.just("event"), events),
        st.tuples(st.just("claim"), st.sampled_from(CLAIMS), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 1.0, 3.0, 31.0, 400.0])),
        st.tuples(st.just("pop")),
        st.tuples(st.just("pop")),
        st.tuples(st.just("end"), st.integers(0, 3), st.one_of(st.none(), refusals, refusals)),
        st.tuples(st.just("end"), st.integers(0, 3), st.one_of(st.none(), refusals, refusals)),
    ),
    max_size=40,
)


@given(st.lists(names.flatmap(pods_named), max_size=4), steps)
@settings(max_examples=200)
def test_any_history_leaves_each_pod_where_the_naive_queue_has_it(first: list[Pod], steps: list[Step]) -> None:
    both = Both()
    for pod in first:
        both.add(pod)
    for name, *arguments in steps:
        if name == "claim":
            both.claim(arguments[0], exists=arguments[1])
        else:
            getattr(both, name)(*arguments)
        both.agree()


@given(st.lists(st.floats(0.0, 2.0), max_size=30), st.sampled_from([1, FEW_CLAIMS, FEW_CLAIMS + 1, 1000]))
def test_how_often_a_pod_of_many_claims_is_looked_at_is_not_for_the_events_of_these_to_say(
    waits: list[float], number: int
) -> None:
    """Yet the last event is never forgotten: once it was the one that was missing, the pod is tried."""
    looks: list[float] = []
    now, is_missing = 10.0, True

    def gate(_: Pod) -> str:
        looks.append(now)
        return "missing" if is_missing else ""

    queue = Queue(now, gate=gate, on_move=lambda *_: None, look_s=LOOK_S)
    pod = replace(a_pod(name="pod"), claims=tuple(PodClaim(f"c{one}", f"c{one}") for one in range(number)))
    queue.add(pod, now)
    looks.clear()
    event = ClaimChanged(None, a_claim(namespace=pod.namespace, name="c0"))
    for wait in waits:
        now += wait / 10
        queue.on_event(event, now)
        assert queue.pop(now) is None
    if number > FEW_CLAIMS:
        assert all(later - before >= LOOK_S * number * 0.999 for before, later in pairwise(looks))
    else:
        assert len(looks) == len(waits)
    is_missing = False
    queue.on_event(event, now)
    ready = queue.next_ready(now)
    assert ready is not None
    assert ready <= now + LOOK_S * number
    now = ready
    assert (found := queue.pop(now)) is not None
    assert found.pod == pod
