"""A mapping by pool that is never changed, and whose successor costs what changed, not what there is.

The entries are spread over dictionaries, and those over branches; a successor copies what it touches of
both and shares the rest. With 100,000 pools that is about a hundred entries for each pool that changes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from allocator.model import PoolID

Value = TypeVar("Value")

_WIDTH: Final = 32
"""Branches, and dictionaries of each."""


_NOTHING: dict[PoolID, Any] = {}  # Any: of whatever values
_EMPTY = tuple([tuple([_NOTHING] * _WIDTH)] * _WIDTH)  # of lists: for the type of a product mypyc takes 40 s


class PoolMap(Mapping[PoolID, Value], Generic[Value]):
    """An immutable mapping from pools to values; without arguments an empty one."""

    __slots__ = ("_branches", "_size")

    def __init__(self, branches: tuple[tuple[dict[PoolID, Value], ...], ...] = _EMPTY, size: int = 0) -> None:
        self._branches = branches
        self._size = size

    def updated(self, changes: Mapping[PoolID, Value]) -> "PoolMap[Value]":
        """The map with these entries as well; an empty value removes one. Cost: O(entries next to a changed one)."""
        branches, size = list(self._branches), self._size
        for pool_id, value in changes.items():
            place = hash(pool_id)
            number, inner = place % _WIDTH, place // _WIDTH % _WIDTH
            branch = list(branches[number])
            entries = branch[inner] = dict(branch[inner])
            size -= pool_id in entries
            if value:
                entries[pool_id] = value
                size += 1
            else:
                entries.pop(pool_id, None)
            branches[number] = tuple(branch)
        return PoolMap(tuple(branches), size)

    def __getitem__(self, pool_id: PoolID) -> Value:
        place = hash(pool_id)
        return self._branches[place % _WIDTH][place // _WIDTH % _WIDTH][pool_id]

    def get(self, pool_id: PoolID, default: Value | None = None) -> Value | None:  # type: ignore[override]
        """The value of the pool; faster than `Mapping.get`, which raises and catches an exception."""
        place = hash(pool_id)
        return self._branches[place % _WIDTH][place // _WIDTH % _WIDTH].get(pool_id, default)

    def __iter__(self) -> Iterator[PoolID]:
        return (pool_id for branch in self._branches for entries in branch for pool_id in entries)

    def __len__(self) -> int:
        return self._size
