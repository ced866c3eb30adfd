"""`remove` is the exact inverse of `add`, whatever is held, in whatever order it is given back."""

from collections.abc import Iterable
from functools import partial

import pytest

from allocator.cluster.usage import Usage
from allocator.model import Claim
from tests.builders import an_allocated_claim
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instances import ABOUT, a_holding, an_instance

EACH = 20


def holdings(draw: Choices, about: str) -> list[Claim]:
    every = [device for slice_ in an_instance(draw, about).slices for device in slice_.devices]
    if not every:
        return []
    return [
        an_allocated_claim(
            *(
                a_holding(draw, frozenset((about,)), draw.pick(every), draw.pick(("s-0", "s-1")))
                for _ in range(draw.pick(range(4)))
            ),
            name=f"claim-{number}",
        )
        for number in range(4)
    ]


def without(usage: Usage, claims: Iterable[Claim]) -> Usage:
    fewer = usage.copy()
    fewer.remove(claims)
    return fewer


def check(claims: list[Claim]) -> None:
    for usage in (Usage(), Usage(has_shares=False)):
        full = usage.plus(claims)
        for number, claim in enumerate(claims):
            assert without(full, [claim]) == usage.plus([*claims[:number], *claims[number + 1 :]])
            assert without(full, [claim]).plus([claim]) == full
        assert without(full, claims) == without(full, reversed(claims)) == usage


@pytest.mark.parametrize("aspect", ABOUT)
def test_what_is_given_back_was_as_if_never_taken(aspect: str) -> None:
    Values(partial(holdings, about=aspect)).hold_for("usage", EACH, check)
