from allocator.model import Device
from tests.builders import a_claim, a_device, a_request, a_slice, a_snapshot, all_devices, kubernetes
from tests.unit.allocator.answers import decide, funnel, names, results, shortage


def waiting(name: str = "w") -> Device:
    return a_device(name, binding_conditions=("ready", "attached"), binding_failure_conditions=("failed",))


def test_conditions_are_copied_into_the_result() -> None:
    outcome = decide(a_snapshot(a_slice(waiting(), "x")), a_claim(a_request(count=2)))
    assert [(r.binding_conditions, r.binding_failure_conditions) for r in results(outcome)] == [
        (("ready", "attached"), ("failed",)),
        ((), ()),
    ]


def test_conditions_of_failure_are_copied_also_where_they_stand_alone() -> None:
    slices = a_slice(a_device("x", binding_failure_conditions=("failed",)))
    on, off = kubernetes(), kubernetes(DRADeviceBindingConditions=False)
    copied = [results(decide(a_snapshot(slices, features=features), a_claim())) for features in (on, off)]
    assert [result.binding_failure_conditions for (result,) in copied] == [("failed",), ()]


def test_device_with_conditions_is_taken_in_its_place_in_the_pool() -> None:
    assert names(decide(a_snapshot(a_slice(waiting(), "x")), a_claim())) == ["w"]


def test_device_without_conditions_in_another_pool_goes_first() -> None:
    slices = a_slice(waiting("a"), pool="a"), a_slice("b", pool="b")
    assert names(decide(a_snapshot(*slices), a_claim(a_request(count=2)))) == ["b", "a"]


def test_device_with_conditions_is_left_out_without_the_gate() -> None:
    off = kubernetes(DRADeviceBindingConditions=False)
    snapshot = a_snapshot(a_slice(waiting(), "x"), features=off)
    assert names(decide(snapshot, a_claim())) == ["x"]
    found = shortage(decide(snapshot, a_claim(a_request(count=2))))
    assert funnel(found) == [("have binding conditions, and DRADeviceBindingConditions is off", ["w"])]


def test_all_does_without_devices_with_conditions_without_the_gate() -> None:
    off = kubernetes(DRADeviceBindingConditions=False)
    assert names(decide(a_snapshot(a_slice(waiting(), "x"), features=off), a_claim(all_devices()))) == ["x"]
    assert names(decide(a_snapshot(a_slice(waiting(), "x")), a_claim(all_devices()))) == ["w", "x"]


def test_selectors_do_not_look_at_devices_that_are_left_out() -> None:
    off = kubernetes(DRADeviceBindingConditions=False)
    fine = a_device("x", {"ok": True})
    claim = a_claim(a_request("r", 1, 'device.attributes["gpu.example"].ok'))
    assert names(decide(a_snapshot(a_slice(waiting(), fine), features=off), claim)) == ["x"]
