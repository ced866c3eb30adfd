"""The language of selectors as tables, which stand in the folder `language` and say there how they read.

`PRODUCTIONS` says which text gives a value of which type, `LITERALS` and `WORDS` what ends it.
Source: the environment that Kubernetes 1.37 compiles selectors in.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from tests.generators.devices import ATTRIBUTES, CAPACITIES, DRIVERS, INTS, ODD_NAMES, OTHER_DOMAINS, QUANTITIES, TEXTS
from tests.generators.devices import VERSIONS as DEVICE_VERSIONS

ANY: tuple[str, ...] = ("bool", "int", "uint", "double", "string", "bytes", "null", "duration", "timestamp", "type")
ANY += ("quantity", "semver", "ip", "cidr", "url", "list(int)", "list(string)", "map(string, int)", "optional(int)")
COMMON = ("bool", "int", "string", "semver", "quantity", "list(string)", "list(int)")
NUMBERS = ("int", "uint", "double")
KEYS = ("string", "string", "int", "uint", "bool")
VARIABLES: dict[str, tuple[str, ...]] = {
    "T": ANY + COMMON * 2,
    "U": ANY + COMMON * 2,
    "O": ("int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp", "int", "string"),
    "N": NUMBERS,
    "M": NUMBERS,
    "K": KEYS,
    "J": KEYS,
    "C": ("int", "uint", "double", "string", "duration", "timestamp"),
    "S": ("int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp"),
}


@dataclass(frozen=True)
class Kind:
    """A static type, or a kind of word (an attribute's name, a pattern) that only literals fill."""

    name: str
    args: tuple["Kind", ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})" if self.args else self.name

    @property
    def is_variable(self) -> bool:
        """Whether this stands for a type that is still to be chosen."""
        return self.name in VARIABLES

    @cached_property
    def variables(self) -> frozenset[str]:
        """The variables in this type."""
        own = frozenset([self.name]) if self.is_variable else frozenset[str]()
        return own.union(*(a.variables for a in self.args))

    def bind(self, chosen: dict[str, "Kind"]) -> "Kind":
        """This type with its variables replaced."""
        if not self.variables:
            return self
        if self.is_variable:
            return chosen[self.name]
        return Kind(self.name, tuple(a.bind(chosen) for a in self.args))

    def match(self, wanted: "Kind", chosen: dict[str, "Kind"]) -> bool:
        """Whether this pattern can give the wanted type; variables are chosen on the way."""
        if self.is_variable:
            return _allowed(self.name, wanted) and chosen.setdefault(self.name, wanted) == wanted
        if self.name != wanted.name or len(self.args) != len(wanted.args):
            return False
        return all(a.match(w, chosen) for a, w in zip(self.args, wanted.args, strict=True))


def kind(text: str) -> Kind:
    """The kind that is written as `map(string, list(int))`."""
    name, _, rest = text.partition("(")
    if not rest:
        return Kind(text.strip())
    parts, depth, start = [], 0, 0
    inner = rest.rstrip().removesuffix(")")
    for position, character in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(inner[start:position])
            start = position + 1
    return Kind(name.strip(), tuple(kind(part.strip()) for part in (*parts, inner[start:])))


def _allowed(variable: str, wanted: Kind) -> bool:
    return variable in "TU" or str(wanted) in VARIABLES[variable]


@dataclass(frozen=True)
class Hole:
    """A place for an expression: its type, the variables known in it, whether brackets or commas hold it together."""

    kind: Kind
    scope: tuple[tuple[str, Kind], ...]
    delimited: bool


@dataclass(frozen=True)
class Fresh:
    """A place for the name of a new variable."""

    name: str


@dataclass(frozen=True)
class Production:
    """One line of the table."""

    result: Kind
    weight: float
    parts: tuple[str | Hole | Fresh, ...]
    is_operation: bool
    text: str

    @property
    def is_leaf(self) -> bool:
        """Whether it needs only words to be filled in, or expressions of simpler types."""
        words_only = all(not isinstance(p, Hole) or p.kind.name in WORDS for p in self.parts)
        return words_only or (self.text.startswith(("[", "{", "optional.of(")) and bool(self.result.args))


_PIECES = re.compile(r"(<<[^>]*>>|@[a-z])")


def _production(line: str) -> Production:
    head, text = line.split(": ", 1)
    result, _, weight = head.partition("*")
    pieces = _PIECES.split(text)
    parts = tuple(_part(piece, pieces[i - 1 : i], pieces[i + 1 : i + 2]) for i, piece in enumerate(pieces) if piece)
    return Production(kind(result), float(weight or 1), parts, _is_operation(text), text)


def _part(piece: str, before: list[str], after: list[str]) -> str | Hole | Fresh:
    if piece.startswith("@"):
        return Fresh(piece[1:])
    if not piece.startswith("<<"):
        return piece
    body, _, scope = piece[2:-2].partition(";")
    known = tuple((name.strip(), kind(of)) for name, _, of in (entry.partition("=") for entry in _split(scope)))
    opened = "".join(before).rstrip().endswith(("(", ",", "[", "{", "?"))
    closed = "".join(after).lstrip().startswith((",", ")", "]", "}", ":"))
    return Hole(kind(body), known, delimited=opened and closed)


def _split(scope: str) -> list[str]:
    """The entries of `x=int, y=map(string, int)`; none where the scope is empty."""
    return re.split(r",\s*(?=[a-z]=)", scope) if scope.strip() else []


def _is_operation(text: str) -> bool:
    """Whether the text is held together by operators alone, so that it needs parentheses inside others."""
    inner = _PIECES.sub("_", text)
    while (shorter := re.sub(r"[(\[{][^()\[\]{}]*[)\]}]|\"[^\"]*\"", "_", inner)) != inner:
        inner = shorter
    return " " in inner or inner.startswith(("!", "-"))


def _quoted(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_quote(word) for word in words)


def _quote(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def _ids(of: str) -> tuple[str, ...]:
    return tuple(name for name, usual in ATTRIBUTES.items() if usual == of)


def _lines(name: str) -> list[str]:
    text = (Path(__file__).parent / "language" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _table(lines: list[str], more: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    result = dict(more)
    for line in lines:
        name, words = line.split(": ", 1)
        result[name] = (*result.get(name, ()), *words.split(" | "))
    return result


WORDS = _table(
    _lines("words.txt"),
    {
        "domain": (*_quoted(DRIVERS * 2 + OTHER_DOMAINS), *["device.driver"] * 3),
        **{f"id_{of}": _ids(of) for of in set(ATTRIBUTES.values())},
        "id_any": (*tuple(ATTRIBUTES) * 4, *(name for name in ODD_NAMES if "/" not in name)),
        "id_capacity": CAPACITIES * 3,
        "quantity_text": _quoted(QUANTITIES),
        "version_text": _quoted(DEVICE_VERSIONS),
    },
)
LITERALS = _table(_lines("literals.txt"), {"int": tuple(map(str, INTS)), "string": _quoted(TEXTS)})

PRODUCTIONS = tuple(_production(line) for line in _lines("productions.txt"))


def literal(rng: Random, of: Kind) -> str:
    """A word or a literal of this kind."""
    return rng.choice(WORDS.get(of.name) or LITERALS[of.name])
