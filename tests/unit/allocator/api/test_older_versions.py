"""Older versions in the form of v1, and the API's defaults."""

import copy

import pytest

from allocator.api import decode
from allocator.model import Claim, Slice
from tests.unit.allocator.api.raw_objects import (
    Raw,
    a_claim,
    a_class,
    a_device,
    a_request,
    a_slice,
    a_subrequest,
    a_template,
)

OLD = ("v1beta1", "v1alpha3")


def claim_of(raw: Raw) -> Claim:
    decoded = decode(raw)
    assert decoded.errors == ()
    assert isinstance(decoded.object, Claim)
    return decoded.object


def slice_of(raw: Raw) -> Slice:
    decoded = decode(raw)
    assert decoded.errors == ()
    assert isinstance(decoded.object, Slice)
    return decoded.object


def exactly(raw: Raw) -> Raw:
    """The `exactly` of the first request, in the form of v1."""
    found = decode(raw).raw["spec"]["devices"]["requests"][0]["exactly"]
    assert isinstance(found, dict)
    return found


def test_basic_device_becomes_a_bare_one() -> None:
    fields = {"attributes": {"model": {"string": "H200"}}, "capacity": {"memory": {"value": "80Gi"}}}
    old = a_slice("v1beta1", devices=[{"name": "gpu-0", "basic": fields}])
    assert slice_of(old) == slice_of(a_slice(devices=[{"name": "gpu-0", **fields}]))


def test_device_without_basic_is_a_bare_name() -> None:
    assert slice_of(a_slice("v1beta1", devices=[{"name": "gpu-0"}])) == slice_of(a_slice(devices=[{"name": "gpu-0"}]))


def test_basic_that_is_no_object_is_refused() -> None:
    (error,) = decode(a_slice("v1beta1", devices=[{"name": "gpu-0", "basic": 5}])).errors
    assert str(error) == "spec.devices[0].basic: must be an object (got 5)"


@pytest.mark.parametrize("version", OLD)
def test_flat_request_becomes_exactly(version: str) -> None:
    flat = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "true"}}],
        "allocationMode": "All",
        "adminAccess": True,
        "tolerations": [{"operator": "Exists"}],
        "capacity": {"requests": {"memory": "1Gi"}},
    }
    assert claim_of(a_claim({"name": "r", **flat}, version=version)) == claim_of(
        a_claim({"name": "r", "exactly": flat})
    )


def test_of_both_forms_in_an_unchecked_request_the_alternatives_count() -> None:
    raw = a_claim({"name": "r", "exactly": {"deviceClassName": "gpu"}, "firstAvailable": [a_subrequest()]})
    claim = decode(raw, validate=False).object
    assert isinstance(claim, Claim)
    assert [alternative.name for alternative in claim.requests[0].alternatives] == ["r/large"]


@pytest.mark.parametrize("version", OLD)
def test_request_of_both_forms_is_kept_as_such_and_refused(version: str) -> None:
    request = {"name": "r", "deviceClassName": "gpu", "firstAvailable": [a_subrequest()]}
    (error,) = decode(a_claim(request, version=version)).errors
    assert str(error) == "spec.devices.requests[0]: must not set both exactly and firstAvailable"


@pytest.mark.parametrize(
    "unset", [{}, {"deviceClassName": "", "allocationMode": "", "count": 0}, {"selectors": None, "tolerations": None}]
)
def test_flat_request_with_nothing_set_has_neither_form(unset: Raw) -> None:
    (error,) = decode(a_claim({"name": "r", **unset}, version="v1beta1")).errors
    assert str(error) == "spec.devices.requests[0]: must set exactly one of exactly and firstAvailable"


@pytest.mark.parametrize(
    "given", [{"selectors": []}, {"tolerations": []}, {"adminAccess": False}, {"count": 1}, {"capacity": {}}]
)
def test_any_flat_field_that_is_set_makes_exactly(given: Raw) -> None:
    paths = [error.path for error in decode(a_claim({"name": "r", **given}, version="v1beta1")).errors]
    assert paths == ["spec.devices.requests[0].exactly.deviceClassName"]


@pytest.mark.parametrize("version", OLD)
def test_empty_node_name_and_false_all_nodes_are_absent(version: str) -> None:
    assert slice_of(a_slice(version, nodeName="", allNodes=True)) == slice_of(a_slice(allNodes=True))
    assert slice_of(a_slice(version, nodeName="node-1", allNodes=False)) == slice_of(a_slice(nodeName="node-1"))


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_empty_node_name_and_false_all_nodes_are_refused_since_v1beta2(version: str) -> None:
    paths = [error.path for error in decode(a_slice(version, nodeName="", allNodes=False)).errors]
    assert paths == ["spec.nodeName", "spec.allNodes", "spec"]


def test_alpha_capacity_is_a_bare_quantity() -> None:
    old = a_slice("v1alpha3", devices=[{"name": "gpu-0", "basic": {"capacity": {"memory": "80Gi"}}}])
    assert slice_of(old) == slice_of(a_slice(devices=[{"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}]))


def test_alpha_capacity_in_the_later_form_is_refused() -> None:
    old = a_slice("v1alpha3", devices=[{"name": "gpu-0", "basic": {"capacity": {"memory": {"value": "80Gi"}}}}])
    assert [error.path for error in decode(old).errors] == ["spec.devices[0].capacity[memory].value"]


@pytest.mark.parametrize(
    "mode", [{}, {"allocationMode": ""}, {"allocationMode": None}, {"allocationMode": "ExactCount"}]
)
@pytest.mark.parametrize("count", [{}, {"count": 0}, {"count": None}])
def test_mode_defaults_to_exact_count_and_count_to_one(mode: Raw, count: Raw) -> None:
    raw = a_claim(a_request(**mode, **count))
    assert exactly(raw) == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    (alternative,) = claim_of(raw).requests[0].alternatives
    assert (alternative.mode, alternative.count) == ("ExactCount", 1)


def test_count_has_no_default_for_mode_all() -> None:
    assert exactly(a_claim(a_request(allocationMode="All"))) == {"deviceClassName": "gpu", "allocationMode": "All"}


def test_subrequests_have_the_same_defaults() -> None:
    (request,) = claim_of(a_claim({"name": "r", "firstAvailable": [a_subrequest("a"), a_subrequest("b")]})).requests
    assert request.is_first_available
    assert [(a.name, a.mode, a.count) for a in request.alternatives] == [
        ("r/a", "ExactCount", 1),
        ("r/b", "ExactCount", 1),
    ]


def test_requests_of_templates_have_the_same_defaults() -> None:
    for version, request in (("v1beta1", {"name": "r", "deviceClassName": "gpu"}), ("v1", a_request("r"))):
        (converted,) = decode(a_template(request, version=version)).raw["spec"]["spec"]["devices"]["requests"]
        assert converted == a_request("r", allocationMode="ExactCount", count=1)


def test_operator_of_a_toleration_defaults_to_equal() -> None:
    (toleration,) = exactly(a_claim(a_request(tolerations=[{"key": "a", "value": "b"}])))["tolerations"]
    assert toleration == {"key": "a", "value": "b", "operator": "Equal"}


def test_defaults_can_be_left_out() -> None:
    raw = a_claim(a_request())
    assert decode(raw, apply_defaults=False).raw == raw


@pytest.mark.parametrize(
    "raw",
    [
        a_claim({"name": "r", "deviceClassName": "gpu", "tolerations": [{"key": "a"}]}, version="v1beta1"),
        a_slice("v1alpha3", nodeName="", allNodes=True, devices=[{"name": "a", "basic": {"capacity": {"m": "1"}}}]),
        a_slice(devices=[{"name": 5, "colour": "red"}]),
        a_template({"name": "r", "exactly": {"deviceClassName": "gpu", "count": "one"}}),
        a_class(selectors="all"),
    ],
)
def test_input_is_never_changed(raw: Raw) -> None:
    before = copy.deepcopy(raw)
    decode(raw)
    assert raw == before


def test_field_that_the_older_version_never_had_is_unknown_in_it() -> None:
    decoded = decode(a_slice("v1beta1", devices=[{"name": "gpu-0", "attributes": {"a": {"int": 1}}}]))
    assert [warning.path for warning in decoded.warnings] == ["spec.devices[0].attributes"]
    assert isinstance(decoded.object, Slice)
    assert decoded.object.devices[0].unknown_fields == ("attributes",)
    assert decoded.object.devices[0].attributes == {}
    request = {"name": "r", "deviceClassName": "gpu", "exactly": {"deviceClassName": "other"}}
    claim = decode(a_claim(request, version="v1beta1"))
    assert [warning.path for warning in claim.warnings] == ["spec.devices.requests[0].exactly"]
    assert isinstance(claim.object, Claim)
    assert claim.object.requests[0].unknown_fields == ("exactly",)


def test_fields_of_the_first_alpha_are_unknown_and_keep_the_claim_from_use() -> None:
    raw = a_claim({"name": "r", "deviceClassName": "gpu"}, version="v1alpha3")
    raw["spec"]["controller"] = "legacy.example"
    decoded = decode(raw)
    assert [warning.path for warning in decoded.warnings] == ["spec.controller"]
    assert isinstance(decoded.object, Claim)
    assert decoded.object.unknown_fields == ("controller",)


@pytest.mark.parametrize(
    ("raw", "reported"),
    [
        pytest.param(
            a_claim({"name": "r", "deviceClassName": "gpu"}),
            "spec.devices.requests[0].deviceClassName: unknown field: in v1 it belongs in exactly",
            id="flat request in v1",
        ),
        pytest.param(
            a_template({"name": "r", "count": 2}, version="v1beta2"),
            "spec.spec.devices.requests[0].count: unknown field: in v1beta2 it belongs in exactly",
            id="flat request of a template in v1beta2",
        ),
        pytest.param(
            a_claim(a_request(), version="v1beta1"),
            "spec.devices.requests[0].exactly: unknown field: in v1beta1 its fields are in the request itself",
            id="exactly in v1beta1",
        ),
        pytest.param(
            a_slice(devices=[{"name": "gpu-0", "basic": {}}]),
            "spec.devices[0].basic: unknown field: in v1 its fields are in the device itself",
            id="basic in v1",
        ),
        pytest.param(
            a_slice("v1beta1", devices=[{"name": "gpu-0", "attributes": {}}]),
            "spec.devices[0].attributes: unknown field: in v1beta1 it belongs in basic",
            id="flat device in v1beta1",
        ),
        pytest.param(
            a_slice("v1beta1", devices=[{"name": "gpu-0", "colour": "red"}]),
            "spec.devices[0].colour: unknown field",
            id="a field that no version has",
        ),
        pytest.param(
            a_claim(a_request(selectors=[{"cel": None, "expression": "true"}])),
            "spec.devices.requests[0].exactly.selectors[0].expression: unknown field: it belongs in cel",
            id="expression beside cel",
        ),
        pytest.param(
            {**a_claim(), "spec": {"config": [], "devices": {}}},
            "spec.config: unknown field: it belongs in devices",
            id="config beside devices",
        ),
        pytest.param(
            a_claim({"name": "r", "matchAttribute": "a/b"}),
            "spec.devices.requests[0].matchAttribute: unknown field: it belongs in spec.devices.constraints",
            id="constraint in a request",
        ),
        pytest.param(
            a_claim({"name": "r", "firstAvailable": [{"name": "a", "adminAccess": True}]}),
            "spec.devices.requests[0].firstAvailable[0].adminAccess: unknown field: "
            "it belongs in spec.devices.requests[].exactly",
            id="admin access of a subrequest",
        ),
        pytest.param(
            a_claim(a_request(alocationmode="All")),
            "spec.devices.requests[0].exactly.alocationmode: unknown field: did you mean allocationMode?",
            id="a misspelt field",
        ),
    ],
)
def test_a_field_that_another_version_has_elsewhere_is_reported_with_its_place(raw: Raw, reported: str) -> None:
    assert reported in [str(warning) for warning in decode(raw).warnings]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"allocationMultiplier": "2Gi"}, {"deviceMultiplier": "2Gi"}),
        ({"capacityKey": "memory"}, {"capacityKey": "memory", "capacityMultiplier": "1"}),
        (
            {"capacityKey": "memory", "allocationMultiplier": 2},
            {"capacityKey": "memory", "capacityMultiplier": 2},
        ),
    ],
)
def test_mappings_of_1_36_are_those_of_1_37(mapping: Raw, expected: Raw) -> None:
    device = a_device(capacity={"memory": {"value": "8Gi"}})
    older = decode(a_slice(devices=[{**device, "nodeAllocatableResourceMappings": {"memory": mapping}}]))
    newer = decode(a_slice(devices=[{**device, "nodeAllocatableResources": {"memory": {"mapping": expected}}}]))
    assert (older.errors, older.warnings) == ((), ())
    assert older.object == newer.object


def test_mapping_of_1_36_that_says_nothing_counts_nothing() -> None:
    decoded = decode(a_slice(devices=[a_device(nodeAllocatableResourceMappings={"cpu": {}})]))
    assert (decoded.errors, decoded.warnings) == ((), ())
    assert isinstance(decoded.object, Slice)
    assert not decoded.object.devices[0].node_allocatable


@pytest.mark.parametrize("mappings", [1, {"cpu": 1}, {"cpu": {"capacityKey": 1}}])
def test_mappings_of_1_36_of_a_wrong_shape_are_reported(mappings: object) -> None:
    decoded = decode(a_slice(devices=[a_device(nodeAllocatableResourceMappings=mappings)]))
    assert decoded.errors or decoded.warnings
