from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
import pytest

from tests.generators.cases import cases
from tests.generators.draw import ALL, BASIC, FEATURES, Json
from tests.generators.pools import MAX_DEVICES

COUNT = 1500

# What a case about the feature holds.
FIELDS = {
    "AdminAccess": ["adminAccess"],
    "CompatibilityGroups": ["compatibilityGroups"],
    "ConsumableCapacity": ["allowMultipleAllocations", "requestPolicy", "validRange", "validValues", "shareID"],
    "DerivedAttributes": ["derivedAttributes"],
    "DeviceBindingAndStatus": ["bindingConditions", "bindingFailureConditions", "bindsToNode"],
    "DeviceTaints": ["taints", "tolerations"],
    "FractionalCapacityRange": ["step"],
    "ListTypeAttributes": ["strings", "ints"],
    "OptionalNodeOperations": ["skipNodeOperations", "declaredFeatures"],
    "PartitionableDevices": ["sharedCounters", "consumesCounters", "perDeviceNodeSelection"],
    "PrioritizedList": ["firstAvailable"],
}
SHARED_FIELDS = {"step"}  # of policies with whole numbers too
BASIC_FIELDS = ["allNodes", "nodeName", "nodeSelector", "matchAttribute", "distinctAttribute", "config", "selectors"]


@pytest.fixture(scope="module")
def many() -> list[Json]:
    return cases(Random(1), COUNT)  # noqa: S311


def holding(many: list[Json], field: str) -> int:
    return sum(f'"{field}":'.encode() in orjson.dumps(case) for case in many)


def devices(case: Json) -> Iterator[Json]:
    for one in case["slices"]:
        yield from one["spec"].get("devices", ())


def values(json: Any, key: str) -> Iterator[Any]:
    """All values of a key at any depth."""
    inner = json.values() if isinstance(json, dict) else json if isinstance(json, list) else ()
    if isinstance(json, dict) and key in json:
        yield json[key]
    for value in inner:
        yield from values(value, key)


def test_same_seed_gives_the_same_cases() -> None:
    first, second = (cases(Random(3), 50) for _ in range(2))  # noqa: S311
    assert first == second


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_used_and_switched_on_often(many: list[Json], feature: str) -> None:
    assert COUNT / 3 < sum(case["features"][feature] for case in many) < COUNT * 0.9
    for field in FIELDS[feature]:
        assert holding(many, field) > COUNT / 30, field


@pytest.mark.parametrize("field", BASIC_FIELDS)
def test_every_basic_field_is_used_often(many: list[Json], field: str) -> None:
    assert holding(many, field) > COUNT / 10


@pytest.mark.parametrize("feature", FEATURES)
def test_features_are_met_while_they_are_off(many: list[Json], feature: str) -> None:
    off = [case for case in many if not case["features"][feature]]
    assert holding(off, FIELDS[feature][0]) > 0


@pytest.mark.parametrize("feature", FEATURES)
def test_case_holds_no_field_of_a_feature_that_was_not_asked_for(feature: str) -> None:
    basic = cases(Random(2), 300, BASIC)  # noqa: S311
    assert [field for field in FIELDS[feature] if holding(basic, field)] == []
    alone = cases(Random(2), 300, [feature])  # noqa: S311
    others = {field for other in FEATURES for field in FIELDS[other]} - {*FIELDS[feature], *SHARED_FIELDS}
    assert [field for field in sorted(others) if holding(alone, field)] == []


def test_modes_and_counts_vary(many: list[Json]) -> None:
    modes = list(values([case["claims"] for case in many], "allocationMode"))
    assert modes.count("All") > len(modes) / 20
    assert set(values([case["claims"] for case in many], "count")) == {1, 2, 3}


def test_number_of_claims_and_requests_varies(many: list[Json]) -> None:
    assert {len(case["claims"]) for case in many} == {1, 2, 3}
    requests = {len(claim["spec"]["devices"]["requests"]) for case in many for claim in case["claims"]}
    assert requests == {1, 2, 3}


def test_cases_are_small(many: list[Json]) -> None:
    for case in many:
        assert 1 <= len(case["nodes"]) <= 3
        current = sum(1 for _ in devices(case))
        obsolete = len({(s["spec"]["driver"], s["spec"]["pool"]["name"]) for s in case["slices"]})
        assert current <= MAX_DEVICES + obsolete


def test_slices_of_a_case_have_names_of_their_own(many: list[Json]) -> None:
    for case in many:
        names = [one["metadata"]["name"] for one in case["slices"]]
        assert len(names) == len(set(names))


def test_slices_say_in_one_way_which_nodes_reach_them(many: list[Json]) -> None:
    ways = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    for case in many:
        for one in case["slices"]:
            assert sum(way in one["spec"] for way in ways) == 1
            for device in one["spec"].get("devices", ()):
                per_device = "perDeviceNodeSelection" in one["spec"]
                assert sum(way in device for way in ways[:3]) == per_device


def test_pools_are_incomplete_obsolete_or_invalid_now_and_then(many: list[Json]) -> None:
    odd = {"count": 0, "generations": 0, "names": 0}
    for case in many:
        pools: dict[tuple[str, str], list[Json]] = {}
        for one in case["slices"]:
            pools.setdefault((one["spec"]["driver"], one["spec"]["pool"]["name"]), []).append(one["spec"])
        for specs in pools.values():
            newest = max(spec["pool"]["generation"] for spec in specs)
            current = [spec for spec in specs if spec["pool"]["generation"] == newest]
            names = [device["name"] for spec in current for device in spec.get("devices", ())]
            odd["count"] += len(current) != current[0]["pool"]["resourceSliceCount"]
            odd["generations"] += len(current) != len(specs)
            odd["names"] += len(names) != len(set(names))
    assert min(odd.values()) > COUNT / 100, odd


def test_what_is_in_use_is_mostly_published(many: list[Json]) -> None:
    published = {"yes": 0, "no": 0}
    for case in many:
        names = {
            (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
            for one in case["slices"]
            for device in one["spec"].get("devices", ())
        }
        for device in case["allocatedState"]["allocatedDevices"]:
            published["yes" if tuple(device.values()) in names else "no"] += 1
    assert published["yes"] > 10 * published["no"] > 0


def test_all_aspects_are_named_once() -> None:
    assert len(set(ALL)) == len(ALL)
