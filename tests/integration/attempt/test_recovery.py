"""A process that ends in the middle: what it leaves is found and settled, and its pods get their nodes."""

import asyncio

import pytest

from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import allocation_of, consumers_of, intent_of, key_of
from scheduler.attempt.claim_step import deallocate_one
from scheduler.attempt.decision import Bound, ClaimPlan, Decision, Retry
from scheduler.attempt.run import bind_pod
from scheduler.client.connection import Api
from scheduler.client.errors import ApiError
from scheduler.kinds import WatchedClaim, claim_of
from scheduler.repair import LEAST_AGE_S, Sweep, recover
from tests.controlplane.faults import Hold, meanwhile
from tests.controlplane.rest import CLAIM, Json
from tests.integration.attempt.scene import (
    BINDING,
    CLAIM_ITSELF,
    DRIVER,
    NODE,
    SCHEDULER,
    Killed,
    Mortal,
    Scene,
    allocation_json,
    devices_of,
    gets,
    is_untouched,
    keeps,
    reservation,
)


def die(scene: Scene, decision: Decision, writes: int) -> None:
    """Carry the decision out in a process that ends after so many writes."""

    def mortal(api: Api) -> Api:
        return Mortal(api, writes)

    with pytest.raises(Killed):
        scene.run(lambda binder: bind_pod(binder, decision), api=mortal)


def seen(claim: Json) -> WatchedClaim:
    """As the watch shows it."""
    return claim_of({**claim, "apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": {**claim["metadata"]}})


def start_again(scene: Scene) -> int:
    """What the next process does first."""

    def is_bound(uid: str) -> bool:
        pod = scene.pod()
        return bool(pod["metadata"]["uid"] == uid and pod["spec"].get("nodeName"))

    return scene.run(lambda binder: recover(binder, scene.api.list(CLAIM), is_bound), epoch=2)


def bind_in_second_epoch(scene: Scene, plan: ClaimPlan, pod: Json, node: str = NODE) -> object:
    decision = scene.a_decision(pod, plan, node=node)
    return scene.run(lambda binder: bind_pod(binder, decision), epoch=2)


def test_killed_after_the_first_write_the_claim_is_cleaned_and_the_pod_placed(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    die(scene, scene.a_decision(pod, gets(scene.a_claim(), "gpu-0")), writes=1)
    assert intent_of(scene.claim()) is not None
    assert start_again(scene) == 1
    assert is_untouched(scene.claim())
    assert bind_in_second_epoch(scene, gets(scene.claim(), "gpu-0"), pod) == Bound(NODE)


def test_killed_after_the_second_write_the_allocation_is_adopted_and_the_pod_placed_with_it(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    die(scene, scene.a_decision(pod, gets(scene.a_claim(), "gpu-0")), writes=2)
    assert start_again(scene) == 1
    adopted = scene.claim()
    intent = intent_of(adopted)
    assert intent is not None
    assert (intent.epoch, intent.podUID) == (2, pod["metadata"]["uid"])
    assert bind_in_second_epoch(scene, keeps(adopted), pod) == Bound(NODE)
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)


def test_killed_after_the_binding_nothing_is_left_to_do(scene: Scene) -> None:
    die(scene, scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")), writes=3)
    before = scene.claim()
    assert start_again(scene) == 0
    assert scene.claim() == before
    assert scene.pod()["spec"]["nodeName"] == NODE


def test_killed_between_two_claims_both_are_settled(scene: Scene) -> None:
    pod = scene.a_pod("a", "b")
    plans = (gets(scene.a_claim("a"), "gpu-0"), gets(scene.a_claim("b"), "gpu-1"))
    die(scene, scene.a_decision(pod, *plans), writes=3)
    assert start_again(scene) == 2
    assert allocation_of(scene.claim("a")) is not None
    assert is_untouched(scene.claim("b"))


@pytest.mark.parametrize("writes", range(1, 6))
def test_killed_at_any_write_the_pod_is_placed_and_nothing_is_leaked(scene: Scene, writes: int) -> None:
    pod = scene.a_pod("a", "b")
    devices = {"a": "gpu-0", "b": "gpu-1"}
    first = [gets(scene.a_claim(name), device) for name, device in devices.items()]
    die(scene, scene.a_decision(pod, *first), writes=writes)
    start_again(scene)
    found = [(scene.claim(name), device) for name, device in devices.items()]
    again = [keeps(claim) if allocation_of(claim) else gets(claim, device) for claim, device in found]
    decision = scene.a_decision(scene.pod(), *again)
    assert scene.run(lambda binder: bind_pod(binder, decision), epoch=2) == Bound(NODE)
    assert [consumers_of(scene.claim(name)) for name in devices] == [(pod["metadata"]["uid"],)] * 2
    assert [devices_of(scene.claim(name)) for name in devices] == [{f"{DRIVER}/{one}"} for one in devices.values()]


def test_intents_of_other_schedulers_and_of_this_epoch_are_left_alone(scene: Scene) -> None:
    die(scene, scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")), writes=1)
    before = scene.claim()
    assert scene.run(lambda binder: recover(binder, [before], lambda _: False), epoch=1) == 0
    assert scene.claim() == before


def test_write_of_the_dead_process_that_is_still_under_way_can_never_land(scene: Scene) -> None:
    decision = scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0"))
    held = Hold()
    rule = scene.proxy.on("PUT", r"/claim/status$", held)

    async def die_waiting(binder: Binder) -> None:
        task = asyncio.create_task(bind_pod(binder, decision))
        await rule.met.reached()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # at once, so that nothing is taken back
        with pytest.raises(asyncio.CancelledError):
            await task

    scene.run(die_waiting)
    assert intent_of(scene.claim()) is not None
    start_again(scene)
    held.release()
    assert is_untouched(scene.claim())


def test_claim_allocated_for_a_vanished_node_is_given_back_and_the_pod_moves(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    die(scene, scene.a_decision(pod, gets(scene.a_claim(), "gpu-0")), writes=2)
    refused = scene.a_decision(pod, keeps(scene.claim()))
    freed = scene.run(lambda binder: deallocate_one(binder, refused), epoch=2)
    assert freed is not None
    assert key_of(freed).name == "claim"
    assert is_untouched(scene.claim())
    moved = scene.pod()
    assert bind_in_second_epoch(scene, gets(scene.claim(), "gpu-9"), moved, "node-9") == Bound("node-9")


def test_allocated_claim_that_nobody_has_reserved_is_given_back_by_writes_to_it_alone(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.api.replace_status({**claim, "status": {"allocation": allocation_json("gpu-0")}})
    refused = scene.a_decision(scene.a_pod("claim"), keeps(scene.claim()))
    assert scene.run(lambda binder: deallocate_one(binder, refused)) is not None
    assert is_untouched(scene.claim())
    assert all("resourceclaims/claim" in path for _, path, _ in scene.calls())


def test_claim_that_another_pod_has_reserved_is_not_given_back(scene: Scene) -> None:
    claim, other = scene.a_claim(), scene.a_pod("claim", name="other")
    status = {"allocation": allocation_json("gpu-0"), "reservedFor": [reservation(other)]}
    scene.api.replace_status({**claim, "status": status})
    refused = scene.a_decision(scene.a_pod("claim"), keeps(scene.claim()))
    assert scene.run(lambda binder: deallocate_one(binder, refused)) is None
    assert scene.calls() == []


def test_claim_that_changed_since_it_was_refused_is_not_given_back(scene: Scene) -> None:
    claim, other = scene.a_claim(), scene.a_pod("claim", name="other")
    stale = scene.api.replace_status({**claim, "status": {"allocation": allocation_json("gpu-0")}})
    scene.api.replace_status({**stale, "status": {**stale["status"], "reservedFor": [reservation(other)]}})
    refused = scene.a_decision(scene.a_pod("claim"), keeps(stale))
    with pytest.raises(ApiError, match="409 Conflict"):
        scene.run(lambda binder: deallocate_one(binder, refused))
    assert consumers_of(scene.claim()) == (other["metadata"]["uid"],)


def test_claim_whose_pod_was_bound_meanwhile_is_not_given_back(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    scene.bind(scene.a_decision(pod, gets(scene.a_claim(), "gpu-0")))
    refused = scene.a_decision(pod, keeps(scene.claim()))
    assert scene.run(lambda binder: deallocate_one(binder, refused), epoch=2) is None
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)


def test_attempt_whose_claim_is_taken_over_neither_binds_nor_takes_back(scene: Scene) -> None:
    """Two processes decide the same pod: the second takes the claim over just before the first binds."""
    pod = scene.a_pod("claim")
    first = scene.a_decision(pod, gets(scene.a_claim(), "gpu-0"))

    def second_deallocates() -> None:
        refused = scene.a_decision(scene.pod(), keeps(scene.claim()))
        assert scene.run(lambda binder: deallocate_one(binder, refused), epoch=2) is not None

    scene.proxy.on("POST", BINDING, meanwhile(second_deallocates))
    assert scene.bind(first) == Retry("claim work/claim is no longer allocated for pod work/pod")
    assert "nodeName" not in scene.pod()["spec"]
    assert is_untouched(scene.claim())


def test_attempt_that_gives_way_leaves_a_claim_that_another_has_taken_over(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    first = scene.a_decision(pod, gets(scene.a_claim(), "gpu-0"))

    def second_binds() -> None:
        assert bind_in_second_epoch(scene, keeps(scene.claim()), scene.pod(), NODE) == Bound(NODE)

    rule = scene.proxy.on("POST", BINDING, meanwhile(second_binds))
    assert scene.bind(first) == Bound(NODE)
    assert rule.matched == 2
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)
    intent = intent_of(scene.claim())
    assert intent is not None
    assert intent.epoch == 2


def test_sweep_removes_what_nobody_uses_after_two_minutes(scene: Scene) -> None:
    pod = scene.a_pod("a", "b")
    plans = (gets(scene.a_claim("a"), "gpu-0"), gets(scene.a_claim("b"), "gpu-1"))
    die(scene, scene.a_decision(pod, *plans), writes=3)
    orphaned = scene.claim("a")
    scene.api.replace_status({**orphaned, "status": {"allocation": orphaned["status"]["allocation"]}})
    sweep = Sweep(SCHEDULER)
    claims = [seen(claim) for claim in scene.api.list(CLAIM)]
    assert sweep.due(claims, lambda _: False, 0.0) == []
    due = [found for _, found in sweep.due(claims, lambda _: False, LEAST_AGE_S)]
    assert scene.run(lambda binder: sweep.clean(binder, due)) == 2
    assert is_untouched(scene.claim("a"))
    assert is_untouched(scene.claim("b"))


def test_sweep_leaves_what_was_taken_into_use_meanwhile(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    die(scene, scene.a_decision(pod, gets(scene.a_claim(), "gpu-0")), writes=1)
    left = scene.claim()
    assert scene.bind(scene.a_decision(pod, gets(left, "gpu-0"))) == Bound(NODE)
    before = scene.claim()
    sweep = Sweep(SCHEDULER)
    assert scene.run(lambda binder: sweep.clean(binder, [seen(left)])) == 1
    assert scene.claim() == before
    assert scene.proxy.writes(CLAIM_ITSELF)[-1].status == 409
