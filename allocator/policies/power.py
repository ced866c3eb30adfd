"""Power: the node whose watts rise least, alone or beside another policy that looks at whole nodes.

A thing draws its full power as soon as anything is placed on it, and its idle power else: GPUs, and the sockets of the
CPUs, of which working cores fill one after the other. Two CPUs of Kubernetes are one core.
Source: the policy PWR of "Power- and Fragmentation-aware Online Scheduling for GPU Datacenters" (CCGrid 2025, arXiv
2412.17484); `PUBLISHED` has the watts of its simulator, of which those of G1 to G3 are invented.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from allocator.cluster.pools import NodeView
from allocator.model import Device
from allocator.policies.contract import Scoring
from allocator.policies.hardware import UNIT, hardware_of
from allocator.policies.whole_nodes import FreeResources, NodePolicy, PodNeeds, UnitPick, left_after, tightest


@dataclass(frozen=True, slots=True)
class Watts:
    """Of one GPU, or of one socket."""

    idle: int
    full: int


@dataclass(frozen=True, slots=True)
class CpuModel:
    """Sockets of one model."""

    watts: Watts
    cores: int
    """Of one socket."""


@dataclass(frozen=True, slots=True, eq=False)  # one object for all of a fleet: it is a part of a key
class PowerModels:
    """What hardware draws, by model."""

    gpus: Mapping[str, Watts]
    cpus: Mapping[str, CpuModel]
    """The CPUs beside GPUs of a model."""
    cpu_alone: CpuModel
    """Those of a node without GPUs."""


_ES_2682 = CpuModel(Watts(15, 120), 16)
_6326 = CpuModel(Watts(20, 185), 16)

PUBLISHED = PowerModels(
    gpus={
        "T4": Watts(10, 70),
        "A10": Watts(30, 150),
        "P100": Watts(25, 250),
        "V100M16": Watts(30, 300),
        "V100M32": Watts(30, 300),
        "A100": Watts(50, 400),
        **dict.fromkeys(("G1", "G2", "G3"), Watts(25, 250)),
    },
    cpus={
        "T4": CpuModel(Watts(20, 165), 24),
        "V100M16": _6326,
        "V100M32": _6326,
        "A100": CpuModel(Watts(20, 270), 32),
        **dict.fromkeys(("P100", "A10", "G1", "G2", "G3"), _ES_2682),
    },
    cpu_alone=CpuModel(Watts(20, 205), 26),
)
"""The defaults: 8163 beside T4, 6326 beside V100, 8369B beside A100, 8269CY alone, else ES-2682-V4."""

_ATTRIBUTES = ("model", "productName")
"""In which drivers say the model."""


@dataclass(frozen=True, slots=True)
class HardwarePower:
    """What a node draws. units: of each unit that not every node reaches. cpu: all that it has, in thousandths."""

    units: tuple[Watts, ...]
    cpu: int
    model: CpuModel

    def watts(self, cpu_left: int, units_left: Sequence[int]) -> int:
        """With so much left."""
        used = sum(one.idle if left == UNIT else one.full for one, left in zip(self.units, units_left, strict=True))
        return used + self._cpu_watts(cpu_left)

    def _cpu_watts(self, left: int) -> int:
        cores = -(-self.cpu // _CORE)
        working = cores - max(0, left) // _CORE
        sockets, active = (-(-number // self.model.cores) for number in (cores, working))
        return self.model.watts.idle * (sockets - active) + self.model.watts.full * active


_CORE = 2000
"""Thousandths of a CPU of Kubernetes."""


def node_power(view: NodeView, cpu: int, models: PowerModels = PUBLISHED) -> HardwarePower | None:
    """What the node draws; None where the model of a device is not known. Cost: O(devices)."""
    hardware = hardware_of(view)
    names: dict[object, str] = {}
    for position, units in enumerate(hardware.units):
        for unit in units:
            names.setdefault(unit, _model_of(view.devices[position]))
    own = [names.get(unit, "") for unit in hardware.local]
    if not all(name in models.gpus for name in own):
        return None
    return HardwarePower(
        tuple(models.gpus[name] for name in own), cpu, models.cpus[own[0]] if own else models.cpu_alone
    )


def _model_of(device: Device) -> str:
    for name in _ATTRIBUTES:
        _, value = device.attributes.get(name, ("", None))
        if isinstance(value, str):
            return value
    return ""


class Power(NodePolicy):
    """The smallest rise in whole watts. A node of which nothing is known rises by nothing."""

    name = "power"
    reads_names = False
    reads_holds = False
    reads_power = True

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """The rise, negative."""
        return -rise(needs, free, self.picks(needs, free))

    def picks(self, needs: PodNeeds, free: FreeResources) -> Sequence[UnitPick]:
        """A part of one device where the watts rise least, the first of equals; else the tightest."""
        asked = [request for request in needs.requests if request.count]
        if len(asked) == 1 and asked[0].count == 1:
            choices = [[UnitPick(unit, asked[0].amounts[unit])] for unit in sorted(asked[0].fitting(free.units))]
            return min(choices, key=lambda picks: rise(needs, free, picks), default=[])
        return tightest(needs, free.units)


def rise(needs: PodNeeds, free: FreeResources, picks: Sequence[UnitPick]) -> int:
    """How many watts more the node draws with the pod."""
    if free.power is None:
        return 0
    before = free.power.watts(free.cpu, free.units)
    return free.power.watts(free.cpu - needs.cpu, left_after(free.units, picks)) - before


@dataclass(frozen=True)
class RiseOf(NodePolicy):
    """The rise with the devices that another policy picks. It is one part of `WithPower`."""

    policy: NodePolicy
    name: str = "power"
    reads_holds: bool = False
    reads_names: bool = False
    reads_power: bool = True

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """The rise, negative."""
        return -rise(needs, free, self.policy.picks(needs, free))

    def picks(self, needs: PodNeeds, free: FreeResources) -> Sequence[UnitPick]:
        """Those of the other policy."""
        return self.policy.picks(needs, free)


DEFAULT_WEIGHT = 0.1
"""Of power, where none is given: most of what can be saved, at about the other policy's allocation."""


@dataclass(frozen=True)
class WithPower(NodePolicy):
    """Another policy and power, each brought to 0 to 100 between its least and greatest score, by weight.

    Nodes are compared all at once: it scores none alone. The devices are those that the other policy picks.
    """

    policy: NodePolicy
    weight: float = DEFAULT_WEIGHT
    scoring: Scoring = field(default=Scoring.BY_WEIGHT)

    @property
    def name(self) -> str:  # type: ignore[override] # of the other one
        """Of both."""
        return f"{self.policy.name}+power:{self.weight:g}"

    @property
    def weighted(self) -> Sequence[tuple[float, NodePolicy]]:
        """Each with its weight."""
        return (1 - self.weight, self.policy), (self.weight, RiseOf(self.policy))

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """That of the other policy, where a node is looked at by itself."""
        return self.policy.score_node(needs, free)

    def picks(self, needs: PodNeeds, free: FreeResources) -> Sequence[UnitPick]:
        """Those of the other policy."""
        return self.policy.picks(needs, free)
