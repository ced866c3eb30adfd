"""Node-allocatable resources: devices that are, or that need, some of their node's cpu, memory or huge pages.

A mapping says what a device is in such a resource, and counts once for the claim; an overhead says what
using it takes besides, and counts for each pod. Once devices are chosen, the pod's own requests and
these together must fit what the node has left. With the gate off, which is the default, Kubernetes does
not look at any of it, and neither do we.
Source: KEP-5517; feature gate DRANodeAllocatableResources, field nodeAllocatableResources; the sums of
k8s.io/component-helpers v0.37 resource/helpers.go, the check of Kubernetes' nodeallocatabledynamicresources.go.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.model import Allocation, Container, Device, DeviceID, DeviceResult, own_name
from cel.values.quantity import Quantity

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
    lasting, most = Counter[str](), Counter[str]()
    for container in containers:
        own = Counter({name: amount.nanos for name, amount in container.requests.items()})
        own.update(lasting)
        most |= own
        if not container.is_plain_init:
            lasting = own
    return most


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
