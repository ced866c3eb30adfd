from typing import Any

from allocator.model import Taint
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.why_not import Diagnosis, diagnosis_of
from scheduler.plugins.dynamic_resources import CLAIMS, CLASSES, DEVICES
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.plugin import Rejected
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.state.claims import Waiting
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_request,
    a_slice,
    amounts,
    an_alternative,
    first_available,
    kubernetes,
    on_node,
)


def a_cluster(*devices: int, **node: Any) -> Cluster:
    """Nodes with so many devices each."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    for number, count in enumerate(devices):
        add_node(cluster, number, count, **node)
    return cluster


def add_node(cluster: Cluster, number: int, devices: int, **node: Any) -> None:
    name = f"node-{number}"
    room = amounts(cpu="4", memory="8Gi", pods="10")
    cluster.set_node(a_node(name, **{"allocatable": room, **node}))
    cluster.set_slice(a_slice(*(f"gpu-{n}" for n in range(devices)), name=name, pool=name, reach=on_node(name)))


def scores(diagnosis: Diagnosis) -> dict[str, list[int]]:
    return {plugin: [int(one) for one in own] for plugin, own in diagnosis.scores.items()}


PROCESSOR: Pod = a_pod(a_container(cpu="2", memory="4Gi"))


def test_each_node_is_refused_by_one_plugin_or_feasible() -> None:
    cluster = a_cluster(1, 0, 1, 1)
    cluster.set_pod(a_pod(a_container(cpu="3"), name="other", node_name="node-2"))
    add_node(cluster, 3, 1, taints=(Taint("k", "", "NoSchedule"),))
    found = diagnosis_of(cluster, PROCESSOR, [a_claim()])
    assert found.everywhere is None
    assert found.feasible == 0b0001
    assert found.rejected == [
        (TAINT_TOLERATION.reason, Rejected("node(s) had untolerated taint(s)", 0b1000)),
        (NODE_RESOURCES_FIT.reason, Rejected("Insufficient cpu", 0b0100, 0b0100)),
        (DEVICES, Rejected("cannot allocate all claims", 0b0010)),
    ]


def test_scores_are_weighted_and_in_the_order_of_the_feasible_nodes() -> None:
    cluster = a_cluster(1, 0, 2)
    claim = a_claim(first_available("r", an_alternative(count=2), an_alternative("b")))
    assert scores(diagnosis_of(cluster, PROCESSOR, [claim])) == {
        "TaintToleration": [300, 300],
        "NodeResourcesFit": [50, 50],
        "VolumeBinding": [0, 0],
        "DynamicResources": [174, 200],
        "NodeResourcesBalancedAllocation": [75, 75],
        "ImageLocality": [0, 0],
    }


def test_what_refuses_every_node_at_once_is_all_there_is_to_say() -> None:
    missing = a_claim(a_request(class_name="none"))
    found = diagnosis_of(a_cluster(1), PROCESSOR, [missing])
    assert found == Diagnosis((CLASSES, "request gpus: device class none does not exist"))


def test_a_claim_that_is_waited_for_refuses_every_node_at_once() -> None:
    found = diagnosis_of(a_cluster(1), PROCESSOR, Waiting("gone"))
    assert found == Diagnosis((CLAIMS, "gone"))
