"""Fragmentation gradient descent: the node where a pod makes the least that the workload cannot use.

What is left of a node is a fragment for a shape of pods that cannot go there; where it can, what is left of units that
are too small for it. The fragment of a node is the mean over the shapes of the workload by their share. Scores are
whole numbers, so that many nodes are equal and the first is taken: the sums are those of the source to the last bit.
Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC
2023).
"""

from collections.abc import Hashable, Sequence
from enum import Enum
from functools import reduce
from math import exp
from operator import add

from allocator.memo import Topic
from allocator.policies.whole_nodes import (
    UNIT,
    NodePolicy,
    NodeRoom,
    PodNeeds,
    Shape,
    Shapes,
    UnitPick,
    left_after,
    tightest,
)

MOST_KEPT = 1 << 16
"""Rooms whose fragments are remembered for one kind of node."""

_FRAGMENT: Topic[float] = Topic("fragment")
_STEEPEST = 700.0
"""Beyond, the sigmoid is 0 or 1 in 64 bits."""


class _Lack(Enum):
    """Why a shape cannot use what is left, in the order of the sum."""

    BOTH = "cpu and devices"
    DEVICES = "devices"
    CPU = "cpu"
    NONE_ASKED = "no device asked for"
    NONE_ASKED_AND_CPU = "no device asked for, and cpu"
    KIND = "devices of this kind"


def fragment(room: NodeRoom) -> float:
    """What is left of the node's units that the workload cannot use, in thousandths. Cost: O(shapes times units)."""
    return _fragment(room.shapes, room.cpu, room.units)


class FGD(NodePolicy):
    """The smallest growth of the fragment; a request for a part of one device tries every unit."""

    name = "fgd"

    def score_node(self, needs: PodNeeds, room: NodeRoom) -> float:
        """From 0 to 100: 50 where the fragment stays as it is."""
        return max((_score(needs, room, picks) for picks in _choices(needs, room)), default=0)

    def picks(self, needs: PodNeeds, room: NodeRoom) -> Sequence[UnitPick]:
        """The unit with the best score, the first of equals, for a part of one device; else the tightest."""
        choices = _choices(needs, room)
        return max(choices, key=lambda picks: _score(needs, room, picks)) if choices else ()


def _choices(needs: PodNeeds, room: NodeRoom) -> list[Sequence[UnitPick]]:
    if needs.devices != 1:
        return [tightest(needs, room.units)]
    request = next(request for request in needs.requests if request.count)
    units = sorted(request.fitting(room.units))
    if not any(request.amounts[unit] < UNIT for unit in units):
        return [tightest(needs, room.units)] if units else []
    return [(UnitPick(unit, request.amounts[unit]),) for unit in units]


def _score(needs: PodNeeds, room: NodeRoom, picks: Sequence[UnitPick]) -> int:
    after = _fragment(room.shapes, room.cpu - needs.cpu, left_after(room.units, picks))
    grown = (after - _fragment(room.shapes, room.cpu, room.units)) / UNIT
    return int(100 / (1 + exp(min(grown, _STEEPEST))))


def _fragment(shapes: Shapes, cpu: int, units: tuple[int, ...]) -> float:
    key: tuple[Topic[float], Hashable] = (_FRAGMENT, (cpu, units))
    shapes.memo.age(MOST_KEPT)
    return shapes.memo.remember(key, lambda: _work_out(shapes.typical, cpu, units))


def _work_out(typical: Sequence[Shape], cpu: int, units: Sequence[int]) -> float:
    left = sum(units)
    sums = dict.fromkeys(_Lack, 0.0)
    for shape in typical:
        lack, amount = _lack(shape, cpu, units, left)
        sums[lack] += amount * shape.share
    return reduce(add, sums.values())  # not `sum`, which rounds differently from Python 3.12 on


def _lack(shape: Shape, cpu: int, units: Sequence[int], left: int) -> tuple[_Lack, int]:
    has_cpu = cpu >= shape.cpu
    if not shape.requests:
        return (_Lack.NONE_ASKED if has_cpu else _Lack.NONE_ASKED_AND_CPU), left
    if not all(request.is_possible for request in shape.requests):
        return _Lack.KIND, left
    used = 0
    for request in shape.requests:
        fitting = [units[unit] for unit, amount in enumerate(request.amounts) if 0 < amount <= units[unit]]
        if len(fitting) < request.count:
            return (_Lack.DEVICES if has_cpu else _Lack.BOTH), left
        used = max(used, sum(fitting))
    return (_Lack.DEVICES, left - used) if has_cpu else (_Lack.CPU, left)
