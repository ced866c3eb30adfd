"""What a device takes of a node's ordinary resources: a mapping of the device itself, or overhead.

Source: KEP-5517; k8s.io/api resource/v1 NodeAllocatableResource.
"""

from collections.abc import Container, Mapping

from typing_extensions import TypedDict

from allocator.api.field_types import QuantityField
from allocator.api.findings import Findings, step_text


class MappingFields(TypedDict, total=False):
    """The mapping of a device that models a node's resource."""

    capacityKey: str | None
    capacityMultiplier: QuantityField | None
    deviceMultiplier: QuantityField | None


class OverheadFields(TypedDict, total=False):
    """What a device needs beside itself."""

    perPod: QuantityField | None
    perContainer: QuantityField | None


class NodeAllocatableFields(TypedDict, total=False):
    """An entry of nodeAllocatableResources."""

    mapping: MappingFields | None
    overhead: OverheadFields | None


def check_node_allocatable(
    entries: Mapping[str, NodeAllocatableFields], capacities: Container[str], path: str, findings: Findings
) -> None:
    """The rules of nodeAllocatableResources. capacities: the names of the device's own."""
    for name, fields in entries.items():
        at = f"{path}[{step_text(name)}]"
        if "/" in name and "kubernetes.io/" not in name:
            findings.error(path, name, "must be a node's own resource such as cpu or memory, not an extended one")
        mapping = fields.get("mapping")
        if mapping is not None:
            _check_mapping(mapping, capacities, f"{at}.mapping", findings)
        elif fields.get("overhead") is None and not findings.is_uncertain(at):
            findings.required(at, "must have a mapping or an overhead")


def _check_mapping(fields: MappingFields, capacities: Container[str], path: str, findings: Findings) -> None:
    key, multiplier = fields.get("capacityKey"), fields.get("capacityMultiplier")
    if (key is None) == (fields.get("deviceMultiplier") is None) and not findings.is_uncertain(path):
        findings.error(path, None, "must set exactly one of capacityKey and deviceMultiplier")
    if (key is None) != (multiplier is None):
        findings.error(path, None, "must set capacityKey and capacityMultiplier together")
    if key is not None and key not in capacities:
        findings.error(f"{path}.capacityKey", key, "must be the name of a capacity of the device")
