import pytest

import cel
from allocator.gates import RELEASES, Features, UnknownGate
from tests.builders import kubernetes


@pytest.mark.parametrize(
    ("release", "gates"),
    [
        ("1.34", {"DRAAdminAccess", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus"}),
        (
            "1.36",
            {
                "DRAAdminAccess",
                "DRAConsumableCapacity",
                "DRADeviceBindingConditions",
                "DRADeviceTaints",
                "DRAExtendedResource",
                "DRAPartitionableDevices",
                "DRAPrioritizedList",
                "DRAResourceClaimDeviceStatus",
            },
        ),
        (
            "1.37",
            {
                "DRAAdminAccess",
                "DRAConsumableCapacity",
                "DRADeviceBindingConditions",
                "DRADeviceTaintRules",
                "DRADeviceTaints",
                "DRAExtendedResource",
                "DRAFractionalCapacityRange",
                "DRAPartitionableDevices",
                "DRAPrioritizedList",
                "DRAResourceClaimDeviceStatus",
                "StorageCapacityScoring",
                "VolumeLimitScaling",
            },
        ),
    ],
)
def test_defaults_of_a_release(release: str, gates: set[str]) -> None:
    assert set(Features.of(release).gates) == gates


def test_the_defaults_of_1_38_are_those_of_1_37() -> None:
    assert Features.of("1.38").gates == Features.of("1.37").gates


@pytest.mark.parametrize(
    ("gate", "stages"),
    [
        ("DRADeviceTaintRules", [None, ("alpha", False), ("beta", False), ("GA", True), ("GA", True, "locked")]),
        ("DRAConsumableCapacity", [("alpha", False), ("alpha", False), ("beta", True), ("beta", True), ("GA", True)]),
        ("DRAFractionalCapacityRange", [None, None, None, ("beta", True), ("GA", True)]),
        ("VolumeLimitScaling", [None, ("alpha", False), ("alpha", False), ("beta", True), ("beta", True)]),
    ],
)
def test_stage_of_a_gate_by_release(gate: str, stages: list[tuple[str, bool] | None]) -> None:
    found = [release.gates.get(gate) for release in RELEASES.values()]
    assert [one and (one.level, one.is_on, *(["locked"] if one.is_locked else [])) for one in found] == stages


def test_a_locked_gate_cannot_be_changed() -> None:
    with pytest.raises(UnknownGate, match=r"^Kubernetes 1\.38 has locked DRADeviceTaints to true: it cannot be false"):
        Features.of("1.38", {"DRADeviceTaints": False})
    assert Features.of("1.38", {"DRADeviceTaints": True}) == Features.of("1.38")
    assert not Features.of("1.37", {"DRADeviceTaints": False, "DRADeviceTaintRules": False}).has("DRADeviceTaints")


def test_the_allocator_that_1_38_chooses_by_default_knows_capacity_and_no_node_operations() -> None:
    for release in ("1.37", "1.38"):
        assert Features.of(release).knows_capacity
        assert not Features.of(release).knows_node_operations
    everything_off = {release: Features.with_gates(RELEASES[release], ()) for release in ("1.37", "1.38")}
    assert {release: one.knows_capacity for release, one in everything_off.items()} == {"1.37": False, "1.38": True}


def test_gates_of_the_plugins_choose_no_allocator() -> None:
    with_plugins = Features.with_gates(RELEASES["1.37"], {"StorageCapacityScoring", "VolumeLimitScaling"})
    assert not with_plugins.knows_capacity


def test_single_gates_go_on_top_of_the_defaults() -> None:
    features = Features.of("1.37", {"DRADerivedAttributes": True, "DRADeviceTaintRules": False})
    assert features.has("DRADerivedAttributes")
    assert not features.has("DRADeviceTaintRules")
    assert features.has("DRADeviceTaints")


def test_unknown_release_is_refused() -> None:
    with pytest.raises(KeyError, match=r"1\.33"):
        Features.of("1.33")


@pytest.mark.parametrize("gate", ["DRASomethingElse", "DRADerivedAttributes"])
def test_gate_that_the_release_does_not_have_is_refused_and_the_others_are_named(gate: str) -> None:
    with pytest.raises(UnknownGate, match=f"1.36 has no gate '{gate}'.*DRAAdminAccess, DRAConsumableCapacity"):
        Features.of("1.36", {gate: True})


@pytest.mark.parametrize(
    ("gate", "needed"),
    [
        ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        ("DRADeviceTaintRules", "DRADeviceTaints"),
    ],
)
def test_gate_that_needs_another_one_is_refused_without_it(gate: str, needed: str) -> None:
    with pytest.raises(UnknownGate, match=f"{gate} needs {needed}, which is off"):
        Features.of("1.36", {needed: False, gate: True})
    assert not Features.of("1.36", {needed: False, gate: False}).has(gate)


def test_one_gate_governs_taints_and_rules_until_1_35_splits_it() -> None:
    assert Features.of("1.34", {"DRADeviceTaints": True}).has("DRADeviceTaintRules")
    assert not Features.of("1.34", {"DRADeviceTaints": False}).has("DRADeviceTaintRules")
    assert not Features.of("1.35", {"DRADeviceTaints": True}).has("DRADeviceTaintRules")


def test_features_say_what_they_are() -> None:
    assert str(Features.of("1.34")) == (
        "Kubernetes 1.34: DRAAdminAccess, DRAPrioritizedList, DRAResourceClaimDeviceStatus"
    )
    everything_off = dict.fromkeys(RELEASES["1.34"].gates, False)
    assert str(Features.of("1.34", everything_off, is_strict=True)) == "Kubernetes 1.34, strict: no gate"


def test_features_are_values() -> None:
    assert kubernetes() == kubernetes()
    assert kubernetes().strictly() == kubernetes(is_strict=True)
    assert kubernetes() != kubernetes(DRADerivedAttributes=True)


def test_lists_have_an_environment_of_their_own_before_1_37() -> None:
    assert kubernetes("1.36").environment is cel.V1_36
    assert kubernetes("1.36", DRAListTypeAttributes=True).environment is cel.V1_36_LISTS
    assert kubernetes("1.37").environment is kubernetes("1.37", DRAListTypeAttributes=True).environment is cel.V1_37
    assert kubernetes("1.38").environment is kubernetes("1.38", DRAListTypeAttributes=True).environment is cel.V1_38
