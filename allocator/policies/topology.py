"""Topology: the devices of one claim close together, by PCIe root, NUMA node and what the user names.

Devices are vertices of a graph, and so are the values of their attributes: devices with a value in
common are close, the closer the earlier the attribute is named; those that have none in common are as
far apart as a node is wide, unless others lie between them. The distance is the shortest path. A claim's
first device is the one that has what the claim still needs nearest; the next ones are near to it.
Source: resource.kubernetes.io/pcieRoot and numaNode (KEP-4381, KEP-5491).
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import networkx as nx

from allocator.features.contract import NodeAttempt
from allocator.memo import Topic
from allocator.policies.contract import Requests, Score
from allocator.policies.devices_by_attribute import NUMA_NODE, PCIE_ROOT, groups_of
from allocator.search.backtracking import Order
from allocator.search.rules import Candidates, DeviceSlot, Mask, Pick, bits

Values = tuple[tuple[int, ...], ...]
"""The values of a place for each attribute, numbered in the order in which a view shows them."""


class TopologyPolicy:
    """What is closest first.

    attributes: devices with the same value of the first one are closest; PCIe root and NUMA node follow those named.
    Cost: O(devices * places) for each slot, where devices of the same values are in one place; O(places**3) once.
    """

    name = "topology"

    def __init__(self, attributes: Sequence[str] = ()) -> None:
        self.reads = tuple(dict.fromkeys((*attributes, PCIE_ROOT, NUMA_NODE)))

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """What is closest to the claim's devices and to those that it still needs; of equals, to the pod's others."""
        layout = layout_of(attempt, self.reads)

        def closest_first(slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            claim = slot.candidates.claim
            own = [pick.device for pick in picks if pick.candidates.claim == claim]
            others = [pick.device for pick in picks if pick.candidates.claim != claim]
            needs = [(c.mask & ~_gone(attempt, picks), need) for c, need in _needed(slot, requests)]

            def distance(device: int) -> tuple[float, float]:
                return layout.together(device, own, needs), layout.total(device, others)

            return sorted(bits(domain), key=distance)

        return closest_first

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """(how far apart two devices of one claim are on average, two of different claims), negative."""
        layout = layout_of(attempt, self.reads)
        within: list[float] = []
        across: list[float] = []
        for one, other in combinations(picks, 2):
            pairs = within if one.candidates.claim == other.candidates.claim else across
            pairs.append(layout.between(one.device, other.device))
        return (-_mean(within), -_mean(across))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the devices of a view are.

    place: of each device. members: the devices of each place. distances: from place to place; in one place, from one
    device to another. nearby: for each place all of them, the nearest first.
    """

    place: Sequence[int]
    members: Sequence[Mask]
    distances: Sequence[Sequence[float]]
    nearby: Sequence[Sequence[int]]

    def between(self, one: int, other: int) -> float:
        """The distance of two devices; 0 from a device to itself."""
        return self.distances[self.place[one]][self.place[other]] if one != other else 0

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
    """The layout of the attempt's view. Cost: O(devices * attributes), and the distances, the first time."""
    key = (_LAYOUT, tuple(attributes))
    return attempt.view.memo.remember(key, lambda: _layout(_values_in(attempt, attributes)))


def _values_in(attempt: NodeAttempt, attributes: Sequence[str]) -> list[Values]:
    """The values of each device."""
    values: list[list[tuple[int, ...]]] = [[] for _ in attempt.view.devices]
    for name in attributes:
        groups = groups_of(attempt, name).values()
        for position, own in enumerate(values):
            own.append(tuple(number for number, members in enumerate(groups) if members >> position & 1))
    return [tuple(own) for own in values]


def _layout(values: Sequence[Values]) -> Layout:
    members: dict[Values, Mask] = {}
    for device, own in enumerate(values):
        members[own] = members.get(own, 0) | 1 << device
    numbers = {own: number for number, own in enumerate(members)}
    distances = _distances(tuple(members))
    nearby = [sorted(range(len(row)), key=row.__getitem__) for row in distances]
    return Layout([numbers[own] for own in values], list(members.values()), distances, nearby)


@lru_cache(maxsize=1024)
def _distances(places: Sequence[Values]) -> Sequence[Sequence[float]]:
    """The distances of places, on the diagonal those of two devices in one. Nodes that are alike have the same."""
    graph: nx.Graph[Hashable] = nx.Graph()
    for number, place in enumerate(places):
        graph.add_edge(number, "node", weight=len(place) + 1)
        for level, own in enumerate(place):
            graph.add_edges_from(((number, (level, value)) for value in own), weight=level + 1)
    paths = {number: nx.single_source_dijkstra_path_length(graph, number) for number in range(len(places))}
    return tuple(
        tuple(2 * _step(place) if one == other else paths[one][other] for other in range(len(places)))
        for one, place in enumerate(places)
    )


def _step(place: Values) -> int:
    """How far a device is from the innermost thing that it has in common with others of its place."""
    return next((level for level, own in enumerate(place, 1) if own), len(place) + 1)


def _needed(slot: DeviceSlot, requests: Requests) -> Iterator[tuple[Candidates, int]]:
    """What the claim needs after this slot: the rest of the request, then the first alternatives of later ones."""
    own = slot.candidates
    if slot.position + 1 < own.need:
        yield own, own.need - slot.position - 1
    is_later = False
    for alternatives in requests:
        if is_later and alternatives[0].claim == own.claim:
            yield alternatives[0], alternatives[0].need
        is_later |= any((c.claim, c.alternative.name) == (own.claim, own.alternative.name) for c in alternatives)


def _gone(attempt: NodeAttempt, picks: Iterable[Pick]) -> Mask:
    picked = 0
    for pick in picks:
        picked |= 1 << pick.device
    return picked & ~attempt.shareable


def _mean(distances: Sequence[float]) -> float:
    return sum(distances) / len(distances) if distances else 0.0
