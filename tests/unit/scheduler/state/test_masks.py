import numpy as np
import pytest

from scheduler.state.masks import flags_of, mask_of, numbers_of


@pytest.mark.parametrize("mask", [0, 1, 0b1011, 1 << 7, 1 << 8, 1 << 4999, (1 << 5000) - 1])
def test_a_set_of_nodes_is_the_same_in_both_forms(mask: int) -> None:
    assert mask_of(flags_of(mask, 5000)) == mask
    assert [int(number) for number in numbers_of(mask)] == [n for n in range(5000) if mask >> n & 1]


def test_the_least_number_is_the_lowest_bit() -> None:
    assert mask_of(np.array([True, False, False, True])) == 0b1001
