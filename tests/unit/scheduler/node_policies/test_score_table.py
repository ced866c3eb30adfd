"""The highest score of a table is that of a plain dictionary, whatever was set and forgotten before."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allocator.bits import bits
from scheduler.node_policies import scores
from scheduler.node_policies.scores import ScoreTable

NODES = 70
NUMBERS = st.integers(0, NODES - 1)
STEPS = st.one_of(
    st.dictionaries(NUMBERS, st.integers(-9, 9).map(float), min_size=1),  # to be set
    st.lists(NUMBERS, min_size=1, unique=True),  # to be forgotten
)


@patch.object(scores, "MOST_SCORES", 2)
@given(st.lists(STEPS))
def test_highest_is_that_of_a_dictionary(steps: list[dict[int, float] | list[int]]) -> None:
    table, scores = ScoreTable(NODES), dict[int, float]()
    for step in steps:
        if isinstance(step, dict):
            for number in step.keys() - scores.keys():
                scores[number] = score = step[number]
                table.set(number, score)
                table.known |= 1 << number
        else:
            table.forget(np.array(step, np.int64))
            scores = {number: score for number, score in scores.items() if number not in step}
        assert set(bits(table.known)) == scores.keys()
        if scores:
            best, of_best = table.highest()
            assert best == max(scores.values())
            assert set(bits(of_best)) == {number for number, score in scores.items() if score == best}


def test_a_table_that_grows_keeps_its_scores() -> None:
    table = ScoreTable(1)
    table.set(0, 2.0)
    table.grow(9)
    table.set(8, 2.0)
    assert table.highest() == (2.0, 0b1_0000_0001)


@patch.object(scores, "MOST_SCORES", 2)
def test_nodes_that_were_passed_over_are_found_again() -> None:
    table = ScoreTable(8)
    table.set(0, 1.0)
    assert table.highest() == (1.0, 0b1)
    table.set(1, 2.0)
    table.set(2, 3.0)  # of three scores, the least is not kept
    table.forget(np.array([2]))
    table.set(3, 1.0)
    table.forget(np.array([1]))
    assert table.highest() == (1.0, 0b1001)
