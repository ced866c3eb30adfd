"""The versions of the language: in which one an expression is compiled."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """One version of the language, compared by identity; what it declares is in `cel.check.declarations`.

    has_list_attributes: whether attributes with several values are read at all.
    """

    name: str
    has_list_attributes: bool = True

    def __repr__(self) -> str:
        return f"Environment({self.name})"


V1_37: Final = Environment("1.37")
"""In which kube-scheduler 1.37 compiles every selector."""
V1_36: Final = Environment("1.36", has_list_attributes=False)
"""That of 1.36 with its default feature gates."""
V1_36_LISTS: Final = Environment("1.36 lists")
"""That of 1.36 with the gate for list attributes."""
