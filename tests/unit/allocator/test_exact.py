"""What is the same for a decision, though Python's == would take one for the other."""

import pytest

from allocator.memo import exact, is_exactly
from allocator.model import DeviceID
from cel.values.quantity import Quantity

SHARED = ("the same object",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (("a", 1), ("a", True)),
        ({"a": 1}, {"a": True}),
        ({"a": SHARED}, {"b": SHARED}),
        ({"a": SHARED}, {"a": SHARED, "b": SHARED}),
        ((SHARED,), (SHARED, SHARED)),
        (("a",), ["a"]),
        (Quantity.parse("1024"), Quantity.parse("1Ki")),
        (DeviceID("d", "p", "1"), DeviceID("d", "p", "2")),
    ],
)
def test_what_differs_in_type_key_or_spelling_is_not_the_same(one: object, other: object) -> None:
    assert not is_exactly(one, other)
    assert exact(one) != exact(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1),
        (("a", 1), ("a", 1)),
        ({"a": ["x"]}, {"a": ["x"]}),
        (Quantity.parse("1Ki"), Quantity.parse("1Ki")),
        (DeviceID("d", "p", "1"), DeviceID("d", "p", "1")),
    ],
)
def test_what_is_made_alike_is_the_same(one: object, other: object) -> None:
    assert is_exactly(one, other)
    assert exact(one) == exact(other)
