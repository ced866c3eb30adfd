"""Where an unknown field belongs: elsewhere in the object, or under a name that is like it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from typing_extensions import is_typeddict

from allocator.did_you_mean import did_you_mean

Steps = tuple[str, ...]
"""A path without positions and keys: `requests[]` is an entry of requests."""

_IN_BRACKETS = re.compile(r"\[[^\]]*\]")
_FARTHEST = 3
_OF_EVERYTHING = frozenset({"name", "key", "value"})
"""Names that say nothing about where they belong."""


def advice_on_place(path: str, type_: object) -> str:
    """Where the unknown field at the path belongs, in words; empty where nothing is like it. type_: of the object."""
    *holder, name = _IN_BRACKETS.sub("[]", path).split(".")
    places = _places(type_)
    parent = tuple(holder)
    meant = did_you_mean(name, [one for one, found in places.items() if parent in found])
    near = None if name in _OF_EVERYTHING else _nearest(parent, places.get(name, ()))
    return f"it belongs in {_shown(near, parent)}{meant}" if near else meant.removeprefix("; ")


def _nearest(parent: Steps, found: Sequence[Steps]) -> Steps | None:
    """The nearest of the places, the first of equally near ones; None if all are far away."""
    near = min(found, key=lambda place: _distance(parent, place), default=None)
    return near if near is not None and _distance(parent, near) <= _FARTHEST else None


def _distance(one: Steps, other: Steps) -> int:
    return len(one) + len(other) - 2 * _shared(one, other)


def _shared(one: Steps, other: Steps) -> int:
    """How many steps both begin with."""
    for number, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return number
    return min(len(one), len(other))


def _shown(place: Steps, parent: Steps) -> str:
    """The place as it is seen from the parent, if it is below."""
    is_below = place[: len(parent)] == parent
    return ".".join(place[len(parent) :] if is_below else place).removesuffix("[]")


@lru_cache(maxsize=64)
def _places(type_: Any) -> Mapping[str, list[Steps]]:
    """The objects that have a field, by its name, in the order of the type."""
    found: dict[str, list[Steps]] = {}
    for name, holder in _fields(type_, ()):
        found.setdefault(name, []).append(holder)
    return found


def _fields(annotation: Any, holder: Steps) -> Iterator[tuple[str, Steps]]:
    """Each field with the object that has it."""
    if not is_typeddict(annotation):
        return
    fields = annotation.__annotations__
    yield from ((name, holder) for name in fields)
    for name, inner in fields.items():
        of_entry, step = _entry(inner, name)
        yield from _fields(of_entry, (*holder, step))


def _entry(annotation: Any, step: str) -> tuple[Any, str]:
    """The type of what a field holds, or of its entries, and the step to it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (other,) = (one for one in inner if one is not NoneType)
        return _entry(other, step)
    if origin in (list, dict):
        return _entry(inner[-1], f"{step}[]")
    return annotation, step
