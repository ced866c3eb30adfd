"""The set of features in force: a release's defaults, single gates on top, and whether to be strict.

Snapshots have it, and every outcome names it. `Release` has what differs between releases besides gates. `strict`
turns off the deviations of docs/differences.md: the answer is then kube-scheduler's even where ours would be better.
A new release is a column of `_STAGES` and a `Release` with every switch, from which the one before it is derived.
Source: pkg/features/kube_features.go of Kubernetes 1.36.3, 1.37.2 and 1.38.0-beta.0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import cel
from allocator.words import did_you_mean

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

STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"
VOLUME_LIMIT_SCALING: Final = "VolumeLimitScaling"


class GateStage(NamedTuple):
    """Where a gate stands in a release. level: alpha, beta or GA; is_on: its default, which `is_locked` makes final."""

    level: str
    is_on: bool
    is_locked: bool = False


_ALPHA, _OFF, _BETA = GateStage("alpha", is_on=False), GateStage("beta", is_on=False), GateStage("beta", is_on=True)
_GA, _LOCKED = GateStage("GA", is_on=True), GateStage("GA", is_on=True, is_locked=True)

_RELEASE_NAMES: Final = ("1.34", "1.35", "1.36", "1.37", "1.38")
_STAGES: Final[Mapping[str, tuple[GateStage | None, ...]]] = {
    ADMIN_ACCESS: (_BETA, _BETA, _LOCKED, _LOCKED, _LOCKED),
    PRIORITIZED_LIST: (_BETA, _BETA, _GA, _LOCKED, _LOCKED),
    CLAIM_DEVICE_STATUS: (_BETA, _BETA, _BETA, _LOCKED, _LOCKED),
    DEVICE_TAINTS: (_ALPHA, _ALPHA, _BETA, _GA, _LOCKED),
    DEVICE_TAINT_RULES: (None, _ALPHA, _OFF, _GA, _LOCKED),
    PARTITIONABLE_DEVICES: (_ALPHA, _ALPHA, _BETA, _BETA, _LOCKED),
    CONSUMABLE_CAPACITY: (_ALPHA, _ALPHA, _BETA, _BETA, _GA),
    BINDING_CONDITIONS: (_ALPHA, _ALPHA, _BETA, _BETA, _LOCKED),
    EXTENDED_RESOURCE: (_ALPHA, _ALPHA, _BETA, _LOCKED, _LOCKED),
    LIST_TYPE_ATTRIBUTES: (None, None, _ALPHA, _ALPHA, _ALPHA),
    NODE_ALLOCATABLE_RESOURCES: (None, None, _ALPHA, _ALPHA, _ALPHA),
    FRACTIONAL_CAPACITY_RANGE: (None, None, None, _BETA, _GA),
    DERIVED_ATTRIBUTES: (None, None, None, _ALPHA, _ALPHA),
    COMPATIBILITY_GROUPS: (None, None, None, _ALPHA, _ALPHA),
    OPTIONAL_NODE_OPERATIONS: (None, None, None, _ALPHA, _ALPHA),
    STORAGE_CAPACITY_SCORING: (_ALPHA, _ALPHA, _ALPHA, _BETA, _BETA),
    VOLUME_LIMIT_SCALING: (None, _ALPHA, _ALPHA, _BETA, _BETA),
}
"""The gates that change an answer, release by release; None: it does not have the gate."""

OF_NEWEST_ALLOCATOR: Final = frozenset(
    {LIST_TYPE_ATTRIBUTES, DERIVED_ATTRIBUTES, COMPATIBILITY_GROUPS, OPTIONAL_NODE_OPERATIONS}
)
"""The gates of which one makes kube-scheduler choose the newest of its three allocators."""

_OF_SECOND_ALLOCATOR: Final = frozenset({BINDING_CONDITIONS, CONSUMABLE_CAPACITY, FRACTIONAL_CAPACITY_RANGE})

_SPLIT_FROM: Final[Mapping[str, str]] = MappingProxyType({DEVICE_TAINT_RULES: DEVICE_TAINTS})
"""Gates that governed a part of what another one did alone before: in releases that do not have them, it still does."""

_NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {BINDING_CONDITIONS: CLAIM_DEVICE_STATUS, DEVICE_TAINT_RULES: DEVICE_TAINTS}
)


class UnknownGate(ValueError):
    """A gate that the release does not have, that it has locked, or that needs another one that is off."""


@dataclass(frozen=True, slots=True)
class Release:
    """One minor release of Kubernetes: its gates, and what it answers in another way than others do."""

    name: str
    """Its major and minor number, such as "1.37"."""

    gates: Mapping[str, GateStage]
    """Those that it has; a release ignores the fields of gates that it does not have."""

    beyond_simplest: frozenset[str]
    """Gates of which one makes kube-scheduler choose an allocator other than its oldest."""

    simplest_knows_capacity: bool
    """Its oldest allocator knows distinctAttribute and requests for capacity."""

    knowing_node_operations: frozenset[str]
    """Its allocators that know skipNodeOperations."""

    environment: cel.Environment
    """Selectors are compiled in it while DRAListTypeAttributes is off."""

    list_environment: cel.Environment
    """Selectors are compiled in it while DRAListTypeAttributes is on."""

    new_environment: cel.Environment
    """The API server compiles those of new objects in it while DRAListTypeAttributes is off."""

    clears_covering_config: bool
    """A configuration that names every request is written with no names."""

    repeats_claim_config: bool
    """A claim's configuration is written once for each request that it names."""

    counter_slices_reach_all: bool
    """A slice with counter sets belongs to every node's pools."""

    capacity_errors_skip: bool
    """A request that a capacity's arithmetic cannot hold refuses the device, not the claim."""

    full_devices_leave_all: bool
    """`All` leaves out devices whose capacity is used."""

    empty_shares_charge: bool
    """A share is charged to its device's counters again where the shares before it name no capacity."""

    combined_slices: bool
    """A slice with counter sets offers its devices too; later it is a slice of counters only."""

    keeps_combined_slices: bool
    """Slices with both may be there, stored before they were refused."""

    unused_mappings_refuse: bool
    """A pod is refused if none of its containers uses a claim that stands for resources of the node.

    Later such a claim counts for the pod.
    """

    sums_node_resources: bool
    """A pod's status has the sum of what a claim's devices are and need of the node; later it has both."""

    negative_requests_end: bool
    """A request for less than nothing of a capacity ends the attempt, before a policy rounds it up."""

    defaults_are_valid: bool
    """A policy's default is always a valid share; before, one that only a big decimal holds was not."""

    misprints_amounts: bool
    """An amount of 1e21 or more, given in digits, is written as another one."""

    shares_hold_devices: bool
    """A share without amounts holds a device that is no longer shared."""

    broken_pools_end: bool
    """`All` beside a pool that is being updated or invalid ends the attempt on all nodes; later it refuses the node."""

    asks_as_written: bool
    """A request has to spell a capacity as the device does; later a missing domain is the driver's."""

    compares_as_written: bool
    """Constraints compare versions by their text, and skip what they cannot compare.

    Later build metadata does not count, and trying a device with such a value ends the attempt.
    """

    finds_short_names: bool
    """A constraint without domain finds an attribute that is published without one."""

    counts_image_volumes: bool
    """ImageLocality's threshold grows with image volumes."""

    names_node_first: bool
    """NodeName is asked before NodeUnschedulable."""

    empty_selector_spreads: bool
    """PodTopologySpread counts all pods of the namespace for a selector of everything."""

    scores_whole_pods: bool
    """NodeResourcesFit scores a pod by what it requests as a whole."""

    exact_volume_sizes: bool
    """VolumeBinding compares sizes as they are, not rounded up to a byte."""

    empty_effect_tolerates_eviction: bool
    """A request's toleration without effect keeps the pod on a device with a NoExecute taint."""

    steps_are_positive: bool
    """The range of a request policy has no step of zero and below, and no amount below zero or beyond 2**63-1."""

    evicts_for_extended_resources: bool
    """A NoExecute taint of a device that a pod has by an extended resource ends the pod."""

    reports_victims: bool
    """A pod that preempts is told where and how many.

    Before, each pod that fits nowhere is told whether a claim of its own was deallocated.
    """

    empty_budgets_select: bool
    """An empty selector of a PodDisruptionBudget selects all pods, and every selector also pods without labels."""

    extenders_add_victims: bool
    """kube-scheduler asks an extender also about nodes where nobody has to go for what it looks at itself."""

    knows_node_resources: bool
    """Of its node a device is, and needs, only CPU, memory and huge pages; before, whatever is no extended resource."""

    knows_whole_gangs_alone: bool
    """A group is evicted whole only where it is placed whole."""

    bounds_amounts_and_names: bool
    """The API server bounds amounts and names of capacities, numbers in versions, and a device's node selector."""

    def governing(self, gate: str) -> str:
        """The gate on which what `gate` is for depends in this release."""
        return gate if gate in self.gates else _SPLIT_FROM.get(gate, gate)

    def later_with(self, gate: str) -> str:
        """The first release after this one that has the gate; empty if none has."""
        return next((name for name, one in RELEASES.items() if name > self.name and gate in one.gates), "")


def _gates_of(name: str) -> Mapping[str, GateStage]:
    column = _RELEASE_NAMES.index(name)
    stages = {gate: row[column] for gate, row in _STAGES.items()}
    return MappingProxyType({gate: stage for gate, stage in stages.items() if stage is not None})


# What differs between releases is a switch of the newest one, turned back in those before it.
V1_38: Final = Release(
    "1.38",
    _gates_of("1.38"),
    beyond_simplest=OF_NEWEST_ALLOCATOR,
    simplest_knows_capacity=True,
    knowing_node_operations=frozenset({"incubating", "experimental"}),
    environment=cel.V1_38,
    list_environment=cel.V1_38,
    new_environment=cel.V1_38_NEW,
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
    negative_requests_end=True,
    defaults_are_valid=True,
    misprints_amounts=False,
    shares_hold_devices=True,
    broken_pools_end=False,
    asks_as_written=False,
    compares_as_written=False,
    finds_short_names=False,
    counts_image_volumes=True,
    names_node_first=True,
    empty_selector_spreads=True,
    scores_whole_pods=True,
    exact_volume_sizes=True,
    empty_effect_tolerates_eviction=True,
    steps_are_positive=True,
    evicts_for_extended_resources=True,
    reports_victims=True,
    empty_budgets_select=True,
    extenders_add_victims=True,
    knows_node_resources=True,
    knows_whole_gangs_alone=True,
    bounds_amounts_and_names=True,
)
V1_37: Final = replace(
    V1_38,
    name="1.37",
    gates=_gates_of("1.37"),
    beyond_simplest=OF_NEWEST_ALLOCATOR | _OF_SECOND_ALLOCATOR,
    simplest_knows_capacity=False,
    knowing_node_operations=frozenset({"experimental"}),
    environment=cel.V1_37,
    list_environment=cel.V1_37,
    new_environment=cel.V1_37_NEW,
    negative_requests_end=False,
    defaults_are_valid=False,
    misprints_amounts=True,
    shares_hold_devices=False,
    broken_pools_end=True,
    asks_as_written=True,
    compares_as_written=True,
    finds_short_names=True,
    empty_selector_spreads=False,
    scores_whole_pods=False,
    exact_volume_sizes=False,
    empty_effect_tolerates_eviction=False,
    empty_budgets_select=False,
    extenders_add_victims=False,
    knows_whole_gangs_alone=False,
    bounds_amounts_and_names=False,
)
V1_36: Final = replace(
    V1_37,
    name="1.36",
    gates=_gates_of("1.36"),
    knowing_node_operations=frozenset(),
    environment=cel.V1_36,
    list_environment=cel.V1_36_LISTS,
    new_environment=cel.V1_36_NEW,
    clears_covering_config=False,
    repeats_claim_config=True,
    counter_slices_reach_all=True,
    capacity_errors_skip=True,
    full_devices_leave_all=True,
    empty_shares_charge=True,
    unused_mappings_refuse=True,
    sums_node_resources=True,
    counts_image_volumes=False,
    names_node_first=False,
    steps_are_positive=False,
    knows_node_resources=False,
    evicts_for_extended_resources=False,
    reports_victims=False,
)
# The environments of 1.34 and 1.35 were not compared with the reference; 1.36's is the nearest that was.
_V1_35: Final = replace(V1_36, name="1.35", gates=_gates_of("1.35"), keeps_combined_slices=True)
_V1_34: Final = replace(_V1_35, name="1.34", gates=_gates_of("1.34"), combined_slices=True)
RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {release.name: release for release in (_V1_34, _V1_35, V1_36, V1_37, V1_38)}
)
"""By name, as `--kubernetes` takes it; the last one is a beta."""

DEFAULT_RELEASE: Final = "1.37"
"""The default of `--kubernetes`."""


@dataclass(frozen=True, slots=True)
class Features:
    """What is in force."""

    release: Release
    gates: frozenset[str]
    """The names of those that are on."""

    is_strict: bool = False
    """Without the deviations of docs/differences.md."""

    knows_capacity: bool = True
    """distinctAttribute and requests for capacity are known.

    Where no newer feature is on, kube-scheduler chooses an allocator that refuses the one and does not look at the
    other.
    """

    knows_node_operations: bool = True
    """skipNodeOperations is known; where none of the newest features is on, an allocator that ignores it is chosen."""

    @staticmethod
    def of(release: str, overrides: Mapping[str, bool] | None = None, *, is_strict: bool = False) -> "Features":
        """The release's defaults with single gates on top. Raises UnknownGate, KeyError for an unknown release."""
        defaults = RELEASES[release]
        for gate, is_on in (overrides or {}).items():
            _check_override(defaults, gate, is_on=is_on)
        gates = {**{gate: stage.is_on for gate, stage in defaults.gates.items()}, **(overrides or {})}
        for gate, needed in _NEEDS.items():
            if gates.get(gate) and not gates.get(needed):
                raise UnknownGate(f"{gate} needs {needed}, which is off")
        return Features.with_gates(defaults, (gate for gate, is_on in gates.items() if is_on), is_strict=is_strict)

    @staticmethod
    def with_gates(release: Release, gates: Iterable[str], *, is_strict: bool = False) -> "Features":
        """What these gates of the release turn on, whatever it has locked."""
        on = frozenset(gates)
        knows_operations = release.knowing_node_operations and on & OF_NEWEST_ALLOCATOR
        return Features(
            release,
            on,
            is_strict,
            knows_capacity=release.simplest_knows_capacity or bool(on & release.beyond_simplest),
            knows_node_operations=bool(knows_operations),
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


def _check_override(release: Release, gate: str, *, is_on: bool) -> None:
    """Raises UnknownGate where the release does not have the gate, or has it locked to the other value."""
    stage = release.gates.get(gate)
    if stage is None:
        known = ", ".join(sorted(release.gates))
        meant = did_you_mean(gate, release.gates)
        raise UnknownGate(
            f"Kubernetes {release.name} has no gate {gate!r} that changes an answer; it has {known}{meant}"
        )
    if stage.is_locked and is_on is not stage.is_on:
        locked = str(stage.is_on).lower()
        raise UnknownGate(f"Kubernetes {release.name} has locked {gate} to {locked}: it cannot be {str(is_on).lower()}")
