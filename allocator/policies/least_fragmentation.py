"""Least fragmentation: keep the largest block that can still be allocated.

Blocks are whole GPUs and large partitions of them, devices of which much is left to share, the free
devices of one NUMA node or PCIe root, or of another value that a claim has to match, and whole nodes.
Each device costs the blocks that it breaks; the one whose largest broken block is smallest goes first,
and so does the node. An aligned claim gets the smallest group in which it fits.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from allocator.features.contract import NodeAttempt
from allocator.features.list_type_attributes import Token
from allocator.policies.contract import PricedOrder, Requests, Score
from allocator.policies.devices_by_attribute import NUMA_NODE, PCIE_ROOT, groups_of
from allocator.policies.partitions import Partitions
from allocator.policies.shares import share_of, shared_of
from allocator.requests.constraints import MatchAttribute
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import Candidates, DeviceSlot, Mask, Pick, bits

MOST_WORK = 5_000_000
"""Of a score, in the measure of `OrderEffort`: about a second."""

Cost = tuple[float, ...]
"""What is broken: partitions, capacity to share, groups of each attribute, the node; less is better."""


class LeastFragmentation:
    """What breaks least first.

    attributes: the groups that are kept whole, the more important ones first; those that claims have to match always
    go before. Cost: O(devices + partitions of the counter sets) for each slot.
    """

    name = "least-fragmentation"

    def __init__(self, attributes: Sequence[str] = (NUMA_NODE, PCIE_ROOT)) -> None:
        self.reads = tuple(attributes)

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """The device that breaks the smallest blocks first, by what is left after each pick."""
        blocks = _Blocks(attempt, requests, self.reads)

        def smallest_first(slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            return sorted(bits(domain), key=blocks.costs(slot.candidates, domain, picks).__getitem__)

        return PricedOrder(smallest_first, blocks.effort)

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """What the picks break, negative: all partitions, the largest one of all other blocks.

        Of as many picks as MOST_WORK allows.
        """
        blocks = _Blocks(attempt, requests, self.reads)
        looked_at = picks[: MOST_WORK // (blocks.effort.whole + blocks.effort.pick * len(picks))]
        costs = [
            blocks.costs(pick.candidates, 1 << pick.device, looked_at[:number])[pick.device]
            for number, pick in enumerate(looked_at)
        ]
        if not costs:
            return blocks.nothing
        partitions, *others = zip(*costs, strict=True)
        return (-sum(partitions), *(-max(broken) for broken in others))


class _Blocks:
    """The blocks of an attempt. attributes: those that claims have to match, then those that were asked for."""

    def __init__(self, attempt: NodeAttempt, requests: Requests, attributes: Sequence[str]) -> None:
        self._attempt = attempt
        self._partitions = Partitions(attempt)
        matched = {rule.attribute: rule for rule in _matched(requests)}
        self._attributes = tuple(dict.fromkeys((*matched, *attributes)))
        groups = sum([rule.effort(0).whole for rule in matched.values()])
        groups += sum([len(groups_of(attempt, name)) for name in attributes])
        number = len(self._attributes)
        of_pick = 20 + 6 * self._partitions.most_counters
        self.effort = OrderEffort(200 + self._partitions.effort + 5 * (groups + number), 20 + 3 * number, of_pick)

    @property
    def nothing(self) -> Score:
        """The score of picks that break nothing."""
        return (0.0,) * (3 + len(self._attributes))

    def costs(self, candidates: Candidates, domain: Mask, picks: Sequence[Pick]) -> Mapping[int, Cost]:
        """What each device of the domain breaks if it is picked for these candidates after the picks."""
        free = candidates.mask & ~self._gone(picks)
        partitions = self._partitions.losses(domain, picks)
        groups = [self._sizes(name, candidates, domain, free) for name in self._attributes]
        node = free.bit_count()
        made: dict[int, list[Pick]] = {}
        for pick in picks:
            made.setdefault(pick.device, []).append(pick)
        return {
            device: (
                partitions[device],
                self._room(candidates, device, made.get(device, ())),
                *[sizes.get(device, 0) for sizes in groups],
                node,
            )
            for device in bits(domain)
        }

    def _gone(self, picks: Iterable[Pick]) -> Mask:
        picked = 0
        for pick in picks:
            picked |= 1 << pick.device
        return picked & ~self._attempt.shareable

    def _room(self, candidates: Candidates, device: int, picks: Sequence[Pick]) -> float:
        """For how many such shares the device has room after the picks of it; nothing if it is not shared."""
        if not self._attempt.shareable >> device & 1:
            return 0.0
        share = share_of(self._attempt, candidates.alternative, device)
        taken = shared_of(self._attempt, device, picks)
        capacity = self._attempt.view.devices[device].capacity
        room = (
            _ratio(capacity[name].nanos - taken.get(name, 0), amount) for name, amount in share.items() if amount > 0
        )
        return min(room, default=0.0)

    def _sizes(self, name: str, candidates: Candidates, domain: Mask, free: Mask) -> Mapping[int, int]:
        """For each device of the domain, how many are free of the largest group that it is in."""
        sizes: dict[int, int] = {}
        for members in self._groups(name, candidates).values():
            size = (members & free).bit_count()
            for device in bits(members & domain):
                sizes[device] = max(size, sizes.get(device, 0))
        return sizes

    def _groups(self, name: str, candidates: Candidates) -> Mapping[Token, Mask]:
        """As the constraint sees them where there is one: a request may derive the attribute."""
        for rule in candidates.rules:
            if isinstance(rule, MatchAttribute) and rule.attribute == name:
                return rule.columns.of(candidates).groups
        return groups_of(self._attempt, name)


def _matched(requests: Requests) -> Iterable[MatchAttribute]:
    """The rules by which devices have to have one value of an attribute, in the order of the claims."""
    for alternatives in requests:
        for candidates in alternatives:
            yield from (rule for rule in candidates.rules if isinstance(rule, MatchAttribute))


def _ratio(left: int, share: int) -> float:
    """How many shares are left, infinite where no float is as large."""
    try:
        return left / share
    except OverflowError:
        return inf
