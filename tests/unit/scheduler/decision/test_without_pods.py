"""Pods that are taken away with their claims: what comes free, and what others keep."""

from dataclasses import replace

import pytest

from allocator.api.allocation import Consumer
from allocator.model import Claim
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.state.volumes import Match, VolumePlan
from tests.builders import (
    NODE,
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_slice,
    a_user,
    amounts,
    an_allocated_claim,
    kubernetes,
    watched,
)
from tests.properties.allocator.test_budget import calls_of
from tests.storage import a_pv, a_pvc

SHARED = an_allocated_claim("gpu-0", name="shared")
OWN = a_claim(name="own")
NEW = a_user("new", "own")


def a_cluster(*users: Pod, reserved: tuple[Consumer, ...] = ()) -> Cluster:
    """One node with one device, which the claim `shared` of these pods has."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    cluster.set_node(a_node(allocatable=amounts(cpu="2", memory="1Gi", pods="9")))
    cluster.set_slice(a_slice("gpu-0"))
    for pod in users:
        cluster.set_pod(pod)
    named = watched(SHARED, users=users)
    cluster.set_claim(replace(named, reserved_for=(*named.reserved_for, *reserved)), 1)
    cluster.set_claim(watched(OWN), 1)
    return cluster


def a_holder(name: str, *, is_deleting: bool = False) -> Pod:
    return replace(a_user(name, "shared"), node_name=NODE, is_deleting=is_deleting)


def is_placed(cluster: Cluster, pod: Pod = NEW, claims: tuple[Claim, ...] = (OWN,)) -> bool:
    result = decide(cluster, pod, claims)
    assert isinstance(result, Placed | NotPlaced)
    return isinstance(result, Placed)


def test_device_comes_free_only_when_all_users_of_its_claim_go() -> None:
    cluster = a_cluster(a_holder("a"), a_holder("b"))
    with cluster.without(["uid-a"]):
        assert not is_placed(cluster)
        with cluster.without(["uid-b"]):
            assert is_placed(cluster)
        assert not is_placed(cluster)
    with cluster.without(["uid-a", "uid-b"]):
        assert is_placed(cluster)
    assert not is_placed(cluster)


def test_claim_without_users_is_one_without_devices() -> None:
    cluster = a_cluster(a_holder("a"))
    with cluster.without(["uid-a"]):
        found = cluster.claims.get("default", "shared")
        assert found is not None
        assert (found.claim.allocation, found.reserved_for) == (None, ())
    found = cluster.claims.get("default", "shared")
    assert found is not None
    assert (found.claim, len(found.reserved_for)) == (SHARED, 1)


@pytest.mark.parametrize(
    ("reserved", "is_free"),
    [
        (Consumer("", "pods", "never-seen", "uid-never-seen"), True),
        (Consumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang"), False),
        (Consumer("", "pods", "without-uid", ""), False),
    ],
)
def test_entry_of_a_pod_that_is_gone_counts_for_nothing(reserved: Consumer, is_free: bool) -> None:  # noqa: FBT001
    cluster = a_cluster(a_holder("a"), reserved=(reserved,))
    with cluster.without(["uid-a"]):
        assert is_placed(cluster) is is_free


def test_terminating_pod_is_no_user() -> None:
    cluster = a_cluster(a_holder("a"), a_holder("b", is_deleting=True))
    with cluster.without(["uid-a"]):
        assert is_placed(cluster)


def test_pod_in_flight_is_a_user_before_it_is_written() -> None:
    cluster = a_cluster(a_holder("a"))
    flying = a_user("flying", "shared")
    cluster.set_pod(flying)
    cluster.reserve(flying, Placed(NODE, (SHARED,), ()))
    with cluster.without(["uid-a"]):
        assert not is_placed(cluster)
    for first, second in (("uid-a", "uid-flying"), ("uid-flying", "uid-a")):
        with cluster.without([first, second]):
            assert is_placed(cluster)
        with cluster.without([first]), cluster.without([second]):
            assert is_placed(cluster)


def test_others_in_flight_cost_nothing() -> None:
    def calls(others: int) -> int:
        cluster = a_cluster(a_holder("a"))
        for number in range(others):
            name = f"flying-{number}"
            cluster.set_pod(a_user(name, name))
            cluster.reserve(a_user(name, name), Placed("elsewhere", (), ()))
        with cluster.without(["uid-a"]):  # what is worked out once
            pass

        def take_away() -> None:
            with cluster.without(["uid-a"]):
                assert cluster.claims.get("default", "shared") is not None

        return calls_of(take_away)

    assert calls(50) == calls(1)


def test_claim_that_is_reserved_for_nobody_stays_allocated() -> None:
    cluster = a_cluster()
    cluster.set_pod(a_holder("a"))
    with cluster.without(["uid-a"]):
        assert not is_placed(cluster)


def test_devices_of_a_pod_in_flight_come_free() -> None:
    cluster = a_cluster(a_holder("a"))
    cluster.remove_claim(SHARED.uid)
    first = a_user("first", "first")
    claim = a_claim(name="first")
    cluster.set_claim(watched(claim), 1)
    cluster.set_pod(first)
    result = decide(cluster, first, [claim])
    assert isinstance(result, Placed)
    cluster.reserve(first, result)
    assert not is_placed(cluster)
    with cluster.without(["uid-first"]):
        assert is_placed(cluster)
        assert cluster.pods.assumed_pod("uid-first") is None
    assert not is_placed(cluster)
    assert cluster.pods.assumed_pod("uid-first") == (first, NODE)


def test_volume_that_a_pod_in_flight_takes_comes_free() -> None:
    cluster, volume, claim, pod = a_cluster(), a_pv(), a_pvc(), a_pod(name="p")
    cluster.volumes.set_volume(volume)
    cluster.volumes.set_claim(claim)
    cluster.reserve(pod, Placed(NODE, (), (), volumes=VolumePlan((Match(volume, claim),))))
    taken = cluster.volumes.objects.volumes.get(volume.name)
    assert taken != volume
    with cluster.without([pod.uid]):
        assert cluster.volumes.objects.volumes.get(volume.name) == volume
        assert cluster.volumes.free.by_likeness(volume.storage_class)
    assert cluster.volumes.objects.volumes.get(volume.name) is taken
    assert not cluster.volumes.free.by_likeness(volume.storage_class)


def fail_if(*, fits: bool) -> None:
    if fits:
        raise AttributeError


def test_room_comes_free_and_is_taken_again_after_an_error() -> None:
    cluster = a_cluster()
    cluster.set_pod(a_pod(a_container(cpu="2"), name="large", node_name=NODE))
    small = a_pod(a_container(cpu="1"), name="small")
    with pytest.raises(AttributeError), cluster.without(["uid-large"]):
        fail_if(fits=is_placed(cluster, small, ()))
    assert not is_placed(cluster, small, ())


def test_pod_that_is_not_there_is_named() -> None:
    cluster = a_cluster(a_holder("a"))
    with pytest.raises(KeyError, match="uid-other"), cluster.without(["uid-other"]):
        pass
    with cluster.without(["uid-a"]), pytest.raises(KeyError, match="uid-a"), cluster.without(["uid-a"]):
        pass
