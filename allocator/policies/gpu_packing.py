"""GPU packing: used devices first, then idle devices of used nodes, then idle nodes.

Source: the policy GpuPacking of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).
"""

from allocator.policies.whole_nodes import UNIT, NodePolicy, NodeRoom, PodNeeds


class GpuPacking(NodePolicy):
    """The tightest of the used devices; of the nodes where idle ones are needed, the one that has the fewest."""

    name = "gpu-packing"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, room: NodeRoom) -> float:
        """50 to 100 without idle devices, 33 to 49 with some on a used node, less on an idle one, 0 without devices."""
        if not needs.devices:
            return 0
        units = [pick.unit for pick in self.picks(needs, room)]
        idle = room.units.count(UNIT)
        opened = sum(room.units[unit] == UNIT for unit in units)
        if not opened:
            return max(100 - sum(room.units[unit] // 10 for unit in units) // 10, 50)
        return max(33 - idle, idle) if idle == len(room.units) else max(50 - opened, 33)
