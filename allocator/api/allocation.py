"""What status.allocation and status.devices say, read, and allocations written back into JSON.

They are written in the order of fields and with the omissions (`omitempty`) of the API server.
Source: k8s.io/api resource/v1 AllocationResult.
"""

import re
from collections.abc import Collection, Sequence
from ipaddress import IPv6Interface, ip_interface
from typing import Generic, NamedTuple, TypeVar

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.device import TolerationFields, build_toleration, check_conditions
from allocator.api.driver_config import (
    CONFIG_MAX,
    ResultConfigFields,
    build_opaque,
    check_count,
    check_json_object,
    check_opaque,
)
from allocator.api.findings import Findings, duplicates
from allocator.api.node_selector import NodeSelectorFields, build_node_selector, check_node_selector
from allocator.api.requests import check_reference, check_references
from allocator.api.schema import Int64, QuantityField, Timestamp
from allocator.api.versions import Json
from allocator.model import Allocation, DeviceResult, NodeSelector, Requirement, ResultConfig, Term, Toleration

# What drivers report about allocated devices: `status.devices` of a claim.
#
# No allocation depends on it; it is held to its rules because a result is written beside it. Source: KEP-4817;
# k8s.io/api resource/v1 AllocatedDeviceStatus and its validation.


CONDITIONS_MAX = 8
ADDRESSES_MAX = 16
INTERFACE_NAME_MAX = 256
HARDWARE_ADDRESS_MAX = 128
REASON_MAX = 1024
MESSAGE_MAX = 32 * 1024

_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*+(?<![,:]))?")


class ConditionFields(TypedDict, total=False):
    """A condition of a device's status."""

    type: str | None
    status: str | None
    observedGeneration: Int64 | None
    lastTransitionTime: Timestamp | None
    reason: str | None
    message: str | None


class NetworkFields(TypedDict, total=False):
    """The networkData of a device's status."""

    interfaceName: str | None
    ips: list[str] | None
    hardwareAddress: str | None


class DeviceStatusFields(TypedDict, total=False):
    """An entry of status.devices."""

    driver: str | None
    pool: str | None
    device: str | None
    shareID: str | None
    conditions: list[ConditionFields] | None
    data: object
    networkData: NetworkFields | None


class SharedDevice(NamedTuple):
    """A device's identity and, where the claim has a share of it only, the share's."""

    driver: str
    pool: str
    device: str
    share_id: str | None


def check_shared_device(device: SharedDevice, path: str, findings: Findings) -> None:
    """The rules of the names that a result or a status gives. path: of the object whose fields they are."""
    for field, value, problem in (
        ("driver", device.driver, names.driver_name(device.driver)),
        ("pool", device.pool, names.pool_name(device.pool)),
        ("device", device.device, names.short_name(device.device)),
    ):
        if problem:
            findings.error(f"{path}.{field}", value, problem)
    if device.share_id is not None and (problem := names.uuid(device.share_id)):
        findings.error(f"{path}.shareID", device.share_id, problem)


def check_device_statuses(
    entries: Sequence[DeviceStatusFields], allocated: Collection[SharedDevice], findings: Findings
) -> None:
    """The rules of status.devices. allocated: the devices of the claim's results."""
    devices = [_of_status(fields) for fields in entries]
    for index, (fields, device) in enumerate(zip(entries, devices, strict=True)):
        path = f"status.devices[{index}]"
        check_shared_device(device, path, findings)
        if device not in allocated:
            findings.error(path, "/".join(device[:3]), "must be a device of status.allocation")
        _check_conditions(fields.get("conditions") or (), f"{path}.conditions", findings)
        if fields.get("data") is not None:
            check_json_object(fields.get("data"), f"{path}.data", findings)
        _check_network(fields.get("networkData") or {}, f"{path}.networkData", findings)
    for index, _ in duplicates(devices):
        findings.error(f"status.devices[{index}]", None, "must be unique by driver, pool, device and shareID")


def _of_status(fields: DeviceStatusFields) -> SharedDevice:
    driver, pool, device = fields.get("driver") or "", fields.get("pool") or "", fields.get("device") or ""
    return SharedDevice(driver, pool, device, fields.get("shareID"))


def _check_conditions(entries: Sequence[ConditionFields], path: str, findings: Findings) -> None:
    check_count(len(entries), CONDITIONS_MAX, path, findings)
    for index, fields in enumerate(entries):
        _check_condition(fields, f"{path}[{index}]", findings)
    for index, name in duplicates(fields.get("type") or index for index, fields in enumerate(entries)):
        findings.error(f"{path}[{index}].type", name, "must be unique")


def _check_condition(fields: ConditionFields, path: str, findings: Findings) -> None:
    if problem := names.label_key(fields.get("type") or ""):
        findings.error(f"{path}.type", fields.get("type"), problem)
    if fields.get("status") not in {"True", "False", "Unknown"}:
        findings.error(f"{path}.status", fields.get("status"), "must be True, False or Unknown")
    if (fields.get("observedGeneration") or 0) < 0:
        findings.error(f"{path}.observedGeneration", fields.get("observedGeneration"), "must be at least 0")
    if fields.get("lastTransitionTime") is None:
        findings.required(f"{path}.lastTransitionTime")
    if problem := _reason_problem(fields.get("reason") or ""):
        findings.error(f"{path}.reason", fields.get("reason"), problem)
    if problem := names.too_long(fields.get("message") or "", MESSAGE_MAX):
        findings.error(f"{path}.message", fields.get("message"), problem)


def _reason_problem(reason: str) -> str:
    if not reason:
        return "is required"
    rule = "must start with a letter, go on with letters, digits, '_', ',' and ':', and not end with ',' or ':'"
    return names.too_long(reason, REASON_MAX) or ("" if _REASON.fullmatch(reason) else rule)


def _check_network(fields: NetworkFields, path: str, findings: Findings) -> None:
    for field, value, limit in (
        ("interfaceName", fields.get("interfaceName"), INTERFACE_NAME_MAX),
        ("hardwareAddress", fields.get("hardwareAddress"), HARDWARE_ADDRESS_MAX),
    ):
        if problem := names.too_long(value or "", limit):
            findings.error(f"{path}.{field}", value, problem)
    addresses = fields.get("ips") or ()
    check_count(len(addresses), ADDRESSES_MAX, f"{path}.ips", findings)
    for index, address in enumerate(addresses):
        if not _is_canonical(address):
            findings.error(f"{path}.ips[{index}]", address, "must be an address in canonical form such as 10.9.8.7/24")
    for index, duplicate in duplicates(addresses):
        findings.error(f"{path}.ips[{index}]", duplicate, "must be unique")


def _is_canonical(address: str) -> bool:
    try:
        parsed = ip_interface(address)
    except ValueError:
        return False
    is_mapped = isinstance(parsed, IPv6Interface) and parsed.ip.ipv4_mapped is not None
    return str(parsed) == address and not is_mapped and "%" not in address


# The status of a claim: the allocated devices, their configuration, and for whom the claim is reserved.
#
# Source: k8s.io/api resource/v1 ResourceClaimStatus, AllocationResult and their validation.


RESULTS_MAX = 32
RESULT_CONFIG_MAX = 2 * CONFIG_MAX
RESERVED_FOR_MAX = 256


class ResultFields(TypedDict, total=False):
    """An entry of status.allocation.devices.results."""

    request: str | None
    driver: str | None
    pool: str | None
    device: str | None
    adminAccess: bool | None
    tolerations: list[TolerationFields] | None
    bindingConditions: list[str] | None
    bindingFailureConditions: list[str] | None
    shareID: str | None
    consumedCapacity: dict[str, QuantityField] | None
    skipNodeOperations: list[str] | None


class ResultsFields(TypedDict, total=False):
    """status.allocation.devices."""

    results: list[ResultFields] | None
    config: list[ResultConfigFields] | None


class AllocationFields(TypedDict, total=False):
    """status.allocation."""

    devices: ResultsFields | None
    nodeSelector: NodeSelectorFields | None
    allocationTimestamp: Timestamp | None


class ConsumerFields(TypedDict, total=False):
    """An entry of status.reservedFor."""

    apiGroup: str | None
    resource: str | None
    name: str | None
    uid: str | None


class StatusFields(TypedDict, total=False):
    """status of a ResourceClaim."""

    allocation: AllocationFields | None
    reservedFor: list[ConsumerFields] | None
    devices: list[DeviceStatusFields] | None


class Consumer(NamedTuple):
    """For whom a claim is reserved; resource: `pods`, in the core group unless api_group says another."""

    api_group: str
    resource: str
    name: str
    uid: str

    @property
    def is_of_pods(self) -> bool:
        """Whether it is a pod at all."""
        return (self.api_group, self.resource) == ("", "pods")

    def is_pod(self, name: str, uid: str) -> bool:
        """Whether it is the pod, in the claim's namespace; its name decides where one of them has no uid."""
        if not self.is_of_pods:
            return False
        return self.uid == uid if self.uid and uid else self.name == name

    def is_pod_group(self, name: str) -> bool:
        """Whether it is the PodGroup of that name: pods do not know its uid."""
        return (self.api_group, self.resource, self.name) == ("scheduling.k8s.io", "podgroups", name)


def check_status(fields: StatusFields, known: frozenset[str], findings: Findings) -> None:
    """The rules of a claim's status. known: the names of its requests, as `request_names` gives them."""
    allocation = fields.get("allocation")
    if allocation is not None:
        _check_allocation(allocation, known, findings)
    _check_reserved(fields.get("reservedFor") or (), findings, is_allocated=allocation is not None)
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    allocated = {_of_result(result) for result in results}
    check_device_statuses(fields.get("devices") or (), allocated, findings)


def _check_allocation(fields: AllocationFields, known: frozenset[str], findings: Findings) -> None:
    devices = fields.get("devices") or {}
    path, results = "status.allocation.devices.results", devices.get("results") or ()
    check_count(len(results), RESULTS_MAX, path, findings)
    for index, result in enumerate(results):
        _check_result(result, known, f"{path}[{index}]", findings)
    path, config = "status.allocation.devices.config", devices.get("config") or ()
    check_count(len(config), RESULT_CONFIG_MAX, path, findings)
    for index, entry in enumerate(config):
        _check_config(entry, known, f"{path}[{index}]", findings)
    selector = fields.get("nodeSelector")
    if selector is not None:
        check_node_selector(selector, "status.allocation.nodeSelector", findings)


def _check_result(fields: ResultFields, known: frozenset[str], path: str, findings: Findings) -> None:
    check_reference(fields.get("request") or "", known, f"{path}.request", findings)
    check_shared_device(_of_result(fields), path, findings)
    check_conditions(fields.get("bindingConditions"), fields.get("bindingFailureConditions"), path, findings)


def _of_result(fields: ResultFields) -> SharedDevice:
    driver, pool, device = fields.get("driver") or "", fields.get("pool") or "", fields.get("device") or ""
    return SharedDevice(driver, pool, device, fields.get("shareID"))


def _check_config(fields: ResultConfigFields, known: frozenset[str], path: str, findings: Findings) -> None:
    if fields.get("source") not in {"FromClass", "FromClaim"}:
        findings.error(f"{path}.source", fields.get("source"), "must be FromClass or FromClaim")
    check_references(fields.get("requests"), known, f"{path}.requests", findings)
    check_opaque(fields.get("opaque"), path, findings)


def _check_reserved(entries: Sequence[ConsumerFields], findings: Findings, *, is_allocated: bool) -> None:
    path = "status.reservedFor"
    if entries and not is_allocated:
        findings.error(path, len(entries), "must be absent while status.allocation is")
    check_count(len(entries), RESERVED_FOR_MAX, path, findings)
    for index, fields in enumerate(entries):
        for field, value in (("resource", fields.get("resource")), ("name", fields.get("name"))):
            if not value:
                findings.required(f"{path}[{index}].{field}")
        if not fields.get("uid"):
            findings.note(f"{path}[{index}].uid", None, "is required")
    for index, uid in duplicates(fields.get("uid") or index for index, fields in enumerate(entries)):
        findings.error(f"{path}[{index}]", uid, "the uid must be unique")


def build_allocation(fields: AllocationFields | None) -> Allocation | None:
    """The allocation in the allocator's form; None where the claim has none."""
    if fields is None:
        return None
    devices = fields.get("devices") or {}
    return Allocation(
        results=tuple(_result(entry) for entry in devices.get("results") or ()),
        config=tuple(_config(entry) for entry in devices.get("config") or ()),
        node_selector=build_node_selector(fields.get("nodeSelector")),
        allocation_timestamp=fields.get("allocationTimestamp") or "",
    )


def _result(fields: ResultFields) -> DeviceResult:
    return DeviceResult(
        request=fields.get("request") or "",
        driver=fields.get("driver") or "",
        pool=fields.get("pool") or "",
        device=fields.get("device") or "",
        admin_access=bool(fields.get("adminAccess")),
        tolerations=tuple(build_toleration(toleration) for toleration in fields.get("tolerations") or ()),
        binding_conditions=tuple(fields.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(fields.get("bindingFailureConditions") or ()),
        share_id=fields.get("shareID") or "",
        consumed_capacity=fields.get("consumedCapacity") or {},
        skip_node_operations=tuple(fields.get("skipNodeOperations") or ()),
    )


def _config(fields: ResultConfigFields) -> ResultConfig:
    requests = tuple(fields.get("requests") or ())
    return ResultConfig(fields.get("source") or "", requests, build_opaque(fields.get("opaque")))


def build_consumers(entries: Sequence[ConsumerFields] | None) -> tuple[Consumer, ...]:
    """For whom the claim is reserved, in order."""
    return tuple(_consumer(fields) for fields in entries or ())


def _consumer(fields: ConsumerFields) -> Consumer:
    resource, name = fields.get("resource") or "", fields.get("name") or ""
    return Consumer(fields.get("apiGroup") or "", resource, name, fields.get("uid") or "")


# JSON values as keys: equal if they have the same text, which also distinguishes 1, true and 1.0.


T = TypeVar("T")


class ByText(Generic[T]):
    """A value as a key. Raises RecursionError if it is nested too deeply, ValueError for a number with too many digits.

    text: the quickest that there is.
    """

    __slots__ = ("text", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.text = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByText) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def allocation_to_v1(allocation: Allocation) -> Json:
    """`status.allocation` of a claim in resource.k8s.io/v1; what is absent or empty is left out, except `devices`."""
    devices = _present(
        results=[_result_to_v1(result) for result in allocation.results],
        config=[_config_to_v1(entry) for entry in allocation.config],
    )
    selector = allocation.node_selector
    rest = _present(
        nodeSelector=None if selector is None else _node_selector(selector),
        allocationTimestamp=allocation.allocation_timestamp,
    )
    return {"devices": devices, **rest}


def _present(**fields: object) -> Json:
    """The fields that hold something: Go leaves out empty text, lists and objects, and false where it means absent."""
    return {name: value for name, value in fields.items() if value}


def _result_to_v1(result: DeviceResult) -> Json:
    identity: Json = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    return identity | _present(
        adminAccess=result.admin_access,
        tolerations=[_toleration(toleration) for toleration in result.tolerations],
        bindingConditions=list(result.binding_conditions),
        bindingFailureConditions=list(result.binding_failure_conditions),
        shareID=result.share_id,
        consumedCapacity={name: quantity.text for name, quantity in result.consumed_capacity.items()},
        skipNodeOperations=list(result.skip_node_operations),
    )


def _toleration(toleration: Toleration) -> Json:
    """As it was written; a tolerationSeconds of 0 is something else than none."""
    return {name: value for name, value in toleration.raw.items() if value not in ("", None)}


def _config_to_v1(entry: ResultConfig) -> Json:
    return {"source": entry.source} | _present(requests=list(entry.requests), opaque=dict(entry.opaque))


def _node_selector(selector: NodeSelector) -> Json:
    return {"nodeSelectorTerms": [_term(term) for term in selector]}


def _term(term: Term) -> Json:
    expressions = [_requirement(requirement) for requirement in term.expressions]
    return _present(matchExpressions=expressions, matchFields=[_requirement(field) for field in term.fields])


def _requirement(requirement: Requirement) -> Json:
    values = _present(values=list(requirement.values))
    return {"key": requirement.key, "operator": requirement.operator, **values}
