"""Random: any node that has room, for comparison. The same seed gives the same answers on every machine."""

from hashlib import blake2b

from allocator.policies.whole_nodes import NodePolicy, NodeRoom, PodNeeds


class Random(NodePolicy):
    """A number for each pod and node, from the seed. Cost: O(nodes) hashes for each decision."""

    name = "random"
    remembers = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score_node(self, needs: PodNeeds, room: NodeRoom) -> float:
        """From 0 to 2**53."""
        text = f"{self.seed}/{needs.name}/{room.name}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 11
