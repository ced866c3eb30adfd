"""Misspelt selectors: expressions in which one word that no device knows is replaced by one like it that devices have.

A word is a name or a text of the expression: the domain or name of an attribute or capacity, or a value.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from allocator.model import Device

MOST_LIKE = 2
"""Words that are offered in place of one."""

MOST_TRIED = 8
"""Corrections of one expression that are worth a try."""

LONGEST = 1024
"""Characters of an expression that a person has written."""

MOST_WORDS = 1 << 12
"""Of devices that a word is compared with; where there are more, it may differ in upper and lower case alone."""

_LIKENESS = 0.75
_WORD = re.compile(r"\"([^\"\\]{2,64})\"|'([^'\\]{2,64})'|\.([A-Za-z_]\w{1,63})\b(?!\()")
_OWN = frozenset({"allowMultipleAllocations", "attributes", "capacity", "driver"})
"""Fields of `device`."""


@dataclass(frozen=True, slots=True)
class Correction:
    """An expression in which `by` stands in place of `word`."""

    expression: str
    word: str
    by: str


def corrections(expression: str, devices: Iterable[Device]) -> list[Correction]:
    """Corrected expressions, the first words first. Cost: O(devices times what they say)."""
    if len(expression) > LONGEST:
        return []
    names, texts = _words_of(devices)
    corrected = [one for match in _WORD.finditer(expression) for one in _of_word(expression, match, names, texts)]
    return corrected[:MOST_TRIED]


def _of_word(expression: str, match: re.Match[str], names: set[str], texts: set[str]) -> Iterator[Correction]:
    position = next(number for number in (1, 2, 3) if match[number] is not None)
    word, known = match[position], names if position == 3 else names | texts
    if word in known or word in _OWN:
        return
    folded = {one.casefold(): one for one in sorted(known)}
    like = dict.fromkeys(
        [
            *filter(None, [folded.get(word.casefold())]),
            *(folded[one] for one in _like(word.casefold(), folded)),
            *(one for one in sorted(texts) if position != 3 and one.casefold().startswith(word.casefold())),
        ]
    )
    for by in list(like)[:MOST_LIKE]:
        start, end = match.span(position)
        yield Correction(f"{expression[:start]}{by}{expression[end:]}", word, by)


def _like(word: str, known: Collection[str]) -> list[str]:
    return get_close_matches(word, known, MOST_LIKE, _LIKENESS) if len(known) <= MOST_WORDS else []


def _words_of(devices: Iterable[Device]) -> tuple[set[str], set[str]]:
    """What devices call their attributes and capacities, and the texts that these have; a text may hold no quotes."""
    names: set[str] = set()
    texts: set[str] = set()
    for device in devices:
        names.add(device.driver)
        for name in (*device.attributes, *device.capacity):
            names.update(filter(None, name.partition("/")[::2]))
        values = (value for _, value in device.attributes.values())
        texts.update(value for value in values if isinstance(value, str) and not {'"', "'", "\\"} & set(value))
    return names, texts
