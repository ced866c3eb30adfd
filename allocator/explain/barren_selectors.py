"""Selectors of several parts that no device of the fleet passes: what all devices have, not only those of one node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.allocate import BUDGET_STEPS
from allocator.cluster.snapshot import Snapshot, selectors_of
from allocator.explain.selector_operands import OperandAnswers, SelectorOperand, blaming
from allocator.model import Alternative, Claim, DeviceClass
from allocator.outcome import Budget
from allocator.status import DeviceState, OrderedAnswers, pool_statuses
from allocator.words import counted


@dataclass(frozen=True, slots=True)
class BarrenSelector:
    """A selector of several parts that accepts none of the devices of all nodes that come to it.

    selector: such as `selector #0 of request gpu`. operands: over these devices.
    """

    claim: str
    selector: str
    operands: tuple[SelectorOperand, ...]

    @property
    def lines(self) -> list[str]:
        """What it is, and below that its operands."""
        devices = counted(self.operands[0].devices, "device")
        operands = [f"  {line}" for line in blaming(self.operands)]
        return [f"claim {self.claim}, {self.selector}: none of {devices} passes", *operands]


class BarrenSelectors:
    """Finds them. Equal selectors after equal ones are asked once."""

    def __init__(self, snapshot: Snapshot) -> None:
        usable = [one for pool in pool_statuses(snapshot) if not pool.problem for one in pool.devices]
        devices = [one.device for one in usable if one.state is not DeviceState.UNUSABLE]
        environment = snapshot.features.environment
        self._classes = snapshot.classes
        self._in_order = OrderedAnswers(devices, environment)
        self._answers = OperandAnswers(environment, Budget(BUDGET_STEPS).charge)
        self._operands: dict[tuple[str, ...], tuple[SelectorOperand, ...]] = {}

    def of(self, claims: Sequence[Claim]) -> Iterator[BarrenSelector]:
        """Of each alternative of a request the first selector that no device passes, if it has parts.

        Cost: O(devices) for each new selector.
        """
        for claim in claims:
            for request in claim.requests:
                for alternative in request.alternatives:
                    if device_class := self._classes.get(alternative.class_name):
                        yield from self._first(str(claim), device_class, alternative)

    def _first(self, claim: str, device_class: DeviceClass, alternative: Alternative) -> Iterator[BarrenSelector]:
        chain: tuple[str, ...] = ()
        for source, position, expression in selectors_of(device_class, alternative):
            coming = self._in_order.passing(chain)
            chain = (*chain, expression)
            if self._in_order.of(chain).accepted:
                continue
            if chain not in self._operands:
                self._operands[chain] = self._answers.of(expression, coming)
            if operands := self._operands[chain]:
                yield BarrenSelector(claim, f"selector #{position} of {source}", operands)
            return
