"""What every plugin says about a pod: which one refuses a node and why, and the scores of the other nodes.

`decide` stops as early as it can; this is for those who want to know why, or to compare.
Source: kube-scheduler's Diagnosis and NodePluginScores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.model import Claim
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import EligibleNodes, able, cycle_of, reached_by_all
from scheduler.decision.choice import ranks_of, weighted
from scheduler.decision.cluster import Cluster
from scheduler.decision.everywhere import for_every_node
from scheduler.decision.not_placed import Kept
from scheduler.decision.requirements import requirements
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.plugins.plugin import Reason, Rejected
from scheduler.state.masks import Numbers, numbers_of, union
from scheduler.state.pod_claims import Waiting
from scheduler.state.pod_requests import pod_requests

Groups = dict[tuple[int, tuple[float, ...]], Mask]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The plugins' answers for a pod.

    everywhere: the first that refuses every node at once, and why; nothing else is asked then. rejected: why not, for
    each node that is refused; one may have several reasons of one plugin. feasible: the other nodes. scores: of these
    in the order of their numbers, by plugin, weighted; without those that have nothing to say of the pod.
    """

    everywhere: tuple[Reason, str] | None = None
    rejected: Sequence[tuple[Reason, Rejected]] = ()
    feasible: Mask = 0
    scores: Mapping[str, Numbers] = field(default_factory=dict)


def diagnosis_of(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim] | Waiting, full: Iterable[Claim] = ()
) -> Diagnosis:
    """What the plugins say of a pod without a node. claims, full: as for `decide`, or why they have to be waited for.

    Raises AllocationError. Cost: as `decide`, for a pod that fits nowhere.
    """
    requests, found = pod_requests(pod), [] if isinstance(claims, Waiting) else claims
    cycle, pending = cycle_of(cluster, pod, requests), [claim for claim in found if claim.allocation is None]
    if everywhere := for_every_node(cluster, cycle, pending, full):
        return Diagnosis(everywhere)
    if isinstance(claims, Waiting):
        return Diagnosis((CLAIMS, claims.reason))
    reached, groups, rejected = reached_by_all(cluster, claims), Groups(), list[tuple[Reason, Rejected]]()
    for required in requirements(cluster, pod, requests, pending):
        asked = EligibleNodes.of(cluster, cycle, required)
        own = able(cluster, pod, claims, required, asked.allowed & reached)
        rejected += Kept.of(cluster, cycle, asked, reached, union(own.values())).found()
        for rank, nodes in own.items():
            groups[rank] = groups.get(rank, 0) | nodes
    feasible = union(groups.values())
    return Diagnosis(None, rejected, feasible, _scores(cluster, cycle, groups, feasible))


def _scores(cluster: Cluster, cycle: Cycle, groups: Groups, feasible: Mask) -> Mapping[str, Numbers]:
    if not feasible:
        return {}
    nodes = numbers_of(feasible)
    ranks = ranks_of(groups, nodes, cluster.infos.size)
    return {plugin.name: own for plugin, own in weighted(cycle, cluster.templates_of(cycle.pod).plugins, nodes, ranks)}
