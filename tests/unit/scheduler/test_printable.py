"""What objects contain steers no terminal, and JSON for people says the same as any JSON."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.terminal_text import json_of, printable

STEERING = "\x1b[31m\x07\x7f\x85\x9b31m\N{RIGHT-TO-LEFT OVERRIDE}\N{LINE SEPARATOR}\N{TAG LATIN SMALL LETTER A}"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_for_people_has_the_same_value_and_steers_nothing(value: object) -> None:
    text = json_of(value, orjson.OPT_INDENT_2)
    assert orjson.loads(text) == value
    assert all(character.isprintable() or character == "\n" for character in text)


def test_letters_of_any_script_stay_as_they_are() -> None:
    assert json_of({"größe": "東京 \N{GRINNING FACE}"}) == '{"größe":"東京 \N{GRINNING FACE}"}'


def test_what_steers_is_written_out() -> None:
    assert json_of("\x9b\N{TAG LATIN SMALL LETTER A}") == '"\\u009b\\udb40\\udc61"'
    assert printable(f"a{STEERING}") == r"a\x1b[31m\x07\x7f\x85\x9b31m\u202e\u2028\U000e0061"


@pytest.mark.parametrize("value", [object(), {1: 2}])
def test_what_is_no_json_is_an_error(value: object) -> None:
    with pytest.raises(TypeError):
        json_of(value)
