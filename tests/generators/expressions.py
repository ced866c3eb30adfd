"""Random CEL expressions: well-typed from a grammar, ill-typed by a slip of type, broken by a slip of text.

An expression is a tree of the productions that made it, so that a difference found with it can be made
small (shrinking.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.generators.grammar import (
    LITERALS,
    PRODUCTIONS,
    VARIABLES,
    WORDS,
    Fresh,
    Hole,
    Kind,
    Production,
    kind,
    literal,
)

BOOL = kind("bool")
Scope = tuple[tuple[str, Kind], ...]

SHARE_ILL_TYPED = 0.15
SHARE_BROKEN = 0.1
SHARE_ALLOWED = 0.85
DERIVED_TYPES = ("bool", "int", "string", "semver", "dyn", "list(bool)", "list(int)", "list(string)", "list(semver)")
SHARE_SPACED = 0.03
SHARE_ANY = 0.5  # of one production as often as of any other
MAX_CHARACTERS = 2000


@dataclass(frozen=True)
class Node:
    """An expression of a kind: text and further expressions in turn."""

    kind: Kind
    parts: tuple["str | Node", ...]
    is_operation: bool = False

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def children(self) -> Iterator["Node"]:
        """The expressions directly in this one."""
        return (part for part in self.parts if isinstance(part, Node))

    def descendants(self) -> Iterator["Node"]:
        """All expressions in this one, itself left out, the outer ones first."""
        for child in self.children():
            yield child
            yield from child.descendants()


@dataclass(frozen=True)
class Slips:
    """How often a writer errs: by a type that does not belong, by leaving out parentheses."""

    of_type: float = 0.0
    of_parentheses: float = 0.0


WITHOUT_SLIPS = Slips()
SLIPS = Slips(of_type=0.07, of_parentheses=0.1)


def well_typed(rng: Random, of: Kind = BOOL, depth: int = 4) -> Node:
    """An expression that means to be of this kind; attributes may still hold something else."""
    return Writer(rng, WITHOUT_SLIPS).write(of, (), depth)


def ill_typed(rng: Random, depth: int = 4) -> Node:
    """An expression in which some part may be of a type that does not belong there."""
    return Writer(rng, SLIPS).write(BOOL, (), depth)


def selector(rng: Random) -> Node:
    """Any selector expression: mostly well-typed, some ill-typed, some broken."""
    draw, depth = rng.random(), rng.choice((2, 2, 3, 3, 3, 4))
    if draw < SHARE_BROKEN:
        return broken(rng, well_typed(rng, depth=depth))
    if draw < SHARE_BROKEN + SHARE_ILL_TYPED:
        return ill_typed(rng, depth)
    if draw < SHARE_BROKEN + SHARE_ILL_TYPED + SHARE_ANY:
        return Writer(rng, WITHOUT_SLIPS).write_any(depth)
    of = BOOL if rng.random() < 0.97 else kind(rng.choice(VARIABLES["T"]))
    return well_typed(rng, of, depth)


def derived_attribute(rng: Random) -> Node:
    """An expression for a derived attribute: mostly of a type that is allowed."""
    of = kind(rng.choice(DERIVED_TYPES if rng.random() < SHARE_ALLOWED else VARIABLES["T"]))
    return well_typed(rng, of, rng.choice((1, 2, 2, 3)))


def some(expression: Callable[[Random], Node], rng: Random, count: int) -> Iterator[Node]:
    """Expressions that are not longer than a reader would follow, a few of them spaced in odd ways."""
    while count:
        node = expression(rng)
        if len(str(node)) <= MAX_CHARACTERS:
            yield node if rng.random() > SHARE_SPACED else spaced(rng, node)
            count -= 1


def spaced(rng: Random, expression: Node) -> Node:
    """The expression with other white space, and comments, where it has spaces."""
    pieces = str(expression).split(" ")
    spaces = (rng.choice((" ", "\n", "\t", "\r\n  ", " // why\n", "\f")) for _ in pieces[1:])
    return Node(expression.kind, ("".join(piece + space for piece, space in zip(pieces, (*spaces, ""), strict=True)),))


_SLIPS_OF_TEXT = (
    "",
    "",
    ")",
    "(",
    "'",
    '"',
    "\\",
    ".",
    "?",
    "!",
    "&",
    ",",
    "[",
    "}",
    "-",
    " in ",
    "`",
    "\0",
    "é",
    "//",
    "%",
)


def broken(rng: Random, expression: Node) -> Node:
    """The text of an expression with a piece left out, doubled or put in, or two exchanged."""
    text = str(expression)
    for _ in range(rng.choice((1, 1, 2))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 1, 2, 5)))
        text = text[:start] + rng.choice((*_SLIPS_OF_TEXT, text[start:end] * 2)) + text[end:]
    return Node(BOOL, (text,))


@dataclass
class Writer:
    """Writes expressions; counts the variables that it has named."""

    rng: Random
    slips: Slips
    named: int = 0

    def write(self, of: Kind, scope: Scope, depth: int) -> Node:
        """An expression of this kind, at most so deep, over the variables in scope."""
        if of.name in WORDS:
            return Node(of, (literal(self.rng, of),))
        if self.rng.random() < self.slips.of_type:
            of = kind(self.rng.choice(VARIABLES["T"]))
        if (variable := self._variable(of, scope)) and self.rng.random() < 0.5:
            return Node(of, (variable,))
        productions = productions_of(of, leaf=depth <= 0)
        if not productions or (of.name in LITERALS and self.rng.random() < self._literals(depth)):
            return Node(of, (literal(self.rng, of),))
        production = self.rng.choices(productions, [p.weight for p in productions])[0]
        chosen: dict[str, Kind] = {}
        production.result.match(of, chosen)
        return self._fill(production, self._choose(production, chosen), scope, depth - 1)

    def _literals(self, depth: int) -> float:
        """The share of literals: all where types need to become simpler, half of the leaves, few above."""
        return 1.0 if depth < 0 else 0.5 / (depth + 1) ** 2

    def _variable(self, of: Kind, scope: Scope) -> str | None:
        fitting = [name for name, its_kind in scope if its_kind == of]
        return self.rng.choice(fitting) if fitting else None

    def write_any(self, depth: int) -> Node:
        """A bool that uses some production, each as often as any other."""
        production = self.rng.choice(PRODUCTIONS)
        chosen = self._choose(production, {})
        inner = self._fill(production, chosen, (), depth - 2)
        return inner if inner.kind == BOOL else self._write_around(inner, depth - 1)

    def _write_around(self, inner: Node, depth: int) -> Node:
        """A bool that makes something of an expression."""
        production, place = self.rng.choice(places_for(inner.kind))
        chosen: dict[str, Kind] = {}
        production.result.match(BOOL, chosen)
        hole = production.parts[place]
        assert isinstance(hole, Hole)
        hole.kind.match(inner.kind, chosen)
        return self._fill(production, self._choose(production, chosen), (), depth, {place: inner})

    def _fill(
        self,
        production: Production,
        chosen: dict[str, Kind],
        scope: Scope,
        depth: int,
        given: dict[int, Node] | None = None,
    ) -> Node:
        names = {part.name: self._name() for part in production.parts if isinstance(part, Fresh)}
        parts: list[str | Node] = []
        for place, part in enumerate(production.parts):
            match part:
                case str():
                    parts.append(part)
                case Fresh(name):
                    parts.append(names[name])
                case Hole():
                    inner = tuple((names[name], k.bind(chosen)) for name, k in part.scope)
                    node = (given or {}).get(place) or self.write(part.kind.bind(chosen), scope + inner, depth)
                    parts += self._operand(part, node)
        return Node(production.result.bind(chosen), tuple(parts), production.is_operation)

    def _choose(self, production: Production, chosen: dict[str, Kind]) -> dict[str, Kind]:
        """The types that the variables of a production stand for, those of `chosen` and others."""
        holes = (part.kind for part in production.parts if isinstance(part, Hole))
        for variable in sorted(production.result.variables.union(*(of.variables for of in holes)) - chosen.keys()):
            chosen[variable] = kind(self.rng.choice(VARIABLES[variable]))
        return chosen

    def _operand(self, hole: Hole, node: Node) -> list[str | Node]:
        needs_them = node.is_operation and not hole.delimited
        if needs_them and self.rng.random() >= self.slips.of_parentheses:
            return ["(", node, ")"]
        return [node]

    def _name(self) -> str:
        self.named += 1
        return f"v{self.named}"


_productions: dict[tuple[Kind, bool], list[Production]] = {}


def productions_of(of: Kind, *, leaf: bool) -> list[Production]:
    """The productions that can give this kind; with `leaf`, those that need no further expressions."""
    key = (of, leaf)
    if key not in _productions:
        _productions[key] = [p for p in PRODUCTIONS if p.result.match(of, {}) and (p.is_leaf or not leaf)]
    return _productions[key]


_places: dict[Kind, list[tuple[Production, int]]] = {}


def places_for(of: Kind) -> list[tuple[Production, int]]:
    """The productions of a bool with a hole for this kind, and which of their parts that is."""
    if of not in _places:
        _places[of] = [
            (production, place)
            for production in productions_of(BOOL, leaf=False)
            for place, part in enumerate(production.parts)
            if isinstance(part, Hole) and not part.scope and part.kind.match(of, {})
        ]
    return _places[of]
