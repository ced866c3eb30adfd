"""Tokens to an expression, by precedence climbing (after Pratt).

Each method reads one rule of the grammar, beginning at the current token. Nesting is limited as in the reference: by
how often one rule is open at a time, and by the height of what was read, chains of operators and fields included.
Macros are expanded as soon as their call is complete.
Source: CEL.g4 and parser.go of github.com/google/cel-go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cel.errors import CompileError
from cel.stack import LEVELS, with_room
from cel.syntax import ast, lexer
from cel.syntax.ast import Call, Expr, Field, Ident, ListExpr, Literal, MapEntry, MapExpr, MessageExpr, Select
from cel.syntax.lexer import Token
from cel.syntax.macros import Macro, MacroCall, MacroError, MacroKey
from cel.values.values import Value

MAX_NESTING: Final = 250

_RELATIONS: Final = {
    "<": ast.LESS,
    "<=": ast.LESS_EQUALS,
    ">": ast.GREATER,
    ">=": ast.GREATER_EQUALS,
    "==": ast.EQUALS,
    "!=": ast.NOT_EQUALS,
    "in": ast.IN,
}
_CALCULATIONS: Final = {
    "+": (1, ast.ADD),
    "-": (1, ast.SUBTRACT),
    "*": (2, ast.MULTIPLY),
    "/": (2, ast.DIVIDE),
    "%": (2, ast.MODULO),
}
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_CONSTANTS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Syntax:
    """What an environment allows: its macros, and whether `.` may be followed by an escaped identifier."""

    macros: Mapping[MacroKey, Macro]
    has_escaped_identifiers: bool = True


def parse(source: str, syntax: Syntax) -> Expr:
    """The expression that `source` writes, macros expanded; raises CompileError."""
    return _Parser(source, syntax).start()


class _Parser:
    """One pass over the tokens of one source.

    height: of the expression that was read last, counting the nodes that the reference counts.
    """

    def __init__(self, source: str, syntax: Syntax) -> None:
        self._source = source
        self._syntax = syntax
        self._tokens = lexer.tokens(source)
        self._next = 0
        self._current = self._tokens[0]
        self._height = 0
        self._open = {"expr": 0, "relation": 0, "calc": 0}

    def start(self) -> Expr:
        expression = self._expr()
        if self._current.kind != "end":
            raise self._unexpected("expecting <EOF>")
        return expression

    # Tokens

    def _advance(self) -> Token:
        token = self._current
        self._next += 1
        self._current = self._tokens[self._next]
        return token

    def _accept(self, kind: str) -> Token | None:
        return self._advance() if self._current.kind == kind else None

    def _expect(self, kind: str) -> Token:
        if self._current.kind != kind:
            raise self._unexpected(f"expecting '{kind}'")
        return self._advance()

    def _unexpected(self, wanted: str) -> CompileError:
        token = self._current
        return lexer.syntax_error(f"mismatched input '{token.text}' {wanted}", token.position, self._source)

    def _error(self, message: str, position: int) -> CompileError:
        return lexer.error_at(message, position, self._source)

    # Limits

    def _enter(self, rule: str) -> None:
        self._open[rule] += 1
        if self._open[rule] > MAX_NESTING:
            raise self._error(f"expression recursion limit exceeded: {MAX_NESTING}", self._current.position)

    def _raised(self, *heights: int) -> None:
        """The expression just completed stands on parts of these heights, and counts itself."""
        self._height = 1 + max(heights)
        if self._height > MAX_NESTING:
            raise self._error("max recursion depth exceeded", self._current.position)

    # Rules

    def _expr(self) -> Expr:
        self._enter("expr")
        expression = self._or_conditional() if self._open["expr"] % LEVELS else with_room(self._or_conditional)
        self._open["expr"] -= 1
        return expression

    def _or_conditional(self) -> Expr:
        condition = self._or()
        return self._conditional(condition) if self._current.kind == "?" else condition

    def _conditional(self, condition: Expr) -> Expr:
        height = self._height
        question = self._advance()
        if_true = self._or()
        height_true = self._height
        self._expect(":")
        if_false = self._expr()
        self._raised(height, height_true, self._height)
        return self._call(question.position, ast.CONDITIONAL, (condition, if_true, if_false))

    def _or(self) -> Expr:
        return self._logic("||", ast.OR, self._and)

    def _and(self) -> Expr:
        return self._logic("&&", ast.AND, self._relation)

    def _logic(self, sign: str, function: str, operand: Callable[[], Expr]) -> Expr:
        """A chain of one logical operator, as a balanced tree."""
        first = operand()
        if self._current.kind != sign:
            return first
        terms, positions, height = [first], [], self._height
        while self._current.kind == sign:
            positions.append(self._advance().position)
            terms.append(operand())
            height = max(height, self._height)
        self._height = height
        return _balanced(function, terms, positions, 0, len(positions) - 1)

    def _relation(self) -> Expr:
        self._enter("relation")
        left = self._calc(1)
        while (function := _RELATIONS.get(self._current.kind)) is not None:
            height = self._height
            sign = self._advance()
            self._enter("relation")
            right = self._calc(1)
            self._open["relation"] -= 1
            self._raised(height, self._height)
            left = Call(sign.position, function, (left, right))
        self._open["relation"] -= 1
        return left

    def _calc(self, lowest: int) -> Expr:
        self._enter("calc")
        left = self._unary()
        while True:
            binding, function = _CALCULATIONS.get(self._current.kind, (0, ""))
            if binding < lowest:
                break
            height = self._height
            sign = self._advance()
            right = self._calc(binding + 1)
            self._raised(height, self._height)
            left = Call(sign.position, function, (left, right))
        self._open["calc"] -= 1
        return left

    def _unary(self) -> Expr:
        sign = self._current
        if sign.kind == "!":
            return self._signed(sign, ast.NOT)
        if sign.kind == "-" and self._tokens[self._next + 1].kind not in ("int", "double"):
            return self._signed(sign, ast.NEGATE)
        return self._member()

    def _signed(self, sign: Token, function: str) -> Expr:
        """One or more of the same sign before a member; two cancel out."""
        count = 0
        while self._accept(sign.kind):
            count += 1
        operand = self._member()
        return Call(sign.position, function, (operand,)) if count % 2 else operand

    def _member(self) -> Expr:
        operand = self._primary()
        while True:
            if self._current.kind == ".":
                operand = self._dotted(operand)
            elif self._current.kind == "[":
                operand = self._indexed(operand)
            else:
                return operand

    def _dotted(self, operand: Expr) -> Expr:
        height = self._height
        dot = self._advance()
        is_optional = self._accept("?") is not None
        name = self._field_name()
        if not is_optional and name.kind == "ident" and self._current.kind == "(":
            parenthesis = self._current
            arguments = self._arguments()
            self._raised(height, self._height)
            return self._call(parenthesis.position, name.text, arguments, operand)
        self._raised(height)
        if is_optional:
            field = Literal(name.position, _plain(name))
            return Call(dot.position, ast.OPTIONAL_SELECT, (operand, field))
        return Select(dot.position, operand, _plain(name))

    def _field_name(self) -> Token:
        if self._current.kind == "escaped":
            if not self._syntax.has_escaped_identifiers:
                raise self._error("unsupported syntax: '`'", self._current.position)
            return self._advance()
        if self._current.kind != "ident":
            raise self._unexpected("expecting IDENTIFIER")
        return self._advance()

    def _indexed(self, operand: Expr) -> Expr:
        height = self._height
        bracket = self._advance()
        function = ast.OPTIONAL_INDEX if self._accept("?") else ast.INDEX
        index = self._expr()
        self._expect("]")
        self._raised(height, self._height)
        return Call(bracket.position, function, (operand, index))

    def _primary(self) -> Expr:
        token = self._current
        rule = _PRIMARIES.get(token.kind)
        if rule is None:
            raise self._unexpected("expecting an expression")
        self._height = 0
        return rule(self)

    def _nested(self) -> Expr:
        self._advance()
        expression = self._expr()
        self._expect(")")
        return expression

    def _name(self) -> Expr:
        start = self._current
        dot = self._accept(".")
        if self._current.kind != "ident":
            raise self._unexpected("expecting IDENTIFIER")
        if self._starts_message():
            return self._message(dot)
        name = self._advance()
        if name.text in _RESERVED:
            raise self._error(f"reserved identifier: {name.text}", start.position)
        text = f".{name.text}" if dot else name.text
        if self._current.kind != "(":
            return Ident(name.position, text)
        parenthesis = self._current
        return self._call(parenthesis.position, text, self._arguments())

    def _arguments(self) -> tuple[Expr, ...]:
        self._advance()
        arguments: list[Expr] = []
        height = 0
        while self._current.kind != ")" or arguments:
            arguments.append(self._expr())
            height = max(height, self._height)
            if not self._accept(","):
                break
        self._expect(")")
        self._height = height
        return tuple(arguments)

    def _items(self, close: str, read: Callable[[], None]) -> None:
        """What stands between brackets: items and commas, one comma allowed at the end, even alone."""
        height = 0
        has_more = self._current.kind not in (close, ",")
        while has_more:
            read()
            height = max(height, self._height)
            has_more = self._current.kind == "," and self._tokens[self._next + 1].kind != close
            if has_more:
                self._advance()
        self._accept(",")
        self._expect(close)
        self._height = height

    def _list(self) -> Expr:
        bracket = self._advance()
        elements: list[Expr] = []
        optionals: set[int] = set()

        def element() -> None:
            if self._accept("?"):
                optionals.add(len(elements))
            elements.append(self._expr())

        self._items("]", element)
        return ListExpr(bracket.position, tuple(elements), frozenset(optionals))

    def _map(self) -> Expr:
        brace = self._advance()
        entries: list[MapEntry] = []

        def entry() -> None:
            is_optional = self._accept("?") is not None
            key = self._expr()
            height = self._height
            colon = self._expect(":")
            entries.append(MapEntry(colon.position, key, self._expr(), is_optional))
            self._height = max(height, self._height)

        self._items("}", entry)
        return MapExpr(brace.position, tuple(entries))

    def _starts_message(self) -> bool:
        ahead = self._next + 1
        while self._tokens[ahead].kind == "." and self._tokens[ahead + 1].kind == "ident":
            ahead += 2
        return self._tokens[ahead].kind == "{"

    def _message(self, dot: Token | None) -> Expr:
        names = [self._advance().text]
        while self._accept("."):
            names.append(self._advance().text)
        brace = self._expect("{")
        fields: list[Field] = []

        def field() -> None:
            is_optional = self._accept("?") is not None
            name = self._field_name()
            colon = self._expect(":")
            fields.append(Field(colon.position, _plain(name), self._expr(), is_optional))

        self._items("}", field)
        type_name = ("." if dot else "") + ".".join(names)
        return MessageExpr(brace.position, type_name, tuple(fields))

    def _literal(self) -> Expr:
        start = self._current
        negative = self._accept("-") is not None
        if negative and self._current.kind not in ("int", "double"):
            raise self._unexpected("expecting a number")
        token = self._advance()
        try:
            return Literal(start.position, _literal_value(token, negative=negative))
        except ValueError as error:
            raise self._error(str(error), start.position) from None

    def _constant(self) -> Expr:
        token = self._advance()
        return Literal(token.position, _CONSTANTS[token.kind])

    # Macros

    def _call(self, position: int, function: str, arguments: tuple[Expr, ...], target: Expr | None = None) -> Expr:
        macro = self._syntax.macros.get((function, len(arguments), target is not None))
        if macro is not None:
            expansion = self._expanded(macro, MacroCall(position, target, arguments))
            if expansion is not None:
                return expansion
        return Call(position, function, arguments, target)

    def _expanded(self, macro: Macro, call: MacroCall) -> Expr | None:
        try:
            return macro(call)
        except MacroError as error:
            raise self._error(error.message, error.position) from None


def _balanced(function: str, terms: list[Expr], positions: list[int], low: int, high: int) -> Expr:
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balanced(function, terms, positions, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balanced(function, terms, positions, middle + 1, high)
    return Call(positions[middle], function, (left, right))


def _plain(name: Token) -> str:
    return name.text[1:-1] if name.kind == "escaped" else name.text


def _literal_value(token: Token, *, negative: bool) -> Value:
    match token.kind:
        case "int":
            return lexer.int_value(token.text, negative=negative)
        case "uint":
            return lexer.uint_value(token.text)
        case "double":
            return lexer.double_value(token.text, negative=negative)
        case "string":
            return lexer.string_value(token.text)
        case _:
            return lexer.bytes_value(token.text)


_PRIMARIES: Final[Mapping[str, Callable[[_Parser], Expr]]] = {
    "(": _Parser._nested,  # noqa: SLF001 - the table of the class's own rules
    "[": _Parser._list,  # noqa: SLF001
    "{": _Parser._map,  # noqa: SLF001
    ".": _Parser._name,  # noqa: SLF001
    "ident": _Parser._name,  # noqa: SLF001
    "-": _Parser._literal,  # noqa: SLF001
    **dict.fromkeys(("int", "uint", "double", "string", "bytes"), _Parser._literal),  # noqa: SLF001
    **dict.fromkeys(_CONSTANTS, _Parser._constant),  # noqa: SLF001
}
