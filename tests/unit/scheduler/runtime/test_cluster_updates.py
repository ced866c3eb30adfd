"""What the cluster is told of objects that cannot be read: they keep what they keep from others."""

from collections.abc import Mapping
from itertools import count
from typing import Any, cast

import orjson

from allocator.model import DeviceID, PoolID
from scheduler.client.api_resources import Resource, taint_rules
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.watch_states import Applied, Deleted, Key, Undecoded, input_of
from scheduler.client.watcher import Reflector
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.runtime.core import WatchedState
from scheduler.state.claims import Waiting
from scheduler.state.cluster_changes import ClaimChanged, Event, PodChanged, TaintRulesChanged
from tests.builders import a_claim, a_class, a_node, a_pod, a_slice, a_user, amounts, kubernetes, on_node
from tests.unit.scheduler.runtime.updates import update_from

Json = dict[str, Any]
DRIVER, POOL = "gpu.example", "pool-0"
UNREAD = {"devices": 7}
"""As spec of a claim: it cannot be read."""


class World:
    """A node with two devices, a pod that wants one of them, and what the watches show beside them."""

    def __init__(self) -> None:
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.cluster.set_node(a_node(allocatable=amounts(cpu="4", pods="10")))
        self.cluster.set_class(a_class())
        self.cluster.set_slice(a_slice("gpu-0", "gpu-1", reach=on_node()))
        self.watched = WatchedState(
            cast(Connection, None), Served("v1.37.0", "1.37", "v1", taint_rules("v1")), float, float, places_pods=True
        )
        self.heard: list[Event] = []
        self.refused: list[tuple[str, str]] = []
        update_from(self.watched, self.cluster, self.heard.append, self._refused)
        self._versions = count(10)

    def _refused(self, resource: Resource, refused: Undecoded) -> None:
        self.refused.append((resource.kind, str(refused.key)))

    def claim(self, *results: Json, uid: str = "uid-claim", **fields: object) -> None:
        """The claim with these devices."""
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        allocation = {"allocation": {"devices": {"results": list(results)}}} if results else {}
        spec = {"devices": {"requests": [request]}}
        raw = {"spec": spec, "status": allocation, **fields}
        self._show(self.watched.claims, "claim", uid, raw)

    def pod(self, uid: str = "uid-other", **spec: object) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        self._show(self.watched.pods, "other", uid, {"spec": {"containers": [container], **spec}})

    @property
    def rules(self) -> Reflector[Any]:
        return next(one for one in self.watched if one.resource.kind == "DeviceTaintRule")

    def rule(self, **spec: object) -> None:
        taint = {"key": "k", "effect": "NoSchedule"}
        raw = {"spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint, **spec}}
        self._show(self.rules, "rule", "uid-rule", raw)

    def gone(self, reflector: Reflector[Any], key: Key, uid: str) -> None:
        reflector.store.take(Deleted(key, uid, next(self._versions)))

    def free(self) -> int:
        """How many of the devices a pod can get."""
        claims = [a_claim(name=f"new-{number}") for number in range(3)]
        results = (decide(self.cluster, a_user("new"), claims[:number]) for number in range(1, 4))
        return sum(isinstance(one, Placed) for one in results)

    def refusal(self, cpu: str = "1") -> str:
        """Why a pod with so much cpu fits nowhere; empty where it does."""
        pod = a_pod(name="new", budget=amounts(cpu=cpu))
        result = decide(self.cluster, pod, ())
        return result.refusal.message if isinstance(result, NotPlaced) else ""

    def _show(self, reflector: Reflector[Any], name: str, uid: str, raw: Mapping[str, object]) -> None:
        metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(next(self._versions))}
        resource = reflector.resource
        found = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **raw}
        watcher = reflector._watcher
        line = orjson.dumps({"type": "MODIFIED", "object": found})
        event = input_of("GET /x", line, watcher.decode, watcher.held)
        assert isinstance(event, Applied)
        reflector.store.take(event)
        assert reflector.store.failures == 0


def a_result(device: object = "gpu-0", pool: object = POOL, **more: object) -> Json:
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **more}


CLAIM = Key("default", "claim")
OTHER = Key("default", "other")


def test_claim_that_cannot_be_read_any_more_keeps_its_devices() -> None:
    world = World()
    world.claim(a_result())
    assert world.free() == 1
    world.claim(spec=UNREAD)
    assert world.free() == 1
    assert world.refused == [("ResourceClaim", "default/claim")]


def test_claim_that_was_never_read_has_the_devices_that_its_status_names() -> None:
    world = World()
    world.claim(a_result(), spec=UNREAD)
    assert world.free() == 1
    world.claim(a_result("gpu-0", tolerations=7), a_result("gpu-1"))
    assert world.free() == 0


def test_devices_of_a_claim_are_free_once_it_is_gone_or_says_so() -> None:
    world = World()
    world.claim(a_result(), spec=UNREAD)
    world.claim()
    assert world.free() == 2
    assert isinstance(event := world.heard[-1], ClaimChanged)
    assert (bool(event.old and event.old.allocation), bool(event.new and event.new.allocation)) == (True, False)
    world.claim(a_result(), spec=UNREAD)
    world.gone(world.watched.claims, CLAIM, "uid-claim")
    assert world.free() == 2


def test_claim_that_was_made_again_under_the_name_has_nothing_of_the_one_before() -> None:
    world = World()
    world.claim(a_result(), spec=UNREAD)
    world.claim(a_result("gpu-1"), spec=UNREAD, uid="another")
    assert [bool(world.cluster.claims.holders(DeviceID(DRIVER, POOL, f"gpu-{n}"))) for n in range(2)] == [False, True]
    world.claim(uid="a-third")
    assert world.free() == 2


def test_share_of_a_device_counts_as_a_share() -> None:
    world = World()
    share = "00000000-0000-4000-8000-000000000000"
    world.claim(a_result(shareID=share, consumedCapacity={"memory": "1"}), spec=UNREAD)
    assert world.cluster.fleet.usage.shares_in(PoolID(DRIVER, POOL))["gpu-0"].consumed == {f"{DRIVER}/memory": 10**9}


def test_pool_of_which_nobody_knows_which_devices_are_taken_is_left_alone() -> None:
    world = World()
    world.claim(a_result(7))
    assert world.free() == 0
    world.claim(a_result(7, "other"))
    assert world.free() == 2
    world.claim(a_result(7, 7))
    assert world.free() == 0
    world.gone(world.watched.claims, CLAIM, "uid-claim")
    assert world.free() == 2


def test_pod_is_shown_that_its_claim_cannot_be_read() -> None:
    world = World()
    world.claim(spec=UNREAD)
    waiting = world.cluster.claims_of(a_user("pod", "claim"))
    assert isinstance(waiting, Waiting)
    assert waiting.reason.startswith(
        "ResourceClaim default/claim cannot be read: spec.devices: must be an object (got 7)"
    )


def test_pod_that_cannot_be_read_any_more_keeps_its_room() -> None:
    world = World()
    world.pod(nodeName="node-0")
    world.pod(nodeName="node-0", tolerations=7)
    assert (world.refusal("3"), "Insufficient cpu" in world.refusal("4")) == ("", True)
    world.gone(world.watched.pods, OTHER, "uid-other")
    assert world.refusal("4") == ""


def test_pod_that_is_bound_when_it_cannot_be_read_takes_what_it_asked_for_before() -> None:
    world = World()
    world.pod()
    world.pod(nodeName="node-0", tolerations=7)
    assert (world.refusal("3"), "Insufficient cpu" in world.refusal("4")) == ("", True)


def test_node_of_a_pod_that_was_never_read_is_left_alone_until_it_is() -> None:
    world = World()
    world.pod(nodeName="node-0", tolerations=7)
    assert "1 node(s) had a pod that cannot be read." in world.refusal()
    world.pod(nodeName="node-0")
    assert (world.refusal("3"), "Insufficient cpu" in world.refusal("4")) == ("", True)
    assert isinstance(event := world.heard[-1], PodChanged)
    assert event.old is not None  # so that pods are tried again that were refused for it


def test_pod_without_a_node_that_cannot_be_read_takes_nothing() -> None:
    world = World()
    world.pod(tolerations=7)
    assert world.refusal("4") == ""


def test_rule_that_says_the_same_again_wakes_nobody() -> None:
    world = World()
    world.rule()
    world.rule()  # kube-controller-manager has written to its status
    world.rule(deviceSelector={"driver": "other.example"})
    world.rule(deviceSelector={"driver": "another.example"})  # of neither is there any device
    assert [type(event) for event in world.heard] == [TaintRulesChanged, TaintRulesChanged]


def test_rule_that_cannot_be_read_any_more_is_in_force_until_it_is_gone() -> None:
    world = World()
    world.rule()
    assert world.free() == 0
    world.rule(taint=7)
    assert world.free() == 0
    world.gone(world.rules, Key("default", "rule"), "uid-rule")
    assert world.free() == 2


def test_object_whose_uid_cannot_be_read_is_the_one_that_had_the_name() -> None:
    world = World()
    world.claim(a_result())
    world.claim(metadata={"name": "claim", "namespace": "default", "uid": 7, "resourceVersion": "99"})
    assert world.free() == 1
