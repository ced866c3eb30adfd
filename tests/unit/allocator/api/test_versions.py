"""Which version serves which kind."""

from collections.abc import Callable

import pytest

from allocator.api import decode, is_decoded
from allocator.api.versions import versions_of
from tests.unit.allocator.api.raw_objects import Raw, a_claim, a_class, a_rule, a_slice, a_template

SERVED = [
    (build, version)
    for build in (a_slice, a_class, a_claim, a_template)
    for version in ("v1", "v1beta2", "v1beta1", "v1alpha3")
] + [(a_rule, version) for version in ("v1", "v1beta2", "v1alpha3")]

REPLACED = {
    "v1alpha1": ["PodScheduling", "ResourceClaim", "ResourceClaimTemplate", "ResourceClass"],
    "v1alpha2": [
        "PodSchedulingContext",
        "ResourceClaim",
        "ResourceClaimParameters",
        "ResourceClaimTemplate",
        "ResourceClass",
        "ResourceClassParameters",
        "ResourceSlice",
    ],
    "v1alpha3": ["PodSchedulingContext"],
}


@pytest.mark.parametrize(("build", "version"), SERVED)
def test_served_version_is_decoded(build: Callable[..., Raw], version: str) -> None:
    decoded = decode(build(version=version))
    assert decoded.errors == ()
    assert decoded.warnings == ()
    assert decoded.raw["apiVersion"] == "resource.k8s.io/v1"


@pytest.mark.parametrize(("version", "kind"), [(v, kind) for v, kinds in REPLACED.items() for kind in kinds])
def test_version_that_is_gone_is_refused_with_what_replaced_the_kind(version: str, kind: str) -> None:
    (error,) = decode({"apiVersion": f"resource.k8s.io/{version}", "kind": kind}).errors
    assert error.path == "apiVersion"
    assert f"{version} is no longer served; it was replaced by " in error.message


def test_replacement_is_named() -> None:
    (error,) = decode({"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClass"}).errors
    assert error.message.endswith("it was replaced by a DeviceClass (resource.k8s.io/v1) with selectors")


@pytest.mark.parametrize(("version", "kind"), [("v1beta1", "DeviceTaintRule"), ("v1alpha2", "DeviceClass")])
def test_kind_under_a_version_that_never_served_it_is_refused_by_name(version: str, kind: str) -> None:
    (error,) = decode({"apiVersion": f"resource.k8s.io/{version}", "kind": kind}).errors
    assert error.path == "apiVersion"
    assert error.message.startswith(f"{version} never served {kind}; it is served by v1, v1beta2")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({}, "apiVersion"),
        ({"apiVersion": 1, "kind": "ResourceSlice"}, "apiVersion"),
        ({"apiVersion": "v1", "kind": "ResourceSlice"}, "apiVersion"),
        ({"apiVersion": "resource.k8s.io/v2", "kind": "ResourceSlice"}, "apiVersion"),
        ({"apiVersion": "resource.k8s.io", "kind": "ResourceSlice"}, "apiVersion"),
        ({"apiVersion": "resource.k8s.io/v1"}, "kind"),
        ({"apiVersion": "resource.k8s.io/v1", "kind": []}, "kind"),
        ({"apiVersion": "resource.k8s.io/v1", "kind": "Gadget"}, "kind"),
    ],
)
def test_object_without_a_known_version_and_kind_is_refused(raw: dict[str, object], path: str) -> None:
    decoded = decode(raw)
    assert decoded.object is None
    assert [error.path for error in decoded.errors] == [path]


def test_huge_version_or_kind_never_reaches_the_message() -> None:
    huge = "x" * 1_000_000
    for raw in (
        {"apiVersion": huge, "kind": "ResourceSlice"},
        {"apiVersion": f"resource.k8s.io/{huge}", "kind": "ResourceSlice"},
        {"apiVersion": "resource.k8s.io/v1", "kind": huge},
    ):
        assert all(len(str(error)) < 400 for error in decode(raw).errors)


def test_only_kinds_that_an_allocation_depends_on_are_decoded() -> None:
    assert is_decoded("resource.k8s.io/v1", "ResourceSlice")
    assert is_decoded("resource.k8s.io/v1alpha2", "ResourceClass")
    assert not is_decoded("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest")
    assert not is_decoded("apps/v1", "Deployment")
    assert not is_decoded(None, None)


@pytest.mark.parametrize(
    ("kind", "release", "versions"),
    [
        ("ResourceClaim", "1.34", ["v1", "v1beta2", "v1beta1"]),
        ("ResourceClaim", "1.37", ["v1", "v1beta2", "v1beta1"]),
        ("ResourceClaim", "1.38", ["v1", "v1beta2"]),
        ("ResourceSlice", "1.32", ["v1beta1", "v1alpha3"]),
        ("DeviceTaintRule", "1.35", ["v1alpha3"]),
        ("DeviceTaintRule", "1.36", ["v1beta2", "v1alpha3"]),
        ("DeviceTaintRule", "1.37", ["v1", "v1beta2", "v1alpha3"]),
        ("DeviceTaintRule", "1.32", []),
    ],
)
def test_a_release_serves_a_kind_in_some_versions(kind: str, release: str, versions: list[str]) -> None:
    assert versions_of(kind, release) == versions
