"""Every pod is decided by the profile that it names."""

import pytest

from allocator.model import Taint
from allocator.policies import policy_of
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.plugins.profile import PluginSet, PluginSets, Profile, plugins_of
from tests.builders import a_claim, a_class, a_node, a_pod, a_slice, amounts, kubernetes, on_node

TAINTED = Taint("k", "v", "NoSchedule")
LENIENT = plugins_of(PluginSets(filter=PluginSet(disabled=frozenset({"TaintToleration"}))), {})


def a_cluster(*profiles: Profile, devices: tuple[int, ...] = (), taints: tuple[Taint, ...] = ()) -> Cluster:
    """Nodes node-0, node-1 and so on with so many devices each."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True, profiles=profiles)
    cluster.set_class(a_class())
    for number, count in enumerate(devices):
        name, room = f"node-{number}", amounts(cpu="4", memory="8Gi", pods="10")
        cluster.set_node(a_node(name, allocatable=room, taints=taints))
        gpus = [f"gpu-{n}" for n in range(count)]
        cluster.set_slice(a_slice(*gpus, name=name, pool=name, reach=on_node(name)))
    return cluster


def node_of(cluster: Cluster, pod: Pod) -> str:
    found = decide(cluster, pod, [a_claim()])
    return found.node if isinstance(found, Placed) else ""


@pytest.mark.parametrize(("name", "node"), [("strict", ""), ("lenient", "node-0"), ("unknown", "")])
def test_pod_is_decided_by_the_plugins_of_its_profile(name: str, node: str) -> None:
    cluster = a_cluster(Profile("strict"), Profile("lenient", LENIENT), devices=(1,), taints=(TAINTED,))
    assert node_of(cluster, a_pod(scheduler_name=name)) == node


@pytest.mark.parametrize(("name", "node"), [("first", "node-0"), ("packing", "node-1"), ("spreading", "node-2")])
def test_pod_is_decided_by_the_policy_of_its_profile(name: str, node: str) -> None:
    profiles = (
        Profile("first"),
        Profile("packing", policy=policy_of("pack")),
        Profile("spreading", policy=policy_of("spread")),
    )
    cluster = a_cluster(*profiles, devices=(2, 1, 3))
    assert node_of(cluster, a_pod(scheduler_name=name)) == node


def test_profiles_with_one_policy_for_different_attributes_are_decided_apart() -> None:
    profiles = [Profile(text, policy=policy_of(f"topology:a.example/{text}")) for text in ("row", "rack")]
    cluster = a_cluster(*profiles, devices=(1,))
    rows, racks = (cluster.fleet_of(a_pod(scheduler_name=profile.scheduler_name)) for profile in profiles)
    assert (rows.policy, racks.policy) == (profiles[0].policy, profiles[1].policy)


def test_profiles_share_what_there_is() -> None:
    cluster = a_cluster(Profile("first"), Profile("packing", policy=policy_of("pack")), devices=(2, 1))
    claim, pod = a_claim(), a_pod(scheduler_name="packing")
    placed = decide(cluster, pod, [claim])
    assert isinstance(placed, Placed)
    assert placed.node == "node-1"
    cluster.reserve(pod, placed)
    assert node_of(cluster, a_pod(name="second", scheduler_name="packing")) == "node-0"
    cluster.remove_node("node-0")
    assert isinstance(decide(cluster, a_pod(name="third", scheduler_name="packing"), [a_claim()]), NotPlaced)
    assert isinstance(decide(cluster, a_pod(name="fourth", scheduler_name="first"), [a_claim()]), NotPlaced)
