from collections import Counter
from random import Random

import pytest

from tests.generators.devices import ATTRIBUTES, MAX_ENTRIES, Json, device

COUNT = 2000


@pytest.fixture(scope="module")
def many() -> list[Json]:
    rng = Random(1)  # noqa: S311
    return [device(rng) for _ in range(COUNT)]


def test_same_seed_gives_the_same_devices() -> None:
    first, second = Random(7), Random(7)  # noqa: S311
    assert [device(first) for _ in range(50)] == [device(second) for _ in range(50)]


def test_devices_keep_the_limits_of_the_api(many: list[Json]) -> None:
    for d in many:
        attributes = d.get("attributes", {})
        assert len(attributes) + len(d.get("capacity", {})) <= MAX_ENTRIES
        assert sum(len(v) if isinstance(v, list) else 1 for a in attributes.values() for v in a.values()) <= 48


def test_no_device_names_an_attribute_twice(many: list[Json]) -> None:
    for d in many:
        names = [n if "/" in n else f"{d['driver']}/{n}" for n in d.get("attributes", {})]
        assert len(names) == len(set(names))


def test_every_kind_of_attribute_occurs_often(many: list[Json]) -> None:
    kinds = Counter(kind for d in many for a in d.get("attributes", {}).values() for kind in a)
    assert set(kinds) == set(ATTRIBUTES.values())
    assert min(kinds.values()) > COUNT / 20


def test_odd_devices_occur_but_not_often(many: list[Json]) -> None:
    empty_attribute = sum(any(not a for a in d.get("attributes", {}).values()) for d in many)
    two_values = sum(any(len(a) > 1 for a in d.get("attributes", {}).values()) for d in many)
    without_any = sum(not d.get("attributes") and not d.get("capacity") for d in many)
    for occurrences in (empty_attribute, two_values, without_any):
        assert COUNT / 200 < occurrences < COUNT / 3
