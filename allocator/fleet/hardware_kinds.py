"""Kinds of nodes, as certain claims see their devices: less than what distinguishes nodes, such as serial numbers."""

from collections.abc import Hashable, Mapping

from allocator.cluster.snapshot import Snapshot
from allocator.fleet.fleet_nodes import INVALID, FleetNodes
from allocator.fleet.questions import DeviceQuestion, reads_of
from allocator.model import DeviceClass


class HardwareKinds:
    """The kinds for claims that read no more of devices than these do. question: of these claims.

    Of no use when classes have changed or fingerprints were reassigned.
    """

    def __init__(self, nodes: FleetNodes, snapshot: Snapshot, question: DeviceQuestion) -> None:
        self._nodes = nodes
        self._fingerprints = nodes.fingerprints
        self._question = question  # keeps the classes, whose identities are part of its key
        self._seen: Mapping[str, DeviceClass] = {}
        self._projection = self._fingerprints.projection(reads_of(snapshot, question.claims, ()))

    def of(self, number: int) -> tuple[Hashable, int]:
        """Equal for nodes with devices that agree in all that is read, whatever is in use; of these kinds alone.

        Cost: O(devices) for devices that are not like any that were seen before.
        """
        node = self._nodes[number]
        if node.pools is None:
            return self, INVALID
        return self, self._projection.of_node(self._fingerprints, node.fingerprint, node.node, node.pools)

    def are_current(self, classes: Mapping[str, DeviceClass]) -> bool:
        """Whether they are those of the same claims with these classes. Cost: O(requests), where these are others."""
        if self._fingerprints is not self._nodes.fingerprints:
            return False
        if classes is not self._seen and self._question.has(classes):
            self._seen = classes
        return classes is self._seen
