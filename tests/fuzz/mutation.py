"""Good input made bad: texts with parts exchanged, repeated and nested, and JSON with values of other shapes in it."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.odd_objects import QUANTITIES, VALUES

MAX_CHARACTERS = 20_000
MAX_CHANGES = 8

Json = Any  # any JSON value

_ODD = [json.loads(text) for text in (*VALUES.values(), *QUANTITIES)] + ["\ud800", "x" * 300, "0001-01-01T00:00:00Z"]


def changed_text(rng: Random, text: str, tokens: Sequence[str], another: str) -> str:
    """The text, changed in a few places. tokens: of its language; another: text of the same language."""
    for _ in range(rng.randrange(MAX_CHANGES)):
        start, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        part = text[start:end]
        replacement = rng.choice(
            [
                rng.choice(tokens),
                part * rng.choice([0, 2, 50]),
                rng.choice("([{!-") * rng.choice([1, 30, 300]) + part,
                chr(rng.choice([0, 0x7F, 0xD800, 0x10FFFF, rng.randrange(0x3000)])),
                another,
            ]
        )
        text = text[:start] + replacement + text[end:]
    return text[:MAX_CHARACTERS]


def changed_json(rng: Random, value: Json) -> Json:
    """The value, with a few of the values in it replaced, left out, doubled, nested or exchanged."""
    found = _copy(value)
    for _ in range(rng.randrange(1, MAX_CHANGES)):
        places = list(_places(found))
        if not places:
            return _copy(rng.choice(_ODD))
        holder, key = rng.choice(places)
        _change(rng, holder, key, places)
    return found


def _places(value: Json) -> list[tuple[Json, Any]]:
    """Each object or list in it with each of its keys."""
    found: list[tuple[Json, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            keys = list(one) if isinstance(one, dict) else list(range(len(one)))
            found += [(one, key) for key in keys]
            waiting += [one[key] for key in keys]
    return found


def _change(rng: Random, holder: Json, key: Any, places: Sequence[tuple[Json, Any]]) -> None:
    other, other_key = rng.choice(places)
    way = rng.randrange(6)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, list):
        holder += [_copy(one) for one in holder * rng.choice([1, 39])]
    elif way == 2:
        holder[key] = {"a": holder[key]} if rng.random() < 0.5 else [holder[key]]
    elif way == 3 and isinstance(holder, dict):
        holder[rng.choice(["", "a", "\x00", str(key).upper(), f"{key}s"])] = _copy(rng.choice(_ODD))
    elif way == 4:
        holder[key] = _copy(other[other_key])
    else:
        holder[key] = _copy(rng.choice(_ODD))


def _copy(value: Json) -> Json:
    return json.loads(json.dumps(value))


def as_text(rng: Random, value: Json) -> str:
    """JSON of the value; now and then broken as a text too, or nested deeper than anybody writes."""
    text = json.dumps(value)
    chance = rng.random()
    if chance < 0.1:
        return changed_text(rng, text, ('"', "\\u", "null", "1e999", ",", "\n", "NaN", "-"), text)
    if chance < 0.15:
        depth = rng.choice([100, 1000, 20_000])
        return text.replace("null", "[" * depth + "]" * depth, 1)
    return text
