"""Profiles of a control plane: which feature gates are set, and which API versions are served besides the default.

Gates are set equally on every component: where one knows an API that another does not serve, its informers never sync.
A gate or version that the release at hand lacks is named nowhere: the components would not start.
Source: the feature gates, --runtime-config and --emulated-version of Kubernetes 1.36 to 1.38.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from allocator.gates import EXTENDED_RESOURCE, RELEASES
from tests.controlplane.binaries import RELEASE as CONTROL_PLANE_RELEASE


@dataclass(frozen=True, slots=True)
class ControlPlaneProfile:
    """Gates by name, and group versions to serve besides those that are served by default.

    emulated: the release that every component behaves as, such as 1.35; empty: its own. lacks: gates that are on in
    the profile with every version, and versions that are served there, but not here. said: gates that our programs
    are told of, because neither the release nor what is served shows them.
    """

    name: str
    gates: Mapping[str, bool] = field(default_factory=dict)
    versions: tuple[str, ...] = ()
    emulated: str = ""
    lacks: frozenset[str] = frozenset()
    said: Mapping[str, bool] = field(default_factory=dict)

    def flags(self) -> list[str]:
        """The flags that every component takes."""
        return [*([f"--emulated-version={self.emulated}"] if self.emulated else []), *self.gate_flags()]

    def gate_flags(self) -> list[str]:
        """The flag that every component takes; none where all gates are as they come."""
        gates = ",".join(f"{gate}={str(is_on).lower()}" for gate, is_on in self.gates.items())
        return [f"--feature-gates={gates}"] if gates else []

    def version_flags(self) -> list[str]:
        """The flag that only the API server takes."""
        versions = ",".join(f"{version}=true" for version in self.versions)
        return [f"--runtime-config={versions}"] if versions else []


RELEASE = os.environ.get(CONTROL_PLANE_RELEASE, "") or "1.36"
"""What the control plane is built of."""

EXTENDER_FLAGS = (
    [] if RELEASES[RELEASE].gates[EXTENDED_RESOURCE].is_locked else [f"--feature-gates={EXTENDED_RESOURCE}=false"]
)
"""With which kube-scheduler is started where the extender allocates."""

_OLDER = (
    *(() if RELEASE >= "1.38" else ("resource.k8s.io/v1beta1",)),
    *("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"),
)

_BETA_IN_1_36 = frozenset(
    {
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
    }
)
"""What is alpha, and off, in 1.34 and 1.35."""

DEFAULT = ControlPlaneProfile("default")
"""As a cluster comes: gates that are beta and on, v1 alone."""

EVERY_VERSION = ControlPlaneProfile("every-version", versions=_OLDER)
"""The gates of a cluster as it comes, and resource.k8s.io in every version."""

_NEW_IN_1_36 = frozenset({"DRAResourceClaimGranularStatusAuthorization"})
_BETA_IN_1_35 = frozenset({"ClearingNominatedNodeNameAfterBinding"})

BETA = frozenset(gate for gate, stage in RELEASES[RELEASE].gates.items() if stage.level == "beta")
"""Gates of devices that are no more than beta in the release at hand."""

GA = ControlPlaneProfile(
    "GA",
    gates={"AllBeta": False},
    lacks=BETA | _NEW_IN_1_36 | _BETA_IN_1_35 | {"SchedulerPopFromBackoffQ", "WatchList", *_OLDER},
)
"""Only what is generally available."""


def gates_of_all(release: str) -> Iterator[str]:
    """The gates of DRA that are off in the release. From 1.37 on gangs are a part of GenericWorkload."""
    if release == "1.36":
        yield from ("DRADeviceTaintRules", "GangScheduling")
    if release > "1.36":
        yield from ("CompositePodGroup", "TopologyAwareWorkloadScheduling")
    yield from ("DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAWorkloadResourceClaims", "GenericWorkload")


_OF_GROUPS: tuple[str, ...] = ("scheduling.k8s.io/v1alpha2",)
if RELEASE >= "1.37":  # controllers watch PodGroups in the one, and CompositePodGroups in the other
    _OF_GROUPS = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3")

ALL = ControlPlaneProfile(
    "all",
    gates=dict.fromkeys(gates_of_all(RELEASE), True),
    versions=(*_OLDER, *_OF_GROUPS),
)
"""What DRA has in beta that is off, and in alpha."""


def _emulating(release: str) -> ControlPlaneProfile:
    return ControlPlaneProfile(release, versions=_OLDER, emulated=release, lacks=_BETA_IN_1_36 | _later_than(release))


def _emulating_with_gates(release: str) -> ControlPlaneProfile:
    gates = dict.fromkeys(sorted(_BETA_IN_1_36), True)
    return ControlPlaneProfile(f"{release}-gates", gates, _OLDER, release, _later_than(release), said=gates)


def _later_than(release: str) -> frozenset[str]:
    """What came, or was turned on, after the release, and is no gate of what devices do."""
    return _NEW_IN_1_36 | _BETA_IN_1_35 if release == "1.34" else _NEW_IN_1_36


OTHERS = (
    _emulating("1.34"),
    _emulating_with_gates("1.34"),
    _emulating("1.35"),
    _emulating_with_gates("1.35"),
    GA,
    ControlPlaneProfile("every-gate", gates={"AllAlpha": True, "AllBeta": True}, versions=("api/all",)),
)
"""What `make versions` runs the integration tests against, in place of the profile with every version."""

PROFILES: Mapping[str, ControlPlaneProfile] = {
    profile.name: profile for profile in (DEFAULT, EVERY_VERSION, ALL, *OTHERS)
}


def chosen() -> ControlPlaneProfile:
    """What integration tests run against where they ask for nothing in particular: CONTROL_PLANE_PROFILE."""
    return PROFILES[os.environ.get("CONTROL_PLANE_PROFILE", EVERY_VERSION.name)]
