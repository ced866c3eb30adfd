"""NodeResourcesFit: what a pod requests has to be left on its node, and a place for one more pod.

A resource that no node offers is left nowhere. The more of its cpu and memory a node has left with the pod on it, the
better it is (LeastAllocated).
Source: kube-scheduler's fit.go and least_allocated.go, with its default resources cpu and memory, of equal weight.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from allocator.model import DeviceClass
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.normalize import MAX_SCORE
from scheduler.plugins.plugin import Change, Dynamic, Place, Plugin, Reason, RefusedPod, Rejected, Score, always
from scheduler.state.changes import ClassChanged, GivenBack, NodeChanged, PodChanged
from scheduler.state.extended_resources import may_ask
from scheduler.state.masks import Flags, Numbers, mask_of, union
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import (
    CPU,
    MEMORY,
    MOST,
    PODS,
    PodRequests,
    allocatable_units,
    amount_text,
    pod_requests,
)

UNREAD_POD = "node(s) had a pod that cannot be read"
"""Why a node is left alone; the pod is named in the log."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which nodes have too little left. lacking: the nodes; never: those that never have as much.

    resource: `UNREAD_POD` for what a pod takes of which nothing is known.
    """

    resource: str
    lacking: Flags
    never: Flags

    @property
    def reason(self) -> str:
        """In kube-scheduler's words."""
        return _REASONS.get(self.resource, f"Insufficient {self.resource}")


_REASONS = {PODS: "Too many pods", UNREAD_POD: UNREAD_POD}


def fitting(requests: PodRequests, infos: NodeInfos) -> Flags:
    """The nodes that have enough left of everything. Cost: a few array operations for each resource."""
    fits = infos.columns[PODS].free >= 1
    for resource, amount in requests.amounts.items():
        column = infos.columns.get(resource)
        if column is None:
            return np.zeros(infos.size, np.bool_)
        fits &= column.free >= amount
    return fits


def shortages(requests: PodRequests, infos: NodeInfos) -> Iterator[Shortage]:
    """All that nodes lack, resource by resource; a node may lack several."""
    # Differs from kube-scheduler: it never says that a node whose pods fill it could not take one more without them,
    # also where the node takes no pod at all.
    column = infos.columns[PODS]
    nowhere, is_left_alone = np.zeros(infos.size, np.bool_), column.free < -MOST // 2
    yield Shortage(UNREAD_POD, is_left_alone, nowhere)
    yield Shortage(PODS, (column.free < 1) & ~is_left_alone, nowhere)
    for resource, amount in requests.amounts.items():
        free, allocatable = _column(resource, infos)
        yield Shortage(resource, free < amount, allocatable < amount)


def fits_empty(requests: PodRequests, allocatable: dict[str, int]) -> bool:
    """True where a node that offers this would fit the pod if it had no other. allocatable: counted as requests are."""
    wanted = {PODS: 1, **requests.amounts}
    return all(allocatable.get(resource, 0) >= amount for resource, amount in wanted.items())


def _column(resource: str, infos: NodeInfos) -> tuple[Numbers, Numbers]:
    column = infos.columns.get(resource)
    if column is None:
        nothing = np.zeros(infos.size, np.int64)
        return nothing, nothing
    return column.free, column.allocatable


def least_allocated(requests: PodRequests, infos: NodeInfos, nodes: Numbers) -> Numbers:
    """The scores of these nodes; a resource that a node does not offer is left out of its mean.

    requests: of the pod; see `_scored_requests`.
    """
    cpu, memory = infos.columns[CPU].allocatable[nodes], infos.columns[MEMORY].allocatable[nodes]
    total = _left(cpu, infos.scored_cpu[nodes] + requests.scored_cpu)
    total += _left(memory, infos.scored_memory[nodes] + requests.scored_memory)
    offered = (cpu > 0).astype(np.int64) + (memory > 0)
    return total // np.maximum(offered, 1)


def _left(allocatable: Numbers, requested: Numbers) -> Numbers:
    """The hundredths of what is allocatable that are left; 0 where it is nothing, or less than requested."""
    left: Numbers = np.maximum(allocatable - requested, 0) * MAX_SCORE
    return left // np.maximum(allocatable, 1)


def _refused(cycle: Cycle) -> Mask:
    return mask_of(~fitting(cycle.requests, cycle.infos))


def _rejections(cycle: Cycle, asked: Mask) -> Iterable[Rejected]:
    found = [
        (one.reason, mask_of(one.lacking) & asked, mask_of(one.never)) for one in shortages(cycle.requests, cycle.infos)
    ]
    hopeless = union(never & lacking for _, lacking, never in found)
    return (Rejected(reason, lacking, lacking & ~hopeless) for reason, lacking, _ in found if lacking)


def _scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers:
    return least_allocated(_scored_requests(cycle), cycle.infos, nodes)


def _scored_requests(cycle: Cycle) -> PodRequests:
    """What the pod counts for on a node.

    Differs from kube-scheduler: 1.36 leaves out what the pod in hand requests as a whole (spec.resources), and counts
    its containers alone; of pods that are on a node it counts it, and so does this in both places.
    """
    pod = cycle.pod
    return pod_requests(replace(pod, budget={})) if cycle.is_strict and pod.budget else cycle.requests


def _changes(cycle: Cycle, place: Place) -> Iterator[Change]:
    requests, number = cycle.requests, place.number
    free = {name: int(_column(name, cycle.infos)[0][number]) for name in requests.amounts}
    lacking = {name: max(free[name], 0) for name, amount in requests.amounts.items() if free[name] < amount}
    if lacking and all(lacking.values()):
        told = ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(lacking.items()))
        yield Change(
            f"the pod requests at most {told}", requests=replace(requests, amounts={**requests.amounts, **lacking})
        )
    yield from _evictions(cycle, place, lacking)


def _evictions(cycle: Cycle, place: Place, lacking: Mapping[str, int]) -> Iterator[Change]:
    """That enough pods are gone: as few as it takes of those that take the most of what is lacking."""
    taken = {pod.uid: pod_requests(pod).amounts for _, pod in place.own}

    def share(one: tuple[int, Pod]) -> float:
        amounts = taken[one[1].uid]
        return sum(amounts.get(name, 0) / max(cycle.requests.amounts[name], 1) for name in lacking)

    gone: list[tuple[int, Pod]] = []
    for one in sorted(place.own, key=lambda one: (-share(one), str(one[1]))):
        gone.append(one)
        if _fits_without(cycle, gone, place.number):
            yield Change.without(gone)
            return


def _fits_without(cycle: Cycle, gone: Sequence[tuple[int, Pod]], number: int) -> bool:
    with cycle.without(gone):
        return not _refused(cycle) >> number & 1


def _offers_more(who: RefusedPod, event: NodeChanged) -> bool:
    """A node that would fit the pod if it were empty comes, or comes to offer more of what the pod requests."""
    if event.new is None:
        return False
    after = dict(allocatable_units(event.new.allocatable))
    if not fits_empty(who.refusal.requests, after):
        return False
    if offers_asked_differently(who, event):
        return True
    before = dict(allocatable_units(event.old.allocatable)) if event.old else {}
    wanted = (PODS, *who.refusal.requests.amounts)
    return any(after.get(resource, 0) > before.get(resource, 0) for resource in wanted)


def offers_asked_differently(who: RefusedPod, event: NodeChanged) -> bool:
    """Of resources that some nodes give by claim: a class stands for one where a node offers none of it."""
    if not who.refusal.resources:
        return False
    before, after = (dict(allocatable_units(one.allocatable)) if one else {} for one in (event.old, event.new))
    return any(after.get(resource, 0) != before.get(resource, 0) for resource in who.refusal.resources)


def _gives_back(who: RefusedPod, event: PodChanged) -> bool:
    """A pod leaves its node, or requests less of what this one requests."""
    old, new = event.old, event.new
    if event.is_gone or old is None or new is None or not event.is_less:
        return event.is_gone
    before, after = pod_requests(old).amounts, pod_requests(new).amounts
    wanted = (*who.refusal.requests.amounts, *who.refusal.resources)
    return any(after.get(resource, 0) < before.get(resource, 0) for resource in wanted)


def stands_for_asked(who: RefusedPod, event: ClassChanged) -> bool:
    """The class comes to stand for extended resources that the pod may ask for, or for none."""
    return may_ask(who.pod) and _resource_of(event.old) != _resource_of(event.new)


def _resource_of(device_class: DeviceClass | None) -> str | None:
    return device_class.extended_resource_name if device_class else None


NODE_RESOURCES_FIT = Plugin(
    "NodeResourcesFit",
    (
        Reason(
            "NodeResourcesFit",
            {
                NodeChanged: _offers_more,
                PodChanged: _gives_back,
                ClassChanged: stands_for_asked,
                GivenBack: always,
            },
            node_fields=("allocatable",),
        ),
    ),
    pod_fields=("containers", "budget", "overhead"),
    dynamic=Dynamic(_refused, _rejections),
    score=Score(1, _scores),
    changes=_changes,
)
