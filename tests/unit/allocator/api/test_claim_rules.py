"""The rules of claims, templates, classes and taint rules beyond the limits."""

import json
from typing import Any

import pytest

from allocator.api import ClaimTemplate, Consumer, DeviceTaintSelector, OwnerReference, TaintRule, decode
from allocator.model import Claim, Constraint, DeviceClass, OpaqueConfig, Taint, Toleration
from cel.values.quantity import Quantity
from tests.unit.allocator.api.raw_objects import (
    DRIVER,
    Raw,
    a_claim,
    a_class,
    a_request,
    a_rule,
    a_subrequest,
    a_template,
    error_paths,
    opaque,
)
from tests.unit.cel.frames import FEWEST, with_frames_left

OPAQUE = {"driver": DRIVER, "parameters": {"mode": "fast"}}


def claim_of(raw: Raw) -> Claim:
    decoded = decode(raw)
    assert decoded.errors == ()
    assert isinstance(decoded.object, Claim)
    return decoded.object


def two_requests(**devices: Any) -> Raw:
    return a_claim(a_request("a"), {"name": "b", "firstAvailable": [a_subrequest("c"), a_subrequest("d")]}, **devices)


def test_claim_becomes_the_model() -> None:
    toleration = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}
    request = a_request(
        selectors=[{"cel": {"expression": "true"}}],
        adminAccess=False,
        tolerations=[toleration],
        capacity={"requests": {"memory": "1Gi"}},
        derivedAttributes=[{"name": "example.com/a", "expression": "1"}],
    )
    claim = claim_of(
        a_claim(
            request,
            constraints=[{"requests": ["gpus"], "matchAttribute": "example.com/a"}],
            config=[{"requests": ["gpus"], **opaque(mode="fast")}],
        )
    )
    assert (claim.namespace, claim.name, claim.uid, claim.allocation) == ("ml", "claim", "uid-1", None)
    (alternative,) = claim.requests[0].alternatives
    assert not claim.requests[0].is_first_available
    assert (alternative.name, alternative.class_name, alternative.selectors) == ("gpus", "gpu", ("true",))
    assert alternative.admin_access is False
    assert alternative.tolerations == (Toleration("k", "Equal", "v", "NoExecute"),)
    assert alternative.tolerations[0].raw == toleration
    assert alternative.capacity == {"memory": Quantity.parse("1Gi")}
    assert alternative.derived_attributes == (("example.com/a", "1"),)
    assert claim.constraints == (Constraint(("gpus",), "example.com/a"),)
    assert claim.config == (OpaqueConfig(OPAQUE, ("gpus",)),)


def test_claim_that_no_server_has_seen_has_no_uid() -> None:
    raw = a_claim(a_request())
    del raw["metadata"]["uid"]
    assert claim_of(raw).uid == ""


def test_absent_admin_access_and_capacity_are_none() -> None:
    (alternative,) = claim_of(a_claim(a_request())).requests[0].alternatives
    assert alternative.admin_access is None
    assert alternative.capacity is None


def test_claim_without_requests_is_valid() -> None:
    assert claim_of(a_claim()).requests == ()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"deviceClassName": ""}, "deviceClassName"),
        ({"deviceClassName": None}, "deviceClassName"),
        ({"deviceClassName": "GPU"}, "deviceClassName"),
        ({"allocationMode": "Some"}, "allocationMode"),
        ({"allocationMode": "All", "count": 1}, "count"),
        ({"count": -1}, "count"),
        ({"count": "1"}, "count"),
        ({"count": 1.0}, "count"),
        ({"count": True}, "count"),
        ({"count": 2**63}, "count"),
        ({"adminAccess": "yes"}, "adminAccess"),
        ({"selectors": [{}]}, "selectors[0].cel"),
        ({"selectors": [{"cel": {}}]}, "selectors[0].cel.expression"),
        ({"tolerations": [{"operator": "Is"}]}, "tolerations[0].operator"),
        ({"tolerations": [{"operator": "Exists", "value": "v"}]}, "tolerations[0].value"),
        ({"tolerations": [{"value": "a b"}]}, "tolerations[0].value"),
        ({"tolerations": [{"key": "a/b/c", "operator": "Exists"}]}, "tolerations[0].key"),
        ({"tolerations": [{"operator": "Exists", "effect": "Any"}]}, "tolerations[0].effect"),
        ({"tolerations": [{"operator": "Exists", "tolerationSeconds": "5"}]}, "tolerations[0].tolerationSeconds"),
        ({"capacity": {"requests": {"m": "much"}}}, "capacity.requests[m]"),
        ({"capacity": {"requests": {"m": "1e20000"}}}, "capacity.requests[m]"),
        ({"derivedAttributes": [{"name": "example.com/a", "expression": ""}]}, "derivedAttributes[0].expression"),
    ],
)
def test_alternative_that_breaks_a_rule_is_refused(fields: Raw, path: str) -> None:
    constraints = [{"matchAttribute": "example.com/a"}]
    assert error_paths(a_claim(a_request(**fields), constraints=constraints)) == [
        f"spec.devices.requests[0].exactly.{path}"
    ]
    if "adminAccess" not in fields:
        alternatives = [a_subrequest(), a_subrequest("small", **fields)]
        assert error_paths(a_claim({"name": "r", "firstAvailable": alternatives}, constraints=constraints)) == [
            f"spec.devices.requests[0].firstAvailable[1].{path}"
        ]


@pytest.mark.parametrize(
    ("fields", "expected"), [({"count": 4611686018427387904}, 4611686018427387904), ({"allocationMode": "All"}, 0)]
)
def test_valid_counts_are_kept(fields: Raw, expected: int) -> None:
    (alternative,) = claim_of(a_claim(a_request(**fields))).requests[0].alternatives
    assert alternative.count == expected


@pytest.mark.parametrize(
    ("requests", "path"),
    [
        ([{"name": "r"}], "[0]"),
        ([{"name": "r", "firstAvailable": []}], "[0]"),
        ([{"name": "r", "exactly": {"deviceClassName": "gpu"}, "firstAvailable": [a_subrequest()]}], "[0]"),
        ([a_request("R")], "[0].name"),
        ([{"exactly": {"deviceClassName": "gpu"}}], "[0].name"),
        ([a_request("r"), a_request("r")], "[1]"),
        ([{"name": "r", "firstAvailable": [a_subrequest("a"), a_subrequest("a")]}], "[0].firstAvailable[1]"),
        ([{"name": "r", "firstAvailable": [a_subrequest("a/b")]}], "[0].firstAvailable[0].name"),
        (["r"], "[0]"),
        ("r", ""),
    ],
)
def test_request_that_breaks_a_rule_is_refused(requests: list[Raw], path: str) -> None:
    raw = a_claim()
    raw["spec"]["devices"]["requests"] = requests
    assert error_paths(raw) == [f"spec.devices.requests{path}"]


@pytest.mark.parametrize("reference", ["a", "b", "b/c", "b/d"])
def test_constraint_and_config_may_name_requests_and_subrequests(reference: str) -> None:
    constraint = {"requests": [reference], "matchAttribute": "example.com/a"}
    claim = claim_of(two_requests(constraints=[constraint], config=[{"requests": [reference], **opaque()}]))
    assert claim.constraints[0].requests == claim.config[0].requests == (reference,)


@pytest.mark.parametrize("reference", ["x", "a/c", "b/x", "b/c/d", "", "/c"])
def test_reference_to_a_request_that_does_not_exist_is_refused(reference: str) -> None:
    constraint = {"requests": [reference], "matchAttribute": "example.com/a"}
    assert error_paths(two_requests(constraints=[constraint])) == ["spec.devices.constraints[0].requests[0]"]
    config = {"requests": ["a", reference], **opaque()}
    assert error_paths(two_requests(config=[config])) == ["spec.devices.config[0].requests[1]"]


@pytest.mark.parametrize(
    ("constraint", "path"),
    [
        ({}, ""),
        ({"matchAttribute": "model"}, ".matchAttribute"),
        ({"distinctAttribute": "model"}, ".distinctAttribute"),
        ({"matchAttribute": "example.com/"}, ".matchAttribute"),
        ({"matchAttribute": "example.com/a", "requests": ["a", "a"]}, ".requests[1]"),
    ],
)
def test_constraint_that_breaks_a_rule_is_refused(constraint: Raw, path: str) -> None:
    assert error_paths(two_requests(constraints=[constraint])) == [f"spec.devices.constraints[0]{path}"]


def test_constraint_of_both_kinds_passes_and_keeps_both() -> None:
    both = {"matchAttribute": "example.com/a", "distinctAttribute": "example.com/b"}
    assert claim_of(two_requests(constraints=[both])).constraints == (Constraint((), "example.com/a", "example.com/b"),)


def test_derived_attribute_that_no_constraint_uses_is_refused() -> None:
    request = a_request(derivedAttributes=[{"name": "example.com/a", "expression": "1"}])
    assert error_paths(a_claim(request)) == ["spec.devices.requests[0].exactly.derivedAttributes[0].name"]


def test_derived_attributes_of_one_name_are_refused() -> None:
    request = a_request(derivedAttributes=[{"name": "example.com/a", "expression": "1"}] * 2)
    paths = error_paths(a_claim(request, constraints=[{"distinctAttribute": "example.com/a"}]))
    assert paths == ["spec.devices.requests[0].exactly.derivedAttributes[1]"]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({}, ".opaque"),
        ({"opaque": {"parameters": {}}}, ".opaque.driver"),
        ({"opaque": {"driver": "a/b", "parameters": {}}}, ".opaque.driver"),
        ({"opaque": {"driver": DRIVER}}, ".opaque.parameters"),
        ({"opaque": {"driver": DRIVER, "parameters": None}}, ".opaque.parameters"),
        ({"opaque": {"driver": DRIVER, "parameters": [1]}}, ".opaque.parameters"),
        ({"opaque": {"driver": DRIVER, "parameters": "{}"}}, ".opaque.parameters"),
        ({"opaque": {"driver": DRIVER, "parameters": {"a": "\ud800"}}}, ".opaque.parameters"),
        ({"opaque": {"driver": DRIVER, "parameters": {"a": object()}}}, ".opaque.parameters"),
    ],
)
def test_config_that_breaks_a_rule_is_refused(config: Raw, path: str) -> None:
    assert error_paths(a_claim(a_request(), config=[config])) == [f"spec.devices.config[0]{path}"]
    assert error_paths(a_class(config=[config])) == [f"spec.config[0]{path}"]


def test_parameters_without_an_end_are_refused() -> None:
    nested: Raw = {}
    for _ in range(100_000):
        nested = {"a": nested}
    endless: Raw = {}
    endless["a"] = endless
    shared: list[object] = [1]
    for _ in range(100):
        shared = [shared, shared]
    for parameters in (nested, endless, {"a": shared}):
        config = {"opaque": {"driver": DRIVER, "parameters": parameters}}
        assert error_paths(a_class(config=[config])) == ["spec.config[0].opaque.parameters"]
    while nested:  # taken apart, since Python frees it by recursion
        nested = nested["a"]


def levels(count: int) -> Raw:
    nested: Raw = {}
    for _ in range(count - 1):
        nested = {"a": nested}
    return nested


@pytest.mark.parametrize("frames", [FEWEST, 500])
def test_parameters_may_nest_two_hundred_levels_deep_wherever_they_are_read(frames: int) -> None:
    def paths(count: int) -> list[str]:
        return error_paths(a_class(config=[{"opaque": {"driver": DRIVER, "parameters": levels(count)}}]))

    assert with_frames_left(frames, lambda: paths(200)) == []
    assert with_frames_left(frames, lambda: paths(201)) == ["spec.config[0].opaque.parameters"]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"a": [], "b": {}, "c": [1, [2, {"é": None}], "ü\n"], "d": [True, 1.5e300, -1]},
        {1: {None: 2, True: "x"}, "a": ["", ["", [""]]]},
    ],
)
def test_length_of_parameters_is_that_of_their_compact_text(parameters: Raw) -> None:
    def paths(filler: int) -> list[str]:
        full = {**parameters, "filler": "x" * filler}
        return error_paths(a_class(config=[{"opaque": {"driver": DRIVER, "parameters": full}}]))

    text = json.dumps({**parameters, "filler": ""}, ensure_ascii=False, separators=(",", ":"))
    room = 10 * 1024 - len(text.encode())
    assert paths(room) == []
    assert paths(room + 1) == ["spec.config[0].opaque.parameters"]


def test_parameters_are_not_looked_into() -> None:
    config = {"opaque": {"driver": DRIVER, "parameters": {"anything": [None, 1.5, {"goes": True}]}}}
    decoded = decode(a_class(config=[config]))
    assert decoded.warnings == ()
    assert isinstance(decoded.object, DeviceClass)
    assert decoded.object.config[0].opaque == config["opaque"]


def test_class_becomes_the_model() -> None:
    raw = a_class(
        selectors=[{"cel": {"expression": "true"}}],
        config=[opaque(mode="fast")],
        extendedResourceName="example.com/gpu",
    )
    raw["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert decode(raw).object == DeviceClass(
        "gpu", ("true",), (OpaqueConfig(OPAQUE),), "example.com/gpu", "2026-01-01T00:00:00Z"
    )
    assert decode(a_class()).object == DeviceClass("gpu")


@pytest.mark.parametrize("name", ["", "gpu", "kubernetes.io/gpu", "requests.example.com/gpu"])
def test_extended_resource_needs_a_domain_of_its_own(name: str) -> None:
    assert error_paths(a_class(extendedResourceName=name)) == ["spec.extendedResourceName"]


def test_template_keeps_what_a_claim_is_made_of() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    request = a_request(allocationMode="All")
    assert decode(a_template(request, metadata=metadata)).object == ClaimTemplate(
        "ml", "template", {"a": "b"}, {"c": "d"}, {"devices": {"requests": [request]}}
    )


def test_template_is_held_to_the_rules_of_claims() -> None:
    raw = a_template(a_request("R"), metadata={"labels": {"-": "a"}})
    raw["metadata"]["name"] = "Template"
    assert error_paths(raw) == ["metadata.name", "spec.metadata.labels", "spec.spec.devices.requests[0].name"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, None),
        ({"deviceSelector": None}, None),
        ({"deviceSelector": {}}, DeviceTaintSelector()),
        ({"deviceSelector": {"driver": DRIVER}}, DeviceTaintSelector(driver=DRIVER)),
        ({"deviceSelector": {"pool": "p", "device": "d"}}, DeviceTaintSelector(pool="p", device="d")),
    ],
)
def test_taint_rule_reports_no_selector_from_an_empty_one(selector: Raw, expected: DeviceTaintSelector | None) -> None:
    taint = Taint("example.com/broken", "", "NoSchedule")
    assert decode(a_rule(**selector)).object == TaintRule("rule", taint, expected)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"taint": {"effect": "NoExecute"}}, "taint.key"),
        ({"taint": {"key": "a"}}, "taint.effect"),
        ({"deviceSelector": {"driver": ""}}, "deviceSelector.driver"),
        ({"deviceSelector": {"pool": "P"}}, "deviceSelector.pool"),
        ({"deviceSelector": {"device": "a.b"}}, "deviceSelector.device"),
        ({"deviceSelector": {"device": 1}}, "deviceSelector.device"),
    ],
)
def test_taint_rule_that_breaks_a_rule_is_refused(spec: Raw, path: str) -> None:
    assert error_paths(a_rule(**spec)) == [f"spec.{path}"]


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({}, "metadata.name"),
        ({"generateName": "claim-"}, "metadata.name"),
        ({"name": "Claim"}, "metadata.name"),
        ({"name": "a" * 254}, "metadata.name"),
        ({"name": "a", "namespace": "a.b"}, "metadata.namespace"),
        ({"name": "a", "labels": {"a": "b c"}}, "metadata.labels[a]"),
        ({"name": "a", "labels": {"a b": "c"}}, "metadata.labels"),
        ({"name": "a", "labels": {"a": 1}}, "metadata.labels[a]"),
        ({"name": "a", "annotations": {"a b": "c"}}, "metadata.annotations"),
        ({"name": "a", "annotations": {"a": "x" * 256 * 1024}}, "metadata.annotations"),
    ],
)
def test_metadata_that_breaks_a_rule_is_refused(metadata: Raw, path: str) -> None:
    assert error_paths({**a_claim(), "metadata": metadata}) == [path]


def test_namespace_of_a_kind_without_namespaces_is_noted() -> None:
    decoded = decode({**a_class(), "metadata": {"name": "a", "namespace": "b"}})
    assert decoded.errors == ()
    assert [note.path for note in decoded.notes] == ["metadata.namespace"]


def test_metadata_is_handed_out() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "1", "controller": True}
    raw = a_claim()
    raw["metadata"] |= {
        "resourceVersion": "5",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"a": "b"},
        "annotations": {"Example.com/c": "d"},
        "ownerReferences": [owner],
        "managedFields": [{"anything": 1}],
        "finalizers": ["a/b"],
    }
    decoded = decode(raw)
    assert decoded.errors == ()
    assert decoded.warnings == ()
    found = decoded.metadata
    assert (found.name, found.namespace, found.uid, found.resource_version) == ("claim", "ml", "uid-1", "5")
    assert (found.creation_timestamp, found.deletion_timestamp) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert (found.labels, found.annotations) == ({"a": "b"}, {"Example.com/c": "d"})
    assert found.owners == (OwnerReference("Pod", "pod", "1", is_controller=True),)


def test_consumers_are_handed_out() -> None:
    consumer = {"resource": "pods", "name": "pod", "uid": "1"}
    decoded = decode(a_claim(status={"allocation": {}, "reservedFor": [consumer]}))
    assert decoded.errors == ()
    assert decoded.reserved_for == (Consumer("", "pods", "pod", "1"),)
