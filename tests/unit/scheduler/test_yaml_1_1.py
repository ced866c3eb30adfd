import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.input.yaml_1_1 import MAX_DEPTH, MAX_VALUES, InvalidYAML, documents


def value_of(text: str) -> Any:
    ((_, value),) = documents(text)
    return value


def problem_of(text: str) -> str:
    with pytest.raises(InvalidYAML) as caught:
        list(documents(text))
    return str(caught.value)


@pytest.mark.parametrize("word", ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
def test_every_word_of_yaml_1_1_for_true_is_true(word: str) -> None:
    assert value_of(f"a: {word}") == {"a": True}


@pytest.mark.parametrize("word", ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
def test_every_word_of_yaml_1_1_for_false_is_false(word: str) -> None:
    assert value_of(f"a: {word}") == {"a": False}


@pytest.mark.parametrize("word", ["~", "null", "Null", "NULL", ""])
def test_every_word_of_yaml_1_1_for_nothing_is_null(word: str) -> None:
    assert value_of(f"a: {word}") == {"a": None}


@pytest.mark.parametrize("text", ["tRUE", "nULL", "nan", "inf", "yEs", "2026-11-21", "2026-11-21T07:58:48Z", "1:30:00"])
def test_words_that_kubectl_takes_as_text_are_text(text: str) -> None:
    assert value_of(f"a: {text}") == {"a": text}


@pytest.mark.parametrize("text", ["_1", "0b12", "0xfg", "0x", "0b", "-", "+", ".", ".e5", "1.5e", "1.2.3"])
def test_what_only_begins_like_a_number_is_text(text: str) -> None:
    assert value_of(f"a: [x, {text}]") == {"a": ["x", text]}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("010", 8),
        ("0o10", 8),
        ("-010", -8),
        ("0x1F", 31),
        ("-0xff", -255),
        ("0b11", 3),
        ("1_000", 1000),
        ("+5", 5),
        ("-5", -5),
        ("00", 0),
        ("-0", 0),
    ],
)
def test_integers_have_the_bases_of_yaml_1_1(text: str, number: int) -> None:
    value = value_of(f"a: {text}")["a"]
    assert value == number
    assert type(value) is int


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), (".5", 0.5), ("+.5", 0.5), ("-.5e-3", -0.0005), ("1e3", 1000), ("0888", 888)]
)
def test_numbers_with_a_point_or_an_exponent_are_read_by_value(text: str, number: float) -> None:
    assert value_of(f"a: {text}") == {"a": number}


@pytest.mark.parametrize("text", ["0o_", "0x_", "-0b_"])
def test_a_base_without_digits_is_text(text: str) -> None:
    assert value_of(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "number"),
    [("0O10", 8), ("0X1F", 31), ("0B11", 3), ("0b-11", -3), ("0_8", 8), ("1_0.5", 10.5), (".5_5", 0.55), ("08", 8)],
)
def test_numbers_of_go_are_numbers(text: str, number: float) -> None:
    assert value_of(f"a: {text}") == {"a": number}


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", ".5e400", "0x1ffffffffffffffff", "0o7777777777777777777777", "._5"]
)
def test_what_is_too_large_for_a_number_is_text(text: str) -> None:
    assert value_of(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "number"), [("2.0", 2), ("1e0", 1), ("-5.", -5), ("1e18", 10**18), ("9223372036854775807", 2**63 - 1)]
)
def test_a_float_without_a_fraction_is_an_integer(text: str, number: int) -> None:
    value = value_of(f"a: {text}")["a"]
    assert (value, type(value)) == (number, int)


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854780000", "1e19", "100000000000000000000000"])
def test_an_integer_of_more_than_64_bits_is_a_float(text: str) -> None:
    value = value_of(f"a: {text}")["a"]
    assert (value, type(value)) == (float(text), float)


@pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN", ".NAN"])
def test_numbers_that_are_not_finite_are_errors_with_their_place(text: str) -> None:
    assert problem_of(f"a:\n  b: {text}") == f"line 2, column 6: {text} is not a finite number"


def test_an_absurdly_long_integer_is_read_in_no_time() -> None:
    assert value_of("a: " + "1" * 200) == {"a": pytest.approx(1.1111111111111111e199)}
    assert value_of("a: " + "1" * 100_000) == {"a": "1" * 100_000}


def test_quoted_scalars_are_text() -> None:
    assert value_of("""a: ["yes", 'no', "1", '~', "<<", ""]""") == {"a": ["yes", "no", "1", "~", "<<", ""]}


def test_block_scalars_are_text_with_their_line_ends() -> None:
    assert value_of("a: |\n  x\n  5\nb: >-\n  y\n  no\n") == {"a": "x\n5\n", "b": "y no"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 5", "5"),
        ("!!str", ""),
        ('!!int "5"', 5),
        ("!!float 5", 5),
        ('!!bool "yes"', True),
        ("!!null ~", None),
        ("!!timestamp 2026-01-01", "2026-01-01"),
        ("!!binary aGVsbG8=", "hello"),
        ('!!binary "//8="', "\ufffd\ufffd"),
        ("! 5", "5"),
        ("!unknown 5", "5"),
    ],
)
def test_a_standard_tag_decides_over_the_look_of_a_scalar(text: str, value: object) -> None:
    assert value_of(f"a: {text}") == {"a": value}


@pytest.mark.parametrize(
    "text", ["!!int 1.5", "!!int yes", "!!bool 5", "!!null x", "!!float .nan", "!!float true", "!!binary x"]
)
def test_a_standard_tag_that_does_not_fit_is_an_error(text: str) -> None:
    assert "does not fit" in problem_of(f"a: {text}")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("yes", "true"), ("off", "false"), ("1", "1"), ("0x10", "16"), ("1.5", "1.5"), ('"y"', "y")),
        *(("1e3", "1000"), ("1e6", "1e+06"), ("123456.7", "123456.7"), ("1.23456789", "1.2345679")),
        *(
            ("16777217.0", "1.6777216e+07"),
            ("0.0001", "0.0001"),
            ("1e-5", "1e-05"),
            ("1e39", ".inf"),
            ("-1e39", "-.inf"),
        ),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_keys_become_text(key: str, text: str) -> None:
    assert value_of(f"{key}: x") == {text: "x"}


@pytest.mark.parametrize(
    ("text", "key"), [("a: 1\nb: 2\na: 3", "a"), ("1: x\n'1': y", "1"), ("yes: 1\ntrue: 2", "true")]
)
def test_a_key_that_is_there_twice_is_an_error_that_names_it(text: str, key: str) -> None:
    assert f"the key '{key}' appears twice in one mapping" in problem_of(text)


@pytest.mark.parametrize(
    "text", ["~: 1", "9223372036854775808: 1", "18446744073709551615: 1", "? [1]\n: 2", "? {a: 1}\n: 2"]
)
def test_a_key_that_is_no_text_is_an_error(text: str) -> None:
    assert "a key must" in problem_of(text)


def test_an_alias_is_what_it_names() -> None:
    assert value_of("a: &x {b: [1, 2]}\nc: *x\nd: [*x]") == {
        "a": {"b": [1, 2]},
        "c": {"b": [1, 2]},
        "d": [{"b": [1, 2]}],
    }


def test_an_anchor_may_be_given_again() -> None:
    assert value_of("a: &x 1\nb: &x 2\nc: *x") == {"a": 1, "b": 2, "c": 2}


def test_an_anchor_ends_with_its_document() -> None:
    assert "unknown alias *x" in problem_of("a: &x 1\n---\nb: *x")


def test_an_alias_inside_what_it_names_is_an_error() -> None:
    assert problem_of("a: &x\n  b: [*x]") == "line 2, column 7: the alias *x is used inside its own anchor"


def test_merged_keys_come_beneath_those_that_follow() -> None:
    assert value_of("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  p: 9") == {"a": {"p": 1, "q": 2}, "b": {"p": 9, "q": 2}}


def test_merged_keys_replace_those_that_stand_before() -> None:
    assert value_of("a: &x {p: 1, q: 2}\nb:\n  p: 9\n  <<: *x") == {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 2}}


def test_a_key_may_stand_once_beside_the_merged_one() -> None:
    assert value_of("{<<: {p: 1}, p: 2, <<: {p: 3}}") == {"p": 3}
    assert "the key 'p' appears twice" in problem_of("{<<: {p: 1}, p: 2, p: 3}")
    assert "the key 'p' appears twice" in problem_of("{p: 2, <<: {p: 1}, p: 3}")


def test_the_name_of_a_merge_is_text_elsewhere() -> None:
    assert value_of("{&m <<: {a: 1}, z: *m, x: <<}") == {"a": 1, "z": "<<", "x": "<<"}


def test_a_key_may_be_an_alias_and_an_anchor() -> None:
    assert value_of("{&k 1: x, b: *k, c: &l d, *l : e}") == {"1": "x", "b": 1, "c": "d", "d": "e"}


def test_of_several_merged_mappings_the_first_counts() -> None:
    assert value_of("b: {<<: [{p: 1}, {p: 2, q: 3}]}") == {"b": {"p": 1, "q": 3}}


def test_several_merges_in_one_mapping_all_count() -> None:
    assert value_of("a: {<<: {b: 1}, <<: {c: 2}}") == {"a": {"b": 1, "c": 2}}


def test_a_merged_mapping_stays_as_it_was() -> None:
    assert value_of("a: &x {p: 1}\nb: {<<: *x, q: 2}")["a"] == {"p": 1}


@pytest.mark.parametrize("text", ["a: {<<: 5}", "a: {<<: ~}", "a: {<<: [{b: 1}, 2]}"])
def test_only_mappings_can_be_merged(text: str) -> None:
    assert "only mappings can be merged" in problem_of(text)


def test_a_quoted_merge_key_is_a_key() -> None:
    assert value_of('a: {"<<": {b: 1}}') == {"a": {"<<": {"b": 1}}}


def test_every_document_is_read_and_an_empty_one_is_null() -> None:
    text = "a: 1\n---\n---\n# a remark\n---\n- 2\n...\n"
    assert list(documents(text)) == [(1, {"a": 1}), (3, None), (5, None), (6, [2])]


def test_text_without_a_document_has_none() -> None:
    assert list(documents("")) == []
    assert list(documents("# a remark\n")) == []


def test_the_deepest_nesting_allowed_is_read() -> None:
    value = value_of("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_deeper_nesting_is_an_error_with_its_place(depth: int) -> None:
    expected = f"line 1, column {MAX_DEPTH + 1}: more than {MAX_DEPTH} levels of nesting"
    assert problem_of("[" * depth) == expected


def test_aliases_do_not_lead_around_the_limit_of_nesting() -> None:
    around = "[" * (MAX_DEPTH - 1) + "{}" + "]" * (MAX_DEPTH - 1)
    assert "levels of nesting" in problem_of(f"- &a {around.format('x')}\n- {around.format('*a')}")


def test_an_alias_may_stand_as_deep_as_what_it_names_allows() -> None:
    deep = "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2)
    assert value_of(f"- &a {deep}\n- [*a]")[1] == [value_of(deep)]
    assert f"line 2, column 5: the alias *a causes more than {MAX_DEPTH} levels" in problem_of(f"- &a {deep}\n- [[*a]]")


def bomb(levels: int) -> str:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


def test_aliases_that_grow_without_bound_are_an_error() -> None:
    assert f"its aliases expand to more than {MAX_VALUES} values" in problem_of(bomb(12))


def test_aliases_within_bounds_share_what_they_name() -> None:
    value = value_of(bomb(4))
    assert value[3][9][9][9][9] == "x"
    assert value[3][0] is value[3][9]


def test_merges_that_grow_without_bound_are_an_error() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{key}: x" for key in range(10)) + "}"]
    lines += [
        f"a{level}: &a{level} {{<<: {{" + ", ".join(f"k{key}: *a{level - 1}" for key in range(10)) + "}}"
        for level in range(1, 12)
    ]
    assert "values" in problem_of("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: ]", "line 1, column 4"),
        ("a:\n\tb: 1", "line 2, column 1"),
        ('a: "x', "line 1, column 6"),
        ("a: 1\n b: 2", "line 2, column 3"),
        ("a: *x", "line 1, column 4"),
    ],
)
def test_broken_text_is_an_error_with_line_and_column(text: str, place: str) -> None:
    assert problem_of(text).startswith(place)


@pytest.mark.parametrize("text", ["a: \x01", "a: \x1b[31m", "a: '\x7f\x00'"])
def test_control_characters_are_an_error_in_one_line(text: str) -> None:
    assert "\n" not in problem_of(text)


@settings(max_examples=300, derandomize=True)
@given(st.text("abn01_xoe.-+:#*&!|>%@{}[],?<~'\"\\ \n\t", max_size=30))
def test_any_text_is_read_or_refused_and_numbers_are_finite(text: str) -> None:
    try:
        values = [value for _, value in documents(text)]
    except InvalidYAML:
        return
    assert all(math.isfinite(value) for value in values if isinstance(value, float))
