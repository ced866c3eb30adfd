import pytest

from cel.errors import CompileError
from cel.syntax import lexer
from cel.values.values import Uint


def kinds(source: str) -> list[str]:
    return [token.kind for token in lexer.tokens(source)[:-1]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a1 _b", ["ident", "ident"]),
        ("1 0x1F 1u 0xFFu", ["int", "int", "uint", "uint"]),
        ("1.5 .5 1e9 1.5E-3", ["double"] * 4),
        ("1.a", ["int", ".", "ident"]),
        ("true in null", ["true", "in", "null"]),
        ("'a' \"b\" r'c' R\"d\" '''e''' r\"\"\"f\"\"\"", ["string"] * 6),
        ("b'a' B\"b\" br'c' bR'''d'''", ["bytes"] * 4),
        ("rb'a'", ["ident", "string"]),
        ("`a.b/c-d e`", ["escaped"]),
        ("a // b\n+ c", ["ident", "+", "ident"]),
        ("<= >= == != && ||", ["<=", ">=", "==", "!=", "&&", "||"]),
        ("'''a''b'''", ["string"]),
    ],
)
def test_source_is_cut_into_the_longest_tokens(source: str, expected: list[str]) -> None:
    assert kinds(source) == expected


@pytest.mark.parametrize("source", ["é", "'a", '"a\nb"', r"'\400'", r"'\8'", r"'\x4'", "a & b", "``", "`é`", "#"])
def test_what_is_no_token_is_refused(source: str) -> None:
    with pytest.raises(CompileError, match="token recognition error"):
        lexer.tokens(source)


def test_position_counts_code_points() -> None:
    assert [token.position for token in lexer.tokens("'😀' + b")] == [0, 4, 6, 7]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\"\'\`\?\\'", "a\"'`?\\"),
        (r"'\a\b\f\n\r\t\v'", "\a\b\f\n\r\t\v"),
        (r"'\x41\X42\103\u0044\U00000045'", "ABCDE"),
        (r"'\xff'", "ÿ"),
        (r"r'\n'", "\\n"),
        ("'''a\r\nb\rc'''", "a\nb\nc"),
        ("''", ""),
        ("''''''", ""),
    ],
)
def test_string_literal_has_its_value(text: str, value: str) -> None:
    assert lexer.string_value(text) == value


@pytest.mark.parametrize("text", [r"'\ud800'", r"'\uDFFF'", r"'\U00110000'"])
def test_what_is_no_code_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid unicode code point"):
        lexer.string_value(text)


def test_escapes_of_bytes_are_single_bytes() -> None:
    assert lexer.bytes_value(r"b'\xff\377é\n'") == b"\xff\xff\xc3\xa9\n"
    assert lexer.bytes_value(r"bR'\xff'") == b"\\xff"
    with pytest.raises(ValueError, match="unable to unescape"):
        lexer.bytes_value(r"b'\u0041'")


def test_integers_end_at_64_bits() -> None:
    assert lexer.int_value("9223372036854775808", negative=True) == -(2**63)
    assert lexer.int_value("000000000000000000000000000000007", negative=False) == 7
    assert lexer.uint_value("0xFFFFFFFFFFFFFFFFu") == Uint(2**64 - 1)
    for text in ("9223372036854775808", "1" * 10_000, "0x8000000000000000"):
        with pytest.raises(ValueError, match="invalid int literal"):
            lexer.int_value(text, negative=False)
    with pytest.raises(ValueError, match="invalid uint literal"):
        lexer.uint_value("18446744073709551616u")


def test_double_beyond_the_largest_is_refused() -> None:
    assert lexer.double_value("1.7976931348623157e308", negative=True) == -1.7976931348623157e308
    assert lexer.double_value("1e-999", negative=False) == 0
    with pytest.raises(ValueError, match="invalid double literal"):
        lexer.double_value("1e309", negative=False)
