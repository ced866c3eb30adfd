"""Numbers and names that people write, and words of messages: numbers with nouns, lists that count the rest."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MOST = 3
"""Names that are offered."""

_LIKENESS = 0.75


def whole_number(text: str, most: int) -> int | None:
    """The number that the text says; None if it has anything but digits, or says more than `most`.

    Python itself raises for more than 4,300 digits.
    """
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdecimal() or len(digits) > len(str(most)):
        return None
    number = int(digits or "0")
    return number if number <= most else None


def agreeing(number: int, one: str, several: str = "") -> str:
    """The word that goes with the number. several: a plural, or a verb's, that is more than an `s` at the end."""
    return one if number == 1 else several or f"{one}s"


def counted(number: int, one: str, several: str = "", style: str = "") -> str:
    """The number and its word, such as `1 node` or `3 nodes`. style: of the number, such as `,`."""
    return f"{number:{style}} {agreeing(number, one, several)}"


def listed(texts: Sequence[str]) -> str:
    """All of them, the last one after `and`."""
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last


def listed_up_to(texts: Sequence[str], most: int, noun: str = "", word: str = "and") -> str:
    """The first of them, and how many more there are. noun: of one more; empty for none. word: before the number."""
    return " ".join(filter(None, (", ".join(texts[:most]), and_more(len(texts), most, noun, word))))


def and_more(number: int, most: int, noun: str = "", word: str = "and") -> str:
    """`and 3 more` of so many of which the first are shown; empty if that is all of them."""
    rest = number - most
    return f"{word} {rest} more{f' {agreeing(rest, noun)}' if noun else ''}" if rest > 0 else ""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Other known names that are like it, at most `MOST`, the likest first. Cost: O(names)."""
    by_folded = {one.casefold(): one for one in sorted(known) if one != name}
    return [by_folded[one] for one in get_close_matches(name.casefold(), by_folded, MOST, _LIKENESS)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, the likest first; empty if no name is like it. Cost: O(names)."""
    found = similar(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""
