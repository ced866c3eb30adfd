"""The loop, with an API server that takes no binding for want of a right."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from allocator.model import Taint
from cel.values.quantity import Quantity
from scheduler.attempt import claim_objects
from scheduler.attempt.attempts import INTERNAL, Attempts
from scheduler.attempt.binder import EVICT, Binder, Time, WatchedClaims, WatchedVolumes
from scheduler.attempt.claim_objects import Intent
from scheduler.attempt.decision import Listener
from scheduler.attempt.write_outcome import PROBE_S
from scheduler.client.api_resources import claims
from scheduler.client.connection import Api
from scheduler.client.errors import LASTS_S, ApiError, ApiStatus
from scheduler.core_v1.group_terms import GROUP, MINIMUM
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_status import Condition
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Failed, OutOfTime, ScheduleResult
from scheduler.decision.time_limits import OTHERS_FIRST, REST
from scheduler.kinds import claim_of
from scheduler.live import group_cycle
from scheduler.live.endings import GroupConditions, KnownGroups, LoopDependencies
from scheduler.live.loop import LEFT_S, LULL_S, SEEN_S, Loop
from scheduler.live.preemptions import GroupToWin, NothingToWin, Preemptions, PreemptionTerms
from scheduler.plugins.plugin import Refusal
from scheduler.pod_groups.group import GroupKey, GroupOfPods
from scheduler.pod_groups.group_preemption import GroupPreemption
from scheduler.pod_groups.group_result import GroupNotPlaced
from scheduler.pod_groups.groups import HELD_S, Groups
from scheduler.preemption.records import PreemptionRecord
from scheduler.queue import GATED_S, Queue, QueuedPod
from scheduler.reporting import Events, Refusals
from scheduler.runtime.metrics import AttemptResult, Metrics
from scheduler.state.cluster_changes import Event, NodeChanged, PodChanged
from scheduler.state.invariants import Violation
from scheduler.state.pods import pod_requests
from tests.builders import NODE, a_container, a_node, a_pod, a_user, amounts, kubernetes

ELSEWHERE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"namespace": "default", "name": "claim", "uid": "uid-claim", "resourceVersion": "1"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": "d.example", "pool": "p", "device": "gpu-0"}]},
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]}
                ]
            },
        }
    },
}
TURNS = 50
"""Of the event loop: more than an attempt takes."""

CONCURRENCY = 8
"""Attempts that write at a time."""


class LoopDenied(Listener):
    """Refuses every call, as RBAC does; it sees all there is, and hears what becomes of attempts."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.violations: list[Violation] = []

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        self.calls.append(f"{method} {path}")
        message = f'it is forbidden: User "ours" cannot {method} it'
        raise ApiError(f"{method} {path}", 403, ApiStatus("Forbidden", message))

    async def reached(self, *_: object) -> bool:
        return True

    def violated(self, violation: Violation) -> None:
        self.violations.append(violation)


class LoopRoom:
    """A loop whose clock stands still, a node with room, and the pods that are to come there.

    elsewhere_s: of the clock's time, what the machine did something else.
    """

    def __init__(self, *, is_dry: bool = False, preempts: bool = False) -> None:
        self.now = 100.0
        self.elsewhere_s = 0.0
        self.rested_s: list[float] = []
        self.cluster = cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        cluster.set_node(a_node(allocatable={"pods": Quantity.parse("110")}))
        self.denied = denied = LoopDenied()
        api = cast(Api, denied)
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        time = Time(lambda: self.now, lambda: moment, self._rest, lambda: 0.5)
        binder = Binder(
            api, claims("v1"), cast(WatchedClaims, denied), WatchedVolumes(cluster), time, "ours", 1, "1", denied
        )
        self.queue = Queue(self.now, gate=cluster.gate, on_move=lambda *_: None)
        self.metrics = metrics = Metrics(lambda: pytest.fail("nobody reads them"))
        events, refusals = Events(api, "ours", "ours", lambda: moment), Refusals(api, lambda: moment)
        self.events, self.refusals = events, refusals
        self.attempts = Attempts(
            cluster,
            binder,
            self._given_back,
            concurrency=CONCURRENCY,
            is_tried=self.queue.is_tried,
            waits_for_devices=True,
        )
        terms = PreemptionTerms(is_on=preempts)
        preemptions = Preemptions(cluster, terms, lambda _: True, lambda _: None, metrics.preemption_failed)
        parts = LoopDependencies(cluster, self.queue, binder, self.attempts, events, refusals, metrics, preemptions)
        self.is_outdated = False
        self.loop = Loop(
            parts,
            lambda: self.now,
            lambda: self.is_outdated,
            is_dry=is_dry,
            processor=lambda: self.now - self.elsewhere_s,
        )

    async def _rest(self, duration_s: float) -> None:
        self.rested_s += [duration_s] * bool(duration_s)
        await asyncio.sleep(0)

    def _given_back(self, event: Event, _: str) -> None:
        self.queue.on_event(event, self.now)
        self.loop.wake()

    def add(self, *names: str) -> None:
        for name in names:
            self.queue.add(a_pod(name=name), self.now)

    async def go_on(self) -> int:
        """As `turns`, after a word that there may be something to do."""
        self.loop.wake()
        return await self.turns()

    async def turns(self) -> int:
        """Let it do what it can at this moment, and say how many attempts there have been at the pods that are left."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return sum(cast(int, one["attempts"]) for one in self.queue.dump())


@pytest.fixture
def room() -> LoopRoom:
    return LoopRoom()


def test_while_no_pod_of_a_namespace_can_be_bound_one_at_a_time_is_tried(room: LoopRoom) -> None:
    async def act() -> list[int]:
        running = asyncio.create_task(room.loop.run())
        room.add("first")
        tried = [await room.go_on()]
        room.add("second", "third")
        tried.append(await room.go_on())
        room.now += PROBE_S / 2
        tried.append(await room.go_on())
        room.now += PROBE_S / 2
        tried.append(await room.go_on())
        running.cancel()
        return tried

    assert asyncio.run(act()) == [1, 1, 1, 2]


def test_pods_of_other_namespaces_are_tried_at_once_while_a_right_is_missing_in_one(room: LoopRoom) -> None:
    async def act() -> int:
        running = asyncio.create_task(room.loop.run())
        room.add("first")
        await room.go_on()
        room.queue.add(replace(a_pod(name="second"), namespace="other"), room.now)
        tried = await room.go_on()
        running.cancel()
        return tried

    assert asyncio.run(act()) == 2


def test_missing_right_is_reported_of_the_program_once_it_lasts(room: LoopRoom) -> None:
    async def act() -> list[bool]:
        running = asyncio.create_task(room.loop.run())
        room.add("pod")
        reported = []
        for _ in range(3):
            await room.go_on()
            reported.append('User "ours" cannot POST' in room.attempts.trouble)
            room.now += LASTS_S
        running.cancel()
        return reported

    assert asyncio.run(act()) == [False, True, True]


def test_while_changes_are_lost_no_pod_is_tried(room: LoopRoom) -> None:
    async def act() -> list[int]:
        running = asyncio.create_task(room.loop.run())
        room.is_outdated = True
        room.add("pod")
        tried = [await room.go_on()]
        room.is_outdated = False
        tried.append(await room.go_on())
        running.cancel()
        return tried

    assert asyncio.run(act()) == [0, 1]


def test_second_attempt_at_a_pod_is_not_begun_and_reported(room: LoopRoom) -> None:
    async def act() -> int:
        running = asyncio.create_task(room.loop.run())
        room.cluster.claims.reserve("uid-pod", "node", ())
        room.add("pod")
        tried = await room.go_on()
        running.cancel()
        return tried

    assert asyncio.run(act()) == 1
    assert room.attempts.number == 0
    assert room.denied.violations == [
        Violation("I6", "pod default/pod", "pod uid-pod already has an attempt in progress")
    ]


def test_pod_is_tried_as_soon_as_an_attempt_that_goes_on_gives_its_slot_back(room: LoopRoom) -> None:
    """One that waits for its devices, or takes back what it wrote, ends minutes later."""

    async def act() -> list[int]:
        running = asyncio.create_task(room.loop.run())
        slots = room.attempts.slots
        taken = [slots.take("other") for _ in range(CONCURRENCY)]
        ahead = [asyncio.create_task(slots.wait("other")) for _ in range(CONCURRENCY // 2)]
        await room.turns()
        room.add("pod")
        tried = [await room.go_on()]
        for slot in taken[: len(ahead)]:
            slot.give_back()
            tried.append(await room.turns())
        running.cancel()
        return tried

    assert asyncio.run(act()) == [0, 0, 0, 0, 1]


def test_once_the_pod_that_lacked_a_right_has_gone_the_next_is_tried_at_once(room: LoopRoom) -> None:
    async def act() -> int:
        running = asyncio.create_task(room.loop.run())
        room.add("first")
        await room.go_on()
        room.add("second")
        room.queue.remove("uid-first")
        tried = await room.go_on()
        running.cancel()
        return tried

    assert asyncio.run(act()) == 1


def test_a_right_that_was_missing_is_not_reported_any_more_once_the_pod_that_lacked_it_is_refused(
    room: LoopRoom,
) -> None:
    """It may wait for long, and nobody knows what another pod could do meanwhile before one is tried."""

    async def act() -> list[str]:
        running = asyncio.create_task(room.loop.run())
        room.add("first")
        await room.go_on()
        room.now += LASTS_S
        await room.go_on()
        reported = [room.attempts.trouble]
        room.cluster.remove_node("node-0")
        room.now += LASTS_S  # its backoff, too
        await room.go_on()
        reported.append(room.attempts.trouble)
        room.add("second")
        assert await room.go_on() == 4
        running.cancel()
        return reported

    before, after = asyncio.run(act())
    assert 'User "ours" cannot POST' in before
    assert after == ""


def test_pod_that_fits_nowhere_has_another_event_for_another_reason_and_none_for_another_number_of_nodes(
    room: LoopRoom,
) -> None:
    """The first node that comes has a taint, which no node had before; the next one has it as well."""

    async def act() -> list[tuple[int, int]]:
        room.queue.add(a_pod(name="pod", resource_version="1", node_selector={"zone": "mars"}), room.now)
        running = asyncio.create_task(room.loop.run())
        found = []
        for number in range(3):
            await room.go_on()
            found.append((room.refusals.waiting, room.events._waiting))
            node = a_node(f"other-{number}", labels={"zone": "mars"}, taints=(Taint("key", "", "NoSchedule"),))
            room.cluster.set_node(node)
            room.queue.on_event(NodeChanged(None, node), room.now)
            room.now += 10
        running.cancel()
        return found

    assert asyncio.run(act()) == [(1, 1), (1, 2), (1, 2)]


def test_pods_that_would_be_bound_are_counted_as_scheduled() -> None:
    async def act() -> object:
        room = LoopRoom(is_dry=True)
        room.add("first", "second")
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        running.cancel()
        return room.metrics._attempts["", AttemptResult.SCHEDULED]._value.get()

    assert asyncio.run(act()) == 2


@pytest.mark.parametrize("is_dry", [False, True])
def test_pod_that_fits_nowhere_preempts_but_in_a_dry_run_that_is_logged_alone(
    caplog: pytest.LogCaptureFixture, *, is_dry: bool
) -> None:
    caplog.set_level("INFO")

    async def act() -> LoopRoom:
        room = LoopRoom(is_dry=is_dry, preempts=True)
        room.cluster.set_node(a_node(allocatable={"pods": Quantity.parse("1")}))
        room.cluster.set_pod(a_pod(name="low", node_name=NODE, priority=1))
        room.queue.add(a_pod(name="high", priority=10), room.now)
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        running.cancel()
        return room

    calls = asyncio.run(act()).denied.calls
    assert ("would preempt" if is_dry else "preempting") in caplog.messages
    assert ("PATCH /api/v1/namespaces/default/pods/high" in calls) is not is_dry
    assert not [call for call in calls if call.startswith("DELETE")]  # the record comes first, and is refused


@pytest.mark.parametrize("is_dry", [False, True])
def test_claim_that_keeps_its_pod_from_every_node_is_deallocated_but_not_in_a_dry_run(*, is_dry: bool) -> None:
    async def act() -> LoopRoom:
        room = LoopRoom(is_dry=is_dry)
        room.cluster.set_claim(claim_of(ELSEWHERE), 1)
        room.queue.add(a_user("pod", "claim"), room.now)
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        running.cancel()
        return room

    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/claim"
    calls = asyncio.run(act()).denied.calls
    assert [call for call in calls if path in call] == ([] if is_dry else [f"PUT {path}"])


def test_namespace_with_costly_decisions_lets_others_go_first_and_is_shown_when_they_take_too_long(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn of its pod takes all that it may; in between, what others ask for is decided."""
    turns: list[str] = []

    def decided(view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        if pod.namespace != "dear":
            return Failed("no matter")
        room.now += view.time_limit.most_s
        return OutOfTime("timed out")

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        room.queue.add(replace(a_pod(name="dear"), namespace="dear"), room.now)
        room.queue.add(a_pod(name="other"), room.now)
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns[:2] == ["dear", "other"]
    assert turns.count("dear") == 6  # 0.1, 0.25, 0.35, 0.7, 1 and 1 second
    rests = [0.1, 0.25, 0.35, 0.7, 1.0, 1.0]
    assert room.rested_s == pytest.approx([REST * turn_s for turn_s in rests]), "probes are heard in between"
    assert [one["queue"] for one in room.queue.dump() if one["pod"] == "dear/dear"] == ["backoff"]


def test_many_namespaces_with_one_costly_pod_each_keep_no_other_waiting_for_all_of_them(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    def decided(view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.namespace)
        if pod.namespace == "default":
            return Failed("no matter")
        room.now += view.time_limit.most_s
        return OutOfTime("timed out")

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        monkeypatch.setattr(room.loop, "_processor", lambda: room.now)
        running = asyncio.create_task(room.loop.run())
        room.loop._time.spent("default", 0.0, room.now, is_placed=True)
        for number in range(20):
            room.queue.add(replace(a_pod(name=f"pod-{number}"), namespace=f"dear-{number}"), room.now)
        room.queue.add(a_pod(name="good"), room.now)
        for _ in range(100):
            room.now += 0.25
            await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert "default" in turns[:3]
    assert set(turns) == {"default", *(f"dear-{number}" for number in range(20))}


def test_what_a_policy_takes_that_looks_at_whole_nodes_is_charged_to_nobody(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pods of all namespaces ask for sizes its work, and who asks next would pay for it."""
    turns: list[str] = []

    def decided(view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        view.time_limit.scored_s += 10.0
        room.now += 10.0
        room.queue.done(pod.uid)
        return Failed("no matter")

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        room.add("first", "second", "third")
        room.queue.add(replace(a_pod(name="other"), namespace="other"), room.now)
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert sorted(turns) == ["first", "other", "second", "third"]
    assert room.loop._time.waits_until("default") == 0.0


def test_new_namespace_does_not_wait_behind_all_that_are_known_for_costly_decisions(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a namespace that is known for cheap ones come all the time, so that costly ones hardly have a turn."""
    turns: list[str] = []

    def decided(view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.namespace)
        if pod.namespace.startswith("dear"):
            room.now += view.time_limit.most_s
            return OutOfTime("timed out")
        room.queue.done(pod.uid)
        return Failed("no matter")

    async def pass_time(seconds: float) -> None:
        for _ in range(int(seconds * 4)):
            room.now += 0.25
            room.add("good")
            room.loop._time.spent("default", 0.0, room.now, is_placed=True)
            await room.go_on()

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        monkeypatch.setattr(room.loop, "_processor", lambda: room.now)
        running = asyncio.create_task(room.loop.run())
        for number in range(40):
            room.queue.add(replace(a_pod(name=f"pod-{number}"), namespace=f"dear-{number}"), room.now)
        await pass_time(30)
        assert len({one for one in turns if one.startswith("dear")}) == 40
        turns.clear()
        room.queue.add(replace(a_pod(name="first"), namespace="new"), room.now)
        await pass_time(2)
        running.cancel()

    asyncio.run(act())
    assert "new" in turns
    assert sum(one.startswith("dear") for one in turns[: turns.index("new")]) <= 3


def test_what_slices_have_changed_is_none_of_the_time_of_the_pod_that_is_next(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver whose slices all nodes reach changes them all the time: each time they are worked out for all nodes."""
    spent: list[tuple[str, float]] = []
    slow_s = [10.0]  # until a decision has begun: nothing changes meanwhile

    def refresh() -> None:
        room.now += slow_s[0]
        slow_s[0] = 0.0

    def decided(view: Cluster, *_: object) -> ScheduleResult:
        with view.time_limit.limited():
            view.fleet.refresh()
            slow_s[0] = 10.0
            return OutOfTime("timed out") if view.time_limit.is_over() else Failed("no matter")

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        monkeypatch.setattr(room.cluster.fleet, "refresh", refresh)
        monkeypatch.setattr(room.cluster.time_limit, "_clock", lambda: room.now)
        monkeypatch.setattr(room.loop._time, "spent", lambda *said, **_: spent.append(said[:2]))
        running = asyncio.create_task(room.loop.run())
        room.queue.add(a_pod(name="good"), room.now)
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert spent[0] == ("default", 0.0)
    assert [one["message"] for one in room.queue.dump()] == ["no matter"]


def test_pod_that_others_go_before_for_long_says_so_until_it_has_been_tried(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str, str]] = []
    tried = (Condition("PodScheduled", "False", "Unschedulable", "no node has room"),)
    gated = (Condition("PodScheduled", "False", "SchedulingGated", "a gate"),)

    def decided(*_: object) -> ScheduleResult:
        room.now += 1.0
        return Failed("no matter")

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        monkeypatch.setattr(room.queue, "has_others", lambda *_: True)
        monkeypatch.setattr(room.refusals, "refuse", lambda pod, *said: told.append((pod.name, *said[:2])))
        running = asyncio.create_task(room.loop.run())
        for name, conditions in (("dear", ()), ("new", ()), ("tried", tried), ("gated", gated)):
            room.queue.add(replace(a_pod(name=name), namespace="dear", conditions=conditions), room.now)
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    held = [(name, reason) for name, reason, message in told if message == OTHERS_FIRST]
    assert held == [("new", "SchedulerError"), ("gated", "SchedulerError")]


def test_decision_of_several_turns_counts_once_with_all_its_time_and_the_pod_says_how_it_ended(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[ScheduleResult] = [OutOfTime("timed out"), OutOfTime("timed out"), Failed("a selector fails")]
    decisions: list[float] = []

    def decided(view: Cluster, *_: object) -> ScheduleResult:
        room.now += view.time_limit.most_s
        return turns.pop(0)

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        monkeypatch.setattr(room.metrics, "decided", decisions.append)
        room.add("pod")
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert decisions == pytest.approx([0.7])  # 0.1, 0.25 and 0.35 seconds
    entry = room.queue.get("uid-pod")
    assert entry is not None
    assert entry.spent_s == 0
    assert [one["message"] for one in room.queue.dump()] == ["a selector fails"]


def test_pod_whose_victim_cannot_be_evicted_is_not_told_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server denies each write; all but what is said of the pod itself is for the log."""
    room, told = LoopRoom(preempts=True), list[str]()
    victim = replace(a_pod(a_container(cpu="2"), name="quiet", priority=1, node_name=NODE), namespace="others")

    async def nominate(*_: object) -> bool:
        return True

    async def act() -> None:
        room.cluster.set_node(a_node(allocatable=amounts(cpu="2", pods="110")))
        room.cluster.set_pod(victim)
        monkeypatch.setattr("scheduler.attempt.eviction.nominate", nominate)
        monkeypatch.setattr(room.refusals, "refuse", lambda _pod, *said: told.append(" ".join(said)))
        monkeypatch.setattr(room.events, "preemption_backed_off", lambda _pod, text: told.append(text))
        running = asyncio.create_task(room.loop.run())
        room.queue.add(a_pod(a_container(cpu="2"), name="urgent", priority=10), room.now)
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert any("a call for an object of another namespace failed" in text for text in told), told
    assert not any("quiet" in text or "others/" in text for text in told)


def test_namespace_with_costly_groups_lets_others_go_first(room: LoopRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the decision about a group takes counts for its namespace, as that about a pod does."""
    turns: list[str] = []

    def attempt(first: QueuedPod, key: GroupKey, started: float) -> None:
        turns.append(key.name)
        room.now += 1.0
        room.queue.held(first.pod.uid, started, room.now + 60.0)

    def decided(_view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        return Failed("no matter")

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr(room.loop.group_cycle, "attempt", attempt)
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        for name in ("dear-0", "dear-1"):
            room.queue.add(replace(a_pod(name=name, labels={GROUP: name}), namespace="dear"), room.now)
        room.add("other-0", "other-1")
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns[:3] == ["dear-0", "other-0", "other-1"]


def test_costly_groups_go_on_once_others_have_asked_for_nothing_for_a_while(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who came during the decision about a group is seen first; whom nobody waits for goes on long before its share."""
    turns: list[str] = []

    def attempt(first: QueuedPod, key: GroupKey, _: float) -> None:
        turns.append(key.name)
        room.now += 1.0 if key.namespace == "dear" else 0.0
        room.queue.done(first.pod.uid)

    async def act() -> list[list[str]]:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr(room.loop.group_cycle, "attempt", attempt)
        for namespace, name in (("other", "other"), ("dear", "dear-0"), ("dear", "dear-1")):
            room.queue.add(replace(a_pod(name=name, labels={GROUP: name}), namespace=namespace), room.now)
        seen = []
        for wait_s in (0.0, SEEN_S, LULL_S):
            room.now += wait_s
            await room.go_on()
            seen.append(list(turns))
        running.cancel()
        return seen

    before = ["other", "dear-0"]
    assert asyncio.run(act()) == [before, before, [*before, "dear-1"]]


def test_pods_of_others_wait_for_one_decision_about_a_group_however_many_cheap_ones_a_namespace_has(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """150 groups are there before the first of 20 pods of another namespace comes."""
    turns: list[str] = []
    came: dict[str, int] = {}
    waited: dict[str, int] = {}

    def attempt(first: QueuedPod, key: GroupKey, _: float) -> None:
        turns.append(key.name)
        room.now += 0.01
        if not len(turns) % 7 and len(came) < 20:
            name = f"other-{len(came)}"
            came[name] = len(turns)
            room.add(name)
        room.queue.done(first.pod.uid)

    def decided(_view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        waited[pod.name] = len(turns) - came[pod.name]
        room.now += 0.001
        room.queue.done(pod.uid)
        return Failed("no matter")

    async def act() -> None:
        monkeypatch.setattr(room.loop.group_cycle, "attempt", attempt)
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        for number in range(150):
            group = a_pod(name=f"group-{number}", labels={GROUP: f"group-{number}"})
            room.queue.add(replace(group, namespace="many"), room.now)
        running = asyncio.create_task(room.loop.run())
        while len(turns) < 150:
            await room.go_on()
            room.now += 0.001
        running.cancel()

    asyncio.run(act())
    assert waited == {f"other-{number}": 0 for number in range(20)}


def test_groups_of_a_lone_namespace_are_decided_without_a_rest(room: LoopRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []

    def attempt(first: QueuedPod, _key: GroupKey, _: float) -> None:
        turns.append(room.now)
        room.now += 0.01
        room.queue.done(first.pod.uid)

    async def act() -> None:
        monkeypatch.setattr(room.loop.group_cycle, "attempt", attempt)
        for number in range(40):
            room.queue.add(a_pod(name=f"group-{number}", labels={GROUP: f"group-{number}"}), room.now)
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns == pytest.approx([100 + number / 100 for number in range(40)])


def test_after_a_decision_about_a_group_who_is_at_work_beside_it_gets_as_long(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is being bound needs many turns of the event loop, and each would take a decision."""
    turns: list[float] = []

    def attempt(first: QueuedPod, _key: GroupKey, _: float) -> None:
        turns.append(room.now)
        room.now += 0.25
        room.queue.done(first.pod.uid)

    async def act() -> None:
        monkeypatch.setattr(room.loop.group_cycle, "attempt", attempt)
        monkeypatch.setattr("scheduler.decision.time_limits.FREE_S", 1.0)  # the order of turns alone counts here
        room.queue.add(replace(a_pod(name="other"), namespace="others"), room.now)
        assert room.queue.pop(room.now)
        for number in range(2):
            room.queue.add(a_pod(name=f"group-{number}", labels={GROUP: f"group-{number}"}), room.now)
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        room.now += 0.125
        await room.go_on()
        assert turns == [100.0]
        room.now += 0.125
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns == [100.0, 100.5]


def test_pod_whose_group_cannot_be_worked_out_waits_and_costs_no_other_its_attempt(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("whatever it is")

    monkeypatch.setattr(Groups, "gate", broken)
    known = KnownGroups(Groups(room.cluster, lambda: room.now), cast(GroupConditions, None))
    assert known.gate(a_pod(name="pod")) == INTERNAL


def test_pod_of_a_namespace_that_waits_is_held_while_others_are_to_be_tried(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    def decided(_view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        room.now += 1.0 if pod.namespace == "dear" else 0.0
        return Failed("no matter")

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        for name in ("dear-0", "dear-1"):
            room.queue.add(replace(a_pod(name=name), namespace="dear"), room.now)
        room.add("other-0", "other-1")
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns[:4] == ["dear-0", "other-0", "other-1", "dear-1"]


def test_pod_waits_for_one_quick_decision_of_a_namespace_with_a_pile_of_them(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    def decided(_view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.namespace)
        room.now += 0.003
        if len(turns) == 5:
            room.add("other-0", "other-1")
        room.queue.done(pod.uid)
        return Failed("no matter")

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        for number in range(20):
            room.queue.add(replace(a_pod(name=f"pile-{number}"), namespace="pile"), room.now)
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns[5:9] == ["default", "pile", "default", "pile"]


def test_costly_pod_of_a_higher_priority_waits_for_none_of_a_lower_one(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for those that are to be tried nor for those that are being bound."""
    turns: list[str] = []

    def decided(view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        if pod.name == "other":
            return Failed("no matter")
        room.now += view.time_limit.most_s
        return OutOfTime("timed out")

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        room.add("bound")
        assert room.queue.pop(room.now)
        room.add("other")
        room.queue.add(replace(a_pod(name="dear", priority=1), namespace="dear"), room.now)
        running = asyncio.create_task(room.loop.run())
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns == ["dear"] * 6 + ["other"]


def test_namespace_does_not_wait_for_what_the_machine_did_beside_its_decisions(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    def decided(_view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        room.now += 1.0
        room.elsewhere_s += 1.0
        return Failed("no matter")

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        for name in ("team-0", "team-1"):
            room.queue.add(replace(a_pod(name=name), namespace="team"), room.now)
        room.add("other-0", "other-1")
        await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert turns[:4] == ["team-0", "other-0", "team-1", "other-1"]


def turns_beside_one_being_bound(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch, result: ScheduleResult, *names: str
) -> tuple[list[str], list[str]]:
    """The turns of costly pods while a pod of another namespace is being bound, and all of them once it has been."""
    turns: list[str] = []

    def decided(view: Cluster, pod: Pod, *_: object) -> ScheduleResult:
        turns.append(pod.name)
        room.now += view.time_limit.most_s
        return result

    async def act() -> list[str]:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        room.add("other")
        assert room.queue.pop(room.now)
        running = asyncio.create_task(room.loop.run())
        for name in names:
            room.queue.add(replace(a_pod(name=name), namespace="dear"), room.now)
        await room.go_on()
        meanwhile = list(turns)
        room.queue.done("uid-other")
        room.now += 1000.0
        await room.go_on()
        running.cancel()
        return meanwhile

    return asyncio.run(act()), turns


def test_costly_decision_is_not_gone_on_with_while_pods_of_others_are_being_bound(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile, turns = turns_beside_one_being_bound(room, monkeypatch, OutOfTime("timed out"), "dear")
    assert meanwhile == ["dear", "dear"], "the first turn is short"
    assert turns.count("dear") == 6


def test_new_pod_of_a_namespace_with_costly_decisions_is_not_decided_while_pods_of_others_are_being_bound(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is the first look at its pod, of which nothing is known yet; their calls would wait for all of them."""
    meanwhile, turns = turns_beside_one_being_bound(
        room, monkeypatch, Failed("no matter"), "dear-0", "dear-1", "dear-2"
    )
    assert meanwhile == ["dear-0", "dear-1"], "the first turn of a namespace is short"
    assert "dear-2" in turns


def test_pod_that_another_process_is_seen_at_work_on_is_left_to_it_for_a_while(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sign of work counts anew; without one more the pod is tried."""
    tried: list[float] = []

    def decided(*_: object) -> ScheduleResult:
        tried.append(room.now)
        return Failed("no matter")

    def work(attempt: int) -> None:
        intent = Intent("ours", 1, "another", "uid-pod", "node", attempt)
        marked = claim_objects.marked({**ELSEWHERE, "status": {}}, intent)
        room.cluster.set_claim(claim_of(marked), 1 + attempt)

    async def act() -> None:
        monkeypatch.setattr("scheduler.live.loop.decide", decided)
        running = asyncio.create_task(room.loop.run())
        work(1)
        room.queue.add(a_user("pod", "claim"), room.now)
        await room.go_on()
        work(2)
        for _ in range(2):
            room.now += LEFT_S
            await room.go_on()
        running.cancel()

    asyncio.run(act())
    assert tried == [100.0 + 2 * LEFT_S]


def test_pod_that_waits_long_for_its_claim_is_told_once(room: LoopRoom) -> None:
    """One that is there soon, or a gate of the pod's own, is not worth a write."""

    async def act() -> list[list[str]]:
        running, told = asyncio.create_task(room.loop.run()), []
        room.queue.add(replace(a_pod(name="waits"), claims=(PodClaim("x", "claim"),)), room.now)
        room.queue.add(replace(a_pod(name="gated"), claims=(PodClaim("x", "claim"),), gates=("own",)), room.now)
        for later_s in (GATED_S - 1, 1.0, GATED_S):
            room.now += later_s
            room.loop.wake()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            told.append([str(one.condition.message) for one in room.refusals._waiting.values()])
            room.refusals._waiting.clear()
        running.cancel()
        return told

    assert asyncio.run(act()) == [[], ['could not find ResourceClaim "default/claim"'], []]


def test_pod_whose_group_waits_long_for_the_claim_of_another_one_is_told_once(room: LoopRoom) -> None:
    member = {"labels": {GROUP: "g"}, "grouping": {MINIMUM: "2"}}
    pods = a_pod(name="ready", **member), replace(a_pod(name="waits", **member), claims=(PodClaim("x", "claim"),))

    async def act() -> list[list[str]]:
        running, told = asyncio.create_task(room.loop.run()), []
        for pod in pods:
            room.cluster.set_pod(pod)
            room.loop._known.groups.on_event(PodChanged(None, pod))
        for pod in pods:
            room.queue.add(pod, room.now)
        await room.go_on()
        for later_s in (GATED_S - 1, 1.0, GATED_S):
            room.now += later_s
            await room.go_on()
            told.append([str(one.condition.message) for one in room.refusals._waiting.values()])
            room.refusals._waiting.clear()
        running.cancel()
        return told

    problem = 'could not find ResourceClaim "default/claim"'
    assert [sorted(texts) for texts in asyncio.run(act())] == [
        [],
        [problem, f"pod group default/g: pod default/waits: {problem}"],
        [],
    ]


def test_event_names_how_many_pods_a_group_waits_for_once_it_has_waited_long(
    room: LoopRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an event of a pod that is there, and is told once."""
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(room.events, "pod_group_waiting", lambda pod, _, text: told.append((pod.name, text)))
    groups = room.loop._known.groups
    pod = a_pod(name="one", labels={GROUP: "g"}, grouping={MINIMUM: "3"})

    async def act() -> list[int]:
        running, counts = asyncio.create_task(room.loop.run()), []
        room.cluster.set_pod(pod)
        groups.on_event(PodChanged(None, pod))
        room.queue.add(pod, room.now)
        for later_s in (HELD_S - 1, 1.0, HELD_S):
            room.now += later_s
            await room.go_on()
            counts.append(len(told))
        running.cancel()
        return counts

    assert asyncio.run(act()) == [0, 1, 1]
    assert told == [("one", "waiting for 2 of 3 pods of group default/g to be created")]


def test_second_look_at_what_a_group_wins_has_as_long_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    room, given = LoopRoom(preempts=True), list[float]()
    limit, cycle = room.cluster.time_limit, room.loop.group_cycle
    group = GroupOfPods(GroupKey("label", "default", "g"), (a_pod(),), 1, 0)

    def wins(*_: object) -> bool:
        given.append(limit.most_s)
        return True

    monkeypatch.setattr(cycle, "_groups", SimpleNamespace(group=lambda _: group))
    monkeypatch.setattr(cycle._preemptions, "group_wins_again", wins)
    limit.give(0.25)  # the pod that was decided last had no more
    taken = SimpleNamespace(group=group, entries=[SimpleNamespace(pod=a_pod())])
    assert cycle._is_so_still(cast(Any, taken), cast(Any, None))
    assert given == [group_cycle.DECISION_S]


def test_members_of_a_group_for_which_others_go_are_at_that_step(monkeypatch: pytest.MonkeyPatch) -> None:
    room, steps = LoopRoom(preempts=True), list[Counter[str]]()
    cycle, progress = room.loop.group_cycle, room.loop.group_cycle._binder.progress
    pods = (a_pod(name="one"), a_pod(name="two"))
    group = GroupOfPods(GroupKey("label", "default", "g"), pods, 2, 0)
    records = tuple(PreemptionRecord(pod, NODE, victims=frozenset({"victim"})) for pod in pods)

    async def evict(*_: object) -> bool:
        steps.append(progress.by_step())
        return False

    monkeypatch.setattr(cycle, "_evict", evict)
    taken = group_cycle._GroupInFlight(group, [], room.now)
    won = GroupToWin(GroupPreemption(""), records, ())
    asyncio.run(cycle._preempt(taken, won, Refusal(frozenset(), pod_requests(pods[0]))))
    assert [*steps, progress.by_step()] == [{EVICT: 2}, {}]


def test_group_that_changes_before_others_go_for_it_is_tried_again_and_keeps_what_it_has_won(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = LoopRoom(preempts=True)
    cycle, preemptions = room.loop.group_cycle, room.loop.group_cycle._preemptions
    room.add("pod")
    entry = room.queue.pop(room.now)
    assert entry is not None
    group = GroupOfPods(GroupKey("label", "default", "g"), (entry.pod,), 1, 0)
    larger = replace(group, members=(entry.pod, a_pod(name="other")))
    preemptions._records.set(PreemptionRecord(entry.pod, NODE))
    monkeypatch.setattr(cycle, "_groups", SimpleNamespace(group=lambda _: larger))
    monkeypatch.setattr(preemptions, "group_preemption", lambda *_: pytest.fail("it is another group by now"))
    taken = group_cycle._GroupInFlight(group, [entry], room.now)
    asyncio.run(cycle._preempt_later(taken, Refusal(frozenset(), pod_requests(entry.pod)), 1.0))
    assert room.rested_s == [1.0]
    assert room.queue.pop(room.now) is entry
    assert list(preemptions.records) == [entry.pod.uid]


@pytest.mark.parametrize(("place_s", "expected"), [(0.5, [[6.0, 6.0, 1.0]]), (3.0, [[6.0], [6.0, 1.0]])])
def test_who_goes_for_a_group_is_decided_in_a_turn_of_its_own_if_its_place_took_long(
    monkeypatch: pytest.MonkeyPatch, place_s: float, expected: list[list[float]]
) -> None:
    """All of a turn together ends before a lease does. Of each turn: how long its decisions may take, by the clock."""
    room, turns = LoopRoom(preempts=True), list[list[float]]()
    cycle, preemptions = room.loop.group_cycle, room.loop.group_cycle._preemptions

    def takes(so_long_s: float) -> None:
        with monkeypatch.context() as still:
            still.setattr(room.cluster.time_limit, "_clock", lambda: 0.0)
            with room.cluster.time_limit.limited():
                turns[-1].append(room.cluster.time_limit._ends[0])
        room.now += so_long_s

    def place(*_: object) -> GroupNotPlaced:
        takes(place_s)
        return GroupNotPlaced()

    def wins(*_: object) -> NothingToWin:
        takes(3.0)
        return NothingToWin("")

    def holds(*_: object) -> bool:
        takes(0.5)
        return False

    @contextmanager
    def turn(_: Pod) -> Iterator[None]:
        turns.append([])
        yield

    monkeypatch.setattr(group_cycle, "place_group", place)
    monkeypatch.setattr(preemptions, "group_preemption", wins)
    monkeypatch.setattr(preemptions.reservations, "refused", holds)
    monkeypatch.setattr(cycle, "_time_of", turn)
    room.add("pod")
    entry = room.queue.pop(room.now)
    assert entry is not None
    group = GroupOfPods(GroupKey("label", "default", "g"), (entry.pod,), 1, 0)
    monkeypatch.setattr(cycle, "_groups", SimpleNamespace(group=lambda _: group, objects_of=lambda _: ()))
    started = list[Coroutine[Any, Any, None]]()
    monkeypatch.setattr(cycle._attempts, "start", started.append)
    turns.append([])
    cycle._try(group_cycle._GroupInFlight(group, [entry], room.now))
    for later in started:
        asyncio.run(later)
    assert turns == expected
