import pytest

from allocator.features.device_taints import tolerates
from allocator.model import Taint, Toleration
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_request,
    a_slice,
    a_snapshot,
    all_devices,
    distinct,
    kubernetes,
)
from tests.unit.allocator.answers import blocked, decide, funnel, names, shortage

NO_SCHEDULE = Taint("maintenance", "planned", "NoSchedule")
NO_EXECUTE = Taint("broken", "", "NoExecute")


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("maintenance", "Equal", "planned", "NoSchedule"),
        Toleration("maintenance", "", "planned"),
        Toleration("maintenance", "Exists"),
        Toleration("maintenance", "Exists", "whatever"),
        Toleration("", "Exists"),
        Toleration("", "Exists", "", "NoSchedule"),
        Toleration("", "Equal", "planned"),
    ],
)
def test_toleration_matches(toleration: Toleration) -> None:
    assert tolerates([toleration], NO_SCHEDULE)


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("maintenance", "Equal", "other"),
        Toleration("maintenance"),
        Toleration("other", "Exists"),
        Toleration("maintenance", "Exists", "", "NoExecute"),
        Toleration("maintenance", "In", "planned"),
        Toleration("Maintenance", "Exists"),
    ],
)
def test_toleration_does_not_match(toleration: Toleration) -> None:
    assert not tolerates([toleration], NO_SCHEDULE)


def test_empty_value_is_a_value() -> None:
    assert tolerates([Toleration("broken")], NO_EXECUTE)
    assert not tolerates([Toleration("broken", "Equal", "x")], NO_EXECUTE)


def test_one_of_several_tolerations_is_enough_and_none_is_none() -> None:
    assert tolerates([Toleration("other", "Exists"), Toleration("broken", "Exists")], NO_EXECUTE)
    assert not tolerates([], NO_EXECUTE)


@pytest.mark.parametrize("taint", [NO_SCHEDULE, NO_EXECUTE])
def test_tainted_device_is_skipped_unless_tolerated(taint: Taint) -> None:
    snapshot = a_snapshot(a_slice(a_device("x", taints=(taint,)), "y"))
    assert names(decide(snapshot, a_claim())) == ["y"]
    assert names(decide(snapshot, a_claim(a_request(tolerations=(Toleration(taint.key, "Exists"),))))) == ["x"]


def test_each_taint_has_to_be_tolerated() -> None:
    snapshot = a_snapshot(a_slice(a_device("x", taints=(NO_SCHEDULE, NO_EXECUTE)), "y"))
    one, both = (Toleration("maintenance", "Exists"),), (Toleration(operator="Exists"),)
    assert names(decide(snapshot, a_claim(a_request(tolerations=one)))) == ["y"]
    assert names(decide(snapshot, a_claim(a_request(tolerations=both)))) == ["x"]


@pytest.mark.parametrize("effect", ["None", "", "PreferNoSchedule", "noschedule", "Evict"])
def test_other_effects_keep_nobody_away(effect: str) -> None:
    snapshot = a_snapshot(a_slice(a_device("x", taints=(Taint("k", effect=effect),)), "y"))
    assert names(decide(snapshot, a_claim())) == ["x"]


def test_tolerations_are_those_of_each_request() -> None:
    snapshot = a_snapshot(a_slice(a_device("x", taints=(NO_SCHEDULE,)), "y"))
    tolerant = a_request("tolerant", tolerations=(Toleration("maintenance", "Exists"),))
    assert names(decide(snapshot, a_claim(a_request("plain"), tolerant))) == ["y", "x"]


def test_all_fails_while_one_of_the_devices_is_tainted() -> None:
    snapshot = a_snapshot(a_slice(a_device("x", taints=(NO_SCHEDULE,)), "y"))
    assert funnel(blocked(decide(snapshot, a_claim(all_devices())))) == [
        ("are tainted maintenance=planned:NoSchedule", ["x"])
    ]


def test_funnel_has_a_stage_for_each_taint() -> None:
    members = [
        a_device("a", taints=(NO_SCHEDULE,)),
        a_device("b", taints=(NO_EXECUTE,)),
        a_device("c", taints=(NO_SCHEDULE,)),
    ]
    assert funnel(shortage(decide(a_snapshot(a_slice(*members)), a_claim()))) == [
        ("are tainted maintenance=planned:NoSchedule", ["a", "c"]),
        ("are tainted broken:NoExecute", ["b"]),
    ]


def test_taints_do_not_matter_without_the_gate() -> None:
    off = kubernetes(DRADeviceTaints=False, DRADeviceTaintRules=False)
    snapshot = a_snapshot(a_slice(a_device("x", taints=(NO_SCHEDULE,))), features=off)
    assert names(decide(snapshot, a_claim())) == ["x"]


def test_value_of_a_tainted_device_is_not_used_up() -> None:
    members = [
        a_device("x", {"numa": 0}, taints=(NO_SCHEDULE,)),
        a_device("y", {"numa": 0}),
        a_device("z", {"numa": 1}),
    ]
    claim = a_claim(a_request(count=2), constraints=[distinct(f"{DRIVER}/numa")])
    assert names(decide(a_snapshot(a_slice(*members)), claim)) == ["y", "z"]
