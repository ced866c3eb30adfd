"""The wait for volumes: how it ends, by what the watches show."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.attempt.decision import AttemptEnded, AttemptOutcome, Gone, Retry
from scheduler.attempt.steps.volumes import AwaitVolumes
from scheduler.state.volumes import Match, VolumePlan
from tests.storage import a_bound_pvc, a_pv, a_pvc, meant_for, where_label
from tests.unit.scheduler.attempt.volume_scene import NODE, TURNS, VolumeScene

CLAIM, FREE = a_pvc(resource_version="5"), a_pv(resource_version="7")
TAKEN = replace(FREE, claim=meant_for(CLAIM), resource_version="8")
BOUND = a_bound_pvc(resource_version="9")
ASKED = replace(CLAIM, selected_node=NODE, resource_version="6")


def matched() -> VolumeScene:
    """A volume was given to the claim; the watches show nothing of it yet."""
    scene = VolumeScene(VolumePlan((Match(FREE, CLAIM),)))
    scene.attempt.volumes["pv1"] = 8
    scene.show_volume(FREE)
    scene.show_claim(CLAIM)
    return scene


def provisioned() -> VolumeScene:
    """A volume was asked for; the watch does not show it yet."""
    scene = VolumeScene(VolumePlan((), (CLAIM,)))
    scene.attempt.volumes[CLAIM.key] = 6
    scene.show_claim(CLAIM)
    return scene


def outcome(scene: VolumeScene, *acts: Callable[[VolumeScene], object]) -> AttemptOutcome | None:
    """What the wait ends with, None where it ends well. It goes on until the last of the acts, one after the other."""

    async def run() -> AttemptOutcome | None:
        waiting = asyncio.create_task(AwaitVolumes(scene.binder, scene.attempt).do())
        for act in acts:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert not waiting.done()
            act(scene)
        try:
            await waiting
        except AttemptEnded as ended:
            return ended.outcome
        return None

    return asyncio.run(run())


def shows(*objects: Any) -> Callable[[VolumeScene], None]:
    def act(scene: VolumeScene) -> None:
        for one in objects:
            (scene.show_claim if hasattr(one, "selected_node") else scene.show_volume)(one)

    return act


def test_wait_for_a_volume_that_was_given_ends_once_its_claim_is_bound() -> None:
    halfway = replace(BOUND, is_bound=False, resource_version="8")
    assert outcome(matched(), shows(TAKEN), shows(halfway), shows(BOUND)) is None


def test_wait_for_a_volume_that_is_made_ends_once_it_is_there_too() -> None:
    bound = replace(BOUND, selected_node=NODE)
    assert outcome(provisioned(), shows(ASKED), shows(bound), shows(a_pv())) is None


def test_nobody_is_followed_any_more_afterwards() -> None:
    scene = matched()
    assert outcome(scene, shows(TAKEN, BOUND)) is None
    assert scene.changes._following == {}


def test_provisioner_that_asks_for_another_node_ends_the_wait_and_the_next_decision_is_for_one() -> None:
    scene = provisioned()
    left = replace(CLAIM, resource_version="7")
    assert outcome(scene, shows(ASKED), shows(left)) == Retry('binding volumes: provisioning failed for PVC "v"')
    assert scene.cluster.volumes.declined([CLAIM.key]) == scene.cluster.volumes.node(NODE)
    scene.show_claim(BOUND)
    assert scene.cluster.volumes.declined([CLAIM.key]) == 0


def test_node_that_somebody_else_has_chosen_ends_the_wait() -> None:
    scene = provisioned()
    elsewhere = replace(CLAIM, selected_node="node-1", resource_version="7")
    assert outcome(scene, shows(elsewhere)) == Retry('binding volumes: provisioning failed for PVC "v"')
    assert scene.cluster.volumes.declined([CLAIM.key]) == 0


def test_volume_that_is_given_to_nobody_any_more_ends_the_wait() -> None:
    reset = replace(FREE, resource_version="9")
    assert outcome(matched(), shows(TAKEN), shows(reset)) == Retry('binding volumes: ClaimRef got reset for pv "pv1"')


def test_volume_that_the_node_does_not_reach_ends_the_wait() -> None:
    elsewhere = a_pv(affinity=where_label("kubernetes.io/hostname", "node-1"))
    bound = replace(BOUND, selected_node=NODE)
    ended = outcome(provisioned(), shows(elsewhere), shows(bound))
    assert ended == Retry('binding volumes: pv "pv1" node affinity doesn\'t match node "node-0"')


@pytest.mark.parametrize("goes", [VolumeScene.pod_goes, VolumeScene.pod_is_deleted])
def test_pod_that_goes_ends_the_wait(goes: Callable[[VolumeScene], None]) -> None:
    assert outcome(provisioned(), goes) == Gone("pod default/p no longer exists")


def test_node_that_goes_ends_the_wait() -> None:
    assert outcome(provisioned(), VolumeScene.node_goes) == Retry("node node-0 is gone")


def test_claim_that_was_made_again_under_its_name_ends_the_wait() -> None:
    again = replace(CLAIM, uid="another", resource_version="9")
    assert outcome(provisioned(), shows(again)) == Retry('binding volumes: persistentvolumeclaim "v" not found')


def test_volume_that_is_gone_ends_the_wait() -> None:
    scene = matched()
    scene.cluster.volumes.remove_volume("pv1")
    assert outcome(scene) == Retry('binding volumes: persistentvolume "pv1" not found')


def test_wait_ends_at_the_binding_timeout() -> None:
    scene = provisioned()
    scene.binder.binding_timeout_s = 0.0
    assert outcome(scene) == Retry("binding volumes: context deadline exceeded")


def test_others_may_write_while_it_waits() -> None:
    scene = provisioned()
    outcome(scene, given_back, shows(ASKED), VolumeScene.pod_goes)


def given_back(scene: VolumeScene) -> None:
    assert not scene.attempt.slot._is_taken
