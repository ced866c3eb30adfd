"""Functions on texts against a plain way to say the same."""

import re
import unicodedata
from ipaddress import ip_network

from hypothesis import given
from hypothesis import strategies as st

from cel.check.overloads import Library
from cel.errors import EvalError
from cel.ext import cidr, formatting, strings, url
from cel.run.patterns import compile_pattern
from cel.values.values import List, Value, quoted

_SHORT = st.text("ab\u00e9\U0001f600", max_size=12)


def call(library: Library, id_: str, *arguments: Value) -> Value:
    """What the overload of this id gives."""
    return next(overload for overload in library.overloads if overload.id == id_).implementation(*arguments)


@given(_SHORT, _SHORT, st.integers(0, 14))
def test_last_index_is_that_of_a_search_from_the_end(text: str, wanted: str, start: int) -> None:
    expected = text.rfind(wanted, 0, start + len(wanted)) if start < len(text) or not wanted else -1
    assert call(strings.LIBRARY, "string_last_index_of_string_int", text, wanted, start) == expected
    assert call(strings.LIBRARY, "string_last_index_of_string", text, wanted) == text.rfind(wanted)


@given(_SHORT, st.text("ab", max_size=2), st.integers(-1, 5))
def test_joining_undoes_splitting(text: str, separator: str, limit: int) -> None:
    parts = call(strings.LIBRARY, "string_split_string_int", text, separator, limit)
    assert isinstance(parts, List)
    if limit != 0:
        assert call(strings.LIBRARY, "list_join_string", parts, separator) == text
    if limit >= 0:
        assert len(parts) <= limit


@given(_SHORT, st.text("ab", max_size=2), _SHORT)
def test_replacing_is_splitting_and_joining(text: str, old: str, new: str) -> None:
    expected = new.join(text.split(old)) if old else "".join(new + character for character in text) + new
    assert call(strings.LIBRARY, "string_replace_string_string", text, old, new) == expected


@given(st.text("abc \u00e9", max_size=20), st.sampled_from(["a+", "[ab]+c?", "\u00e9", "b|ab", "(a)(b)", "c{2}"]))
def test_matches_are_those_of_another_engine(text: str, pattern: str) -> None:
    found = [match[0] for match in re.finditer(pattern, text)]
    assert compile_pattern(pattern).find_all(text, -1) == found
    assert compile_pattern(pattern).matches(text) is bool(found)


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_pattern_is_compiled_or_refused(pattern: str, text: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except ValueError:
        return
    assert compiled.matches(text) is (compiled.find_all(text, 1) != [])


def is_unknown(character: str) -> bool:
    """Whether this Python's Unicode may be too old for the character."""
    return unicodedata.category(character) == "Cn"


@given(st.text())
def test_quoted_text_has_no_invisible_character(text: str) -> None:
    inside = quoted(text)[1:-1]
    assert all(c.isprintable() or is_unknown(c) for c in inside)
    assert not re.search(r'(?<!\\)(?:\\\\)*"', inside)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3).map(List),
    max_leaves=8,
)


@given(_VALUES, st.sampled_from("sdfebxXo"), st.integers(0, 300))
def test_any_value_is_printed_or_refused(value: Value, verb: str, number: int) -> None:
    format_ = formatting.LIBRARY.overloads[0].implementation
    try:
        printed = format_(f"%.{number}{verb}", List([value]))
    except EvalError:
        return
    assert isinstance(printed, str)


@given(st.from_regex(r"[a-z]{1,3}:(//)?[a-z@:\[\]%0-9./?#&=+ \u00e9-]{0,12}", fullmatch=True) | st.text(max_size=8))
def test_url_written_again_is_the_same_url(text: str) -> None:
    try:
        parsed = url.parse_url(text)
    except ValueError:
        return
    assert url.parse_url(parsed.written).written == parsed.written


@given(st.ip_addresses(), st.integers(0, 128), st.ip_addresses())
def test_network_contains_what_another_library_says(address: object, bits: int, other: object) -> None:
    text = f"{address}/{bits}"
    try:
        prefix = cidr.parse_prefix(text)
        network = ip_network(text, strict=False)
    except ValueError:
        return
    assert str(prefix.masked()) == str(network)
    contained = call(cidr.LIBRARY, "cidr_contains_ip_ip", prefix, other)
    assert contained is (other in network if network.version == getattr(other, "version", 0) else False)
