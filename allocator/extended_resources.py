"""Extended resources backed by classes: a container's `example.com/gpu: 2` as requests of a generated claim.

A class stands for the resource that its spec.extendedResourceName names, and for one named after itself.
On a node whose device plugin does not offer the resource, one claim asks for the devices of all
containers, after the pod's own claims and together with them. Containers that run one after the other
use the same devices. All functions are pure; who writes the claim is the caller's business.
Source: KEP-5004; feature gate DRAExtendedResource; in Kubernetes extendeddynamicresources.go of the
scheduler plugin and the extendedresourcecache of k8s.io/dynamic-resource-allocation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from allocator.model import Container, DeviceClass

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before a class's name: the resource that every class stands for without saying so."""

CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""`"true"` on a generated claim."""

_UNIT = 10**9


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


@dataclass(frozen=True, slots=True)
class Generated:
    """What the generated claim asks for, by name, and for whom."""

    requests: tuple[CountRequest, ...]
    mappings: tuple[RequestMapping, ...]


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


def generate(containers: Sequence[Container], classes: Mapping[str, DeviceClass]) -> Generated:
    """The requests of the generated claim for these resources, and which container uses which.

    containers: all of the pod, init containers first. classes: of the resources that are given by claim.
    A container that lasts has a request of its own, `container-<its position>-request-<position of the resource among
    the sorted names of its requests>`. A plain init container uses those of later containers first; of what the init
    containers still lack, one after the other, the largest amount is one more request, which all of them use.
    """
    requests: list[CountRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(classes):
        own = _ResourceRequests.of(containers, resource, classes[resource].name)
        requests += own.requests()
        mappings += own.mappings()
    return Generated(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


@dataclass(frozen=True, slots=True)
class _ResourceRequests:
    """What one resource adds. lasting: the requests of lasting containers, by position; plain: counts likewise."""

    containers: Sequence[Container]
    resource: str
    class_name: str
    lasting: Mapping[int, CountRequest]
    plain: Mapping[int, int]

    @staticmethod
    def of(containers: Sequence[Container], resource: str, class_name: str) -> "_ResourceRequests":
        wanted = {position: _count(container, resource) for position, container in enumerate(containers)}
        lasting = {
            position: CountRequest(_request_name(position, containers[position], resource), class_name, count)
            for position, count in wanted.items()
            if count and not containers[position].is_plain_init
        }
        plain = {position: n for position, n in wanted.items() if n and containers[position].is_plain_init}
        return _ResourceRequests(containers, resource, class_name, lasting, plain)

    def requests(self) -> Iterator[CountRequest]:
        extra = self._extra()
        if extra:
            yield extra
        yield from self.lasting.values()

    def mappings(self) -> Iterator[RequestMapping]:
        for position, request in self.lasting.items():
            yield self._mapping(position, request)
        extra = self._extra()
        for position in self.plain:
            reused, missing = self._reuse(position)
            for request in reused:
                yield self._mapping(position, request)
            if missing and extra:
                yield self._mapping(position, extra)

    def _extra(self) -> CountRequest | None:
        """The request for the largest shortfall of a plain init container, the first of equal ones."""
        shortfalls = {position: self._reuse(position)[1] for position in self.plain}
        largest = max(shortfalls, key=shortfalls.__getitem__, default=None)
        if largest is None or not shortfalls[largest]:
            return None
        name = _request_name(largest, self.containers[largest], self.resource)
        return CountRequest(name, self.class_name, shortfalls[largest])

    def _reuse(self, position: int) -> tuple[list[CountRequest], int]:
        """The requests of later containers that a plain init container uses, and how many devices it still lacks."""
        reused, missing = [], self.plain[position]
        for later, request in self.lasting.items():
            if later > position and missing > 0:
                reused.append(request)
                missing -= request.count
        return reused, max(missing, 0)

    def _mapping(self, position: int, request: CountRequest) -> RequestMapping:
        return RequestMapping(self.containers[position].name, self.resource, request.name)


def _count(container: Container, resource: str) -> int:
    amount = container.requests.get(resource)
    return amount.nanos // _UNIT if amount else 0


def _request_name(position: int, container: Container, resource: str) -> str:
    return f"container-{position}-request-{sorted(container.requests).index(resource)}"


def _creation(one: DeviceClass) -> datetime:
    text = one.creation_timestamp
    return datetime.fromisoformat(text) if text else datetime.max.replace(tzinfo=UTC)
