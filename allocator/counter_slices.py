"""Slices with counter sets as releases up to 1.36 see them: each of them belongs to the pools of every node.

To a node that reaches nothing else of a pool, the pool is the same as to all such nodes: it has no devices, and matters
only where it is incomplete or invalid. So it is looked at once, and not for every node.
Source: KEP-4815, as kube-scheduler 1.34 to 1.36 carry it out.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from allocator.gates import Features
from allocator.model import PoolID, Slice
from allocator.pools import Pool, counting_pool


class CounterSlices:
    """The slices with counter sets, by pool."""

    def __init__(self) -> None:
        self.by_pool: dict[PoolID, tuple[Slice, ...]] = {}
        self._unreached: Mapping[PoolID, Pool] = MappingProxyType({})
        self._changed: set[PoolID] = set()

    def copy(self) -> "CounterSlices":
        """Another one with the same slices. Cost: O(pools with counters)."""
        copied = CounterSlices()
        copied.by_pool = dict(self.by_pool)
        copied._unreached, copied._changed = self._unreached, set(self._changed)
        return copied

    def add(self, piece: Slice) -> None:
        """A slice is published, of counters or of devices."""
        self._changed.add(piece.pool_id)
        if piece.counter_sets:
            self.by_pool[piece.pool_id] = (*self.by_pool.get(piece.pool_id, ()), piece)

    def remove(self, piece: Slice) -> None:
        """It is gone."""
        self._changed.add(piece.pool_id)
        if not piece.counter_sets:
            return
        rest = tuple([one for one in self.by_pool[piece.pool_id] if one is not piece])
        if rest:
            self.by_pool[piece.pool_id] = rest
        else:
            del self.by_pool[piece.pool_id]

    def unreached(self, pool_slices: Mapping[PoolID, Sequence[Slice]], features: Features) -> Mapping[PoolID, Pool]:
        """The pools that matter to nodes that reach nothing but their counters; the same object while nothing changes.

        pool_slices: every slice of each pool in the cluster. Cost: O(slices of the pools that have changed).
        """
        if self._changed:
            ids, self._changed = self._changed, set()
            found = {pool_id: pool for pool_id, pool in self._unreached.items() if pool_id not in ids}
            for pool_id in ids:
                pool = counting_pool(self.by_pool.get(pool_id, ()), pool_slices.get(pool_id, ()), features)
                if pool is not None and (not pool.is_usable or any(piece.devices for piece in pool.slices)):
                    found[pool_id] = pool
            if found != self._unreached:
                self._unreached = MappingProxyType(found)
        return self._unreached
