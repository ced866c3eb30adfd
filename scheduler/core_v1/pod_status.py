"""The status of a pod, as far as scheduling reads it: phase, conditions, claims, and resizing.

Until an in-place resize is complete, a container holds the maximum of its requested, allocated and actual resources. If
the node cannot do the resize, the requested resources do not count.
Source: k8s.io/api core/v1 PodStatus; KEP-1287; k8s.io/component-helpers resource/helpers.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from allocator.api.schema import Timestamp
from allocator.model import Container
from cel.values.quantity import Quantity
from scheduler.core_v1.object_fields import ObjectFields
from scheduler.core_v1.resources import Amount, ResourcesFields

EXTENDED_STATUS = "extendedResourceClaimStatus"
TAKEN_STATUSES = "nodeAllocatableResourceClaimStatuses"
"""What the scheduler that binds a pod reports about its devices."""

DISRUPTION_TARGET = "DisruptionTarget"
"""The condition of a pod that is about to be evicted, and why."""

POD_SCHEDULED = "PodScheduled"
"""The condition that says whether the pod has a node."""

_RESIZE_PENDING = "PodResizePending"
_INFEASIBLE = "Infeasible"

ResourceList = Mapping[str, Quantity]
"""Resource to amount."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


@dataclass(frozen=True, slots=True)
class TakenByClaim:
    """What the devices of a claim take of the node: an entry of status.nodeAllocatableResourceClaimStatuses.

    claim: its name. containers: those of the pod that use it. resources: all of it. fields: how the entry says so.
    """

    claim: str
    containers: tuple[str, ...]
    resources: ResourceList
    fields: Mapping[str, object] = field(default_factory=dict, compare=False)


class MappedFields(ObjectFields):
    """What devices are in a resource of the node: an entry of `mapping`."""

    name: str = ""
    quantity: Amount | None = None


class OverheadOfClaimFields(ObjectFields):
    """What devices need of a resource of the node besides: an entry of `overhead`."""

    name: str = ""
    perPod: Amount | None = None  # noqa: N815 - the API's name
    perContainer: Amount | None = None  # noqa: N815 - the API's name


class TakenByClaimFields(ObjectFields):
    """An entry of status.nodeAllocatableResourceClaimStatuses."""

    resourceClaimName: str = ""  # noqa: N815 - the API's name
    containers: list[str] | None = None
    resources: dict[str, Amount] | None = None
    """The sum of what a claim takes, up to Kubernetes 1.36."""
    mapping: list[MappedFields] | None = None
    overhead: list[OverheadOfClaimFields] | None = None


class ClaimStatusFields(ObjectFields):
    """An entry of status.resourceClaimStatuses."""

    name: str
    resourceClaimName: str | None = None  # noqa: N815 - the API's name


class PodConditionFields(ObjectFields):
    """An entry of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    observedGeneration: int | None = None  # noqa: N815 - the API's name


class ContainerStatusFields(ObjectFields):
    """An entry of status.containerStatuses: what the container has, and what it was promised."""

    name: str = ""
    resources: ResourcesFields | None = None
    allocatedResources: dict[str, Amount] | None = None  # noqa: N815 - the API's name


class PodStatusFields(ObjectFields):
    """The status of a pod."""

    phase: str | None = None
    nominatedNodeName: str | None = None  # noqa: N815 - the API's name
    startTime: Timestamp | None = None  # noqa: N815 - the API's name
    conditions: list[PodConditionFields] | None = None
    resourceClaimStatuses: list[ClaimStatusFields] | None = None  # noqa: N815 - the API's name
    extendedResourceClaimStatus: object = None  # noqa: N815 - the API's name
    nodeAllocatableResourceClaimStatuses: list[TakenByClaimFields] | None = None  # noqa: N815 - the API's name
    containerStatuses: list[ContainerStatusFields] | None = None  # noqa: N815 - the API's name
    initContainerStatuses: list[ContainerStatusFields] | None = None  # noqa: N815 - the API's name
    resources: ResourcesFields | None = None
    allocatedResources: dict[str, Amount] | None = None  # noqa: N815 - the API's name


def conditions_of(status: PodStatusFields) -> tuple[Condition, ...]:
    """The conditions in their order."""
    return tuple(
        Condition(one.type, one.status, one.reason or "", one.message or "", one.observedGeneration or 0)
        for one in status.conditions or ()
    )


def device_fields_of(status: PodStatusFields) -> tuple[str, ...]:
    """The fields of the status that describe the pod's devices, as far as they are set."""
    values = {EXTENDED_STATUS: status.extendedResourceClaimStatus}
    values[TAKEN_STATUSES] = status.nodeAllocatableResourceClaimStatuses
    return tuple(name for name, value in values.items() if value)


def taken_by_claims(status: PodStatusFields) -> tuple[TakenByClaim, ...]:
    """What claims take of the node (KEP-5517); the scheduler that bound the pod has written it."""
    return tuple(
        TakenByClaim(one.resourceClaimName, tuple(one.containers or ()), _taken(one))
        for one in status.nodeAllocatableResourceClaimStatuses or ()
    )


def _taken(fields: TakenByClaimFields) -> ResourceList:
    """All that the entry says, in the form of either release."""
    amounts: list[tuple[str, Amount | None, int]] = [
        (name, amount, 1) for name, amount in (fields.resources or {}).items()
    ]
    amounts += [(one.name, one.quantity, 1) for one in fields.mapping or ()]
    for overhead in fields.overhead or ():
        amounts.append((overhead.name, overhead.perPod, 1))
        amounts.append((overhead.name, overhead.perContainer, len(fields.containers or ())))
    nanos = Counter[str]()
    for name, amount, times in amounts:
        nanos[name] += amount.nanos * times if amount else 0
    return {name: Quantity.parse(f"{amount}n") for name, amount in nanos.items()}


def in_use(containers: tuple[Container, ...], status: PodStatusFields) -> tuple[Container, ...]:
    """The containers with what they hold at most while they are resized; a plain init container is never resized."""
    statuses = (*(status.initContainerStatuses or ()), *(status.containerStatuses or ()))
    resized = {one.name: one for one in statuses if one.resources}
    if not resized:
        return containers
    return tuple(_in_use(one, resized.get(one.name), status) for one in containers)


def budget_in_use(budget: ResourceList, status: PodStatusFields) -> ResourceList:
    """The same for the requests of the pod as a whole."""
    if not budget or status.resources is None:
        return budget
    held = _held(budget, status.resources.requests, status.allocatedResources, status)
    return {name: held.get(name, Quantity.of(0)) for name in budget}


def _in_use(container: Container, found: ContainerStatusFields | None, status: PodStatusFields) -> Container:
    if found is None or found.resources is None or container.is_plain_init:
        return container
    held = _held(container.requests, found.resources.requests, found.allocatedResources, status)
    return replace(container, requests=held)


def _held(
    wanted: ResourceList, actual: ResourceList | None, promised: ResourceList | None, status: PodStatusFields
) -> ResourceList:
    counts = (actual or {}, promised or {}) if _is_infeasible(status) else (wanted, actual or {}, promised or {})
    return _largest(counts)


def _largest(lists: Iterable[ResourceList]) -> ResourceList:
    largest: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest


def _is_infeasible(status: PodStatusFields) -> bool:
    pending = (one for one in status.conditions or () if one.type == _RESIZE_PENDING)
    return next((one.reason == _INFEASIBLE for one in pending), False)
