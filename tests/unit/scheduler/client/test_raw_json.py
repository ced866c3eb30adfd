"""JSON that is read, and JSON that stays text."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.raw_json import SINGLE_MAX, RawJson, dumps, has_more_values, loads, loads_leniently

SURROGATE = rb'"\ud800"'
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text()
NAMES = st.text() | st.sampled_from(["parameters", "data", 'a"data'])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner))
DEEP = '{"a":' * 5000 + "1" + "}" * 5000
CUT = (b"", b"{", b'{"a":1', b'{"a":1}}', b'{"a" 1}', b'{"a":1,}', b"[1,nil", b'{"data":{"a":1}', b"nil")


@given(VALUES)
def test_what_is_read_is_written_as_it_came(value: object) -> None:
    text = orjson.dumps(value)
    assert dumps(loads(text)) == dumps(loads_leniently(text)) == text
    assert orjson.loads(dumps(loads(text))) == value


@given(VALUES, VALUES)
def test_broken_part_costs_itself_alone(before: object, after: object) -> None:
    text = b'{"before":%b,"broken":[%b,{"x":%b}],"after":%b}'
    found = loads_leniently(text % (orjson.dumps(before), SURROGATE, SURROGATE, orjson.dumps(after)))
    broken = [RawJson(SURROGATE), {"x": RawJson(SURROGATE)}]
    whole = {"before": loads(orjson.dumps(before)), "broken": broken, "after": loads(orjson.dumps(after))}
    assert found == whole


@pytest.mark.parametrize("value", ['{"a":1.50}', "[1e400]", "1.50", "-1", '{"a":"\\ud800"}', DEEP])
@pytest.mark.parametrize("text", ['{"opaque":{"driver":"d","parameters":%s}}', '[{"data":%s,"x":[]}]'])
def test_free_form_json_is_kept_as_text(text: str, value: str) -> None:
    written = (text % value).encode()
    assert dumps(loads(written)) == written


@pytest.mark.parametrize("key", [r"par\u0061meters", r"\u0064ata", r"para\u006Deters", r"para\u006deters"])
@pytest.mark.parametrize("number", [0, 5, -1, 1.5])
def test_key_that_is_written_with_escapes_is_the_same_key(key: str, number: float) -> None:
    text = b'{"%s":%s,"x":{"data":{"a":1}}}' % (key.encode(), orjson.dumps(number))
    found = loads(text)
    assert found == {orjson.loads(f'"{key}"'): RawJson(orjson.dumps(number)), "x": {"data": RawJson(b'{"a":1}')}}
    assert loads_leniently(text) == found


def test_text_and_words_under_such_a_key_are_read_as_all_else() -> None:
    text = b'{"data":"a","parameters":null,"x":{"data":true}}'
    assert loads(text) == {"data": "a", "parameters": None, "x": {"data": True}}


def test_name_in_the_middle_of_a_text_is_no_key() -> None:
    text = rb'{"a":"\"data\":{","b\"data":{"c":1},"d":"\\","data":{"e":"}"}}'
    found = loads(text)
    assert found == {"a": '"data":{', 'b"data': {"c": 1}, "d": "\\", "data": RawJson(b'{"e":"}"}')}


def test_spaces_are_left_where_they_are() -> None:
    text = b'{ "data" : { "a" : 1 } , "b" : [ %b ] }' % SURROGATE
    assert loads_leniently(text) == {"data": RawJson(b'{ "a" : 1 }'), "b": [RawJson(SURROGATE)]}


@pytest.mark.parametrize("text", CUT)
def test_text_that_cannot_be_taken_apart_stays_text(text: bytes) -> None:
    assert loads_leniently(text) == RawJson(text)


def test_what_is_broken_far_inside_costs_what_holds_it() -> None:
    text = b'{"a":1,"b":' + b"[" * 100 + SURROGATE + b"]" * 100 + b"}"
    found = loads_leniently(text)
    assert isinstance(found, dict)
    assert found["a"] == 1
    assert dumps(found) == text


def test_what_is_no_json_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="set"):
        dumps({"a": {1}})


@given(VALUES, st.integers(0, 40))
def test_values_and_names_are_counted_outside_of_texts(value: object, most: int) -> None:
    text = orjson.dumps(value)
    assert has_more_values(text, most) is (held(value) > most)


def held(value: object) -> int:
    """The separators of the JSON: one for each value in a list or object, for each name, and for what is empty."""
    if isinstance(value, dict):
        return max(2 * len(value), 1) + sum(map(held, value.values()))
    if isinstance(value, list):
        return max(len(value), 1) + sum(map(held, value))
    return 0


def test_separators_in_texts_are_not_counted() -> None:
    text = orjson.dumps(['\\"[{,:' * 100_000, "\\"])
    assert not has_more_values(text, 3)
    assert has_more_values(b"[" + b"0," * 2_000_000 + b"0]", 2_000_000)
    assert not has_more_values(b"[" + b"0," * 1_999_999 + b"0]", 2_000_000)


def test_where_too_much_stands_before_a_broken_part_all_of_it_stays_text() -> None:
    few, many = (b"[%b%b]" % (b"{}," * number, SURROGATE) for number in (SINGLE_MAX - 1, SINGLE_MAX))
    assert loads_leniently(few) == [*[{}] * (SINGLE_MAX - 1), RawJson(SURROGATE)]
    assert loads_leniently(many) == RawJson(many)
