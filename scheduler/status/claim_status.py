"""Claims with their state, devices, node and users, in the words of `kubectl get resourceclaims`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from allocator.api.allocation import Consumer
from allocator.model import Claim, DeviceResult
from scheduler.core_v1.pod import Pod
from scheduler.plugins.node_affinity import named_nodes
from scheduler.state.claim_index import ClaimObject

ANY_NODE = "(any)"
"""The node of an allocated claim that all nodes, or those of a selector, can use."""


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """A claim. states: `deleted`, `pending`, `allocated`, `reserved`: all that hold.

    node: of the pods that use it, else the one that reaches its devices; empty before it is allocated. users: for whom
    it is reserved, such as `pod/train-0`. created: RFC 3339, or empty.
    """

    claim: Claim
    states: tuple[str, ...]
    node: str
    users: tuple[str, ...]
    created: str

    @property
    def devices(self) -> tuple[DeviceResult, ...]:
        """What it holds."""
        return self.claim.allocation.results if self.claim.allocation else ()


def claim_statuses(claims: Iterable[ClaimObject], pods: Iterable[Pod]) -> list[ClaimStatus]:
    """The claims by namespace and name. pods: those of the cluster, for their nodes."""
    nodes = {pod.uid: pod.node_name for pod in pods if pod.uid}
    found = [_status(one, nodes) for one in claims]
    return sorted(found, key=lambda one: (one.claim.namespace, one.claim.name))


def _status(found: ClaimObject, nodes: Mapping[str, str]) -> ClaimStatus:
    users = tuple(_user_text(consumer) for consumer in found.reserved_for)
    used_on = {nodes[one.uid] for one in found.reserved_for if nodes.get(one.uid)}
    node = ",".join(sorted(used_on)) or _reached_node(found.claim)
    return ClaimStatus(found.claim, tuple(_states(found)), node, users, found.metadata.creation_timestamp)


def _states(found: ClaimObject) -> Iterable[str]:
    if found.metadata.deletion_timestamp:
        yield "deleted"
    if found.claim.allocation is None:
        yield "pending"
        return
    yield "allocated"
    if found.reserved_for:
        yield "reserved"


def _user_text(consumer: Consumer) -> str:
    kind = consumer.resource.removesuffix("s") if not consumer.api_group else consumer.resource
    return f"{kind}/{consumer.name}"


def _reached_node(claim: Claim) -> str:
    if claim.allocation is None:
        return ""
    names = named_nodes(claim.allocation.node_selector)
    return ",".join(sorted(names)) if names else ANY_NODE
