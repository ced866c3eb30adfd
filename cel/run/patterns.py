r"""Go's regular expressions on RE2, which matches in time linear in the text.

`matches`, `find` and `findAll` compile their patterns here. Both libraries agree in syntax and semantics, with five
exceptions: Go has no `\C`, and accepts only ASCII names of groups; it looks up the names of Unicode classes
(`\p{Letter}`) in any case and by their aliases, and its class C includes unassigned code points; its `\B` never matches
inside a character; and it limits how deeply groups nest (`MOST_LEVELS`).
Of Go's tree a level is a group that captures, a repetition, a sequence of several, a choice of several. Texts and
classes are leaves, and a choice among single characters is a class. What Go takes out in front of several choices that
begin alike is not counted, which makes a difference of a level for each such choice.
Source: the documentation of Go's regexp/syntax (with ErrNestingDepth).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import re2

from cel.errors import EvalAbortedError

MOST_LEVELS: Final = 1000

_NESTING_TOKEN = re.compile(
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
    for token in _NESTING_TOKEN.finditer(pattern):
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


MOST_INSTRUCTIONS: Final = 2**17  # of RE2, compiled for one expression, and again in one evaluation: about 0.1 s
WORK_OF_AN_INSTRUCTION: Final = 5  # that is compiled
_LARGE: Final = 2**12  # instructions: the patterns of an expression with more may be compiled each time that it runs
_LEAST: Final = 2**6  # instructions that take as long as a pattern takes, whatever it is
_KEPT: Final = _LARGE // _LEAST  # patterns
_KEPT_OF_LARGE: Final = 4
_MEMORY: Final = 1 << 20  # bytes for a pattern, with what it learns while matching
_MEMORY_OF_LARGE: Final = 8 << 20  # for one that has no room in these

_LONGEST: Final = 10 * 1024  # characters, as of an expression
_LONGEST_REWRITTEN: Final = 1 << 17  # characters; every class C inside of brackets becomes thousands of them
_MOST_CLASSES: Final = 256  # of Unicode, each up to a thousand ranges: RE2 reads them all before it counts
_TOO_LARGE: Final = "pattern too large"  # in RE2's words

_MOST_STEPS: Final = 2**24  # bytes of text times instructions, of one call, which nothing interrupts: at most 0.1 s
_FREE_STEPS: Final = 2**11
_WORK_OF_A_MATCH: Final = 5
_STEPS_OF_WORK: Final = 2**5  # where RE2 has no memory to learn the text, each step takes 6 nanoseconds

_TOKEN = re.compile(
    r"""
      \\Q.*?(?:\\E|\Z)                         # literal text
    | \\(?P<sign>[pP])(?:\{(?P<name>[^}]*)\}|(?P<letter>.))
    | (?P<any_byte>\\C)
    | \\.
    | \(\?P?<(?P<group>[^>]*)>
    | (?P<class>\[\^?+\]?+(?:\[:\^?\w+:\]|\\.|[^\]\\])*+\])
    | \[.*                                    # a class without end
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_CLASS = re.compile(r"\\[pP]")
_CLASS_TOKEN = re.compile(r"\\(?P<sign>[pP])(?:\{(?P<name>[^}]*)\}|(?P<letter>.))|\\.|.", re.DOTALL)

_ALIASES: Final = dict(
    re.findall(
        r"(\w+)=(\w+)",
        """
    casedletter=LC closepunctuation=Pe cntrl=Cc combiningmark=M control=Cc connectorpunctuation=Pc
    currencysymbol=Sc dashpunctuation=Pd decimalnumber=Nd digit=Nd enclosingmark=Me finalpunctuation=Pf format=Cf
    initialpunctuation=Pi letter=L letternumber=Nl lineseparator=Zl lowercaseletter=Ll mark=M mathsymbol=Sm
    modifierletter=Lm modifiersymbol=Sk nonspacingmark=Mn number=N openpunctuation=Ps other=C otherletter=Lo
    othernumber=No otherpunctuation=Po othersymbol=So paragraphseparator=Zp privateuse=Co punct=P punctuation=P
    separator=Z spaceseparator=Zs spacingmark=Mc surrogate=Cs symbol=S titlecaseletter=Lt unassigned=Cn
    uppercaseletter=Lu
        """,
    )
)
_ASSIGNED: Final = r"\pL\pM\pN\pP\pS\pZ"
# What RE2 has no name for, by classes that it has.
_COMPOSED: Final = {
    "assigned": rf"[{_ASSIGNED}\p{{Cc}}\p{{Cf}}\p{{Co}}]",
    "ascii": r"[\x00-\x7F]",
    "c": rf"[^{_ASSIGNED}]",
    "cn": rf"[^{_ASSIGNED}\p{{Cc}}\p{{Cf}}\p{{Co}}]",
    "lc": r"[\p{Lu}\p{Ll}\p{Lt}]",
}


class Pattern:
    """A compiled pattern. size: in instructions. compiled: as many as compile in the time that it takes.

    Searches raise EvalAbortedError if the text is too long for it.
    """

    __slots__ = ("_program", "compiled", "size")

    def __init__(self, text: str, memory: int = _MEMORY) -> None:
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = memory
        try:
            self._program = re2.compile(text.encode(), options)
        finally:
            re2.purge()  # it keeps the last 128 itself, whatever memory they have
        self.size: int = self._program.programsize
        self.compiled = max(self.size, _read_in(text))

    def work_on(self, text: str, *, finds_all: bool) -> int:
        """What a search takes at most; each match may begin another one, of all that comes after it."""
        length = len(text) if text.isascii() else len(text.encode())
        searches = length + 1 if finds_all else 1
        steps = min(length * self.size * searches, _MOST_STEPS)
        return _WORK_OF_A_MATCH * (searches - 1) + (0 if steps <= _FREE_STEPS else steps // _STEPS_OF_WORK)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches anywhere."""
        return any(True for _ in self._spans(text.encode()))

    def find(self, text: str) -> str:
        """The left-most match, the empty text where there is none."""
        encoded = text.encode()
        return next((encoded[start:end].decode() for start, end in self._spans(encoded)), "")

    def find_all(self, text: str, limit: int) -> list[str]:
        """The matches from left to right, without overlaps: at most `limit` if that is not negative."""
        encoded = text.encode()
        spans = islice(self._spans(encoded), None if limit < 0 else limit)
        return [encoded[start:end].decode() for start, end in spans]

    def _spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        position, last_end, steps = 0, -1, 0
        while position <= len(text):
            steps += (len(text) - position) * self.size
            if steps > _MOST_STEPS:
                raise EvalAbortedError("operation cancelled: the text is too long for the regular expression")
            match: Any = self._program.search(text, position)
            if match is None:
                return
            start, end = match.span()
            if start == end and _is_inside_character(text, start):
                position = _next_character(text, start)
                continue
            if start < end or start != last_end:  # an empty match next to the match before does not count
                yield start, end
            last_end = end
            position = end if end > position else _next_character(text, position)


def compile_pattern(text: str) -> Pattern:
    r"""Compiles a pattern in Go's syntax; raises ValueError.

    Differs from kube-scheduler: patterns for which RE2 takes more than 8 MiB, or of more than 10,240 characters, are
    rejected.
    """
    compiled = known_pattern(text)
    if isinstance(compiled, Pattern):
        return compiled
    raise ValueError(f"error parsing regexp: {compiled.message}")


class InvalidPattern(NamedTuple):
    """Why a pattern does not compile. compiled: as of `Pattern`, until that is seen."""

    message: str
    compiled: int


_TOO_LONG: Final = InvalidPattern("expression too large", _LEAST)


def _read_in(text: str) -> int:
    """Instructions that compile in the time in which RE2 reads the pattern, whatever it makes of it."""
    return _LEAST + 3 * len(text) + 128 * len(_CLASS.findall(text))


def known_pattern(text: str) -> Pattern | InvalidPattern:
    """The compiled pattern, or why there is none."""
    if len(text) > _LONGEST:
        return _TOO_LONG
    return _in_little_memory(text) or _in_more_memory(text)


@lru_cache(maxsize=_KEPT)
def _in_little_memory(text: str) -> Pattern | InvalidPattern | None:
    """As `known_pattern`; None for one that takes more."""
    known = _compiled(text, _MEMORY)
    return None if isinstance(known, InvalidPattern) and _TOO_LARGE in known.message else known


@lru_cache(maxsize=_KEPT_OF_LARGE)
def _in_more_memory(text: str) -> Pattern | InvalidPattern:
    """As `known_pattern`."""
    return _compiled(text, _MEMORY_OF_LARGE)


def _compiled(text: str, memory: int) -> Pattern | InvalidPattern:
    try:
        rewritten = _rewritten(text)
        if len(rewritten) > _LONGEST_REWRITTEN or len(_CLASS.findall(rewritten)) > _MOST_CLASSES:
            return InvalidPattern("expression too large", _LARGE)
        pattern = Pattern(rewritten, memory)
    except ValueError as error:
        return InvalidPattern(str(error), _read_in(text))
    except re2.error as error:
        (message,) = error.args
        said = message.decode() if isinstance(message, bytes) else str(message)
        return InvalidPattern(said, MOST_INSTRUCTIONS if _TOO_LARGE in said else _read_in(rewritten))
    if nests_too_deeply(text):
        return InvalidPattern(f"expression nests too deeply: `{text}`", pattern.compiled)
    return pattern


class PatternBudget:
    """The limit of what one expression, or one evaluation, may compile.

    The reference has no such limit: its cost counts the characters of a pattern, of which a few make a large program.
    """

    __slots__ = ("_left", "_seen")

    def __init__(self) -> None:
        self._left = MOST_INSTRUCTIONS
        self._seen: set[str] = set()

    @property
    def spent(self) -> int:
        """The instructions so far."""
        return MOST_INSTRUCTIONS - self._left

    @property
    def is_large(self) -> bool:
        """Whether the patterns are so many, or so large, that each evaluation may have to compile them again."""
        return self.spent > _LARGE

    def spend(self, text: str) -> None:
        """Compiles a pattern; raises EvalAbortedError beyond the limit, ValueError as `compile_pattern`."""
        if text in self._seen:
            return
        self._seen.add(text)
        self._left -= known_pattern(text).compiled
        if self._left < 0:
            raise EvalAbortedError(
                f"operation cancelled: regular expressions of more than {MOST_INSTRUCTIONS} instructions in all"
            )
        compile_pattern(text)


def _next_character(text: bytes, position: int) -> int:
    """The position of the character of UTF-8 text after the one at `position`."""
    position += 1
    while _is_inside_character(text, position):
        position += 1
    return position


def _is_inside_character(text: bytes, position: int) -> bool:
    return position < len(text) and text[position] & 0xC0 == 0x80


def _rewritten(text: str) -> str:
    if "\\p" not in text and "\\P" not in text and "\\C" not in text and "<" not in text:
        return text
    return _TOKEN.sub(_rewritten_token, text)


def _rewritten_token(match: re.Match[str]) -> str:
    if match["any_byte"]:
        raise ValueError("invalid escape sequence: `\\C`")
    if match["group"] and not match["group"].isascii():
        raise ValueError(f"invalid named capture: `{match[0]}`")
    if match["class"]:
        return _CLASS_TOKEN.sub(lambda inner: _unicode_class(inner, within=True), match["class"])
    return _unicode_class(match, within=False)


def _unicode_class(match: re.Match[str], *, within: bool) -> str:
    r"""A `\p` token by a name that RE2 knows, or by its ranges; other tokens as they are."""
    if not match["sign"]:
        return match[0]
    name = match["letter"] if match["name"] is None else match["name"]
    if not name.isascii():
        return match[0]
    negative = (match["sign"] == "P") != name.startswith("^")
    key = re.sub("[ _-]", "", name.removeprefix("^")).lower()
    key = _ALIASES.get(key, key)
    composed = _COMPOSED.get(key.lower())
    if composed is None:
        return rf"\{'P' if negative else 'p'}{{{key[:1].upper()}{key[1:]}}}"
    class_ = _negated(composed) if negative else composed
    return _ranges(class_) if within else class_


@lru_cache(maxsize=16)
def _ranges(class_: str) -> str:
    """The ranges of code points in a class, found by matching all of Unicode once."""
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    matches = re2.compile(f"{class_}+").finditer(every)
    return "".join(rf"\x{{{ord(match[0][0]):x}}}-\x{{{ord(match[0][-1]):x}}}" for match in matches)


def _negated(class_: str) -> str:
    return f"[{class_[2:]}" if class_.startswith("[^") else f"[^{class_[1:]}"
