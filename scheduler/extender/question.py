"""What kube-scheduler's calls have in common: what a pod requires of a node, and the nodes in question."""

from collections.abc import Mapping, Sequence

import numpy as np

from allocator.bits import Mask
from allocator.fleet.answers import Rank
from allocator.model import Claim
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.state.claims import Waiting, full
from scheduler.state.masks import Flags, Numbers, flags_of, mask_of
from scheduler.state.pods import pod_requests


class Hopeless(Exception):
    """No node can give the pod its devices as its claims are; the message says why.

    is_behind: the claims have changed since, as kube-scheduler knows already. kept: a claim that is being deleted, and
    stays for as long as it is allocated for the pod.
    """

    def __init__(self, reason: str, *, is_behind: bool = False, kept: Claim | None = None) -> None:
        super().__init__(reason)
        self.is_behind = is_behind
        self.kept = kept


def needs_of(cluster: Cluster, pod: Pod) -> PodCycle:
    """What the pod needs, as things are now. Raises Hopeless."""
    claims = cluster.claims_of(pod)
    if isinstance(claims, Waiting):
        kept = claims.kept.claim if claims.kept is not None else None
        raise Hopeless(claims.reason, is_behind=claims.is_behind, kept=kept)
    needs = PodCycle(cluster, pod, [one.claim for one in claims], full(pod, claims))
    if problem := needs.claims_refused_everywhere():
        raise Hopeless(problem[1])
    return needs


class Asked:
    """The nodes of a question. mask: those that the cluster knows."""

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self._names = np.array(names, np.object_)
        self._numbers: Numbers = np.fromiter(cluster.numbers_of(names), np.int64, len(names))
        self._size = int(self._numbers.max(initial=-1)) + 1
        flags = np.zeros(self._size, np.bool_)
        flags[self._numbers[self._numbers >= 0]] = True
        self.mask = mask_of(flags)

    def unknown(self) -> list[str]:
        """The names of nodes that the cluster does not know."""
        return self._listed(self._numbers < 0)

    def named(self, nodes: Mask) -> list[str]:
        """The names of those that are in the mask, in the order of the question."""
        within = np.append(flags_of(nodes & self.mask, self._size), np.False_)  # the last is for those not known
        return self._listed(within[self._numbers])

    def _listed(self, flags: Flags) -> list[str]:
        names: list[str] = self._names[flags].tolist()
        return names


def best_last(cluster: Cluster, pod: Pod, pending: Sequence[Claim], ranks: Mapping[Rank, Mask]) -> list[Mask]:
    """The nodes in groups of equals, by the policy, then by the alternatives that requests get there."""
    groups = _by_policy(cluster, pod, pending, ranks)
    return [groups[rank] for rank in sorted(groups, key=lambda rank: (rank[1], rank[0]))]


def _by_policy(cluster: Cluster, pod: Pod, pending: Sequence[Claim], ranks: Mapping[Rank, Mask]) -> Mapping[Rank, Mask]:
    """The nodes by rank and score, also where the policy looks at whole nodes; an earlier alternative goes before."""
    scorer, requests = cluster.scorer_of(pod), pod_requests(pod)
    if scorer is None:
        return ranks
    cluster.expect(pod, pending)
    return {
        (rank, (float(rank), score)): nodes
        for (rank, _), able in ranks.items()
        for score, nodes in scorer.all(str(pod), requests, pending, able)
    }
