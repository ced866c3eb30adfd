"""The number of volumes of each CSI driver on a node, each counted once: those of its pods, and attached ones.

Source: kube-scheduler's plugin NodeVolumeLimits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from allocator.search.rules import Mask
from scheduler.core_v1.volume_sources import Handle
from scheduler.state.masks import Numbers, flags_of, mask_of

UNLIMITED = 1 << 40

_FEWEST_ROWS = 64


class AttachedVolumes:
    """Volumes by node number, and how many of a driver's a node takes."""

    def __init__(self) -> None:
        self._users: dict[Handle, Counter[int]] = {}
        self._attached: dict[Handle, Counter[int]] = {}
        self._counts: dict[str, Numbers] = {}
        self._limits: dict[str, Numbers] = {}

    def use(self, number: int, handle: Handle) -> None:
        """A pod on the node uses the volume."""
        self._add(self._users, number, handle)

    def disuse(self, number: int, handle: Handle) -> None:
        """A pod on the node, which used the volume, does so no more."""
        self._remove(self._users, number, handle)

    def attach(self, number: int, handle: Handle) -> None:
        """The volume is attached to the node, by one more object."""
        self._add(self._attached, number, handle)

    def detach(self, number: int, handle: Handle) -> None:
        """The volume is attached to the node by one object less."""
        self._remove(self._attached, number, handle)

    def set_limits(self, number: int, limits: Mapping[str, int]) -> None:
        """The node takes so many volumes of these drivers, and any number of all others."""
        for driver in limits.keys() | self._limits.keys():
            column = _grown(self._limits, driver, number, UNLIMITED)
            column[number] = limits.get(driver, UNLIMITED)
            if (column == UNLIMITED).all():
                del self._limits[driver]

    def full(self, handles: Iterable[Handle], *, counts_attached: bool) -> Mask:
        """The nodes that do not take all these volumes beside those that they have.

        counts_attached: a volume that is attached to the node, and no pod there uses, counts twice.
        """
        full, by_driver = 0, _by_driver(handles)
        for driver, own in by_driver.items():
            if driver in self._limits:
                full |= self._full(driver, own, self._users_of if counts_attached else self._holders)
        return full

    def _full(self, driver: str, handles: Iterable[Handle], holders: Callable[[Handle], Mask]) -> Mask:
        limits = self._limits[driver]
        new, counts = np.zeros(len(limits), np.int64), np.zeros(len(limits), np.int64)
        for handle in handles:
            new += ~flags_of(holders(handle) & (1 << len(limits)) - 1, len(limits))
        if (found := self._counts.get(driver)) is not None:
            common = min(len(found), len(limits))
            counts[:common] = found[:common]
        return mask_of((new > 0) & (counts + new > limits))

    def _users_of(self, handle: Handle) -> Mask:
        return sum(1 << number for number in self._users.get(handle, ()))

    def _holders(self, handle: Handle) -> Mask:
        numbers = {*self._users.get(handle, ()), *self._attached.get(handle, ())}
        return sum(1 << number for number in numbers)

    def _has(self, number: int, handle: Handle) -> bool:
        return number in self._users.get(handle, ()) or number in self._attached.get(handle, ())

    def _add(self, holders: dict[Handle, Counter[int]], number: int, handle: Handle) -> None:
        if not self._has(number, handle):
            _grown(self._counts, handle.driver, number, 0)[number] += 1
        holders.setdefault(handle, Counter())[number] += 1

    def _remove(self, holders: dict[Handle, Counter[int]], number: int, handle: Handle) -> None:
        holders[handle][number] -= 1
        if not holders[handle][number]:
            del holders[handle][number]
            if not holders[handle]:
                del holders[handle]
        if not self._has(number, handle):
            self._counts[handle.driver][number] -= 1


def _by_driver(handles: Iterable[Handle]) -> Mapping[str, set[Handle]]:
    found: dict[str, set[Handle]] = {}
    for handle in handles:
        found.setdefault(handle.driver, set()).add(handle)
    return found


def _grown(columns: dict[str, Numbers], driver: str, number: int, filler: int) -> Numbers:
    """The driver's column, with room for the node."""
    column = columns.get(driver)
    if column is None:
        column = columns[driver] = np.full(max(_FEWEST_ROWS, number + 1), filler, np.int64)
    elif number >= len(column):
        more = max(number + 1, 2 * len(column)) - len(column)
        column = columns[driver] = np.pad(column, (0, more), constant_values=filler)
    return column
