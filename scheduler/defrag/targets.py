"""What room is made for: pods or claims that are to fit, or nodes that are to be empty.

A target knows in which ways it could be met as the cluster is, and keeps one of them while pods move: nobody who does
not go before it gets its room or its devices, though those who are to move still have them. That is what the live
scheduler does with the record of a preemption.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Protocol

from allocator.bits import Mask, bits, union
from allocator.model import Claim, DeviceID
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import Placed
from scheduler.defrag.movable import MoversByNode, RoomNeed
from scheduler.preemption.victims import least_devices
from scheduler.state.claims import Holding
from scheduler.state.pods_by_priority import priority_of

Uids = frozenset[str]

MOST_WAYS = 64
"""Ways to meet a target that are tried with the same pods away."""


@dataclass(frozen=True, slots=True)
class ToFit:
    """A pod, or a claim that no pod uses, that is to fit. full: as for `PodCycle`."""

    pod: Pod | None
    claims: tuple[Claim, ...]
    full: tuple[Claim, ...] = ()

    def on(self, node: str) -> Pod | None:
        """The pod, as it is promised the node."""
        return self.pod.changed(nominated_node=node) if self.pod is not None else None


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """Where it would be."""

    asked: ToFit
    placed: Placed

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that had no devices, with what they get."""
        placed = self.placed
        pending = [one for one in placed.claims if one.allocation is None]
        extended = [placed.extended.claim] if placed.extended is not None else []
        return tuple(
            replace(claim, allocation=one) for claim, one in zip([*pending, *extended], placed.allocations, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Way:
    """A way to meet the target. closed: nodes where nobody may go."""

    places: tuple[TargetPlace, ...] = ()
    closed: Mask = 0


class Target(Protocol):
    """What room is made for. priority: of its pods, None where it has none. is_exact: all ways to meet it are tried."""

    @property
    def priority(self) -> int | None:
        """Those of higher priority do not keep out of what is kept for it."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether `ways` are all that there are."""
        ...

    def openings(self, movers: MoversByNode, most: int) -> Iterator[Uids]:
        """Pods whose leaving may open a way, up to so many at a time; none that may is left out."""
        ...

    def ways(self) -> Iterator[Way]:
        """The ways to meet it as the cluster is, the best first."""
        ...

    @contextmanager
    def keep(self, way: Way) -> Iterator[None]:
        """Keep it from others meanwhile."""
        ...

    @contextmanager
    def let_go(self, way: Way) -> Iterator[None]:
        """Do not keep devices meanwhile, for those who go before."""
        ...

    def met(self, way: Way) -> Way | None:
        """The way as it is in the end, with nothing kept; None where it is none any more."""
        ...


class FittingTarget:
    """Pods, or claims that no pod uses, that are to fit all together; one after the other."""

    def __init__(self, cluster: Cluster, asked: Sequence[ToFit]) -> None:
        self._cluster = cluster
        self._asked = asked
        pods = [one.pod for one in asked if one.pod is not None]
        self.priority = min(map(priority_of, pods)) if pods else None

    @property
    def is_exact(self) -> bool:
        """With several, each goes where the scheduler decides."""
        return len(self._asked) == 1

    def openings(self, movers: MoversByNode, most: int) -> Iterator[Uids]:
        """Pods of one node, if the one that is to fit looks at one node."""
        pending = [claim for one in self._asked for claim in one.claims if claim.allocation is None]
        wide = len(self._asked) > 1 or any(one.pod is not None and movers.looks_wide(one.pod) for one in self._asked)
        least = min(least_devices([claim for claim in one.claims if not claim.allocation]) for one in self._asked)
        needed = least_devices(pending) if len(self._asked) == 1 else least
        return movers.sets(RoomNeed(needed, is_wide=wide), frozenset(), most)

    def ways(self) -> Iterator[Way]:
        """Of one, all nodes that can take it; of several the scheduler's own choice."""
        return islice(self._ways(self._asked, ()), MOST_WAYS)

    def _ways(self, asked: Sequence[ToFit], before: tuple[TargetPlace, ...]) -> Iterator[Way]:
        if not asked:
            yield Way(before)
            return
        first, *rest = asked
        cycle = PodCycle(self._cluster, first.pod, first.claims, first.full)
        best = None if cycle.refused_everywhere() else cycle.best()
        if best is None:
            return
        others = union(cycle.ranked.values()) & ~(1 << best) if self.is_exact else 0
        for number in (best, *bits(others)):
            place = TargetPlace(first, cycle.placed(number))
            with self.keep(Way((place,))) if rest else ExitStack():
                yield from self._ways(rest, (*before, place))

    @contextmanager
    def keep(self, way: Way) -> Iterator[None]:
        """The room by nominations, the devices as if they were allocated."""
        nominations = self._cluster.nominations
        pods = [(one.asked.pod, one.asked.on(one.placed.node)) for one in way.places]
        self._cluster.fleet.add_allocated(_claims(way))
        for _, promised in pods:
            if promised is not None:
                nominations.set(promised)
        try:
            yield
        finally:
            for pod, _ in pods:
                if pod is not None:
                    nominations.set(pod)  # which forgets the promise where it had none before
            self._cluster.fleet.remove_allocated(_claims(way))

    @contextmanager
    def let_go(self, way: Way) -> Iterator[None]:
        """The devices alone: nominations count only for those who do not go before."""
        self._cluster.fleet.remove_allocated(_claims(way))
        try:
            yield
        finally:
            self._cluster.fleet.add_allocated(_claims(way))

    def met(self, way: Way) -> Way | None:
        """Each on the node that it was promised, as things are with the others there; devices may be others."""
        places: list[TargetPlace] = []
        with self.let_go(way), ExitStack() as undo:
            for place in way.places:
                asked, number = place.asked, self._cluster.number_of(place.placed.node)
                assert number is not None, "a way leads to nodes that are there"
                pod = asked.on(place.placed.node)
                cycle = PodCycle(self._cluster, pod, asked.claims, asked.full)
                if cycle.refused_everywhere() or cycle.best(1 << number) != number:
                    return None
                last = TargetPlace(asked, cycle.placed(number))
                if pod is not None:
                    undo.enter_context(self._cluster.assumed(pod, last.placed))
                else:
                    undo.enter_context(self.keep(Way((last,))))
                places.append(last)
        return Way(tuple(places))


def _claims(way: Way) -> list[Claim]:
    return [claim for one in way.places for claim in one.claims]


class _ClosedWays:
    """What its ways keep are closed nodes: nobody goes there while pods move, which who places them sees to."""

    __slots__ = ()
    priority: None = None
    is_exact = True

    @contextmanager
    def keep(self, way: Way) -> Iterator[None]:
        """Nothing else is kept."""
        assert not way.places, "nothing is to fit"
        yield

    let_go = keep

    def met(self, way: Way) -> Way | None:
        """The nodes stay closed."""
        return way


@dataclass(frozen=True, slots=True)
class ClosedNodes(_ClosedWays):
    """Nodes that are chosen already, and where nobody may go."""

    closed: Mask

    def openings(self, movers: MoversByNode, most: int) -> Iterator[Uids]:
        """All movers: who is there is not asked."""
        yield from [movers.uids] * (len(movers.uids) <= most)

    def ways(self) -> Iterator[Way]:
        """The one that there is."""
        yield Way(closed=self.closed)


@dataclass(frozen=True, slots=True)
class EmptyNodes(_ClosedWays):
    """So many nodes with devices on which nobody is but those who belong to their node."""

    cluster: Cluster
    count: int
    belonging: Uids
    """The pods of DaemonSets, and static ones."""

    def openings(self, movers: MoversByNode, most: int) -> Iterator[Uids]:
        """All pods of nodes on which everybody may be moved."""
        there = self._users()
        missing = self.count - sum(not users for users in there.values())
        able = [users for users in there.values() if users and len(users) <= most and users <= movers.uids]
        able.sort(key=len)
        if missing > 0:
            yield from self._together(able, missing, most)

    def _together(self, able: Sequence[Uids], missing: int, most: int) -> Iterator[Uids]:
        """Those of so many of the nodes. able: the smallest first."""
        if not missing:
            yield frozenset()
            return
        for place, users in enumerate(able):
            if len(users) * missing > most:
                return
            for others in self._together(able[place + 1 :], missing - 1, most - len(users)):
                yield users | others

    def ways(self) -> Iterator[Way]:
        """So many of the nodes that are empty."""
        empty = [number for number, users in self._users().items() if not users]
        if len(empty) < self.count:
            return
        for chosen in islice(combinations(empty, self.count), MOST_WAYS):
            yield Way(closed=sum(1 << number for number in chosen))

    def names(self, way: Way) -> list[str]:
        """Of the nodes."""
        return sorted(self.cluster.name_of(number) for number in bits(way.closed))

    def _users(self) -> dict[int, Uids]:
        """By the number of each node with devices of its own who is there: pods, and claims of unknown pods."""
        cluster = self.cluster
        own = own_devices(cluster)
        users = {number: {uid for uid, _ in unknown_users(cluster, devices)} for number, devices in own.items()}
        for number, pod in cluster.pods.on_nodes():
            if number in users and pod.uid not in self.belonging and not pod.is_deleting:
                users[number].add(pod.uid)
        return {number: frozenset(uids) for number, uids in users.items()}


def own_devices(cluster: Cluster) -> dict[int, list[DeviceID]]:
    """By the number of each node with such: the devices that no other node reaches. Cost: O(devices)."""
    fleet = cluster.fleet
    reached = {number: fleet.reached_by(fleet.node(number)) for number in bits(fleet.all)}
    times = Counter(device for devices in reached.values() for device in devices)
    own = {number: [one for one in devices if times[one] == 1] for number, devices in reached.items()}
    return {number: devices for number, devices in own.items() if devices}


def unknown_users(cluster: Cluster, devices: Iterable[DeviceID]) -> Iterator[tuple[str, Holding]]:
    """The claims (uid) that have some of the devices, and of whose users none is there."""
    for uid, holding in (one for device in devices for one in cluster.claims.holders(device).items()):
        consumers = holding.watched.reserved_for if holding.watched is not None else ()
        if all(cluster.pods.known(one.uid) is None for one in consumers):
            yield uid, holding
