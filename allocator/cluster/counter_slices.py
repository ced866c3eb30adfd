"""Slices with counter sets as releases up to 1.36 see them: each of them belongs to the pools of every node.

To a node that reaches nothing else of a pool, the pool is the same as to all such nodes: it has no devices, and matters
only where it is incomplete or invalid. So it is looked at once, and not for every node.
Source: KEP-4815, as kube-scheduler 1.34 to 1.36 carry it out.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from allocator.cluster.pools import Pool, counting_pool
from allocator.gates import Features
from allocator.model import PoolID, Slice


class Unreached:
    """The pools that matter to nodes that reach only slices with counter sets of them."""

    def __init__(self) -> None:
        self._pools: Mapping[PoolID, Pool] = MappingProxyType({})
        self._changed: set[PoolID] = set()

    def copy(self) -> "Unreached":
        """Another one that knows the same."""
        copied = Unreached()
        copied._pools, copied._changed = self._pools, set(self._changed)
        return copied

    def change(self, pool_id: PoolID) -> None:
        """A slice of the pool came or went."""
        self._changed.add(pool_id)

    def among(self, pool_slices: Mapping[PoolID, Sequence[Slice]], features: Features) -> Mapping[PoolID, Pool]:
        """These pools; the same object while they, and the slices in them, are the same.

        pool_slices: every slice of each pool in the cluster. Cost: O(slices of the pools that have changed).
        """
        ids, self._changed = self._changed, set()
        looked_at = {pool_id: counting_pool(pool_slices.get(pool_id, ()), features) for pool_id in ids}
        mattering = {pool_id: pool for pool_id, pool in looked_at.items() if pool is not None and _matters(pool)}
        if any(_made_of(mattering.get(pool_id)) != _made_of(self._pools.get(pool_id)) for pool_id in ids):
            kept = {pool_id: pool for pool_id, pool in self._pools.items() if pool_id not in ids}
            self._pools = MappingProxyType(kept | mattering)
        return self._pools


def _matters(pool: Pool) -> bool:
    return not pool.is_usable or any(slice_.devices for slice_ in pool.slices)


def _made_of(pool: Pool | None) -> object:
    """What a pool is made of: a slice that was published again is another one, even if it is equal."""
    if pool is None:
        return None
    return pool.missing, pool.contradiction, [slice_.number for slice_ in (*pool.slices, *pool.elsewhere)]
