from random import Random

import pytest

from tests.properties.allocator.choices import Choices, Values


def numbers(draw: Choices) -> list[int]:
    return [draw.pick(range(100)) for _ in range(draw.pick(range(20)))]


def test_values_of_a_seed_are_always_the_same() -> None:
    assert list(Values(numbers)("seed", 5)) == list(Values(numbers)("seed", 5))
    assert list(Values(numbers)("seed", 5)) != list(Values(numbers)("other", 5))


def test_options_are_chosen_equally_often() -> None:
    draw = Choices(random=Random("seed"))  # noqa: S311
    picked = [draw.pick("abc") for _ in range(3000)]
    assert all(900 < picked.count(letter) < 1100 for letter in "abc")


def test_choices_can_be_made_again() -> None:
    draw = Choices(random=Random("seed"))  # noqa: S311
    assert numbers(draw) == numbers(Choices(draw.made))


def test_first_option_is_chosen_where_nothing_is_random() -> None:
    assert Choices().pick("abc") == "a"
    assert not Choices().rarely(2)


def test_what_holds_is_checked_for_every_value() -> None:
    checked: list[list[int]] = []
    Values(numbers).hold_for("seed", 30, checked.append)
    assert checked == list(Values(numbers)("seed", 30))


def test_value_that_fails_is_made_smaller() -> None:
    def has_no_two_large_ones(value: list[int]) -> None:
        assert sum(number > 50 for number in value) < 2

    with pytest.raises(AssertionError, match=r"made smaller: \[51, 51\]$"):
        Values(numbers).hold_for("seed", 30, has_no_two_large_ones)
