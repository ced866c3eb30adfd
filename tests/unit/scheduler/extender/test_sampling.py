"""How many of the nodes that can take a pod pass filter, and which."""

import pytest

from scheduler.extender.verbs import FEWEST, Sampling, nodes_to_find

EVERY_100 = (1 << 100) - 1


@pytest.mark.parametrize(
    ("nodes", "percent", "found"),
    [
        (0, 0, 0),
        (99, 0, 99),
        (99, 1, 99),
        (100, 0, 100),
        (500, 0, 230),
        (2_000, 0, 680),
        (5_000, 0, 500),
        (5_625, 0, 281),
        (100_000, 0, 5_000),
        (5_000, 1, FEWEST),
        (5_000, 30, 1_500),
        (5_000, 100, 5_000),
    ],
)
def test_enough_are_as_many_as_kube_scheduler_looks_for(nodes: int, percent: int, found: int) -> None:
    assert nodes_to_find(nodes, percent) == found


def test_so_few_nodes_pass_all() -> None:
    assert Sampling(1).is_enough(EVERY_100, 5_000)
    assert not Sampling(1).is_enough(EVERY_100 << 1 | 1, 5_000)
    assert Sampling(100).is_enough((1 << 5_000) - 1, 5_000)


def test_the_best_nodes_pass_first() -> None:
    best, next_best, worst = EVERY_100 << 200, EVERY_100 << 100, EVERY_100
    assert Sampling(1).passing([best, next_best, worst], 300) == best
    passed = Sampling(50).passing([best, next_best, worst], 300)
    assert passed & best == best
    assert (passed & next_best).bit_count() == 50
    assert not passed & worst


def test_only_the_best_nodes_pass_where_no_others_may() -> None:
    best, next_best, sampling = 0b1100, 0b0011, Sampling(only_best=True)
    assert sampling.passing([best, next_best], 4) == best
    assert not sampling.is_enough(best, 4)
    assert sampling.is_enough(0b0100, 4)
    assert Sampling(1, only_best=True).passing([EVERY_100 << 100 | EVERY_100, 0], 300).bit_count() == FEWEST


def test_equal_nodes_take_turns() -> None:
    every, sampling = (1 << 250) - 1, Sampling(1)
    first, second, third = (sampling.passing([every], 250) for _ in range(3))
    assert [one.bit_count() for one in (first, second, third)] == [100, 100, 100]
    assert not first & second
    assert first | second | third == every
