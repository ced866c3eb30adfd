from random import Random

import numpy as np
import pytest

from allocator.bits import bits, without
from scheduler.state.masks import flags_of, mask_of, numbers_of


@pytest.mark.parametrize("mask", [0, 1, 0b1011, 1 << 7, 1 << 8, 1 << 4999, (1 << 5000) - 1])
def test_a_set_of_nodes_is_the_same_in_both_forms(mask: int) -> None:
    assert mask_of(flags_of(mask, 5000)) == mask
    assert [int(number) for number in numbers_of(mask)] == [n for n in range(5000) if mask >> n & 1]


@pytest.mark.parametrize("each", [1, 2, 70, 700, 20_000])
def test_the_numbers_of_a_set_are_found_however_many_there_are(each: int) -> None:
    draw = Random(each)  # noqa: S311 - not for secrets
    numbers = sorted(number for number in range(30_000) if not draw.randrange(each))
    mask = sum(1 << number for number in numbers)
    assert list(bits(mask)) == numbers
    assert numbers_of(mask).tolist() == numbers


@pytest.mark.parametrize(("mask", "others"), [(0b1110, 0b0110), (0b1, 0), (0, 0b1), (0b11, ~0b1)])
def test_nodes_without_others_are_what_the_complement_leaves(mask: int, others: int) -> None:
    assert without(mask, others) == mask & ~others


def test_the_least_number_is_the_lowest_bit() -> None:
    assert mask_of(np.array([True, False, False, True])) == 0b1001
