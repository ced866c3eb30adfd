"""What arrives and happens: traces and orders of arrivals, files with one JSON object a line, and the pods of a dump.

docs/simulate.md describes both kinds of file. A trace has one event a line, in any order of time.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import nan
from pathlib import Path
from typing import Any

import orjson

from allocator.api.findings import shown
from allocator.api.names import long_name
from allocator.gates import DEVICE_TAINT_RULES, Features
from allocator.words import did_you_mean
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Pod, belongs_to_node
from scheduler.core_v1.pod_status import POD_SCHEDULED
from scheduler.input.documents import Finding, InvalidJSON, Place, RawObject, content_of, require_single_keys
from scheduler.input.identity import uid_of
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.simulation.changes import Appears, ChangingFleet, InvalidChange, PodGoes, SimulationEvent, claims_without
from scheduler.simulation.jobs import LATEST_S, InvalidWorkload, Job, unscheduled

_GZIP = b"\x1f\x8b"


class InvalidLine(ValueError):
    """A file or a line that cannot be used. The message names file, line, field and value."""


@dataclass(frozen=True, slots=True)
class ObjectLine:
    """A line. place: its file and number, from 1."""

    place: str
    fields: Mapping[str, object]

    def error(self, field: str, problem: str) -> InvalidLine:
        """The field cannot be used."""
        return InvalidLine(f"{self.place}: {field}: {problem}")

    def require_known(self, fields: Iterable[str], what: str) -> None:
        """Raises InvalidLine for a field that is none of these. what: what the fields are of."""
        for field in self.fields:
            if field not in fields:
                raise self.error(field, f"is no field of {what}{did_you_mean(field, fields)}")

    def number(self, field: str, most: float) -> float:
        """A number from 0 to `most`, in seconds. Raises InvalidLine."""
        value = self._required(field)
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else nan
        if not 0 <= number <= most:
            raise self.error(field, f"{written(value)} is not a number of seconds, from 0 to {most:g}")
        return number

    def text(self, field: str) -> str:
        """Text that is not empty. Raises InvalidLine."""
        value = self._required(field)
        if not isinstance(value, str) or not value:
            raise self.error(field, f"{written(value)} is not text")
        return value

    def whole_number(self, field: str) -> int:
        """Raises InvalidLine."""
        value = self._required(field)
        if type(value) is not int:
            raise self.error(field, f"{written(value)} is not a whole number")
        return value

    def rows(self, field: str, number: int) -> tuple[int, ...]:
        """Numbers of rows, of which there are so many, from 0. Raises InvalidLine."""
        rows = self._required(field)
        if not isinstance(rows, list):
            raise self.error(field, f"{written(rows)} is not a list")
        for position, row in enumerate(rows):
            if type(row) is not int or not 0 <= row < number:
                raise self.error(f"{field}[{position}]", f"{written(row)} is not a row, of {number} from 0")
        return tuple(rows)

    def _required(self, field: str) -> object:
        if field not in self.fields:
            raise self.error(field, "is required")
        return self.fields[field]


def written(value: object) -> str:
    """The value as JSON has it, in short."""
    return "null" if value is None else shown(value)


def json_lines(file: Path) -> Iterator[ObjectLine]:
    """The lines of the file that have anything. Raises InvalidLine."""
    for number, line in enumerate(_bytes_of(file).splitlines(), 1):
        if line.strip():
            yield _parsed(f"{file}, line {number}", line)


def _bytes_of(file: Path) -> bytes:
    try:
        content = content_of(file)
    except OSError as error:
        raise InvalidLine(f"{file}: cannot be read: {error.strerror}") from error
    if content.startswith(_GZIP):
        raise InvalidLine(f"{file}: is compressed: decompress it with gunzip")
    return content.removeprefix(BOM_UTF8)


def _parsed(place: str, line: bytes) -> ObjectLine:
    try:
        fields = orjson.loads(line)
        require_single_keys(fields, line.decode())
    except orjson.JSONDecodeError as error:
        raise InvalidLine(f"{place}: {_why_not_json(line, error)}") from error
    except InvalidJSON as error:
        raise InvalidLine(f"{place}: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidLine(f"{place}: {written(fields)} is not an object")
    return ObjectLine(place, fields)


def _why_not_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return f"is not UTF-8: byte {wrong.start + 1} is 0x{line[wrong.start]:02x}"
    return f"is not JSON: {error}"


WHAT = ("pod", "like", "delete", "change", "apply")
"""Fields of which a line has exactly one: what happens."""

_FIELDS: Mapping[str, frozenset[str]] = {
    "pod": frozenset({"time", "pod", "duration", "end"}),
    "like": frozenset({"time", "like", "name", "duration", "end"}),
    "delete": frozenset({"time", "delete"}),
    "change": frozenset({"time", "change"}),
    "apply": frozenset({"time", "apply"}),
}
_APPLIED = "a Node, ResourceSlice, DeviceClass or DeviceTaintRule"


@dataclass(frozen=True, slots=True)
class Trace:
    """The contents of a trace, in the order of the file. jobs: arriving pods. events: everything else, with times.

    warnings: about objects in it.
    """

    jobs: tuple[Job, ...] = ()
    events: tuple[tuple[float, SimulationEvent], ...] = ()
    warnings: tuple[Finding, ...] = ()


def _what(line: ObjectLine) -> str:
    """The one field that says what happens. Raises InvalidLine."""
    present = [field for field in WHAT if field in line.fields]
    if len(present) != 1:
        raise InvalidLine(f"{line.place}: has {' and '.join(present) or 'none'} of the fields {', '.join(WHAT)}")
    line.require_known(_FIELDS[present[0]], f"a line with {present[0]}")
    return present[0]


def _time_s(line: ObjectLine) -> float:
    """When it happens."""
    return line.number("time", LATEST_S)


def _duration_s(line: ObjectLine) -> float | None:
    """How long the pod runs; its end counts from its arrival."""
    if "duration" in line.fields and "end" in line.fields:
        raise line.error("end", "stands beside duration: one of them says when the pod ends")
    if "end" not in line.fields:
        return line.number("duration", LATEST_S) if "duration" in line.fields else None
    end, time_s = line.number("end", LATEST_S), _time_s(line)
    if end < time_s:
        raise line.error("end", f"{end:.15g} is before the time {time_s:.15g}")
    return end - time_s


def _key(line: ObjectLine, field: str) -> NamespacedName:
    """Namespace and name of `NS/NAME`, or of a name in the default namespace."""
    namespace, slash, name = line.text(field).partition("/")
    return (namespace, name) if slash else (DEFAULT_NAMESPACE, namespace)


class _TraceReader:
    """priority_of: of a pod, which classes may say. pods: those of the input.

    Of the lines so far, `_pods` has the pods, or what has their spec, and `_arrivals` when they arrive.
    """

    def __init__(
        self, inventory: Inventory, pods: Iterable[Pod], features: Features, priority_of: Callable[[Pod], int]
    ) -> None:
        self._features = features
        self._priority_of = priority_of
        self._fleet = ChangingFleet.of(inventory)
        self._pods = {(pod.namespace, pod.name): pod for pod in pods}
        self._arrivals: dict[NamespacedName, float] = {}
        self._gone: set[NamespacedName] = set()
        self._warnings: list[Finding] = []

    def trace(self, lines: Iterable[ObjectLine]) -> Trace:
        """The pods that arrive, line by line, then all other events."""
        jobs: list[Job] = []
        others: list[ObjectLine] = []
        for line in lines:
            match _what(line):
                case "pod":
                    jobs.append(self._new_job(line))
                case "like":
                    jobs.append(self._job_like_another(line))
                case _:
                    others.append(line)
        return Trace(tuple(jobs), tuple(self._events(others)), tuple(self._warnings))

    def _events(self, lines: Iterable[ObjectLine]) -> Iterator[tuple[float, SimulationEvent]]:
        """Changes are applied in the order of time."""
        for line in sorted(lines, key=_time_s):
            match _what(line):
                case "delete":
                    yield _time_s(line), PodGoes(self._deleted(line))
                case "change":
                    yield from ((_time_s(line), event) for event in self._change(line))
                case "apply":
                    yield _time_s(line), self._apply(line)

    def _new_job(self, line: ObjectLine) -> Job:
        pod = self._new_pod(line)
        return Job(pod, self._arrives(line, (pod.namespace, pod.name), pod), _duration_s(line))

    def _job_like_another(self, line: ObjectLine) -> Job:
        name = line.text("name")
        if problem := long_name(name):
            raise line.error("name", f"{shown(name)} {problem}")
        spec = self._pod(line, "like")
        self._require_new(line, "name", (spec.namespace, name))
        return Job(spec, self._arrives(line, (spec.namespace, name), spec), _duration_s(line), name)

    def _arrives(self, line: ObjectLine, key: NamespacedName, spec: Pod) -> float:
        self._pods[key] = spec
        self._arrivals[key] = time_s = _time_s(line)
        return time_s

    def _new_pod(self, line: ObjectLine) -> Pod:
        inventory = self._objects(line, "pod", {"apiVersion": "v1", "kind": "Pod"})
        if len(inventory.pods) != 1:
            raise line.error("pod", "is not a Pod")
        (pod,) = inventory.pods
        if pod.node_name:
            raise line.error("pod.spec.nodeName", f"{shown(pod.node_name)}: a pod that arrives has no node yet")
        self._require_new(line, "pod.metadata.name", (pod.namespace, pod.name))
        uid = uid_of("Pod", pod.namespace, pod.name)
        return replace(pod, uid=uid, priority=self._priority_of(pod), raw={})

    def _require_new(self, line: ObjectLine, field: str, key: NamespacedName) -> None:
        if key in self._pods:
            raise line.error(field, f"{shown('/'.join(key))} is the name of another pod")

    def _pod(self, line: ObjectLine, field: str) -> Pod:
        key = _key(line, field)
        if key not in self._pods:
            name = "/".join(key)
            hint = did_you_mean(name, ("/".join(one) for one in self._pods))
            raise line.error(field, f"pod {shown(name)} is neither in the input nor in the trace{hint}")
        return self._pods[key]

    def _deleted(self, line: ObjectLine) -> str:
        """The uid of the pod."""
        pod, key = self._pod(line, "delete"), _key(line, "delete")
        if key in self._gone:
            raise line.error("delete", f"pod {shown('/'.join(key))} is deleted twice")
        self._gone.add(key)
        arrival_s = self._arrivals.get(key, 0.0)
        if arrival_s > _time_s(line):
            raise line.error(
                "delete", f"pod {shown('/'.join(key))} arrives at {arrival_s:.15g}, after the time {_time_s(line):.15g}"
            )
        return uid_of("Pod", *key) if key in self._arrivals else pod.uid

    def _change(self, line: ObjectLine) -> Sequence[SimulationEvent]:
        try:
            return self._fleet.change(line.text("change"))
        except InvalidChange as error:
            raise line.error("change", str(error)) from error

    def _apply(self, line: ObjectLine) -> SimulationEvent:
        inventory = self._objects(line, "apply", {})
        event: SimulationEvent
        match inventory:
            case Inventory(nodes=[node]) if "Node" in inventory.kinds:
                event = Appears(node)
            case Inventory(slices=[device_source]) | Inventory(classes=[device_source]):
                event = Appears(device_source)
            case Inventory(taint_rules=[rule]):
                if not self._features.has(DEVICE_TAINT_RULES):
                    gate = self._features.release.governing(DEVICE_TAINT_RULES)
                    problem = f"DeviceTaintRule {rule.name} needs the feature gate {gate}"
                    raise line.error("apply", problem)
                event = Appears(rule)
            case _:
                raise line.error("apply", f"{', '.join(sorted(inventory.kinds)) or 'nothing'} is not {_APPLIED}")
        self._fleet.see([event])
        return event

    def _objects(self, line: ObjectLine, field: str, defaults: Mapping[str, object]) -> Inventory:
        value = line.fields[field]
        if not isinstance(value, dict):
            raise line.error(field, f"{written(value)} is not an object")
        place = Place(f"{line.place}: {field}")
        inventory = take_inventory([RawObject(place, {**defaults, **value})], features=self._features)
        if inventory.errors:
            raise InvalidLine(str(inventory.errors[0]))
        self._warnings += inventory.warnings
        return inventory


def read_trace(
    file: Path, inventory: Inventory, pods: Iterable[Pod], features: Features, priority_of: Callable[[Pod], int]
) -> Trace:
    """The events of the file. pods: of the input, each with its uid. Raises InvalidLine. Cost: O(size)."""
    trace = _TraceReader(inventory, pods, features, priority_of).trace(json_lines(file))
    if not trace.jobs and not trace.events:
        raise InvalidLine(f"{file}: holds no event")
    return trace


@dataclass(frozen=True, slots=True)
class DumpTrace:
    """inventory: the cluster before any of the jobs. stays: its pods then. undated: pods without a known time."""

    inventory: Inventory
    stays: Sequence[Pod]
    jobs: Sequence[Job]
    undated: int


def trace_of_dump(inventory: Inventory, pods: Sequence[Pod]) -> DumpTrace:
    """The trace that a dump holds. pods: of the inventory, each with its uid. Raises InvalidWorkload.

    Each pod arrives when it was created, and runs for as long as it did; time counts from the first creation. A pod
    that has finished ran from the moment it had its node until its last container ended; all others stay. Pods that
    belong to their node, such as those of a DaemonSet, are there from the start.
    """
    movable = [pod for pod in pods if not belongs_to_node(pod)]
    dated = [(time_s, pod) for pod in movable if (time_s := _seconds(pod.created)) is not None]
    if not dated:
        raise InvalidWorkload("no pod of the input has a metadata.creationTimestamp: it holds no trace")
    first = min(time_s for time_s, _ in dated)
    dated.sort(key=lambda one: (one[0], one[1].namespace, one[1].name))
    jobs = [Job(unscheduled(pod), time_s - first, _ran_for_s(pod)) for time_s, pod in dated]
    stays = [pod for pod in pods if belongs_to_node(pod)]
    return DumpTrace(
        replace(inventory, pods=stays, claims=claims_without(inventory, movable)),
        stays,
        jobs,
        len(movable) - len(dated),
    )


def _ran_for_s(pod: Pod) -> float | None:
    """From the binding to the end of the last container, or to the last change of a condition; None while it runs."""
    if not pod.is_finished:
        return None
    status = pod.raw.get("status")
    if not isinstance(status, Mapping):
        return None
    ended = max(_moments(_container_ends(status)), default=None) or max(_moments(_transitions(status)), default=None)
    started = next(_moments((*_transitions(status, POD_SCHEDULED), status.get("startTime"), pod.created)))
    return None if ended is None else max(0.0, ended - started)


def _transitions(status: Mapping[str, Any], kind: str = "") -> Iterator[object]:  # Any: a status as it came
    """When its conditions, or one kind of them, became what they are."""
    for condition in _mappings_in(status.get("conditions")):
        if kind in ("", condition.get("type")):
            yield condition.get("lastTransitionTime")


def _container_ends(status: Mapping[str, Any]) -> Iterator[object]:
    for container in _mappings_in(status.get("containerStatuses")):
        state = container.get("state")
        terminated = state.get("terminated") if isinstance(state, Mapping) else None
        yield terminated.get("finishedAt") if isinstance(terminated, Mapping) else None


def _moments(texts: Iterable[object]) -> Iterator[float]:
    return (moment for text in texts if (moment := _seconds(text)) is not None)


def _mappings_in(value: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else ()


def _seconds(text: object) -> float | None:
    """The moment of RFC 3339, in seconds; None for what is none."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.timestamp() if moment and moment.tzinfo else None


_ORDER_FIELDS = ("seed", "pods", "nodes", "workload")


@dataclass(frozen=True, slots=True)
class DrawnOrder:
    """The order in which pods arrive and in which equal nodes are taken, for one seed: a line of a file of JSON lines.

    The line has `seed`, `pods` (numbers of pods from 0, in the order of their arrival; a pod may come again) and, if
    the order of equal nodes matters, `nodes` (numbers of nodes, each once; others come behind, by name).
    """

    seed: int
    pods: tuple[int, ...]
    nodes: tuple[int, ...] = ()


def orders(file: Path, pods: int, nodes: int) -> dict[int, DrawnOrder]:
    """The draws of the file by seed. pods, nodes: how many rows there are. Raises InvalidLine. Cost: O(size)."""
    by_seed: dict[int, DrawnOrder] = {}
    for line in json_lines(file):
        order = _order(line, pods, nodes)
        if order.seed in by_seed:
            raise line.error("seed", f"{order.seed} is the seed of an earlier line")
        by_seed[order.seed] = order
    if not by_seed:
        raise InvalidLine(f"{file}: holds no order")
    return by_seed


def order_of(file: Path, seed: int, pods: int, nodes: int) -> DrawnOrder:
    """The draws of a seed; otherwise as `orders`."""
    by_seed = orders(file, pods, nodes)
    if seed not in by_seed:
        raise InvalidLine(f"{file}: has no line with seed {seed}, only {', '.join(map(str, by_seed))}")
    return by_seed[seed]


def _order(line: ObjectLine, pods: int, nodes: int) -> DrawnOrder:
    line.require_known(_ORDER_FIELDS, "an order")
    order = DrawnOrder(
        line.whole_number("seed"),
        line.rows("pods", pods),
        line.rows("nodes", nodes) if "nodes" in line.fields else (),
    )
    if not order.pods:
        raise line.error("pods", "is empty")
    _require_once(line, order.nodes)
    return order


def _require_once(line: ObjectLine, nodes: tuple[int, ...]) -> None:
    seen = set[int]()
    for position, row in enumerate(nodes):
        if row in seen:
            raise line.error(f"nodes[{position}]", f"{row} is there twice")
        seen.add(row)
