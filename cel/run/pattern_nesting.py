r"""How deeply a regular expression nests: Go refuses a tree of more than `MOST_LEVELS` levels, which RE2 accepts.

Of Go's tree a level is a group that captures, a repetition, a sequence of several, a choice of several. Texts and
classes are leaves, and a choice among single characters is a class. What Go takes out in front of several choices that
begin alike is not counted, which makes a difference of a level for each such choice.
Source: the documentation of Go's regexp/syntax (ErrNestingDepth).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

MOST_LEVELS: Final = 1000

_TOKEN = re.compile(
    r"""
      (?P<group>\((?!\?)|\(\?P?<[^>]*>)         # a group that captures
    | (?P<flags>\(\?[A-Za-z-]*\))               # flags for what follows
    | (?P<open>\(\?[A-Za-z-]*:)                 # a group that does not
    | (?P<close>\))
    | (?P<bar>\|)
    | (?P<repeat>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)
    | (?P<quoted>\\Q.*?(?:\\E|\Z))
    | (?P<class>\[\^?+\]?+(?:\[:\^?\w+:\]|\\.|[^\]\\])*+\]|\\[pP](?:\{[^}]*\}|.)|\\[dDsSwW]|\.)
    | (?P<place>\\[AbBz]|[\^$])
    | (?P<text>\\x\{[^}]*\}|\\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_TokenKind = Literal["text", "character", "sequence", "choice", "other"]


@dataclass(frozen=True, slots=True)
class _PatternTree:
    """A part of the expression, as a tree of so many levels."""

    kind: _TokenKind
    levels: int


_TEXT: Final = _PatternTree("text", 1)
_CHARACTER: Final = _PatternTree("character", 1)
_OTHER: Final = _PatternTree("other", 1)


@dataclass(slots=True)
class _OpenGroup:
    """A group that is not closed yet. sequence: of the alternative at its end."""

    captures: bool
    alternatives: list[_PatternTree] = field(default_factory=list)
    sequence: list[_PatternTree] = field(default_factory=list)

    def add_text(self) -> None:
        """A character. Those next to one another are one text, but for the last, which may be repeated."""
        sequence = self.sequence
        if len(sequence) > 1 and sequence[-1] is sequence[-2] is _TEXT:
            return
        sequence.append(_TEXT)

    def repeat(self) -> None:
        """Repeat what comes last."""
        if self.sequence:
            self.sequence.append(_PatternTree("other", 1 + self.sequence.pop().levels))

    def end_alternative(self) -> None:
        """Join the sequence at the end."""
        self.alternatives.append(_joined("sequence", list(_merged(self.sequence))))
        self.sequence = []

    def tree(self) -> _PatternTree:
        """The group as a whole."""
        self.end_alternative()
        if all(one.kind in ("text", "character") for one in self.alternatives):
            tree = self.alternatives[0] if len(self.alternatives) == 1 else _CHARACTER
        else:
            tree = _joined("choice", self.alternatives)
        return _PatternTree("other", 1 + tree.levels) if self.captures else tree


def nests_too_deeply(pattern: str) -> bool:
    """Whether Go refuses the pattern, which RE2 accepts. Cost: O(characters)."""
    return len(pattern) > MOST_LEVELS and any(levels > MOST_LEVELS for levels in _levels(pattern))


def _levels(pattern: str) -> Iterator[int]:
    """The levels of each group, and of the whole."""
    groups = [_OpenGroup(captures=False)]
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "group" | "open":
                groups.append(_OpenGroup(captures=token.lastgroup == "group"))
            case "close" if len(groups) > 1:
                tree = groups.pop().tree()
                yield tree.levels
                groups[-1].sequence.append(tree)
            case "bar":
                groups[-1].end_alternative()
            case "repeat":
                groups[-1].repeat()
                yield groups[-1].sequence[-1].levels if groups[-1].sequence else 0
            case "class":
                groups[-1].sequence.append(_CHARACTER)
            case "place":
                groups[-1].sequence.append(_OTHER)
            case "text" | "quoted":
                groups[-1].add_text()
            case _:
                pass
    yield groups[0].tree().levels


def _merged(trees: list[_PatternTree]) -> Iterator[_PatternTree]:
    """The same, with texts next to one another as one."""
    before: _PatternTree | None = None
    for tree in trees:
        if not (tree is _TEXT and before is _TEXT):
            yield tree
        before = tree


def _joined(kind: Literal["sequence", "choice"], trees: list[_PatternTree]) -> _PatternTree:
    """One tree of them; those that are of the same kind themselves give it theirs."""
    if len(trees) == 1:
        return trees[0]
    return _PatternTree(kind, 1 + max([one.levels - (one.kind == kind) for one in trees], default=0))
