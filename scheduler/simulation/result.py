"""The result of a simulation as one JSON document. docs/simulate.md describes each field; fields are only added.

The names in the document are those of the fields here in camelCase. Everything but `measured` is the same on every
machine for the same input. Shares are percents of the fleet's capacity in units: a unit is a device, or a counter set
that devices are cut from (`allocator.policies.hardware`), of those that not every node reaches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

TIME_DIGITS = 6
"""Of seconds."""

_CONFIG = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", ser_json_inf_nan="constants")


@dataclass(frozen=True, config=_CONFIG)
class FleetSize:
    """The fleet at the start. units: capacity, in units. nodes: that have any unit, or none. pods: that it holds."""

    nodes: int
    units: int
    pods: int


@dataclass(frozen=True, config=_CONFIG)
class Series:
    """Points in their order; every column has as many values as there are points."""

    time_s: tuple[float, ...] = ()
    """Virtual time."""
    arrivals: tuple[float, ...] = ()
    """Pods that have arrived, refused ones among them."""
    arrived_percent: tuple[float, ...] = ()
    """What the pods that have arrived ask for, in percent of the capacity."""
    allocated_percent: tuple[float, ...] = ()
    unallocated_percent: tuple[float, ...] = ()
    fragmentation_percent: tuple[float, ...] = ()
    """What is left and the workload cannot use, in percent of the capacity."""
    fragmentation_ratio: tuple[float, ...] = ()
    """The same in percent of what is left."""
    causes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The same by cause, in percent of the capacity."""
    waiting: tuple[float, ...] = ()
    """Pods that wait."""
    running: tuple[float, ...] = ()
    """Pods that run."""
    largest_block: tuple[float, ...] = ()
    """The most units that are idle on one node."""
    whole_units: tuple[float, ...] = ()
    """Units of which nothing is in use."""
    whole_nodes: tuple[float, ...] = ()
    """Nodes of which nothing is in use; nodes without units do not count."""
    evictions: tuple[float, ...] = ()
    """Evictions until then."""
    watts: tuple[float, ...] = ()
    """What all nodes draw; 0 where the model of a device is not known."""


@dataclass(frozen=True, config=_CONFIG)
class Distribution:
    """Of so many values. All are 0 where there is none."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0


def distribution(values: Sequence[float], digits: int = TIME_DIGITS) -> Distribution:
    """Of values in order; percentiles are values of their own (the nearest rank)."""
    if not values:
        return Distribution()

    def rank(percent: int) -> float:
        return round(values[ceil(len(values) * percent / 100) - 1], digits)

    mean = round(sum(values) / len(values), digits)
    return Distribution(len(values), mean, rank(50), rank(90), rank(99), round(values[-1], digits))


@dataclass(frozen=True, config=_CONFIG)
class ShapeSummary:
    """Pods that request the same devices."""

    shape: str
    """The devices, in words."""
    arrivals: int
    placed: int
    """Pods that got a node."""
    acceptance_percent: float
    waiting_s: Distribution


@dataclass(frozen=True, config=_CONFIG)
class AlignmentSummary:
    """Claims with several devices, which all have an attribute. aligned: those whose devices all have one value."""

    claims: int
    aligned: int
    aligned_percent: float


@dataclass(frozen=True, config=_CONFIG)
class GroupSummary:
    """Groups of which as many pods have to be placed at once."""

    minimum: int
    """How many."""
    arrivals: int
    """Groups of which any pod has waited."""
    placed: int
    """Those that got a place for their minimum."""
    waiting: int
    """Groups that wait at the end: too few have a node."""
    incomplete: int
    """Those of them for which too few pods have arrived."""
    waiting_s: Distribution
    """From the arrival of the pod with which the minimum was there to its place, of the groups that got one."""


@dataclass(frozen=True, config=_CONFIG)
class TogetherSummary:
    """Placed groups that name a label of nodes. together: those whose pods are all at one value of it."""

    groups: int
    together: int
    together_percent: float


@dataclass(frozen=True, config=_CONFIG)
class Summary:
    """A scenario as a whole; arrivals = ended + running + waiting + refused + failed + withdrawn."""

    arrivals: int
    placed: int
    """Pods that got a node, whatever came later."""
    ended: int
    """Pods that got a node and have left it."""
    running: int
    waiting: int
    """Pods that wait at the end."""
    refused: int
    """Pods given up after one refusal, without retries."""
    failed: int
    """Pods never decided, such as for a template that is missing."""
    withdrawn: int
    """Pods deleted while they waited."""
    acceptance_percent: float
    allocated_percent: float
    mean_allocated_percent: float
    """The mean from the first event to the last arrival, or to the last event if all pods arrive with the first one."""
    peak_allocated_percent: float
    fragmentation_percent: float
    fragmentation_ratio: float
    mean_fragmentation_percent: float
    """The mean over the same time."""
    causes: Mapping[str, float]
    largest_block: float
    whole_units: int
    whole_nodes: int
    evictions: int
    decisions: int
    """How many attempts were decided."""
    refusals: Mapping[str, int]
    """How many of the decisions refused, by reason."""
    waiting_s: Distribution
    """The wait from arrival to the first node, of the pods that got one."""
    shapes: tuple[ShapeSummary, ...]
    alignment: Mapping[str, AlignmentSummary]
    """How well devices are aligned by topology attribute, such as resource.kubernetes.io/numaNode."""
    end_s: float
    """The time of the last event."""
    preempted: int = 0
    """How many of the evictions were for a pod of higher priority."""
    lost_s: float = 0.0
    """How long all evicted pods had run, from the first event on."""
    watts: float = 0.0
    """What all nodes draw at the end; 0 where the model of a device is not known."""
    energy_wh: float = 0.0
    """What they have drawn from the first event to the last one, in watt-hours."""
    namespaces: tuple[ShapeSummary, ...] = ()
    """The same as of shapes, of the pods of each namespace: `shape` is its name."""
    moved: int = 0
    """How many of the evictions were moves that gave another pod a place."""
    groups: tuple[GroupSummary, ...] = ()
    """Groups of pods, by how many of their pods have to be placed at once."""
    together: Mapping[str, TogetherSummary] = field(default_factory=dict)
    """How many groups have all their pods in one domain, by the label of nodes that they name for it."""


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
    """One run."""

    policy: str
    seed: int
    """The seed of the order of arrivals and of what is drawn."""
    parameters: Mapping[str, str]
    """What else distinguishes it, by name."""
    fleet: FleetSize
    summary: Summary
    by_arrivals: Series
    """A point for each whole percent of the capacity that has arrived, with the means over the arrivals that round to
    it (half to even).
    """
    by_time: Series
    """Points at equal distances of time, as things are then."""
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
    """Every number of the summary by its place, such as `waitingS.p99`; none of namespaces.

    Those of a shape are by its words, those of groups by their minimum.
    """
    document = _SUMMARY.dump_python(summary, by_alias=True)
    shapes = {one.pop("shape"): one for one in document.pop("shapes")}
    groups = {str(one.pop("minimum")): one for one in document.pop("groups")}
    del document["namespaces"]
    return dict(_numbers({**document, "shapes": shapes, "groups": groups}, ""))


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
