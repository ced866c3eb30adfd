"""What is in use of each slice, by the positions of its devices: equal for slices of which the same is in use."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _PoolInUse:
    """positions: None until its slices are looked at. slices: those of which anything is in use, by number."""

    positions: _Positions | None = None
    slices: Mapping[int, Slice] = field(default_factory=dict)


class Occupancy:
    """The slices of which anything is in use, pool by pool, as of the last update of each."""

    def __init__(self) -> None:
        self._tokens: dict[int, Hashable] = {}
        self._by_pool: dict[PoolID, _PoolInUse] = {}
        self._alike: LruCache[tuple[tuple[str, ...], ...], _Positions] = LruCache(MOST_KINDS, MOST_NAMES)

    def of(self, slice_number: int) -> Hashable:
        """What is in use of the slice with that number."""
        return self._tokens.get(slice_number, NOTHING)

    def forget(self, pool_id: PoolID) -> None:
        """The slices of the pool have changed; an update has to follow."""
        if known := self._by_pool.get(pool_id):
            known.positions = None

    def update(self, pool_id: PoolID, published: Sequence[Slice], usage: Usage) -> list[Slice]:
        """Look at the pool again; the answer is the slices of which something else is in use now.

        published: all slices of the pool.
        Cost: O(devices of the pool that are in use), and O(devices of the pool) once for its slices.
        """
        known = self._by_pool.get(pool_id)
        pool = known or _PoolInUse()
        old = pool.slices
        tokens = self._look(pool, pool_id, published, usage)
        both = {**old, **pool.slices}
        changed = [slice_ for key, slice_ in both.items() if self._tokens.get(key) != tokens.get(key)]
        for key in both:
            if key in tokens:
                self._tokens[key] = tokens[key]
            else:
                del self._tokens[key]
        if known is None and pool.slices:
            self._by_pool[pool_id] = pool
        elif known is not None and not pool.slices:
            del self._by_pool[pool_id]
        return changed

    def _look(
        self, pool: _PoolInUse, pool_id: PoolID, published: Sequence[Slice], usage: Usage
    ) -> Mapping[int, Hashable]:
        """Look at which slices of the pool are in use; the answer is what of each, by number."""
        holders, shares = usage.holders.get(pool_id), usage.shares.get(pool_id)
        if (not holders and not shares) or not published:
            pool.slices = {}
            return {}
        if pool.positions is None:
            pool.positions = self._positions_in(published)
        positions = pool.positions
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
        pool.slices = slices
        return {key: (held.get(key, 0), frozenset(shared.get(key, ()))) for key in slices}

    def _positions_in(self, published: Sequence[Slice]) -> _Positions:
        """Where the devices of a pool stand."""
        names = tuple([tuple([device.name for device in slice_.devices]) for slice_ in published])
        return self._alike.get(names, sum(map(len, names)), lambda: _positions_of(names))


def _positions_of(names: tuple[tuple[str, ...], ...]) -> _Positions:
    """names: of the devices, slice by slice."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for place, of_slice in enumerate(names):
        for position, name in enumerate(of_slice):
            found[name] = (*found.get(name, ()), (place, position))
    return found
