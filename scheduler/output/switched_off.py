"""What the input publishes and the release does not read, or a gate that is off ignores: kube-scheduler says nothing.

Gates of what claims ask for are not named here: the refusal of the claim names them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from allocator import gates
from allocator.gates import RELEASES, Features
from allocator.model import Device, Slice
from scheduler.checks.lint import has_groups, has_list
from scheduler.input.inventory import Inventory


@dataclass(frozen=True, slots=True)
class _Use:
    """What a gate is for. effect: what becomes of it where the gate is off. number: of the things that have it."""

    gate: str
    effect: str
    thing: str
    number: Callable[[Inventory], int]


def switched_off(inventory: Inventory, features: Features) -> Iterator[str]:
    """A line for each gate that is off though the input holds what it is for. Cost: O(devices)."""
    for use in _USES:
        number = 0 if features.has(use.gate) else use.number(inventory)
        if number:
            things = f"{number} {use.thing}{'' if number == 1 else 's'}"
            yield f"warning: {_why_off(use.gate, features)}: {use.effect} ({things})"
    yield from _counters_only(inventory, features)


def _counters_only(inventory: Inventory, features: Features) -> Iterator[str]:
    """A line on slices with counters and devices together, of which the release reads the counters only."""
    combined = [slice_ for slice_ in inventory.slices if slice_.counter_sets and slice_.devices]
    if combined and not features.release.combined_slices:
        both = ", ".join(name for name, release in RELEASES.items() if release.combined_slices)
        number = sum(len(slice_.devices) for slice_ in combined)
        things = f"{number} device{'' if number == 1 else 's'} of {_slice_count(len(combined))}"
        ignored = f"warning: devices in slices with sharedCounters are ignored ({things})"
        yield f"{ignored}: only Kubernetes {both} reads both, later ones refuse such a slice"


def _slice_count(number: int) -> str:
    return f"{number} slice{'' if number == 1 else 's'}"


def _why_off(gate: str, features: Features) -> str:
    """That the gate is off, and the option that turns it on."""
    release = features.release
    gate = release.governing(gate)
    if gate in release.gates:
        return f"{gate} is off (--feature-gates {gate}=true turns it on)"
    later = release.later_with(gate)
    return f"{gate} is not in Kubernetes {release.name}{f' (it is in that of --kubernetes {later})' if later else ''}"


def _devices(holds: Callable[[Device], object]) -> Callable[[Inventory], int]:
    return lambda inventory: sum(bool(holds(device)) for slice_ in inventory.slices for device in slice_.devices)


def _slices(holds: Callable[[Slice], object]) -> Callable[[Inventory], int]:
    return lambda inventory: sum(bool(holds(slice_)) for slice_ in inventory.slices)


_USES = (
    _Use(gates.DEVICE_TAINT_RULES, "DeviceTaintRules are ignored", "rule", lambda found: len(found.taint_rules)),
    _Use(gates.DEVICE_TAINTS, "taints of devices are ignored", "device", _devices(lambda one: one.taints)),
    _Use(
        gates.PARTITIONABLE_DEVICES,
        "slices with counters or with devices of several nodes are ignored",
        "slice",
        _slices(lambda one: one.counter_sets or one.reach.per_device),
    ),
    _Use(
        gates.PARTITIONABLE_DEVICES,
        "devices that consume counters are not allocated",
        "device",
        _devices(lambda one: one.consumes_counters),
    ),
    _Use(
        gates.BINDING_CONDITIONS,
        "devices with binding conditions are not allocated",
        "device",
        _devices(lambda one: one.binding_conditions),
    ),
    _Use(
        gates.OPTIONAL_NODE_OPERATIONS,
        "devices of slices with skipNodeOperations are not allocated",
        "slice",
        _slices(lambda one: one.skip_node_operations),
    ),
    _Use(gates.COMPATIBILITY_GROUPS, "slices with compatibility groups are ignored", "slice", _slices(has_groups)),
    _Use(
        gates.CONSUMABLE_CAPACITY,
        "devices are not shared",
        "device",
        _devices(lambda one: one.allow_multiple_allocations),
    ),
    _Use(
        gates.LIST_TYPE_ATTRIBUTES,
        "selectors and constraints cannot read lists in attributes",
        "device",
        _devices(has_list),
    ),
    _Use(
        gates.NODE_ALLOCATABLE_RESOURCES,
        "resources that devices take from their node are ignored",
        "device",
        _devices(lambda one: one.node_allocatable),
    ),
)
