"""The same decisions without HTTP, in this process: by `filter_nodes`, and by the allocator's fleet alone.

The cluster is filled by hand with the objects that the control plane has otherwise, and changes as often.
"""

import gc
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from time import perf_counter

from allocator.gates import Features
from benchmarks.endtoend import workload
from benchmarks.extender.cases import (
    PODS,
    SHAPES,
    Case,
    asked_claims,
    change,
    changed_claims,
    held_claims,
    names,
    pod,
)
from scheduler import kinds
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.extender.verbs import filter_nodes
from scheduler.state.claims import Waiting

Question = Callable[[Pod], object]

FEATURES = "1.36"
CHANGES_A_CALL = 2


class Alone:
    """A cluster and what changes in it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._names = names(case)
        self._versions = count(1)
        self._changes = count()
        self._cluster = Cluster(Features.of(FEATURES), is_ours=lambda _: True)
        self._fill()

    def filter_s(self, calls: int) -> Sequence[float]:
        """How long each decision of the extender takes, texts included."""
        return self._timed(lambda one: filter_nodes(self._cluster, one, self._names), calls)

    def fleet_s(self, calls: int) -> Sequence[float]:
        """How long the allocator takes for the same: which nodes can, and why the others cannot."""
        return self._timed(self._ask_fleet, calls)

    def _fill(self) -> None:
        gc.disable()
        cluster = self._cluster
        cluster.set_class(kinds.class_of(workload.device_class()))
        for node in workload.nodes(self._case.size):
            cluster.set_node(kinds.node_of(node))
        for slice_ in workload.slices(self._case.size):
            cluster.set_slice(kinds.slice_of(slice_))
        for claims in (held_claims(self._case), asked_claims(), changed_claims()):
            self._show(claims)
        gc.enable()
        gc.collect()
        gc.freeze()  # as the program does once its caches are filled

    def _show(self, claims: Iterable[workload.Json]) -> None:
        """What a watch shows."""
        for claim in claims:
            metadata = {**claim["metadata"], "uid": claim["metadata"]["name"]}
            self._cluster.set_claim(kinds.claim_of({**claim, "metadata": metadata}), next(self._versions))

    def _timed(self, question: Question, calls: int) -> Sequence[float]:
        """The times of so many questions, each after some changes; each of them is asked once before."""
        pods = [kinds.pod_of(pod(number)) for number in range(PODS)]
        for one in pods[: len(SHAPES)]:
            question(one)
        return [self._after_changes(question, pods[number % PODS]) for number in range(calls)]

    def _after_changes(self, question: Question, one: Pod) -> float:
        self._show(change(self._case, next(self._changes)) for _ in range(CHANGES_A_CALL))
        began = perf_counter()
        question(one)
        return perf_counter() - began

    def _ask_fleet(self, one: Pod) -> object:
        found = self._cluster.claims_of(one)
        assert not isinstance(found, Waiting), found
        claims = [resolved.claim for resolved in found]
        fleet = self._cluster.fleet
        able = 0
        for nodes in fleet.scores(claims, fleet.all).values():
            able |= nodes
        return able, list(fleet.unable_by_node(claims, fleet.all & ~able))
