import pytest

from allocator.gates import RELEASES, Features
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.output.check_results import switched_off
from tests.builders import kubernetes
from tests.unit.scheduler.manifests import RESOURCE, Json, a_claim, a_cluster, a_request, a_slice, an_object
from tests.unit.scheduler.scenario import inventory_of

TAINT = {"key": "k", "effect": "NoSchedule"}
CONSUMES = {"counterSet": "set", "counters": {"c": {"value": "1"}}}
ALL_OFF = kubernetes("1.37", **dict.fromkeys(RELEASES["1.37"].gates, False))


def a_rule() -> Json:
    return {**an_object(RESOURCE, "DeviceTaintRule", "r"), "spec": {"deviceSelector": {}, "taint": TAINT}}


def a_slice_of_devices_with(**fields: object) -> Json:
    return a_slice("s", devices=[{"name": f"gpu-{number}", **fields} for number in range(2)])


def counters() -> Json:
    raw = a_slice("s", sharedCounters=[{"name": "set", "counters": {"c": {"value": "1"}}}])
    del raw["spec"]["devices"]
    return raw


def reported(raw: Json, features: Features) -> list[str]:
    return [line.removeprefix("warning: ") for line in switched_off(inventory_of(raw), features)]


@pytest.mark.parametrize(
    ("gate", "raw", "effect"),
    [
        ("DRADeviceTaintRules", a_rule(), "DeviceTaintRules are ignored (1 rule)"),
        ("DRADeviceTaints", a_slice_of_devices_with(taints=[TAINT]), "taints of devices are ignored (2 devices)"),
        (
            "DRAPartitionableDevices",
            counters(),
            "slices with counters or with devices of several nodes are ignored (1 slice)",
        ),
        (
            "DRAPartitionableDevices",
            a_slice_of_devices_with(consumesCounters=[CONSUMES]),
            "devices that consume counters are not allocated (2 devices)",
        ),
        (
            "DRADeviceBindingConditions",
            a_slice_of_devices_with(bindingConditions=["a"], bindingFailureConditions=["b"]),
            "devices with binding conditions are not allocated (2 devices)",
        ),
        (
            "DRAOptionalNodeOperations",
            a_slice("s", skipNodeOperations=["*"]),
            "devices of slices with skipNodeOperations are not allocated (1 slice)",
        ),
        (
            "DRADeviceCompatibilityGroups",
            a_slice_of_devices_with(consumesCounters=[{**CONSUMES, "compatibilityGroups": ["a"]}]),
            "slices with compatibility groups are ignored (1 slice)",
        ),
        (
            "DRAConsumableCapacity",
            a_slice_of_devices_with(allowMultipleAllocations=True),
            "devices are not shared (2 devices)",
        ),
        (
            "DRAListTypeAttributes",
            a_slice_of_devices_with(attributes={"a": {"ints": [1]}}),
            "selectors and constraints cannot read lists in attributes (2 devices)",
        ),
        (
            "DRANodeAllocatableResources",
            a_slice_of_devices_with(nodeAllocatableResources={"cpu": {"mapping": {"deviceMultiplier": "1"}}}),
            "resources that devices take from their node are ignored (2 devices)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("DRA") else "",
)
def test_what_the_input_has_for_a_gate_that_is_off_is_reported(gate: str, raw: Json, effect: str) -> None:
    line = f"{gate} is off (--feature-gates {gate}=true turns it on): {effect}"
    assert [one for one in reported(raw, ALL_OFF) if one.startswith(gate)] == [line]
    needed = {"DRADeviceBindingConditions": {"DRAResourceClaimDeviceStatus": True}}
    assert reported(raw, Features.of("1.37", {gate: True, **needed.get(gate, {})})) == []


def test_a_gate_that_the_release_does_not_have_is_reported_as_such() -> None:
    raw = a_slice_of_devices_with(consumesCounters=[{**CONSUMES, "compatibilityGroups": ["a"]}])
    (line,) = reported(raw, Features.of("1.36"))
    gate = "DRADeviceCompatibilityGroups is not in Kubernetes 1.36 (it is in that of --kubernetes 1.37): "
    assert line.startswith(gate)


def of_release(raw: Json, features: Features) -> Inventory:
    return take_inventory([RawObject(Place("input"), raw)], features=features)


def lines_on(raw: Json, features: Features) -> list[str]:
    return list(switched_off(of_release(raw, features), features))


def combined(*, count: int = 2) -> Json:
    return a_slice("s", count=count, sharedCounters=[{"name": "set", "counters": {"c": {"value": "1"}}}])


def test_a_slice_with_counters_and_devices_is_reported_where_only_its_counters_are_read() -> None:
    on = {"DRAPartitionableDevices": True}
    before, after, refusing = (Features.of(release, on) for release in ("1.34", "1.35", "1.36"))
    assert lines_on(combined(), before) == []
    [line] = lines_on(combined(), after)
    ignored = "warning: devices in slices with sharedCounters are ignored (2 devices of 1 slice)"
    assert line == f"{ignored}: only Kubernetes 1.34 reads both, later ones refuse such a slice"
    (error,) = of_release(combined(), refusing).errors
    assert error.message == "spec: must not set both devices and sharedCounters: only Kubernetes 1.34 reads both"


def test_an_input_without_it_is_silent_whatever_is_off() -> None:
    assert list(switched_off(inventory_of(*a_cluster()), ALL_OFF)) == []


def test_the_gate_that_governs_rules_in_1_34_is_named() -> None:
    off = "DRADeviceTaints is off (--feature-gates DRADeviceTaints=true turns it on)"
    assert reported(a_rule(), Features.of("1.34")) == [f"{off}: DeviceTaintRules are ignored (1 rule)"]


def test_attributes_that_a_claim_derives_are_reported_where_their_gate_is_off() -> None:
    claim = a_claim("c", a_request(derivedAttributes=[{"name": "example.com/half", "expression": "1"}]))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": "example.com/half"}]
    [line] = lines_on(claim, Features.of("1.38"))
    assert line.endswith(": the API server drops derivedAttributes (1 request)")
    assert lines_on(claim, Features.of("1.38", {"DRADerivedAttributes": True})) == []
