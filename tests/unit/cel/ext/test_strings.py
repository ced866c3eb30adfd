"""The string functions in expressions."""

import pytest

import cel
from tests.unit.cel.ext.expressions import costs_of, failure_of, holds, refusal_of


@pytest.mark.parametrize(
    "expression",
    [
        '"h\u00e9llo".charAt(1) == "\u00e9" && "abc".charAt(3) == ""',
        '"hello".indexOf("l") == 2 && "hello".indexOf("l", 3) == 3 && "hello".indexOf("x") == -1',
        '"abc".indexOf("", 9) == 3 && "abc".indexOf("a", 9) == -1',
        '"hello".lastIndexOf("l") == 3 && "hello".lastIndexOf("l", 2) == 2 && "abc".lastIndexOf("c", 9) == -1',
        '"abab".lastIndexOf("ab", 1) == 0 && "abc".lastIndexOf("") == 3 && "a".lastIndexOf("aa") == -1',
        '"\U0001f600x".indexOf("x") == 1',
        '"TacoCat\u00c9".lowerAscii() == "tacocat\u00c9" && "TacoCat\u00e9".upperAscii() == "TACOCAT\u00e9"',
        '"aaa".replace("a", "b", 2) == "bba" && "aaa".replace("a", "b", 0) == "aaa" && "aaa".replace("a", "") == ""',
        '"ab".replace("", "-") == "-a-b-" && "".replace("", "-") == "-" && "".replace("", "-", 1) == "-"',
        '"a,b,c".split(",") == ["a", "b", "c"] && "a,b,c".split(",", 2) == ["a", "b,c"]',
        '"a,b".split(",", 0) == [] && "a,b".split(",", -1) == ["a", "b"] && "".split(",") == [""]',
        '"abc".split("") == ["a", "b", "c"] && "abc".split("", 2) == ["a", "bc"] && "".split("") == []',
        '"tacocat".substring(4) == "cat" && "tacocat".substring(0, 4) == "taco" && "abc".substring(3) == ""',
        '"\\u0085\\u3000 hi \\t\\n".trim() == "hi" && "\\u200bhi".trim() != "hi"',
        '["a", "b"].join() == "ab" && ["a", "b"].join("-") == "a-b" && [].join("-") == ""',
        'strings.quote("a\\n\\"\\\\") == "\\"a\\\\n\\\\\\"\\\\\\\\\\""',
    ],
)
def test_string_functions_count_code_points(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('"abc".charAt(-1)', "index out of range: -1"),
        ('"abc".charAt(4)', "index out of range: 4"),
        ('"abc".indexOf("a", -1)', "index out of range: -1"),
        ('"abc".lastIndexOf("a", -1)', "index out of range: -1"),
        ('"abc".substring(4)', "index out of range: 4"),
        ('"abc".substring(-1)', "index out of range: -1"),
        ('"abc".substring(2, 1)', "invalid substring range. start: 2, end: 1"),
        ('"abc".substring(1, 4)', "index out of range: 4"),
        ('[dyn("a"), dyn(1)].join()', "join: invalid input: only strings can be joined"),
    ],
)
def test_positions_outside_of_the_text_are_errors(expression: str, message: str) -> None:
    assert failure_of(expression) == message


def test_string_has_no_reverse() -> None:
    assert "no matching overload" in refusal_of('"abc".reverse()')


def test_1_36_gives_the_offset_of_an_empty_text_back() -> None:
    assert holds('"abc".indexOf("", 9) == 9 && "abc".lastIndexOf("", -1) == -1', cel.V1_36_LISTS)


def test_longest_possible_replacement_is_refused_rather_than_made() -> None:
    digits = '"' + "a" * 3000 + '"'
    grown = f'{digits}.replace("a", {digits}).replace("a", {digits})'
    assert "operation cancelled" in failure_of(f"{grown}.size()")


def test_cost_counts_bytes_for_searches_and_characters_elsewhere() -> None:
    assert costs_of('"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9".indexOf("x") == -1') == (2, 2)
    assert costs_of('"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9".trim() == ""') == (1, 1)
    assert costs_of('["abcdefghijklmnop", "q"].join() == ""')[0] == 4
    assert costs_of('"abcdefghijk".replace("z", "y") == ""') == (3, 3)
