"""A node is kept when the devices fit once its victims are gone, and not when they would be evicted in vain."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.model import Allocation, Claim, Requirement
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.runtime.configuration import load
from tests.builders import (
    a_claim,
    a_container,
    a_node,
    a_pod,
    a_request,
    a_result,
    a_user,
    amounts,
    an_allocated_claim,
    kubernetes,
    named,
    watched,
)
from tests.unit.scheduler.extender.clusters import a_cluster, a_user_of, kept_nodes


def hold(cluster: Cluster, name: str, node: str, *devices: str, users: Iterable[str] = ()) -> None:
    """A claim with these devices of the node, reserved for pods that are bound there; for one of its name, if none."""
    claim = an_allocated_claim(*(a_result(device, pool=node) for device in devices), name=name)
    pods = [bound(cluster, user, node, name) for user in (users or (name,))]
    cluster.set_claim(watched(claim, users=pods), 1)


def bound(cluster: Cluster, name: str, node: str, *claims: str) -> Pod:
    pod = a_user(name, *claims, node_name=node)
    cluster.set_pod(pod)
    return pod


def kept(cluster: Cluster, victims: Mapping[str, Iterable[str]], *claims: Claim, **more: Any) -> list[str]:
    """victims: names of pods by node."""
    pod = replace(a_user_of(cluster, *(claims or (a_claim(),))), **more)
    asked = {node: [f"uid-{name}" for name in names] for node, names in victims.items()}
    return list(kept_nodes(cluster, pod, asked))


def going(
    cluster: Cluster, victims: Mapping[str, Iterable[str]], *claims: Claim, **more: Any
) -> dict[str, tuple[list[str], int] | None]:
    """Who goes from the nodes that are kept, and how many evictions violate a budget; None for as it came."""
    pod = replace(a_user_of(cluster, *(claims or (a_claim(),))), **more)
    asked = {node: [f"uid-{name}" for name in names] for node, names in victims.items()}
    found = kept_nodes(cluster, pod, asked)
    return {
        node: (sorted(pod.name for pod in won.pods), won.violations) if won else None for node, won in found.items()
    }


def test_node_whose_victims_hold_the_devices_is_kept() -> None:
    cluster = a_cluster(1, 2)
    hold(cluster, "a", "node-0", "gpu-0")
    hold(cluster, "b", "node-1", "gpu-0")
    hold(cluster, "c", "node-1", "gpu-1")
    wanted = a_claim(a_request(count=2))
    assert kept(cluster, {"node-0": ["a"], "node-1": ["b", "c"]}, wanted) == ["node-1"]
    assert kept(cluster, {"node-0": ["a"], "node-1": ["b"]}, wanted) == []


def test_node_that_has_free_devices_is_kept_whatever_its_victims_hold() -> None:
    cluster = a_cluster(1)
    bound(cluster, "a", "node-0")
    assert kept(cluster, {"node-0": ["a"]}) == ["node-0"]


def test_node_without_victims_is_left_out_where_nobody_can_go_for_the_devices() -> None:
    cluster = a_cluster(1, 1, 1)
    hold(cluster, "a", "node-0", "gpu-0")
    assert kept(cluster, {"node-0": [], "node-1": [], "node-9": []}) == ["node-1"]


def test_strict_adds_nobody() -> None:
    cluster = a_cluster(1, 1, features=kubernetes("1.38", is_strict=True))
    hold(cluster, "a", "node-0", "gpu-0")
    hold(cluster, "b", "node-1", "gpu-0")
    bound(cluster, "c", "node-1")
    assert going(cluster, {"node-0": [], "node-1": ["c"]}, priority=1) == {"node-0": None}


def test_pods_that_are_never_evicted_stay_although_kube_scheduler_takes_them_for_victims() -> None:
    for settings in ({"neverPreempt": "team=a"}, {"preemptPodsOf": "own"}):
        cluster = a_cluster(1, 1)
        spared = load(ExtenderConfiguration, None, settings).spared(lambda pod: pod.scheduler_name == "ours")
        cluster.by_priority.spares = spared
        for node, name, more in (
            ("node-0", "a", {"labels": {"team": "a"}}),
            ("node-1", "b", {"scheduler_name": "ours"}),
        ):
            hold(cluster, name, node, "gpu-0")
            pod = bound(cluster, name, node, name)
            cluster.set_pod(pod.changed(**more))
        asked = {"node-0": ["a"], "node-1": []}
        assert going(cluster, asked, priority=1) == {"node-1": (["b"], 0)}, settings


def test_those_who_hold_devices_go_where_nobody_has_to_for_anything_else() -> None:
    cluster = a_cluster(2, 1)
    hold(cluster, "a", "node-0", "gpu-0")
    hold(cluster, "b", "node-0", "gpu-1")
    bound(cluster, "c", "node-0")
    hold(cluster, "d", "node-1", "gpu-0")
    cluster.set_pod(bound(cluster, "d", "node-1", "d").changed(priority=5))
    # Of two that are equal in all but their uids, the first stays.
    assert going(cluster, {"node-0": [], "node-1": []}, priority=1) == {"node-0": (["b"], 0)}
    assert going(cluster, {"node-0": []}, a_claim(a_request(count=2)), priority=1) == {"node-0": (["a", "b"], 0)}
    assert going(cluster, {"node-0": [], "node-1": []}, priority=0) == {}


def test_victim_for_devices_goes_beside_those_that_kube_scheduler_knows_a_reason_for() -> None:
    """A plugin of its own, or a volume: our filters would not evict c."""
    cluster = a_cluster(1)
    hold(cluster, "a", "node-0", "gpu-0")
    bound(cluster, "c", "node-0")
    bound(cluster, "d", "node-0")
    assert going(cluster, {"node-0": ["c"]}, priority=1) == {"node-0": (["a", "c"], 0)}


def test_victim_for_devices_goes_in_place_of_another_where_it_frees_as_much() -> None:
    cluster = a_cluster(1)
    cluster.set_node(a_node("node-0", allocatable=amounts(cpu="2", pods="9")))
    hold(cluster, "a", "node-0", "gpu-0")
    for name, *claims in (("a", "a"), ("b",)):
        cluster.set_pod(replace(bound(cluster, name, "node-0", *claims), containers=(a_container(cpu="1"),)))
    asked = {"node-0": ["b"]}
    assert going(cluster, asked, priority=1, containers=(a_container(cpu="1"),)) == {"node-0": (["a"], 0)}


def test_mirror_pod_never_goes() -> None:
    cluster = a_cluster(1, 1)
    for number, name in enumerate("ab"):
        hold(cluster, name, f"node-{number}", "gpu-0")
        cluster.set_pod(bound(cluster, name, f"node-{number}", name).changed(is_static=True))
    assert going(cluster, {"node-0": [], "node-1": ["b"]}, priority=1) == {}


def test_mirror_pod_that_kube_scheduler_would_evict_is_spared_where_others_suffice() -> None:
    cluster = a_cluster(1)
    hold(cluster, "a", "node-0", "gpu-0")
    cluster.set_pod(bound(cluster, "mirror", "node-0").changed(is_static=True))
    assert going(cluster, {"node-0": ["a", "mirror"]}, priority=1) == {"node-0": (["a"], 0)}


def test_budgets_that_victims_violate_are_counted_and_others_go_first() -> None:
    cluster = a_cluster(2)
    for number, name in enumerate("ab"):
        hold(cluster, name, "node-0", f"gpu-{number}")
        cluster.set_pod(bound(cluster, name, "node-0", name).changed(labels={"app": name}))
    cluster.budgets.set(PodDisruptionBudget("default", "of-b", (Requirement("app", "In", ("b",)),), 0))
    assert going(cluster, {"node-0": []}, priority=1) == {"node-0": (["a"], 0)}
    assert going(cluster, {"node-0": []}, a_claim(a_request(count=2)), priority=1) == {"node-0": (["a", "b"], 1)}


def test_node_is_left_out_where_the_victims_are_none_that_can_go_any_more() -> None:
    cluster = a_cluster(1)
    hold(cluster, "a", "node-0", "gpu-0")
    assert going(cluster, {"node-0": ["unknown"]}, priority=1) == {}


def test_victims_of_one_node_free_nothing_for_another() -> None:
    cluster = a_cluster(1, 1)
    hold(cluster, "a", "node-0", "gpu-0")
    hold(cluster, "b", "node-1", "gpu-0")
    bound(cluster, "c", "node-1")
    assert kept(cluster, {"node-0": ["a"], "node-1": ["c"]}) == ["node-0"]


def test_shared_claim_is_freed_by_its_last_user() -> None:
    cluster = a_cluster(1)
    hold(cluster, "shared", "node-0", "gpu-0", users=("a", "b"))
    assert kept(cluster, {"node-0": ["a"]}) == []
    assert kept(cluster, {"node-0": ["a", "b"]}) == ["node-0"]


def test_claim_that_is_reserved_for_nobody_is_not_freed() -> None:
    cluster = a_cluster(1)
    bound(cluster, "a", "node-0", "left")
    cluster.set_claim(watched(an_allocated_claim(a_result(pool="node-0"), name="left")), 1)
    assert kept(cluster, {"node-0": ["a"]}) == []


def test_devices_of_a_claim_that_the_pod_shares_with_its_victim_stay_in_use() -> None:
    cluster = a_cluster(1)
    allocation = Allocation((a_result(pool="node-0"),), node_selector=named("node-0"))
    shared, pending = a_claim(name="shared", allocation=allocation), a_claim(name="pending")
    pod = a_user_of(cluster, shared, pending)
    victim = bound(cluster, "a", "node-0", "shared")
    cluster.set_claim(watched(shared, users=[victim]), 2)
    assert not kept_nodes(cluster, pod, {"node-0": [victim.uid]})


def test_devices_in_flight_are_not_freed() -> None:
    cluster = a_cluster(1)
    claim = a_claim(name="other")
    other = a_user_of(cluster, claim, name="other")
    cluster.reserve(other, Placed("node-0", (claim,), (Allocation((a_result(pool="node-0"),)),)))
    bound(cluster, "a", "node-0", "other")
    assert kept(cluster, {"node-0": ["a", "other"]}) == []


def test_pod_that_has_its_devices_keeps_only_the_nodes_that_reach_them() -> None:
    cluster = a_cluster(1, 1)
    bound(cluster, "a", "node-0")
    bound(cluster, "b", "node-1")
    claim = a_claim(allocation=Allocation((a_result(pool="node-1"),), node_selector=named("node-1")))
    assert kept(cluster, {"node-0": ["a"], "node-1": ["b"]}, claim) == ["node-1"]


def test_nothing_is_kept_for_what_eviction_does_not_help() -> None:
    cluster = a_cluster(1)
    hold(cluster, "a", "node-0", "gpu-0")
    victims = {"node-0": ["a"], "node-9": ["a"]}
    missing, broken = a_request(class_name="nic"), a_request("gpus", 1, "device.attributes['x'].y")
    assert kept(cluster, victims, a_claim(missing)) == []
    assert kept(cluster, victims, a_claim(broken)) == []
    assert not kept_nodes(cluster, a_user("pod", "none"), {"node-0": ["uid-a"]})
    assert kept(cluster, victims) == ["node-0"]


def test_full_claim_is_not_waited_for() -> None:
    cluster = a_cluster(1)
    claim = a_claim(allocation=Allocation((a_result(pool="node-0"),)))
    pod = a_user_of(cluster, claim)
    bound(cluster, "a", "node-0")
    cluster.set_claim(watched(claim, users=[a_pod(name=f"user-{n}") for n in range(RESERVED_FOR_MAX)]), 2)
    assert not kept_nodes(cluster, pod, {"node-0": ["uid-a"]})


def test_nothing_changes_by_asking() -> None:
    cluster = a_cluster(1)
    hold(cluster, "a", "node-0", "gpu-0")
    assert kept(cluster, {"node-0": ["a"]}) == kept(cluster, {"node-0": ["a"]}) == ["node-0"]
    assert not cluster.fleet.able([a_claim()])
