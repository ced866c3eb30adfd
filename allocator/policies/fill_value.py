"""Fill value: the node and the devices that leave the fleet worth most to the workload.

The value of a node is what random pods of the workload would still fill of it. A choice costs what that value falls by,
what pods lose for which there are few places, and how much the node's pool is needed by those that can go nowhere else
(`fill_values`). All nodes are compared at once, so that it scores no node alone.
"""

from collections.abc import Hashable, Iterable, Sequence

from allocator.bits import Mask, bits
from allocator.features.contract import NodeAttempt
from allocator.policies.contract import PricedOrder, Requests, Score, Scoring
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import DeviceSlot, Pick


class FillValue:
    """The policy by name; as one of a single attempt it leaves devices and nodes as they are."""

    name = "fill-value"
    scoring = Scoring.BY_FLEET
    reads: Sequence[str] = ()

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """As they are."""
        return None

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good."""
        return ()


class FromDevices:
    """The policy of one attempt that takes these devices first, by position, in their order."""

    reads: Sequence[str] = ()

    def __init__(self, name: str, devices: Iterable[int]) -> None:
        self.name = name
        self._places = {device: place for place, device in enumerate(dict.fromkeys(devices))}

    @property
    def key(self) -> Hashable:
        """By name, and by the devices in their order."""
        return self.name, *self._places

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """The devices first, then all others."""
        places = self._places

        def first(_slot: DeviceSlot, domain: Mask, _picks: Sequence[Pick]) -> Iterable[int]:
            return sorted(bits(domain), key=lambda device: places.get(device, len(places)))

        return PricedOrder(first, OrderEffort(device=3))

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good: the node is chosen already."""
        return ()
