"""What an API server stores keeps the bounds; one entry more does not, and the message says where."""

from typing import Any

import pytest

from allocator.api.decode import FIELDS_MAX, LEVELS_MAX, LISTS, TEXT_MAX, excess

RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}


def with_results(*results: Any) -> dict[str, Any]:
    return {"status": {"allocation": {"devices": {"results": list(results)}}}}


@pytest.mark.parametrize(("field", "most"), LISTS.items())
def test_list_may_have_as_many_entries_as_the_api_permits(field: str, most: int) -> None:
    claim: Any = {"spec": {"devices": {field: [{}] * most}}}
    assert excess(claim) is None
    claim["spec"]["devices"][field].append({})
    assert str(excess(claim)) == f"spec.devices.{field}: must not have more than {most} entries (got {most + 1})"


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (with_results(*[RESULT] * 32), ""),
        (with_results(*[0] * 33), "status.allocation.devices.results: must not have more than 32 entries (got 33)"),
        (
            with_results(RESULT, {**RESULT, "device": "x" * (TEXT_MAX + 1)}),
            "results[1].device: must not be longer",
        ),
        (with_results({"x" * (TEXT_MAX + 1): 0}), "a name must not be longer than"),
        (with_results({"consumedCapacity": {"x" * (TEXT_MAX + 1): "1"}}), "a name must not be longer than"),
        (with_results({str(number): 0 for number in range(FIELDS_MAX + 1)}), "results[0]: must not have more than 64"),
        (with_results({"tolerations": [{}] * 17}), "results[0].tolerations: must not have more than 16 entries"),
        ({"status": {"reservedFor": [{}] * 257}}, "status.reservedFor: must not have more than 256 entries"),
        ({"status": {"devices": [{"conditions": [0] * 257}]}}, "status.devices[0].conditions: must not have more than"),
        ({"spec": None, "status": 7}, ""),
        ({}, ""),
    ],
)
def test_excess_is_named_by_its_place(claim: dict[str, Any], told: str) -> None:
    found = excess(claim)
    assert told in str(found) if told else found is None


def test_nothing_is_nested_deeper_than_it_may_be() -> None:
    deep: Any = {}
    for _ in range(LEVELS_MAX + 1):
        deep = {"a": deep}
    assert f"must not have more than {LEVELS_MAX} levels" in str(excess(with_results(deep)))
