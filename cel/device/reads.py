"""What of a device an expression looks at."""

from dataclasses import dataclass
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """The paths that are read, such as ("driver",) or ("attributes", domain, identifier).

    A shorter path stands for all that is below it, the empty one for the device. No path is below another one.
    """

    paths: frozenset[Path]
