import pytest

from allocator.model import Slice, Taint
from scheduler.state.taints import tainted
from tests.unit.scheduler.manifests import DRIVER, RESOURCE, Json, a_cluster, a_pod, a_slice, an_object
from tests.unit.scheduler.scenario import inventory_of, run

TAINT = Taint("broken", "", "NoExecute")


def a_rule(name: str = "rule", **selector: str) -> Json:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoExecute"}}
    return {**an_object(RESOURCE, "DeviceTaintRule", name), "spec": spec}


def without_selector() -> Json:
    rule = a_rule()
    del rule["spec"]["deviceSelector"]
    return rule


def slices_after(*objects: Json) -> list[Slice]:
    inventory = inventory_of(*objects)
    return tainted(inventory.slices, inventory.taint_rules)


def tainted_devices(*objects: Json) -> list[str]:
    return [device.name for slice_ in slices_after(*objects) for device in slice_.devices if TAINT in device.taints]


@pytest.mark.parametrize(
    ("selector", "devices"),
    [
        ({"driver": DRIVER, "pool": "node-1", "device": "gpu-1"}, ["gpu-1"]),
        ({"device": "gpu-1"}, ["gpu-1"]),
        ({"driver": DRIVER}, ["gpu-0", "gpu-1"]),
        ({"pool": "node-1"}, ["gpu-0", "gpu-1"]),
        ({}, ["gpu-0", "gpu-1"]),
        ({"driver": "other.example"}, []),
        ({"pool": "node-2"}, []),
        ({"device": "gpu-9"}, []),
        ({"driver": "other.example", "device": "gpu-1"}, []),
    ],
)
def test_a_rule_taints_the_devices_that_all_of_its_fields_select(selector: dict[str, str], devices: list[str]) -> None:
    assert tainted_devices(a_slice(), a_rule(**selector)) == devices


def test_a_rule_without_a_selector_taints_nothing() -> None:
    assert tainted_devices(a_slice(), without_selector()) == []


def test_taints_of_rules_come_after_those_of_the_driver() -> None:
    devices = [{"name": "gpu-0", "taints": [{"key": "own", "effect": "NoSchedule"}]}]
    (slice_,) = slices_after(a_slice(devices=devices), a_rule("r1"), a_rule("r2"))
    assert [taint.key for taint in slice_.devices[0].taints] == ["own", "broken", "broken"]


def test_slices_that_no_rule_touches_are_the_same_objects() -> None:
    inventory = inventory_of(a_slice(node="n1"), a_slice(node="n2"), a_rule(pool="n1"))
    after = tainted(inventory.slices, inventory.taint_rules)
    assert after[0] is not inventory.slices[0]
    assert after[1] is inventory.slices[1]


def test_a_device_that_a_rule_taints_is_not_allocated() -> None:
    objects = [*a_cluster(count=2), a_rule(device="gpu-0"), a_pod("p", template="one")]
    scenario = run(*objects, gates={"DRADeviceTaintRules": True})
    assert scenario.devices_of("p") == ["gpu-1"]


@pytest.mark.parametrize(("release", "devices"), [("1.34", ["gpu-1"]), ("1.35", ["gpu-0"])])
def test_the_gate_of_taints_governs_rules_in_1_34(release: str, devices: list[str]) -> None:
    objects = [*a_cluster(count=2), a_rule(device="gpu-0"), a_pod("p", template="one")]
    assert run(*objects, release=release, gates={"DRADeviceTaints": True}).devices_of("p") == devices
