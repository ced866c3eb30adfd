"""CEL expressions with other texts: literals, names of variables, and no comments.

A literal is kept if the devices of the dump show its text anyway, so that it compares as before.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache

from cel.cache import compile_selector
from cel.check.declarations import declared_in
from cel.device.device import PlainDevice
from cel.environment import V1_36_LISTS, V1_37
from cel.errors import CompileError, EvalError
from cel.syntax.lexer import Token, bytes_value, string_value, tokens
from cel.syntax.macros import MACROS
from scheduler.offline.kept_texts import KeptTexts

NO_EXPRESSION = "?"
"""In place of what cannot be taken apart: it does not compile either."""

_OF_THE_LANGUAGE = frozenset({"cel", "device", "math", "optional"})
_CONVERSIONS = frozenset({"int", "uint", "double", "bool", "duration", "timestamp", "quantity"})
"""Functions of a text that is no name, as long as they can read it."""

_VERSIONS = frozenset({"semver"})
_NO_DEVICE = PlainDevice("", {})

_CONVERSION_OF = {"isQuantity": "quantity", "isSemver": "semver"}

Replacement = Callable[[str], str]


class RedactedExpressions:
    """Expressions with other texts. name, version: what replaces a name, and a semantic version."""

    def __init__(self, kept: KeptTexts, name: Replacement, version: Replacement) -> None:
        self._name = name
        self._version = version
        self._kept = kept
        self._identifiers = kept.attributes | kept.capacities | _words_of_the_language()

    def of(self, text: str) -> str:
        """The expression."""
        try:
            found = tokens(text)
            return "".join(self._texts(found))
        except (CompileError, ValueError):
            return NO_EXPRESSION

    def _texts(self, found: list[Token]) -> Iterable[str]:
        end = 0
        for number, token in enumerate(found[:-1]):
            yield " " if token.position > end else ""
            yield self._token(token, found[:number])
            end = token.position + len(token.text)

    def _token(self, token: Token, before: list[Token]) -> str:
        match token.kind:
            case "string":
                return self._literal(token.text, _function_of(before))
            case "bytes":
                return f'b"{self._name(bytes_value(token.text).decode(errors="replace"))}"'
            case "ident":
                return token.text if token.text in self._identifiers else as_identifier(self._name(token.text))
            case "escaped":
                name = token.text.strip("`")
                return token.text if name in self._identifiers else f"`{self._name(name)}`"
        return token.text

    def _literal(self, literal: str, function: str) -> str:
        text, converts = string_value(literal), _CONVERSION_OF.get(function, function)
        if not text or self._is_shown(text) or (converts in _CONVERSIONS and _converts(f"{converts}({literal})")):
            return literal
        is_version = converts in _VERSIONS and _converts(f"{converts}({literal}, true)")
        return f'"{self._version(text)}"' if is_version else f'"{self._name(text)}"'

    def _is_shown(self, text: str) -> bool:
        """Whether devices show the text: as it is, or in a longer one unless some attribute has it as its value."""
        if text in self._kept.shown:
            return True
        return text not in self._kept.values and any(text in longer for longer in self._kept.shown)


def as_identifier(name: str) -> str:
    """The name as CEL and attributes can spell it."""
    return name.replace("-", "_").replace(".", "_")


def _function_of(before: list[Token]) -> str:
    """The function whose first argument follows these tokens."""
    return before[-2].text if len(before) > 1 and before[-1].kind == "(" else ""


@lru_cache(maxsize=1 << 12)
def _converts(call: str) -> bool:
    """Whether the conversion of a literal succeeds."""
    try:
        return compile_selector(f"{call} == {call}").evaluate(_NO_DEVICE)
    except (CompileError, EvalError):
        return False


@cache
def _words_of_the_language() -> frozenset[str]:
    """What every environment has names for: functions, macros, types, fields of messages."""
    words = set(_OF_THE_LANGUAGE) | {name for name, _, _ in MACROS}
    for declared in map(declared_in, (V1_36_LISTS, V1_37)):
        names = {*declared.functions, *declared.variables, *declared.types, *declared.constants, *declared.structs}
        names.update(name for fields in declared.structs.values() for name in fields)
        words.update(word for name in names for word in name.split("."))
    return frozenset(words)
