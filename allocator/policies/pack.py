"""`pack` and `spread`: the fullest devices that fit first, or the emptiest."""

from collections.abc import Iterable, Sequence

from allocator.bits import Mask, bits
from allocator.features.contract import NodeAttempt
from allocator.policies.contract import PricedOrder, Requests, Score
from allocator.policies.hardware import FULL, LEVELS, fullness_of
from allocator.search.backtracking import Order
from allocator.search.rules import DeviceSlot, Pick

# Pack: fill what is used already, so that whole nodes and whole devices stay empty.
#
# Devices are cut from the fullest counter set, or are the fullest device that is shared; of equals, on the fullest PCIe
# root, then on the fullest NUMA node. Of nodes, one that is used goes first, then the fullest.


class Pack:
    """The fullest first. Cost: O(devices) for each slot."""

    name = "pack"
    reads = LEVELS

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """The fullest unit first, then PCIe root, then NUMA node."""
        fullness = fullness_of(attempt)
        fullness.look_at_groups()

        def fullest_first(_slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            keys = fullness.of_parents(bits(domain), picks)
            return [device for _, device in sorted([([-parent for parent in full], device) for full, device in keys])]

        return PricedOrder(fullest_first, fullness.effort)

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """(1 where the node was used before, how full it is afterwards from 0 to 1)."""
        was_used, full = fullness_of(attempt).of_node(picks)
        return (float(was_used), full / FULL)


# Spread: use what is emptiest, so that claims disturb one another least, and one fault hits few.
#
# Devices are cut from the emptiest counter set, or are the emptiest device that is shared; of equals, on the emptiest
# PCIe root, then on the emptiest NUMA node. Of nodes, one that is not used goes first, then the emptiest.


class Spread:
    """The emptiest first. Cost: O(devices) for each slot."""

    name = "spread"
    reads = LEVELS

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """The emptiest unit first, then PCIe root, then NUMA node."""
        fullness = fullness_of(attempt)
        fullness.look_at_groups()

        def emptiest_first(_slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            return [device for _, device in sorted(fullness.of_parents(bits(domain), picks))]

        return PricedOrder(emptiest_first, fullness.effort)

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """(-1 where the node was used before, how empty it is afterwards from -1 to 0)."""
        was_used, full = fullness_of(attempt).of_node(picks)
        return (-float(was_used), -full / FULL)
