"""What pods ask of devices beside their claims: extended resources backed by classes, and node-allocatable resources.

A class stands for the resource that its spec.extendedResourceName names, and for one named after itself: a container's
`example.com/gpu: 2` becomes requests of a generated claim. On a node whose device plugin does not offer the resource,
one claim asks for the devices of all containers, after the pod's own claims and together with them. Containers that run
one after the other use the same devices. All functions are pure; who writes the claim is the caller's business.
Source: KEP-5004; feature gate DRAExtendedResource; in Kubernetes extendeddynamicresources.go of the
scheduler plugin and the extendedresourcecache of k8s.io/dynamic-resource-allocation.

Node-allocatable are devices that are, or that need, some of their node's cpu, memory or huge pages. A mapping says what
a device is in such a resource, and counts once for the claim; an overhead says what using it takes besides, and counts
for each pod. Once devices are chosen, the pod's own requests and these together must fit what the node has left. With
the gate off, which is the default, Kubernetes does not look at any of it, and neither do we.
Source: KEP-5517; feature gate DRANodeAllocatableResources, field nodeAllocatableResources; the sums of
k8s.io/component-helpers v0.37 resource/helpers.go, the check of Kubernetes' nodeallocatabledynamicresources.go.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from allocator.model import Allocation, Container, Device, DeviceClass, DeviceID, DeviceResult, own_name
from cel.values.quantity import Quantity

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before a class's name: the resource that every class stands for without saying so."""

CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""`"true"` on a generated claim."""

_ONE = 10**9


@dataclass(frozen=True, slots=True)
class CountRequest:
    """A request of the generated claim: so many devices of a class."""

    name: str
    class_name: str
    count: int


@dataclass(frozen=True, slots=True)
class RequestMapping:
    """Which request gives a container its devices, as pod.status.extendedResourceClaimStatus shows the kubelet."""

    container: str
    resource: str
    request: str


def is_extended(resource: str) -> bool:
    """True for a name that a device plugin or a class may stand for; all others are Kubernetes' own."""
    if resource.startswith(CLASS_PREFIX):
        return True
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def classes_by_resource(classes: Iterable[DeviceClass]) -> Mapping[str, DeviceClass]:
    """Resource name to the class that stands for it.

    Where several classes name one resource the newest counts, and of equally old ones that with the lexically smaller
    name; a class without a time of creation is still to be created, so the newest. Cost: O(classes log classes).
    Differs from kube-scheduler: it may forget the implicit name of a class that lost such a clash, depending on the
    order in which it came to know them.
    """
    found: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda one: one.name, reverse=True)
    for one in sorted(by_name, key=_creation):
        found[CLASS_PREFIX + one.name] = one
        if one.extended_resource_name:
            found[one.extended_resource_name] = one
    return found


def generate(containers: Sequence[Container], classes: Mapping[str, DeviceClass]) -> "Generated":
    """The requests of the generated claim for these resources, and which container uses which.

    containers: all of the pod, init containers first. classes: of the resources that are given by claim.
    A container that lasts has a request of its own, `container-<its position>-request-<position of the resource among
    the sorted names of its requests>`. A plain init container uses those of later containers first; of what the init
    containers still lack, one after the other, the largest amount is one more request, which all of them use.
    """
    asked: dict[str, list[tuple[int, int]]] = {}
    for position, container in enumerate(containers):
        for resource in container.requests.keys() & classes.keys():
            if count := _count(container, resource):
                asked.setdefault(resource, []).append((position, count))
    by_resource = [
        _ResourceRequests.of(containers, resource, classes[resource].name, asked[resource])
        for resource in sorted(asked)
    ]
    requests = [request for own in by_resource for request in own.requests()]
    return Generated(tuple(sorted(requests, key=lambda request: request.name)), by_resource)


@dataclass(frozen=True, slots=True)
class Generated:
    """What the generated claim asks for, by name, and for whom."""

    requests: tuple[CountRequest, ...]
    by_resource: Sequence["_ResourceRequests"]

    def mappings(self) -> tuple[RequestMapping, ...]:
        """Which container uses which request. Cost: O(containers * requests), so ask if a claim may have so many."""
        return tuple(mapping for own in self.by_resource for mapping in own.mappings())


@dataclass(frozen=True, slots=True)
class _ResourceRequests:
    """What one resource adds."""

    containers: Sequence[Container]
    resource: str
    lasting: Mapping[int, CountRequest]
    """The requests of lasting containers, by position, in this order."""
    plain: Mapping[int, int]
    """What plain init containers want, likewise."""
    extra: CountRequest | None
    """For the largest shortfall of a plain init container, the first of equal ones."""

    @staticmethod
    def of(
        containers: Sequence[Container], resource: str, class_name: str, asked: Sequence[tuple[int, int]]
    ) -> "_ResourceRequests":
        """asked: the positions of the containers that ask for it, in their order, with how many devices."""

        def request(position: int, count: int) -> CountRequest:
            number = sum([name < resource for name in containers[position].requests])
            return CountRequest(f"container-{position}-request-{number}", class_name, count)

        lasting: dict[int, CountRequest] = {}
        plain: dict[int, int] = {}
        extra: tuple[int, int] | None = None
        later = 0  # what the lasting containers behind have, as all are read from the last to the first
        for position, count in reversed(asked):
            if not containers[position].is_plain_init:
                lasting[position] = request(position, count)
                later += count
                continue
            plain[position] = count
            if count > later and (extra is None or count - later >= extra[1]):
                extra = position, count - later
        in_order = dict(reversed(lasting.items())), dict(reversed(plain.items()))
        return _ResourceRequests(containers, resource, *in_order, request(*extra) if extra else None)

    def requests(self) -> Iterator[CountRequest]:
        if self.extra:
            yield self.extra
        yield from self.lasting.values()

    def mappings(self) -> Iterator[RequestMapping]:
        for position, request in self.lasting.items():
            yield self._mapping(position, request)
        for position, count in self.plain.items():
            missing = count
            for later, request in self.lasting.items():
                if later > position and missing > 0:
                    missing -= request.count
                    yield self._mapping(position, request)
            if missing > 0 and self.extra:
                yield self._mapping(position, self.extra)

    def _mapping(self, position: int, request: CountRequest) -> RequestMapping:
        return RequestMapping(self.containers[position].name, self.resource, request.name)


def _count(container: Container, resource: str) -> int:
    amount = container.requests.get(resource)
    return amount.nanos // _ONE if amount else 0


def _creation(one: DeviceClass) -> datetime:
    text = one.creation_timestamp
    return datetime.fromisoformat(text) if text else datetime.max.replace(tzinfo=UTC)


Amounts = Mapping[str, int]
"""Resource to an amount, in 10**-9 of its unit."""

_UNIT = 10**9
_CHECKED = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod itself asks for. budget: spec.resources.requests, which bounds all of the pod where it is set."""

    containers: Sequence[Container] = ()
    budget: Mapping[str, Quantity] = field(default_factory=dict)
    overhead: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimResources:
    """What the devices of a claim take of the node. mapped: counts once. per_container: for each that uses it."""

    claim: str
    mapped: Amounts
    per_pod: Amounts
    per_container: Amounts

    def used_by(self, containers: int) -> Amounts:
        """All of it, for a pod of which so many containers use the claim."""
        total = Counter(self.mapped)
        total.update(self.per_pod)
        total.update({name: amount * containers for name, amount in self.per_container.items()})
        return total


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The pod's own bound (spec.resources.requests) is below what its containers and claims need of a resource."""

    resource: str
    needed: int
    budget: int


def claim_resources(
    claim: str, allocation: Allocation, device: Callable[[DeviceID], Device | None]
) -> ClaimResources | None:
    """What an allocation takes of the node's resources; None if its devices take nothing.

    device: the published device, None if it is gone (it counts nothing).
    A mapping is deviceMultiplier for each device, or the consumed capacity times capacityMultiplier; it counts nothing
    where the result does not consume that capacity.
    """
    mapped, per_pod, per_container = Counter[str](), Counter[str](), Counter[str]()
    for result in allocation.results:
        published = device(result.id)
        for resource, entry in published.node_allocatable.items() if published else ():
            mapping, overhead = _section(entry, "mapping"), _section(entry, "overhead")
            if (own := _mapped(mapping, result)) is not None:
                mapped[resource] += own
            per_pod[resource] += _nanos(overhead.get("perPod"))
            per_container[resource] += _nanos(overhead.get("perContainer"))
    found = bool(mapped or per_pod or per_container)
    return ClaimResources(claim, mapped, per_pod, per_container) if found else None


def requests_of(containers: Sequence[Container]) -> Amounts:
    """The most that the containers request at one time, by resource.

    Those that last run together; a plain init container runs with those of them that stand before it.
    Source: KEP-753.
    """
    lasting, most = dict[str, int](), dict[str, int]()
    for container in containers:
        for name, amount in container.requests.items():
            total = lasting.get(name, 0) + amount.nanos
            most[name] = max(most.get(name, 0), total)
            if not container.is_plain_init:
                lasting[name] = total
    return {name: amount for name, amount in most.items() if amount}


def over_budget(pod: PodResources, claims: Iterable[Amounts]) -> OverBudget | None:
    """The first resource of which containers and claims need more than the pod's budget; None if it covers them.

    claims: `ClaimResources.used_by` for each of the pod's.
    """
    need = _unbounded_need(pod, claims)
    return next((OverBudget(name, need[name], most) for name, most in _budget(pod).items() if need[name] > most), None)


def pod_need(pod: PodResources, claims: Iterable[Amounts]) -> Amounts:
    """What the pod takes of a node in all; where it has a budget of a resource, that is what counts.

    claims: as of `over_budget`.
    """
    need = _unbounded_need(pod, claims)
    for resource, most in _budget(pod).items():
        need[resource] = most
    need.update({resource: amount.nanos for resource, amount in pod.overhead.items()})
    return need


def shortages(need: Amounts, used: Amounts, allocatable: Mapping[str, Quantity]) -> tuple[str, ...]:
    """The resources of which a node has too little, sorted. used: by the other pods of the node.

    Amounts are compared as kube-scheduler does, rounded up: cpu in thousandths, all else in whole units. It compares
    cpu, memory, ephemeral-storage and huge pages, and no other resources.
    """
    return tuple(sorted(name for name in need if _is_short(name, need[name], used.get(name, 0), allocatable.get(name))))


def _unbounded_need(pod: PodResources, claims: Iterable[Amounts]) -> Counter[str]:
    need = Counter(requests_of(pod.containers))
    for amounts in claims:
        need.update(amounts)
    return need


def _budget(pod: PodResources) -> dict[str, int]:
    """The budget of the resources that a pod as a whole can have requests for."""
    return {
        name: amount.nanos
        for name, amount in pod.budget.items()
        if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)
    }


def _is_short(resource: str, need: int, used: int, offered: Quantity | None) -> bool:
    if need <= 0 or not (resource in _CHECKED or resource.startswith(_HUGE_PAGES)):
        return False
    step = _UNIT // 1000 if resource == "cpu" else _UNIT
    left = _rounded_up(_nanos(offered), step) - _rounded_up(used, step)
    return _rounded_up(need, step) > left


def _mapped(mapping: Mapping[str, object], result: DeviceResult) -> int | None:
    key = mapping.get("capacityKey")
    if not isinstance(key, str):
        return _nanos(mapping.get("deviceMultiplier")) if mapping else None
    own = own_name(result.consumed_capacity, key, result.driver)
    if own is None:
        return None
    consumed = result.consumed_capacity[own]
    return _rounded_up(consumed.nanos * _nanos(mapping.get("capacityMultiplier")), _UNIT)


def _section(entry: object, name: str) -> Mapping[str, object]:
    section = entry.get(name) if isinstance(entry, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _nanos(amount: object) -> int:
    return amount.nanos if isinstance(amount, Quantity) else 0


def _rounded_up(value: int, step: int) -> int:
    return -(-value // step)
