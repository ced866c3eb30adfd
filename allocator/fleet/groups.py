"""The nodes of a fleet in groups: all nodes of a group give the same answers."""

from collections.abc import Hashable, Iterable

from allocator.fleet.group_changes import Changes, NodeGroup
from allocator.model import Slice


class NodeGroups:
    """The groups that have nodes, and the nodes that have changed from one to another."""

    def __init__(self) -> None:
        self.changes = Changes()
        self._groups: dict[tuple[int, Hashable], NodeGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def all(self) -> Iterable[NodeGroup]:
        """The groups."""
        return self._groups.values()

    def enter(self, number: int, fingerprint: int, usage: tuple[Hashable, ...], shared: Iterable[Slice]) -> NodeGroup:
        """Put the node, which is in no group, into its group. shared: the slices that other nodes reach too."""
        group = self._groups.get((fingerprint, usage))
        if group is None:
            slice_numbers = tuple([slice_.number for slice_ in shared])
            group = self._groups[fingerprint, usage] = NodeGroup(fingerprint, usage, slice_numbers)
            self.changes.watch(group)
        group.add(number)
        return group

    def leave(self, number: int, group: NodeGroup | None, nodes: int) -> None:
        """Take the node out of its group, if it is in one. nodes: how many nodes there are."""
        self.changes.add(number, group, nodes)
        if group is None:
            return
        group.discard(number)
        if group.is_empty:
            del self._groups[group.fingerprint, group.usage]
            self.changes.unwatch(group)
