"""What is in use of each slice, by the positions of its devices: equal for slices of which the same is in use."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from allocator.cluster.usage import Usage
from allocator.model import PoolID, Slice
from allocator.search.rules import Mask
from cel.lru import LruCache

_Positions = Mapping[str, Sequence[tuple[int, int]]]
"""By name of a device: the place of its slice, and its place there; a name may occur in several generations."""

MOST_KINDS: Final = 1 << 12
"""Pools with other names of devices whose positions are shared: most have the same ones."""

MOST_NAMES: Final = 1 << 18
"""Names of all these kinds."""

NOTHING: Final = ()
"""What is in use of a slice without any device in use."""


class Occupancy:
    """The slices of which anything is in use, pool by pool, as of the last update of each."""

    def __init__(self) -> None:
        self._tokens: dict[int, Hashable] = {}
        self._by_pool: dict[PoolID, tuple[Slice, ...]] = {}
        self._positions: dict[PoolID, _Positions] = {}
        self._alike: LruCache[tuple[tuple[str, ...], ...], _Positions] = LruCache(MOST_KINDS, MOST_NAMES)

    def of(self, slice_number: int) -> Hashable:
        """What is in use of the slice with that number."""
        return self._tokens.get(slice_number, NOTHING)

    def forget(self, pool_id: PoolID) -> None:
        """The slices of the pool have changed; an update has to follow."""
        self._positions.pop(pool_id, None)

    def update(self, pool_id: PoolID, published: Sequence[Slice], usage: Usage) -> list[Slice]:
        """Look at the pool again; the answer is the slices of which something else is in use now.

        published: all slices of the pool.
        Cost: O(devices of the pool that are in use), and O(devices of the pool) once for its slices.
        """
        old = {slice_.number: slice_ for slice_ in self._by_pool.pop(pool_id, ())}
        before = {key: self._tokens.pop(key) for key in old}
        slices, tokens = self._look(pool_id, published, usage)
        if slices:
            self._by_pool[pool_id] = tuple(slices.values())
            self._tokens.update(tokens)
        else:
            self._positions.pop(pool_id, None)
        return [slice_ for key, slice_ in {**old, **slices}.items() if before.get(key) != tokens.get(key)]

    def _look(
        self, pool_id: PoolID, published: Sequence[Slice], usage: Usage
    ) -> tuple[Mapping[int, Slice], Mapping[int, Hashable]]:
        """The slices of which anything is in use, and what, by number."""
        holders, shares = usage.holders.get(pool_id), usage.shares.get(pool_id)
        if (not holders and not shares) or not published:
            return {}, {}
        positions = self._positions_in(pool_id, published)
        held: dict[int, Mask] = {}
        shared: dict[int, list[Hashable]] = {}
        slices: dict[int, Slice] = {}
        for name in holders or ():
            for place, position in positions.get(name, ()):
                slice_ = published[place]
                slices[slice_.number] = slice_
                held[slice_.number] = held.get(slice_.number, 0) | 1 << position
        for name, own in shares.items() if shares else ():
            for place, position in positions.get(name, ()):
                slice_ = published[place]
                slices[slice_.number] = slice_
                shared.setdefault(slice_.number, []).append((position, own.token))
        return slices, {key: (held.get(key, 0), frozenset(shared.get(key, ()))) for key in slices}

    def _positions_in(self, pool_id: PoolID, published: Sequence[Slice]) -> _Positions:
        """Where the devices of a pool stand."""
        known = self._positions.get(pool_id)
        if known is None:
            names = tuple([tuple([device.name for device in slice_.devices]) for slice_ in published])
            known = self._alike.get(names, sum(map(len, names)), lambda: _positions_of(names))
            self._positions[pool_id] = known
        return known


def _positions_of(names: tuple[tuple[str, ...], ...]) -> _Positions:
    """names: of the devices, slice by slice."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for place, of_slice in enumerate(names):
        for position, name in enumerate(of_slice):
            found[name] = (*found.get(name, ()), (place, position))
    return found
