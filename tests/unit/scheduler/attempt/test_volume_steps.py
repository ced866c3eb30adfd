"""What is written of volumes and their claims, and what becomes of writes that fail."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from scheduler.attempt.decision import AttemptEnded, Fatal, Retry
from scheduler.attempt.run import steps
from scheduler.attempt.steps.volumes import BindVolume, SelectNode, VolumeStep
from scheduler.client.errors import ApiError, ApiStatus, CallFailed
from scheduler.kinds import BY_NAME
from scheduler.state.volumes import Match, VolumePlan
from tests.unit.scheduler.attempt.volume_scene import NODE, VolumeScene, lost_before

Json = dict[str, Any]
VOLUME, CLAIM = "/api/v1/persistentvolumes/pv1", "/api/v1/namespaces/default/persistentvolumeclaims/v"

VOLUMES, VOLUME_CLAIMS = BY_NAME["PersistentVolume"], BY_NAME["PersistentVolumeClaim"]


def a_raw_volume(version: str = "7", **spec: object) -> Json:
    capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": "pv1", "uid": "uid-pv1", "resourceVersion": version, "annotations": {"kept": "yes"}}
    return {"metadata": metadata, "spec": {**capacity, **spec}, "status": {"phase": "Available"}}


def a_raw_claim(version: str = "5", **spec: object) -> Json:
    metadata = {"namespace": "default", "name": "v", "uid": "uid-v", "resourceVersion": version}
    return {"metadata": metadata, "spec": {"storageClassName": "w", **spec}, "status": {"phase": "Pending"}}


def binding(scene: VolumeScene) -> VolumeStep:
    """The volume is given to the claim; both are stored."""
    scene.objects = {VOLUME: a_raw_volume(), CLAIM: a_raw_claim()}
    match = Match(VOLUMES.watch_decoder(a_raw_volume()), VOLUME_CLAIMS.watch_decoder(a_raw_claim()))
    return taken(scene, BindVolume(scene.binder, scene.attempt, match), VolumePlan((match,)))


def selecting(scene: VolumeScene) -> VolumeStep:
    """A volume is asked for; the claim is stored."""
    scene.objects = {CLAIM: a_raw_claim()}
    claim = VOLUME_CLAIMS.watch_decoder(a_raw_claim())
    return taken(scene, SelectNode(scene.binder, scene.attempt, claim), VolumePlan((), (claim,)))


def taken(scene: VolumeScene, step: VolumeStep, plan: VolumePlan) -> VolumeStep:
    for match in plan.matches:
        scene.cluster.volumes.set_volume(match.volume)
    for claim in plan.provisioned:
        scene.cluster.volumes.set_claim(claim)
    scene.cluster.volumes.assume("uid-p", NODE, plan)
    return step


def failed(step: VolumeStep) -> Any:
    with pytest.raises(AttemptEnded) as found:
        asyncio.run(step.do())
    return found.value.outcome


BOTH = pytest.mark.parametrize("asked", [binding, selecting], ids=["volume", "claim"])


def test_volume_gets_the_claim_and_says_that_a_controller_chose() -> None:
    scene = VolumeScene()
    asyncio.run(binding(scene).do())
    stored = scene.objects[VOLUME]
    assert stored["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "v",
        "uid": "uid-v",
        "resourceVersion": "5",
    }
    assert stored["metadata"]["annotations"] == {"kept": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    assert scene.patches[0]["metadata"]["resourceVersion"] == "7"
    assert scene.attempt.volumes == {"pv1": 8}


def test_volume_that_was_meant_for_the_claim_stays_so_once_the_claim_is_gone() -> None:
    scene = VolumeScene()
    meant = a_raw_volume(claimRef={"namespace": "default", "name": "v"})
    scene.objects = {VOLUME: meant}
    match = Match(VOLUMES.watch_decoder(meant), VOLUME_CLAIMS.watch_decoder(a_raw_claim()))
    asyncio.run(BindVolume(scene.binder, scene.attempt, match).do())
    assert scene.objects[VOLUME]["metadata"]["annotations"] == {"kept": "yes"}
    assert scene.objects[VOLUME]["spec"]["claimRef"]["uid"] == "uid-v"


def test_claim_gets_the_node_where_its_volume_is_to_be_made() -> None:
    scene = VolumeScene()
    asyncio.run(selecting(scene).do())
    assert scene.objects[CLAIM]["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": NODE}
    assert scene.attempt.volumes == {("default", "v"): 6}


@BOTH
def test_pod_says_that_it_waits_for_volumes_only_once_they_were_asked_for(asked: Any) -> None:
    """Where the write is denied nothing is waited for, and the condition would say so at each attempt."""
    scene = VolumeScene()
    step = asked(scene)
    plan = VolumePlan((step.match,)) if isinstance(step, BindVolume) else VolumePlan((), (step.claim,))
    scene.attempt.decision = replace(scene.attempt.decision, volumes=plan)
    said = [one.awaited for one in steps(scene.binder, scene.attempt)]
    text = "volumes of persistentvolumeclaims default/v"
    assert said.index(text) > [type(one) for one in steps(scene.binder, scene.attempt)].index(type(step))
    assert said.count(text) == 1


@BOTH
def test_what_is_written_counts_whatever_becomes_of_the_pod(asked: Any) -> None:
    scene = VolumeScene()
    step = asked(scene)
    asyncio.run(step.do())
    scene.cluster.unreserve("uid-p")
    objects = scene.cluster.volumes.objects
    volume, claim = objects.volumes.get("pv1"), objects.claims.get(("default", "v"))
    assert volume.claim if volume else claim and claim.selected_node == NODE
    assert not asyncio.run(step.undo(""))


@BOTH
def test_write_whose_answer_is_lost_is_found_stored_or_sent_again(asked: Any) -> None:
    for is_stored in (True, False):
        scene = VolumeScene()
        step = asked(scene)

        def lost(path: str, body: Json, scene: VolumeScene = scene, *, is_stored: bool = is_stored) -> CallFailed:
            if is_stored:
                scene.store(path, body)
            return lost_before(path, body)

        scene.faults = [lost]
        asyncio.run(step.do())
        assert len(scene.patches) == (1 if is_stored else 2)
        assert list(scene.attempt.volumes.values()) == [int(scene.objects[step.path]["metadata"]["resourceVersion"])]


@BOTH
def test_change_that_placement_does_not_see_costs_another_try(asked: Any) -> None:
    scene = VolumeScene()
    step = asked(scene)
    scene.objects[step.path]["metadata"] |= {"resourceVersion": "30", "finalizers": ["a.example/b"]}
    asyncio.run(step.do())
    assert [one["metadata"]["resourceVersion"] for one in scene.patches][1:] == ["30"]


def test_volume_that_somebody_else_has_taken_is_left_to_him() -> None:
    scene = VolumeScene()
    step = binding(scene)
    scene.objects[VOLUME] = a_raw_volume("8", claimRef={"namespace": "default", "name": "u", "uid": "uid-u"})
    assert failed(step) == Retry("persistentvolume pv1 was changed by another client")
    assert scene.objects[VOLUME]["spec"]["claimRef"]["name"] == "u"


def test_claim_for_which_somebody_else_has_chosen_a_node_is_left_to_him() -> None:
    scene = VolumeScene()
    step = selecting(scene)
    scene.objects[CLAIM] = a_raw_claim("6")
    scene.objects[CLAIM]["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-1"}
    assert failed(step) == Retry("persistentvolumeclaim default/v was changed by another client")


@BOTH
def test_object_that_is_gone_ends_the_attempt(asked: Any) -> None:
    scene = VolumeScene()
    step = asked(scene)
    scene.objects.clear()
    assert failed(step) == Retry(f"{step.subject} no longer exists")


@BOTH
def test_right_that_is_missing_is_said_to_the_operator(asked: Any) -> None:
    def denied(path: str, _: Json) -> CallFailed:
        message = '"pv1" is forbidden: User "dra" cannot patch resource'
        return ApiError(f"PATCH {path}", 403, ApiStatus("Forbidden", message))

    scene = VolumeScene()
    step = asked(scene)
    scene.faults = [denied]
    assert isinstance(failed(step), Fatal)


@BOTH
def test_object_that_changes_again_and_again_is_given_up(asked: Any) -> None:
    def changed(path: str, _: Json) -> CallFailed:
        return ApiError(f"PATCH {path}", 409, ApiStatus("Conflict", "the object has been modified"))

    scene = VolumeScene()
    step = asked(scene)
    scene.faults = [changed] * 10
    assert failed(step) == Retry(f"{step.subject} changed or did not respond 5 times in a row")
