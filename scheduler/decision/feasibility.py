"""Which nodes a pod can be on, devices aside, and for all others why not.

The filters run in kube-scheduler's order, and a node is refused by the first of them that refuses it.
`feasible` is on the way of every decision; `refusals` is asked when nothing is left, or by a person.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.templates import Template
from scheduler.plugins.filters import inter_pod_affinity, node_ports, node_resources_fit
from scheduler.state.masks import mask_of, union
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import PodRequests


@dataclass(frozen=True, slots=True)
class Refused:
    """Nodes that a plugin refuses for one reason. reason: in kube-scheduler's words.

    resolvable: those of them that the end of other pods could make feasible, kube-scheduler's code Unschedulable; the
    others are UnschedulableAndUnresolvable.
    """

    plugin: str
    reason: str
    nodes: Mask
    resolvable: Mask = 0


def feasible(pod: Pod, requests: PodRequests, template: Template, infos: NodeInfos) -> Mask:
    """The nodes that every filter lets pass. template, requests: of the pod."""
    left = template.allowed & ~node_ports.node_ports(pod, infos) & ~inter_pod_affinity.inter_pod_affinity(pod, infos)
    return left & mask_of(node_resources_fit.node_resources_fit(requests, infos))


def refusals(pod: Pod, requests: PodRequests, template: Template, infos: NodeInfos) -> Iterator[Refused]:
    """Why not, for every node that is not feasible; a node that lacks several resources is told with each."""
    for plugin, reason, nodes in template.refused():
        yield Refused(plugin, reason, nodes)
    yield from refusals_by_pods(pod, requests, template, infos)


def refusals_by_pods(pod: Pod, requests: PodRequests, template: Template, infos: NodeInfos) -> Iterator[Refused]:
    """The same for the nodes that the template allows: what the pods there leave is not enough."""
    clashes = template.allowed & node_ports.node_ports(pod, infos)
    if clashes:
        yield Refused(node_ports.PLUGIN, node_ports.REASON, clashes, clashes)
    yield from _shortages(requests, template.allowed & ~clashes, infos)
    kept = template.allowed & ~clashes & inter_pod_affinity.inter_pod_affinity(pod, infos)
    if kept := kept & mask_of(node_resources_fit.node_resources_fit(requests, infos)):
        yield Refused(inter_pod_affinity.PLUGIN, inter_pod_affinity.REASON, kept, kept)


def fit_error(nodes: int, reasons: Counter[str], *, before: str = "", explanation: str = "") -> str:
    """The message of a pod that fits nowhere, as kube-scheduler writes it.

    nodes: how many there are. reasons: of `counts`. before: what refuses every node at once, in place of the reasons.
    explanation: more, of which the first line is told after the rest.
    """
    if not nodes:
        return _with("no nodes available to schedule pods", explanation)
    told = before or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return _with(f"0/{nodes} nodes are available: {told}." if told else f"0/{nodes} nodes are available:", explanation)


def _shortages(requests: PodRequests, asked: Mask, infos: NodeInfos) -> Iterator[Refused]:
    found = [
        (one.reason, mask_of(one.lacking) & asked, mask_of(one.never))
        for one in node_resources_fit.shortages(requests, infos)
    ]
    hopeless = union(never & lacking for _, lacking, never in found)
    for reason, lacking, _ in found:
        if lacking:
            yield Refused(node_resources_fit.PLUGIN, reason, lacking, lacking & ~hopeless)


def _with(message: str, explanation: str) -> str:
    lines: Sequence[str] = explanation.strip().splitlines()
    return f"{message} {lines[0]}" if lines else message
