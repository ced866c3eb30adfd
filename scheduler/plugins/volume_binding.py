"""VolumeBinding: bound volumes have to be reachable, and unbound claims need a volume, or one that can be provisioned.

Claims that are bound immediately have to be bound before the pod is placed. Those that wait for the first consumer get
their volume together with the pod's node, and the decision's plan for them is written before the pod is bound.
With StorageCapacityScoring the less of a node's storage the pod takes, the better: of the volumes that its claims would
get there, or else of what is free to provision them, each class by itself.
Source: kube-scheduler's volume_binding.go, binder.go and scorer.go; KEP-490, KEP-1472, KEP-4049.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from allocator.bits import Mask, union
from allocator.gates import STORAGE_CAPACITY_SCORING
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import ClaimVolume
from scheduler.core_v1.storage_objects import LOST, SELECTED_NODE, PersistentVolumeClaim
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Reason, RefusedPod, Rejected, Score
from scheduler.plugins.scoring_strategies import MAX_SHAPE_SCORE, MAX_UTILIZATION, scores_along
from scheduler.plugins.volume_matching import Offers, matching
from scheduler.state.cluster_changes import (
    CSIDriverChanged,
    CSINodeChanged,
    CSIStorageCapacityChanged,
    GivenBack,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    StorageClassChanged,
)
from scheduler.state.masks import Flags, Numbers, flags_of, mask_of_numbers, numbers_of
from scheduler.state.storage import NO_AMOUNT
from scheduler.state.volumes import CLASSES, NO_PLAN, VOLUMES, Match, VolumePlan, Volumes, claims_of, uses_claim

UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
UNAVAILABLE = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_MOST_BYTES = 2**56
"""What scores count as the most, so that a hundred times as much stays within 64 bits."""

_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class _PodVolumeClaims:
    """The claims of a pod. waiting: those that are bound with it. immediate: those that should be bound already."""

    bound: Sequence[PersistentVolumeClaim]
    waiting: Sequence[PersistentVolumeClaim]
    immediate: Sequence[PersistentVolumeClaim]


@dataclass(frozen=True, slots=True)
class _FoundVolumes:
    """What becomes of a pod's claims on each node: what refuses it, by reason, and what its unbound claims would get.

    provisioned: claims, and where their volumes would have to be made.
    """

    refused: Sequence[tuple[str, Mask]]
    offers: Sequence[tuple[PersistentVolumeClaim, Offers]] = ()
    provisioned: Sequence[tuple[PersistentVolumeClaim, Mask]] = ()


def plan(cycle: Cycle, number: int) -> VolumePlan:
    """The writes that give the pod its volumes on the node, which is not refused."""
    if not cycle.pod.volumes.claims:
        return NO_PLAN
    outcome = _outcome(cycle, 1 << number)
    matches = (Match(volume, claim) for claim, offers in outcome.offers if (volume := offers.on(number)))
    provisioned = tuple(claim for claim, nodes in outcome.provisioned if nodes >> number & 1)
    return VolumePlan(tuple(matches), provisioned) if outcome.offers or provisioned else NO_PLAN


def pinned(cycle: Cycle) -> str:
    """Which claim keeps the pod on one node before it is bound, and how; empty where none does."""
    for claim in _claims(cycle).waiting:
        if claim.selected_node is not None:
            return (
                f"PersistentVolumeClaim {claim} keeps the pod on node {claim.selected_node} by its annotation "
                f"{SELECTED_NODE}, until its volume is there or its provisioner asks for another node."
            )
    return ""


def _pre_filter(cycle: Cycle) -> str:
    pod, volumes = cycle.pod, cycle.volumes
    if not pod.volumes.claims:
        return ""
    problems = (_problem(volumes, pod, one) for one in pod.volumes.claims)
    return next(filter(None, problems), "") or (_UNBOUND if _claims(cycle).immediate else "")


def _problem(volumes: Volumes, pod: Pod, volume: ClaimVolume) -> str:
    """Why the volume can be had nowhere yet."""
    name = volume.claim_of(pod.name)
    claim = volumes.objects.claims.watched.get((pod.namespace, name))
    if claim is None:
        return _missing(name, volume) if volumes.is_missing((pod.namespace, name)) else ""
    if claim.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.is_deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if volume.is_ephemeral and claim.owner != pod.uid:
        return f"PVC {claim} was not created for pod {pod} (pod is not owner)"
    return ""


def _missing(name: str, volume: ClaimVolume) -> str:
    if volume.is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    return f'persistentvolumeclaim "{name}" not found'


def _claims(cycle: Cycle) -> _PodVolumeClaims:
    volumes = cycle.volumes
    bound: list[PersistentVolumeClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    immediate: list[PersistentVolumeClaim] = []
    for claim in _own_claims(cycle):
        if claim.is_bound:
            bound.append(claim)
        elif CLASSES not in volumes.unseen:
            (waiting if _waits(volumes, claim) else immediate).append(claim)
    return _PodVolumeClaims(() if VOLUMES in volumes.unseen else bound, waiting, immediate)


def _own_claims(cycle: Cycle) -> Iterator[PersistentVolumeClaim]:
    pod = cycle.pod
    # Differs from kube-scheduler: a claim that two volumes of the pod name is one claim; it would get two volumes.
    keys = [(pod.namespace, one.claim_of(pod.name)) for one in pod.volumes.claims]
    for key in keys if cycle.volumes.is_strict else claims_of(pod):
        if claim := cycle.volumes.objects.claims.get(key):
            yield claim


def _waits(volumes: Volumes, claim: PersistentVolumeClaim) -> bool:
    storage_class = volumes.objects.classes.get(claim.storage_class)
    return storage_class is not None and storage_class.waits and not claim.volume


def _outcome(cycle: Cycle, among: Mask) -> _FoundVolumes:
    """What becomes of the claims on these nodes.

    Cost: some masks for a bound claim; for one that waits as of `matching`. Raises Cancelled.
    """
    volumes, claims = cycle.volumes, _claims(cycle)
    refused = list(_unreached(volumes, cycle.each(claims.bound), among))
    if not claims.waiting:
        return _FoundVolumes(refused)
    nodes = among & _not_pinned_elsewhere(cycle, claims.waiting)
    unpinned = [one for one in claims.waiting if one.selected_node is None]
    offers = list(cycle.each(matching(volumes, unpinned, nodes)))
    pinned = [(one, nodes) for one in claims.waiting if one.selected_node is not None]
    provisioned = [*pinned, *((claim, nodes & ~given.nodes) for claim, given in offers)]
    refused.append((UNAVAILABLE, among & ~nodes))
    for claim, asked in cycle.each(provisioned):
        for reason, lacking in _unprovisionable(volumes, claim, asked & nodes):
            refused.append((reason, lacking))
            nodes &= ~lacking
    return _FoundVolumes(refused, offers, provisioned)


def _unreached(volumes: Volumes, bound: Iterable[PersistentVolumeClaim], left: Mask) -> Iterator[tuple[str, Mask]]:
    """The nodes that do not reach a volume, by the first of them that they do not reach."""
    for claim in bound:
        volume = volumes.objects.volumes.get(claim.volume)
        reached = left & volumes.reached(volume) if volume else 0
        yield (UNREACHED if volume else MISSING), left & ~reached
        left = reached


def _not_pinned_elsewhere(cycle: Cycle, claims: Iterable[PersistentVolumeClaim]) -> Mask:
    """The nodes for which the volumes of the claims are to be made, where somebody has said so."""
    volumes = cycle.volumes
    nodes = volumes.labels.all
    for claim in claims:
        if claim.selected_node is not None:
            nodes &= volumes.node(claim.selected_node)
    return nodes


def _unprovisionable(volumes: Volumes, claim: PersistentVolumeClaim, nodes: Mask) -> Iterator[tuple[str, Mask]]:
    """Those of the nodes for which no volume can be made for the claim."""
    storage_class = volumes.objects.classes[claim.storage_class]
    if VOLUMES in volumes.unseen and not storage_class.provisions:
        return
    able = nodes & volumes.provisionable(storage_class) if storage_class.provisions else 0
    yield UNAVAILABLE, nodes & ~able
    if able and claim.request is not None:
        yield NO_SPACE, able & ~volumes.roomy(storage_class, claim.request)


def _refused(cycle: Cycle) -> Mask:
    if not cycle.pod.volumes.claims:
        return 0
    nodes = 0
    for _, lacking in _outcome(cycle, cycle.volumes.labels.all).refused:
        nodes |= lacking
    return nodes


@dataclass(slots=True)
class _ClassUse:
    """By node number, how many bytes of a class are requested, and of how many. counts: where anything is."""

    requested: Numbers
    capacity: Numbers
    counts: Flags

    @staticmethod
    def none(size: int) -> "_ClassUse":
        """For so many nodes."""
        return _ClassUse(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_))

    def add(self, numbers: Numbers, request: Quantity, capacity: int | Numbers) -> None:
        """A volume on these nodes."""
        requested = min(request.ceil_int(), _MOST_BYTES)
        self.requested[numbers] = np.minimum(self.requested[numbers] + requested, _MOST_BYTES)
        self.capacity[numbers] = np.minimum(self.capacity[numbers] + np.minimum(capacity, _MOST_BYTES), _MOST_BYTES)
        self.counts[numbers] = True

    def scores(self, by_utilization: Numbers) -> Numbers:
        """At what is used then. What does not fit, or has no capacity, counts as used up."""
        fits = (self.requested <= self.capacity) & (self.capacity > 0)
        used = MAX_UTILIZATION * self.requested // np.maximum(self.capacity, 1)
        return by_utilization[np.where(fits, used, MAX_UTILIZATION)]


def _scores(by_utilization: Numbers, cycle: Cycle, nodes: Numbers) -> Numbers | None:
    """Nodes where nothing counts have 0."""
    if not cycle.features.has(STORAGE_CAPACITY_SCORING):
        return None
    if not cycle.pod.volumes.claims or not len(nodes) or not _claims(cycle).waiting:
        return np.zeros(len(nodes), np.int64)
    size = cycle.infos.size
    outcome = _outcome(cycle, mask_of_numbers(nodes, size))
    matched = flags_of(union(offers.nodes for _, offers in outcome.offers), size)
    static = _mean(_static_use(outcome.offers, size), by_utilization, size)
    dynamic = _mean(_dynamic_use(cycle.volumes, outcome.provisioned, size), by_utilization, size)
    return np.where(matched, static, dynamic)[nodes]


def _mean(uses: Collection[_ClassUse], by_utilization: Numbers, size: int) -> Numbers:
    """Of the classes that count on a node, rounded half up."""
    total, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for use in uses:
        total += np.where(use.counts, use.scores(by_utilization), 0)
        count += use.counts
    divisor = np.maximum(count, 1)
    mean: Numbers = (2 * total + divisor) // (2 * divisor)
    return mean


def _static_use(offers: Iterable[tuple[PersistentVolumeClaim, Offers]], size: int) -> Collection[_ClassUse]:
    uses: dict[str, _ClassUse] = {}
    for claim, offered in offers:
        use = uses.setdefault(claim.storage_class, _ClassUse.none(size))
        for nanos, where in offered.by_capacity():
            numbers = numbers_of(where)
            use.add(numbers, claim.size, -(-nanos // 10**9))
    return uses.values()


def _dynamic_use(
    volumes: Volumes, provisioned: Iterable[tuple[PersistentVolumeClaim, Mask]], size: int
) -> Collection[_ClassUse]:
    """What is free is not more for the second claim of a class than for the first."""
    uses: dict[str, _ClassUse] = {}
    for claim, where in provisioned:
        storage_class = volumes.objects.classes[claim.storage_class]
        if claim.request is None or (amounts := volumes.free_amounts(storage_class, claim.request)) is None:
            continue
        numbers = numbers_of(where)
        numbers = numbers[amounts[numbers] != NO_AMOUNT]
        use = uses.setdefault(claim.storage_class, _ClassUse.none(size))
        use.capacity[numbers] = 0
        use.add(numbers, claim.request, amounts[numbers])
    return uses.values()


def _rejections(cycle: Cycle, asked: Mask) -> Iterable[Rejected]:
    """A node may lack what it has to reach and what is to be bound, and has both reasons then."""
    by_reason: dict[str, Mask] = {}
    for reason, nodes in _outcome(cycle, asked).refused if cycle.pod.volumes.claims else ():
        by_reason[reason] = by_reason.get(reason, 0) | nodes
    ordered = (UNREACHED, UNAVAILABLE, NO_SPACE, MISSING)
    return [Rejected(reason, by_reason[reason]) for reason in ordered if by_reason.get(reason)]


def is_own(who: RefusedPod, event: PersistentVolumeClaimChanged) -> bool:
    """A claim of the pod comes, or changes."""
    return event.new is not None and uses_claim(who.pod, event.new.key)


def is_labelled_anew(_who: RefusedPod, event: NodeChanged) -> bool:
    """A node comes, or changes its labels."""
    return event.new is not None and (event.old is None or event.old.labels != event.new.labels)


def _is_shown(_who: RefusedPod, event: PersistentVolumeChanged) -> bool:
    return event.new is not None


def _provisions_elsewhere(_who: RefusedPod, event: StorageClassChanged) -> bool:
    if event.new is None:
        return False
    return event.old is None or event.old.topologies != event.new.topologies


def _migrates(_who: RefusedPod, event: CSINodeChanged) -> bool:
    before, after = (one.migrated if one else frozenset() for one in (event.old, event.new))
    return before != after


def _ends_capacity_tracking(_who: RefusedPod, event: CSIDriverChanged) -> bool:
    # Differs from kube-scheduler: it looks for the driver among the pod's inline volumes, which are never provisioned.
    was_asked = event.old is not None and event.old.publishes_capacity
    return was_asked and (event.new is None or not event.new.publishes_capacity)


def _has_more(_who: RefusedPod, event: CSIStorageCapacityChanged) -> bool:
    old, new = event.old, event.new
    if new is None or new.largest is None:
        return False
    return old is None or old.largest is None or new.largest.nanos > old.largest.nanos or old.topology != new.topology


def _gives_back_volumes(_who: RefusedPod, event: GivenBack) -> bool:
    return bool(event.pod.volumes.claims)


MOST_FREE: Sequence[tuple[int, int]] = ((0, MAX_SHAPE_SCORE), (MAX_UTILIZATION, 0))
"""The shape by which the most free is the best."""


def volume_binding(shape: Sequence[tuple[int, int]] = MOST_FREE) -> Plugin:
    """The plugin. shape: of its score, by the utilization of what a class has on a node."""
    by_utilization = scores_along(shape)

    def scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
        return _scores(by_utilization, cycle, nodes)

    return Plugin(
        "VolumeBinding",
        (
            Reason(
                "VolumeBinding",
                {
                    StorageClassChanged: _provisions_elsewhere,
                    PersistentVolumeClaimChanged: is_own,
                    PersistentVolumeChanged: _is_shown,
                    NodeChanged: is_labelled_anew,
                    CSINodeChanged: _migrates,
                    CSIDriverChanged: _ends_capacity_tracking,
                    CSIStorageCapacityChanged: _has_more,
                    GivenBack: _gives_back_volumes,
                },
                node_fields=("labels",),
            ),
        ),
        pod_fields=("volumes",),
        pre_filter=_pre_filter,
        dynamic=Dynamic(_refused, _rejections),
        score=Score(1, scores),
    )


VOLUME_BINDING = volume_binding()
