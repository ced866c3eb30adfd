"""ResourceSlices: the devices or shared counters that a driver publishes for a pool.

Source: k8s.io/api resource/v1 ResourceSlice and its validation.
"""

from collections.abc import Sequence

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.device import (
    CounterFields,
    DeviceFields,
    build_counters,
    build_device,
    build_reach,
    check_counters,
    check_device,
    check_reach,
    has_extras,
)
from allocator.api.driver_config import check_count
from allocator.api.findings import Findings, duplicates
from allocator.api.metadata import MetadataFields, check_metadata
from allocator.api.node_selector import NodeSelectorFields
from allocator.api.schema import Int64
from allocator.model import CounterSet, Slice

DEVICES_MAX = 128
DEVICES_WITH_EXTRAS_MAX = 64
COUNTER_SETS_MAX = 8
NODE_OPERATIONS = ("NodePrepareResources", "NodeUnprepareResources", "*")


class PoolFields(TypedDict, total=False):
    """spec.pool."""

    name: str | None
    generation: Int64 | None
    resourceSliceCount: Int64 | None


class CounterSetFields(TypedDict, total=False):
    """An entry of spec.sharedCounters."""

    name: str | None
    counters: dict[str, CounterFields] | None


class SliceSpecFields(TypedDict, total=False):
    """spec of a ResourceSlice."""

    driver: str | None
    pool: PoolFields | None
    nodeName: str | None
    nodeSelector: NodeSelectorFields | None
    allNodes: bool | None
    devices: list[DeviceFields] | None
    perDeviceNodeSelection: bool | None
    sharedCounters: list[CounterSetFields] | None
    partitionTypeAttribute: str | None
    skipNodeOperations: list[str] | None


class SliceFields(TypedDict, total=False):
    """A ResourceSlice."""

    apiVersion: str
    kind: str
    metadata: MetadataFields | None
    spec: SliceSpecFields | None


def check_slice(fields: SliceFields, findings: Findings) -> None:
    """The rules of a slice."""
    check_metadata(fields.get("metadata") or {}, is_namespaced=False, findings=findings)
    spec = fields.get("spec")
    if spec is None:
        findings.required("spec")
        return
    if problem := names.driver_name(spec.get("driver") or ""):
        findings.error("spec.driver", spec.get("driver"), problem)
    _check_pool(spec.get("pool") or {}, findings)
    _check_slice_reach(spec, findings)
    _check_devices(spec, findings)
    _check_counter_sets(spec.get("sharedCounters") or (), findings)
    _check_operations(spec.get("skipNodeOperations") or (), findings)
    partition_type = spec.get("partitionTypeAttribute")
    if partition_type is not None and (problem := names.fully_qualified_name(partition_type)):
        findings.error("spec.partitionTypeAttribute", partition_type, problem)


def _check_pool(fields: PoolFields, findings: Findings) -> None:
    if problem := names.pool_name(fields.get("name") or ""):
        findings.error("spec.pool.name", fields.get("name"), problem)
    if (fields.get("resourceSliceCount") or 0) < 1:
        findings.error("spec.pool.resourceSliceCount", fields.get("resourceSliceCount"), "must be at least 1")
    if (fields.get("generation") or 0) < 0:
        findings.error("spec.pool.generation", fields.get("generation"), "must be at least 0")


def _check_slice_reach(spec: SliceSpecFields, findings: Findings) -> None:
    flags = {"allNodes": spec.get("allNodes"), "perDeviceNodeSelection": spec.get("perDeviceNodeSelection")}
    selector = spec.get("nodeSelector")
    chosen = check_reach(spec.get("nodeName"), selector, flags, "spec", findings)
    if len(chosen) != 1 and not (findings.is_uncertain("spec") and not chosen):
        every = "nodeName, nodeSelector, allNodes, perDeviceNodeSelection"
        has = f", has {', '.join(chosen)}" if chosen else ""
        findings.error("spec", None, f"must set exactly one of {every}{has}")
    terms = len(selector.get("nodeSelectorTerms") or ()) if selector is not None else 1
    if terms > 1:
        findings.error("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one term")


def _check_devices(spec: SliceSpecFields, findings: Findings) -> None:
    devices = spec.get("devices")
    if devices is None:
        return
    if spec.get("sharedCounters") is not None and not findings.allows_combined:
        findings.error("spec", None, "must not set both devices and sharedCounters: only Kubernetes 1.34 reads both")
    _check_device_count(devices, findings)
    is_per_device = bool(spec.get("perDeviceNodeSelection"))
    for index, device in enumerate(devices):
        check_device(device, f"spec.devices[{index}]", findings, is_per_device=is_per_device)
    for index, name in duplicates(device.get("name") or index for index, device in enumerate(devices)):
        findings.error(f"spec.devices[{index}]", name, "the name must be unique within the slice")


def _check_device_count(devices: Sequence[DeviceFields], findings: Findings) -> None:
    if len(devices) > DEVICES_MAX:
        check_count(len(devices), DEVICES_MAX, "spec.devices", findings)
    elif len(devices) > DEVICES_WITH_EXTRAS_MAX and any(has_extras(device) for device in devices):
        because = "as a device has taints, consumesCounters or list attributes"
        message = f"must not have more than {DEVICES_WITH_EXTRAS_MAX} entries, {because}"
        findings.error("spec.devices", len(devices), message)


def _check_counter_sets(entries: Sequence[CounterSetFields], findings: Findings) -> None:
    check_count(len(entries), COUNTER_SETS_MAX, "spec.sharedCounters", findings)
    for index, fields in enumerate(entries):
        path = f"spec.sharedCounters[{index}]"
        if problem := names.short_name(fields.get("name") or ""):
            findings.error(f"{path}.name", fields.get("name"), problem)
        check_counters(fields.get("counters"), f"{path}.counters", findings)
    for index, name in duplicates(fields.get("name") or index for index, fields in enumerate(entries)):
        findings.error(f"spec.sharedCounters[{index}]", name, "the name must be unique within the slice")


def _check_operations(operations: Sequence[str], findings: Findings) -> None:
    for index, operation in enumerate(operations):
        if operation not in NODE_OPERATIONS:
            message = f"must be one of {', '.join(NODE_OPERATIONS)}"
            findings.error(f"spec.skipNodeOperations[{index}]", operation, message)
    for index, duplicate in duplicates(operations):
        findings.error(f"spec.skipNodeOperations[{index}]", duplicate, "must be unique")
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"}.intersection(operations):
        findings.error("spec.skipNodeOperations", None, "must name NodeUnprepareResources with NodePrepareResources")


def build_slice(fields: SliceFields, findings: Findings) -> Slice:
    """The slice in the allocator's form."""
    spec = fields.get("spec") or {}
    pool = spec.get("pool") or {}
    driver, pool_name = spec.get("driver") or "", pool.get("name") or ""
    selector, all_nodes, per_device = spec.get("nodeSelector"), spec.get("allNodes"), spec.get("perDeviceNodeSelection")
    devices = enumerate(spec.get("devices") or ())
    return Slice(
        name=(fields.get("metadata") or {}).get("name") or "",
        driver=driver,
        pool=pool_name,
        generation=pool.get("generation") or 0,
        slice_count=pool.get("resourceSliceCount") or 0,
        reach=build_reach(spec.get("nodeName"), selector, all_nodes=all_nodes, per_device=per_device),
        devices=tuple(build_device(d, driver, pool_name, f"spec.devices[{index}]", findings) for index, d in devices),
        counter_sets=tuple(_counter_set(entry) for entry in spec.get("sharedCounters") or ()),
        skip_node_operations=tuple(spec.get("skipNodeOperations") or ()),
        unknown_fields=findings.carried_by("spec"),
    )


def _counter_set(fields: CounterSetFields) -> CounterSet:
    return CounterSet(fields.get("name") or "", build_counters(fields.get("counters")))
