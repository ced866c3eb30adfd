"""NodeResourcesFit: the node must have the resources that the pod requests, and room for one more pod.

A resource that no node offers is available nowhere. A scoring strategy scores nodes: by default, the more cpu and
memory are left with the pod on the node, the better.
Source: kube-scheduler's fit.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from allocator.bits import Mask, union
from allocator.model import DeviceClass
from allocator.pod_resources import is_extended
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import (
    Change,
    Cycle,
    Dynamic,
    Hint,
    Plugin,
    Reason,
    RefusedPod,
    RefusingNode,
    Rejected,
    Score,
    always,
)
from scheduler.plugins.scoring_strategies import ScoringStrategy, least_allocated
from scheduler.state.cluster_changes import ClassChanged, Event, GivenBack, NodeChanged, PodChanged
from scheduler.state.masks import Flags, Floats, Numbers, Rows, at, mask_of
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pod_resources import may_ask
from scheduler.state.pods import CPU, MEMORY, MOST, PODS, PodRequests, allocatable_units, amount_text, pod_requests

NAME = "NodeResourcesFit"

UNREAD_POD = "node(s) had a pod that cannot be read"
"""Why a node is left alone; the pod is named in the log."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Extended resources that nodes need not have, by name and by the domain before the slash."""

    resources: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def left_of(self, requests: PodRequests) -> PodRequests:
        """The requests without them."""
        if not self.resources and not self.groups:
            return requests
        return requests.without([name for name in requests.amounts if self._has(name)])

    def _has(self, resource: str) -> bool:
        return is_extended(resource) and (resource in self.resources or resource.partition("/")[0] in self.groups)


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
        return shortage_reason(self.resource)


def shortage_reason(resource: str) -> str:
    """Why a node is refused that has too little of it."""
    return _REASONS.get(resource, f"Insufficient {resource}")


_REASONS = {PODS: "Too many pods", UNREAD_POD: UNREAD_POD}


def fitting(requests: PodRequests, infos: NodeInfos) -> Flags:
    """The nodes that have enough left of everything. Cost: O(nodes that have changed)."""
    return infos.by_row.of((NAME, requests.key), len(requests.amounts), lambda rows: _fitting(requests, infos, rows))


def _lacking(requests: PodRequests, infos: NodeInfos) -> Mask:
    """The other nodes. Cost: as of `fitting`."""
    key = (NAME, "lacking", requests.key)
    return infos.by_row.mask(key, len(requests.amounts), lambda rows: _fitting(requests, infos, rows) ^ True)


def _fitting(requests: PodRequests, infos: NodeInfos, rows: Rows) -> Flags | bool:
    fits = at(infos.columns[PODS].free, rows) >= 1
    for resource, amount in requests.amounts.items():
        column = infos.columns.get(resource)
        fits = fits & (at(column.free, rows) >= amount if column else False)
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


def fraction_missing(requests: PodRequests, infos: NodeInfos, nodes: Numbers) -> Floats:
    """How much of the requests these nodes lack: of each resource the part, from 0 to 1 for all of it, summed up."""
    missing = (infos.columns[PODS].free[nodes] < 1).astype(np.float64)
    for resource, amount in requests.amounts.items():
        free, _ = _column(resource, infos)
        missing += np.clip((amount - free[nodes]) / amount, 0, 1)
    return missing


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


def _rejections(requests: PodRequests, infos: NodeInfos, asked: Mask) -> Iterable[Rejected]:
    short = [(one.reason, mask_of(one.lacking) & asked, mask_of(one.never)) for one in shortages(requests, infos)]
    hopeless = union(never & lacking for _, lacking, never in short)
    return (Rejected(reason, lacking, lacking & ~hopeless) for reason, lacking, _ in short if lacking)


def _scored_requests(cycle: Cycle) -> PodRequests:
    """What the pod counts for on a node.

    From 1.38 on, what the pod requests as a whole counts; of what it does not name so, each container counts that names
    none, by the usual amount.
    Differs from kube-scheduler: before 1.38 it leaves out what the pod in hand requests as a whole (spec.resources),
    and counts its containers alone; of pods that are on a node it counts it, and so does this in both places.
    """
    pod, features = cycle.pod, cycle.features
    if not pod.budget or not (features.is_strict or features.release.scores_whole_pods):
        return cycle.requests
    containers = pod_requests(replace(pod, budget={}))
    if not features.release.scores_whole_pods:
        return containers
    counted = {name: cycle.requests if name in pod.budget else containers for name in (CPU, MEMORY)}
    return replace(cycle.requests, scored_cpu=counted[CPU].scored_cpu, scored_memory=counted[MEMORY].scored_memory)


def _changes(cycle: Cycle, requests: PodRequests, place: RefusingNode) -> Iterator[Change]:
    """requests: those that are not ignored."""
    free = {name: int(_column(name, cycle.infos)[0][place.number]) for name in requests.amounts}
    lacking = {name: max(free[name], 0) for name, amount in requests.amounts.items() if free[name] < amount}
    if lacking and all(lacking.values()):
        reported = ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(lacking.items()))
        less = replace(cycle.requests, amounts={**cycle.requests.amounts, **lacking})
        yield Change(f"the pod requests at most {reported}", requests=less)
    yield from _evictions(cycle, requests, place, lacking)


def _evictions(
    cycle: Cycle, requests: PodRequests, place: RefusingNode, lacking: Mapping[str, int]
) -> Iterator[Change]:
    """That enough pods are gone: as few as it takes of those that take the most of what is lacking."""
    taken = {pod.uid: pod_requests(pod).amounts for _, pod in place.own}

    def share(lower: tuple[int, Pod]) -> float:
        amounts = taken[lower[1].uid]
        return sum(amounts.get(name, 0) / max(requests.amounts[name], 1) for name in lacking)

    gone: list[tuple[int, Pod]] = []
    for lower in sorted(place.own, key=lambda lower: (-share(lower), str(lower[1]))):
        gone.append(lower)
        if _fits_without(cycle, requests, gone, place.number):
            yield Change.without(gone)
            return


def _fits_without(cycle: Cycle, requests: PodRequests, gone: Sequence[tuple[int, Pod]], number: int) -> bool:
    with cycle.without(gone):
        return bool(fitting(requests, cycle.infos)[number])


def _offers_more(ignored: Ignored) -> Hint:
    """A node that would fit the pod if it were empty comes, or comes to offer more of what the pod requests."""

    def hint(who: RefusedPod, event: NodeChanged) -> bool:
        if event.new is None:
            return False
        after, requests = dict(allocatable_units(event.new.allocatable)), ignored.left_of(who.refusal.requests)
        if not fits_empty(requests, after):
            return _loses_its_node(who, event, requests)
        if offers_asked_differently(who, event):
            return True
        before = dict(allocatable_units(event.old.allocatable)) if event.old else {}
        return any(after.get(resource, 0) > before.get(resource, 0) for resource in (PODS, *requests.amounts))

    return hint


def _loses_its_node(who: RefusedPod, event: NodeChanged, requests: PodRequests) -> bool:
    """The node that the pod is promised could never take it any more: it may find another one.

    Extended resources do not count: while a device plugin restarts, a node offers none for a moment.
    """
    if event.old is None or event.new is None or who.pod.nominated_node != event.new.name:
        return False
    before, after = (dict(allocatable_units(one.allocatable)) for one in (event.old, event.new))
    native = requests.without([name for name in requests.amounts if is_extended(name)])
    return fits_empty(requests, before) and not fits_empty(native, after)


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
    """The class now backs an extended resource that the pod may request, or no longer does."""
    return may_ask(who.pod) and _resource_of(event.old) != _resource_of(event.new)


def _resource_of(device_class: DeviceClass | None) -> str | None:
    return device_class.extended_resource_name if device_class else None


NONE_IGNORED = Ignored()
LEAST_ALLOCATED = least_allocated()


def node_resources_fit(strategy: ScoringStrategy = LEAST_ALLOCATED, ignored: Ignored = NONE_IGNORED) -> Plugin:
    """The plugin. strategy: of its score."""

    def refused(cycle: Cycle) -> Mask:
        return _lacking(ignored.left_of(cycle.requests), cycle.infos)

    def rejections(cycle: Cycle, asked: Mask) -> Iterable[Rejected]:
        return _rejections(ignored.left_of(cycle.requests), cycle.infos, asked)

    def changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
        return _changes(cycle, ignored.left_of(cycle.requests), place)

    def scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers:
        requests, infos = _scored_requests(cycle), cycle.infos
        key, words = (strategy, requests.key), len(requests.amounts)
        return infos.by_row.at(nodes, key, words, lambda rows: strategy.scores(requests, infos, rows))

    hints: dict[type[Event], Hint] = {
        NodeChanged: _offers_more(ignored),
        PodChanged: _gives_back,
        ClassChanged: stands_for_asked,
        GivenBack: always,
    }
    return Plugin(
        NAME,
        (Reason(NAME, hints, node_fields=("allocatable",)),),
        pod_fields=("containers", "budget", "overhead"),
        dynamic=Dynamic(refused, rejections),
        score=Score(1, scores),
        changes=changes,
    )


NODE_RESOURCES_FIT = node_resources_fit()
