from collections.abc import Callable
from copy import deepcopy
from random import Random

import pytest

from tests.generators.cases import cases
from tests.generators.draw import Json
from tests.generators.unchecked import CHANGES, unchecked_cases


def test_same_seed_gives_the_same_cases() -> None:
    first, second = (unchecked_cases(Random(3), 50) for _ in range(2))  # noqa: S311
    assert first == second


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_makes_other_cases_of_some(change: Callable[[Random, Json], None]) -> None:
    rng = Random(1)  # noqa: S311
    many = cases(rng, 200)
    changed = deepcopy(many)
    for one in changed:
        change(rng, one)
    assert sum(old != new for old, new in zip(many, changed, strict=True)) > 10
