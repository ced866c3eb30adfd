"""The status of a claim: the allocated devices, their configuration, and for whom the claim is reserved.

Source: k8s.io/api resource/v1 ResourceClaimStatus, AllocationResult and their validation.
"""

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from allocator.api.device import check_conditions
from allocator.api.device_status import DeviceStatusShape, SharedDevice, check_device_statuses, check_shared_device
from allocator.api.driver_config import (
    CONFIG_MAX,
    ResultConfigShape,
    build_opaque,
    check_count,
    check_opaque,
)
from allocator.api.findings import Findings, duplicates
from allocator.api.node_selector import NodeSelectorShape, build_node_selector, check_node_selector
from allocator.api.requests import check_reference, check_references
from allocator.api.shape import QuantityField, Timestamp
from allocator.api.taints import TolerationShape, build_toleration
from allocator.model import Allocation, DeviceResult, ResultConfig

RESULTS_MAX = 32
RESULT_CONFIG_MAX = 2 * CONFIG_MAX
RESERVED_FOR_MAX = 256


class ResultShape(TypedDict, total=False):
    """An entry of status.allocation.devices.results."""

    request: str | None
    driver: str | None
    pool: str | None
    device: str | None
    adminAccess: bool | None
    tolerations: list[TolerationShape] | None
    bindingConditions: list[str] | None
    bindingFailureConditions: list[str] | None
    shareID: str | None
    consumedCapacity: dict[str, QuantityField] | None
    skipNodeOperations: list[str] | None


class ResultsShape(TypedDict, total=False):
    """status.allocation.devices."""

    results: list[ResultShape] | None
    config: list[ResultConfigShape] | None


class AllocationShape(TypedDict, total=False):
    """status.allocation."""

    devices: ResultsShape | None
    nodeSelector: NodeSelectorShape | None
    allocationTimestamp: Timestamp | None


class ConsumerShape(TypedDict, total=False):
    """An entry of status.reservedFor."""

    apiGroup: str | None
    resource: str | None
    name: str | None
    uid: str | None


class StatusShape(TypedDict, total=False):
    """status of a ResourceClaim."""

    allocation: AllocationShape | None
    reservedFor: list[ConsumerShape] | None
    devices: list[DeviceStatusShape] | None


class Consumer(NamedTuple):
    """For whom a claim is reserved; resource: `pods`, in the core group unless api_group says another."""

    api_group: str
    resource: str
    name: str
    uid: str


def check_status(shape: StatusShape, known: frozenset[str], findings: Findings) -> None:
    """The rules of a claim's status. known: the names of its requests, as `request_names` gives them."""
    allocation = shape.get("allocation")
    if allocation is not None:
        _check_allocation(allocation, known, findings)
    _check_reserved(shape.get("reservedFor") or (), findings, is_allocated=allocation is not None)
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    allocated = {_of_result(result) for result in results}
    check_device_statuses(shape.get("devices") or (), allocated, findings)


def _check_allocation(shape: AllocationShape, known: frozenset[str], findings: Findings) -> None:
    devices = shape.get("devices") or {}
    path, results = "status.allocation.devices.results", devices.get("results") or ()
    check_count(len(results), RESULTS_MAX, path, findings)
    for index, result in enumerate(results):
        _check_result(result, known, f"{path}[{index}]", findings)
    path, config = "status.allocation.devices.config", devices.get("config") or ()
    check_count(len(config), RESULT_CONFIG_MAX, path, findings)
    for index, entry in enumerate(config):
        _check_config(entry, known, f"{path}[{index}]", findings)
    selector = shape.get("nodeSelector")
    if selector is not None:
        check_node_selector(selector, "status.allocation.nodeSelector", findings)


def _check_result(shape: ResultShape, known: frozenset[str], path: str, findings: Findings) -> None:
    check_reference(shape.get("request") or "", known, f"{path}.request", findings)
    check_shared_device(_of_result(shape), path, findings)
    check_conditions(shape.get("bindingConditions"), shape.get("bindingFailureConditions"), path, findings)


def _of_result(shape: ResultShape) -> SharedDevice:
    driver, pool, device = shape.get("driver") or "", shape.get("pool") or "", shape.get("device") or ""
    return SharedDevice(driver, pool, device, shape.get("shareID"))


def _check_config(shape: ResultConfigShape, known: frozenset[str], path: str, findings: Findings) -> None:
    if shape.get("source") not in {"FromClass", "FromClaim"}:
        findings.error(f"{path}.source", shape.get("source"), "must be FromClass or FromClaim")
    check_references(shape.get("requests"), known, f"{path}.requests", findings)
    check_opaque(shape.get("opaque"), path, findings)


def _check_reserved(shapes: Sequence[ConsumerShape], findings: Findings, *, is_allocated: bool) -> None:
    path = "status.reservedFor"
    if shapes and not is_allocated:
        findings.error(path, len(shapes), "must be absent while status.allocation is")
    check_count(len(shapes), RESERVED_FOR_MAX, path, findings)
    for index, shape in enumerate(shapes):
        for field, value in (("resource", shape.get("resource")), ("name", shape.get("name"))):
            if not value:
                findings.required(f"{path}[{index}].{field}")
        if not shape.get("uid"):
            findings.note(f"{path}[{index}].uid", None, "is required")
    for index, uid in duplicates(shape.get("uid") or index for index, shape in enumerate(shapes)):
        findings.error(f"{path}[{index}]", uid, "the uid must be unique")


def build_allocation(shape: AllocationShape | None) -> Allocation | None:
    """The allocation in the allocator's form; None where the claim has none."""
    if shape is None:
        return None
    devices = shape.get("devices") or {}
    return Allocation(
        results=tuple(_result(entry) for entry in devices.get("results") or ()),
        config=tuple(_config(entry) for entry in devices.get("config") or ()),
        node_selector=build_node_selector(shape.get("nodeSelector")),
        allocation_timestamp=shape.get("allocationTimestamp") or "",
    )


def _result(shape: ResultShape) -> DeviceResult:
    return DeviceResult(
        request=shape.get("request") or "",
        driver=shape.get("driver") or "",
        pool=shape.get("pool") or "",
        device=shape.get("device") or "",
        admin_access=bool(shape.get("adminAccess")),
        tolerations=tuple(build_toleration(toleration) for toleration in shape.get("tolerations") or ()),
        binding_conditions=tuple(shape.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(shape.get("bindingFailureConditions") or ()),
        share_id=shape.get("shareID") or "",
        consumed_capacity=shape.get("consumedCapacity") or {},
        skip_node_operations=tuple(shape.get("skipNodeOperations") or ()),
    )


def _config(shape: ResultConfigShape) -> ResultConfig:
    requests = tuple(shape.get("requests") or ())
    return ResultConfig(shape.get("source") or "", requests, build_opaque(shape.get("opaque")))


def build_consumers(shapes: Sequence[ConsumerShape] | None) -> tuple[Consumer, ...]:
    """For whom the claim is reserved, in order."""
    return tuple(_consumer(shape) for shape in shapes or ())


def _consumer(shape: ConsumerShape) -> Consumer:
    resource, name = shape.get("resource") or "", shape.get("name") or ""
    return Consumer(shape.get("apiGroup") or "", resource, name, shape.get("uid") or "")
