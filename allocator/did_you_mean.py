"""Suggestions for a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 3
"""Names that are offered."""

_LIKENESS = 0.75


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Other known names that are like it, at most `MOST`, the likest first. Cost: O(names)."""
    by_folded = {one.casefold(): one for one in sorted(known) if one != name}
    return [by_folded[one] for one in get_close_matches(name.casefold(), by_folded, MOST, _LIKENESS)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, the likest first; empty if no name is like it. Cost: O(names)."""
    found = similar(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""
