"""Policies that look at whole nodes: at the devices, cpu and memory that are free, and at what else pods ask for.

Such a policy scores each node for a pod by what is left there, and says from which hardware the devices come. It
orders, as every policy does: which nodes and devices are valid is decided elsewhere. Amounts of devices are thousandths
of a unit, which is a device, or a counter set that devices are cut from (`allocator.policies.hardware`).
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from allocator.bits import Mask, bits
from allocator.cluster.usage import Shares, consumed_of
from allocator.features.contract import NodeAttempt
from allocator.memo import TypedMemo
from allocator.policies.contract import PricedOrder, Requests, Score, Scoring
from allocator.policies.hardware import FULL, UNIT, Unit, fullness_of, hardware_of
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import DeviceSlot, Pick


class NodePower(Protocol):
    """What a node draws (`allocator.policies.power`)."""

    def watts(self, cpu_left: int, units_left: Sequence[int]) -> int:
        """With so much left."""


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """A request, as it counts for units. amounts: what one device takes of each unit of a node; 0: it cannot be there.

    sort_key: orders requests that take the same, by what they select.
    """

    count: int
    amounts: tuple[int, ...]
    sort_key: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_possible(self) -> bool:
        """Whether the node has hardware for it, whatever is in use."""
        return any(self.amounts)

    def fitting(self, units: Sequence[int]) -> list[int]:
        """The units with room for one of its devices, the one with the least room first, then by number."""
        by_room = [unit for unit, amount in enumerate(self.amounts) if 0 < amount <= units[unit]]
        by_room.sort(key=units.__getitem__)
        return by_room


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What a pod asks of a node. cpu: in thousandths. memory: in bytes. name: of the pod, or of a claim without one."""

    name: str
    cpu: int
    memory: int
    requests: tuple[UnitRequest, ...]

    @property
    def devices(self) -> int:
        """How many devices it asks for."""
        return sum(request.count for request in self.requests)


@dataclass(frozen=True, slots=True)
class Shape:
    """Pods that ask for the same, on one kind of node. share: of all pods, from 0 to 1."""

    share: float
    cpu: int
    requests: tuple[UnitRequest, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """What pods of the workload ask of one kind of node, the most frequent first. memo: what was worked out of them."""

    typical: tuple[Shape, ...] = ()
    memo: TypedMemo = field(default_factory=TypedMemo)


NO_SHAPES = Shapes()
"""Nothing is known of the workload."""


@dataclass(frozen=True, slots=True)
class FreeResources:
    """What is left of a node."""

    name: str
    cpu: int
    """Thousandths of a CPU."""
    memory: int
    """Bytes."""
    units: tuple[int, ...]
    """Thousandths of each unit."""
    holds: frozenset[int] = frozenset()
    """How many devices the claims have that are there: 0 for one with a part of a device, else the number."""
    shapes: Shapes = NO_SHAPES
    """What the workload asks of nodes of this kind."""
    power: "NodePower | None" = None
    """What the node draws; None where it is not known, or nothing reads it."""


@dataclass(frozen=True, slots=True)
class UnitPick:
    """What a device takes of a unit."""

    unit: int
    amount: int


def tightest(needs: PodNeeds, units: Sequence[int]) -> list[UnitPick]:
    """A pick for each device, each where the least is left of what suffices; fewer where there is not room for all."""
    left, picks = list(units), []
    for request in needs.requests:
        for unit in request.fitting(left)[: request.count]:
            picks.append(UnitPick(unit, request.amounts[unit]))
            left[unit] -= request.amounts[unit]
    return picks


def left_after(units: Sequence[int], picks: Iterable[UnitPick]) -> tuple[int, ...]:
    """What is left of the units after the picks."""
    left = list(units)
    for pick in picks:
        left[pick.unit] -= pick.amount
    return tuple(left)


class NodePolicy(ABC):
    """A policy that scores whole nodes; one of one's own is a subclass with a name and a `score_node`.

    remembers: the score of a node depends on nothing but what the pod asks for and what is free of the node, so that
    it is worked out again only when one of them differs. reads_names, reads_holds: `name` and `holds` of the free
    resources may decide, too; else `holds` may be empty. reads_power: `power` is there where it is known. It is a
    `Policy` of one attempt as well, which alone leaves devices as they are: which unit is best depends on the node.
    """

    name = ""
    scoring = Scoring.BY_NODE
    reads: Sequence[str] = ()
    remembers = True
    reads_names = True
    reads_holds = True
    reads_power = False

    @abstractmethod
    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """How good the node is, which has room for the pod; more is better, of equals the first is taken."""

    def picks(self, needs: PodNeeds, free: FreeResources) -> Sequence[UnitPick]:
        """From which units the devices come."""
        return tightest(needs, free.units)

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """As they are."""
        return None

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good."""
        return ()


class FromUnits:
    """The policy of one attempt that takes devices from these units first, then where the least is left."""

    reads: Sequence[str] = ()

    def __init__(self, name: str, picks: Sequence[UnitPick]) -> None:
        self.name = name
        self._picks = picks

    @property
    def key(self) -> Hashable:
        """By name, and by the units in their order."""
        return self.name, *[pick.unit for pick in self._picks]

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """The devices of the units in their order."""
        units = hardware_of(attempt.view).local
        preferred: dict[Unit, int] = {}
        for place, pick in enumerate(self._picks):
            preferred.setdefault(units[pick.unit], place)
        units_of = hardware_of(attempt.view).units
        places = [min((preferred.get(unit, len(units)) for unit in of), default=len(units)) for of in units_of]

        def in_units(_slot: DeviceSlot, domain: Mask, _picks: Sequence[Pick]) -> Iterable[int]:
            return sorted(bits(domain), key=places.__getitem__)

        return PricedOrder(in_units, OrderEffort(device=3))

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good: the node is chosen already."""
        return ()


def units_left(attempt: NodeAttempt) -> tuple[int, ...]:
    """What is left of each unit that not every node reaches. Cost: O(devices of the pools with anything in use)."""
    return tuple(max(0, FULL - full) * UNIT // FULL for full in fullness_of(attempt).of_local())


def held_by_claims(attempt: NodeAttempt) -> frozenset[int]:
    """How many devices the claims have that have some here; 0 for a claim that has a part of one device only."""
    devices: dict[str, int] = {}
    sharers: set[str] = set()
    for pool in attempt.view.pools:
        for names in (attempt.usage.holders.get(pool.id) or {}).values():
            for name in names:
                devices[name] = devices.get(name, 0) + 1
        for device, shares in attempt.usage.shares_in(pool.id).items():
            sharing = [name for own in shares.holders.values() for name in own]
            for name in sharing:
                devices[name] = devices.get(name, 0) + 1
            if len(sharing) > 1 or not _is_whole(attempt, attempt.view.positions(pool).get(device), shares):
                sharers.update(sharing)
    return frozenset(0 if number == 1 and name in sharers else number for name, number in devices.items())


def _is_whole(attempt: NodeAttempt, device: int | None, shares: Shares) -> bool:
    """Whether nothing of the device is left."""
    if device is None:
        return False
    subject = attempt.view.devices[device]
    capacity = subject.capacity
    return consumed_of(subject, shares) == {name: amount.nanos for name, amount in capacity.items() if amount.nanos}
