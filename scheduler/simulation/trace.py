"""A trace in JSON lines: one event a line, in any order of time; docs/simulate.md describes it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from allocator.api.findings import shown
from allocator.api.names import long_name
from allocator.did_you_mean import did_you_mean
from allocator.gates import DEVICE_TAINT_RULES, Features
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Pod
from scheduler.input.documents import Finding, Place, RawObject
from scheduler.input.identity import uid_of
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.simulation.changes import ChangingFleet, InvalidChange
from scheduler.simulation.events import ClassAppears, Event, NodeAppears, PodGoes, RuleAppears, SliceAppears
from scheduler.simulation.jobs import LATEST_S, Job
from scheduler.simulation.json_lines import InvalidLine, ObjectLine, json_lines, written

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


@dataclass(frozen=True, slots=True)
class Trace:
    """The contents of a trace, in the order of the file. jobs: arriving pods. events: everything else, with times.

    warnings: about objects in it.
    """

    jobs: tuple[Job, ...] = ()
    events: tuple[tuple[float, Event], ...] = ()
    warnings: tuple[Finding, ...] = ()


def _what(line: ObjectLine) -> str:
    """The one field that says what happens. Raises InvalidLine."""
    found = [field for field in WHAT if field in line.fields]
    if len(found) != 1:
        raise InvalidLine(f"{line.place}: has {' and '.join(found) or 'none'} of the fields {', '.join(WHAT)}")
    line.require_known(_FIELDS[found[0]], f"a line with {found[0]}")
    return found[0]


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


def _key(line: ObjectLine, field: str) -> Key:
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
        self._arrivals: dict[Key, float] = {}
        self._gone: set[Key] = set()
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

    def _events(self, lines: Iterable[ObjectLine]) -> Iterator[tuple[float, Event]]:
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

    def _arrives(self, line: ObjectLine, key: Key, spec: Pod) -> float:
        self._pods[key] = spec
        self._arrivals[key] = time_s = _time_s(line)
        return time_s

    def _new_pod(self, line: ObjectLine) -> Pod:
        found = self._objects(line, "pod", {"apiVersion": "v1", "kind": "Pod"})
        if len(found.pods) != 1:
            raise line.error("pod", "is not a Pod")
        (pod,) = found.pods
        if pod.node_name:
            raise line.error("pod.spec.nodeName", f"{shown(pod.node_name)}: a pod that arrives has no node yet")
        self._require_new(line, "pod.metadata.name", (pod.namespace, pod.name))
        uid = uid_of("Pod", pod.namespace, pod.name)
        return replace(pod, uid=uid, priority=self._priority_of(pod), raw={})

    def _require_new(self, line: ObjectLine, field: str, key: Key) -> None:
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

    def _change(self, line: ObjectLine) -> Sequence[Event]:
        try:
            return self._fleet.change(line.text("change"))
        except InvalidChange as error:
            raise line.error("change", str(error)) from error

    def _apply(self, line: ObjectLine) -> Event:
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
                if not self._features.has(DEVICE_TAINT_RULES):
                    gate = self._features.release.governing(DEVICE_TAINT_RULES)
                    problem = f"DeviceTaintRule {rule.name} needs the feature gate {gate}"
                    raise line.error("apply", problem)
                event = RuleAppears(rule)
            case _:
                raise line.error("apply", f"{', '.join(sorted(found.kinds)) or 'nothing'} is not {_APPLIED}")
        self._fleet.see([event])
        return event

    def _objects(self, line: ObjectLine, field: str, defaults: Mapping[str, object]) -> Inventory:
        value = line.fields[field]
        if not isinstance(value, dict):
            raise line.error(field, f"{written(value)} is not an object")
        place = Place(f"{line.place}: {field}")
        found = take_inventory([RawObject(place, {**defaults, **value})], features=self._features)
        if found.errors:
            raise InvalidLine(str(found.errors[0]))
        self._warnings += found.warnings
        return found


def read_trace(
    file: Path, inventory: Inventory, pods: Iterable[Pod], features: Features, priority_of: Callable[[Pod], int]
) -> Trace:
    """The events of the file. pods: of the input, each with its uid. Raises InvalidLine. Cost: O(size)."""
    found = _TraceReader(inventory, pods, features, priority_of).trace(json_lines(file))
    if not found.jobs and not found.events:
        raise InvalidLine(f"{file}: holds no event")
    return found
