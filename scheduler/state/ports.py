"""Host ports that pods use on nodes, and the nodes on which a pod's ports are not free.

A port on all addresses conflicts with the same port on any address, and vice versa.
Source: kube-scheduler's HostPortInfo and its plugin NodePorts.
"""

from collections import Counter
from collections.abc import Iterable

from allocator.search.rules import Mask
from scheduler.core_v1.host_ports import ANY_ADDRESS, HostPort


class UsedPorts:
    """Who holds which port where; each pod counts, so that a port is free once the last of them is gone."""

    def __init__(self) -> None:
        self._holders: Counter[tuple[HostPort, int]] = Counter()
        self._nodes: dict[tuple[int, str], dict[str, Mask]] = {}

    def add(self, number: int, ports: Iterable[HostPort]) -> None:
        """A pod on the node holds these."""
        for port in ports:
            self._holders[port, number] += 1
            by_address = self._nodes.setdefault((port.port, port.protocol), {})
            by_address[port.address] = by_address.get(port.address, 0) | 1 << number

    def remove(self, number: int, ports: Iterable[HostPort]) -> None:
        """A pod on the node, which was added, holds these no more."""
        for port in ports:
            self._holders[port, number] -= 1
            if not self._holders[port, number]:
                del self._holders[port, number]
                self._free(number, port)

    def clashes(self, ports: Iterable[HostPort]) -> Mask:
        """The nodes on which one of the ports is not free. Cost: O(ports times addresses in use)."""
        taken = 0
        for port in ports:
            for address, nodes in self._nodes.get((port.port, port.protocol), {}).items():
                if ANY_ADDRESS in (port.address, address) or address == port.address:
                    taken |= nodes
        return taken

    def _free(self, number: int, port: HostPort) -> None:
        by_address = self._nodes[port.port, port.protocol]
        by_address[port.address] &= ~(1 << number)
        if not by_address[port.address]:
            del by_address[port.address]
        if not by_address:
            del self._nodes[port.port, port.protocol]
