"""Arrivals of pods as a trace for `dra simulate`: a Poisson process, exponential durations (docs/simulate.md)."""

from collections.abc import Iterable, Iterator

from scheduler.synthetic.devices import Json
from scheduler.synthetic.draw import Draw, Mix
from scheduler.synthetic.objects import pod
from scheduler.synthetic.shapes import WHOLE, PodShape

LEAST_GAP_S, MOST_GAP_S = 0.001, 1e9
"""Times have three decimals, and are floats for any number of pods."""


class InvalidLoad(ValueError):
    """A load that is not possible with the fleet, the shapes and the duration."""


def gap_s(shapes: Mix[PodShape], gpus: int, load: float, duration_s: float) -> float:
    """The mean time between arrivals at which this share of the GPUs is in use if every pod starts at once.

    Raises InvalidLoad.
    """
    requested = sum(weight * shape.milli_gpus for shape, weight in shapes.weights.items()) / shapes.total / WHOLE
    if not gpus:
        raise InvalidLoad("the fleet has no GPUs to load")
    if not requested:
        raise InvalidLoad("no shape requests GPUs")
    gap = duration_s * requested / load / gpus
    if not LEAST_GAP_S <= gap <= MOST_GAP_S:
        raise InvalidLoad(
            f"pods would arrive every {gap:g} s on average; from {LEAST_GAP_S:g} to {MOST_GAP_S:g} s is possible"
        )
    return gap


def arrivals(
    seed: int, pods: Iterable[tuple[int, PodShape]], namespace: str, mean_gap_s: float, mean_duration_s: float
) -> Iterator[Json]:
    """The lines of the trace, in the order of time. The first pod of a shape is whole, others refer to it (`like`)."""
    gaps, durations = Draw(seed, "arrivals"), Draw(seed, "durations")
    first: dict[PodShape, str] = {}
    now = 0.0
    for number, shape in pods:
        now += mean_gap_s * gaps.exponential()
        one = pod(number, shape, namespace)
        name = one["metadata"]["name"]
        like = first.setdefault(shape, name)
        what = {"pod": one} if like == name else {"like": f"{namespace}/{like}", "name": name}
        yield {"time": round(now, 3), **what, "duration": round(mean_duration_s * durations.exponential(), 3)}
