"""What a person sees: all errors of an object together, paths as Kubernetes writes them, values in short."""

import pytest

from allocator.api import DeviceTaintSelector, FieldError, TaintRule, decode
from allocator.api.findings import path_of, shown
from allocator.model import Claim, DeviceClass, Slice
from tests.unit.allocator.api.raw_objects import (
    Raw,
    a_claim,
    a_class,
    a_device,
    a_request,
    a_rule,
    a_slice,
    a_slice_of,
    a_subrequest,
    a_template,
    an_allocation,
    error_paths,
    warned,
)


def test_all_errors_of_an_object_are_reported_together() -> None:
    raw = a_slice(
        driver="-",
        pool={"name": "p", "resourceSliceCount": "1", "generation": -1},
        devices=[
            a_device("A", attributes={"a": {"int": "1"}, "b": {"version": "1"}}),
            a_device("b", capacity={"m": {"value": "lots"}}, taints=[{"key": 5, "effect": "Bad"}]),
        ],
    )
    assert set(error_paths(raw)) == {
        "spec.driver",
        "spec.pool.resourceSliceCount",
        "spec.pool.generation",
        "spec.devices[0].name",
        "spec.devices[0].attributes[a].int",
        "spec.devices[0].attributes[b].version",
        "spec.devices[1].capacity[m].value",
        "spec.devices[1].taints[0].key",
        "spec.devices[1].taints[0].effect",
    }
    assert decode(raw).object is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (a_slice_of(name=5), "spec.devices[0].name: must be a string (got 5)"),
        (a_slice(devices={"a": 1}), "spec.devices: must be a list (got an object of 1 field)"),
        (a_slice(devices=[[1, 2]]), "spec.devices[0]: must be an object (got a list of 2 entries)"),
        (a_slice(allNodes="yes"), 'spec.allNodes: must be true or false (got "yes")'),
        (a_claim(a_request(count=1.5)), "spec.devices.requests[0].exactly.count: must be an integer (got 1.5)"),
        (a_claim(a_request(count=-3)), "spec.devices.requests[0].exactly.count: must be at least 1 (got -3)"),
        (
            a_slice(pool={"name": "p", "resourceSliceCount": 2**64}),
            "spec.pool.resourceSliceCount: must fit into a signed integer of 64 bits (got 18446744073709551616)",
        ),
        ({**a_class(), "spec": 5}, "spec: must be an object (got 5)"),
        ({**a_class(), "metadata": "gpu"}, 'metadata: must be an object (got "gpu")'),
        (a_slice(driver=""), 'spec.driver: is required (got "")'),
        (a_slice(driver=None), "spec.driver: is required"),
    ],
)
def test_message_names_field_rule_and_value(raw: Raw, text: str) -> None:
    assert [str(error) for error in decode(raw).errors] == [text]


def test_wrong_type_is_the_only_thing_said_about_its_place() -> None:
    raw = a_claim(a_request(), {"name": ["b"], "exactly": {"deviceClassName": 7, "count": "x"}})
    assert error_paths(raw) == [
        "spec.devices.requests[1].name",
        "spec.devices.requests[1].exactly.deviceClassName",
        "spec.devices.requests[1].exactly.count",
    ]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (("spec", "devices", 3, "attributes", "model", "string"), "spec.devices[3].attributes[model].string"),
        (("spec", "devices", 0, "attributes", "attributes", "int"), "spec.devices[0].attributes[attributes].int"),
        (("spec", "devices", 0, "capacity", "requests", "value"), "spec.devices[0].capacity[requests].value"),
        (("requests", 0, "exactly", "capacity", "requests", "m"), "requests[0].exactly.capacity.requests[m]"),
        (("results", 1, "consumedCapacity", "m"), "results[1].consumedCapacity[m]"),
        (("metadata", "labels", "a/b"), "metadata.labels[a/b]"),
        (("spec", "devices", 0, "attributes"), "spec.devices[0].attributes"),
    ],
)
def test_path_is_written_as_kubernetes_does(location: tuple[str | int, ...], path: str) -> None:
    assert path_of(location) == path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (1, "1"),
        ("a\nb", '"a\\nb"'),
        ({"a": 1}, "an object of 1 field"),
        ([1, 2], "a list of 2 entries"),
        ("x" * 10_000_000, '"' + "x" * 30 + "..." + "x" * 30 + '"'),
        pytest.param(10**5000, "a number of over 1000 digits", id="huge number"),
    ],
)
def test_value_is_shown_in_short(value: object, text: str) -> None:
    assert shown(value) == text


def test_huge_values_never_reach_the_message() -> None:
    huge = "x" * 10_000_000
    raw = a_slice(driver=huge, devices=[a_device(huge, attributes={huge: {"string": huge, "int": huge}})])
    errors = decode(raw).errors
    assert len(errors) == 6
    assert all(len(str(error)) < 400 for error in errors)


@pytest.mark.parametrize("time", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456+02:00"])
def test_time_is_written_as_in_rfc_3339(time: str) -> None:
    assert error_paths({**a_class(), "metadata": {"name": "a", "creationTimestamp": time}}) == []


@pytest.mark.parametrize(
    "time",
    [
        *("", "today", "2026-01-31", "2026-13-01T00:00:00Z", "2026-01-31 12:00:00Z", 5),
        *("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),  # no time in UTC
    ],
)
def test_what_is_no_time_is_refused(time: object) -> None:
    raw = {**a_class(), "metadata": {"name": "a", "creationTimestamp": time}}
    assert error_paths(raw) == ["metadata.creationTimestamp"]


def test_wrong_type_of_a_union_member_is_said_once() -> None:
    assert error_paths(a_claim({"name": "r", "firstAvailable": "gpu"})) == ["spec.devices.requests[0].firstAvailable"]
    assert error_paths(a_class(selectors=[{"cel": "true"}])) == ["spec.selectors[0].cel"]


@pytest.mark.parametrize("key", ["a\nb", "\ud800", "x" * 1_000_000, "\x1b[31m"])
def test_odd_keys_make_a_path_that_can_be_printed(key: str) -> None:
    objects = (
        a_slice_of(attributes={key: {"int": "1", key: 2}}, capacity={key: {"value": "x"}}),
        {**a_class(), "metadata": {"name": "a", "labels": {key: "-"}}, "spec": {key: 1}},
    )
    for raw in objects:
        decoded = decode(raw)
        for text in (*map(str, decoded.errors), *map(str, decoded.warnings)):
            assert text.encode()
            assert text.isprintable()
            assert len(text) < 400


def test_error_keeps_the_offending_value() -> None:
    assert decode(a_slice(driver="-")).errors[0].value == "-"
    assert FieldError("a", None, "is required") == FieldError("a", None, "is required")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({**a_slice(), "extra": 1}, "extra"),
        (a_slice(colour="red"), "spec.colour"),
        (a_slice(pool={"name": "p", "resourceSliceCount": 1, "zone": "a"}), "spec.pool.zone"),
        (a_class(suitableNodes={}), "spec.suitableNodes"),
        (a_class(selectors=[{"rego": "x"}]), "spec.selectors[0].rego"),
        (a_class(config=[{"clear": {}}]), "spec.config[0].clear"),
        (a_claim(shape="ring"), "spec.devices.shape"),
        (a_claim(a_request(), config=[{"clear": {}}]), "spec.devices.config[0].clear"),
    ],
)
def test_unknown_field_is_warned_of_and_carried_by_its_object(raw: Raw, path: str) -> None:
    decoded = decode(raw)
    assert decoded.errors == ()
    assert [str(warning) for warning in decoded.warnings] == [f"{path}: unknown field"]
    assert isinstance(decoded.object, object)
    assert getattr(decoded.object, "unknown_fields", None) == (path.removeprefix("spec."),)


def test_unknown_field_of_a_taint_rule_is_warned_of_and_the_rest_counts() -> None:
    decoded = decode(a_rule(deviceSelector={"deviceClassName": "gpu", "pool": "p"}))
    assert decoded.errors == ()
    assert [str(warning) for warning in decoded.warnings] == ["spec.deviceSelector.deviceClassName: unknown field"]
    assert isinstance(decoded.object, TaintRule)
    assert decoded.object.selector == DeviceTaintSelector(pool="p")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"colour": "red"}, "colour"),
        ({"attributes": {"a": {"float": 1.5}}}, "attributes[a].float"),
        ({"attributes": {"a": {"int": 1, "unit": "m"}}}, "attributes[a].unit"),
        ({"capacity": {"m": {"value": "1", "burst": "2"}}}, "capacity[m].burst"),
        ({"taints": [{"key": "a", "effect": "NoSchedule", "until": "x"}]}, "taints[0].until"),
        ({"nodeAllocatableResourceMappings": 1}, "nodeAllocatableResourceMappings"),
        ({"nodeAllocatableResources": {"cpu": {"share": 1}}}, "nodeAllocatableResources[cpu].share"),
    ],
)
def test_unknown_field_of_a_device_is_carried_by_that_device_alone(fields: Raw, name: str) -> None:
    raw = a_slice(devices=[a_device("a"), a_device("b", **fields)])
    decoded = decode(raw)
    assert decoded.errors == ()
    assert [warning.path for warning in decoded.warnings] == [f"spec.devices[1].{name}"]
    assert isinstance(decoded.object, Slice)
    assert [device.unknown_fields for device in decoded.object.devices] == [(), (name,)]
    assert decoded.object.unknown_fields == ()


def test_unknown_field_of_a_request_is_carried_by_the_request_or_the_alternative() -> None:
    raw = a_claim(
        {**a_request("a", colour="red"), "urgent": True},
        {"name": "b", "firstAvailable": [a_subrequest("c"), a_subrequest("d", selectors=[{"rego": "x"}])]},
        {"name": "e", "anyOf": []},
        constraints=[{"near": "x"}, {"matchAttribute": "example.com/a"}],
    )
    decoded = decode(raw)
    assert decoded.errors == ()
    assert isinstance(decoded.object, Claim)
    first, second, third = decoded.object.requests
    assert (first.unknown_fields, first.alternatives[0].unknown_fields) == (("urgent",), ("colour",))
    assert [alternative.unknown_fields for alternative in second.alternatives] == [(), ("selectors[0].rego",)]
    assert (third.unknown_fields, third.alternatives) == (("anyOf",), ())
    assert [constraint.unknown_fields for constraint in decoded.object.constraints] == [("near",), ()]
    assert decoded.object.unknown_fields == ()


@pytest.mark.parametrize(
    "raw",
    [
        {**a_claim(a_request()), "metadata": {"name": "a", "zone": "b"}},
        a_claim(a_request(), status={"deallocationRequested": True}),
        a_claim(a_request(), status={"allocation": an_allocation(controller="x")}),
    ],
)
def test_unknown_field_of_metadata_and_status_is_only_warned_of(raw: Raw) -> None:
    decoded = decode(raw)
    assert len(decoded.warnings) == 1
    assert isinstance(decoded.object, Claim)
    assert decoded.object.unknown_fields == ()
    assert all(request.unknown_fields == () for request in decoded.object.requests)


def test_unknown_field_of_a_template_is_warned_of() -> None:
    raw = a_template({**a_request(), "urgent": True}, metadata={"zone": "a"})
    assert set(warned(raw)) == {"spec.spec.devices.requests[0].urgent", "spec.metadata.zone"}


def test_errors_and_unknown_fields_are_reported_together() -> None:
    decoded = decode(a_class(colour="red", selectors="all", extendedResourceName="gpu"))
    assert [error.path for error in decoded.errors] == ["spec.selectors", "spec.extendedResourceName"]
    assert [warning.path for warning in decoded.warnings] == ["spec.colour"]


def test_keys_that_are_no_strings_are_refused() -> None:
    # YAML has them; JSON has not.
    assert error_paths(a_slice_of(attributes={5: {"int": 1}})) == ["spec.devices[0].attributes[5]"]
    assert error_paths({**a_class(), "spec": {7: "x"}}) == ["spec[7]"]
    assert decode({**a_slice("v1beta1"), "spec": {"devices": [{None: 1, (1, 2): 3}]}}).object is None


def test_recorded_cases_are_typed_without_limits_and_required_fields() -> None:
    device = {"attributes": {"a": {}, "b": {"int": 1, "string": "x"}}}
    decoded = decode(a_slice(devices=[device, device], driver="", pool={}), validate=False)
    assert isinstance(decoded.object, Slice)
    assert decoded.object.devices[0].attributes == {"a": ("", None), "b": ("int", 1)}
    claim = decode(
        a_claim(
            {"name": "r", "exactly": {"allocationMode": "Some", "count": -5, "selectors": [{}]}},
            {"name": "none"},
            constraints=[{}],
            config=[{}],
        ),
        validate=False,
        apply_defaults=False,
    ).object
    assert isinstance(claim, Claim)
    (alternative,) = claim.requests[0].alternatives
    assert (alternative.mode, alternative.count, alternative.class_name) == ("Some", -5, "")
    assert alternative.selectors == (None,)
    assert claim.requests[1].alternatives == ()
    assert claim.config[0].opaque == {}
    assert isinstance(decode({**a_class(), "metadata": {}}, validate=False).object, DeviceClass)


def test_recorded_cases_are_still_typed() -> None:
    assert [error.path for error in decode(a_slice(driver=5), validate=False).errors] == ["spec.driver"]
