from dataclasses import replace

import pytest

from scheduler import queue as queue_module
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.plugins.dynamic_resources import CLAIMS, CLASSES, DEVICES, DYNAMIC_RESOURCES
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.node_ports import NODE_PORTS
from scheduler.plugins.plugin import Reason, Refusal
from scheduler.queue import FLUSH_EVERY_S, PodPlace, Queue
from scheduler.rates import USUAL_BACKOFF
from scheduler.state.cluster_changes import ClaimChanged, ClassChanged, SliceChanged, TaintRulesChanged
from scheduler.state.pods import PodRequests
from tests.builders import a_claim, a_class, a_pod, a_slice, an_allocated_claim

HELP = SliceChanged(None, a_slice("gpu-0"))
MOST_S = USUAL_BACKOFF.most_unschedulable_s
NO_HELP = ClassChanged(None, a_class("nic"))


class QueueRoom:
    """A queue, the claims that exist, and what the queue has told."""

    def __init__(self) -> None:
        self.claims: set[tuple[str, str]] = set()
        self.reported: list[tuple[str, str]] = []
        self.queue = Queue(0.0, gate=self.gate, on_move=lambda place, why: self.reported.append((str(place), why)))

    def gate(self, pod: Pod) -> str:
        missing = [one.claim_name for one in pod.claims if (pod.namespace, one.claim_name) not in self.claims]
        return f"no claim {missing[0]}" if missing else ""

    def pop(self, now: float = 0.0) -> str | None:
        found = self.queue.pop(now)
        return found.pod.name if found else None

    def place(self, name: str = "pod") -> PodPlace:
        found = self.queue.get(f"uid-{name}")
        assert found is not None
        return found.place

    def refuse(self, now: float, name: str = "pod", reason: Reason = DEVICES) -> None:
        assert self.pop(now) == name
        self.queue.refused(f"uid-{name}", a_refusal(reason), now)


@pytest.fixture
def room() -> QueueRoom:
    return QueueRoom()


def a_refusal(*reasons: Reason, message: str = "") -> Refusal:
    return Refusal(frozenset(reasons), PodRequests({}, 0, 0), message=message)


def test_an_empty_queue_has_no_pod_and_never_will(room: QueueRoom) -> None:
    assert room.pop() is None
    assert room.queue.next_ready(0.0) is None


def test_the_higher_priority_comes_first_then_the_one_that_came_first(room: QueueRoom) -> None:
    for name, priority, now in (("a", 0, 1.0), ("b", 5, 2.0), ("c", None, 0.5), ("d", 5, 2.0), ("e", -1, 0.0)):
        room.queue.add(a_pod(name=name, priority=priority), now)
    assert [room.pop(3.0) for _ in range(6)] == ["b", "d", "c", "a", "e", None]


def test_a_pod_in_flight_is_not_popped_again(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    assert room.pop() == "pod"
    assert room.place() is PodPlace.IN_FLIGHT
    assert room.pop() is None
    assert room.queue.next_ready(0.0) is None
    room.queue.done("uid-pod")
    assert room.queue.get("uid-pod") is None


def test_a_refused_pod_waits_for_an_event_that_helps(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    room.refuse(0.0)
    room.queue.on_event(NO_HELP, 60.0)
    assert room.pop(60.0) is None
    room.queue.on_event(HELP, 61.0)
    assert room.queue.next_ready(61.0) == 61.0
    assert room.pop(61.0) == "pod"


def test_an_event_soon_after_the_refusal_lets_the_pod_back_off_first(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    room.refuse(10.0)
    room.queue.on_event(HELP, 10.2)
    assert (room.place(), room.queue.next_ready(10.2)) == (PodPlace.BACKOFF, 11.0)
    assert room.pop(10.99) is None
    assert room.pop(11.0) == "pod"


def test_backoff_doubles_from_one_to_ten_seconds(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    now, waits = 0.0, []
    for _ in range(7):
        room.refuse(now)
        room.queue.on_event(HELP, now)
        ready = room.queue.next_ready(now)
        assert ready is not None
        waits.append(ready - now)
        now = ready
    assert waits == [1, 2, 4, 8, 10, 10, 10]


def test_a_pod_whose_own_writes_are_refused_is_not_woken_sooner_by_what_it_wrote_and_took_back(room: QueueRoom) -> None:
    """A policy refuses the allocation: the claim is marked and unmarked before the refusal is told, or after."""
    room.claims.add(("default", "mine"))
    room.queue.add(a_pod(claims=(PodClaim("dev", claim_name="mine"),)), 0.0)
    before, marked = a_claim(name="mine"), a_claim(name="mine")
    now, waits = 0.0, []
    for attempt in range(6):
        assert room.pop(now) == "pod"
        if attempt % 2:
            room.queue.on_event(ClaimChanged(before, marked), now)
        room.queue.refused("uid-pod", a_refusal(CLAIMS), now)
        room.queue.on_event(ClaimChanged(marked, before), now)
        ready = room.queue.next_ready(now)
        assert ready is not None
        waits.append(ready - now)
        now = ready
    assert waits == [1, 2, 4, 8, 10, 10]


def test_errors_in_a_row_count_for_themselves_and_need_no_event(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    room.refuse(0.0)
    room.queue.on_event(HELP, 100.0)
    now, waits = 100.0, []
    for _ in range(3):
        assert room.pop(now) == "pod"
        room.queue.failed("uid-pod", now)
        ready = room.queue.next_ready(now)
        assert ready is not None
        waits.append(ready - now)
        now = ready
    assert waits == [1, 2, 4]
    room.refuse(now)
    room.queue.on_event(HELP, now)
    assert room.queue.next_ready(now) == now + 2


def test_an_event_during_the_attempt_counts_when_it_ends_in_a_refusal(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    assert room.pop() == "pod"
    room.queue.on_event(NO_HELP, 0.0)
    room.queue.on_event(HELP, 0.0)
    room.queue.refused("uid-pod", a_refusal(DEVICES), 0.5)
    assert (room.place(), room.queue.next_ready(0.5)) == (PodPlace.BACKOFF, 1.5)


def test_an_event_before_the_attempt_or_for_another_reason_does_not(room: QueueRoom) -> None:
    room.queue.add(a_pod(name="first"), 0.0)
    room.queue.add(a_pod(), 0.0)
    assert room.pop() == "first"
    room.queue.on_event(HELP, 0.0)
    assert room.pop() == "pod"
    room.queue.on_event(TaintRulesChanged(), 0.0)
    room.queue.refused("uid-pod", a_refusal(CLASSES), 0.0)
    room.queue.refused("uid-first", a_refusal(DEVICES), 0.0)
    assert (room.place(), room.place("first")) == (PodPlace.UNSCHEDULABLE, PodPlace.BACKOFF)


def test_a_pod_that_missed_an_event_is_tried_again(room: QueueRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "MOST_EVENTS", 2)
    room.queue.add(a_pod(name="old"), 0.0)
    assert room.pop() == "old"
    room.queue.on_event(NO_HELP, 0.0)
    room.queue.add(a_pod(name="new"), 0.0)
    assert room.pop() == "new"
    for _ in range(2):
        room.queue.on_event(NO_HELP, 0.0)
    for name in ("old", "new"):
        room.queue.refused(f"uid-{name}", a_refusal(DEVICES), 0.0)
    assert (room.place("old"), room.place("new")) == (PodPlace.BACKOFF, PodPlace.UNSCHEDULABLE)


def test_a_pod_that_is_refused_for_five_minutes_is_tried_at_the_next_tick(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    room.refuse(15.0)
    assert room.queue.next_ready(20.0) == FLUSH_EVERY_S
    assert room.pop(15.0 + MOST_S) is None
    assert room.queue.next_ready(16.0 + MOST_S) == 15.0 + MOST_S + FLUSH_EVERY_S
    assert room.pop(15.0 + MOST_S + FLUSH_EVERY_S) == "pod"


def test_a_pod_with_gates_is_tried_once_the_last_one_is_gone(room: QueueRoom) -> None:
    gated = a_pod(gates=("a", "b"))
    room.queue.add(gated, 0.0)
    assert (room.pop(), room.place()) == (None, PodPlace.GATED)
    assert [one["gate"] for one in room.queue.dump()] == ["scheduling is gated by a, b"]
    open_ = replace(gated, gates=())
    room.queue.add(open_, 7.0)
    found = room.queue.pop(7.0)
    assert found is not None
    assert (found.pod, found.since, found.first, found.attempts) == (open_, 0.0, 7.0, 1)


def test_a_pod_without_its_claim_waits_for_it(room: QueueRoom) -> None:
    room.queue.add(a_pod(claims=(PodClaim("dev", claim_name="mine"),)), 0.0)
    assert room.pop() is None
    room.queue.on_event(ClaimChanged(None, a_claim(name="other")), 1.0)
    room.queue.on_event(HELP, 1.0)
    assert (room.pop(1.0), room.place()) == (None, PodPlace.GATED)
    room.claims.add(("default", "mine"))
    room.queue.on_event(ClaimChanged(None, a_claim(name="mine")), 2.0)
    assert room.pop(2.0) == "pod"


def test_a_claim_that_goes_while_its_pod_waits_gates_the_pod(room: QueueRoom) -> None:
    room.claims.add(("default", "mine"))
    room.queue.add(a_pod(claims=(PodClaim("dev", claim_name="mine"),)), 0.0)
    room.refuse(0.0)
    room.claims.clear()
    room.queue.on_event(ClaimChanged(an_allocated_claim("gpu-0", name="mine"), None), 60.0)
    assert (room.pop(60.0), room.place()) == (None, PodPlace.GATED)
    (reported,) = room.queue.dump()
    assert (reported["gate"], reported["reasons"], reported["message"]) == ("no claim mine", [], "")


def test_a_refused_pod_that_asks_for_something_else_is_tried_again(room: QueueRoom) -> None:
    pod = a_pod()
    room.queue.add(pod, 0.0)
    room.refuse(0.0)
    room.queue.add(replace(pod, resource_version="2", phase="Pending"), 60.0)
    assert room.place() is PodPlace.UNSCHEDULABLE
    room.queue.add(replace(pod, node_selector={"zone": "a"}), 60.0)
    found = room.queue.pop(60.0)
    assert found is not None
    assert found.pod.node_selector == {"zone": "a"}


def test_a_change_of_the_pod_during_its_attempt_counts_too(room: QueueRoom) -> None:
    pod = a_pod()
    room.queue.add(pod, 0.0)
    assert room.pop() == "pod"
    room.queue.add(replace(pod, node_selector={"zone": "a"}), 0.0)
    room.queue.refused("uid-pod", a_refusal(NODE_AFFINITY.reason), 0.0)
    assert room.place() is PodPlace.BACKOFF


def test_a_pod_that_changes_while_it_waits_is_tried_as_it_is_then(room: QueueRoom) -> None:
    pod = a_pod()
    room.queue.add(pod, 0.0)
    room.queue.add(a_pod(name="other", priority=1), 0.0)
    room.queue.add(replace(pod, priority=2), 0.0)
    assert [room.pop() for _ in range(3)] == ["pod", "other", None]
    room.queue.failed("uid-pod", 0.0)
    room.queue.add(replace(pod, labels={"a": "b"}), 0.5)
    found = room.queue.pop(1.0)
    assert found is not None
    assert found.pod.labels == {"a": "b"}


@pytest.mark.parametrize("place", list(PodPlace))
def test_a_pod_that_is_gone_is_nowhere(room: QueueRoom, place: PodPlace) -> None:
    room.queue.add(a_pod(gates=("g",) if place is PodPlace.GATED else ()), 0.0)
    if place in (PodPlace.IN_FLIGHT, PodPlace.BACKOFF, PodPlace.UNSCHEDULABLE):
        room.pop()
    if place is PodPlace.BACKOFF:
        room.queue.failed("uid-pod", 0.0)
    if place is PodPlace.UNSCHEDULABLE:
        room.queue.refused("uid-pod", a_refusal(DEVICES), 0.0)
    assert room.place() is place
    room.queue.remove("uid-pod")
    room.queue.on_event(HELP, 400.0)
    room.queue.refused("uid-pod", a_refusal(DEVICES), 400.0)
    room.queue.failed("uid-pod", 400.0)
    assert room.pop(400.0) is None
    assert room.queue.next_ready(400.0) is None
    assert set(room.queue.pending().values()) == {0}


def test_a_pod_that_comes_again_after_it_was_gone_starts_anew(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    assert room.pop() == "pod"
    room.queue.failed("uid-pod", 0.0)
    room.queue.remove("uid-pod")
    room.queue.add(a_pod(), 0.5)
    found = room.queue.pop(0.5)
    assert found is not None
    assert (found.attempts, found.failed) == (1, 0)


def test_pods_are_counted_by_place_and_the_refused_by_scheduler_and_plugin(room: QueueRoom) -> None:
    for name in "abcd":
        room.queue.add(a_pod(name=name, scheduler_name="mine"), 0.0)
    room.queue.add(a_pod(name="e", gates=("g",)), 0.0)
    room.refuse(0.0, "a", NODE_PORTS.reason)
    assert room.pop() == "b"
    room.queue.failed("uid-b", 0.0)
    assert room.pop() == "c"
    assert room.queue.pending() == dict.fromkeys(PodPlace, 1)
    assert room.queue.unschedulable() == {("mine", NODE_PORTS.name): 1}


def test_pod_counts_once_for_each_plugin_that_refuses_it_and_not_any_more_when_it_is_tried_again(
    room: QueueRoom,
) -> None:
    room.queue.add(a_pod(scheduler_name="mine"), 0.0)
    assert room.pop() == "pod"
    room.queue.refused("uid-pod", a_refusal(CLAIMS, DEVICES, NODE_PORTS.reason), 0.0)
    assert room.queue.unschedulable() == {("mine", DYNAMIC_RESOURCES.name): 1, ("mine", NODE_PORTS.name): 1}
    room.queue.on_event(HELP, 60.0)
    assert set(room.queue.unschedulable().values()) == {0}


def test_each_move_is_reported_once(room: QueueRoom) -> None:
    gated = a_pod(gates=("g",))
    room.queue.add(gated, 0.0)
    room.queue.add(replace(gated, gates=("h",)), 0.0)
    room.queue.add(replace(gated, gates=()), 0.0)
    room.refuse(0.0)
    room.queue.on_event(HELP, 0.0)
    assert room.pop(1.0) == "pod"
    room.queue.failed("uid-pod", 1.0)
    assert room.reported == [
        ("gated", "PodAdd"),
        ("active", "PodUpdate"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "SliceChanged"),
        ("active", "BackoffComplete"),
        ("backoff", "ScheduleAttemptFailure"),
    ]


def test_a_person_is_shown_why_a_pod_waits(room: QueueRoom) -> None:
    room.queue.add(a_pod(priority=3), 1.0)
    assert room.pop(2.0) == "pod"
    room.queue.refused("uid-pod", a_refusal(DEVICES, NODE_PORTS.reason, message="0/2 nodes are available"), 2.0)
    assert list(room.queue.dump()) == [
        {
            "pod": "default/pod",
            "uid": "uid-pod",
            "queue": "unschedulable",
            "priority": 3,
            "attempts": 1,
            "since": 2.0,
            "ready": None,
            "gate": "",
            "reasons": ["NodePorts", "devices"],
            "message": "0/2 nodes are available",
        }
    ]


def test_attempt_that_says_when_to_try_again_costs_no_backoff(room: QueueRoom) -> None:
    room.queue.add(a_pod(), 0.0)
    for now in (1.0, 2.0, 3.0):
        assert room.pop(now) == "pod"
        room.queue.failed("uid-pod", now, after_s=0.25)
        assert room.pop(now + 0.2) is None
        assert room.queue.next_ready(now + 0.2) == now + 0.25


def test_a_pod_that_names_one_claim_twice_leaves_the_queue_as_any_other(room: QueueRoom) -> None:
    twice = a_pod(claims=(PodClaim("a", "claim"), PodClaim("b", "claim")))
    room.queue.add(twice, 0.0)
    assert room.place() is PodPlace.GATED
    room.queue.remove(twice.uid)
    assert room.queue.get(twice.uid) is None


def test_pod_is_taken_out_of_its_turn_wherever_it_waits(room: QueueRoom) -> None:
    for name in ("active", "refused", "failed"):
        room.queue.add(a_pod(name=name), 0.0)
        if name == "refused":
            room.queue.take("uid-refused", 0.0)
            room.queue.refused("uid-refused", a_refusal(CLASSES), 0.0)
        elif name == "failed":
            room.queue.take("uid-failed", 0.0)
            room.queue.failed("uid-failed", 0.0)
    assert [room.place(name) for name in ("active", "refused", "failed")] == [
        PodPlace.ACTIVE,
        PodPlace.UNSCHEDULABLE,
        PodPlace.BACKOFF,
    ]
    for name in ("active", "refused", "failed"):
        entry = room.queue.take(f"uid-{name}", 0.1)
        assert entry is not None
        assert entry.place is PodPlace.IN_FLIGHT
        assert room.queue.take(f"uid-{name}", 0.1) is None
    assert room.pop(100.0) is None


def test_pod_that_is_not_to_be_tried_yet_is_not_taken(room: QueueRoom) -> None:
    room.queue.add(a_pod(name="gated", claims=(PodClaim("own", "missing"),)), 0.0)
    assert room.queue.take("uid-gated", 0.0) is None
    assert room.queue.take("uid-unknown", 0.0) is None
    room.claims.add(("default", "missing"))
    assert room.queue.take("uid-gated", 0.0) is not None


def test_pod_that_was_taken_before_it_was_looked_at_again_says_why_it_was_refused(room: QueueRoom) -> None:
    room.queue.add(a_pod(name="gated", claims=(PodClaim("own", "missing"),)), 0.0)
    room.claims.add(("default", "missing"))
    room.queue.take("uid-gated", 0.0)
    room.queue.refused("uid-gated", a_refusal(DEVICES, message="0/2 nodes are available"), 0.0)
    (shown,) = room.queue.dump()
    assert (shown["gate"], shown["message"]) == ("", "0/2 nodes are available")


def test_backoff_of_before_does_not_end_that_of_a_pod_that_was_taken_meanwhile(room: QueueRoom) -> None:
    room.queue.add(a_pod(name="pod"), 0.0)
    room.queue.take("uid-pod", 0.0)
    room.queue.failed("uid-pod", 0.0)  # until 1.0
    room.queue.take("uid-pod", 0.5)
    room.queue.failed("uid-pod", 0.5)  # until 2.5
    assert room.pop(1.5) is None
    assert room.pop(2.5) == "pod"


def test_gated_pod_is_looked_at_again(room: QueueRoom) -> None:
    room.queue.add(a_pod(name="pod", claims=(PodClaim("own", "missing"),)), 0.0)
    room.queue.look_again("uid-pod", 1.0, "PodGroupChanged")
    assert room.place() is PodPlace.GATED
    room.claims.add(("default", "missing"))
    room.queue.look_again("uid-pod", 1.0, "PodGroupChanged")
    assert room.pop(1.0) == "pod"


def test_pod_that_waits_for_long_is_told_what_it_waits_for_by_then(room: QueueRoom) -> None:
    room.queue.add(a_pod(name="pod", claims=(PodClaim("own", "missing"),)), 0.0)
    room.queue.add(a_pod(name="other", claims=(PodClaim("own", "missing-too"),)), 0.0)
    room.claims.add(("default", "missing"))
    assert [entry.pod.name for entry in room.queue.long_gated(10.0)] == ["other"]
    assert room.pop(10.0) == "pod"
    assert list(room.queue.long_gated(69.0)) == []
    room.claims.add(("default", "missing-too"))
    assert room.place("other") is PodPlace.GATED
    assert list(room.queue.long_gated(70.0)) == []
    assert room.pop(70.0) == "other"


def test_pod_that_was_refused_since_others_wait_is_told_as_long_as_that_lasts(room: QueueRoom) -> None:
    for name in ("waits", "helped", "refused"):
        room.queue.add(a_pod(name=name), 0.0)
        room.queue.take(f"uid-{name}", 0.0)
        room.queue.refused(f"uid-{name}", a_refusal(CLASSES), 0.0, gate="others wait")
    room.queue.take("uid-refused", 5.0)
    room.queue.refused("uid-refused", a_refusal(CLASSES), 5.0)
    room.queue.take("uid-helped", 5.0)
    assert [(entry.pod.name, entry.gate) for entry in room.queue.long_gated(10.0)] == [("waits", "others wait")]
    assert list(room.queue.long_gated(100.0)) == []


def test_pod_that_was_refused_since_others_wait_is_told_if_its_own_claim_has_gone(room: QueueRoom) -> None:
    pod = a_pod(name="pod", claims=(PodClaim("own", "own"),))
    room.claims.add(("default", "own"))
    room.queue.add(pod, 0.0)
    room.queue.take("uid-pod", 0.0)
    room.queue.refused("uid-pod", a_refusal(CLASSES), 0.0, gate="others wait")
    room.claims.remove(("default", "own"))
    assert [entry.gate for entry in room.queue.long_gated(10.0)] == [room.gate(pod)]
