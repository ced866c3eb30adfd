"""Profiles of a control plane: which feature gates are set, and which API versions are served besides the default.

Gates are set equally on every component: where one knows an API that another does not serve, its informers never sync.
Source: the feature gates and --runtime-config of Kubernetes 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControlPlaneProfile:
    """Gates by name, and group versions to serve besides those that are served by default."""

    name: str
    gates: Mapping[str, bool] = field(default_factory=dict)
    versions: tuple[str, ...] = ()

    def gate_flags(self) -> list[str]:
        """The flag that every component takes; none where all gates are as they come."""
        gates = ",".join(f"{gate}={str(is_on).lower()}" for gate, is_on in self.gates.items())
        return [f"--feature-gates={gates}"] if gates else []

    def version_flags(self) -> list[str]:
        """The flag that only the API server takes."""
        versions = ",".join(f"{version}=true" for version in self.versions)
        return [f"--runtime-config={versions}"] if versions else []


_OLDER = ("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")

DEFAULT = ControlPlaneProfile("default")
"""As a cluster comes: gates that are beta and on, v1 alone."""

EVERY_VERSION = ControlPlaneProfile("every-version", versions=_OLDER)
"""The gates of a cluster as it comes, and resource.k8s.io in every version."""

GA = ControlPlaneProfile("GA", gates={"AllBeta": False})
"""Only what is generally available."""

ALL = ControlPlaneProfile(
    "all",
    gates=dict.fromkeys(
        (
            "DRADeviceTaintRules",
            "DRAListTypeAttributes",
            "DRANodeAllocatableResources",
            "DRAWorkloadResourceClaims",
            "GenericWorkload",
            "GangScheduling",
        ),
        True,
    ),
    versions=(*_OLDER, "scheduling.k8s.io/v1alpha2"),
)
"""What DRA has in beta that is off, and in alpha."""

PROFILES: Mapping[str, ControlPlaneProfile] = {profile.name: profile for profile in (DEFAULT, EVERY_VERSION, GA, ALL)}
