"""What a pod requires of nodes: equal for all nodes, except for extended resources that some provide by claim."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.explain.cause import with_requests_named
from allocator.model import Claim
from allocator.outcome import Outcome
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.state.extended_resources import ExtendedClaim
from scheduler.state.pod_requests import PodRequests


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a pod asks of some nodes. requests: of what is their own. pending: its claims without devices.

    extended: the last of the claims, where it is to be made for extended resources. problem: why it cannot be, so that
    none of the nodes will do.
    """

    nodes: Mask
    requests: PodRequests
    pending: tuple[Claim, ...]
    extended: ExtendedClaim | None = None
    problem: str = ""

    def named(self, outcome: Outcome) -> Outcome:
        """The outcome for the claims, with extended resources in place of the generated names of requests for them."""
        extended = self.extended
        return with_requests_named(outcome, str(extended.claim), extended.resources) if extended else outcome


def requirements(cluster: Cluster, pod: Pod, requests: PodRequests, pending: Sequence[Claim]) -> Sequence[Requirements]:
    """Each node is in one of them. pending: the pod's own claims without devices."""
    if pod.node_name or not cluster.extended_resources.asked_by(pod):
        return (Requirements(cluster.fleet.all, requests, tuple(pending)),)
    return tuple(_requirements(cluster, pod, requests, tuple(pending)))


def _requirements(
    cluster: Cluster, pod: Pod, requests: PodRequests, pending: tuple[Claim, ...]
) -> Iterator[Requirements]:
    for nodes, backed, extended in cluster.extended_resources.by_nodes(pod, cluster.infos, cluster.fleet.all):
        own = requests.without(backed)
        match extended:
            case ExtendedClaim(claim=claim):
                yield Requirements(nodes, own, (*pending, claim), extended)
            case str(problem):
                yield Requirements(nodes, own, pending, problem=problem)
            case None:
                # Differs from kube-scheduler, which goes on to write a claim without requests beside the pod's own.
                yield Requirements(nodes, own, pending)
