"""Minimum fragmentation: the partition that blocks least of what is left of its GPU.

Of each profile that a GPU could still hold by the number of its free slices, the start positions that are blocked
count, each by the size of the profile. A choice costs what this grows by. A GPU is a counter set, and its slices are
those counters that partitions of one profile take in each other's place; no attribute is read.
Source: the rule of arXiv 2511.18906 (November 2025), from its abstract and reviews, for any counters.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from allocator.bits import Mask, bits
from allocator.features.contract import NodeAttempt
from allocator.memo import Topic
from allocator.model import CounterSetID
from allocator.policies.contract import PricedOrder, Requests, Score
from allocator.policies.least_fragmentation import Counters, Partitioned, Partitions, partitioned
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import DeviceSlot, Pick
from cel.cache import LruCache


@dataclass(frozen=True, slots=True)
class SliceProfile:
    """Partitions of a counter set that differ only in which slices they take."""

    amounts: Counters
    """What each takes of every counter; 0 of slices."""
    slices: int
    """How many slices each takes."""
    starts: tuple[tuple[int, ...], ...]
    """For each start position, the slices that it takes: places of counters."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceLayout:
    """The profiles of a counter set, and the places of its slices among its counters."""

    profiles: tuple[SliceProfile, ...]
    slices: tuple[int, ...]


_LAYOUTS: Topic[Mapping[CounterSetID, SliceLayout]] = Topic("layouts of counter sets")

MOST_LAYOUTS = 1 << 10
"""Different layouts that are kept: most of a fleet are alike."""

MOST_KEPT = 1 << 16
"""Amounts left of counter sets whose score is remembered: those of a fleet are alike, and used in few ways."""

# Counter sets that are alike share one layout: it is a part of a key, and is compared by identity.
_LAYOUT_OF: LruCache[Hashable, SliceLayout] = LruCache(MOST_LAYOUTS, MOST_LAYOUTS)
_SCORES: LruCache[Hashable, int] = LruCache(MOST_KEPT, MOST_KEPT)


class MinFragmentation:
    """The partition by which the score of its counter sets grows least; other devices stay as they are.

    Cost: O(partitions of the counter sets * their counters) for each slot, less where it is remembered.
    """

    name = "min-fragmentation"
    reads = ()

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """By what the score grows, after each pick."""
        sets = _SetScores(attempt)

        def least_grown_first(_slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            return sorted(bits(domain), key=sets.growths(domain, picks).__getitem__)

        return PricedOrder(least_grown_first, sets.effort)

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """What the score of all counter sets grows by, negative."""
        return (-_SetScores(attempt).growth(picks),)


class _SetScores:
    """The counter sets of an attempt, with their layouts."""

    def __init__(self, attempt: NodeAttempt) -> None:
        self._partitions = Partitions(attempt)
        self._layouts = attempt.view.memo.remember(_LAYOUTS, lambda: _layouts_of(partitioned(attempt.view)))

    @property
    def effort(self) -> OrderEffort:
        """Of an order."""
        return OrderEffort(200 + self._partitions.effort, pick=20 + 6 * self._partitions.most_counters)

    def growths(self, domain: Mask, picks: Sequence[Pick]) -> Mapping[int, int]:
        """For each device of the domain, what the score grows by if it is picked after the picks."""
        left, gone = self._partitions.after(picks)
        growths = dict.fromkeys(bits(domain), 0)
        for counter_set, own in self._partitions.sets.items():
            now = left[counter_set]
            layout = self._layouts[counter_set]
            before = score_of_left(layout, now)
            for position, takes in own.takes.items():
                if position in growths and not gone >> position & 1:
                    rest = tuple([amount - taken for amount, taken in zip(now, takes, strict=True)])
                    growths[position] += score_of_left(layout, rest) - before
        return growths

    def growth(self, picks: Sequence[Pick]) -> int:
        """What the scores of all counter sets grow by with the picks."""
        before, after = (self._partitions.after(some)[0] for some in ((), picks))
        return sum(
            score_of_left(self._layouts[counter_set], after[counter_set]) - score_of_left(layout, left)
            for counter_set, left in before.items()
            for layout in [self._layouts[counter_set]]
            if after[counter_set] != left
        )


def score_of_left(layout: SliceLayout, left: Counters) -> int:
    """The start positions that are blocked of profiles that would still fit by number, by the slices of these."""
    return _SCORES.get((layout, left), 1, partial(_work_out, layout, left))


def _work_out(layout: SliceLayout, left: Counters) -> int:
    free = sum(left[place] > 0 for place in layout.slices)
    score = 0
    for profile in layout.profiles:
        if profile.slices <= free and all(map(int.__le__, profile.amounts, _not_below_zero(left))):
            score += profile.slices * sum(any(left[place] <= 0 for place in start) for start in profile.starts)
    return score


def _not_below_zero(left: Counters) -> Iterable[int]:
    """Of what is overdrawn nothing is left, which is enough for a profile that takes nothing of it."""
    return (max(0, amount) for amount in left)


def _layouts_of(sets: Mapping[CounterSetID, Partitioned]) -> Mapping[CounterSetID, SliceLayout]:
    return {counter_set: layout_of(one) for counter_set, one in sets.items()}


def layout_of(counter_set: Partitioned) -> SliceLayout:
    """Which counters are slices, and the profiles over them. Cost: O(partitions * counters), once for a view.

    A slice is taken whole or not at all. Of partitions that take the same of everything else, and as many such
    counters, it belongs to some and not to others: so a media engine that a profile has or has not is none.
    """
    takes = tuple(sorted(set(counter_set.takes.values())))
    key = (counter_set.whole, takes)
    return _LAYOUT_OF.get(key, 1, lambda: _lay_out(*key))


def _lay_out(whole_set: Counters, takes: Sequence[Counters]) -> SliceLayout:
    all_or_none = [
        place for place, whole in enumerate(whole_set) if whole > 0 and all(own[place] in (0, whole) for own in takes)
    ]
    slices = sorted({place for alike in _alike(takes, all_or_none) for place in _differing(alike, all_or_none)})
    profiles = []
    for alike in _alike(takes, slices):
        starts = tuple([tuple([place for place in slices if own[place]]) for own in alike])
        profiles.append(SliceProfile(_without(alike[0], slices), len(starts[0]), starts))
    return SliceLayout(tuple(profiles), tuple(slices))


def _alike(takes: Sequence[Counters], places: Sequence[int]) -> Iterable[Sequence[Counters]]:
    """Partitions that take the same beside these places, and as many of the places."""
    groups: dict[tuple[Counters, int], list[Counters]] = {}
    for own in takes:
        groups.setdefault((_without(own, places), sum(own[place] > 0 for place in places)), []).append(own)
    return groups.values()


def _differing(takes: Sequence[Counters], places: Sequence[int]) -> Iterable[int]:
    return (place for place in places if len({own[place] for own in takes}) > 1)


def _without(takes: Counters, places: Sequence[int]) -> Counters:
    left_out = set(places)
    return tuple([0 if place in left_out else amount for place, amount in enumerate(takes)])
