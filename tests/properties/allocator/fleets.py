"""What fleets say of claims that none of their nodes can have; run as a program, it prints it.

A program, since the order in which Python walks through a set of texts is drawn anew for each.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace

from allocator.bits import bits
from allocator.cluster.snapshot import Snapshot
from allocator.explain.text import OPERATOR, node_text, summary
from allocator.fleet.fleet import Fleet
from allocator.model import Allocation, Claim, Node, Slice
from allocator.outcome import AllocationError
from tests.builders import a_node, a_result, on_node
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instances import ASPECTS, CLASSES, EVERYTHING, a_random_claim, a_random_slice

NODES = 5
EACH = 8
"""Fleets about each aspect."""


class Fleets:
    """A fleet whose nodes are much alike, and claims. held: by claims of all nodes together."""

    def __init__(self, draw: Choices, aspect: str) -> None:
        aspects = frozenset({aspect}) - {"odd pools", "operations"}
        self.nodes = [a_node(f"node-{number}") for number in range(NODES)]
        kinds = [a_random_slice(draw, aspects - {"counters", "groups"}, "kind", ("a.example", "pool"), 4) for _ in "ab"]
        self.slices = [_of_node(draw.pick(kinds), node) for node in self.nodes]
        self.held = [_holding(draw, slice_) for slice_ in self.slices if slice_.devices]
        self.claim = a_random_claim(draw, aspects, "new", 5)

    def reported(self) -> Iterator[str]:
        """What the fleet says, built in one go and event by event."""
        for fleet in (Fleet(self._snapshot(self.slices), self.nodes), self._grown()):
            fleet.refresh()
            fleet.add_allocated(self.held)
            try:
                unable = list(fleet.unable_by_node([self.claim], fleet.all))
                reported = [(next(bits(mask)), mask) for _, mask in fleet.unable([self.claim], fleet.all)]
                groups = [(fleet.refusal([self.claim], first), mask) for first, mask in reported]
            except AllocationError as error:
                yield str(error)
                continue
            if groups:
                names = [self.nodes[next(bits(mask))].name for _, mask in groups]
                pairs = zip(names, groups, strict=True)
                yield summary([(name, outcome, mask.bit_count()) for name, (outcome, mask) in pairs], NODES)
            yield from (f"{mask:b} {node_text(outcome, reader=OPERATOR)}" for outcome, mask in unable)

    def _grown(self) -> Fleet:
        fleet = Fleet(self._snapshot([]))
        for number, node in enumerate(self.nodes):
            fleet.set_node(number, node)
        for slice_ in reversed(self.slices):
            fleet.add_slice(slice_)
        return fleet

    def _snapshot(self, slices: list[Slice]) -> Snapshot:
        return Snapshot.of(slices, CLASSES[0], [], EVERYTHING)


def _of_node(slice_: Slice, node: Node) -> Slice:
    devices = tuple([replace(device, pool=node.name) for device in slice_.devices])
    return replace(slice_, name=node.name, pool=node.name, reach=on_node(node.name), slice_count=1, devices=devices)


def _holding(draw: Choices, slice_: Slice) -> Claim:
    device = draw.pick(slice_.devices)
    result = a_result(device.name, driver=device.driver, pool=device.pool)
    return Claim("default", f"held-{slice_.name}", slice_.name, allocation=Allocation((result,)))


def reported() -> Iterator[str]:
    """What all fleets say, line by line."""
    for aspect in ASPECTS:
        for fleets in Values(lambda draw, about=aspect: Fleets(draw, about))(f"fleets {aspect}", EACH):  # type: ignore[misc]
            yield from fleets.reported()


if __name__ == "__main__":
    sys.stdout.write("\n".join(reported()))
