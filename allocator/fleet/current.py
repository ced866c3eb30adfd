"""The snapshot of a fleet as of the last event."""

from collections.abc import Iterable

from allocator.cluster.slice_index import SliceIndex
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import occupying
from allocator.model import Claim, DeviceClass, PoolID, Slice


class CurrentSnapshot:
    """Follows the events: each replaces `value`, or changes its slices, which then belong to the fleet alone.

    changed_pools: pools whose slices have changed. changed_usage: pools of which other devices are in use. Whoever
    works them out clears them.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.value = snapshot
        self.changed_pools: set[PoolID] = set()
        self.changed_usage: set[PoolID] = {*snapshot.usage.holders, *snapshot.usage.shares}
        self._is_lent = True

    def lend(self) -> Snapshot:
        """The snapshot for others to keep: the next event that changes slices makes a copy of them first."""
        self._is_lent = True
        return self.value

    def add_slice(self, published: Slice) -> None:
        """Add a slice."""
        self.changed_pools.add(self._own_slices().add(published).pool_id)

    def remove_slice(self, published: Slice) -> Slice:
        """Remove a slice; the answer is the slice that was used in its place. Raises KeyError if it is not there."""
        gone = self._own_slices().remove(published)
        self.changed_pools.add(gone.pool_id)
        self.value.selectors.forget(gone)
        return gone

    def add_allocated(self, claims: Iterable[Claim]) -> None:
        """Add what allocated claims hold."""
        claims = tuple(claims)
        self.value = self.value.with_usage(self.value.usage.plus(claims))
        self.changed_usage |= _pools_of(claims)

    def remove_allocated(self, claims: Iterable[Claim]) -> None:
        """Remove what claims hold, which are as they were added. Raises ValueError otherwise."""
        claims = tuple(claims)
        self.value = self.value.with_usage(self.value.usage.minus(claims))
        self.changed_usage |= _pools_of(claims)

    def set_class(self, device_class: DeviceClass) -> None:
        """Add or replace a class."""
        self.value = self.value.with_classes({**self.value.classes, device_class.name: device_class})

    def remove_class(self, name: str) -> None:
        """Remove a class. Raises KeyError if it is not there."""
        classes = dict(self.value.classes)
        del classes[name]
        self.value = self.value.with_classes(classes)

    def _own_slices(self) -> SliceIndex:
        if self._is_lent:
            self.value, self._is_lent = self.value.apart(), False
        return self.value.slices


def _pools_of(claims: Iterable[Claim]) -> set[PoolID]:
    return {PoolID(result.driver, result.pool) for claim in claims for result in occupying(claim)}
