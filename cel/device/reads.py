"""The paths of a device that an expression reads."""

from dataclasses import dataclass
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """The paths that an expression reads, such as ("driver",) or ("attributes", domain, identifier).

    A shorter path includes everything below it, the empty path the whole device. No path includes another one.
    texts: the literal strings that a path is compared with, by `==`, `!=` or `in`, such as (("driver",), "a.example").
    """

    paths: frozenset[Path]
    texts: frozenset[tuple[Path, str]] = frozenset()
