"""The pods that may be moved, by node, and which of them could be in the way of somebody there, by counting alone.

Nothing is decided here: what is left out cannot help, and what is found may not help. A pod on one node is in the way
of another one there; of a pod that looks at others (affinity, spread) every pod may be in the way, wherever it is, and
so may every pod whose devices several nodes reach.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations
from math import inf
from typing import NamedTuple

from allocator.bits import bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.defrag.movable import Mover
from scheduler.preemption.winnable_claims import WinnableClaims
from scheduler.state.claims import awaited_claims
from scheduler.state.pods_by_priority import priority_of

Cost = tuple[int, int, int, tuple[float, ...], tuple[str, ...]]


class RoomNeed(NamedTuple):
    """Who looks for room. needed: whole devices at least. passed: numbers of nodes where it has room anyway."""

    needed: int
    is_wide: bool = False
    passed: int = 0


class MoversByNode:
    """movers: by uid."""

    def __init__(self, cluster: Cluster, movers: Mapping[str, Mover]) -> None:
        self._cluster = cluster
        self.movers = movers
        self.uids = frozenset(movers)
        self._claims = WinnableClaims(cluster, (), is_on=True)
        self._free: dict[int, int] = {}
        self.steps = 0
        """Sets that were looked at."""

    def cost(self, uids: frozenset[str]) -> Cost:
        """What it costs to move these: how many, their priorities, their devices, who started last; then names."""
        own = [self.movers[uid] for uid in uids]
        started = tuple(-one for one in sorted(mover.started for mover in own))
        names = tuple(sorted(str(one.pod) for one in own))
        return len(own), sum(priority_of(one.pod) for one in own), sum(one.held for one in own), started, names

    def ordered(self, uids: frozenset[str]) -> list[Mover]:
        """These, the cheapest first."""
        return sorted((self.movers[uid] for uid in uids), key=lambda one: self.cost(frozenset((one.uid,))))

    def looks_wide(self, pod: Pod) -> bool:
        """Whether it matters for the pod who is on other nodes than its own."""
        affinity = pod.pod_affinity
        has_terms = bool(affinity.required or affinity.required_anti or any(one.is_hard for one in pod.spread))
        return has_terms or self._repels

    def sets(self, asking: RoomNeed, before: frozenset[str], most: int) -> Iterator[frozenset[str]]:
        """Up to so many pods that may be in the way of who asks. before: the pods that are away already."""
        if asking.is_wide:
            yield from self._wide_sets(asking, before, most)
            return
        for number, own in self._by_node.items():
            if asking.passed >> number & 1:
                continue
            away = sum(self._held_on(number, uid) for uid in before)
            rest = [uid for uid in own if uid not in before]
            missing = asking.needed - self.free(number) - away
            if missing > sum(sorted((self._held_on(number, uid) for uid in rest), reverse=True)[:most]):
                self.steps += 1
                continue
            for size in range(1, min(most, len(rest)) + 1):
                for chosen in combinations(rest, size):
                    self.steps += 1
                    if sum(self._held_on(number, uid) for uid in chosen) >= missing:
                        yield frozenset(chosen)

    def _wide_sets(self, asking: RoomNeed, before: frozenset[str], most: int) -> Iterator[frozenset[str]]:
        rest = [uid for uid in self.movers if uid not in before]
        for size in range(1, most + 1):
            for chosen in combinations(rest, size):
                self.steps += 1
                if self._may_give(asking.needed, before.union(chosen)):
                    yield frozenset(chosen)

    def _may_give(self, needed: int, away: frozenset[str]) -> bool:
        """Whether a node has as many devices, these pods away."""
        if needed <= self._most_free:
            return True
        nodes = {self._number(uid) for uid in away}
        some = any(needed <= self.free(one) + sum(self._held_on(one, uid) for uid in away) for one in nodes)
        return some or any(uid in self._roaming for uid in away)

    def free(self, number: int) -> int:
        """How many devices of the node nobody has."""
        if number not in self._free:
            self._free[number] = self._claims.free_devices(number)
        return self._free[number]

    def _held_on(self, number: int, uid: str) -> float:
        """How many devices the pod may give to the node."""
        mover = self.movers[uid]
        return mover.held if uid in self._roaming or self._number(uid) == number else 0

    def _number(self, uid: str) -> int:
        return self._numbers[uid]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        numbers = ((uid, self._cluster.number_of(one.node)) for uid, one in self.movers.items())
        return {uid: -1 if number is None else number for uid, number in numbers}

    @cached_property
    def _by_node(self) -> Mapping[int, Sequence[str]]:
        """Who is on each node, or may be in the way there from elsewhere."""
        by_node: dict[int, list[str]] = {}
        for uid, number in self._numbers.items():
            by_node.setdefault(number, []).append(uid)
        if self._roaming:
            for number in bits(self._cluster.fleet.all):
                by_node[number] = list(dict.fromkeys(chain(by_node.get(number, ()), self._roaming)))
        return by_node

    @cached_property
    def _roaming(self) -> Mapping[str, None]:
        """The pods with devices that several nodes reach."""
        claims, roaming = self._cluster.claims, dict[str, None]()
        for uid, mover in self.movers.items():
            for key in awaited_claims(mover.pod) if mover.held else ():
                claim_object = claims.get(*key)
                if claim_object is not None and self._claims.obstacle(mover.node, claim_object.claim.uid):
                    roaming[uid] = None
        return roaming

    @cached_property
    def _most_free(self) -> float:
        return max(map(self.free, bits(self._cluster.fleet.all)), default=-inf)

    @cached_property
    def _repels(self) -> bool:
        """Whether somebody keeps others away from where it is."""
        return any(pod.pod_affinity.required_anti for _, pod in self._cluster.pods.on_nodes())
