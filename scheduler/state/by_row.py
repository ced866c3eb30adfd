"""Values derived from single rows of the nodes' columns: cached, and computed again for rows that have changed."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocator.search.rules import Mask
from cel.lru import LruCache
from scheduler.state.masks import Numbers, mask_of, mask_of_numbers
from scheduler.state.row_changes import RowChanges

WorkOut = Callable[[Any], Any]  # Any: of one row its number or flag, of an array of rows an array of theirs
"""Numbers or flags by row; each follows from its own row alone."""

MOST_KEPT = 128
"""Arrays that are kept; beyond, the least recently used one is forgotten."""

MOST_WORDS = 1 << 18
"""Words of all keys: what a single pod requests has room for thousands."""


FEW_ROWS = 32
"""So many are worked out as fast as those that have changed since they were asked for."""

FEW_CHANGED = 8
"""So many are worked out faster one by one, without arrays."""


@dataclass(slots=True, eq=False)
class _Values:
    """values: by row. seen: the last change that they know. mask: the rows with a flag, None until it is needed."""

    values: NDArray[Any]  # Any: numbers or flags, by the key
    seen: int
    mask: Mask | None = None

    def set(self, row: int, value: Any) -> None:  # Any: one of the values
        """The row has this value."""
        if self.mask is not None and self.values[row] != value:
            self.mask ^= 1 << row
        self.values[row] = value

    def set_all(self, rows: Numbers, values: NDArray[Any]) -> None:  # Any: some of the values
        """The rows have these values."""
        if self.mask is not None:
            flipped = rows[self.values[rows] != values]
            self.mask ^= mask_of_numbers(flipped, len(self.values))
        self.values[rows] = values


class ByRow:
    """Arrays with a number for each row, by what they are asked for. changes: of rows."""

    def __init__(self, rows: int) -> None:
        self.changes = RowChanges()
        self.forget(rows)

    def touch(self, row: int) -> None:
        """The row has changed."""
        self.changes.add(row, self._rows)

    def forget(self, rows: int) -> None:
        """The columns are others, and have so many rows."""
        self._rows = rows
        self._kept: LruCache[Hashable, _Values] = LruCache(MOST_KEPT, MOST_WORDS)

    def of(self, key: Hashable, words: int, work_out: WorkOut) -> NDArray[Any]:  # Any: numbers or flags
        """The values by row, for reading. work_out: those of certain rows, which nothing else may decide.

        words: of the key. Cost: O(rows that have changed since the key was asked for).
        """
        return self._caught_up(key, words, work_out).values

    def at(self, rows: Numbers, key: Hashable, words: int, work_out: WorkOut) -> Numbers:
        """The numbers of these rows; of a few, nothing needs to be kept."""
        if len(rows) <= FEW_CHANGED:
            return np.array([work_out(row) for row in rows.tolist()], np.int64)
        found: Numbers = work_out(rows) if len(rows) <= FEW_ROWS else self.of(key, words, work_out)[rows]
        return found

    def mask(self, key: Hashable, words: int, work_out: WorkOut) -> Mask:
        """The rows with a flag, as `of` has it. Cost: as there, and O(rows / 8) where many have changed."""
        kept = self._caught_up(key, words, work_out)
        if kept.mask is None:
            kept.mask = mask_of(kept.values)
        return kept.mask

    def _caught_up(self, key: Hashable, words: int, work_out: WorkOut) -> _Values:
        kept = self._kept.get(key, words, lambda: _Values(work_out(np.arange(self._rows)), self.changes.now))
        if kept.seen != self.changes.now:
            changed = self.changes.since(kept.seen)
            if changed is None or len(changed) > FEW_CHANGED:
                rows = np.arange(self._rows) if changed is None else np.array(changed, np.int64)
                kept.set_all(rows, work_out(rows))
            else:
                for row in changed:
                    kept.set(row, work_out(row))
            kept.seen = self.changes.now
        return kept
