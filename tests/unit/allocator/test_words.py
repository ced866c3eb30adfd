"""Words for numbers and lists."""

import pytest

from allocator.words import agreeing, and_more, counted, listed, listed_up_to, whole_number


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 devices are"), (1, "1 device is"), (2, "2 devices are"), (1000, "1,000 devices are")]
)
def test_number_and_word_agree(number: int, text: str) -> None:
    assert counted(number, "device is", "devices are", ",") == text


def test_plural_has_an_s_unless_it_is_given() -> None:
    assert (agreeing(2, "node"), agreeing(2, "class", "classes"), agreeing(1, "node")) == ("nodes", "classes", "node")


@pytest.mark.parametrize(("texts", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")])
def test_last_of_a_list_follows_and(texts: list[str], text: str) -> None:
    assert listed(texts) == text


@pytest.mark.parametrize(
    ("most", "text"), [(3, "a, b, c"), (4, "a, b, c"), (2, "a, b and 1 more"), (1, "a and 2 more"), (0, "and 3 more")]
)
def test_long_list_names_the_first_and_counts_the_rest(most: int, text: str) -> None:
    assert listed_up_to(["a", "b", "c"], most) == text


def test_rest_is_counted_with_its_noun() -> None:
    assert [and_more(number, 8, "value") for number in (8, 9, 10)] == ["", "and 1 more value", "and 2 more values"]
    assert listed_up_to(["a", "b"], 1, "name", word="or") == "a or 1 more name"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("1", 1), ("100", 100), ("101", None), ("0" * 5000 + "7", 7), ("9" * 5000, None)),
        *(("", None), ("-1", None), ("+1", None), (" 1", None), ("1_0", None), ("\u0661", None), ("1.0", None)),
    ],
)
def test_whole_number_has_digits_alone_and_is_not_too_large(text: str, number: int | None) -> None:
    assert whole_number(text, 100) == number
