"""The result of a simulation as one JSON document. docs/simulate.md describes each field; fields are only added.

The names in the document are those of the fields here in camelCase. Everything but `measured` is the same on every
machine for the same input. Shares are percents of the fleet's capacity in units: a unit is a device, or a counter set
that devices are cut from (`allocator.policies.hardware`), of those that not every node reaches.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

_CONFIG = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", ser_json_inf_nan="constants")


@dataclass(frozen=True, config=_CONFIG)
class FleetSize:
    """The fleet at the start. units: capacity, in units. nodes: that have any unit, or none. pods: that it holds."""

    nodes: int
    units: int
    pods: int


@dataclass(frozen=True, config=_CONFIG)
class Series:
    """Points in their order; every column has as many values as there are points.

    time_s: virtual. arrivals: pods that have arrived, refused ones among them. arrived_percent: what they ask for.
    fragmentation_percent: what is left and the workload cannot use, of the capacity; fragmentation_ratio: of what is
    left; causes: of the capacity, by why not. waiting, running: pods. largest_block: most of the units that are idle on
    one node. whole_units, whole_nodes: of which nothing is in use; nodes without units do not count. evictions: until
    then.
    """

    time_s: tuple[float, ...] = ()
    arrivals: tuple[float, ...] = ()
    arrived_percent: tuple[float, ...] = ()
    allocated_percent: tuple[float, ...] = ()
    unallocated_percent: tuple[float, ...] = ()
    fragmentation_percent: tuple[float, ...] = ()
    fragmentation_ratio: tuple[float, ...] = ()
    causes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    waiting: tuple[float, ...] = ()
    running: tuple[float, ...] = ()
    largest_block: tuple[float, ...] = ()
    whole_units: tuple[float, ...] = ()
    whole_nodes: tuple[float, ...] = ()
    evictions: tuple[float, ...] = ()


@dataclass(frozen=True, config=_CONFIG)
class Distribution:
    """Of so many values. All are 0 where there is none."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0


@dataclass(frozen=True, config=_CONFIG)
class ShapeSummary:
    """Pods that request the same devices. shape: these devices, in words. placed: those that got a node."""

    shape: str
    arrivals: int
    placed: int
    acceptance_percent: float
    waiting_s: Distribution


@dataclass(frozen=True, config=_CONFIG)
class AlignmentSummary:
    """Claims with several devices, which all have an attribute. aligned: those whose devices all have one value."""

    claims: int
    aligned: int
    aligned_percent: float


@dataclass(frozen=True, config=_CONFIG)
class Summary:
    """A scenario as a whole; arrivals = ended + running + waiting + refused + failed + withdrawn.

    placed: pods that got a node, whatever came later. ended: those that have left it. waiting: at the end. refused:
    given up after one refusal, without retries. failed: never decided, such as for a template that is missing.
    withdrawn: deleted while they waited. mean_allocated_percent, mean_fragmentation_percent: over the time from the
    first event to the last arrival, or to the last event if all pods arrive with the first one. waiting_s: from arrival
    to the first node, of those that got one. decisions: attempts. refusals: how many of these for each reason.
    alignment: by topology attribute, such as resource.kubernetes.io/numaNode. end_s: the time of the last event.
    preempted: the evictions for a pod of higher priority. lost_s: how long all evicted pods had run, from the first
    event on.
    """

    arrivals: int
    placed: int
    ended: int
    running: int
    waiting: int
    refused: int
    failed: int
    withdrawn: int
    acceptance_percent: float
    allocated_percent: float
    mean_allocated_percent: float
    peak_allocated_percent: float
    fragmentation_percent: float
    fragmentation_ratio: float
    mean_fragmentation_percent: float
    causes: Mapping[str, float]
    largest_block: float
    whole_units: int
    whole_nodes: int
    evictions: int
    decisions: int
    refusals: Mapping[str, int]
    waiting_s: Distribution
    shapes: tuple[ShapeSummary, ...]
    alignment: Mapping[str, AlignmentSummary]
    end_s: float
    preempted: int = 0
    lost_s: float = 0.0


@dataclass(frozen=True, config=_CONFIG)
class Measured:
    """What depends on the machine. seconds: of processor time, without reading the input."""

    seconds: float
    decision_ms: Distribution


@dataclass(frozen=True, config=_CONFIG)
class ExplainedAttempt:
    """An attempt for a pod that was asked about: its node, or why it got none."""

    pod: str
    time_s: float
    attempt: int
    node: str = ""
    reason: str = ""


@dataclass(frozen=True, config=_CONFIG)
class Scenario:
    """One run. seed: of the order of arrivals and of what is drawn. parameters: what else distinguishes it, by name.

    by_arrivals: a point for each whole percent of the capacity that has arrived, with the means over the arrivals
    that round to it (half to even). by_time: points at equal distances of time, as things are then.
    """

    policy: str
    seed: int
    parameters: Mapping[str, str]
    fleet: FleetSize
    summary: Summary
    by_arrivals: Series
    by_time: Series
    measured: Measured
    explained: tuple[ExplainedAttempt, ...] = ()


@dataclass(frozen=True, config=_CONFIG)
class SimulationResult:
    """The document. scenarios: by parameters, policy and seed, in the order in which these were given."""

    program: str
    scenarios: tuple[Scenario, ...]
    api_version: Literal["dra-scheduler.dev/v1alpha1"] = "dra-scheduler.dev/v1alpha1"
    kind: Literal["Simulation"] = "Simulation"


class InvalidResult(ValueError):
    """Text that is not such a document. The message names field and value."""


_RESULT = TypeAdapter(SimulationResult)
_SCENARIO = TypeAdapter(Scenario)
_SUMMARY = TypeAdapter(Summary)


def result_json(result: SimulationResult) -> bytes:
    """The document, in JSON."""
    return _RESULT.dump_json(result, by_alias=True, indent=2)


def result_of(text: bytes | str) -> SimulationResult:
    """Read the document. Raises InvalidResult."""
    return _read(_RESULT, text)


def scenario_json(scenario: Scenario) -> bytes:
    """One scenario, as in the document."""
    return _SCENARIO.dump_json(scenario, by_alias=True)


def scenario_of(text: bytes | str) -> Scenario:
    """Read the scenario. Raises InvalidResult."""
    return _read(_SCENARIO, text)


def figures(summary: Summary) -> Mapping[str, float]:
    """Every number of the summary by its place in the document, such as `waitingS.p99`; a shape's by its words."""
    document = _SUMMARY.dump_python(summary, by_alias=True)
    shapes = {one.pop("shape"): one for one in document.pop("shapes")}
    return dict(_numbers({**document, "shapes": shapes}, ""))


def _numbers(fields: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


T = TypeVar("T")


def _read(adapter: TypeAdapter[T], text: bytes | str) -> T:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise InvalidResult(_problem(error.errors(include_url=False, include_context=False)[0])) from error


def _problem(error: ErrorDetails) -> str:
    """With the field and its value, where there are such."""
    field_ = ".".join(map(str, error["loc"]))
    if error["type"] == "json_invalid":
        return f"is not JSON: {error['msg'].removeprefix('Invalid JSON: ')}"
    if error["type"] == "missing":
        return f"{field_}: is missing"
    value = f"{error['input']!r:.80}: {error['msg']}"
    return f"{field_}: {value}" if field_ else value
