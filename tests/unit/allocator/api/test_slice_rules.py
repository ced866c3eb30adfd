"""The rules of slices and devices beyond the limits."""

from typing import Any

import pytest

from allocator.api import decode
from allocator.model import (
    CounterConsumption,
    CounterSet,
    Reach,
    RequestPolicy,
    Requirement,
    Slice,
    Taint,
    Term,
    ValidRange,
)
from cel.values.quantity import Quantity
from tests.unit.allocator.api.raw_objects import (
    DRIVER,
    Raw,
    a_device,
    a_slice,
    a_slice_of,
    a_taint,
    error_paths,
)

Q = Quantity.parse


def slice_of(raw: Raw) -> Slice:
    decoded = decode(raw)
    assert decoded.errors == ()
    assert isinstance(decoded.object, Slice)
    return decoded.object


def terms(*requirements: Raw) -> Raw:
    return {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}


def on_gpus() -> Raw:
    return terms({"key": "gpu", "operator": "Exists"})


def test_slice_becomes_the_model() -> None:
    decoded = slice_of(a_slice(devices=[a_device(attributes={"a": {"int": 1}}, capacity={"m": {"value": "1Gi"}})]))
    assert (decoded.name, decoded.driver, decoded.pool) == ("slice-1", DRIVER, "node-1")
    assert (decoded.generation, decoded.slice_count, decoded.reach) == (1, 1, Reach(node_name="node-1"))
    (device,) = decoded.devices
    assert device.id == (DRIVER, "node-1", "gpu-0")
    assert device.attributes == {"a": ("int", 1)}
    assert device.capacity == {"m": Q("1Gi")}


def test_device_keeps_all_that_it_says() -> None:
    raw = a_slice_of(
        allowMultipleAllocations=True,
        bindsToNode=True,
        bindingConditions=["ready"],
        bindingFailureConditions=["broken"],
        taints=[a_taint(value="v", timeAdded="2026-01-01T00:00:00Z")],
        consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "2"}}, "compatibilityGroups": ["g"]}],
        nodeAllocatableResources={"cpu": {"overhead": {"perPod": "1"}}},
    )
    (device,) = slice_of(raw).devices
    assert device.allow_multiple_allocations
    assert device.binds_to_node
    assert device.binding_conditions == ("ready",)
    assert device.binding_failure_conditions == ("broken",)
    assert device.taints == (Taint("example.com/broken", "v", "NoSchedule"),)
    assert device.consumes_counters == (CounterConsumption("s", {"c": Q("2")}, ("g",)),)
    assert device.node_allocatable == {"cpu": {"overhead": {"perPod": Q("1")}}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"int": -5}, ("int", -5)),
        ({"int": 2**63 - 1}, ("int", 2**63 - 1)),
        ({"bool": False}, ("bool", False)),
        ({"bool": True}, ("bool", True)),
        ({"int": 1}, ("int", 1)),
        ({"string": ""}, ("string", "")),
        ({"version": "1.2.3"}, ("version", "1.2.3")),
        ({"ints": [1, 2]}, ("ints", (1, 2))),
        ({"bools": [True]}, ("bools", (True,))),
        ({"strings": ["a"]}, ("strings", ("a",))),
        ({"versions": ["1.0.0"]}, ("versions", ("1.0.0",))),
        ({"string": "a", "int": None}, ("string", "a")),
    ],
)
def test_attribute_keeps_kind_and_value(value: Raw, expected: tuple[str, object]) -> None:
    (device,) = slice_of(a_slice_of(attributes={"a": value})).devices
    assert device.attributes["a"] == expected
    assert type(device.attributes["a"][1]) is type(expected[1])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, ""),
        ({"int": None}, ""),
        ({"int": 1, "string": "a"}, ""),
        ({"ints": []}, ".ints"),
        ({"versions": ["1.0.0", "1"]}, ".versions[1]"),
        ({"version": "1.2"}, ".version"),
        ({"version": "01.2.3"}, ".version"),
        ({"int": 1.0}, ".int"),
        ({"int": True}, ".int"),
        ({"int": 2**63}, ".int"),
        ({"int": "1"}, ".int"),
        ({"bool": 1}, ".bool"),
        ({"bool": "true"}, ".bool"),
        ({"string": 5}, ".string"),
        ({"string": "\ud800"}, ".string"),
        ({"strings": "a"}, ".strings"),
        ({"strings": [1]}, ".strings[0]"),
        ("H200", ""),
        ([], ""),
        (None, ""),
    ],
)
def test_attribute_without_exactly_one_value_of_its_type_is_refused(value: Any, path: str) -> None:
    assert error_paths(a_slice_of(attributes={"a": value})) == [f"spec.devices[0].attributes[a]{path}"]


@pytest.mark.parametrize("name", ["", "a-b", "0", "a/", "/a", "-x/a"])
def test_attribute_and_capacity_need_a_qualified_name(name: str) -> None:
    assert error_paths(a_slice_of(attributes={name: {"int": 1}})) == ["spec.devices[0].attributes"]
    assert error_paths(a_slice_of(capacity={name: {"value": "1"}})) == ["spec.devices[0].capacity"]


@pytest.mark.parametrize(
    ("value", "expected"), [("80Gi", "80Gi"), (4, "4"), (1.5, "1500m"), (" 1 ", "1"), (None, "0"), (0, "0")]
)
def test_quantity_is_text_or_a_number(value: object, expected: str) -> None:
    (device,) = slice_of(a_slice_of(capacity={"m": {"value": value}})).devices
    assert device.capacity["m"] == Q(expected)


@pytest.mark.parametrize("value", ["", "a lot", "1Zi", True, {}, [1], float("nan"), "1" * 20_000, "1e20000"])
def test_what_is_no_quantity_is_refused(value: object) -> None:
    assert error_paths(a_slice_of(capacity={"m": {"value": value}})) == ["spec.devices[0].capacity[m].value"]


def test_capacity_without_a_value_is_zero_as_in_the_api_server() -> None:
    (device,) = slice_of(a_slice_of(capacity={"m": {}})).devices
    assert device.capacity == {"m": Q("0")}


@pytest.mark.parametrize(
    ("spec", "reach"),
    [
        ({"nodeName": "node-7"}, Reach(node_name="node-7")),
        ({"allNodes": True}, Reach(all_nodes=True)),
        ({"nodeSelector": on_gpus()}, Reach(node_selector=(Term((Requirement("gpu", "Exists"),)),))),
        ({"perDeviceNodeSelection": True, "devices": [a_device(allNodes=True)]}, Reach(per_device=True)),
    ],
)
def test_slice_is_reached_by_exactly_one_selection(spec: Raw, reach: Reach) -> None:
    assert slice_of(a_slice(**spec)).reach == reach


@pytest.mark.parametrize(
    ("spec", "reach"),
    [
        ({"nodeName": "a", "allNodes": True, "nodeSelector": on_gpus()}, Reach(node_name="a")),
        ({"allNodes": True, "nodeSelector": {}}, Reach(all_nodes=True, node_selector=())),
        ({"nodeName": "a", "perDeviceNodeSelection": True}, Reach(node_name="a", per_device=True)),
        ({"nodeSelector": {}, "perDeviceNodeSelection": True}, Reach(node_selector=(), per_device=True)),
    ],
)
def test_of_several_selections_of_an_unchecked_slice_the_first_counts(spec: Raw, reach: Reach) -> None:
    decoded = decode(a_slice(**{"nodeName": None, **spec}), validate=False).object
    assert isinstance(decoded, Slice)
    assert decoded.reach == reach


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"nodeName": None}, ["spec"]),
        ({"nodeName": ""}, ["spec.nodeName", "spec"]),
        ({"nodeName": "Node"}, ["spec.nodeName"]),
        ({"nodeName": "a", "allNodes": True}, ["spec"]),
        ({"allNodes": False}, ["spec.allNodes", "spec"]),
        ({"perDeviceNodeSelection": False}, ["spec.perDeviceNodeSelection", "spec"]),
        ({"nodeSelector": {}}, ["spec.nodeSelector.nodeSelectorTerms"]),
        (
            {"nodeSelector": {"nodeSelectorTerms": on_gpus()["nodeSelectorTerms"] * 2}},
            ["spec.nodeSelector.nodeSelectorTerms"],
        ),
    ],
)
def test_slice_without_exactly_one_valid_selection_is_refused(spec: Raw, paths: list[str]) -> None:
    assert error_paths(a_slice(**spec)) == paths


@pytest.mark.parametrize(
    ("fields", "reach"),
    [
        ({"nodeName": "node-7"}, Reach(node_name="node-7")),
        ({"allNodes": True}, Reach(all_nodes=True)),
        ({"nodeSelector": on_gpus()}, Reach(node_selector=(Term((Requirement("gpu", "Exists"),)),))),
    ],
)
def test_device_is_reached_by_its_own_selection_where_the_slice_says_so(fields: Raw, reach: Reach) -> None:
    (device,) = slice_of(a_slice(perDeviceNodeSelection=True, devices=[a_device(**fields)])).devices
    assert device.reach == reach
    assert error_paths(a_slice(devices=[a_device(**fields)])) == ["spec.devices[0]"]


def test_device_selector_may_have_several_terms() -> None:
    selector = {"nodeSelectorTerms": on_gpus()["nodeSelectorTerms"] * 2}
    assert slice_of(a_slice(perDeviceNodeSelection=True, devices=[a_device(nodeSelector=selector)]))


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({}, ["spec.devices[0]"]),
        ({"nodeName": ""}, ["spec.devices[0].nodeName", "spec.devices[0]"]),
        ({"allNodes": False}, ["spec.devices[0].allNodes", "spec.devices[0]"]),
        ({"nodeName": "a", "allNodes": True}, ["spec.devices[0]"]),
    ],
)
def test_device_without_exactly_one_selection_is_refused_where_the_slice_says_so(fields: Raw, paths: list[str]) -> None:
    assert error_paths(a_slice(perDeviceNodeSelection=True, devices=[a_device(**fields)])) == paths


@pytest.mark.parametrize(
    ("requirement", "field"),
    [
        ({"key": "a", "operator": "In"}, "values"),
        ({"key": "a", "operator": "NotIn", "values": []}, "values"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values"),
        ({"key": "a", "operator": "DoesNotExist", "values": ["x"]}, "values"),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, "values"),
        ({"key": "a", "operator": "Lt"}, "values"),
        ({"key": "a", "operator": "Near", "values": ["x"]}, "operator"),
        ({"key": "a"}, "operator"),
        ({"operator": "Exists"}, "key"),
        ({"key": "a/b/c", "operator": "Exists"}, "key"),
        ({"key": "a", "operator": "In", "values": ["x", "-"]}, "values[1]"),
    ],
)
def test_expression_of_a_node_selector_has_the_values_of_its_operator(requirement: Raw, field: str) -> None:
    path = f"spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].{field}"
    assert error_paths(a_slice(nodeSelector=terms(requirement))) == [path]


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "a", "operator": "NotIn", "values": ["x"]},
        {"key": "a", "operator": "DoesNotExist"},
        {"key": "example.com/a", "operator": "Gt", "values": ["1"]},
        {"key": "a", "operator": "Lt", "values": ["1"]},
    ],
)
def test_valid_expression_of_a_node_selector_is_kept(requirement: Raw) -> None:
    expected = Requirement(requirement["key"], requirement["operator"], tuple(requirement.get("values", ())))
    assert slice_of(a_slice(nodeSelector=terms(requirement))).reach.node_selector == (Term((expected,)),)


@pytest.mark.parametrize(
    ("requirement", "field"),
    [
        ({"key": "metadata.name", "operator": "Exists"}, "operator"),
        ({"key": "metadata.name", "operator": "In", "values": []}, "values"),
        ({"key": "metadata.name", "operator": "In", "values": ["a", "b"]}, "values"),
        ({"key": "metadata.name", "operator": "In", "values": ["A"]}, "values[0]"),
        ({"key": "metadata.uid", "operator": "In", "values": ["a"]}, "key"),
    ],
)
def test_field_of_a_node_selector_is_one_name_of_a_node(requirement: Raw, field: str) -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    assert error_paths(a_slice(nodeSelector=selector)) == [
        f"spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].{field}"
    ]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"driver": None}, ["spec.driver"]),
        ({"driver": "a/b"}, ["spec.driver"]),
        ({"pool": None}, ["spec.pool.name", "spec.pool.resourceSliceCount"]),
        ({"pool": {"name": "p", "resourceSliceCount": 0}}, ["spec.pool.resourceSliceCount"]),
        ({"pool": {"name": "p", "resourceSliceCount": 1, "generation": -1}}, ["spec.pool.generation"]),
        ({"pool": {"name": "p//q", "resourceSliceCount": 1}}, ["spec.pool.name"]),
        ({"partitionTypeAttribute": "size"}, ["spec.partitionTypeAttribute"]),
        ({"skipNodeOperations": ["Dance"]}, ["spec.skipNodeOperations[0]"]),
        ({"skipNodeOperations": ["*", "*"]}, ["spec.skipNodeOperations[1]"]),
        ({"skipNodeOperations": ["NodePrepareResources"]}, ["spec.skipNodeOperations"]),
        ({"devices": [], "sharedCounters": []}, ["spec"]),
        ({"sharedCounters": [{"counters": {"a": {"value": "1"}}}]}, ["spec.sharedCounters[0].name"]),
        ({"sharedCounters": [{"name": "s"}]}, ["spec.sharedCounters[0].counters"]),
        ({"sharedCounters": [{"name": "s", "counters": {"A": {"value": "1"}}}]}, ["spec.sharedCounters[0].counters"]),
        (
            {"sharedCounters": [{"name": "s", "counters": {"a": {"value": "1e20000"}}}]},
            ["spec.sharedCounters[0].counters[a].value"],
        ),
    ],
)
def test_slice_that_breaks_a_rule_is_refused(spec: Raw, paths: list[str]) -> None:
    assert error_paths(a_slice(**spec)) == paths


def test_valid_extras_of_a_slice_are_kept() -> None:
    counters = [{"name": "s", "counters": {"c": {"value": "7"}}}]
    decoded = slice_of(a_slice(sharedCounters=counters, skipNodeOperations=["NodePrepareResources", "*"]))
    assert decoded.counter_sets == (CounterSet("s", {"c": Q("7")}),)
    assert decoded.skip_node_operations == ("NodePrepareResources", "*")
    assert slice_of(a_slice(partitionTypeAttribute="gpu.example/size"))


def test_devices_and_counter_sets_without_names_lack_their_names_and_are_not_reported_to_be_alike() -> None:
    assert error_paths(a_slice(devices=[{}, {}])) == ["spec.devices[0].name", "spec.devices[1].name"]
    counters = {"counters": {"c": {"value": "1"}}}
    paths = ["spec.sharedCounters[0].name", "spec.sharedCounters[1].name"]
    assert error_paths(a_slice(sharedCounters=[counters, counters])) == paths


def test_pool_of_an_unchecked_slice_that_does_not_say_its_size_is_never_whole() -> None:
    found = decode(a_slice(pool={"name": "p"}), validate=False).object
    assert isinstance(found, Slice)
    assert (found.slice_count, found.generation) == (0, 0)


def test_slice_without_a_spec_is_refused() -> None:
    raw = a_slice()
    del raw["spec"]
    assert error_paths(raw) == ["spec"]


def test_two_devices_or_counter_sets_of_one_name_are_refused() -> None:
    assert error_paths(a_slice(devices=[a_device("a"), a_device("b"), a_device("a")])) == ["spec.devices[2]"]
    counter_set = {"name": "s", "counters": {"c": {"value": "1"}}}
    assert error_paths(a_slice(sharedCounters=[counter_set, counter_set])) == ["spec.sharedCounters[1]"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": None}, "name"),
        ({"name": "GPU"}, "name"),
        ({"taints": [{"effect": "NoSchedule"}]}, "taints[0].key"),
        ({"taints": [a_taint(value="a b")]}, "taints[0].value"),
        ({"taints": [a_taint(effect="PreferNoSchedule")]}, "taints[0].effect"),
        ({"taints": [a_taint(effect=None)]}, "taints[0].effect"),
        ({"consumesCounters": [{"counters": {"c": {"value": "1"}}}]}, "consumesCounters[0].counterSet"),
        ({"consumesCounters": [{"counterSet": "s"}]}, "consumesCounters[0].counters"),
        (
            {"consumesCounters": [{"counterSet": "s", "counters": {"C": {"value": "1"}}}]},
            "consumesCounters[0].counters",
        ),
        (
            {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}] * 2},
            "consumesCounters[1]",
        ),
        ({"bindingConditions": ["a"]}, "bindingFailureConditions"),
        ({"bindingFailureConditions": ["a"]}, "bindingConditions"),
        ({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b"]}, "bindingConditions[1]"),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["b", "b"]}, "bindingFailureConditions[1]"),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["a"]}, "bindingFailureConditions[0]"),
        ({"bindingConditions": ["-"], "bindingFailureConditions": ["b"]}, "bindingConditions[0]"),
        ({"nodeAllocatableResources": {"example.com/a": {"overhead": {"perPod": "1"}}}}, "nodeAllocatableResources"),
        ({"nodeAllocatableResources": {"cpu": {"overhead": {}}}}, "nodeAllocatableResources[cpu].overhead"),
        *(
            (
                {"nodeAllocatableResources": {"cpu": {"overhead": {name: "-1"}}}},
                f"nodeAllocatableResources[cpu].overhead.{name}",
            )
            for name in ("perPod", "perContainer")
        ),
        *(
            (
                {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": amount}}}},
                "nodeAllocatableResources[cpu].mapping.deviceMultiplier",
            )
            for amount in ("0", "-1")
        ),
        (
            {
                "capacity": {"m": {"value": "1"}},
                "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "0"}}},
            },
            "nodeAllocatableResources[cpu].mapping.capacityMultiplier",
        ),
        ({"nodeAllocatableResources": {"cpu": {}}}, "nodeAllocatableResources[cpu]"),
        ({"nodeAllocatableResources": {"cpu": {"mapping": {}}}}, "nodeAllocatableResources[cpu].mapping"),
        (
            {"nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "1"}}}},
            "nodeAllocatableResources[cpu].mapping.capacityKey",
        ),
        (
            {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1", "capacityMultiplier": "1"}}}},
            "nodeAllocatableResources[cpu].mapping",
        ),
    ],
)
def test_device_that_breaks_a_rule_is_refused(fields: Raw, path: str) -> None:
    assert error_paths(a_slice_of(**fields)) == [f"spec.devices[0].{path}"]


@pytest.mark.parametrize("groups", [["g", "g"], ["G"]])
def test_compatibility_groups_are_unique_labels(groups: list[str]) -> None:
    consumption = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": groups}
    (path,) = error_paths(a_slice_of(consumesCounters=[consumption]))
    assert path.startswith("spec.devices[0].consumesCounters[0].compatibilityGroups[")


@pytest.mark.parametrize("effect", ["None", "NoSchedule", "NoExecute"])
def test_taint_has_one_of_three_effects(effect: str) -> None:
    (device,) = slice_of(a_slice_of(taints=[a_taint(effect=effect)])).devices
    assert device.taints[0].effect == effect


def shared(value: str, **policy: Any) -> Raw:
    return a_slice_of(allowMultipleAllocations=True, capacity={"m": {"value": value, "requestPolicy": policy}})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"default": "1Gi"}, RequestPolicy(Q("1Gi"))),
        ({"default": "2", "validValues": ["2", "4", "8"]}, RequestPolicy(Q("2"), (Q("2"), Q("4"), Q("8")))),
        (
            {"default": "1Gi", "validRange": {"min": "1Gi", "max": "7Gi", "step": "2Gi"}},
            RequestPolicy(Q("1Gi"), valid_range=ValidRange(Q("1Gi"), Q("7Gi"), Q("2Gi"))),
        ),
        ({"default": "5", "validRange": {"min": "5"}}, RequestPolicy(Q("5"), valid_range=ValidRange(Q("5")))),
        ({}, RequestPolicy()),
    ],
)
def test_valid_request_policy_is_kept(policy: Raw, expected: RequestPolicy) -> None:
    (device,) = slice_of(shared("10Gi", **policy)).devices
    assert device.policies == {"m": expected}


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"validValues": ["1"]}, ".default"),
        ({"validRange": {"min": "1"}}, ".default"),
        ({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}, ""),
        ({"default": "1", "validValues": ["2", "3"]}, ".validValues"),
        ({"default": "1", "validValues": ["1", "11"]}, ".validValues[1]"),
        ({"default": "1", "validValues": ["1", "3", "2"]}, ".validValues[2]"),
        ({"default": "1", "validValues": ["1", "1"]}, ".validValues[1]"),
        ({"default": "1", "validRange": {}}, ".validRange.min"),
        ({"default": "11", "validRange": {"min": "11"}}, ".validRange.min"),
        ({"default": "1", "validRange": {"min": "2"}}, ".validRange.min"),
        ({"default": "1", "validRange": {"min": "1", "max": "11"}}, ".validRange.max"),
        ({"default": "4", "validRange": {"min": "1", "max": "3"}}, ".validRange.max"),
        ({"default": "1", "validRange": {"min": "1", "step": "10"}}, ".validRange.step"),
        ({"default": "2", "validRange": {"min": "1", "step": "2"}}, ".validRange.step"),
        ({"default": "1", "validRange": {"min": "1", "max": "4", "step": "2"}}, ".validRange.step"),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, ".validRange.step"),
    ],
)
def test_request_policy_that_breaks_a_rule_is_refused(policy: Raw, path: str) -> None:
    assert error_paths(shared("10", **policy)) == [f"spec.devices[0].capacity[m].requestPolicy{path}"]


def test_range_whose_max_is_below_its_min_is_refused() -> None:
    paths = error_paths(shared("10", default="5", validRange={"min": "5", "max": "4"}))
    assert set(paths) == {"spec.devices[0].capacity[m].requestPolicy.validRange.max"}


def test_request_policy_needs_a_device_that_allows_multiple_allocations() -> None:
    raw = a_slice_of(capacity={"m": {"value": "10", "requestPolicy": {"default": "1"}}})
    assert error_paths(raw) == ["spec.devices[0].capacity[m].requestPolicy"]


def test_equal_parts_of_devices_are_shared() -> None:
    fields: Raw = {"attributes": {"model": {"string": "H200"}}, "capacity": {"memory": {"value": "80Gi"}}}
    first, second = slice_of(a_slice(devices=[a_device("a", **fields), a_device("b", **fields)])).devices
    assert first.attributes["model"] is second.attributes["model"]
    assert first.capacity is second.capacity
