"""The rules of `dra audit`: devices, claims and pods that contradict each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from allocator.api.allocation import Consumer
from allocator.cluster.node_affinity import selects_leniently
from allocator.cluster.usage import occupying
from allocator.model import Node
from allocator.status import DeviceState, PoolStatus
from allocator.words import counted
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.state.claims import FINALIZER, ClaimObject
from scheduler.state.invariants import share_misfit
from scheduler.state.taints import Eviction


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Pools with their devices, claims and pods."""

    pools: Sequence[PoolStatus]
    claims: Mapping[NamespacedName, ClaimObject]
    pods: Sequence[Pod]
    knows_pods: bool
    """Pods were looked for, so that a pod not listed is gone."""
    evictions: Sequence[Eviction] = ()
    """Pods that taints end."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """The nodes that are known, by name."""
    cluster: Cluster | None = None
    """The cluster of which the pools are."""


def claim_subject(found: ClaimObject) -> ObjectName:
    """The claim."""
    return ObjectName("ResourceClaim", found.claim.name, found.claim.namespace)


def pool_subject(pool: PoolStatus) -> ObjectName:
    """The pool, which is no object of its own: slices make it."""
    return ObjectName("pool", f"{pool.id.driver}/{pool.id.pool}")


def _capacity_exceeded(state: ClusterState) -> Iterator[Observation]:
    """The shares of a device add up to more than its capacity (KEP-5075)."""
    for device in (device for pool in state.pools for device in pool.devices):
        for name, amount in device.capacity.items():
            if amount.left.sign < 0:
                shares = f"shares of claims {', '.join(device.holders)}"
                message = f"capacity {name} is {amount.total}, but {shares} take {-amount.left} more"
                yield Observation(ObjectName("device", str(device.device.id)), message, claims=device.holders)


CAPACITY_EXCEEDED = Check(
    "capacity-exceeded",
    FindingLevel.ERROR,
    "The shares of a device add up to more than its capacity.",
    "Delete pods until the shares fit. Let one scheduler allocate the devices of a driver, or run `dra guard serve`.",
    _capacity_exceeded,
)


def _share_not_counted(state: ClusterState) -> Iterator[Observation]:
    """A share takes of each capacity of its device, and of no other (KEP-5075)."""
    devices = {one.device.id: one.device for pool in state.pools for one in pool.devices}
    for claim_object in state.claims.values():
        for result in occupying(claim_object.claim):
            if problem := share_misfit(result, devices.get(result.id)):
                yield Observation(claim_subject(claim_object), f"device {result.id}: {problem}", _RESULTS)


_RESULTS = "status.allocation.devices.results"

SHARE_NOT_COUNTED = Check(
    "share-not-counted",
    FindingLevel.ERROR,
    "A share does not say what it takes of its device, so that others can be given the same.",
    "Delete the pods of the claim. Let one scheduler allocate the devices of a driver, or run `dra guard serve`.",
    _share_not_counted,
)


def _claim_not_reserved(state: ClusterState) -> Iterator[Observation]:
    for claim_object in state.claims.values():
        if (
            claim_object.claim.allocation is not None
            and claim_object.claim.allocation.results
            and not claim_object.reserved_for
        ):
            devices = counted(len(claim_object.claim.allocation.results), "device")
            yield Observation(
                claim_subject(claim_object), f"holds {devices}, but is not reserved", "status.reservedFor"
            )


CLAIM_NOT_RESERVED = Check(
    "claim-not-reserved",
    FindingLevel.WARNING,
    "An allocated claim is not reserved, so no pod uses its devices, and no other claim gets them.",
    "If this lasts, check that kube-controller-manager runs: it deallocates such claims. Delete unneeded ones.",
    _claim_not_reserved,
)


def _claim_without_finalizer(state: ClusterState) -> Iterator[Observation]:
    for claim_object in state.claims.values():
        metadata = claim_object.raw.get("metadata")  # none where only the devices of a claim can be read
        if claim_object.claim.allocation and metadata and FINALIZER not in (metadata.get("finalizers") or ()):
            yield Observation(
                claim_subject(claim_object), f"is allocated, but has no finalizer {FINALIZER}", _FINALIZERS
            )


_FINALIZERS = "metadata.finalizers"

CLAIM_WITHOUT_FINALIZER = Check(
    "claim-without-finalizer",
    FindingLevel.ERROR,
    "An allocated claim can be deleted while its devices are in use.",
    f"Add the finalizer {FINALIZER} to the claim, or delete its pods. A scheduler that allocates has to add it first.",
    _claim_without_finalizer,
)


def _counters_exceeded(state: ClusterState) -> Iterator[Observation]:
    """The devices in use of a pool consume more of a counter than there is (KEP-4815)."""
    for pool in state.pools:
        for (counter_set, name), amount in pool.counters.items():
            if amount.left.sign < 0:
                counter = f"counter {name} of counter set {counter_set}"
                message = f"{counter} is {amount.total}, but the devices in use consume {-amount.left} more"
                yield Observation(pool_subject(pool), message)


COUNTERS_EXCEEDED = Check(
    "counters-exceeded",
    FindingLevel.ERROR,
    "The devices in use of a pool consume more of a counter than there is.",
    "Delete pods until the devices fit. Let one scheduler allocate the devices of a driver, or run `dra guard serve`.",
    _counters_exceeded,
)


def _device_allocated_twice(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        held = [(str(one.device.id), one.holders) for one in pool.devices if one.state is DeviceState.ALLOCATED]
        unpublished = [(f"{pool.id.driver}/{pool.id.pool}/{name}", names) for name, names in pool.unpublished.items()]
        for device, holders in (*held, *unpublished):
            if len(holders) > 1:
                message = f"is allocated to claims {', '.join(holders)}"
                yield Observation(ObjectName("device", device), message, claims=holders)


DEVICE_ALLOCATED_TWICE = Check(
    "device-allocated-twice",
    FindingLevel.ERROR,
    "A device is allocated to several claims.",
    "Delete the pods of all of these claims but one. Let one scheduler allocate the devices of a driver, or run "
    "`dra guard serve`.",
    _device_allocated_twice,
)


def _device_not_published(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        for device, holders in pool.unpublished.items():
            subject = ObjectName("device", f"{pool.id.driver}/{pool.id.pool}/{device}")
            message = f"is no longer published, but allocated to {', '.join(holders)}"
            yield Observation(subject, message, claims=holders)


DEVICE_NOT_PUBLISHED = Check(
    "device-not-published",
    FindingLevel.WARNING,
    "A claim holds a device that its driver no longer publishes.",
    "Check the driver on that node. If the device is gone for good, delete the pods of the claim.",
    _device_not_published,
)


def _pod_evicted(state: ClusterState) -> Iterator[Observation]:
    for eviction in state.evictions:
        pod = eviction.pod
        message = f"is evicted from node {pod.node_name}: {eviction.cause}"
        yield Observation(ObjectName("Pod", pod.name, pod.namespace), message)


POD_EVICTED = Check(
    "pod-evicted",
    FindingLevel.WARNING,
    "A taint with the effect NoExecute evicts a running pod.",
    "To keep it, remove the taint or tolerate it: a node's in the pod, a device's in the request of the claim.",
    _pod_evicted,
)


def _pod_without_devices(state: ClusterState) -> Iterator[Observation]:
    for pod in state.pods:
        if pod.node_name and not pod.is_over:
            for number, entry in enumerate(pod.claims):
                if problem := _entry_problem(state, pod, entry):
                    subject = ObjectName("Pod", pod.name, pod.namespace)
                    message = f"is bound to node {pod.node_name}, but {problem}"
                    yield Observation(subject, message, f"spec.resourceClaims[{number}]")


def _entry_problem(state: ClusterState, pod: Pod, entry: PodClaim) -> str:
    name = entry.claim_name or pod.claim_statuses.get(entry.name, "")
    if name is None:
        return ""  # the pod needs no claim for this entry
    if not name:
        return f"no claim has been created for {entry.name}"
    claim_object = state.claims.get((pod.namespace, name))
    if claim_object is None:
        return f"claim {name} does not exist"
    if claim_object.claim.allocation is None:
        return f"claim {name} is not allocated"
    node, selector = state.nodes.get(pod.node_name), claim_object.claim.allocation.node_selector
    if node and selector is not None and not selects_leniently(selector, node):
        return f"claim {name} is allocated on other nodes"
    is_reserved = any(one.is_pod(pod.name, pod.uid) or one.is_pod_group(pod.group) for one in claim_object.reserved_for)
    return "" if is_reserved else f"claim {name} is not reserved for it{' or its PodGroup' if pod.group else ''}"


POD_WITHOUT_DEVICES = Check(
    "pod-without-devices",
    FindingLevel.ERROR,
    "A pod is bound to a node without its devices, so that the kubelet does not start it.",
    "Delete the pod, so that it is scheduled again. A pod with spec.nodeName set by hand has to be scheduled instead.",
    _pod_without_devices,
)


def _pool_problem(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        if pool.problem:
            yield Observation(pool_subject(pool), f"{pool.problem}: no device of it is allocated")


POOL_PROBLEM = Check(
    "pool-problem",
    FindingLevel.WARNING,
    "A pool is incomplete or contradicts itself, so that none of its devices is allocated.",
    "A pool is incomplete for a moment while its driver publishes it anew. If this lasts, check the driver.",
    _pool_problem,
)


def _reserved_for_missing_pod(state: ClusterState) -> Iterator[Observation]:
    if not state.knows_pods:
        return
    pods = {(pod.namespace, pod.name): pod for pod in state.pods}
    for claim_object in state.claims.values():
        for number, consumer in enumerate(claim_object.reserved_for):
            if problem := _consumer_problem(claim_object.claim.namespace, consumer, pods):
                message = f"is reserved for pod {consumer.name}, {problem}"
                yield Observation(claim_subject(claim_object), message, f"status.reservedFor[{number}]")


def _consumer_problem(namespace: str, consumer: Consumer, pods: Mapping[tuple[str, str], Pod]) -> str:
    if consumer.api_group or consumer.resource != "pods":
        return ""
    pod = pods.get((namespace, consumer.name))
    if pod is None:
        return "which does not exist"
    if pod.uid and consumer.uid and pod.uid != consumer.uid:
        return f"which has been replaced by another pod of that name (uid {pod.uid}, reserved: {consumer.uid})"
    return f"which has ended ({pod.phase})" if pod.is_finished else ""


RESERVED_FOR_MISSING_POD = Check(
    "reserved-for-missing-pod",
    FindingLevel.WARNING,
    "A claim is reserved for a pod that is gone or has ended.",
    "If this lasts, check that kube-controller-manager runs: it removes such reservations.",
    _reserved_for_missing_pod,
)


_DEFAULT_SCHEDULER = "default-scheduler"


def _several_schedulers(state: ClusterState) -> Iterator[Observation]:
    schedulers = {pod.uid: pod.scheduler_name or _DEFAULT_SCHEDULER for pod in state.pods if pod.uid}
    by_driver: dict[str, set[str]] = {}
    for claim_object in state.claims.values():
        names = {schedulers[one.uid] for one in claim_object.reserved_for if one.uid in schedulers}
        for result in claim_object.claim.allocation.results if claim_object.claim.allocation else ():
            by_driver.setdefault(result.driver, set()).update(names)
    for driver, named in sorted(by_driver.items()):
        if len(named) > 1:
            message = f"its devices are allocated by schedulers {', '.join(sorted(named))}"
            yield Observation(ObjectName("driver", driver), message)


SEVERAL_SCHEDULERS = Check(
    "several-schedulers",
    FindingLevel.WARNING,
    "Several schedulers allocate the devices of one driver: the API server does not keep them from giving one twice.",
    "Let one scheduler allocate the devices of a driver, or run `dra guard serve`. Schedulers of one process are safe.",
    _several_schedulers,
)


RULES: Sequence[Check[ClusterState]] = (
    DEVICE_ALLOCATED_TWICE,
    CAPACITY_EXCEEDED,
    SHARE_NOT_COUNTED,
    COUNTERS_EXCEEDED,
    POD_WITHOUT_DEVICES,
    POD_EVICTED,
    CLAIM_WITHOUT_FINALIZER,
    CLAIM_NOT_RESERVED,
    RESERVED_FOR_MISSING_POD,
    DEVICE_NOT_PUBLISHED,
    POOL_PROBLEM,
    SEVERAL_SCHEDULERS,
)


_OF_PODS = (POD_WITHOUT_DEVICES, POD_EVICTED)
_OF_CLAIMS = (DEVICE_NOT_PUBLISHED, DEVICE_ALLOCATED_TWICE)


def problems_of(pod: Pod, state: ClusterState) -> Iterator[str]:
    """Why a pod that has its node cannot start there, or not stay: what the rules find of it and of its claims."""
    of_pod = replace(state, pods=[pod], evictions=[one for one in state.evictions if one.pod.uid == pod.uid])
    yield from (one.message for rule in _OF_PODS for one in rule.check(of_pod))
    names = {entry.claim_name or pod.claim_statuses.get(entry.name) for entry in pod.claims}
    claims = {f"{pod.namespace}/{name}" for name in names if name}
    for observation in (one for rule in _OF_CLAIMS for one in rule.check(state)):
        if not claims.isdisjoint(observation.claims):
            yield f"{observation.subject} {observation.message}"
