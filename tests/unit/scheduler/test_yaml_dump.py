from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.input.yaml_1_1 import documents, dump


def read_back(value: Any) -> Any:
    ((_, back),) = documents(dump(value))
    return back


LOOK_LIKE_OTHER_TYPES = [
    *("", "~", "null", "NULL", "yes", "No", "on", "OFF", "y", "N", "true", "False"),
    *("1", "-1", "+5", "010", "0o10", "0x1F", "0b11", "1_000", "0888", "00", "1.5", ".5", "5.", "1e3", "-.5e-3"),
    *(".inf", "-.INF", ".nan", "2026-11-21", "2026-11-21T07:58:48Z", "1:30", "<<", "=", "-", ".", "+"),
    *(
        "{}",
        "[]",
        "- a",
        "a: b",
        "a #b",
        "# c",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "? a",
        ": a",
        "---",
        "...",
        "|",
        ">",
    ),
    *(" a", "a ", "\n", "a\n", "\na", "a\n\n  b\n", "a\tb", "\t", "'", '"', "\\", "a\r\nb", "\x00", "\x1b[31m"),
    *("\x7f", "\x85", "\u2028", "\ufeff", "ü", "節", "🚀", "x" * 5000, "word " * 1000),
]


@pytest.mark.parametrize("text", LOOK_LIKE_OTHER_TYPES)
def test_text_is_read_back_as_the_text_that_it_was(text: str) -> None:
    value = {"value": text, "list": [text, text], "in": {"map": {text: text}}}
    assert read_back(value) == value


@pytest.mark.parametrize("text", ["0O10", "0X1F", "0B11", "0_8", "1_0.5", ".5_5"])
def test_text_that_kubectl_would_take_for_a_number_is_quoted(text: str) -> None:
    assert dump([text]) == f'- "{text}"\n'


@pytest.mark.parametrize("text", ["gpu-0", "gpu.example/n1", "80Gi", "500m", "v1.2.3", "device.driver == 'a'"])
def test_plain_text_is_not_quoted(text: str) -> None:
    assert dump([text]) == f"- {text}\n"


@pytest.mark.parametrize("value", [None, True, False, 0, -5, 2**63, 1.5, 1e100, -1e-9, [], {}, [[]], {"a": {}}])
def test_other_values_are_read_back_with_their_type(value: object) -> None:
    back = read_back({"a": value})["a"]
    assert back == value
    assert type(back) is type(value)


def test_keys_keep_their_order() -> None:
    assert list(read_back({"b": 1, "a": 2, "c": {"z": 1, "y": 2}})) == ["b", "a", "c"]


def test_what_is_used_twice_is_written_twice() -> None:
    shared = {"a": [1]}
    text = dump([shared, shared])
    assert text == "- a:\n  - 1\n- a:\n  - 1\n"


def test_long_keys_and_lines_are_read_back() -> None:
    value = {"k" * 300: "v" * 300, "e": "a " * 500 + "\n" + "b " * 500}
    assert read_back(value) == value


def test_text_of_other_languages_stays_readable() -> None:
    assert "grün" in dump({"a": "grün"})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, derandomize=True)
@given(VALUES)
def test_any_json_value_is_read_back_as_it_was(value: object) -> None:
    assert read_back({"a": value}) == {"a": value}


@settings(max_examples=300, derandomize=True)
@given(st.text("abnoxyes01_.-+:#*&!|>%@{}[],?<~'\"\\ \n\té\x85\u2028", max_size=12))
def test_any_text_is_read_back_as_it_was(text: str) -> None:
    assert read_back({"a": text, text: [text]}) == {"a": text, text: [text]}


@given(st.text())
def test_what_would_steer_a_terminal_is_written_out(value: str) -> None:
    text = dump({"message": value})
    assert text.replace("\n", "").isprintable()
    assert read_back({"message": value}) == {"message": value}
