"""What has changed, in order, so that whoever follows it looks at that alone.

A reader keeps the moment (`now`) as of which it is up to date, and asks later what has changed since. The older half is
forgotten now and then: a reader that far behind looks at everything, which costs about as much.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

LEAST_CHANGES: Final = 256
"""Changes that are kept however few there may be."""

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """The changes, the oldest first. forgotten: the number of those that are not kept any more."""

    def __init__(self) -> None:
        self.forgotten = 0
        self._kept: list[Entry] = []

    @property
    def now(self) -> int:
        """The number of changes so far."""
        return self.forgotten + len(self._kept)

    def add(self, entry: Entry, most: int) -> None:
        """It has changed. most: changes beyond which the older half is forgotten. Cost: O(1) on average."""
        kept = self._kept
        kept.append(entry)
        if len(kept) > most and len(kept) > LEAST_CHANGES:
            older = len(kept) // 2
            self.forgotten += older
            del kept[:older]

    def since(self, seen: int) -> Sequence[Entry] | None:
        """The changes after the first `seen` ones; None where some of them are forgotten."""
        if seen < self.forgotten:
            return None
        return self._kept[seen - self.forgotten :]


class ChangedNumbers(Journal[int]):
    """The numbers of nodes that have changed."""

    def note(self, number: int, nodes: int) -> None:
        """The node has changed. nodes: how many there are, of each of which two changes are kept."""
        self.add(number, 2 * nodes)

    def numbers_since(self, seen: int) -> list[int] | None:
        """The nodes that have changed after the first `seen` changes, each once, ascending; None for any."""
        found = self.since(seen)
        return None if found is None else sorted(set(found))
