"""What it costs to place a pod on each node of a cluster: the state of the policy fill-value.

The cost of a choice has three components, in thousandths of a unit: what the node's value falls by (`fill_rollouts`),
what pods lose for which there are few places anywhere, and how much the node's pool is needed by those that can go
nowhere else (`fill_pools`). All states are remembered: a node that has not changed is not looked at again.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from allocator.policies.fill_choices import Choices, Floats, Numbers
from allocator.policies.fill_demand import FillDemand
from allocator.policies.fill_pools import FillPools
from allocator.policies.fill_rollouts import FillShape, Rollouts, Units
from allocator.policies.fill_states import NodeState, NodeStates, Step
from allocator.policies.unit_states import UnitStates

PRESSURE = 0.3
"""What the demand of those counts that can go nowhere else."""

MOST_STATES = 1 << 17
"""Of nodes; beyond, all is forgotten."""


@dataclass(frozen=True, slots=True)
class FillNode:
    """A node. units: the states of its units, in their order. cpu: in thousandths. memory: in bytes."""

    units: Units
    cpu: int
    memory: int


class FillValues:
    """The values of all nodes of a cluster, for a workload.

    nodes: the states of the units of every node if nothing is in use. largest: the most memory that a pod requests.
    """

    def __init__(
        self, states: UnitStates, shapes: Sequence[FillShape], nodes: Iterable[Units] = (), largest: int = 0
    ) -> None:
        self.units = states
        self._demand = FillDemand(states, shapes, nodes)
        self._shapes = [replace(shape, weight=self._demand.weight(shape.requests)) for shape in shapes]
        self._states = NodeStates(self._demand, Rollouts(states, self._shapes), self._shapes, largest)
        self._pools = FillPools(self._shapes)
        self._nodes: dict[int, tuple[NodeState, int]] = {}
        self._state_of: Numbers = np.zeros(0, np.int64)
        self._pool_of: Numbers = np.zeros(0, np.int64)
        self._choices: dict[Hashable, Choices] = {}

    def set_node(self, number: int, node: FillNode) -> None:
        """The node is so from now on. Cost: a value, where no node was in that state before."""
        self.remove_node(number)
        self._grow(number)
        state = self._states.of(node.units, node.cpu, node.memory)
        pool = self._pools.number(self._demand.possible(state.units))
        self._nodes[number] = state, pool
        self._state_of[number], self._pool_of[number] = state.number, pool
        self._pools.add(pool, state.slots, self._demand.left(state.units))

    def remove_node(self, number: int) -> None:
        """The node is gone, if it was there."""
        if found := self._nodes.pop(number, None):
            state, pool = found
            self._pools.subtract(pool, state.slots, self._demand.left(state.units))

    def is_full(self) -> bool:
        """Whether so many states are kept that it is better to start anew."""
        return len(self._states) > MOST_STATES

    def costs(self, key: Hashable, asked: FillShape, numbers: Numbers) -> Floats:
        """What the pod costs on each of these nodes, by its best choice; infinite where it has no room.

        key: of what the pod requests. Cost: O(different states) array operations, and a value for each new one.
        """
        states = self._state_of[numbers]
        best = self._choices_of(key, asked, len(np.unique(states))).costs(states, self._pools.scarcity())
        if not asked.requests:
            return best
        pressure = PRESSURE * self._demand.weight(asked.requests) * self._pools.load()
        found: Floats = best + pressure[self._pool_of[numbers]]
        return found

    def steps(self, key: Hashable, asked: FillShape, number: int) -> Sequence[Step]:
        """What becomes of which units of the node by the best choice; nothing where the pod has no room."""
        return self._choices_of(key, asked, 1).best(int(self._state_of[number]), self._pools.scarcity())

    def _choices_of(self, key: Hashable, asked: FillShape, states: int) -> Choices:
        """The choices of the pod; those in states that no node is in any more are forgotten from time to time."""
        known = self._choices.get(key)
        if known is None or len(known) > 2 * states + 256:
            known = self._choices[key] = Choices(self._states, asked, len(self._shapes))
        return known

    def _grow(self, number: int) -> None:
        more = number + 1 - len(self._state_of)
        if more > 0:
            more += len(self._state_of) // 2
            self._state_of, self._pool_of = np.pad(self._state_of, (0, more)), np.pad(self._pool_of, (0, more))
