"""Which rows have changed, so that whoever follows them looks at these alone."""

from collections.abc import Sequence

LEAST_CHANGES = 256
"""Changes that are kept however few rows there are; of many rows, two for each."""


class RowChanges:
    """The numbers of rows that have changed, the oldest first; old ones are forgotten."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0

    @property
    def now(self) -> int:
        """The number of changes so far."""
        return self._forgotten + len(self._rows)

    def add(self, row: int, rows: int) -> None:
        """The row has changed. rows: how many there are. Cost: O(1) on average."""
        self._rows.append(row)
        if len(self._rows) > max(LEAST_CHANGES, 2 * rows):
            older = len(self._rows) // 2
            self._forgotten += older
            del self._rows[:older]

    def since(self, seen: int) -> Sequence[int] | None:
        """The rows that have changed after the first `seen` changes, each once, ascending; None for any."""
        if seen < self._forgotten:
            return None
        return sorted(set(self._rows[seen - self._forgotten :]))
