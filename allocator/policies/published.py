"""Policies that were published for whole nodes: fgd, best-fit, dot-product, gpu-packing, gpu-clustering and random."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from hashlib import blake2b
from itertools import accumulate
from math import exp
from operator import add

from allocator.memo import Topic
from allocator.policies.hardware import UNIT
from allocator.policies.whole_nodes import (
    FreeResources,
    NodePolicy,
    PodNeeds,
    Shape,
    Shapes,
    UnitPick,
    left_after,
    tightest,
)

# GPU packing: used devices first, then idle devices of used nodes, then idle nodes.
#
# Source: the policy GpuPacking of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).


class GpuPacking(NodePolicy):
    """The tightest of the used devices; of the nodes where idle ones are needed, the one that has the fewest."""

    name = "gpu-packing"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """50 to 100 without idle devices, 33 to 49 with some on a used node, less on an idle one, 0 without devices."""
        if not needs.devices:
            return 0
        units = [pick.unit for pick in self.picks(needs, free)]
        idle = free.units.count(UNIT)
        opened = sum(free.units[unit] == UNIT for unit in units)
        if not opened:
            return max(100 - sum(free.units[unit] // 10 for unit in units) // 10, 50)
        return max(33 - idle, idle) if idle == len(free.units) else max(50 - opened, 33)


# Best fit: the node that is left with the least cpu and devices.
#
# Source: the policy BestFit of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).


LARGEST_CPU = 128_000
LARGEST_DEVICES = 8_000
"""What counts as a whole node: 128 cores and 8 devices, in thousandths."""


class BestFit(NodePolicy):
    """The least left: the mean of the shares of cpu and of devices, in whole percent."""

    name = "best-fit"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """100 less the percentage that is left."""
        devices = sum(left_after(free.units, self.picks(needs, free)))
        return int((1 - (0.5 * (free.cpu - needs.cpu) / LARGEST_CPU + 0.5 * devices / LARGEST_DEVICES)) * 100)


# Dot product: the node whose free resources point least where the pod's request does.
#
# Source: the policy DotProd of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).


class DotProduct(NodePolicy):
    """The smallest product of what is left and what is requested, of cpu and of devices, in whole percent."""

    name = "dot-product"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """100 less the product."""
        taken = sum(pick.amount for pick in self.picks(needs, free))
        cpu = free.cpu * needs.cpu / LARGEST_CPU**2
        return int(100 * (1 - (cpu + sum(free.units) * taken / LARGEST_DEVICES**2) / 2))


# Fragmentation gradient descent: the node where a pod makes the least that the workload cannot use.
#
# What is left of a node is a fragment for a shape of pods that cannot go there; where it can, what is left of units
# that are too small for it. The fragment of a node is the mean over the shapes of the workload by their share. Scores
# are whole numbers, so that many nodes are equal and the first is taken: the sums are those of the source to the last
# bit. Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX
# ATC 2023).


MOST_KEPT = 1 << 16
"""Free resources whose fragments are remembered for one kind of node."""

_FRAGMENT: Topic[float] = Topic("fragment")
_ALIKE: Topic["Sequence[_OfAlike] | None"] = Topic("shapes on units that are alike")
_BY_LACK: Topic[Mapping[str, float]] = Topic("fragment by what is lacking")
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


def fragment(free: FreeResources) -> float:
    """What is left of the node's units that the workload cannot use, in thousandths. Cost: O(shapes times units)."""
    free.shapes.memo.age(MOST_KEPT)
    return _fragment(free.shapes, free.cpu, free.units)


def fragment_by_cause(free: FreeResources) -> Mapping[str, float]:
    """The same by what shapes lack to use what is left, one object for equal resources. Cost: O(shapes times units)."""
    by_size = tuple(sorted(free.units)) if _alike(free.shapes) is not None else free.units
    free.shapes.memo.age(MOST_KEPT)
    return free.shapes.memo.remember(
        (_BY_LACK, (free.cpu, by_size)),
        lambda: {lack.value: amount for lack, amount in _by_lack(free.shapes.typical, free.cpu, by_size).items()},
    )


class FGD(NodePolicy):
    """The smallest growth of the fragment; a request for a part of one device tries every unit."""

    name = "fgd"
    reads_names = False
    reads_holds = False

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """From 0 to 100: 50 where the fragment stays as it is."""
        free.shapes.memo.age(MOST_KEPT)
        before = _fragment(free.shapes, free.cpu, free.units)
        return max((_score(needs, free, picks, before) for picks in _choices(needs, free)), default=0)

    def picks(self, needs: PodNeeds, free: FreeResources) -> Sequence[UnitPick]:
        """The unit with the best score, the first of equals, for a part of one device; else the tightest."""
        before = _fragment(free.shapes, free.cpu, free.units)
        choices = _choices(needs, free)
        return max(choices, key=lambda picks: _score(needs, free, picks, before)) if choices else ()


def _choices(needs: PodNeeds, free: FreeResources) -> list[Sequence[UnitPick]]:
    if needs.devices != 1:
        return [tightest(needs, free.units)]
    request = next(request for request in needs.requests if request.count)
    units = sorted(request.fitting(free.units))
    if not any(request.amounts[unit] < UNIT for unit in units):
        return [tightest(needs, free.units)] if units else []
    if _alike(free.shapes) is not None:  # as much left, as good
        units = list({(free.units[unit], request.amounts[unit]): unit for unit in reversed(units)}.values())[::-1]
    return [(UnitPick(unit, request.amounts[unit]),) for unit in sorted(units)]


def _score(needs: PodNeeds, free: FreeResources, picks: Sequence[UnitPick], before: float) -> int:
    after = _fragment(free.shapes, free.cpu - needs.cpu, left_after(free.units, picks))
    grown = (after - before) / UNIT
    return int(100 / (1 + exp(min(grown, _STEEPEST))))


def _fragment(shapes: Shapes, cpu: int, units: tuple[int, ...]) -> float:
    alike = _alike(shapes)
    if alike is None:
        return shapes.memo.remember((_FRAGMENT, (cpu, units)), lambda: _work_out(shapes.typical, cpu, units))
    by_size = tuple(sorted(units))
    return shapes.memo.remember((_FRAGMENT, (cpu, by_size)), lambda: _work_out_alike(alike, cpu, by_size))


@dataclass(frozen=True, slots=True)
class _OfAlike:
    """A shape where all units are alike. amount: of each device; 0: the hardware cannot; None: no device asked for."""

    cpu: int
    amount: int | None
    count: int
    share: float


def _alike(shapes: Shapes) -> Sequence[_OfAlike] | None:
    """The shapes, where each has one request at most, which takes the same of every unit; else None."""
    return shapes.memo.remember(_ALIKE, lambda: _work_out_whether_alike(shapes.typical))


def _work_out_whether_alike(typical: Sequence[Shape]) -> Sequence[_OfAlike] | None:
    alike: list[_OfAlike] = []
    for shape in typical:
        amounts = {amount for request in shape.requests for amount in request.amounts} or {0}
        if len(shape.requests) > 1 or len(amounts) > 1:
            return None
        amount = amounts.pop() if shape.requests else None
        alike.append(_OfAlike(shape.cpu, amount, sum(one.count for one in shape.requests), shape.share))
    return alike


def _work_out_alike(shapes: Sequence[_OfAlike], cpu: int, units: Sequence[int]) -> float:
    """As `_work_out`, in a tenth of the time. units: what is left of each, the least first."""
    smaller = [0, *accumulate(units)]
    left = smaller[-1]
    both = devices = cpu_alone = none_asked = none_asked_and_cpu = kind = 0.0
    for shape in shapes:
        has_cpu = cpu >= shape.cpu
        if shape.amount is None:
            if has_cpu:
                none_asked += left * shape.share
            else:
                none_asked_and_cpu += left * shape.share
        elif not shape.amount:
            kind += left * shape.share
        elif len(units) - (too_small := bisect_left(units, shape.amount)) < shape.count:
            if has_cpu:
                devices += left * shape.share
            else:
                both += left * shape.share
        elif has_cpu:
            devices += smaller[too_small] * shape.share
        else:
            cpu_alone += left * shape.share
    return both + devices + cpu_alone + none_asked + none_asked_and_cpu + kind


def _work_out(typical: Sequence[Shape], cpu: int, units: Sequence[int]) -> float:
    sums = _by_lack(typical, cpu, units)
    return reduce(add, sums.values())  # not `sum`, which rounds differently from Python 3.12 on


def _by_lack(typical: Sequence[Shape], cpu: int, units: Sequence[int]) -> dict[_Lack, float]:
    left = sum(units)
    sums = dict.fromkeys(_Lack, 0.0)
    for shape in typical:
        lack, amount = _lack(shape, cpu, units, left)
        sums[lack] += amount * shape.share
    return sums


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


# Random: any node that has room, for comparison. The same seed gives the same answers on every machine.


class Random(NodePolicy):
    """A number for each pod and node, from the seed. Cost: O(nodes) hashes for each decision."""

    name = "random"
    remembers = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """From 0 to 2**53."""
        text = f"{self.seed}/{needs.name}/{free.name}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 11


# GPU clustering: nodes that hold claims of the same size, a part of a device or so many devices.
#
# Source: the policy GpuClustering of the simulator of "Beware of Fragmentation" (USENIX ATC 2023).


ALONE, AMONG_OTHERS, EMPTY, OTHERS = 75, 50, 25, 0
"""What the claims of a node are worth to a pod: its own size alone, beside others, none at all, only others."""


class GpuClustering(NodePolicy):
    """Its own size first, then empty nodes; of equals the fullest, in steps of a twenty-fifth."""

    name = "gpu-clustering"
    reads_names = False

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """From 0 to 100; 0 without devices."""
        if not needs.devices:
            return 0
        full = 25 * (LARGEST_DEVICES - sum(free.units)) // LARGEST_DEVICES
        if not free.holds:
            return EMPTY + full
        if self._size(needs, free) not in free.holds:
            return OTHERS + full
        return (ALONE if len(free.holds) == 1 else AMONG_OTHERS) + full

    def _size(self, needs: PodNeeds, free: FreeResources) -> int:
        is_part = needs.devices == 1 and all(pick.amount < UNIT for pick in self.picks(needs, free))
        return 0 if is_part else needs.devices
