from collections import Counter

import pytest

from scheduler.simulation.catalogue import Draw, Mix


def test_draws_are_the_same_for_ever() -> None:
    draw = Draw(1, "pods")
    assert [draw.below(1000) for _ in range(5)] == [587, 342, 553, 678, 784]


def test_streams_of_a_seed_and_seeds_of_a_stream_differ() -> None:
    def first(seed: int, stream: str) -> int:
        return Draw(seed, stream).below(10**9)

    assert len({first(1, "pods"), first(1, "nodes"), first(2, "pods"), first(-1, "pods")}) == 4


def test_exponential_draws_have_the_distribution() -> None:
    """Against the distribution function: 1 - exp(-x)."""
    draw = Draw(7, "times")
    drawn = [draw.exponential() for _ in range(40_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(1, abs=0.02)
    for bound, share in ((0.1, 0.0952), (0.5, 0.3935), (1, 0.6321), (2, 0.8647), (4, 0.9817)):
        assert sum(one < bound for one in drawn) / len(drawn) == pytest.approx(share, abs=0.01)


def test_things_are_drawn_by_their_weights() -> None:
    mix, draw = Mix({"a": 1, "b": 3, "c": 6}), Draw(1, "mix")
    found = Counter(mix.draw(draw) for _ in range(10_000))
    assert [round(found[name] / 1000) for name in "abc"] == [1, 3, 6]
