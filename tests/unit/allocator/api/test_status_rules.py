"""The rules of a claim's status, and results in and out."""

import pytest

from allocator.api import allocation_to_v1, decode
from allocator.model import Allocation, Claim, DeviceResult, Requirement, ResultConfig, Term
from cel.values.quantity import Quantity
from tests.unit.allocator.api.raw_objects import (
    DRIVER,
    Raw,
    a_claim,
    a_condition,
    a_request,
    a_result,
    a_subrequest,
    an_allocation,
    error_paths,
    noted_paths,
    opaque,
)

SHARE = "00000000-1111-4222-8333-abcdefabcdef"
ON_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}
FULL = an_allocation(
    a_result(
        adminAccess=True,
        tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}],
        bindingConditions=["ready"],
        bindingFailureConditions=["broken"],
        shareID=SHARE,
        consumedCapacity={"memory": "1Gi", "cores": "0"},
        skipNodeOperations=["*"],
    ),
    config=[{"source": "FromClass", **opaque(mode="fast")}, {"source": "FromClaim", "requests": ["gpus"], **opaque()}],
    nodeSelector=ON_NODE,
    allocationTimestamp="2026-01-01T00:00:00Z",
)


def allocated(allocation: Raw, **status: object) -> Raw:
    return a_claim(a_request(), status={"allocation": allocation, **status})


def allocation_of(raw: Raw) -> Allocation:
    decoded = decode(raw)
    assert decoded.errors == ()
    assert isinstance(decoded.object, Claim)
    assert decoded.object.allocation is not None
    return decoded.object.allocation


def test_allocation_becomes_the_model() -> None:
    allocation = allocation_of(allocated(FULL))
    (result,) = allocation.results
    assert result.id == (DRIVER, "node-1", "gpu-0")
    assert (result.request, result.admin_access, result.share_id) == ("gpus", True, SHARE)
    assert result.tolerations[0].raw["tolerationSeconds"] == 5
    assert (result.binding_conditions, result.binding_failure_conditions) == (("ready",), ("broken",))
    assert result.consumed_capacity == {"memory": Quantity.parse("1Gi"), "cores": Quantity.parse("0")}
    assert result.skip_node_operations == ("*",)
    assert [entry.source for entry in allocation.config] == ["FromClass", "FromClaim"]
    assert allocation.node_selector == (Term(fields=(Requirement("metadata.name", "In", ("node-1",)),)),)
    assert allocation.allocation_timestamp == "2026-01-01T00:00:00Z"


def test_allocation_is_written_as_the_api_server_would() -> None:
    written = allocation_to_v1(allocation_of(allocated(FULL)))
    assert written == FULL
    assert list(written) == ["devices", "nodeSelector", "allocationTimestamp"]
    devices = written["devices"]
    assert isinstance(devices, dict)
    assert list(devices) == ["results", "config"]
    assert list(devices["results"][0]) == list(FULL["devices"]["results"][0])
    assert [list(entry) for entry in devices["config"]] == [["source", "opaque"], ["source", "requests", "opaque"]]


def test_what_is_absent_is_left_out() -> None:
    assert allocation_to_v1(Allocation()) == {"devices": {}}
    result = DeviceResult("r", "d.example", "p", "gpu-0")
    assert allocation_to_v1(Allocation((result,))) == {
        "devices": {"results": [{"request": "r", "driver": "d.example", "pool": "p", "device": "gpu-0"}]}
    }
    config = ResultConfig("FromClass", (), {})
    assert allocation_to_v1(Allocation(config=(config,))) == {"devices": {"config": [{"source": "FromClass"}]}}


def test_expressions_of_a_node_selector_are_written() -> None:
    term = Term(expressions=(Requirement("zone", "In", ("a", "b")), Requirement("gpu", "Exists")))
    assert allocation_to_v1(Allocation(node_selector=(term,)))["nodeSelector"] == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "gpu", "operator": "Exists"},
                ]
            }
        ]
    }


def test_result_may_name_a_subrequest() -> None:
    request = {"name": "r", "firstAvailable": [a_subrequest("large")]}
    raw = a_claim(request, status={"allocation": an_allocation(a_result(request="r/large"))})
    assert allocation_of(raw).results[0].request == "r/large"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"request": "other"}, "request"),
        ({"request": None}, "request"),
        ({"driver": ""}, "driver"),
        ({"pool": ""}, "pool"),
        ({"device": "A"}, "device"),
        ({"shareID": "1"}, "shareID"),
        ({"shareID": SHARE.upper()}, "shareID"),
        ({"bindingConditions": ["ready"]}, "bindingFailureConditions"),
        ({"consumedCapacity": {"memory": "much"}}, "consumedCapacity[memory]"),
    ],
)
def test_result_that_breaks_a_rule_is_refused(fields: Raw, path: str) -> None:
    raw = allocated(an_allocation(a_result(**fields)))
    assert error_paths(raw) == [f"status.allocation.devices.results[0].{path}"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({**opaque()}, "source"),
        ({"source": "FromPod", **opaque()}, "source"),
        ({"source": "FromClass"}, "opaque"),
        ({"source": "FromClaim", "requests": ["other"], **opaque()}, "requests[0]"),
    ],
)
def test_result_config_that_breaks_a_rule_is_refused(entry: Raw, path: str) -> None:
    raw = allocated(an_allocation(a_result(), config=[entry]))
    assert error_paths(raw) == [f"status.allocation.devices.config[0].{path}"]


def test_node_selector_of_an_allocation_is_held_to_its_rules() -> None:
    raw = allocated(an_allocation(a_result(), nodeSelector={"nodeSelectorTerms": []}))
    assert error_paths(raw) == ["status.allocation.nodeSelector.nodeSelectorTerms"]


@pytest.mark.parametrize(
    ("consumers", "paths"),
    [
        ([{}], ["[0].resource", "[0].name"]),
        ([{"resource": "pods", "name": "a", "uid": "1"}, {"resource": "pods", "name": "b", "uid": "1"}], ["[1]"]),
    ],
)
def test_consumer_that_breaks_a_rule_is_refused(consumers: list[Raw], paths: list[str]) -> None:
    raw = allocated(an_allocation(a_result()), reservedFor=consumers)
    assert error_paths(raw) == [f"status.reservedFor{path}" for path in paths]


def test_consumer_without_a_uid_is_noted() -> None:
    raw = allocated(an_allocation(a_result()), reservedFor=[{"resource": "pods", "name": "a"}])
    assert noted_paths(raw) == ["status.reservedFor[0].uid"]


def test_claim_is_reserved_only_when_it_is_allocated() -> None:
    raw = a_claim(a_request(), status={"reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]})
    assert error_paths(raw) == ["status.reservedFor"]


def a_status(**fields: object) -> Raw:
    return {"driver": DRIVER, "pool": "node-1", "device": "gpu-0", **fields}


@pytest.mark.parametrize(
    ("statuses", "path"),
    [
        ([a_status(device="gpu-1")], "[0]"),
        ([a_status(shareID=SHARE)], "[0]"),
        ([a_status(), a_status()], "[1]"),
        ([a_status(data=[1])], "[0].data"),
        ([a_status(networkData={"ips": ["10.0.0.1/24", "10.0.0.1/24"]})], "[0].networkData.ips[1]"),
    ],
)
def test_device_status_that_breaks_a_rule_is_noted(statuses: list[Raw], path: str) -> None:
    assert noted_paths(allocated(an_allocation(a_result()), devices=statuses)) == [f"status.devices{path}"]


@pytest.mark.parametrize("field", ["driver", "pool", "device"])
@pytest.mark.parametrize("name", [None, ""])
def test_device_status_names_its_device(field: str, name: str | None) -> None:
    status = a_status(**{field: name})
    found = noted_paths(allocated(an_allocation(a_result()), devices=[status]))
    assert found == [f"status.devices[0].{field}", "status.devices[0]"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": None}, "type"),
        ({"type": "-"}, "type"),
        ({"status": "Maybe"}, "status"),
        ({"reason": ""}, "reason"),
        ({"reason": "a:"}, "reason"),
        ({"reason": "1a"}, "reason"),
        ({"lastTransitionTime": None}, "lastTransitionTime"),
        ({"observedGeneration": -1}, "observedGeneration"),
    ],
)
def test_condition_of_a_device_status_that_breaks_a_rule_is_noted(fields: Raw, field: str) -> None:
    status = a_status(conditions=[a_condition(**fields)])
    raw = allocated(an_allocation(a_result()), devices=[status])
    assert noted_paths(raw) == [f"status.devices[0].conditions[0].{field}"]


def test_time_of_a_device_status_that_is_none_is_refused() -> None:
    status = a_status(conditions=[a_condition(lastTransitionTime="yesterday")])
    found = error_paths(allocated(an_allocation(a_result()), devices=[status]))
    assert found == ["status.devices[0].conditions[0].lastTransitionTime"]


def test_conditions_of_one_type_are_noted() -> None:
    raw = allocated(an_allocation(a_result()), devices=[a_status(conditions=[a_condition(), a_condition()])])
    assert noted_paths(raw) == ["status.devices[0].conditions[1].type"]


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "10.0.0.1/33",
        "10.0.0.1/255.255.255.0",
        "010.0.0.1/24",
        "::FF/64",
        "::ffff:1.2.3.4/120",
        "fe80::1%a/64",
    ],
)
def test_address_of_a_device_status_is_canonical(address: str) -> None:
    raw = allocated(an_allocation(a_result()), devices=[a_status(networkData={"ips": [address]})])
    assert noted_paths(raw) == ["status.devices[0].networkData.ips[0]"]


def test_valid_device_status_passes() -> None:
    status = a_status(
        shareID=SHARE,
        conditions=[a_condition(), a_condition(type="a/b", status="Unknown", reason="A_,:b", observedGeneration=0)],
        data={"any": ["thing"]},
        networkData={"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"], "hardwareAddress": "00:00"},
    )
    decoded = decode(allocated(an_allocation(a_result(shareID=SHARE)), devices=[status]))
    assert (decoded.errors, decoded.notes) == ((), ())
    assert decoded.warnings == ()
