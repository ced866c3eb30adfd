"""Which kinds of resource.k8s.io which version serves in which release, and what replaced the ones that are gone.

Source: k8s.io/api resource/*, the lifecycle markers of each type.
"""

from collections.abc import Mapping
from typing import NamedTuple

from allocator.api.findings import FieldError

GROUP = "resource.k8s.io"

_CORE = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_RULE = "DeviceTaintRule"


class Span(NamedTuple):
    """The minor releases of Kubernetes 1 from `introduced` on, and before `removed`, which is None for a stable API."""

    introduced: int
    removed: int | None = None


SERVED: Mapping[str, Mapping[str, Span]] = {
    "v1": {**dict.fromkeys(_CORE, Span(34)), _RULE: Span(37)},
    "v1beta2": {**dict.fromkeys(_CORE, Span(33, 39)), _RULE: Span(36, 42)},
    "v1beta1": dict.fromkeys(_CORE, Span(32, 38)),
    "v1alpha3": {**dict.fromkeys(_CORE, Span(31, 33)), _RULE: Span(33, 39)},
}
"""Version -> the kinds that an allocation depends on, with the releases whose API server can serve them."""

IGNORED_KINDS = frozenset({"ResourcePoolStatusRequest"})
"""Kinds of the group that no allocation depends on."""

_REPLACED = {
    "ResourceClass": "a DeviceClass (resource.k8s.io/v1) with selectors",
    "ResourceClaim": "a ResourceClaim (resource.k8s.io/v1) with spec.devices.requests",
    "ResourceClaimTemplate": "a ResourceClaimTemplate (resource.k8s.io/v1) with spec.spec.devices.requests",
    "ResourceSlice": "a ResourceSlice (resource.k8s.io/v1) with spec.pool and spec.devices",
    "ResourceClaimParameters": "the selectors and config of a ResourceClaim (resource.k8s.io/v1)",
    "ResourceClassParameters": "the selectors and config of a DeviceClass (resource.k8s.io/v1)",
    "PodScheduling": "nothing: the scheduler allocates by itself",
    "PodSchedulingContext": "nothing: the scheduler allocates by itself",
}
_GONE = {
    "v1alpha1": frozenset({"PodScheduling", "ResourceClaim", "ResourceClaimTemplate", "ResourceClass"}),
    "v1alpha2": frozenset(_REPLACED) - {"PodScheduling"},
    "v1alpha3": frozenset({"PodSchedulingContext"}),
}


def is_decoded(api_version: object, kind: object) -> bool:
    """Whether `decode` has to see the object: it is of the group, and not of a kind that no allocation depends on."""
    return isinstance(api_version, str) and api_version.split("/")[0] == GROUP and kind not in IGNORED_KINDS


def versions_of(kind: str, release: str) -> list[str]:
    """The versions in which that release, such as 1.36, can serve the kind, the newest first."""
    minor = int(release.partition(".")[2])
    spans = {version: kinds[kind] for version, kinds in SERVED.items() if kind in kinds}
    return [one for one, (first, end) in spans.items() if first <= minor and (end is None or minor < end)]


def refusal(raw: Mapping[str, object]) -> FieldError | None:
    """Why the object's version and kind cannot be decoded; None where they can."""
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(api_version, str) or not api_version:
        return FieldError("apiVersion", api_version, "must be a string such as resource.k8s.io/v1")
    if not isinstance(kind, str) or not kind:
        return FieldError("kind", kind, "must be a string such as ResourceClaim")
    group, _, version = api_version.partition("/")
    if group != GROUP:
        return FieldError("apiVersion", api_version, f"must be a version of {GROUP}")
    return None if kind in SERVED.get(version, ()) else _unserved(version, kind)


def _unserved(version: str, kind: str) -> FieldError:
    if kind in _GONE.get(version, ()):
        return FieldError("kind", kind, f"{version} is no longer served; it was replaced by {_REPLACED[kind]}")
    versions = ", ".join(known for known, kinds in SERVED.items() if kind in kinds)
    if versions and (version in SERVED or version in _GONE):
        return FieldError(
            "apiVersion", f"{GROUP}/{version}", f"{version} never served {kind}; it is served by {versions}"
        )
    if versions:
        return FieldError("apiVersion", f"{GROUP}/{version}", f"is not a known version; {kind} is served by {versions}")
    kinds = ", ".join(sorted(SERVED["v1"]))
    return FieldError("kind", kind, f"is no kind of {GROUP} that an allocation depends on: these are {kinds}")
