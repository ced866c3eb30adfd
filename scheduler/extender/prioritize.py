"""prioritize: how good each node is for the pod's devices, from 0 to 10.

Nodes are ordered by the allocator's policy, then by the alternatives that requests with firstAvailable get there;
kube-scheduler adds its own scores. Only the order matters: the best nodes get 10, the worst 0, the others are spread
evenly between them.
"""

from collections.abc import Mapping, Sequence

from allocator.fleet.answers import Rank
from allocator.model import Claim
from allocator.outcome import AllocationError
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.extender.question import Asked
from scheduler.extender.wire import MAX_SCORE
from scheduler.state.pod_claims import Waiting
from scheduler.state.pod_requests import pod_requests


def prioritize(cluster: Cluster, pod: Pod, names: Sequence[str]) -> Mapping[str, int]:
    """The scores of the nodes; all 0 if they are equal, or if the pod's claims changed meanwhile."""
    scores = dict.fromkeys(names, 0)
    found = cluster.claims_of(pod)
    pending = [] if isinstance(found, Waiting) else [one.claim for one in found if one.claim.allocation is None]
    if not pending:
        return scores
    asked = Asked(cluster, names)
    try:
        with cluster.time_limit.limited():
            ranks = _by_policy(cluster, pod, pending, cluster.fleet.scores(pending, asked.mask))
    except AllocationError:
        return scores  # filter says what is wrong
    for place, rank in enumerate(sorted(ranks, key=lambda rank: (rank[1], rank[0]))):
        score = round(MAX_SCORE * place / (len(ranks) - 1)) if len(ranks) > 1 else 0
        scores.update(dict.fromkeys(asked.named(ranks[rank]), score))
    return scores


def _by_policy(cluster: Cluster, pod: Pod, pending: Sequence[Claim], ranks: Mapping[Rank, Mask]) -> Mapping[Rank, Mask]:
    """The nodes by rank and score, also where the policy looks at whole nodes; an earlier alternative goes before."""
    scores, requests = cluster.node_scores_of(pod), pod_requests(pod)
    if scores is None:
        return ranks
    cluster.rooms.workload.see(pod.uid, requests, pending)
    return {
        (rank, (float(rank), score)): nodes
        for (rank, _), able in ranks.items()
        for score, nodes in scores.all(str(pod), requests, pending, able)
    }
