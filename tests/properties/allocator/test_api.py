"""Properties of decoding: versions agree, and no input, however broken, raises anything."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.api import decode
from allocator.model import Slice

Raw = dict[str, Any]

KINDS = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule")
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
FIELDS = (
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "driver",
    "pool",
    "generation",
    "resourceSliceCount",
    "nodeName",
    "nodeSelector",
    "nodeSelectorTerms",
    "matchExpressions",
    "matchFields",
    "key",
    "operator",
    "values",
    "allNodes",
    "perDeviceNodeSelection",
    "devices",
    "basic",
    "attributes",
    "capacity",
    "value",
    "requestPolicy",
    "default",
    "validValues",
    "validRange",
    "min",
    "max",
    "step",
    "int",
    "bool",
    "string",
    "version",
    "ints",
    "strings",
    "versions",
    "taints",
    "effect",
    "consumesCounters",
    "counterSet",
    "counters",
    "sharedCounters",
    "bindingConditions",
    "requests",
    "exactly",
    "firstAvailable",
    "deviceClassName",
    "selectors",
    "cel",
    "expression",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "constraints",
    "matchAttribute",
    "config",
    "opaque",
    "parameters",
    "allocation",
    "results",
    "request",
    "device",
    "reservedFor",
    "deviceSelector",
    "taint",
    "other",
)

names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
identifiers = st.from_regex(r"[a-z][A-Za-z0-9_]{0,8}", fullmatch=True)
quantities = st.sampled_from(["0", "1", "80Gi", "500m", "1e3"])
attributes = st.one_of(
    st.builds(lambda value: {"int": value}, st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda value: {"bool": value}, st.booleans()),
    st.builds(lambda value: {"string": value}, st.text(st.characters(codec="utf-8"), max_size=16)),
    st.builds(lambda value: {"version": value}, st.sampled_from(["1.2.3", "0.0.0-rc.1+b"])),
    st.builds(lambda value: {"ints": value}, st.lists(st.integers(0, 9), min_size=1, max_size=2)),
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Raw]:
    return st.fixed_dictionaries({}, optional=fields)


devices = st.builds(
    lambda name, fields: {"name": name, **fields},
    names,
    optional(
        attributes=st.dictionaries(identifiers, attributes, max_size=4),
        capacity=st.dictionaries(identifiers, st.builds(lambda value: {"value": value}, quantities), max_size=2),
        taints=st.lists(st.builds(lambda key: {"key": key, "effect": "NoSchedule"}, names), max_size=2),
        bindsToNode=st.booleans(),
        allowMultipleAllocations=st.booleans(),
    ),
)
reaches = st.one_of(st.builds(lambda name: {"nodeName": name}, names), st.just({"allNodes": True}))
slices = st.builds(
    lambda reach, listed: {
        "driver": "gpu.example",
        "pool": {"name": "p", "resourceSliceCount": 1},
        **reach,
        "devices": listed,
    },
    reaches,
    st.lists(devices, max_size=4, unique_by=lambda device: str(device["name"])),
)
alternatives = st.builds(
    lambda name, fields: {"deviceClassName": name, **fields},
    names,
    optional(
        selectors=st.lists(st.just({"cel": {"expression": "true"}}), max_size=2),
        tolerations=st.lists(st.just({"operator": "Exists"}), max_size=2),
        capacity=st.builds(lambda value: {"requests": {"m": value}}, quantities),
        count=st.integers(1, 5),
    ),
)
requests = st.one_of(
    st.builds(lambda exactly: {"exactly": exactly}, alternatives),
    st.builds(lambda exactly: {"exactly": {**exactly, "adminAccess": True}}, alternatives),
    st.builds(lambda first: {"firstAvailable": [{"name": "a", **first}]}, alternatives),
)
claims = st.builds(
    lambda listed: {"devices": {"requests": [{"name": f"r{i}", **request} for i, request in enumerate(listed)]}},
    st.lists(requests, max_size=4),
)


def an_object(kind: str, version: str, spec: Raw) -> Raw:
    metadata = {"name": "a"}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def old_slice(spec: Raw) -> Raw:
    """The reverse conversion, as v1beta1 has it."""
    old = [{"name": d["name"], "basic": {k: v for k, v in d.items() if k != "name"}} for d in spec["devices"]]
    return {"nodeName": "", "allNodes": False, **spec, "devices": old}


def old_claim(spec: Raw) -> Raw:
    """The reverse conversion, as v1beta1 has it."""
    listed = spec["devices"]["requests"]
    flat = [{**{k: v for k, v in r.items() if k != "exactly"}, **r.get("exactly", {})} for r in listed]
    return {"devices": {"requests": flat}}


@given(slices)
def test_slice_in_v1beta1_and_back_is_the_same(spec: Raw) -> None:
    decoded = decode(an_object("ResourceSlice", "v1", spec))
    assert decoded.errors == ()
    assert isinstance(decoded.object, Slice)
    back = decode(an_object("ResourceSlice", "v1beta1", old_slice(spec)))
    assert (back.object, back.errors, back.raw) == (decoded.object, (), decoded.raw)


@given(claims)
def test_claim_in_v1beta1_and_back_is_the_same(spec: Raw) -> None:
    decoded = decode(an_object("ResourceClaim", "v1", spec))
    assert decoded.errors == ()
    back = decode(an_object("ResourceClaim", "v1beta1", old_claim(spec)))
    assert (back.object, back.errors, back.raw) == (decoded.object, (), decoded.raw)


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["All", "ExactCount", "In", "Exists", "80Gi", "1.2.3", "NoSchedule", "a"]),
)
keys = st.one_of(st.sampled_from(FIELDS), st.text(max_size=4))
garbage = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=40,
)
broken = st.fixed_dictionaries(
    {"apiVersion": st.sampled_from([f"resource.k8s.io/{v}" for v in VERSIONS]), "kind": st.sampled_from(KINDS)},
    optional={
        "metadata": garbage,
        "spec": st.dictionaries(st.sampled_from(FIELDS), garbage, max_size=8),
        "status": garbage,
    },
)


@pytest.mark.parametrize("validate", [True, False])
@given(raw=st.one_of(broken, st.dictionaries(st.sampled_from(["apiVersion", "kind", "spec"]), garbage)))
@settings(max_examples=100)
def test_garbage_is_reported_and_never_raises(*, validate: bool, raw: Raw) -> None:
    decoded = decode(raw, validate=validate)
    assert (decoded.object is None) == bool(decoded.errors)
    assert all(str(error) for error in decoded.errors)
    assert all(str(warning) for warning in decoded.warnings)


def places(value: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    if isinstance(value, dict):
        return [at, *(place for key, inner in value.items() for place in places(inner, (*at, key)))]
    if isinstance(value, list):
        return [at, *(place for index, inner in enumerate(value) for place in places(inner, (*at, index)))]
    return [at]


def changed(value: Any, place: tuple[Any, ...], new: object) -> Any:
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = changed(value[place[0]], place[1:], new)
    return copy


@given(
    st.data(), st.one_of(slices.map(lambda s: ("ResourceSlice", s)), claims.map(lambda s: ("ResourceClaim", s))), leaves
)
@settings(max_examples=150)
def test_valid_object_with_one_wrong_value_is_reported_and_never_raises(
    data: st.DataObject, valid: tuple[str, Raw], wrong: object
) -> None:
    kind, spec = valid
    version = data.draw(st.sampled_from(["v1", "v1beta2"]))
    place = data.draw(st.sampled_from(places(spec)))
    decoded = decode(an_object(kind, version, changed(spec, place, wrong)))
    assert (decoded.object is None) == bool(decoded.errors)
