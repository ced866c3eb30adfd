"""The set of features in force: a release's defaults, single gates on top, and whether to be strict.

Snapshots have it, and every outcome names it. `Release` has what differs between releases besides gates. `strict`
turns off the deviations of docs/differences.md: the answer is then kube-scheduler's even where ours would be better.
Source: pkg/features/kube_features.go of Kubernetes 1.36, the KEPs of the gates for 1.37.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import cel
from allocator.did_you_mean import did_you_mean

ADMIN_ACCESS: Final = "DRAAdminAccess"
PRIORITIZED_LIST: Final = "DRAPrioritizedList"
CLAIM_DEVICE_STATUS: Final = "DRAResourceClaimDeviceStatus"
DEVICE_TAINTS: Final = "DRADeviceTaints"
DEVICE_TAINT_RULES: Final = "DRADeviceTaintRules"
PARTITIONABLE_DEVICES: Final = "DRAPartitionableDevices"
CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
BINDING_CONDITIONS: Final = "DRADeviceBindingConditions"
EXTENDED_RESOURCE: Final = "DRAExtendedResource"
LIST_TYPE_ATTRIBUTES: Final = "DRAListTypeAttributes"
NODE_ALLOCATABLE_RESOURCES: Final = "DRANodeAllocatableResources"
FRACTIONAL_CAPACITY_RANGE: Final = "DRAFractionalCapacityRange"
DERIVED_ATTRIBUTES: Final = "DRADerivedAttributes"
COMPATIBILITY_GROUPS: Final = "DRADeviceCompatibilityGroups"
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"

OF_SIMPLEST_ALLOCATOR: Final = frozenset(
    {ADMIN_ACCESS, PRIORITIZED_LIST, PARTITIONABLE_DEVICES, DEVICE_TAINTS, DEVICE_TAINT_RULES}
    | {CLAIM_DEVICE_STATUS, EXTENDED_RESOURCE, NODE_ALLOCATABLE_RESOURCES}
)
"""The gates with which kube-scheduler still chooses the oldest of its three allocators."""

OF_NEWEST_ALLOCATOR: Final = frozenset(
    {LIST_TYPE_ATTRIBUTES, DERIVED_ATTRIBUTES, COMPATIBILITY_GROUPS, OPTIONAL_NODE_OPERATIONS}
)
"""The gates of which one makes it choose the newest."""

_SPLIT_FROM: Final[Mapping[str, str]] = MappingProxyType({DEVICE_TAINT_RULES: DEVICE_TAINTS})
"""Gates that governed a part of what another one did alone before: in releases that do not have them, it still does."""

_NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {BINDING_CONDITIONS: CLAIM_DEVICE_STATUS, DEVICE_TAINT_RULES: DEVICE_TAINTS}
)


class UnknownGate(ValueError):
    """A gate that the release does not have, or that needs another one that is off."""


@dataclass(frozen=True, slots=True)
class Release:
    """One minor release of Kubernetes.

    gates: those that it has, with their defaults; a release ignores the fields of gates that it does not have.
    environment, list_environment: in which selectors are compiled, with DRAListTypeAttributes off and on.
    clears_covering_config: a configuration that names every request is written with no names. repeats_claim_config: a
    claim's configuration is written once for each request that it names. counter_slices_reach_all: a slice with
    counter sets belongs to every node's pools. capacity_errors_skip: a request that a capacity's arithmetic cannot
    hold refuses the device and not the claim. full_devices_leave_all: `All` leaves out devices whose capacity is used.
    empty_shares_charge: a share is charged to its device's counters again where the shares before it name no capacity.
    combined_slices: a slice with counter sets offers its devices too; later it is a slice of counters only.
    keeps_combined_slices: such slices may be there, of before. unused_mappings_refuse: a pod is refused if none of its
    containers uses a claim that stands for resources of the node; later the claim counts for the pod.
    sums_node_resources: a pod's status has the sum of what a claim's devices are and need of the node; later both.
    reports_victims: a pod that preempts is told where and how many; before, each pod that fits nowhere is told whether
    a claim of its own was deallocated. empty_budgets_select: an empty selector of a PodDisruptionBudget selects all
    pods, and every selector also pods without labels; before, none.
    """

    name: str
    gates: Mapping[str, bool]
    environment: cel.Environment
    list_environment: cel.Environment
    clears_covering_config: bool
    repeats_claim_config: bool
    counter_slices_reach_all: bool
    capacity_errors_skip: bool
    full_devices_leave_all: bool
    empty_shares_charge: bool
    combined_slices: bool
    keeps_combined_slices: bool
    unused_mappings_refuse: bool
    sums_node_resources: bool
    reports_victims: bool = True
    empty_budgets_select: bool = True

    def governing(self, gate: str) -> str:
        """The gate on which what `gate` is for depends in this release."""
        return gate if gate in self.gates else _SPLIT_FROM.get(gate, gate)

    def later_with(self, gate: str) -> str:
        """The first release after this one that has the gate; empty if none has."""
        return next((name for name, one in RELEASES.items() if name > self.name and gate in one.gates), "")


def _before_1_37(name: str, gates: Mapping[str, bool]) -> Release:
    # The environments of 1.34 and 1.35 were not compared with the reference; 1.36's is the nearest that was.
    return Release(
        name,
        MappingProxyType(dict(gates)),
        cel.V1_36,
        cel.V1_36_LISTS,
        clears_covering_config=False,
        repeats_claim_config=True,
        counter_slices_reach_all=True,
        capacity_errors_skip=True,
        full_devices_leave_all=True,
        empty_shares_charge=True,
        combined_slices=name == "1.34",
        keeps_combined_slices=name in ("1.34", "1.35"),
        unused_mappings_refuse=True,
        sums_node_resources=True,
        reports_victims=False,
        empty_budgets_select=False,
    )


_OFF_IN_1_34: Final = (DEVICE_TAINTS, PARTITIONABLE_DEVICES, CONSUMABLE_CAPACITY, BINDING_CONDITIONS, EXTENDED_RESOURCE)
_GATES_1_34: Final = dict.fromkeys((ADMIN_ACCESS, PRIORITIZED_LIST, CLAIM_DEVICE_STATUS), True) | dict.fromkeys(
    _OFF_IN_1_34, False
)
_GATES_1_36: Final = (
    _GATES_1_34
    | dict.fromkeys(_OFF_IN_1_34, True)
    | dict.fromkeys((DEVICE_TAINT_RULES, LIST_TYPE_ATTRIBUTES, NODE_ALLOCATABLE_RESOURCES), False)
)
_GATES_1_37: Final = (
    _GATES_1_36
    | {DEVICE_TAINT_RULES: True, FRACTIONAL_CAPACITY_RANGE: True}
    | dict.fromkeys((DERIVED_ATTRIBUTES, COMPATIBILITY_GROUPS, OPTIONAL_NODE_OPERATIONS), False)
)

V1_37: Final = Release(
    "1.37",
    MappingProxyType(_GATES_1_37),
    cel.V1_37,
    cel.V1_37,
    clears_covering_config=True,
    repeats_claim_config=False,
    counter_slices_reach_all=False,
    capacity_errors_skip=False,
    full_devices_leave_all=False,
    empty_shares_charge=False,
    combined_slices=False,
    keeps_combined_slices=False,
    unused_mappings_refuse=False,
    sums_node_resources=False,
    empty_budgets_select=False,
)
RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {
        "1.34": _before_1_37("1.34", _GATES_1_34),
        "1.35": _before_1_37("1.35", _GATES_1_34 | {DEVICE_TAINT_RULES: False}),
        "1.36": _before_1_37("1.36", _GATES_1_36),
        "1.37": V1_37,
    }
)
"""By name, as `--kubernetes` takes it."""

DEFAULT_RELEASE: Final = "1.36"
"""The default of `--kubernetes`."""


@dataclass(frozen=True, slots=True)
class Features:
    """What is in force. gates: the names of those that are on.

    knows_capacity: distinctAttribute and requests for capacity are known; where no newer feature is on, kube-scheduler
    chooses an allocator that refuses the one and does not look at the other. knows_node_operations: skipNodeOperations
    is known; where none of the newest features is on, it chooses one that does not look at it.
    """

    release: Release
    gates: frozenset[str]
    is_strict: bool = False
    knows_capacity: bool = True
    knows_node_operations: bool = True

    @staticmethod
    def of(release: str, overrides: Mapping[str, bool] | None = None, *, is_strict: bool = False) -> "Features":
        """The release's defaults with single gates on top. Raises UnknownGate, KeyError for an unknown release."""
        defaults = RELEASES[release]
        for gate in overrides or ():
            if gate not in defaults.gates:
                known = ", ".join(sorted(defaults.gates))
                meant = did_you_mean(gate, defaults.gates)
                raise UnknownGate(
                    f"Kubernetes {release} has no gate {gate!r} that changes an allocation; it has {known}{meant}"
                )
        gates = {**defaults.gates, **(overrides or {})}
        for gate, needed in _NEEDS.items():
            if gates.get(gate) and not gates.get(needed):
                raise UnknownGate(f"{gate} needs {needed}, which is off")
        on = frozenset(gate for gate, is_on in gates.items() if is_on)
        return Features(
            defaults,
            on,
            is_strict,
            knows_capacity=bool(on - OF_SIMPLEST_ALLOCATOR),
            knows_node_operations=OPTIONAL_NODE_OPERATIONS in defaults.gates and bool(on & OF_NEWEST_ALLOCATOR),
        )

    def has(self, gate: str) -> bool:
        """True if the gate is on, or the one that governs the same in a release that does not have it."""
        return gate in self.gates or self.release.governing(gate) in self.gates

    @property
    def environment(self) -> cel.Environment:
        """The environment in which selectors are compiled."""
        has_lists = self.has(LIST_TYPE_ATTRIBUTES)
        return self.release.list_environment if has_lists else self.release.environment

    def strictly(self) -> "Features":
        """The same, without deviations."""
        return replace(self, is_strict=True)

    def __str__(self) -> str:
        strict = ", strict" if self.is_strict else ""
        return f"Kubernetes {self.release.name}{strict}: {', '.join(sorted(self.gates)) or 'no gate'}"
