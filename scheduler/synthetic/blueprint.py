"""What to generate, and the generated objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from allocator.did_you_mean import did_you_mean
from scheduler.synthetic import objects
from scheduler.synthetic.arrivals import arrivals, gap_s
from scheduler.synthetic.catalogue import shapes
from scheduler.synthetic.devices import Host, Json
from scheduler.synthetic.draw import Mix
from scheduler.synthetic.machines import MACHINES, Machine
from scheduler.synthetic.presets import Preset, Weights
from scheduler.synthetic.shapes import PodShape

T = TypeVar("T")


class InvalidMix(ValueError):
    """Weights with an unknown name, or of which nothing remains."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A fleet and a workload.

    nodes: of the machines, with so many devices of each kind. pods: of the shapes. own_claims: each pod has a claim of
    its own in place of its shape's template.
    """

    seed: int
    machines: Mix[Machine]
    nodes: int
    devices: int
    shapes: Mix[PodShape]
    pods: int
    namespace: str
    own_claims: bool = False

    def objects(self) -> Iterator[Json]:
        """The fleet if it has nodes, then the workload if it has pods."""
        if self.nodes:
            yield from self.fleet()
        if self.pods:
            yield from self.workload()

    def fleet(self) -> Iterator[Json]:
        """The classes, then the nodes, each with its slices."""
        yield from objects.classes(self.machines, self.shapes)
        for number, (machine, host) in enumerate(self._hosts()):
            yield objects.node(number, machine, host)
            yield from objects.slices(machine, host)

    def workload(self) -> Iterator[Json]:
        """The templates, then the pods; or each pod after its own claim."""
        if not self.own_claims:
            yield from self.templates()
        for number, shape in self._pod_shapes():
            if self.own_claims and shape.requests:
                yield objects.claim(number, shape, self.namespace)
            yield objects.pod(number, shape, self.namespace, owns_claim=self.own_claims)

    def templates(self) -> Iterator[Json]:
        """The claim templates of the shapes."""
        return objects.templates(self.shapes, self.namespace)

    def trace(self, load: float, duration_s: float) -> Iterator[Json]:
        """The arrivals of the pods, which use the templates. duration_s: for how long they run on average.

        load: the share of the fleet's GPUs that they request on average. Raises InvalidLoad.
        """
        nodes = sum(bool(machine.drivers) for machine, _ in self._hosts())
        mean_gap_s = gap_s(self.shapes, nodes * self.devices, load, duration_s)
        return arrivals(self.seed, self._pod_shapes(), self.namespace, mean_gap_s, duration_s)

    def _hosts(self) -> Iterator[tuple[Machine, Host]]:
        return objects.hosts(self.seed, self.machines, self.nodes, self.devices)

    def _pod_shapes(self) -> Iterator[tuple[int, PodShape]]:
        return objects.pod_shapes(self.seed, self.shapes, self.pods)


def machines_of(preset: Preset, weights: Weights) -> Mix[Machine]:
    """The machines of the preset, or of the weights by name where there are any. Raises InvalidMix."""
    return _mix("machine", MACHINES, weights or preset.machines)


def shapes_of(preset: Preset, weights: Weights, devices: int) -> Mix[PodShape]:
    """The shapes likewise, for nodes with so many devices; of a preset those that such nodes can hold."""
    known = shapes(devices)
    chosen = weights or {name: weight for name, weight in preset.shapes.items() if name in known}
    return _mix("shape", known, chosen, f" for nodes with {devices} device{'' if devices == 1 else 's'}")


def _mix(kind: str, known: Mapping[str, T], weights: Weights, where: str = "") -> Mix[T]:
    for name in weights:
        if name not in known:
            raise InvalidMix(f"{name!r}: no such {kind}{where}{did_you_mean(name, known)}")
    if not any(weights.values()):
        raise InvalidMix(f"no {kind} has a weight above 0")
    return Mix({known[name]: weight for name, weight in weights.items() if weight})
