"""Disks that pods name directly, and the nodes where a pod would share one that cannot be shared.

Source: kube-scheduler's plugin VolumeRestrictions.
"""

from collections import Counter
from collections.abc import Iterable

from allocator.search.rules import Mask
from scheduler.core_v1.pod_volumes import Disk


class UsedDisks:
    """Who uses which disk where, and whether it only reads; each pod counts."""

    def __init__(self) -> None:
        self._users: Counter[tuple[Disk, int]] = Counter()
        self._nodes: dict[Disk, Mask] = {}

    def add(self, number: int, disks: Iterable[Disk]) -> None:
        """A pod on the node uses these."""
        for disk in disks:
            self._users[disk, number] += 1
            self._nodes[disk] = self._nodes.get(disk, 0) | 1 << number

    def remove(self, number: int, disks: Iterable[Disk]) -> None:
        """A pod on the node, which was added, uses these no more."""
        for disk in disks:
            self._users[disk, number] -= 1
            if not self._users[disk, number]:
                del self._users[disk, number]
                self._nodes[disk] &= ~(1 << number)
                if not self._nodes[disk]:
                    del self._nodes[disk]

    def clashes(self, disks: Iterable[Disk]) -> Mask:
        """The nodes on which a pod uses one of the disks, unless both only read it."""
        taken = 0
        for disk in disks:
            taken |= self._nodes.get(disk._replace(is_shared=False), 0)
            if not disk.is_shared:
                taken |= self._nodes.get(disk._replace(is_shared=True), 0)
        return taken
