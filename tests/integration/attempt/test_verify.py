"""Two writers that take one device: at most one binds, and the first of them where both are honest."""

import asyncio

from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import allocation_of, consumers_of
from scheduler.attempt.decision import AttemptOutcome, Bound, Retry
from scheduler.attempt.run import bind_pod
from scheduler.attempt.steps.claims import GIVE_WAY_S
from tests.controlplane.faults import Answer, Forward, refuse
from tests.integration.attempt.scene import (
    NODE,
    STATUS,
    Scene,
    a_rival,
    allocation_json,
    gets,
    is_untouched,
    keeps,
    reservation,
)

LATER = a_rival("work", "later", 1 << 40)


def test_later_writer_of_the_same_device_gives_way_and_leaves_nothing(scene: Scene) -> None:
    first, second = scene.a_claim("a"), scene.a_claim("b")
    assert scene.bind(scene.a_decision(scene.a_pod("a", name="pod-a"), gets(first, "gpu-0"))) == Bound(NODE)
    outcome = scene.bind(scene.a_decision(scene.a_pod("b", name="pod-b"), gets(second, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "claim work/b: claim work/a took its devices first"
    assert outcome.after_s == 0.0, "what the other has is known: the next decision goes elsewhere"
    assert is_untouched(scene.claim("b"))
    assert scene.pod("pod-a")["spec"]["nodeName"] == NODE


def test_devices_that_another_claim_was_seen_to_have_meanwhile_are_not_written(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.watched.faster = [a_rival("work", "faster", 1)]
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry(
        "claim work/claim: claim work/faster took its devices first", after_s=0.0, is_lost=True, is_taken=True
    )
    assert scene.claim()["metadata"]["resourceVersion"] == claim["metadata"]["resourceVersion"]


def test_denied_devices_that_another_claim_was_seen_to_have_meanwhile_are_a_lost_race(scene: Scene) -> None:
    """As a guard denies them, which saw the other claim first."""
    claim = scene.a_claim()
    deny = refuse(409, "Conflict", 'admission webhook "guard.example" denied the request: gpu-0 is held')

    async def denied_and_seen(forward: Forward) -> Answer:
        scene.watched.faster = [a_rival("work", "faster", 1)]
        return await deny(forward)

    scene.proxy.on("PUT", STATUS, denied_and_seen)
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry(
        "claim work/claim: claim work/faster took its devices first", after_s=0.0, is_lost=True, is_taken=True
    )
    assert is_untouched(scene.claim())


def test_of_many_writers_at_once_at_most_one_binds_and_the_others_leave_nothing(scene: Scene) -> None:
    names = [f"c{index}" for index in range(8)]
    claims = [scene.a_claim(name) for name in names]
    pods = [scene.a_pod(name, name=name) for name in names]
    decisions = [scene.a_decision(pod, gets(claim, "gpu-0")) for pod, claim in zip(pods, claims, strict=True)]

    async def all_at_once(binder: Binder) -> list[AttemptOutcome]:
        return await asyncio.gather(*(bind_pod(binder, decision) for decision in decisions))

    outcomes = scene.run(all_at_once)
    bound = [name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, Bound)]
    assert len(bound) <= 1
    assert all(isinstance(outcome, Retry) for outcome in outcomes if not isinstance(outcome, Bound))
    assert [name for name in names if scene.pod(name)["spec"].get("nodeName")] == bound
    assert all(is_untouched(scene.claim(name)) for name in names if name not in bound)


def test_earlier_writer_waits_for_the_later_one_to_give_way(scene: Scene) -> None:
    scene.watched.others = [LATER]

    def give_way() -> None:
        if scene.time.passed_s > 1.0:
            scene.watched.others = []

    scene.time.on_sleep = give_way
    decision = scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0"))
    assert scene.bind(decision) == Bound(NODE)
    assert 1.0 < scene.time.passed_s < GIVE_WAY_S


def test_earlier_writer_gives_way_as_well_when_the_later_one_never_does(scene: Scene) -> None:
    scene.watched.others = [LATER]
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "claim work/claim: claim work/later holds the same devices and does not give way"
    assert scene.time.passed_s >= GIVE_WAY_S
    assert is_untouched(scene.claim())


def test_shared_claim_that_came_too_late_is_given_back_by_the_last_pod_that_has_it(scene: Scene) -> None:
    first, second = scene.a_claim("a"), scene.a_claim("b")
    scene.bind(scene.a_decision(scene.a_pod("a", name="pod-a"), gets(first, "gpu-0")))
    late = scene.api.replace_status({**second, "status": {"allocation": allocation_json("gpu-0")}})
    outcome = scene.bind(scene.a_decision(scene.a_pod("b", name="pod-b"), keeps(late)))
    assert isinstance(outcome, Retry)
    assert is_untouched(scene.claim("b"))
    assert scene.pod("pod-a")["spec"]["nodeName"] == NODE


def test_pod_that_has_its_node_already_gives_way_with_what_it_took_and_keeps_what_it_had(scene: Scene) -> None:
    first, kept, late = scene.a_claim("a"), scene.a_claim("b"), scene.a_claim("c")
    scene.bind(scene.a_decision(scene.a_pod("a", name="pod-a"), gets(first, "gpu-0")))
    pod = scene.a_pod("b", "c", name="pod-b", nodeName=NODE)
    status = {"allocation": allocation_json("gpu-1"), "reservedFor": [reservation(pod)]}
    kept = scene.api.replace_status({**kept, "status": status})
    outcome = scene.bind(scene.a_decision(pod, keeps(kept), gets(late, "gpu-0"), is_assigned=True))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "claim work/c: claim work/a took its devices first"
    assert consumers_of(scene.claim("b")) == (pod["metadata"]["uid"],)
    assert allocation_of(scene.claim("b"))
    assert is_untouched(scene.claim("c"))


def test_view_that_stays_behind_is_brought_up_by_a_list(scene: Scene) -> None:
    scene.watched.is_shown = False
    assert scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0"))) == Bound(NODE)
    assert scene.watched.lists == 1
