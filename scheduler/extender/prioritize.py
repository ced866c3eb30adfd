"""prioritize: how good each node is for the pod's devices, from 0 to 10; called where `ranking` is `prioritize`.

Nodes are ordered by the allocator's policy, then by the alternatives that requests with firstAvailable get there;
kube-scheduler adds its own scores. Only the order matters: the best nodes get 10, the worst 0, the others are spread
evenly between them.
"""

from collections.abc import Mapping, Sequence

from allocator.outcome import AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.extender.question import Asked, best_last
from scheduler.extender.wire import MAX_SCORE
from scheduler.state.pod_claims import Waiting


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
            groups = best_last(cluster, pod, pending, cluster.fleet.scores(pending, asked.mask))
    except AllocationError:
        return scores  # filter says what is wrong
    for place, nodes in enumerate(groups):
        score = round(MAX_SCORE * place / (len(groups) - 1)) if len(groups) > 1 else 0
        scores.update(dict.fromkeys(asked.named(nodes), score))
    return scores
