"""What is kept for pods that have won a place, when they may try again, and what an annotation is worth."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest

from scheduler.attempt.eviction import NOMINATION, StoredRecord, stored_record
from scheduler.core_v1.label_selectors import requirements
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.time_limits import MOST_S, DecisionTimeLimit
from scheduler.live.preemptions import NothingToWin, PlaceToWin, Preemptions, PreemptionTerms
from scheduler.preemption.records import RecordState
from scheduler.state.cluster_changes import Event, GivenBack, PodChanged
from tests.builders import (
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
    watched,
)

HELD = an_allocated_claim("gpu-0", name="held")
VICTIM = a_user("victim", "held", node_name=NODE, priority=1, scheduler_name="other", labels={"team": "a"})
URGENT = a_user("urgent", "own", priority=10, scheduler_name="ours")
RIVAL = a_user("rival", "rivals", priority=10, scheduler_name="ours")
OWN, RIVALS = a_claim(name="own"), a_claim(name="rivals")


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
            lambda pod: pod.scheduler_name == "ours",
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

    def nothing_happens(self) -> None:
        pass

    def victim_ends(self) -> None:
        self.cluster.set_pod(replace(VICTIM, is_deleting=True))

    def victim_goes(self) -> None:
        self.cluster.remove_pod(VICTIM.uid)

    def claim_is_released(self) -> None:
        self.cluster.set_claim(watched(replace(HELD, allocation=None)), 2)

    @property
    def state(self) -> RecordState:
        return self.preemptions.state(self.preemptions.records[URGENT.uid])


def test_pod_that_has_won_is_placed_when_all_is_free_and_a_rival_is_not() -> None:
    room = Room()
    room.preempt()
    states, told = [], []
    for step in (room.nothing_happens, room.victim_ends, room.victim_goes, room.claim_is_released):
        step()
        states.append(room.state)
        told += list(room.preemptions.held())
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
    assert isinstance(room.ask(now=now), NothingToWin)


def test_what_a_pod_had_won_is_given_back_when_the_pod_goes() -> None:
    room = Room()
    room.preempt()
    room.preemptions.on_event(PodChanged(URGENT, None))
    assert room.preemptions.records == {}
    assert [type(one) for one in room.given_back] == [GivenBack]


CLAIMS_LOST: dict[str, Callable[[Cluster], None]] = {
    "gone": lambda cluster: cluster.remove_claim(OWN.uid),
    "ending": lambda cluster: cluster.set_claim(watched(OWN, deleting=True), 2),
    "another of its name": lambda cluster: cluster.set_claim(watched(replace(OWN, uid="another")), 2),
}
"""What may become of the claim for which a pod has won devices."""


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


def test_attempt_that_fails_leaves_what_was_won() -> None:
    room = Room()
    won = room.preempt()
    placed = Placed(NODE, (OWN,), won.preemption.allocations)
    room.preemptions.placing(URGENT, placed)
    assert not room.preemptions.records
    room.preemptions.unplaced(URGENT)
    assert room.preemptions.records
    assert room.given_back == []


@pytest.mark.parametrize(
    "terms", [{"of_all": False}, {"never": requirements("team=a")}, {"delay_s": 5.0}], ids=["own", "never", "delay"]
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
