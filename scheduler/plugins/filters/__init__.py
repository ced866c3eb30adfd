"""Filters, one file each, named like kube-scheduler's plugin that decides the same.

Those listed here look at the pod and the node alone, so that their answers can be kept (`templates`): each
says why a pod cannot be on a node, or nothing; the first that speaks is heard. NodePorts, NodeResourcesFit and
InterPodAffinity come after them and look at the pods that are there (`node_info`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.filters.node_affinity import node_affinity
from scheduler.plugins.filters.node_name import node_name
from scheduler.plugins.filters.node_unschedulable import node_unschedulable
from scheduler.plugins.filters.taint_toleration import taint_toleration


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of one node. plugin: kube-scheduler's name of it. reason: its refusal of several nodes, in its words.

    refusal: why the pod cannot be on the node, empty where it can. No other pod's end would change the answer.
    """

    plugin: str
    reason: str
    refusal: Callable[[Pod, Node], str]


FILTERS = (
    Filter("NodeUnschedulable", "node(s) were unschedulable", node_unschedulable),
    Filter("NodeName", "node(s) didn't match the requested node name", node_name),
    Filter("TaintToleration", "node(s) had untolerated taint(s)", taint_toleration),
    Filter("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", node_affinity),
)
"""In kube-scheduler's order."""


def refusal(pod: Pod, node: Node) -> str:
    """Why the pod cannot be on the node, for a person who asks about this node; empty where it can."""
    return next((reason for one in FILTERS if (reason := one.refusal(pod, node))), "")
