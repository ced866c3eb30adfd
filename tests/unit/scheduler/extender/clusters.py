"""A cluster as the extender's watches would have filled it."""

from collections.abc import Collection, Mapping
from typing import Any

from allocator.gates import Features
from allocator.model import Claim, Device
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.extender.question import judged_nodes, preemptor_of
from scheduler.preemption.preemption import NodeToWin
from tests.builders import a_class, a_node, a_slice, a_user, amounts, kubernetes, on_node, watched

OURS = "ours"
"""The profile whose pods the extender allocates for."""


def a_cluster(*devices: int, features: Features | None = None, **more: Any) -> Cluster:
    """Nodes node-0, node-1 and so on with so many devices each, gpu-0 and so on; a pool is named like its node."""
    cluster = Cluster(features or kubernetes(), is_ours=lambda pod: pod.scheduler_name == OURS, **more)
    cluster.set_class(a_class())
    for number, count in enumerate(devices):
        add_node(cluster, f"node-{number}", *(f"gpu-{n}" for n in range(count)))
    return cluster


def add_node(cluster: Cluster, name: str, *devices: str | Device) -> None:
    """A node with these devices."""
    cluster.set_node(a_node(name, allocatable=amounts(cpu="16", memory="64Gi", pods="110")))
    cluster.set_slice(a_slice(*devices, name=name, pool=name, reach=on_node(name)))


def a_user_of(cluster: Cluster, *claims: Claim, name: str = "pod") -> Pod:
    """A pod of ours that uses these claims, which the cluster has from now on."""
    for claim in claims:
        cluster.set_claim(watched(claim), 1)
    return a_user(name, *(claim.name for claim in claims), scheduler_name=OURS)


def kept_nodes(cluster: Cluster, pod: Pod, victims: Mapping[str, Collection[str]]) -> dict[str, NodeToWin | None]:
    """Who goes from the nodes that preempt keeps; None where a node is kept as it came."""
    return {one.name: one.won for one in judged_nodes(preemptor_of(cluster), pod, victims) if one.is_kept}
