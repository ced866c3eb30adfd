"""The environments in which expressions are compiled, one for each version of the language."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """One version of the language, compared by identity. Its declarations are in `cel.check.declarations`.

    has_list_attributes: whether attributes can have several values. reads_on_demand: an attribute that cannot be read
    fails where it is read; before, it failed every expression. counts_all: estimates know the sizes of keys and
    elements at any depth, and count the fields of values of any type.
    """

    name: str
    has_list_attributes: bool = True
    reads_on_demand: bool = False
    counts_all: bool = False

    def __repr__(self) -> str:
        return f"Environment({self.name})"


V1_38: Final = Environment("1.38", reads_on_demand=True, counts_all=True)
"""Kubernetes 1.38."""
V1_37: Final = Environment("1.37")
"""Kubernetes 1.37."""
V1_36: Final = Environment("1.36", has_list_attributes=False)
"""Kubernetes 1.36 with its default feature gates."""
V1_36_LISTS: Final = Environment("1.36 lists")
"""Kubernetes 1.36 with the gate for list attributes."""
