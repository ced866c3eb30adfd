"""The operands of the `&&` at the top of an expression, as they are written: what has to be true all together."""

from collections.abc import Iterator, Sequence
from typing import Final

from cel.syntax.lexer import Token, tokens

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
