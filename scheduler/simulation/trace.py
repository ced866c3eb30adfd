"""A trace in JSON lines: one event a line, in any order of time; docs/simulate.md describes it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import orjson

from allocator.api.findings import shown
from allocator.did_you_mean import did_you_mean
from allocator.gates import Features
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Pod
from scheduler.input.documents import Place, RawObject
from scheduler.input.identity import uid_of
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.simulation.changes import ChangingFleet, InvalidChange
from scheduler.simulation.events import ClassAppears, Event, NodeAppears, PodGoes, RuleAppears, SliceAppears
from scheduler.simulation.jobs import Job

Key = tuple[str, str]
"""Namespace and name of a pod."""

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


class InvalidTraceLine(ValueError):
    """A line that cannot be used. The message names file, line, field and value."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The contents of a trace, in the order of the file. jobs: arriving pods. events: everything else, with times."""

    jobs: tuple[Job, ...] = ()
    events: tuple[tuple[float, Event], ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it stands in the file, from 1."""

    place: str
    fields: Mapping[str, object]

    def error(self, field: str, problem: str) -> InvalidTraceLine:
        """The field cannot be used."""
        return InvalidTraceLine(f"{self.place}: {field}: {problem}")

    @property
    def what(self) -> str:
        """The one field that says what happens. Raises InvalidTraceLine."""
        found = [field for field in WHAT if field in self.fields]
        if len(found) != 1:
            raise InvalidTraceLine(f"{self.place}: has {' and '.join(found) or 'none'} of the fields {', '.join(WHAT)}")
        for field in self.fields:
            if field not in _FIELDS[found[0]]:
                hint = did_you_mean(field, _FIELDS[found[0]])
                raise self.error(field, f"is no field of a line with {found[0]}{hint}")
        return found[0]

    @property
    def time_s(self) -> float:
        """When it happens."""
        return self.seconds("time")

    @property
    def duration_s(self) -> float | None:
        """How long the pod runs; its end counts from its arrival."""
        if "duration" in self.fields and "end" in self.fields:
            raise self.error("end", "stands beside duration: one of them says when the pod ends")
        if "end" not in self.fields:
            return self.seconds("duration") if "duration" in self.fields else None
        end = self.seconds("end")
        if end < self.time_s:
            raise self.error("end", f"{end:g} is before the time {self.time_s:g}")
        return end - self.time_s

    def seconds(self, field: str) -> float:
        """A number that is no less than 0."""
        if field not in self.fields:
            raise self.error(field, "is required")
        value = self.fields[field]
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            raise self.error(field, f"{shown(value)} is not a number of seconds, 0 or more")
        return float(value)

    def text(self, field: str) -> str:
        """Text that is not empty."""
        if field not in self.fields:
            raise self.error(field, "is required")
        value = self.fields[field]
        if not isinstance(value, str) or not value:
            raise self.error(field, f"{shown(value)} is not text")
        return value

    def key(self, field: str) -> Key:
        """Namespace and name of `NS/NAME`, or of a name in the default namespace."""
        namespace, slash, name = self.text(field).partition("/")
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
        self._arrivals: dict[Key, float] = {}

    def trace(self, lines: Iterable[_Line]) -> Trace:
        """The pods that arrive, line by line, then all other events."""
        jobs: list[Job] = []
        others: list[_Line] = []
        for line in lines:
            match line.what:
                case "pod":
                    jobs.append(self._new_job(line))
                case "like":
                    jobs.append(self._job_like_another(line))
                case _:
                    others.append(line)
        return Trace(tuple(jobs), tuple(self._events(others)))

    def _events(self, lines: Iterable[_Line]) -> Iterator[tuple[float, Event]]:
        """Changes are applied in the order of time."""
        for line in sorted(lines, key=lambda one: one.time_s):
            match line.what:
                case "delete":
                    yield line.time_s, PodGoes(self._deleted(line))
                case "change":
                    yield from ((line.time_s, event) for event in self._change(line))
                case "apply":
                    yield line.time_s, self._apply(line)

    def _new_job(self, line: _Line) -> Job:
        pod = self._new_pod(line)
        time_s = self._arrives(line, (pod.namespace, pod.name), pod)
        return Job(pod, time_s, line.duration_s)

    def _job_like_another(self, line: _Line) -> Job:
        spec, name = self._pod(line, "like"), line.text("name")
        self._require_new(line, "name", (spec.namespace, name))
        time_s = self._arrives(line, (spec.namespace, name), spec)
        return Job(spec, time_s, line.duration_s, name)

    def _arrives(self, line: _Line, key: Key, spec: Pod) -> float:
        self._pods[key] = spec
        self._arrivals[key] = time_s = line.time_s
        return time_s

    def _new_pod(self, line: _Line) -> Pod:
        found = self._objects(line, "pod", {"apiVersion": "v1", "kind": "Pod"})
        if len(found.pods) != 1:
            raise line.error("pod", "is not a Pod")
        (pod,) = found.pods
        if pod.node_name:
            raise line.error("pod.spec.nodeName", f"{shown(pod.node_name)}: a pod that arrives has no node yet")
        self._require_new(line, "pod.metadata.name", (pod.namespace, pod.name))
        uid = uid_of("Pod", pod.namespace, pod.name)
        return replace(pod, uid=uid, priority=self._priority_of(pod), raw={})

    def _require_new(self, line: _Line, field: str, key: Key) -> None:
        if key in self._pods:
            raise line.error(field, f"{shown('/'.join(key))} is the name of another pod")

    def _pod(self, line: _Line, field: str) -> Pod:
        key = line.key(field)
        if key not in self._pods:
            name = "/".join(key)
            hint = did_you_mean(name, ("/".join(one) for one in self._pods))
            raise line.error(field, f"pod {shown(name)} is neither in the input nor in the trace{hint}")
        return self._pods[key]

    def _deleted(self, line: _Line) -> str:
        """The uid of the pod."""
        pod, key = self._pod(line, "delete"), line.key("delete")
        arrival_s = self._arrivals.get(key, 0.0)
        if arrival_s > line.time_s:
            raise line.error(
                "delete", f"pod {shown('/'.join(key))} arrives at {arrival_s:.15g}, after the time {line.time_s:.15g}"
            )
        return uid_of("Pod", *key) if key in self._arrivals else pod.uid

    def _change(self, line: _Line) -> Sequence[Event]:
        try:
            return self._fleet.change(line.text("change"))
        except InvalidChange as error:
            raise line.error("change", str(error)) from error

    def _apply(self, line: _Line) -> Event:
        found = self._objects(line, "apply", {})
        event: Event
        match found:
            case Inventory(nodes=[node]) if "Node" in found.kinds:
                event = NodeAppears(node)
            case Inventory(slices=[slice_]):
                event = SliceAppears(slice_)
            case Inventory(classes=[device_class]):
                event = ClassAppears(device_class)
            case Inventory(taint_rules=[rule]):
                event = RuleAppears(rule)
            case _:
                raise line.error("apply", f"{', '.join(sorted(found.kinds)) or 'nothing'} is not {_APPLIED}")
        self._fleet.see([event])
        return event

    def _objects(self, line: _Line, field: str, defaults: Mapping[str, object]) -> Inventory:
        value = line.fields[field]
        if not isinstance(value, dict):
            raise line.error(field, f"{shown(value)} is not an object")
        place = Place(f"{line.place}: {field}")
        found = take_inventory([RawObject(place, {**defaults, **value})], features=self._features)
        if found.errors:
            raise InvalidTraceLine(str(found.errors[0]))
        return found


def read_trace(
    file: Path, inventory: Inventory, pods: Iterable[Pod], features: Features, priority_of: Callable[[Pod], int]
) -> Trace:
    """The events of the file. pods: of the input, each with its uid. Raises InvalidTraceLine. Cost: O(size)."""
    found = _TraceReader(inventory, pods, features, priority_of).trace(_lines(file))
    if not found.jobs and not found.events:
        raise InvalidTraceLine(f"{file}: holds no event")
    return found


def _lines(file: Path) -> Iterator[_Line]:
    for number, text in enumerate(_texts(file), 1):
        if not text.strip():
            continue
        place = f"{file}, line {number}"
        try:
            fields = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InvalidTraceLine(f"{place}: is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise InvalidTraceLine(f"{place}: {shown(fields)} is not an object")
        yield _Line(place, fields)


def _texts(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as opened:
            yield from opened
    except OSError as error:
        raise InvalidTraceLine(f"{file}: cannot be read: {error.strerror}") from error
