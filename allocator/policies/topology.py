"""Topology: the devices of one claim close together, by PCIe root, NUMA node and what the user names.

Devices are vertices of a graph, and so are the values of their attributes: devices with a value in
common are close, the closer the earlier the attribute is named; those that have none in common are as
far apart as a node is wide, unless others lie between them. The distance is the shortest path. A claim's
first device is the one that has what the claim still needs nearest; the next ones are near to it.
Source: resource.kubernetes.io/pcieRoot and numaNode (KEP-4381, KEP-5491).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import networkx as nx

from allocator.bits import Mask, bits
from allocator.features.contract import NodeAttempt
from allocator.memo import Topic
from allocator.policies.contract import PricedOrder, Requests, Score
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT, groups_of
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import Candidates, DeviceSlot, Pick
from cel.cache import LruCache

MOST_PLACES: Final = 256
MOST_LINKS: Final = 1 << 12
"""Places of one node, and values that they have. Where there are more, attributes are left out, those that count least
first: all distances take up to a tenth of a second for places with one value each, and half a second with lists."""

MOST_LAYOUTS: Final = 1 << 10
MOST_DISTANCES: Final = 1 << 20
"""Different ones that are kept, and pairs of places in all of them."""

Values = tuple[tuple[int, ...], ...]
"""The values of a place for each attribute, numbered in the order in which a view shows them."""


class TopologyPolicy:
    """What is closest first.

    attributes: devices with the same value of the first one are closest; PCIe root and NUMA node follow those named.
    Cost: O(devices + places * devices needed) for each slot, where devices of the same values are in one place;
    O(places * values of all places) once.
    """

    name = "topology"

    def __init__(self, attributes: Sequence[str] = ()) -> None:
        self.reads = tuple(dict.fromkeys((*attributes, PCIE_ROOT, NUMA_NODE)))

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """What is closest to the claim's devices and to those that it still needs; of equals, to the pod's others."""
        layout = layout_of(attempt, self.reads)

        def closest_first(slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            claim = slot.candidates.claim
            of_claim = [pick.device for pick in picks if pick.candidates.claim == claim]
            others = [pick.device for pick in picks if pick.candidates.claim != claim]
            gone = _gone(attempt, picks)
            needs = [(c.mask & ~gone, need) for c, need in _needed(slot, requests)]
            picked = _mask(of_claim) | _mask(others)
            distances: dict[tuple[int, ...], tuple[float, float]] = {}

            def distance(device: int) -> tuple[float, float]:
                if picked >> device & 1:
                    return layout.together(device, of_claim, needs), layout.total(device, others)
                key = (layout.place[device], *[free >> device & 1 for free, _ in needs])
                pair = distances.get(key)
                if pair is None:
                    pair = distances[key] = layout.together(device, of_claim, needs), layout.total(device, others)
                return pair

            return sorted(bits(domain), key=distance)

        return PricedOrder(closest_first, _effort(layout, requests))

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """(how far apart two devices of one claim are on average, two of different claims), negative."""
        layout = layout_of(attempt, self.reads)
        by_claim: dict[int, list[int]] = {}
        for pick in picks:
            by_claim.setdefault(pick.candidates.claim, []).append(pick.device)
        every = layout.pairs([pick.device for pick in picks])
        within = [layout.pairs(devices) for devices in by_claim.values()]
        total, number = sum([one[0] for one in within]), sum([one[1] for one in within])
        return (-_mean(total, number), -_mean(every[0] - total, every[1] - number))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the devices of a view are.

    place: of each device. members: the devices of each place. distances: from place to place; in one place, from one
    device to another. nearby: for each place all of them, the nearest first.
    """

    place: Sequence[int]
    members: Sequence[Mask]
    distances: Sequence[Sequence[int]]
    nearby: Sequence[Sequence[int]]

    def between(self, one: int, other: int) -> int:
        """The distance of two devices; 0 from a device to itself."""
        return self.distances[self.place[one]][self.place[other]] if one != other else 0

    def pairs(self, devices: Sequence[int]) -> tuple[int, int]:
        """(the distances of each two of the devices added up, how many these are). Cost: O(places**2)."""
        places = Counter([self.place[device] for device in devices])
        ordered = list(places.items())
        total = sum(
            number * sum([times * self.distances[place][other] for other, times in ordered[position + 1 :]])
            + number * (number - 1) // 2 * self.distances[place][place]
            for position, (place, number) in enumerate(ordered)
        )
        same = sum(self.distances[self.place[device]][self.place[device]] * times * (times - 1) // 2
                   for device, times in Counter(devices).items())  # fmt: skip
        return total - same, len(devices) * (len(devices) - 1) // 2

    def total(self, device: int, others: Iterable[int]) -> float:
        """The distances from a device to the others, added up."""
        return sum(self.between(device, other) for other in others)

    def together(self, device: int, own: Sequence[int], needs: Sequence[tuple[Mask, int]]) -> float:
        """The distances that a device adds to its own ones, and with it the nearest ones that are needed, to all.

        needs: free devices, and how many of them.
        """
        members, total = [self.place[other] for other in (*own, device)], self.total(device, own)
        for free, need in needs:
            for place, number in self._nearest(device, free, need):
                row = self.distances[place]
                total += number * sum(row[other] for other in members) + row[place] * number * (number - 1) / 2
                members += [place] * number
        return total

    def _nearest(self, device: int, free: Mask, need: int) -> Iterator[tuple[int, int]]:
        """The places of the nearest free devices, as many as are needed, each with how many it has."""
        free &= ~(1 << device)
        for place in self.nearby[self.place[device]]:
            number = min(need, (self.members[place] & free).bit_count())
            if number:
                yield place, number
            need -= number
            if not need:
                return


_LAYOUT: Topic[Layout] = Topic("layout")


def layout_of(attempt: NodeAttempt, attributes: Sequence[str]) -> Layout:
    """The layout of the attempt's view.

    Cost: O(devices * attributes), and of `_distances` once for nodes that are alike.
    """
    key = (_LAYOUT, tuple(attributes))
    return attempt.view.memo.remember(key, lambda: _layout(_values_in(attempt, attributes)))


def _values_in(attempt: NodeAttempt, attributes: Sequence[str]) -> list[Values]:
    """The values of each device, of as many of the attributes as leave few places and values."""
    values_in: list[Values] = [()] * len(attempt.view.devices)
    for name in attributes:
        of_attribute: list[tuple[int, ...]] = [()] * len(values_in)
        for number, members in enumerate(groups_of(attempt, name).values()):
            for position in bits(members):
                of_attribute[position] = (*of_attribute[position], number)
        more = [(*values, of_name) for values, of_name in zip(values_in, of_attribute, strict=True)]
        places = set(more)
        if len(places) > MOST_PLACES or sum([len(own) for place in places for own in place]) > MOST_LINKS:
            break
        values_in = more
    return values_in


def _layout(values: Sequence[Values]) -> Layout:
    members: dict[Values, Mask] = {}
    for device, place in enumerate(values):
        members[place] = members.get(place, 0) | 1 << device
    numbers = {own: number for number, own in enumerate(members)}
    places = tuple(members)
    distances, nearby = _DISTANCES.get(places, len(places) ** 2, lambda: _distances(places))
    return Layout([numbers[own] for own in values], list(members.values()), distances, nearby)


_Matrix = Sequence[Sequence[int]]

_DISTANCES: Final[LruCache[Hashable, tuple[_Matrix, _Matrix]]] = LruCache(MOST_LAYOUTS, MOST_DISTANCES)
"""Nodes that are alike have the same."""


def _distances(places: Sequence[Values]) -> tuple[_Matrix, _Matrix]:
    """(the distances of places, on the diagonal those of two devices in one; for each place all, the nearest first).

    An edge to a value of the first attribute is 1 long, one to a value of the second 2, and one to the node, which all
    places have in common, one more than to a value of the last. Cost: O(places * values of all places).
    """
    graph: nx.Graph[Hashable] = nx.Graph()
    for number, place in enumerate(places):
        graph.add_edge(number, "node", weight=len(place) + 1)
        for level, numbers in enumerate(place):
            graph.add_edges_from(((number, (level, value)) for value in numbers), weight=level + 1)
    rows: list[list[int]] = []
    for number, place in enumerate(places):
        paths = nx.single_source_dijkstra_path_length(graph, number)
        row = [int(paths[other]) for other in range(len(places))]
        row[number] = 2 * _step(place)
        rows.append(row)
    return rows, [sorted(range(len(row)), key=row.__getitem__) for row in rows]


def _step(place: Values) -> int:
    """How far a device is from the innermost thing that it has in common with others of its place."""
    return next((level for level, own in enumerate(place, 1) if own), len(place) + 1)


def _needed(slot: DeviceSlot, requests: Requests) -> Iterator[tuple[Candidates, int]]:
    """What the claim needs after this slot: the rest of the request, then the first alternatives of later ones."""
    candidates = slot.candidates
    if slot.position + 1 < candidates.need:
        yield candidates, candidates.need - slot.position - 1
    is_later = False
    for alternatives in requests:
        if is_later and alternatives[0].claim == candidates.claim:
            yield alternatives[0], alternatives[0].need
        is_later |= any(
            (c.claim, c.alternative.name) == (candidates.claim, candidates.alternative.name) for c in alternatives
        )


def _gone(attempt: NodeAttempt, picks: Iterable[Pick]) -> Mask:
    picked = 0
    for pick in picks:
        picked |= 1 << pick.device
    return picked & ~attempt.shareable


def _mask(devices: Iterable[int]) -> Mask:
    mask = 0
    for device in devices:
        mask |= 1 << device
    return mask


def _mean(total: int, number: int) -> float:
    return total / number if number else 0.0


def _effort(layout: Layout, requests: Requests) -> OrderEffort:
    """Each place is looked at for each request of a claim, with the nearest ones, no more than the claim needs."""
    by_claim = Counter(alternatives[0].claim for alternatives in requests)
    asked = 2 + max(by_claim.values(), default=0)
    return OrderEffort(whole=200 + len(layout.members) * asked * 40, device=10 + asked // 3, pick=20)
