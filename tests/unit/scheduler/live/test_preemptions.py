"""What is kept for pods that have won a place, when they may try again, and what an annotation is worth."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from allocator.limits import ONE_DEVICE, CountedDevices, TenantLimit
from allocator.model import Allocation, DeviceResult
from scheduler.attempt.eviction import NOMINATION, StoredRecord, stored_record
from scheduler.core_v1.label_selectors import equal_labels
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.time_limits import MOST_S, DecisionTimeLimit
from scheduler.live.endings import summary, with_text
from scheduler.live.preemptions import SPARED, NothingToWin, PlaceToWin, Preemptions, PreemptionTerms, _Kept
from scheduler.live.program import Scheduler
from scheduler.plugins.plugin import Refusal
from scheduler.pod_groups.group import GroupKey, GroupOfPods
from scheduler.preemption.records import PreemptionRecord, RecordState
from scheduler.preemption.victims import Unit
from scheduler.runtime.cluster_updates import ClusterUpdates
from scheduler.runtime.configuration import Configuration, load
from scheduler.state.cluster_changes import Event, GivenBack, PodChanged
from scheduler.state.pods import pod_requests
from tests.builders import (
    DRIVER,
    NODE,
    a_claim,
    a_class,
    a_node,
    a_request,
    a_slice,
    a_user,
    amounts,
    an_allocated_claim,
    kubernetes,
    on_node,
    watched,
)

HELD = an_allocated_claim("gpu-0", name="held")
VICTIM = a_user("victim", "held", node_name=NODE, priority=1, scheduler_name="other", labels={"team": "a"})
URGENT = a_user("urgent", "own", priority=10, scheduler_name="ours")
RIVAL = a_user("rival", "rivals", priority=10, scheduler_name="ours")
OWN, RIVALS = a_claim(name="own"), a_claim(name="rivals")


RETRIED_S = 1.0
"""So soon a pod is tried again whose victims have gone."""
UNSCHEDULABLE_S = 300.0
"""After so long without an event."""
HALF_AN_HOUR_S = 1800.0


def is_ours(pod: Pod) -> bool:
    return pod.scheduler_name == "ours"


def spared(**settings: str) -> Callable[[Pod], bool]:
    """The pods that a configuration with these fields spares."""
    return load(Configuration, None, settings).spared(is_ours)


class Room:
    """One node whose only device a pod of priority 1 has, and the preemptions there."""

    def __init__(self, *, times: Iterator[float] | None = None, **terms: Any) -> None:
        limit = DecisionTimeLimit((times or repeat(0.0)).__next__)
        self.cluster = cluster = Cluster(kubernetes(), is_ours=lambda _: True, time_limit=limit)
        self.given_back: list[Event] = []
        self.in_vain = 0
        self.preemptions = Preemptions(
            cluster,
            PreemptionTerms(is_on=True, **terms),
            is_ours,
            self.given_back.append,
            self._count,
        )
        cluster.set_class(a_class())
        cluster.set_node(a_node(allocatable=amounts(cpu="2", memory="1Gi", pods="9")))
        cluster.set_slice(a_slice("gpu-0"))
        cluster.set_pod(VICTIM)
        cluster.set_claim(watched(HELD, users=[VICTIM]), 1)
        cluster.set_claim(watched(OWN), 1)
        cluster.set_claim(watched(RIVALS), 1)

    def _count(self) -> None:
        self.in_vain += 1

    def ask(self, pod: Pod = URGENT, now: float = 0.0) -> Placed | PlaceToWin | NothingToWin:
        """What becomes of the pod."""
        claims = [OWN if pod.uid == URGENT.uid else RIVALS]
        pod = self.preemptions.promised(pod)
        with self.preemptions.seen_by(pod):
            decided = decide(self.cluster, pod, claims)
            if isinstance(decided, Placed):
                return decided
            assert isinstance(decided, NotPlaced)
            found = self.preemptions.preemption(PodCycle(self.cluster, pod, claims), decided, 0.0, now)
        if isinstance(found, NothingToWin) and found.drops:
            self.preemptions.drop(pod.uid)
        return found

    def preempt(self, now: float = 0.0) -> PlaceToWin:
        """The urgent pod preempts, and all calls for it are made."""
        won = self.ask(now=now)
        assert isinstance(won, PlaceToWin), won
        self.preemptions.begin(won)
        self.preemptions.evicted(URGENT.uid)
        return won

    def a_node_with_a_pod_of_ours(self) -> None:
        """Another one, whose only device a pod of this scheduler has."""
        self.cluster.set_node(a_node("node-1", allocatable=amounts(cpu="2", memory="1Gi", pods="9")))
        self.cluster.set_slice(a_slice("gpu-1", name="slice-1", pool="pool-1", reach=on_node("node-1")))
        victim = a_user("own-victim", "held-1", node_name="node-1", priority=1, scheduler_name="ours")
        self.cluster.set_pod(victim)
        claim = a_claim(name="held-1", allocation=Allocation((DeviceResult("gpus", DRIVER, "pool-1", "gpu-1"),)))
        self.cluster.set_claim(watched(claim, users=[victim]), 1)

    def nothing_happens(self) -> None:
        pass

    def victim_ends(self) -> None:
        self.cluster.set_pod(replace(VICTIM, is_deleting=True))

    def victim_goes(self) -> None:
        self.cluster.remove_pod(VICTIM.uid)

    def claim_is_released(self, version: int = 2) -> None:
        self.cluster.set_claim(watched(replace(HELD, allocation=None)), version)

    @property
    def state(self) -> RecordState:
        return self.preemptions.states().of(self.preemptions.records[URGENT.uid])


def test_pod_that_has_won_is_placed_when_all_is_free_and_a_rival_is_not() -> None:
    room = Room()
    room.preempt()
    states, told = [], []
    for step in (room.nothing_happens, room.victim_ends, room.victim_goes, room.claim_is_released):
        step()
        states.append(room.state)
        told += list(room.preemptions.held(room.preemptions.states()))
        assert not isinstance(room.ask(RIVAL), Placed)
    assert states == [RecordState.EVICTING, RecordState.LEAVING, RecordState.RELEASING, RecordState.HELD]
    assert [pod.uid for pod in told] == [URGENT.uid]
    assert isinstance(room.ask(), Placed)


@pytest.mark.parametrize("steps", [1, 2])
def test_nobody_else_goes_for_a_pod_of_the_node_while_the_first_ones_do(steps: int) -> None:
    room = Room()
    room.preempt()
    for step in (room.victim_ends, room.victim_goes)[:steps]:
        step()
    found = room.ask()
    assert isinstance(found, NothingToWin)
    assert "not eligible" in found.text
    assert not found.drops


def test_eviction_of_which_a_call_has_failed_is_begun_again() -> None:
    room = Room()
    room.preempt()
    assert isinstance(room.ask(), PlaceToWin)


def test_call_that_fails_is_tried_again_at_once_and_after_a_backoff_if_it_fails_again() -> None:
    room = Room()
    room.preempt()
    evicted = room.preemptions.evicted
    waits = [evicted(URGENT.uid, has_failed=one) for one in (True, True, False, True)]
    assert waits[0] == waits[3] == 0.0
    assert waits[1] is None


def test_victim_that_was_cancelled_before_it_was_bound_is_gone_although_it_is_there() -> None:
    room = Room()
    unbound, asked = replace(VICTIM, node_name=""), replace(HELD, allocation=None)
    room.cluster.set_pod(unbound)
    room.cluster.set_claim(watched(asked), 2)
    placed = decide(room.cluster, unbound, [asked])
    assert isinstance(placed, Placed)
    room.cluster.reserve(unbound, placed)
    assert isinstance(room.ask(), NothingToWin)  # what is being written is not won
    room.cluster.written(HELD.uid, 3)
    room.cluster.set_claim(watched(HELD, users=[VICTIM]), 3)
    room.preempt()
    told = [(room.state.value, room.preemptions.status(URGENT.uid, room.preemptions.states()))]
    steps: list[Callable[[], None]] = [partial(room.cluster.unreserve, VICTIM.uid), partial(room.claim_is_released, 4)]
    for step in steps:
        step()
        told.append((room.state.value, room.preemptions.status(URGENT.uid, room.preemptions.states())))
    assert told == [
        ("evicting", f"waiting for 1 of 1 preempted pod to end on node {NODE}"),
        ("releasing", f"waiting for claims of 1 preempted pod to be deallocated on node {NODE}"),
        ("held", f"node {NODE} is kept for it, with all that 1 preempted pod had to give"),
    ]
    assert isinstance(room.ask(), Placed)


def test_preemption_that_wins_no_place_delays_the_next_one_longer_each_time() -> None:
    room, waits, now = Room(), [], 0.0
    thief, taken = replace(VICTIM, uid="thief", name="thief"), an_allocated_claim("gpu-0", name="stolen")
    for version in (10, 20, 30):
        room.preempt(now)
        room.victim_goes()
        room.cluster.set_claim(watched(replace(HELD, allocation=None)), version)
        room.cluster.set_pod(thief)  # somebody else is faster
        room.cluster.set_claim(watched(taken, users=[thief]), version)
        found = room.ask(now=now)
        assert isinstance(found, NothingToWin)
        assert found.is_backed_off
        assert not found.clears  # as for every pod that may not preempt now
        assert found.again_s is not None
        waits.append(found.again_s)
        now += found.again_s
        room.cluster.remove_claim(taken.uid)
        room.cluster.remove_pod(thief.uid)
        room.cluster.set_pod(VICTIM)
        room.cluster.set_claim(watched(HELD, users=[VICTIM]), version + 1)
    assert waits == [20, 40, 80]
    assert room.in_vain == 3
    # From now on pods of other schedulers are spared.
    spared = room.ask(now=now)
    assert isinstance(spared, NothingToWin)
    assert spared.text.endswith(SPARED)
    room.a_node_with_a_pod_of_ours()
    won = room.ask(now=now)
    assert isinstance(won, PlaceToWin), won
    assert won.record.victims == {"uid-own-victim"}


def test_owner_is_told_who_goes_and_of_other_namespaces_how_many() -> None:
    room = Room()
    other = replace(VICTIM, namespace="other")
    room.cluster.budgets.set(PodDisruptionBudget("default", "guard", equal_labels({"team": "a"}), 0))
    won = room.ask()
    assert isinstance(won, PlaceToWin)
    told = "evicts default/victim; frees claims default/held; violates budgets default/guard"
    assert summary(won) == summary(won, "default") == told
    refusal = Refusal(frozenset(), pod_requests(URGENT), message="0/1 nodes are available")
    assert with_text(refusal, won).message.endswith(f"{NODE}, preempting 1 victims: {told}")
    assert won.preemption.candidate is not None
    both = [Unit.of(one) for one in (VICTIM, other)]
    two = replace(won, preemption=replace(won.preemption, candidate=replace(won.preemption.candidate, victims=both)))
    assert summary(two, "default").startswith("evicts default/victim and 1 of other namespaces; frees")
    others = "frees 1 claim of other namespaces; violates 1 budget of other namespaces"
    assert summary(two, "third") == f"evicts 2 of other namespaces; {others}"
    assert summary(two).startswith("evicts default/victim, other/victim; frees")


@pytest.mark.parametrize(("rival", "most"), [("other", 3), ("ours", 8)])
def test_rival_that_puts_the_victim_back_at_once_costs_few_evictions(rival: str, most: int) -> None:
    room, times, now = Room(), list[float](), 0.0
    victim = replace(VICTIM, scheduler_name=rival)
    room.cluster.set_pod(victim)
    for number in range(100):
        found = room.ask(now=now)
        if isinstance(found, PlaceToWin):
            times.append(now)
            room.preemptions.begin(found)
            room.preemptions.evicted(URGENT.uid)
            room.cluster.remove_pod(victim.uid)
            room.claim_is_released(2 * number + 2)
            # Before anything is decided for the pod, another scheduler has put a new one of the victim's owner there.
            victim = replace(victim, uid=f"victim-{number}")
            room.cluster.set_pod(victim)
            room.cluster.set_claim(watched(HELD, users=[victim]), 2 * number + 3)
        assert not isinstance(found, Placed)
        now += RETRIED_S if isinstance(found, PlaceToWin) else found.again_s or UNSCHEDULABLE_S
    assert now > 10 * HALF_AN_HOUR_S  # for as long as this goes on
    begins = [sum(begin <= one < begin + HALF_AN_HOUR_S for one in times) for begin in times]
    assert 1 < max(begins) <= most


def test_what_a_pod_had_won_is_given_back_when_the_pod_goes() -> None:
    room = Room()
    room.preempt()
    room.preemptions.on_event(PodChanged(URGENT, None))
    assert room.preemptions.records == {}
    assert [type(one) for one in room.given_back] == [GivenBack]


def test_failures_of_a_group_are_forgotten_with_the_last_pod_that_waited_then() -> None:
    room, group = Room(), GroupOfPods(GroupKey("label", "default", "g"), (URGENT, RIVAL), 2, 10)
    for pod in (URGENT, RIVAL):
        room.cluster.set_pod(pod)
    room.preemptions.group_failed(group, 0.0)

    def is_backed_off() -> bool:
        found = room.preemptions.group_preemption(group, 0.0, 0.0)
        return isinstance(found, NothingToWin) and found.is_backed_off

    before = is_backed_off()
    room.preemptions.on_event(PodChanged(URGENT, None))
    with_one_left = is_backed_off()
    room.preemptions.on_event(PodChanged(RIVAL, None))
    assert (before, with_one_left, is_backed_off()) == (True, True, False)


def test_failures_of_a_group_that_has_gone_meanwhile_are_not_remembered() -> None:
    room, group = Room(), GroupOfPods(GroupKey("label", "default", "g"), (URGENT, RIVAL), 2, 10)
    assert room.preemptions.group_failed(group, 0.0) > 0  # a call for them was under way
    found = room.preemptions.group_preemption(group, 0.0, 0.0)
    assert not (isinstance(found, NothingToWin) and found.is_backed_off)


CLAIMS_LOST: dict[str, Callable[[Cluster], None]] = {
    "gone": lambda cluster: cluster.remove_claim(OWN.uid),
    "ending": lambda cluster: cluster.set_claim(watched(OWN, deleting=True), 2),
    "another of its name": lambda cluster: cluster.set_claim(watched(replace(OWN, uid="another")), 2),
}
"""What may become of the claim for which a pod has won devices."""


def test_records_with_many_claims_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.live.preemptions.MOST_CLAIMS", 4)
    room = Room()
    for number in range(5):
        pod = a_user(f"pod-{number}", "gone")
        room.preemptions._records.set(PreemptionRecord(pod, "node-0", (a_claim(name="gone"),)))
        room.preemptions._kept[pod.uid] = _Kept()
    left = []
    while room.preemptions.records:
        room.preemptions.end_hopeless(0.0)
        left.append(len(room.preemptions.records))
    assert left == [3, 1, 0]


@pytest.mark.parametrize("fate", CLAIMS_LOST)
@pytest.mark.parametrize("steps", [0, 3])
def test_nothing_is_kept_for_a_claim_that_is_gone(fate: str, steps: int) -> None:
    """Otherwise an owner of one claim at a time could keep all devices from everybody."""
    room = Room()
    room.preempt()
    for step in (room.victim_ends, room.victim_goes, room.claim_is_released)[:steps]:
        step()
    room.preemptions.end_hopeless(0.0)
    assert room.preemptions.records
    if fate == "another of its name":
        room.cluster.remove_claim(OWN.uid)
    CLAIMS_LOST[fate](room.cluster)
    room.preemptions.end_hopeless(0.0)
    assert not room.preemptions.records
    assert len(room.given_back) == 1
    assert room.in_vain == 1
    assert isinstance(room.ask(RIVAL), Placed) is (steps == 3)


def test_nomination_that_somebody_else_clears_ends_the_preemption_and_one_not_shown_yet_counts() -> None:
    room = Room()
    room.preempt()
    promised = replace(URGENT, nominated_node=NODE)
    room.cluster.set_pod(URGENT)
    room.preemptions.on_event(PodChanged(URGENT, URGENT))
    assert [pod.uid for pod in room.cluster.nominations.on(NODE)] == [URGENT.uid]
    room.preemptions.on_event(PodChanged(URGENT, promised))
    assert room.preemptions.records
    room.preemptions.on_event(PodChanged(promised, URGENT))
    assert not room.preemptions.records


def at_most(devices: int) -> TenantLimit:
    return TenantLimit("few", counted=CountedDevices(driver=DRIVER), most=devices * ONE_DEVICE)


def test_pod_that_a_limit_refuses_whoever_goes_preempts_nobody() -> None:
    room = Room()
    room.cluster.set_limits([at_most(0)])
    assert isinstance(room.ask(), NothingToWin)
    room.cluster.set_limits([at_most(1)])  # its tenant's own victim gives back what it needs
    assert isinstance(room.ask(), PlaceToWin)


@pytest.mark.parametrize("is_refused_meanwhile", [False, True])
def test_what_a_pod_has_won_is_kept_until_a_limit_refuses_the_pod(*, is_refused_meanwhile: bool) -> None:
    room = Room()
    room.cluster.set_limits([at_most(1)])
    room.preempt()
    for step in (room.victim_ends, room.victim_goes, room.claim_is_released):
        step()
    if is_refused_meanwhile:
        room.cluster.set_limits([at_most(0)])
        found = room.ask()
        assert isinstance(found, NothingToWin)
        assert found.drops
        room.cluster.set_limits([at_most(1)])
    assert isinstance(room.ask(RIVAL), Placed) == is_refused_meanwhile
    assert isinstance(room.ask(), Placed)  # the rival was asked, and took nothing


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_what_victims_still_hold_is_not_told_as_in_use_a_second_time(steps: int) -> None:
    room = Room()
    room.cluster.set_limits([at_most(1)])
    updates = ClusterUpdates(room.cluster, [])
    room.preempt()
    for step in (room.victim_ends, room.victim_goes, room.claim_is_released)[:steps]:
        step()
    updates.log_exceeded(room.preemptions.only_held)
    assert updates.limits_trouble == ""
    room.cluster.set_limits([at_most(0)])
    updates.log_exceeded(room.preemptions.only_held)
    assert updates.limits_trouble == "limit few is exceeded: 1 of 0 in use"
    parts = cast(Scheduler, SimpleNamespace(_preemptions=room.preemptions, _cluster=room.cluster))
    assert [one.used for one in Scheduler._limits(parts)] == [1_000_000_000]


def test_attempt_that_fails_leaves_what_was_won() -> None:
    room = Room()
    won = room.preempt()
    allocations = tuple(claim.allocation for claim in won.record.claims if claim.allocation is not None)
    placed = Placed(NODE, (OWN,), allocations)
    room.preemptions.placing(URGENT, placed)
    assert not room.preemptions.records
    room.preemptions.unplaced(URGENT)
    assert room.preemptions.records
    assert room.given_back == []


@pytest.mark.parametrize(
    "terms", [{"spares": spared(preemptPodsOf="own")}, {"spares": spared(neverPreempt="team=a")}, {"delay_s": 5.0}]
)
def test_terms_keep_pods(terms: dict[str, Any]) -> None:
    room = Room(**terms)
    assert isinstance(room.ask(now=1.0), NothingToWin)


def test_record_is_restored_while_its_victim_ends_and_after() -> None:
    for steps in (1, 2, 3):
        room = Room()
        stored = StoredRecord.of(room.preempt().record)
        later = Room()
        for step in (later.victim_ends, later.victim_goes, later.claim_is_released)[:steps]:
            step()
        pod = replace(URGENT, nominated_node=NODE)
        later.cluster.set_pod(pod)
        assert later.preemptions.restore(pod, stored, 0.0)
        assert later.state is (RecordState.LEAVING, RecordState.RELEASING, RecordState.HELD)[steps - 1]
        assert not isinstance(later.ask(RIVAL), Placed)


def test_record_is_not_restored_while_its_victim_lives() -> None:
    room = Room()
    record = StoredRecord(NODE, {}, frozenset({VICTIM.uid}), frozenset({HELD.uid}), tries=-9)
    pod = replace(URGENT, nominated_node=NODE)
    room.cluster.set_pod(pod)
    assert not room.preemptions.restore(pod, record, 0.0)
    assert not room.preemptions.records


CLAIMS_MADE_ANEW = {
    "with a selector that fails": a_request("gpus", 1, 'device.attributes["missing.example"].model == "a"'),
    "with a selector that does not compile": a_request("gpus", 1, "not ("),
    "of a class that is not there": a_request("gpus", class_name="missing"),
    "for more than there is": a_request("gpus", 2),
}
"""What the owner of a pod that was promised a node may put in the place of its claim."""


@pytest.mark.parametrize("claim", CLAIMS_MADE_ANEW)
def test_record_is_not_restored_where_the_claims_are_others_by_now(claim: str) -> None:
    stored, later = StoredRecord.of(Room().preempt().record), Room()
    later.victim_goes()
    later.claim_is_released()
    later.cluster.set_claim(watched(a_claim(CLAIMS_MADE_ANEW[claim], name="own")), 3)
    pod = replace(URGENT, nominated_node=NODE)
    later.cluster.set_pod(pod)
    assert not later.preemptions.restore(pod, stored, 0.0)
    assert isinstance(later.ask(RIVAL), Placed)


def test_record_is_not_restored_where_that_takes_long() -> None:
    stored, later = StoredRecord.of(Room().preempt().record), Room(times=iter((0.0, *[MOST_S] * 99)))
    later.victim_goes()
    later.claim_is_released()
    pod = replace(URGENT, nominated_node=NODE)
    later.cluster.set_pod(pod)
    assert not later.preemptions.restore(pod, stored, 0.0)


@pytest.mark.parametrize("changes", [None, {"node_name": NODE}, {"is_deleting": True}])
def test_record_of_a_pod_that_waits_no_more_is_not_restored(changes: dict[str, Any] | None) -> None:
    stored, later = StoredRecord.of(Room().preempt().record), Room()
    later.victim_goes()
    later.claim_is_released()
    pod = replace(URGENT, nominated_node=NODE)
    if changes:
        later.cluster.set_pod(replace(pod, **changes))
    assert not later.preemptions.restore(pod, stored, 0.0)
    assert not later.preemptions.records


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"node": 1}', '{"node": "n", "victims": 1, "released": [], "tries": 0}']
)
def test_annotation_of_another_form_is_no_record(text: str) -> None:
    assert (
        stored_record({"metadata": {"annotations": {NOMINATION: text}}, "status": {"nominatedNodeName": "n"}}) is None
    )


@pytest.mark.parametrize(("node", "is_read"), [("node-0", True), ("another", False), ("", False)])
def test_record_counts_only_on_the_node_that_the_status_names(node: str, *, is_read: bool) -> None:
    text = str(StoredRecord("node-0", {}, frozenset({"a"}), frozenset({"b"}), 2))
    found = stored_record({"metadata": {"annotations": {NOMINATION: text}}, "status": {"nominatedNodeName": node}})
    assert (found == StoredRecord("node-0", {}, frozenset({"a"}), frozenset({"b"}), 2)) is is_read
