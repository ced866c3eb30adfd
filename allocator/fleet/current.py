"""The snapshot of a fleet as of the last event."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from allocator.cluster.slice_index import SliceIndex
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Usage, occupying
from allocator.model import Claim, DeviceClass, PoolID, Slice


class CurrentSnapshot:
    """Follows the events: each replaces `value`, or changes its slices or usage, which belong to the fleet alone then.

    changed_pools: pools whose slices have changed. changed_usage: pools of which other devices are in use. Whoever
    works them out clears them.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.value = snapshot
        self.changed_pools: set[PoolID] = set()
        self.changed_usage: set[PoolID] = {*snapshot.usage.holders, *snapshot.usage.shares}
        self._are_slices_lent = self._is_usage_lent = True

    def lend(self) -> Snapshot:
        """The snapshot for others to keep: an event that changes slices or usage makes a copy of them first."""
        self._are_slices_lent = self._is_usage_lent = True
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
        self._own_usage().add(claims)
        self.changed_usage |= _pools_of(claims)

    def remove_allocated(self, claims: Iterable[Claim]) -> None:
        """Remove what claims hold, which are as they were added. Raises ValueError otherwise."""
        claims = tuple(claims)
        self._own_usage().remove(claims)
        self.changed_usage |= _pools_of(claims)

    @contextmanager
    def without(self, claims: Sequence[Claim]) -> Iterator[Snapshot]:
        """What there would be without these claims, which are as they were added, until the end of the context.

        Raises ValueError otherwise.
        """
        usage = self._own_usage()
        usage.remove(claims)
        try:
            yield self.value
        finally:
            usage.add(claims)

    def set_class(self, device_class: DeviceClass) -> None:
        """Add or replace a class."""
        self.value = self.value.with_classes({**self.value.classes, device_class.name: device_class})

    def remove_class(self, name: str) -> None:
        """Remove a class. Raises KeyError if it is not there."""
        classes = dict(self.value.classes)
        del classes[name]
        self.value = self.value.with_classes(classes)

    def _own_slices(self) -> SliceIndex:
        if self._are_slices_lent:
            self.value, self._are_slices_lent = self.value.apart(), False
        return self.value.slices

    def _own_usage(self) -> Usage:
        if self._is_usage_lent:
            self.value, self._is_usage_lent = self.value.with_usage(self.value.usage.copy()), False
        return self.value.usage


def _pools_of(claims: Iterable[Claim]) -> set[PoolID]:
    return {PoolID(result.driver, result.pool) for claim in claims for result in occupying(claim)}
