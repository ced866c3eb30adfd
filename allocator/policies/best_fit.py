"""Best fit: the node that is left with the least cpu and devices.

Source: the policy BestFit of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).
"""

from allocator.policies.whole_nodes import NodePolicy, NodeRoom, PodNeeds, left_after

LARGEST_CPU = 128_000
LARGEST_DEVICES = 8_000
"""What counts as a whole node: 128 cores and 8 devices, in thousandths."""


class BestFit(NodePolicy):
    """The least left: the mean of the shares of cpu and of devices, in whole percent."""

    name = "best-fit"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, room: NodeRoom) -> float:
        """100 less the percentage that is left."""
        devices = sum(left_after(room.units, self.picks(needs, room)))
        return int((1 - (0.5 * (room.cpu - needs.cpu) / LARGEST_CPU + 0.5 * devices / LARGEST_DEVICES)) * 100)
