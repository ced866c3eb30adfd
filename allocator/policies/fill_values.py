"""What it costs to place a pod on each node of a cluster: the state of the policy fill-value.

The cost of a choice has three components, in units of `PRICE` to a thousandth: what sequences of pods fill less of the
node (`fill_rollouts`), what pods lose for which there are few places anywhere, and how much the node's pool is needed
by those that can go nowhere else (`fill_pools`).

Most nodes cost far more than the best one. So each has a lower bound of its cost, and those are worked out whose bound
is not above the best cost, the lowest first. The bound of a node that has changed is what its sequences fill, less what
they could fill of all that is left once the pod is there; of another one what its best choice lost before, with its
scarcity of that time, times the least that any scarcity has changed by since.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from allocator.policies.fill_amounts import FillAmounts
from allocator.policies.fill_choices import NodeChoices, NodeState, NodeTakes, Step, choices_on
from allocator.policies.fill_demand import set_prices
from allocator.policies.fill_pools import FillPools
from allocator.policies.fill_rollouts import SEQUENCES, FillShape, Rollouts, Units
from allocator.policies.fill_slots import Array, FillSlots, Numbers
from allocator.policies.unit_states import UnitStates

PRESSURE = 0.3
"""What the demand of those counts that can go nowhere else."""

MOST_UNITS = 1 << 15
"""Sets of units; beyond, it is better to start anew."""

MOST_CHOICES = 1 << 8
"""States of nodes for which the choices of one pod are kept."""

FIRST = 4
GROWTH = 8
"""How many nodes are worked out together at first, and how many times as many from then on."""

UNKNOWN = -np.inf

ROUNDING = 1e-3
"""More than costs and bounds differ by because they are not exact."""


NO_NODES: Mapping[Units, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FillNode:
    """A node. units: the states of its units, in their order. cpu: in thousandths. memory: in MiB."""

    units: Units
    cpu: int
    memory: int


@dataclass(frozen=True, slots=True, eq=False)
class _FleetDemand:
    """What the fleet's demand adds to costs. scarcity: of a place of each shape. load: of each pool."""

    scarcity: Array
    load: Array


@dataclass(slots=True, eq=False)
class _AlikeNodes:
    """Nodes in one state. rooms: for pods of each shape. nodes: how many there are."""

    state: NodeState
    pool: int
    rooms: Array
    nodes: int = 0


class PodCosts:
    """What is known of the costs of pods that ask for the same.

    kinds_of: the kind of each of these nodes, for `takes_of`. cpu, memory: as for `FillNode`.
    """

    def __init__(
        self, cpu: int, memory: int, kinds_of: Callable[[Numbers], Numbers], takes_of: Callable[[int], NodeTakes]
    ) -> None:
        self.needs = cpu, memory
        self.kinds_of = kinds_of
        self.takes_of = takes_of
        self.choices: dict[tuple[int, int], NodeChoices] = {}
        self.scarcity: Array = np.zeros(0)
        self.lost: Array = np.zeros(0)
        self.scarce: Array = np.zeros(0)
        self.at = 0

    def grow(self, size: int) -> None:
        """There are numbers of nodes up to this."""
        more = size - len(self.lost)
        if more > 0:
            self.lost = np.pad(self.lost, (0, more), constant_values=UNKNOWN)
            self.scarce = np.pad(self.scarce, (0, more))


class FillValues:
    """The values of all nodes of a cluster, for a workload.

    nodes: how many have units in these states if nothing is in use.
    """

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape], nodes: Mapping[Units, int] = NO_NODES) -> None:
        self.units = states
        weights = set_prices(states, shapes, nodes)
        self._shapes = shapes
        self._amounts = FillAmounts(states, Rollouts(states, shapes))
        self._slots = FillSlots(states, shapes)
        self._pools = FillPools(shapes, weights)
        self._pool_of_kinds: dict[object, int] = {}
        self._alike: dict[FillNode, _AlikeNodes] = {}
        self._nodes: dict[int, NodeState] = {}
        self._numbered = 0
        self._now = 0
        self._demand: _FleetDemand | None = None
        self._state_of: Numbers = np.zeros(0, np.int64)
        self._pool_of: Numbers = np.zeros(0, np.int64)
        self._changed: Numbers = np.zeros(0, np.int64)
        self._filled: Array = np.zeros(0)
        self._worth: Array = np.zeros(0)
        self._totals: Array = np.zeros((0, SEQUENCES))
        self._rooms: Array = np.zeros((0, len(shapes)))

    # -- the nodes

    def set_node(self, number: int, node: FillNode) -> None:
        """The node is so from now on. Cost: a rollout of each sequence, where no node was like that before."""
        known = self._nodes.get(number)
        if known is not None and (known.units, known.cpu, known.memory) == (node.units, node.cpu, node.memory):
            return
        self.remove_node(number)
        self._grow(number)
        alike = self._alike_of(node)
        alike.nodes += 1
        state = self._nodes[number] = alike.state
        self._state_of[number], self._pool_of[number] = state.number, alike.pool
        self._filled[number], self._worth[number] = state.filled, self._amounts.worth[state.of_units]
        self._totals[number] = self._amounts.totals[state.of_units]
        self._rooms[number] = alike.rooms
        self._pools.add(alike.pool, alike.rooms, state.left)
        self._change(number)

    def remove_node(self, number: int) -> None:
        """The node is gone, if it was there."""
        state = self._nodes.pop(number, None)
        if state is not None:
            node = FillNode(state.units, state.cpu, state.memory)
            alike = self._alike[node]
            self._pools.subtract(alike.pool, alike.rooms, state.left)
            alike.nodes -= 1
            if not alike.nodes:
                del self._alike[node]
            self._change(number)

    def units_of(self, number: int) -> Units:
        """The states of the node's units. Raises KeyError."""
        return self._nodes[number].units

    def is_full(self) -> bool:
        """Whether so much is kept that it is better to start anew."""
        return len(self._amounts.units) > MOST_UNITS

    @property
    def rolled_out(self) -> int:
        """How often sequences were placed."""
        return self._amounts.rolled_out

    def _change(self, number: int) -> None:
        self._now += 1
        self._changed[number] = self._now
        self._demand = None

    def _alike_of(self, node: FillNode) -> "_AlikeNodes":
        known = self._alike.get(node)
        if known is None:
            state = self._state(node)
            self._slots.add(self._amounts.units)
            rooms = self._slots.of([state.of_units], [node.cpu], [node.memory])[0]
            known = self._alike[node] = _AlikeNodes(state, self._pool(node.units), rooms)
        return known

    def _state(self, node: FillNode) -> NodeState:
        units = self._amounts.number(node.units)
        filled = self._amounts.of(units, node.cpu, node.memory)
        left = sum(self.units.worth[unit] for unit in node.units)
        self._numbered += 1
        return NodeState(self._numbered, node.units, node.cpu, node.memory, units, left, filled)

    def _pool(self, units: Units) -> int:
        """The pool of nodes with units of these kinds: by which shapes they can serve if nothing is in use."""
        kinds = frozenset(self.units.kind_of[unit] for unit in units)
        known = self._pool_of_kinds.get(kinds)
        if known is None:
            served = {number for kind in kinds for number, takes in enumerate(kind.takes) if takes.cells}
            possible = sum(
                1 << number
                for number, shape in enumerate(self._shapes)
                if shape.requests and all(request in served for request, _ in shape.requests)
            )
            known = self._pool_of_kinds[kinds] = self._pools.number(possible)
        return known

    def _grow(self, number: int) -> None:
        more = number + 1 - len(self._state_of)
        if more > 0:
            more += len(self._state_of) // 2
            self._state_of, self._pool_of = np.pad(self._state_of, (0, more)), np.pad(self._pool_of, (0, more))
            self._changed, self._worth = np.pad(self._changed, (0, more)), np.pad(self._worth, (0, more))
            self._filled = np.pad(self._filled, (0, more))
            self._totals, self._rooms = (np.pad(one, ((0, more), (0, 0))) for one in (self._totals, self._rooms))

    # -- the costs

    def costs(self, pod: PodCosts, numbers: Numbers) -> Array:
        """What the pod costs on each of these nodes by its best choice; infinite where it has no room.

        Of nodes that cost more than the best ones a lower bound, which is more as well.
        Cost: O(nodes) array operations; for each state of nodes with a bound below the best O(choices times shapes).
        """
        demand = self._catch_up(pod)
        kinds = pod.kinds_of(numbers)
        costs = self._bounds(pod, demand, numbers, kinds)
        codes = (self._state_of[numbers] << 20) + kinds
        is_exact = np.zeros(len(numbers), np.bool_)
        best, at_once = np.inf, FIRST
        while True:
            open_ = np.flatnonzero((costs <= best + ROUNDING) & ~is_exact)
            if not len(open_):
                return costs
            first = open_[np.argpartition(costs[open_], at_once - 1)[:at_once]] if len(open_) > at_once else open_
            different, places = np.unique(codes[first], return_index=True)
            found = self._worked_out(pod, demand, numbers[first[places]], kinds[first[places]])
            own = np.searchsorted(different, codes[open_]) % len(different)
            same = different[own] == codes[open_]
            alike, own = open_[same], own[same]
            costs[alike], is_exact[alike] = found[0][own], True
            pod.lost[numbers[alike]], pod.scarce[numbers[alike]] = found[1][own], found[2][own]
            best, at_once = min(best, float(found[0].min())), GROWTH * at_once

    def steps(self, pod: PodCosts, number: int) -> Sequence[Step]:
        """What becomes of which units of the node by the best choice; nothing where the pod has no room."""
        demand, numbers = self._catch_up(pod), np.array([number])
        kind = int(pod.kinds_of(numbers)[0])
        choices = self._choices(pod, number, kind)
        if not choices.steps:
            return ()
        costs, _ = self._of_choices(pod, demand, numbers, [choices])
        return choices.steps[int(np.argmin(costs))]

    def _catch_up(self, pod: PodCosts) -> _FleetDemand:
        """Nothing is known of nodes that have changed."""
        demand = self._demand
        if demand is None:
            demand = self._demand = _FleetDemand(self._pools.scarcity(), self._pools.load())
        pod.grow(len(self._changed))
        if pod.at != self._now:
            changed = np.flatnonzero(self._changed > pod.at)
            pod.lost[changed], pod.scarce[changed] = UNKNOWN, 0.0
            pod.at = self._now
        if len(pod.choices) > MOST_CHOICES:
            pod.choices.clear()
        pod.scarce *= _least_ratio(pod.scarcity, demand.scarcity)
        pod.scarcity = demand.scarcity
        return demand

    def _bounds(self, pod: PodCosts, demand: _FleetDemand, numbers: Numbers, kinds: Numbers) -> Array:
        least = np.array([pod.takes_of(kind).least for kind in range(int(kinds.max(initial=-1)) + 1)])[kinds]
        unknown = np.flatnonzero(pod.lost[numbers] == UNKNOWN)
        pod.lost[numbers[unknown]] = self._least_lost(numbers[unknown], least[unknown])
        found: Array = pod.lost[numbers] + pod.scarce[numbers]
        found += PRESSURE * demand.load[self._pool_of[numbers]] * least
        return found

    def _least_lost(self, numbers: Numbers, taken: Numbers) -> Array:
        """What sequences fill less of nodes of which that is taken, if they fill what they can."""
        most = np.minimum(self._totals[numbers], (self._worth[numbers] - taken)[:, None]).sum(axis=1)
        found: Array = (self._filled[numbers] - most) / SEQUENCES
        return found

    def _choices(self, pod: PodCosts, number: int, kind: int) -> NodeChoices:
        state = self._nodes[number]
        known = pod.choices.get((state.number, kind))
        if known is None:
            known = choices_on(self._amounts, self.units, state, pod.takes_of(kind), pod.needs)
            pod.choices[state.number, kind] = known
        return known

    def _worked_out(self, pod: PodCosts, demand: _FleetDemand, numbers: Numbers, kinds: Numbers) -> Array:
        """In rows: the cost of the best choice on each node, and the least lost and scarce of all choices there."""
        choices = [self._choices(pod, *one) for one in zip(numbers.tolist(), kinds.tolist(), strict=True)]
        able = [place for place, one in enumerate(choices) if one.steps]
        found = np.full((3, len(choices)), np.inf)
        found[2] = 0.0
        if able:
            own = [choices[place] for place in able]
            starts = np.cumsum([0, *[len(one.steps) for one in own[:-1]]])
            costs, scarce = self._of_choices(pod, demand, numbers[able], own)
            lost = np.array([lost for one in own for lost in one.lost]) / SEQUENCES
            for row, values in enumerate((costs, lost, scarce)):
                found[row, able] = np.minimum.reduceat(values, starts)
        return found

    def _of_choices(
        self, pod: PodCosts, demand: _FleetDemand, numbers: Numbers, choices: Sequence[NodeChoices]
    ) -> tuple[Array, Array]:
        """The cost of each choice, and its scarcity at the time of which that is known for the pod."""
        self._slots.add(self._amounts.units)
        lengths = [len(one.steps) for one in choices]
        units = [units for one in choices for units in one.units]
        cpu = [one.cpu for one in choices for _ in one.units]
        memory = [one.memory for one in choices for _ in one.units]
        fewer = np.repeat(self._rooms[numbers], lengths, axis=0) - self._slots.of(units, cpu, memory)
        np.maximum(fewer, 0.0, out=fewer)  # partitions left may be cut into more, as each is cut where room is left
        lost = np.array([lost for one in choices for lost in one.lost]) / SEQUENCES
        taken = np.array([taken for one in choices for taken in one.taken], np.float64)
        load = np.repeat(demand.load[self._pool_of[numbers]], lengths)
        return lost + fewer @ demand.scarcity + PRESSURE * load * taken, fewer @ pod.scarcity


def _least_ratio(before: Array, now: Array) -> float:
    """How many times what it counted before each counts now, at least; 0 where nothing was known."""
    if not len(before):
        return 0.0
    some = before > 0
    return float((now[some] / before[some]).min()) if some.any() else 1.0
