"""`dra defrag --apply`: pods move, one after the other, and the target has the room that was kept for it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane.contents import manifests, restore
from tests.controlplane.faults import Hold
from tests.controlplane.identities import DEFRAG
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import NODE, POD, Json, Kind
from tests.integration.attempt.conftest import await_right
from tests.integration.live.world import NAMESPACE, SCHEDULER, World, a_request, an_object

DRA = Path(sys.executable).with_name("dra")
REPLICA_SET = Kind("apps/v1", "ReplicaSet")
BUDGET = Kind("policy/v1", "PodDisruptionBudget")
RIGHTS = Path(__file__).resolve().parents[3] / "manifests" / "defrag" / "rbac.yaml"
ROOM_ASKED, ROOM_KEPT = "dra-scheduler.dev/RoomAsked", "dra-scheduler.dev/RoomKept"
SHORT_S = 8.0
"""A room's time, in which the scheduler says that it keeps it."""
EVICTION = r"/eviction$"


@pytest.fixture(scope="module")
def rights(plane: ControlPlane) -> None:
    """The account of moves has those of the manifest."""
    restore(plane.client(), manifests(RIGHTS))
    account = plane.client(DEFRAG)
    await_right(account, group="", resource="pods", subresource="eviction", verb="create", is_given=True)


@pytest.fixture
def sets(world: World, rights: None) -> Iterator[World]:
    """A world in which sets make their pods again, until its end."""
    del rights
    yield world
    world.proxy.forget_rules()
    for kind in (REPLICA_SET, BUDGET):
        for one in world.api.list(kind, NAMESPACE):
            world.api.delete(kind, one["metadata"]["name"], NAMESPACE)


def a_set(world: World, name: str, template: str = "one", node: str = "") -> Json:
    """The pod of a ReplicaSet, once it is bound. node: where all pods of the set have to be."""
    spec = {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none"}],
        "resourceClaims": [{"name": "made", "resourceClaimTemplateName": template}],
        "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
    }
    metadata = {"labels": {"app": name}}
    fields = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": metadata, "spec": spec},
    }
    world.await_seen()
    world.api.create(an_object(REPLICA_SET, name, fields, NAMESPACE))
    return pod_of(world, name, "")


def pod_of(world: World, name: str, before: str) -> Json:
    """The pod of the set that is bound, and is not that of before."""

    def bound(pods: Sequence[Json]) -> list[Json]:
        own = [one for one in pods if one["metadata"].get("labels", {}).get("app") == name]
        return [one for one in own if one["spec"].get("nodeName") and one["metadata"]["name"] != before]

    return bound(world.api.await_all(POD, lambda pods: bool(bound(pods)), NAMESPACE))[0]


def nodes_with_one_free_device_each(world: World, nodes: int = 2) -> Json:
    """Pod `wide` wants two devices of a node, and the pod of set `a`, which is returned, is in the way on node-0."""
    world.a_cluster(nodes=nodes, devices=2)
    world.a_template("one", a_request())
    world.a_template("two", a_request(count=2))
    for number in range(1, nodes):
        a_set(world, f"pinned-{number}", node=f"node-{number}")
    found = a_set(world, "a")
    if found["spec"]["nodeName"] != "node-0":
        raise AssertionError("the scheduler takes the emptiest node")
    world.a_pod("wide", template="two")
    world.refused("wide")
    return found


def command(world: World, *options: str) -> list[str]:
    access = f"--kubeconfig={world.proxy.kubeconfig(DEFRAG)}"
    return [str(DRA), "defrag", "--for", f"pod/{NAMESPACE}/wide", "--apply", "--yes", access, *options]


def defrag(world: World, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(world, *options), capture_output=True, text=True, check=False)


@contextmanager
def running(world: World, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(world, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def evictions(world: World) -> int:
    return len(world.proxy.writes(EVICTION))


def await_eviction(world: World, number: int = 1) -> None:
    poll_until(lambda sent: sent >= number, lambda: evictions(world), f"eviction {number} is sent")


def ended(process: subprocess.Popen[str]) -> str:
    """What a run says that ended otherwise than planned."""
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    return errors


def is_not_nominated(pod: Json) -> bool:
    return not pod["status"].get("nominatedNodeName")


def test_pod_moves_and_the_target_has_its_node(sets: World) -> None:
    moved = nodes_with_one_free_device_each(sets)
    run = defrag(sets)
    assert run.returncode == 0, run.stderr
    again = pod_of(sets, "a", moved["metadata"]["name"])
    assert again["spec"]["nodeName"] == "node-1"
    assert sets.devices_of("wide") == ["node-0/gpu-0", "node-0/gpu-1"]
    assert run.stdout.splitlines()[-4:] == [
        "room for pod live/wide is kept on node-0",
        f"step 1 of 1: evict pod live/{moved['metadata']['name']} from node-0",
        f"pod live/{again['metadata']['name']} is bound to node-1",
        "pod live/wide is bound to node-0",
    ]
    assert evictions(sets) == 1
    left = sets.pod_when("wide", lambda pod: condition(pod) == "False")
    assert ROOM_ASKED not in {one["type"] for one in left["status"]["conditions"]}


def test_replacement_that_lands_elsewhere_ends_it_and_a_second_run_goes_on(sets: World) -> None:
    nodes_with_one_free_device_each(sets, nodes=3)
    hold = Hold()
    sets.proxy.on("POST", EVICTION, hold)
    with running(sets) as process:
        await_eviction(sets)
        sets.api.change(NODE, "node-1", "", lambda node: {**node, "spec": {**node["spec"], "unschedulable": True}})
        hold.release()
        said = ended(process)
    assert "is on node node-2, not on node-1" in said
    assert "0 of 1 moves are done" in said
    assert sets.devices_of("wide") == ["node-0/gpu-0", "node-0/gpu-1"]  # there is room now, whoever made it


def test_budget_that_closes_in_the_middle_is_kept(sets: World) -> None:
    moved = nodes_with_one_free_device_each(sets)
    sets.update_pod(moved["metadata"]["name"], lambda pod: {**pod["status"], "phase": "Running"})
    hold = Hold()
    sets.proxy.on("POST", EVICTION, hold)
    with running(sets) as process:
        await_eviction(sets)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
        sets.api.create(an_object(BUDGET, "of-a", spec, NAMESPACE))
        none = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1}
        status = {**none, "observedGeneration": 1}
        sets.api.change_status(BUDGET, "of-a", NAMESPACE, lambda budget: {**budget, "status": status})
        hold.release()
        said = ended(process)
    assert "is not evicted" in said
    assert "0 of 1 moves are done" in said
    assert pod_of(sets, "a", "")["metadata"]["uid"] == moved["metadata"]["uid"]
    sets.pod_when("wide", is_not_nominated)


def test_node_that_goes_ends_it(sets: World) -> None:
    nodes_with_one_free_device_each(sets)
    hold = Hold()
    sets.proxy.on("POST", EVICTION, hold)
    with running(sets) as process:
        await_eviction(sets)
        sets.api.delete(NODE, "node-1", "")
        hold.release()
        said = ended(process)
    assert "node node-1 is gone" in said
    sets.pod_when("wide", is_not_nominated)


@pytest.mark.parametrize("step", ["before the room is asked for", "before the eviction", "after the eviction"])
def test_killed_at_each_step_nothing_is_lost_and_the_next_run_goes_on(sets: World, step: str) -> None:
    moved = nodes_with_one_free_device_each(sets)
    hold = Hold()
    if step == "before the room is asked for":
        path, method = r"/pods/wide/status$", "PATCH"
    elif step == "before the eviction":
        path, method = EVICTION, "POST"
    else:
        path, method = r"/namespaces/live/pods$", "GET"
    sets.proxy.on(method, path, hold, nth=2 if method == "GET" else 1)
    with running(sets) as process:
        if method == "GET":
            await_eviction(sets)
        else:
            poll_until(bool, lambda: sets.proxy.writes(path), "the call is sent")
        process.kill()
    sets.proxy.forget_rules()
    if method != "GET":
        assert pod_of(sets, "a", "")["metadata"]["uid"] == moved["metadata"]["uid"]
        run = defrag(sets)
        assert run.returncode == 0, run.stderr
    assert sets.devices_of("wide") == ["node-0/gpu-0", "node-0/gpu-1"]
    assert pod_of(sets, "a", moved["metadata"]["name"])["spec"]["nodeName"] == "node-1"
    hold.release()


def two_pods_in_the_way(world: World) -> None:
    """Pod `wide` wants the three devices of node-0, where the pods of sets `a` and `b` have one each."""
    world.a_cluster(nodes=2, devices=3)
    world.a_template("one", a_request())
    world.a_template("three", a_request(count=3))
    a_set(world, "pinned", node="node-1")
    nodes = [a_set(world, name)["spec"]["nodeName"] for name in ("a", "b")]
    assert nodes == ["node-0", "node-0"], "the scheduler takes the first of equal nodes"
    world.a_pod("wide", template="three")
    world.refused("wide")


def test_killed_between_two_moves_the_next_run_makes_the_second_one(sets: World) -> None:
    two_pods_in_the_way(sets)
    hold = Hold()
    sets.proxy.on("POST", EVICTION, hold, nth=2)
    with running(sets) as process:
        await_eviction(sets, 2)
        process.kill()
    sets.proxy.forget_rules()
    run = defrag(sets)
    assert run.returncode == 0, run.stderr
    assert "step 1 of 1: evict pod" in run.stdout
    assert len(sets.devices_of("wide")) == 3
    assert {pod_of(sets, name, "")["spec"]["nodeName"] for name in ("a", "b")} == {"node-1"}
    hold.release()


def test_room_is_kept_from_the_first_eviction_on(sets: World) -> None:
    """A rival for what the first move has left waits until the second is made, and after it."""
    two_pods_in_the_way(sets)
    hold = Hold()
    sets.proxy.on("POST", EVICTION, hold, nth=2)
    with running(sets) as process:
        await_eviction(sets, 2)
        sets.a_pod("rival", template="one", nodeSelector={"kubernetes.io/hostname": "node-0"})
        sets.refused("rival", "cannot allocate all claims")
        hold.release()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert len(sets.devices_of("wide")) == 3
    sets.refused("rival", "cannot allocate all claims")


def test_what_is_kept_is_free_again_at_its_time(sets: World) -> None:
    moved = nodes_with_one_free_device_each(sets)
    uid = moved["metadata"]["uid"]
    ask_for_room(sets, uid, SHORT_S)
    sets.pod_when("wide", lambda pod: condition(pod) == "True")
    # Nobody else gets the free device of the node meanwhile.
    sets.a_pod("rival", template="one", nodeSelector={"kubernetes.io/hostname": "node-0"})
    sets.refused("rival", "cannot allocate all claims")
    sets.pod_when("wide", lambda pod: condition(pod) == "False" and is_not_nominated(pod))
    assert sets.devices_of("rival") == ["node-0/gpu-1"]


def ask_for_room(world: World, moving: str, for_s: float) -> None:
    """As who moves pods asks, and then is gone."""
    room = json.dumps({"name": "by-hand", "node": "node-0", "moving": [moving], "until": time.time() + for_s})
    asked = {"type": ROOM_ASKED, "status": "True", "message": room}

    def asking(pod: Json) -> Json:
        conditions = [*pod["status"].get("conditions", ()), asked]
        return {**pod["status"], "nominatedNodeName": "node-0", "conditions": conditions}

    world.update_pod("wide", asking)


def test_room_that_is_not_needed_any_more_is_said_to_be_kept_no_longer(sets: World) -> None:
    moved = nodes_with_one_free_device_each(sets)
    ask_for_room(sets, moved["metadata"]["uid"], 600)
    sets.pod_when("wide", lambda pod: condition(pod) == "True")
    sets.update_pod("wide", lambda pod: {**pod["status"], "nominatedNodeName": ""})
    sets.pod_when("wide", lambda pod: condition(pod) == "False")


def condition(pod: Json) -> str:
    """Whether the pod's room is kept, as the scheduler says."""
    found = [one["status"] for one in pod["status"].get("conditions", ()) if one["type"] == ROOM_KEPT]
    return str(found[0]) if found else ""


def test_what_a_user_writes_on_a_pod_keeps_nothing(sets: World) -> None:
    """Whoever may change pods may write all but their status: annotations, and a status that is not taken."""
    moved = nodes_with_one_free_device_each(sets)
    fields = {"name": "x", "node": "node-0", "moving": [moved["metadata"]["uid"]], "until": time.time() + 600}
    asked = {"type": ROOM_ASKED, "status": "True", "message": json.dumps(fields)}

    def asking(pod: Json) -> Json:
        metadata = {**pod["metadata"], "annotations": {"dra-scheduler.dev/room": json.dumps(fields)}}
        status = {**pod["status"], "nominatedNodeName": "node-0", "conditions": [asked]}
        return {**pod, "metadata": metadata, "status": status}

    sets.api.change(POD, "wide", NAMESPACE, asking)
    sets.a_pod("other", template="one", nodeSelector={"kubernetes.io/hostname": "node-0"})
    assert sets.devices_of("other") == ["node-0/gpu-1"]
    assert condition(sets.pod("wide")) == ""


def test_an_annotation_does_not_make_the_time_longer(sets: World) -> None:
    moved = nodes_with_one_free_device_each(sets)
    uid = moved["metadata"]["uid"]
    ask_for_room(sets, uid, SHORT_S)
    sets.pod_when("wide", lambda pod: condition(pod) == "True")
    longer = json.dumps({"name": "by-hand", "node": "node-0", "moving": [uid], "until": time.time() + 4_000_000_000})

    def asking(pod: Json) -> Json:
        return {**pod, "metadata": {**pod["metadata"], "annotations": {"dra-scheduler.dev/room": longer}}}

    sets.api.change(POD, "wide", NAMESPACE, asking)
    sets.pod_when("wide", lambda pod: condition(pod) == "False" and is_not_nominated(pod))
