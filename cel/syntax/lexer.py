"""The lexer: from source text to tokens, and from the text of a literal to its value.

One regular expression matches the longest token at a position. Escapes are checked here, because the grammar makes them
part of the token. `conjuncts` are the operands of the `&&` at the top of an expression, as they are written.
Source: CEL.g4 and the unescaping of github.com/google/cel-go.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cel.errors import CompileError
from cel.values.values import MAX_INT, MAX_UINT, MIN_INT, Uint

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_QUOTED = "|".join(
    [
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"""(?s:.*?)"""',
        r"[rR]'''(?s:.*?)'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    ]
)
_TOKEN: Final = re.compile(
    rf"""
      (?P<skip>   [\t\ \r\n\f]+ | //[^\n]* )
    | (?P<bytes>  [bB](?:{_QUOTED}) )
    | (?P<string> {_QUOTED} )
    | (?P<ident>  [A-Za-z_][A-Za-z0-9_]* )
    | (?P<uint>   (?:0x[0-9a-fA-F]+|[0-9]+)[uU] )
    | (?P<double> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
    | (?P<int>    0x[0-9a-fA-F]+ | [0-9]+ )
    | (?P<escaped> `[A-Za-z0-9_.\-/ ]+` )
    | (?P<sign>   == | != | <= | >= | && | \|\| | [<>\[\]{{}}().,\-!?:+*/%] )
    """,
    re.VERBOSE | re.ASCII,
)
_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
_ESCAPED: Final = re.compile(_ESCAPE)
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_SURROGATES: Final = range(0xD800, 0xE000)


class Token(NamedTuple):
    """kind: `ident`, `string`, `bytes`, `int`, `uint`, `double`, `escaped`, `end`, or the sign or keyword itself."""

    kind: str
    text: str
    position: int


def tokens(source: str) -> list[Token]:
    """All tokens, with one of kind `end` last; raises CompileError at the first that is none."""
    read: list[Token] = []
    position, end, match_at = 0, len(source), _TOKEN.match
    while position < end:
        match = match_at(source, position)
        if match is None:
            raise syntax_error(f"token recognition error at: '{source[position]}'", position, source)
        kind, text = match.lastgroup or "", match.group()
        if kind == "sign" or (kind == "ident" and text in _KEYWORDS):
            read.append(Token(text, text, position))
        elif kind != "skip":
            read.append(Token(kind, text, position))
        position = match.end()
    read.append(Token("end", "<EOF>", end))
    return read


def syntax_error(message: str, position: int, source: str) -> CompileError:
    """A CompileError of the grammar at a position of the source."""
    return error_at(f"Syntax error: {message}", position, source)


def error_at(message: str, position: int, source: str) -> CompileError:
    """A CompileError with the line and column of a position of the source."""
    line = source.count("\n", 0, position) + 1
    column = position - source.rfind("\n", 0, position)
    return CompileError(message, line, column, source)


def int_value(text: str, *, negative: bool) -> int:
    """The value of an integer literal; raises ValueError outside of int64."""
    value = _digits(text) * (-1 if negative else 1)
    if not MIN_INT <= value <= MAX_INT:
        raise ValueError("invalid int literal")
    return value


def uint_value(text: str) -> Uint:
    """The value of an unsigned literal with its suffix; raises ValueError outside of uint64."""
    value = _digits(text[:-1])
    if value > MAX_UINT:
        raise ValueError("invalid uint literal")
    return Uint(value)


def double_value(text: str, *, negative: bool) -> float:
    """The value of a double literal; raises ValueError where it is beyond the largest double."""
    value = float(text)
    if value == float("inf"):
        raise ValueError("invalid double literal")
    return -value if negative else value


def string_value(text: str) -> str:
    """The value of a string literal with its quotes; raises ValueError for what is no code point."""
    unquoted, is_raw = _unquoted(text)
    return unquoted if is_raw or "\\" not in unquoted else _ESCAPED.sub(_code_point, unquoted)


def bytes_value(text: str) -> bytes:
    """The value of a bytes literal with prefix and quotes: UTF-8, escapes of two or three digits are single bytes."""
    unquoted, is_raw = _unquoted(text[1:])
    if is_raw or "\\" not in unquoted:
        return unquoted.encode()
    chunks, position = [], 0
    for match in _ESCAPED.finditer(unquoted):
        chunks.append(unquoted[position : match.start()].encode())
        chunks.append(_single_byte(match.group()[1:]))
        position = match.end()
    return b"".join([*chunks, unquoted[position:].encode()])


def _digits(text: str) -> int:
    if text.startswith("0x"):
        digits, base, most = text[2:].lstrip("0"), 16, 16
    else:
        digits, base, most = text.lstrip("0"), 10, 20
    # Longer ones are out of range in any case, and Python takes quadratic time for them.
    return int(digits or "0", base) if len(digits) <= most else MAX_UINT + 1


def _unquoted(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    if is_raw:
        text = text[1:]
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width], is_raw


def _code_point(match: re.Match[str]) -> str:
    escape = match.group()[1:]
    simple = _SIMPLE_ESCAPES.get(escape)
    if simple is not None:
        return simple
    value = int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
    if value > 0x10FFFF or value in _SURROGATES:
        raise ValueError("invalid unicode code point")
    return chr(value)


def _single_byte(escape: str) -> bytes:
    simple = _SIMPLE_ESCAPES.get(escape)
    if simple is not None:
        return simple.encode()
    if escape[0] in "uU":
        raise ValueError("unable to unescape string")
    return bytes([int(escape[1:], 16) if escape[0] in "xX" else int(escape, 8)])


_OPEN: Final = frozenset({"(", "[", "{"})
_CLOSE: Final = frozenset({")", "]", "}"})
_LOOSER: Final = frozenset({"||", "?"})
_DEEPEST: Final = 32


def conjuncts(source: str) -> tuple[str, ...]:
    """The operands in order, the expression alone if it is no conjunction. Raises CompileError for what is no token."""
    return tuple(
        source[one[0].position : one[-1].position + len(one[-1].text)] for one in _operands(tokens(source)[:-1], 0)
    )


def _operands(found: Sequence[Token], depth: int) -> Iterator[Sequence[Token]]:
    """The operands among these tokens, those in parentheses split as well."""
    inner = _without_parentheses(found)
    ends = [place for place, token in _at_top(inner) if token.kind == "&&"]
    if not ends or depth > _DEEPEST or any(token.kind in _LOOSER for _, token in _at_top(inner)):
        if found:
            yield found
        return
    for start, end in zip([0, *(place + 1 for place in ends)], [*ends, len(inner)], strict=True):
        yield from _operands(inner[start:end], depth + 1)


def _without_parentheses(inner: Sequence[Token]) -> Sequence[Token]:
    """What is within, if parentheses enclose all of it."""
    while len(inner) > 1 and inner[0].kind == "(" and [place for place, _ in _at_top(inner)] == [0, len(inner) - 1]:
        inner = inner[1:-1]
    return inner


def _at_top(found: Sequence[Token]) -> list[tuple[int, Token]]:
    """The tokens that are in no brackets, with their places; brackets themselves are."""
    top, depth = list[tuple[int, Token]](), 0
    for place, token in enumerate(found):
        depth -= token.kind in _CLOSE
        if not depth:
            top.append((place, token))
        depth += token.kind in _OPEN
    return top
