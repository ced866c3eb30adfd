"""Least fragmentation: keep the largest block that can still be allocated.

Blocks are whole GPUs and large partitions of them, devices of which much is left to share, the free
devices of one NUMA node or PCIe root, or of another value that a claim has to match, and whole nodes.
Each device costs the blocks that it breaks; the one whose largest broken block is smallest goes first,
and so does the node. An aligned claim gets the smallest group in which it fits.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from allocator.bits import Mask, bits
from allocator.cluster.pools import NodeView
from allocator.constraints import MatchAttribute
from allocator.features.contract import NodeAttempt
from allocator.features.list_type_attributes import Token
from allocator.memo import Topic
from allocator.model import CounterSetID
from allocator.policies.contract import Policy, PricedOrder, Requests, Score
from allocator.policies.hardware import (
    NUMA_NODE,
    PCIE_ROOT,
    UnitAmounts,
    drawn,
    fraction,
    groups_of,
    hardware_of,
    share_of,
    shared_of,
)
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import Candidates, DeviceSlot, Pick
from cel.cache import LruCache

# What can still be cut from counter sets, and what a cut costs: the partitions that are not possible afterwards.
#
# A whole GPU is the largest partition of its counter set; what is cut from an untouched one costs it. Where partitions
# have places, as those of a MIG GPU do, the counters say which ones lie in each other's way. Source: KEP-4815.


Counters = tuple[int, ...]
"""One amount for each counter of a set, by its name, in 10**-9."""

LEVELS = 32
"""Sizes of partitions are distinguished in as many steps; the largest is a whole counter set."""

_FINE = 10**6

_COUNT_BITS = 16
"""More than enough for the partitions of one size: a slice has 128 devices, and pools have few slices."""


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """A counter set of a view, whatever is in use.

    names: of its counters. whole: what there is of each. takes: what each partition takes of it, by position. sizes:
    how many different ones there are.
    """

    names: tuple[str, ...]
    whole: Counters
    takes: Mapping[int, Counters]
    sizes: int


_PARTITIONED: Topic[Mapping[CounterSetID, Partitioned]] = Topic("partitioned counter sets")


class Partitions:
    """The counter sets of an attempt."""

    def __init__(self, attempt: NodeAttempt) -> None:
        self._attempt = attempt
        self._sets = partitioned(attempt.view)
        self._left = self._left_over()

    def losses(self, domain: Mask, picks: Iterable[Pick]) -> dict[int, int]:
        """For each device of the domain, what is not possible any more once it is picked too, after the picks.

        One partition outweighs any number of smaller ones. Devices that are not cut from a counter set cost nothing,
        and neither do further shares of a device in use.
        """
        left, gone = self.after(picks)
        losses = dict.fromkeys(bits(domain), 0)
        for counter_set, partitioned in self._sets.items():
            if not any(position in losses for position in partitioned.takes):
                continue
            possible = Counter(takes for position, takes in partitioned.takes.items() if not gone >> position & 1)
            of_set = partitioned.whole, left[counter_set], tuple(sorted(possible.items()))
            costs = _COSTS.get(of_set, len(possible), partial(_costs, *of_set))
            for position, takes in partitioned.takes.items():
                if position in losses and not gone >> position & 1:
                    losses[position] += costs.get(takes, 0)
        return losses

    @property
    def sets(self) -> Mapping[CounterSetID, Partitioned]:
        """All of them."""
        return self._sets

    @property
    def effort(self) -> int:
        """The work of `losses`, as much as to read so many amounts."""
        sets = self._sets.values()
        return sum([one.sizes**2 * (2 + len(one.names)) + 4 * len(one.takes) for one in sets])

    @property
    def most_counters(self) -> int:
        """Of one set."""
        return max([len(one.names) for one in self._sets.values()], default=0)

    def _left_over(self) -> dict[CounterSetID, Counters]:
        attempt = self._attempt
        used: dict[CounterSetID, Counter[str]] = {}
        for pool in attempt.view.pools:
            if pool.is_usable:
                for device in attempt.allocated_devices(pool):
                    for key, amounts in drawn(device).items():
                        used.setdefault(key, Counter()).update(amounts)
        return {key: _less(one, used.get(key, {})) for key, one in self._sets.items()}

    def after(self, picks: Iterable[Pick]) -> tuple[dict[CounterSetID, Counters], Mask]:
        """(what is left of each set, the devices that cannot be cut any more or are cut already)."""
        attempt = self._attempt
        gone = attempt.in_use | attempt.shared
        left = dict(self._left)
        for pick in picks:
            if not gone >> pick.device & 1:
                for counter_set, takes in self._of(pick.device):
                    left[counter_set] = _minus(left[counter_set], takes)
                gone |= 1 << pick.device
        return left, gone

    def _of(self, device: int) -> Iterator[tuple[CounterSetID, Counters]]:
        for counter_set, partitioned in self._sets.items():
            if device in partitioned.takes:
                yield counter_set, partitioned.takes[device]


def partitioned(view: NodeView) -> Mapping[CounterSetID, Partitioned]:
    """The counter sets from which devices of the view are cut. Cost: O(devices), the first time."""
    return view.memo.remember(_PARTITIONED, lambda: _partitioned_of(view))


def _partitioned_of(view: NodeView) -> Mapping[CounterSetID, Partitioned]:
    takes: dict[CounterSetID, dict[int, UnitAmounts]] = {}
    for position, device in enumerate(view.devices):
        for key, amounts in drawn(device).items():
            takes.setdefault(key, {})[position] = amounts
    return {key: _set_of(counters, takes[key]) for key, counters in hardware_of(view).sets.items() if key in takes}


def _set_of(counters: UnitAmounts, takes: Mapping[int, UnitAmounts]) -> Partitioned:
    names = tuple(sorted(counters))
    amounts = {position: tuple(own.get(name, 0) for name in names) for position, own in takes.items()}
    return Partitioned(names, tuple(counters[name] for name in names), amounts, len(set(amounts.values())))


def _less(one: Partitioned, used: UnitAmounts) -> Counters:
    return tuple(amount - used.get(name, 0) for name, amount in zip(one.names, one.whole, strict=True))


def _minus(left: Counters, takes: Counters) -> Counters:
    return tuple([amount - taken for amount, taken in zip(left, takes, strict=True)])


MOST_KEPT = 1 << 16
"""Sizes of partitions of which it is known what one costs, in all counter sets together; some 20 MiB."""

_COSTS: LruCache[Hashable, Mapping[Counters, int]] = LruCache(MOST_KEPT, MOST_KEPT)
"""Counter sets of a fleet are alike and are used in few ways, so that most answers are known."""


def _costs(whole: Counters, left: Counters, partitions: Sequence[tuple[Counters, int]]) -> Mapping[Counters, int]:
    """What cutting one partition of each size costs. partitions: sizes (what they take), with how many there are.

    Cost: O(sizes**2 * counters).
    """
    before = [(takes, number, _times(takes, number, left), _weight(takes, whole)) for takes, number in partitions]
    costs = {}
    for cut, _ in partitions:
        rest = _minus(left, cut)
        costs[cut] = sum(
            [(times - _times(takes, number - (takes == cut), rest)) * weight for takes, number, times, weight in before]
        )
    return costs


def _times(takes: Counters, number: int, left: Counters) -> int:
    """How many of so many partitions of one size can be cut from what is left."""
    most = number
    for taken, amount in zip(takes, left, strict=True):
        if taken > 0:
            most = min(most, amount // taken)
    return max(0, most)


def _weight(takes: Counters, whole: Counters) -> int:
    """One partition outweighs all smaller ones together. The size is the average over the counters."""
    shares = [fraction(taken, amount, _FINE) for taken, amount in zip(takes, whole, strict=True) if amount > 0]
    return 1 << _COUNT_BITS * (LEVELS * sum(shares) // (_FINE * max(1, len(shares))))


MOST_WORK = 5_000_000
"""Of a score, in the measure of `OrderEffort`: about a second."""

BlockCost = tuple[float, ...]
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


@dataclass(frozen=True, slots=True)
class ThenLeastFragmentation:
    """What another policy gives, scored by that policy and then by what it breaks: for nodes that are equal to it."""

    policy: Policy

    @property
    def name(self) -> str:
        """Of the policy that chooses."""
        return self.policy.name

    @property
    def reads(self) -> Sequence[str]:
        """What both of them look at."""
        return tuple(dict.fromkeys((*self.policy.reads, *_WHOLE.reads)))

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """As the other policy has them."""
        return self.policy.order(attempt, requests)

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """Of equal scores of the other policy, the one that breaks less is better."""
        return (*self.policy.score(attempt, requests, picks), *_WHOLE.score(attempt, requests, picks))


_WHOLE: Final = LeastFragmentation()


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

    def costs(self, candidates: Candidates, domain: Mask, picks: Sequence[Pick]) -> Mapping[int, BlockCost]:
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
