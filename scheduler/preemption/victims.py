"""Who has to go from a node, or from each of many: units by importance, budgets, and who can be given back.

A unit goes as a whole: a pod, or a group of pods. All that are lower than the preemptor are taken away first; if it
fits then, each is given back in its order if the preemptor still fits. Fitting is monotone in who is gone: a run of
units that can all stay is found by one look, and the others by halving; v victims of n units take O(v log n) looks.

With them go claims, whose devices come free when their users go (`WinnableClaims`). A claim comes free if all its users
are taken away, and only if everything that it holds is published for that node alone. One that a group has, that is
being written by an attempt, or that is reserved for nobody stays: its reservation may be on its way. One whose users
have all ended is as good as free already: its controller is about to deallocate it.
Source: kube-scheduler's preemption.go SelectVictimsOnNode; KEP-5690, with the users that kube-controller-manager's
resourceclaim controller goes by.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from allocator.bits import Mask
from allocator.cluster.usage import occupying
from allocator.model import Alternative, Claim, Device, DeviceResult, PoolID
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.state.masks import Flags, Floats, Numbers, mask_of_numbers, numbers_once
from scheduler.state.pods import PODS, PodRequests
from scheduler.state.pods_by_priority import HIGHEST, DisruptionBudgets, priority_of, violated_of

_REMEMBERED = 1 << 14


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that go together. importance: the smaller, the more important. started: when, inf where it did not yet."""

    pods: tuple[Pod, ...]
    priority: int
    started: float

    @staticmethod
    def of(pod: Pod) -> "Unit":
        """The pod alone."""
        return Unit((pod,), priority_of(pod), moment(pod.started))

    @property
    def uids(self) -> list[str]:
        """Of its pods."""
        return [pod.uid for pod in self.pods]

    @property
    def importance(self) -> tuple[int, int, float, str]:
        """By priority, as a group of more pods, by who started earlier; then by uid, which decides nothing."""
        # Differs from kube-scheduler up to 1.37, to which pods of one priority and start time have no order.
        return -self.priority, -len(self.pods), self.started, self.pods[0].uid


@lru_cache(_REMEMBERED)
def moment(text: str) -> float:
    """The time in seconds; what has not started yet is newer than everything."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp() if text else inf


def lower_units(pods: Collection[Pod], priority: int) -> list[Unit]:
    """Those of the pods that are lower, the most important first."""
    units = [Unit.of(pod) for pod in pods if priority_of(pod) < priority]
    return sorted(units, key=lambda unit: unit.importance)


@dataclass(frozen=True, slots=True)
class Reprieve:
    """The order in which units are given back: first those whose eviction violates a budget, and how many they are."""

    units: Sequence[Unit]
    violating: int
    violated: Sequence[tuple[PodDisruptionBudget, ...]]
    """The budgets, of the first ones."""

    @staticmethod
    def of(units: Sequence[Unit], budgets: DisruptionBudgets) -> "Reprieve":
        """units: the most important first. The split is made once, before anybody is given back."""
        violated = budgets.violated([unit.pods for unit in units])
        first = [(unit, own) for unit, own in zip(units, violated, strict=True) if own]
        others = [unit for unit, own in zip(units, violated, strict=True) if not own]
        return Reprieve([*(unit for unit, _ in first), *others], len(first), [own for _, own in first])

    def violations(self, victims: Iterable[Unit]) -> tuple[int, tuple[PodDisruptionBudget, ...]]:
        """How many pods of the victims violate a budget, and which budgets these are."""
        gone = {unit.pods[0].uid for unit in victims}
        violating = [
            (unit, own) for unit, own in zip(self.units, self.violated, strict=False) if unit.pods[0].uid in gone
        ]
        budgets = {id(budget): budget for _, own in violating for budget in own}
        return sum(len(unit.pods) for unit, _ in violating), tuple(budgets.values())


Away = Callable[[Sequence[Unit]], AbstractContextManager[None]]
"""Takes units away for the time of a context."""


def victims_of(units: Sequence[Unit], fits: Callable[[], bool], away: Away) -> list[Unit]:
    """Those of the units, which are all there, that have to go; each is given back if the preemptor fits with it.

    It fits with all of them gone, and everybody else who can be is away. The order of the units decides.
    """
    if fits():
        return []
    return _victims_among(units, fits, away)


def _victims_among(units: Sequence[Unit], fits: Callable[[], bool], away: Away) -> list[Unit]:
    """The same where not all of them can stay."""
    if len(units) == 1:
        return list(units)
    first, last = units[: len(units) // 2], units[len(units) // 2 :]
    with away(last):
        victims = victims_of(first, fits, away)
    with away(victims):
        return [*victims, *victims_of(last, fits, away)]


def guessed_victims(
    gains: Sequence[tuple[Unit, int]], missing: int, enough: int, fits_without: Callable[[Sequence[Unit]], bool]
) -> list[Unit] | None:
    """The same as `victims_of` in one look, where it is right that the last units go that have enough together.

    gains: in their order, with what comes free of each at most. missing: so much has to be gained in any case. None:
    nothing is known then. Whoever is not among these goes in no case, since it fits with them gone; and each of them
    goes if it does not fit without it, whoever of those after it goes as well.
    """
    gained, first = 0, len(gains)
    while gained < enough and first:
        first -= 1
        gained += gains[first][1]
    after = gains[first:]
    going = [unit for unit, gain in after if gain]
    if gained < enough or not fits_without(going):
        return None
    for place, (unit, gain) in enumerate(after):
        if gain and gained - gain >= missing:
            others = [one for other, (one, more) in enumerate(after) if (more and one is not unit) or other > place]
            if fits_without(others):
                return None
    return going


EvictionCost = tuple[int, int, int, int, float]
"""What a node costs; the least is chosen. Source: kube-scheduler's pickOneNodeForPreemption."""

LOWEST = 1 << 31
"""Makes each priority count as positive, so that fewer victims of a negative priority are better."""


def cost_of(victims: Sequence[Unit], violations: int) -> EvictionCost:
    """Violations, the highest priority, the sum of all, how many pods; then the latest of the first starts is best.

    victims: the most important first; none cost nothing. `NodesAtOnce` computes the same for all nodes at once.
    """
    if not victims:
        return 0, -LOWEST, 0, 0, -inf
    pods = [(unit.priority, moment(pod.started)) for unit in victims for pod in unit.pods]
    highest = victims[0].priority
    earliest = min(started for priority, started in pods if priority == highest)
    return violations, highest, sum(priority + LOWEST for priority, _ in pods), len(pods), -earliest


def least_cost(gains: Sequence[tuple[Unit, int]], needed: int) -> EvictionCost | None:
    """What victims cost at least of which that much has to be gained; None where all of them gain less.

    gains: the most important first, and what there is of each at most. Somebody has to go in any case.
    """
    if needed <= 0:
        gains, needed = [(unit, 1) for unit, _ in gains], 1
    cheapest = [(unit, gain) for unit, gain in reversed(gains) if gain > 0]
    if not cheapest or sum(gain for _, gain in cheapest) < needed:
        return None
    most, gained, highest = max(gain for _, gain in cheapest), 0, 0
    for unit, gain in cheapest:
        highest, gained = unit.priority, gained + gain
        if gained >= needed:
            break
    count = max(1, -(-needed // most))
    sums = sum(unit.priority + LOWEST for unit, _ in cheapest[:count])
    # At the highest priority, so many have to go at least, and the first of them started no later than that many did.
    below = sum(gain for unit, gain in cheapest if unit.priority < highest)
    started = sorted((unit.started for unit, _ in cheapest if unit.priority == highest), reverse=True)
    return 0, highest, sums, count, -started[max(1, -(-(needed - below) // most)) - 1]


# Victims on many nodes at once, where the node's own resources are all that is short there.
#
# Everything else lets the pod pass with all pods there, and does so the more with some of them gone. So what is to be
# found out is arithmetic on columns: a row for each node, a place in it for each of its pods, the most important first.
# Rows are kept, and filled again when the node's pods have changed.
# Source: kube-scheduler's SelectVictimsOnNode, for NodeResourcesFit.


_FEWEST_PLACES = 8

ByPlace = NDArray[np.int64]
"""A row for each node, a column for each place of a pod."""


class PodTable:
    """The pods of nodes, in rows by node number. priorities: HIGHEST where there is no pod."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = np.zeros(0, np.int64)
        self.units: list[Sequence[Unit]] = []
        self._freed: dict[int, Sequence[int]] = {}
        self._budgets: dict[int, tuple[int, Sequence[Sequence[PodDisruptionBudget]]]] = {}
        self.priorities = np.zeros((0, _FEWEST_PLACES), np.int64)
        self.started = np.zeros((0, _FEWEST_PLACES))
        self.amounts: dict[str, ByPlace] = {}

    def refresh(self, numbers: Sequence[int], resources: Sequence[str]) -> None:
        """Bring the rows of these nodes up to date. Cost: O(pods on those whose pods have changed)."""
        changes = self._cluster.by_priority.changes
        self._grow(len(changes))
        for resource in resources:
            if resource not in self.amounts:
                self.amounts[resource] = np.zeros(self.priorities.shape, np.int64)
                self._seen[:] = -1
        rows = np.array(numbers, np.int64)
        for number in rows[self._seen[rows] != changes[rows]].tolist():
            self._fill(number)
            self._seen[number] = changes[number]

    def lower(self, number: int, priority: int, most_freed: Callable[[Pod], int]) -> list[tuple[Unit, int]]:
        """Who could go from the node, the most important first, and how many devices come free then at most."""
        self.refresh([number], ())
        units = self.units[number]
        if number not in self._freed:
            self._freed[number] = [sum(map(most_freed, unit.pods)) for unit in units]
        return [
            (unit, freed) for unit, freed in zip(units, self._freed[number], strict=True) if unit.priority < priority
        ]

    def budgets(self, number: int) -> Sequence[Sequence[PodDisruptionBudget]]:
        """By place the budgets from which an eviction takes one. The row is up to date."""
        budgets = self._cluster.budgets
        known = self._budgets.get(number)
        if known is None or known[0] != budgets.changes:
            known = budgets.changes, [budgets.all_of(unit.pods) for unit in self.units[number]]
            self._budgets[number] = known
        return known[1]

    def _fill(self, number: int) -> None:
        units = sorted(map(Unit.of, self._cluster.by_priority.on(number)), key=lambda unit: unit.importance)
        self.units[number] = units
        self._freed.pop(number, None)
        self._budgets.pop(number, None)
        count = len(units)
        self._widen(count)
        self.priorities[number] = HIGHEST
        if not count:
            return
        self.priorities[number, :count] = [unit.priority for unit in units]
        self.started[number, :count] = [unit.started for unit in units]
        requests = [self._cluster.infos.requests_of(unit.pods[0].uid).amounts for unit in units]
        for resource, table in self.amounts.items():
            table[number, :count] = 1 if resource == PODS else [one.get(resource, 0) for one in requests]

    def _grow(self, size: int) -> None:
        more = size - len(self._seen)
        if more > 0:
            self._seen = np.pad(self._seen, (0, more), constant_values=-1)
            self.units += [()] * more
            self._pad(((0, more), (0, 0)))

    def _widen(self, places: int) -> None:
        more = places - self.priorities.shape[1]
        if more > 0:
            self._pad(((0, 0), (0, more)))

    def _pad(self, by: tuple[tuple[int, int], tuple[int, int]]) -> None:
        self.priorities = np.pad(self.priorities, by, constant_values=HIGHEST)
        self.started = np.pad(self.started, by)
        self.amounts = {resource: np.pad(table, by) for resource, table in self.amounts.items()}


@dataclass(frozen=True, slots=True)
class NodesAtOnce:
    """What was found of some nodes, in their order."""

    numbers: Sequence[int]
    table: PodTable
    fits: Sequence[bool]
    """Whether the pod fits with everybody lower gone."""
    victims: NDArray[np.bool_]
    """By node and place."""
    violating: NDArray[np.bool_]
    costs: Sequence[EvictionCost]
    short: Mapping[str, Flags]
    """By resource, whether it is still too little then."""

    def victims_on(self, place: int) -> list[Unit]:
        """On one of the nodes, by its place among them."""
        units = self.table.units[self.numbers[place]]
        return [units[one] for one in self.victims[place].nonzero()[0].tolist()]

    def lacking(self, tried: int, size: int) -> Iterator[tuple[str, Mask]]:
        """By resource which of the first so many nodes have too little of it whoever goes. size: above all numbers."""
        rows = np.array(self.numbers[:tried], np.int64)
        for resource, short in self.short.items():
            if nodes := mask_of_numbers(rows[short[:tried]], size):
                yield resource, nodes


def nodes_at_once(
    table: PodTable, cluster: Cluster, numbers: Sequence[int], priority: int, requests: PodRequests
) -> NodesAtOnce:
    """Who has to go from each of the nodes. requests: of the preemptor."""
    needed = {PODS: 1, **requests.amounts}
    table.refresh(numbers, list(needed))
    rows = np.array(numbers, np.int64)
    lower = table.priorities[rows] < priority
    amounts = {resource: table.amounts[resource][rows] for resource in needed}
    left = {
        resource: _free(cluster, resource, rows) + (amounts[resource] * lower).sum(axis=1) - amount
        for resource, amount in needed.items()
    }
    short = {resource: slack < 0 for resource, slack in left.items()}
    fits = ~np.logical_or.reduce(list(short.values()))
    violating = _violating(table, cluster, numbers, lower)
    victims = np.zeros_like(lower)
    for first in (True, False):
        among = lower & (violating if first else ~violating)
        _spare(among, amounts, left, victims)
    costs = _costs(table, rows, victims, violating)
    return NodesAtOnce(numbers, table, fits.tolist(), victims, violating, costs, short)


def _free(cluster: Cluster, resource: str, rows: Numbers) -> Numbers:
    column = cluster.infos.columns.get(resource)
    return column.free[rows] if column is not None else np.full(len(rows), -HIGHEST, np.int64)


def _spare(
    among: NDArray[np.bool_], amounts: Mapping[str, ByPlace], left: dict[str, Numbers], victims: NDArray[np.bool_]
) -> None:
    """Give back whom there is room for, place by place; the others are victims. left: what is free, which it lowers."""
    for place in np.flatnonzero(among.any(axis=0)).tolist():
        asked = among[:, place]
        stays = asked.copy()
        for resource, slack in left.items():
            stays &= amounts[resource][:, place] <= slack
        for resource, slack in left.items():
            np.subtract(slack, amounts[resource][:, place] * stays, out=slack)
        victims[:, place] |= asked & ~stays


def _violating(
    table: PodTable, cluster: Cluster, numbers: Sequence[int], lower: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    violating = np.zeros_like(lower)
    if not cluster.budgets.namespaces:
        return violating
    firsts = lower.argmax(axis=1).tolist()  # pods are in the order of their priorities: all that follow are lower
    for row, number in enumerate(numbers):
        own = table.budgets(number)
        if any(own) and lower[row, firsts[row]]:
            for place, violated in enumerate(violated_of(own[firsts[row] :]), start=firsts[row]):
                if violated:
                    violating[row, place] = True
    return violating


def _costs(
    table: PodTable, rows: Numbers, victims: NDArray[np.bool_], violating: NDArray[np.bool_]
) -> Sequence[EvictionCost]:
    priorities, started = table.priorities[rows], table.started[rows]
    highest = np.where(victims, priorities, -LOWEST).max(axis=1)
    sums = (np.where(victims, priorities + LOWEST, 0)).sum(axis=1)
    first = victims & (priorities == highest[:, None])
    earliest: Floats = np.where(first, started, np.inf).min(axis=1)
    columns = ((victims & violating).sum(axis=1), highest, sums, victims.sum(axis=1), -earliest)
    return list(zip(*(one.tolist() for one in columns), strict=True))


def windows(nodes: Mask, start: int, size: int) -> Iterator[list[int]]:
    """The nodes in the order of their numbers from this one on, so many at a time."""
    numbers = numbers_once(nodes).tolist()
    first = bisect_left(numbers, start) % max(len(numbers), 1)
    numbers = numbers[first:] + numbers[:first]
    return (numbers[begin : begin + size] for begin in range(0, len(numbers), size))


class WinnableClaims:
    """What can be won for a pod. own: uids of its claims, which are never won. is_on: False where nothing is."""

    def __init__(self, cluster: Cluster, own: Collection[str], *, is_on: bool) -> None:
        self._cluster = cluster
        self._own = own
        self.is_on = is_on

    def frees(self, node: str, uid: str) -> bool:
        """Whether the claim comes free on the node when nobody uses it any more."""
        return self.is_on and uid not in self._own and not self.obstacle(node, uid)

    def obstacle(self, node: str, uid: str) -> str:
        """Why the claim stays even if all its pods go from the node; empty where it comes free."""
        holding = self._cluster.claims.holding(uid)
        if holding is not None and holding.reservation is not None:
            return f"claim {holding.reservation.claim} is being written"
        if holding is None or holding.watched is None or holding.allocated is None:
            return ""
        claim = holding.allocated
        groups = [user.name for user in holding.watched.reserved_for if not user.is_of_pods]
        if groups:
            return f"claim {claim} is held by group {groups[0]}"
        if not holding.watched.reserved_for:
            return f"claim {claim} is allocated, and reserved for nobody"
        if not all(map(partial(self._is_local, node), occupying(claim))):
            return f"claim {claim} has devices that other nodes reach"
        return ""

    def kept_by(self, node: str, uid: str, gone: Collection[str], named: Callable[[Pod], str]) -> str:
        """Why the claim stays when these pods (uids) go from the node; empty where it comes free.

        named: a user that stays, in words.
        """
        if problem := self.obstacle(node, uid):
            return problem
        holding, cluster = self._cluster.claims.holding(uid), self._cluster
        if holding is None or holding.watched is None:
            return ""
        users = {one.uid for one in holding.watched.reserved_for if cluster.is_live(one.uid)}
        users |= cluster.claims.users_in_flight(uid, cluster.pods)
        staying = [pod for one in sorted(users.difference(gone)) if (pod := cluster.pods.known(one)) is not None]
        if not staying:
            return ""
        how = "is shared with" if len(users) > 1 else "is used by"
        return f"claim {holding.watched.claim} {how} {' and '.join(map(named, staying))}"

    def unused(self, node: str) -> Sequence[str]:
        """The claims (uids) on the node that hold devices although none of their users is left."""
        return self._unused.get(node, ())

    @property
    def nodes_of_unused(self) -> Collection[str]:
        """Where such claims are."""
        return self._unused.keys()

    def most_freed(self, pod: Pod) -> int:
        """So many devices come free at most when the pod goes."""
        claims = self._cluster.claims
        holdings = map(claims.holding, claims.of_pod(pod))
        return sum(len(occupying(one.counted)) for one in holdings if one is not None and one.counted is not None)

    def free_devices(self, number: int) -> int:
        """How many devices of the node nobody has; one that is given in shares counts in any case."""
        fleet, claims = self._cluster.fleet, self._cluster.claims
        devices = fleet.devices(fleet.node(number))
        return sum(1 for one in devices if one.allow_multiple_allocations or not claims.holders(one.id))

    @cached_property
    def _unused(self) -> Mapping[str, Sequence[str]]:
        """Those of a single node, by its name."""
        cluster = self._cluster
        by_node: dict[str, list[str]] = {}
        for uid, claim in cluster.claims.unused(cluster.is_live) if self.is_on else ():
            cluster.time_limit.look()
            # Pods that are about to be bound use claims that do not name them yet.
            if uid in self._own or cluster.claims.users_in_flight(uid, cluster.pods):
                continue
            nodes = self._nodes_of(claim)
            if len(nodes) == 1 and (node := nodes.pop()):
                by_node.setdefault(node, []).append(uid)
        return by_node

    def _nodes_of(self, claim: Claim) -> set[str]:
        """The nodes for which the devices are published; "" for one that is not for a single node."""
        return {self._node_of(result) for result in occupying(claim)}

    def _is_local(self, node: str, result: DeviceResult) -> bool:
        return self._node_of(result) == node

    def _node_of(self, result: DeviceResult) -> str:
        """The node for which the device is published; empty where that is not one alone, or it is not published."""
        slices = self._cluster.fleet.slices.by_pool.get(PoolID(result.driver, result.pool), ())
        newest = max((slice_.generation for slice_ in slices), default=0)
        for slice_ in slices:
            if slice_.generation == newest:
                if slice_.reach.node_name and not slice_.reach.per_device and _has(slice_.devices, result.device):
                    return slice_.reach.node_name
                if slice_.reach.per_device:
                    named = (device.reach.node_name for device in slice_.devices if device.name == result.device)
                    if name := next(named, ""):
                        return name
        return ""


def _has(devices: Iterable[Device], name: str) -> bool:
    return any(device.name == name for device in devices)


def least_devices(claims: Iterable[Claim]) -> int:
    """So many devices the claims ask for at least, but for shares, of which several may be of one device."""
    return sum(min(map(_least_devices, request.alternatives)) for claim in claims for request in claim.requests)


def _least_devices(alternative: Alternative) -> int:
    if alternative.admin_access or alternative.capacity is not None:
        return 0
    return alternative.count if alternative.mode == "ExactCount" else 1
