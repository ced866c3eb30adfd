"""Dot product: the node whose room points least where the pod's request does.

Source: the policy DotProd of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).
"""

from allocator.policies.best_fit import LARGEST_CPU, LARGEST_DEVICES
from allocator.policies.whole_nodes import NodePolicy, NodeRoom, PodNeeds


class DotProduct(NodePolicy):
    """The smallest product of what is left and what is requested, of cpu and of devices, in whole percent."""

    name = "dot-product"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, room: NodeRoom) -> float:
        """100 less the product."""
        taken = sum(pick.amount for pick in self.picks(needs, room))
        cpu = room.cpu * needs.cpu / LARGEST_CPU**2
        return int(100 * (1 - (cpu + sum(room.units) * taken / LARGEST_DEVICES**2) / 2))
