"""An object has a field that its version does not have: it is misspelt, misplaced, or of another version."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from allocator import gates
from allocator.model import Device, Slice
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests, alternatives_of
from scheduler.input.documents import FindingReason


class _FieldOfGate(NamedTuple):
    """A field of slices that came with a gate: a release without the gate does not have the field."""

    gate: str
    field: str
    is_in: Callable[[Slice], object]


def has_list(device: Device) -> bool:
    """Whether an attribute of the device is a list."""
    return any(isinstance(value, tuple) for _, value in device.attributes.values())


def has_groups(slice_: Slice) -> bool:
    """Whether a device of the slice names compatibility groups."""
    return any(consumed.compatibility_groups for device in slice_.devices for consumed in device.consumes_counters)


_OF_SLICES = (
    _FieldOfGate(
        gates.LIST_TYPE_ATTRIBUTES,
        "spec.devices[*].attributes[*] with bools, ints, strings or versions",
        lambda one: any(map(has_list, one.devices)),
    ),
    _FieldOfGate(
        gates.NODE_ALLOCATABLE_RESOURCES,
        "spec.devices[*].nodeAllocatableResources",
        lambda one: any(device.node_allocatable for device in one.devices),
    ),
    _FieldOfGate(gates.COMPATIBILITY_GROUPS, "spec.devices[*].consumesCounters[*].compatibilityGroups", has_groups),
    _FieldOfGate(gates.OPTIONAL_NODE_OPERATIONS, "spec.skipNodeOperations", lambda one: one.skip_node_operations),
)


def _check(manifests: Manifests) -> Iterator[Observation]:
    yield from manifests.reported(FindingReason.UNKNOWN_FIELD)
    release = manifests.features.release
    for subject, field, gate in (*_of_slices(manifests), *_of_requests(manifests)):
        message = f"unknown field in Kubernetes {release.name}: it came with {gate} in {release.later_with(gate)}"
        yield Observation(subject, f"{field}: {message}", field)


def _of_slices(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    """Slices with fields that the release does not have, the field, and its gate."""
    newer = [one for one in _OF_SLICES if one.gate not in manifests.features.release.gates]
    for slice_ in manifests.inventory.slices if newer else ():
        yield from (
            (ObjectName("ResourceSlice", slice_.name), one.field, one.gate) for one in newer if one.is_in(slice_)
        )


def _of_requests(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    """The same of what claims and templates ask for."""
    if gates.DERIVED_ATTRIBUTES in manifests.features.release.gates:
        return
    for asked in manifests.asked:
        for at, alternative in alternatives_of(asked):
            if alternative.derived_attributes:
                yield asked.subject, f"{at}.derivedAttributes", gates.DERIVED_ATTRIBUTES


UNKNOWN_FIELD = Check(
    "unknown-field",
    FindingLevel.ERROR,
    "An object has an unknown field: `kubectl apply` refuses it; without validation, the API server drops the field.",
    "Correct the field that the message names, or move it to where it belongs.",
    _check,
)
