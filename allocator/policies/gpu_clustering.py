"""GPU clustering: nodes that hold claims of the same size, a part of a device or so many devices.

Source: the policy GpuClustering of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).
"""

from allocator.policies.best_fit import LARGEST_DEVICES
from allocator.policies.whole_nodes import UNIT, NodePolicy, NodeRoom, PodNeeds

ALONE, AMONG_OTHERS, EMPTY, OTHERS = 75, 50, 25, 0
"""What the claims of a node are worth to a pod: its own size alone, beside others, none at all, only others."""


class GpuClustering(NodePolicy):
    """Its own size first, then empty nodes; of equals the fullest, in steps of a twenty-fifth."""

    name = "gpu-clustering"
    reads_names = False

    def score_node(self, needs: PodNeeds, room: NodeRoom) -> float:
        """From 0 to 100; 0 without devices."""
        if not needs.devices:
            return 0
        full = 25 * (LARGEST_DEVICES - sum(room.units)) // LARGEST_DEVICES
        if not room.holds:
            return EMPTY + full
        if self._size(needs, room) not in room.holds:
            return OTHERS + full
        return (ALONE if len(room.holds) == 1 else AMONG_OTHERS) + full

    def _size(self, needs: PodNeeds, room: NodeRoom) -> int:
        is_part = needs.devices == 1 and all(pick.amount < UNIT for pick in self.picks(needs, room))
        return 0 if is_part else needs.devices
