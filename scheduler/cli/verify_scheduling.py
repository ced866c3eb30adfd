"""`dra verify scheduling`: recorded decisions of kube-scheduler, replayed through the code of the live scheduler.

One JSON object a line: a pod, a cluster, and what kube-scheduler's plugins answered. What is compared: whether the
queue holds the pod, the refusal of all nodes at once, the code, plugin and reasons of each node, the scores by plugin,
whether the node that is chosen is one of the best, and for a pod that fits nowhere who would be preempted.

Of preemption, `postFilter` is what kube-scheduler, which never preempts for devices, answered and wrote. `preemption`
holds the nodes that can be won with devices, as docs/differences.md says, found by trying all there is.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import click
import orjson

from allocator.api.findings import shown
from allocator.bits import bits
from allocator.gates import DEFAULT_RELEASE, Features
from allocator.outcome import AllocationError
from scheduler.cli.ending import FilePath
from scheduler.cli.recorded import (
    InvalidCase,
    cases_of,
    field_of,
    list_of,
    objects_of,
    of_kind,
    reference_options,
    replay_all,
)
from scheduler.cli.verify_groups import GroupCase, cycle_differences, group_differences
from scheduler.client.api_resources import Resource
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import NOT_NAMED
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.why_not import Diagnosis, diagnosis_of
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.kinds import KINDS, Raw
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.plugin import Reason
from scheduler.plugins.profile import PLUGINS
from scheduler.pod_groups.greedy_cycle import GREEDY_RELEASE
from scheduler.preemption.eviction_writes import PreemptionWrite
from scheduler.preemption.preemption import NodeToWin, Preemption, Preemptor
from scheduler.state.claims import Waiting, full

_SUCCESS, _REFUSED, _ERROR = "Success", "Unschedulable", "Error"
WriteCall = tuple[str, str, str]
"""Verb, pod and patch."""


@dataclass(frozen=True, slots=True)
class PostFilterAnswer:
    """kube-scheduler's answer, or ours."""

    code: str
    nominated: str | None
    """None where that stays."""
    text: str
    victims: frozenset[str]
    writes: Sequence[WriteCall]
    """All but those of times, sorted."""
    alternatives: Sequence[tuple[str, frozenset[str]]] = ()
    """Nodes and victims that are as good."""

    @staticmethod
    def recorded(raw: Raw) -> "PostFilterAnswer":
        """The answer that a case holds. Raises InvalidCase."""
        writes = sorted(map(_recorded_write, objects_of(raw, "writes")))
        nominated = of_kind(raw["nominated"], "nominated", str) if "nominated" in raw else None
        return PostFilterAnswer(
            field_of(raw, "code", str),
            nominated,
            ", ".join(map(str, list_of(raw, "reasons"))),
            frozenset(name for verb, name, _ in writes if verb == "delete"),
            writes,
            [
                (field_of(one, "nominated", str), frozenset(list_of(one, "victims")))
                for one in objects_of(raw, "alternatives")
            ],
        )

    @staticmethod
    def of(found: Preemption) -> "PostFilterAnswer":
        """Ours."""
        writes = sorted((*_write(one),) for one in found.writes)
        victims = frozenset(one.pod.name for one in found.writes if one.is_delete)
        code = _SUCCESS if found.candidate is not None else _REFUSED
        return PostFilterAnswer(code, found.nominated, found.text, victims, writes)

    def differences(self, ours: "PostFilterAnswer | None") -> Iterator[str]:
        """Where ours is another answer; None where nothing was asked, since no pod's end could help."""
        if self.code == _ERROR or ours is None:
            if ours is not None or self.victims:
                yield f"postFilter: expected {self.code}, got {ours.code if ours else 'none'}"
            return
        is_as_good = (ours.nominated or "", ours.victims) in self.alternatives
        for name in ("code", "nominated", "victims", "writes"):
            theirs, own = getattr(self, name), getattr(ours, name)
            if theirs != own and not is_as_good:
                yield f"postFilter {name}: expected {_shown(theirs)}, got {_shown(own)}"
        if self.text != ours.text:
            yield f"postFilter: expected {self.text!r}, got {ours.text!r}"


@dataclass(frozen=True, slots=True)
class WonNodes:
    """Who could go for devices. nodes: those that are equally good. victims: by each of them; candidates: of all."""

    nodes: frozenset[str]
    victims: Mapping[str, frozenset[str]]
    candidates: Mapping[str, frozenset[str]]

    @staticmethod
    def recorded(raw: Raw) -> "WonNodes":
        """What a case holds. Raises InvalidCase."""
        return WonNodes(
            frozenset(list_of(raw, "nodes")), _victims_by_node(raw, "victims"), _victims_by_node(raw, "candidates")
        )

    @staticmethod
    def of(found: Preemption) -> "WonNodes":
        """Ours."""
        equal = found.equal
        return WonNodes(frozenset(one.node for one in equal), _names_of_pods(equal), _names_of_pods(found.candidates))

    def differences(self, ours: "WonNodes | None") -> Iterator[str]:
        """Where ours is another answer; None where nothing was asked."""
        for name in ("nodes", "victims", "candidates"):
            theirs, own = getattr(self, name), getattr(ours, name) if ours else _NOTHING[name]
            if theirs != own:
                yield f"preemption {name}: expected {_shown(theirs)}, got {_shown(own)}"


_NOTHING: Mapping[str, object] = {"nodes": frozenset(), "victims": {}, "candidates": {}}


def _victims_by_node(raw: Raw, name: str) -> Mapping[str, frozenset[str]]:
    by_node = of_kind(raw.get(name) or {}, name, dict)
    return {node: frozenset(of_kind(victims, f"{name} of {node}", list)) for node, victims in by_node.items()}


def _names_of_pods(candidates: Iterable[NodeToWin]) -> Mapping[str, frozenset[str]]:
    return {one.node: frozenset(pod.name for pod in one.pods) for one in candidates}


def _recorded_write(raw: Raw) -> WriteCall:
    verb = field_of(raw, "verb", str)
    if verb not in ("patch", "delete"):
        raise InvalidCase(f"writes: nothing is known of verb {verb}")
    return verb, field_of(raw, "name", str), _text(raw.get("patch"))


def _write(one: PreemptionWrite) -> WriteCall:
    return "delete" if one.is_delete else "patch", one.pod.name, _text(one.patch)


def _text(patch: Any) -> str:  # Any: JSON
    return orjson.dumps(patch, option=orjson.OPT_SORT_KEYS).decode() if patch is not None else ""


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "none"
    if isinstance(value, Mapping):
        return "; ".join(f"{node}: {_shown(victims)}" for node, victims in sorted(value.items())) or "none"
    return repr(value)


def _field_of(resource: Resource) -> str:
    """The field of a case that holds its objects: `csiStorageCapacities`."""
    kind = re.sub("^[A-Z]+(?=[A-Z][a-z])|^[A-Z]", lambda found: found[0].lower(), resource.kind)
    return f"{kind[:-1]}{resource.plural[len(kind) - 1 :]}"  # the last letter of Capacity is another one in the plural


FIELDS: Mapping[str, Resource] = {_field_of(kind.resource): kind.resource for kind in KINDS if kind.is_watched}
"""The fields of a case that hold objects, and what these are."""

_OF_ALL_NAMESPACES = ("pods", "csiStorageCapacities")
"""Those that matter to pods of other namespaces as well, although they have one."""

LISTED: Mapping[tuple[str, str], str] = {
    ("NodeResourcesFit", "score"): "pod-level-score",
    ("NodeVolumeLimits", "filter"): "own-attached-volume",
    ("VolumeBinding", "filter"): "claim-named-twice",
    ("InterPodAffinity", "filter"): "promised-anti-affinity",
    ("PodTopologySpread", "score"): "spread-without-zone",
    ("VolumeRestrictions", "filter"): "promised-claim",
    ("DefaultPreemption", "postFilter"): "preemption",
}
"""Plugin and what of its answer may differ -> the name of the difference in docs/differences.md."""

Scores = Mapping[str, Mapping[str, int]]
"""By node and plugin, weighted."""

_SUCCESS, _RESOLVABLE, _UNRESOLVABLE = "Success", "Unschedulable", "UnschedulableAndUnresolvable"
_NODE, _SCORE, _PRE_FILTER, _QUEUE, _CHOICE = "filter", "score", "preFilter", "queue", "choice"
_POST_FILTER, _GROUP = "postFilter", "group"
_ORDER = {plugin.name: position for position, plugin in enumerate(PLUGINS)}
_NOT_IN_LIST = "PreFilterResult"
"""What the recorded reason is of a node that is none of those that plugins name."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the plugins say of a node, or of all."""

    code: str = _SUCCESS
    plugin: str = ""
    reasons: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.code} by {self.plugin} ({', '.join(sorted(self.reasons))})" if self.plugin else self.code


_UNKNOWN = Status("nothing")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What becomes of a pod."""

    gate: str
    """The plugin that holds it in the queue."""
    pre_filter: Status
    nodes: Mapping[str, Status]
    scores: Scores
    best: frozenset[str]
    """The nodes of which one is chosen."""
    chosen: frozenset[str]
    """Those that were."""
    post_filter: PostFilterAnswer | None = None
    """Who would be preempted; None where that is not asked, as `won`, which says it of devices."""
    won: WonNodes | None = None


@dataclass(frozen=True, slots=True)
class SchedulingCase:
    """A recorded case, decoded. expected: None where kube-scheduler crashes, and any answer will do."""

    name: str
    pod: Pod
    inventory: Inventory
    expected: RecordedAnswer | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer is another one than the recorded one. point: what of the plugin's answer."""

    plugin: str
    point: str
    text: str

    @property
    def name(self) -> str:
        """Of the difference in docs/differences.md, empty where it is not listed."""
        return LISTED.get((self.plugin, self.point), "")


@dataclass(frozen=True, slots=True)
class ReplayedCase:
    """How one case went. listed: the names of the differences, where all are in docs/differences.md.

    skipped: why there is nothing to compare.
    """

    case: SchedulingCase | GroupCase
    differences: Sequence[Difference] = field(default=())
    listed: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def is_failed(self) -> bool:
        """True where a difference is a bug."""
        return bool(self.differences) and not self.listed

    def __str__(self) -> str:
        if self.skipped:
            return f"SKIPPED {self.case.name}: {self.skipped}"
        how = f"DIFFERS {self.case.name} ({', '.join(self.listed)})" if self.listed else f"FAILED {self.case.name}"
        return f"{how}: {'; '.join(one.text for one in self.differences)}"


@click.command(name="scheduling", epilog="\b\nExample:\n  dra verify scheduling cases.jsonl --no-strict")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=FilePath(allow_dash=True))
@reference_options(DEFAULT_RELEASE)
def command(files: tuple[str, ...], release: str, *, is_strict: bool) -> None:
    """Replay recorded decisions of kube-scheduler and compare the answers.

    FILE contains one JSON case per line; - is standard input. The output lists the cases that differ and their number
    by plugin, and ends with the line `N passed, M failed, K skipped`. A case whose pod has a node is skipped:
    kube-scheduler does not schedule it. With --no-strict, a case passes if it differs
    only as docs/differences.md describes, and the name of the difference is printed. Exit code: 0 if no case failed, 1
    if one failed, 2 for invalid input.
    """
    counts: Counter[str] = Counter()
    plugins: Counter[str] = Counter()
    for replayed in replay_all(files, partial(replay, features=Features.of(release, is_strict=is_strict))):
        if replayed.differences or replayed.skipped:
            click.echo(str(replayed))
        counts["skipped" if replayed.skipped else "failed" if replayed.is_failed else "passed"] += 1
        plugins.update({one.plugin for one in replayed.differences})
    if plugins:
        click.echo(f"cases that differ by plugin: {', '.join(f'{name} {n}' for name, n in plugins.most_common())}")
    click.echo(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(int(counts["failed"] > 0))


def replay(lines: Iterator[bytes], features: Features) -> Iterator[ReplayedCase]:
    """How each case went. Raises InvalidCase for a line that is none, with its number."""
    for case in cases_of(lines, _any_case_of):
        yield replayed_group(case, features) if isinstance(case, GroupCase) else replayed_case(case, features)


def replayed_group(case: GroupCase, features: Features) -> ReplayedCase:
    """Place all pods, and compare. Raises InvalidCase for a release whose cycle for groups is not known."""
    is_to_the_letter = features.is_strict and case.gang is None
    if is_to_the_letter and features.release.name != GREEDY_RELEASE:
        raise InvalidCase(
            f"case {case.name} is a run with groups, which is compared with --no-strict or "
            f"--kubernetes {GREEDY_RELEASE} only"
        )
    compare = cycle_differences if is_to_the_letter else group_differences
    try:
        problems = list(compare(case, features))
    except AllocationError as error:
        problems = [f"got an error: {error}"]
    return ReplayedCase(case, [Difference("GangScheduling", _GROUP, text) for text in problems])


def replayed_case(case: SchedulingCase, features: Features) -> ReplayedCase:
    """Decide and compare; without `strict` a difference is listed only where the strict answer has none.

    Another choice is no difference of its own where something else differs, from which it follows.
    """
    if case.pod.node_name:
        why = (
            f"pod.spec.nodeName is {shown(case.pod.node_name)}: kube-scheduler does not schedule a pod that has a node"
        )
        return ReplayedCase(case, skipped=why)
    differences = list(_differences(case, features))
    names = {one.name for one in differences if one.point != _CHOICE or len(differences) == 1}
    if not differences or features.is_strict or "" in names or any(_differences(case, features.strictly())):
        return ReplayedCase(case, differences)
    return ReplayedCase(case, differences, tuple(sorted(names)))


def _any_case_of(raw: Raw) -> SchedulingCase | GroupCase:
    """The case that a line holds: of one pod, or of groups. Raises as `case_of`."""
    if "pod" not in raw and "pods" in raw:
        return GroupCase.of(raw, _inventory(_found(raw)), _inventory(_found(_later(raw))))
    return case_of(raw)


def case_of(raw: Raw) -> SchedulingCase:
    """The case of one pod that a line holds. Raises ValueError, InvalidCase among them, for what is none."""
    objects = _found(raw)
    own = _completed_pod(field_of(raw, "pod", dict), -1)
    objects["pods"].append(own)
    inventory = _inventory(objects, own)
    pod = next(one for one in inventory.pods if one.uid == own["metadata"]["uid"])
    name = str(field_of(raw, "id"))
    if "expected" not in raw:
        return SchedulingCase(name, pod, inventory, None)
    expected = field_of(raw, "expected", dict)
    return SchedulingCase(name, pod, inventory, _recorded(expected, pod))


def _found(raw: Raw) -> dict[str, list[Raw]]:
    """The objects of the case by their field."""
    objects = {name: objects_of(raw, name) for name in FIELDS}
    objects["pods"] = [_completed_pod(pod, number) for number, pod in enumerate(objects["pods"])]
    return objects


def _later(raw: Raw) -> Raw:
    """The objects that are created when all is quiet."""
    return {"podGroups": raw.get("lateGroups") or [], "pods": raw.get("latePods") or []}


def _inventory(found: dict[str, list[Raw]], own: Raw | None = None) -> Inventory:
    """own: the pod that is asked for, where there is one. Raises InvalidCase."""
    found["namespaces"] += _missing_namespaces(found["namespaces"], found["pods"])
    objects = (
        RawObject(place, {**one, "apiVersion": FIELDS[name].api_version, "kind": FIELDS[name].kind})
        for name, objects in found.items()
        for number, one in enumerate(objects)
        for place in [Place("pod" if one is own else f"{name}[{number}]")]
        if not _is_nowhere(name, one)
    )
    inventory = take_inventory(objects, validate=False)
    if inventory.errors:
        raise InvalidCase("; ".join(map(str, inventory.errors)))
    return inventory


def _is_nowhere(name: str, raw: Raw) -> bool:
    """True for an object of a namespace that names none: no pod is in it."""
    is_of_namespace = FIELDS[name].is_namespaced and name not in _OF_ALL_NAMESPACES
    return is_of_namespace and not of_kind(raw.get("metadata", {}), "metadata", dict).get("namespace")


def _completed_pod(raw: Raw, number: int) -> Raw:
    """The pod with what the reference was given where a case says nothing."""
    metadata = {
        "namespace": DEFAULT_NAMESPACE,
        "name": f"pod-{number}",
        **of_kind(raw.get("metadata", {}), "metadata", dict),
    }
    return {**raw, "metadata": {"uid": f"{metadata['namespace']}/{metadata['name']}", **metadata}}


def _missing_namespaces(given: Iterable[Raw], pods: Iterable[Raw]) -> list[Raw]:
    """The namespaces of pods that the case does not hold, with the label that every namespace has."""
    known = {field_of(field_of(one, "metadata", dict), "name") for one in given}
    names = sorted({pod["metadata"]["namespace"] for pod in pods} - known)
    return [{"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}} for name in names]


def _recorded(raw: Raw, pod: Pod) -> RecordedAnswer:
    scores = {
        node: _scores(of_kind(one, f"scores of {node}", dict)) for node, one in _objects_by_name(raw, "scores").items()
    }
    return RecordedAnswer(
        raw.get("gate", ""),
        _status(field_of(raw, "preFilter", dict)),
        {node: _status(one) for node, one in _objects_by_name(raw, "nodes").items()},
        scores,
        _best(scores, pod),
        frozenset(_objects_by_name(raw, "chosen")),
        PostFilterAnswer.recorded(field_of(raw, _POST_FILTER, dict)) if _POST_FILTER in raw else None,
        WonNodes.recorded(field_of(raw, "preemption", dict)) if "preemption" in raw else None,
    )


def _objects_by_name(raw: Raw, name: str) -> Raw:
    return of_kind(raw.get(name) or {}, name, dict)  # type: ignore[no-any-return]


def _status(raw: Any) -> Status:
    status = of_kind(raw, "a status", dict)
    return Status(field_of(status, "code", str), status.get("plugin", ""), frozenset(status.get("reasons", ())))


def _scores(raw: Raw) -> Mapping[str, int]:
    return {plugin: of_kind(one, plugin, int) for plugin, one in field_of(raw, "plugins", dict).items()}


def _best(scores: Scores, pod: Pod) -> frozenset[str]:
    """The nodes of which one is chosen: the one to which the pod is nominated, or those with the highest total."""
    if pod.nominated_node in scores:
        return frozenset({pod.nominated_node})
    totals = {node: sum(own.values()) for node, own in scores.items()}
    return frozenset(node for node, total in totals.items() if total == max(totals.values()))


def _answer(case: SchedulingCase, features: Features) -> RecordedAnswer:
    """What our own code says. Raises AllocationError."""
    pod, claims = case.pod, Claims(case.inventory)
    cluster = cluster_of(case.inventory, claims, case.inventory.pods, features, assumes_room=False)
    pod_claims = cluster.claims_of(pod)
    if isinstance(pod_claims, Waiting):
        return _reported(cluster, pod, diagnosis_of(cluster, pod, pod_claims), "")
    own, used_up = [one.claim for one in pod_claims], full(pod, pod_claims)
    cluster.expect(pod, own)
    decided = decide(cluster, pod, own, used_up)
    chosen = decided.node if isinstance(decided, Placed) else ""
    found_out = _reported(cluster, pod, diagnosis_of(cluster, pod, own, used_up), chosen)
    expected = case.expected
    if not isinstance(decided, NotPlaced) or decided.everywhere or expected is None or expected.post_filter is None:
        return found_out
    cycle = PodCycle(cluster, pod, own, used_up)
    won = expected.won and WonNodes.of(_preemption(cycle, decided, wins_devices=True))
    preempted = PostFilterAnswer.of(_preemption(cycle, decided, wins_devices=not features.is_strict))
    return replace(found_out, post_filter=preempted, won=won)


def _preemption(cycle: PodCycle, refused: NotPlaced, *, wins_devices: bool) -> Preemption:
    return Preemptor(cycle.cluster, wins_devices=wins_devices, tries_all=True).preemption(cycle, refused)


def _reported(cluster: Cluster, pod: Pod, diagnosis: Diagnosis, chosen: str) -> RecordedAnswer:
    gate = "SchedulingGates" if pod.gates else "DynamicResources" if cluster.gate(pod) else ""
    names = [cluster.name_of(number) for number in bits(diagnosis.feasible)]
    scores = {
        name: {plugin: int(own[position]) for plugin, own in diagnosis.scores.items()}
        for position, name in enumerate(names)
    }
    return RecordedAnswer(
        gate,
        _everywhere(diagnosis.everywhere) if diagnosis.everywhere else Status(),
        {**_refused(cluster, diagnosis), **dict.fromkeys(names, Status())},
        scores,
        _best(scores, pod),
        frozenset({chosen} - {""}),
    )


def _everywhere(refusal: tuple[Reason, str]) -> Status:
    reason, text = refusal
    return Status(_UNRESOLVABLE, reason.plugin, frozenset({text}))


def _refused(cluster: Cluster, diagnosis: Diagnosis) -> Mapping[str, Status]:
    statuses: dict[str, Status] = {}
    for reason, rejected in diagnosis.rejected:
        is_named = rejected.reason != NOT_NAMED
        plugin, text = (reason.plugin, rejected.reason) if is_named else ("", _NOT_IN_LIST)
        for number in bits(rejected.nodes):
            node, code = cluster.name_of(number), _RESOLVABLE if rejected.resolvable >> number & 1 else _UNRESOLVABLE
            others = statuses[node].reasons if node in statuses else frozenset()
            statuses[node] = Status(code, plugin, others | {text})
    return statuses


def _differences(case: SchedulingCase, features: Features) -> Iterator[Difference]:
    """Where our answer is another one. The choice is compared where nothing differs that it is made of."""
    try:
        actual = _answer(case, features)
    except AllocationError as error:
        yield Difference("DynamicResources", _NODE, f"got an error: {error}")
        return
    if case.expected is None:
        return
    answers = list(_differing_answers(case.expected, actual))
    yield from answers or _by_choice(case.expected, actual)
    yield from _by_preemption(case.expected, actual) if not answers else ()


def _differing_answers(expected: RecordedAnswer, actual: RecordedAnswer) -> Iterator[Difference]:
    if expected.gate != actual.gate:
        text = f"queue: expected {expected.gate or 'no'} gate, got {actual.gate or 'none'}"
        yield Difference(expected.gate or actual.gate, _QUEUE, text)
    if expected.pre_filter != actual.pre_filter:
        plugin, reported = _differing(expected.pre_filter, actual.pre_filter)
        yield Difference(plugin, _PRE_FILTER, f"preFilter: {reported}")
        return
    yield from _by_node(expected.nodes, actual.nodes)
    if expected.scores.keys() != actual.scores.keys():  # scores depend on which nodes are feasible
        return
    yield from _by_score(expected.scores, actual.scores)


def _by_choice(expected: RecordedAnswer, actual: RecordedAnswer) -> Iterator[Difference]:
    if expected.best and not (actual.chosen and actual.chosen <= expected.best and expected.chosen <= actual.best):
        reported = f"chosen: expected one of {_names(expected.best)}, got {_names(actual.chosen) or 'none'}"
        yield Difference("choice", _CHOICE, reported)


def _by_preemption(expected: RecordedAnswer, actual: RecordedAnswer) -> Iterator[Difference]:
    """Who is preempted follows from which nodes are refused how."""
    for theirs, ours in ((expected.post_filter, actual.post_filter), (expected.won, actual.won)):
        for text in theirs.differences(ours) if theirs else ():  # type: ignore[arg-type]
            yield Difference("DefaultPreemption", _POST_FILTER, text)


def _by_node(expected: Mapping[str, Status], actual: Mapping[str, Status]) -> Iterator[Difference]:
    alike: dict[tuple[str, str], list[str]] = {}
    for node in sorted(expected.keys() | actual.keys()):
        theirs, ours = expected.get(node, _UNKNOWN), actual.get(node, _UNKNOWN)
        if theirs != ours:
            alike.setdefault(_differing(theirs, ours), []).append(node)
    for (plugin, reported), nodes in alike.items():
        yield Difference(plugin, _NODE, f"{_names(nodes)}: {reported}")


def _differing(expected: Status, actual: Status) -> tuple[str, str]:
    """The plugin whose answer differs, which is the first one that refuses; and how."""
    plugins = sorted({expected.plugin, actual.plugin} - {""}, key=lambda name: _ORDER.get(name, -1))
    return plugins[0] if plugins else "", f"expected {expected}, got {actual}"


def _by_score(expected: Scores, actual: Scores) -> Iterator[Difference]:
    nodes = sorted(expected)
    for plugin in sorted({plugin for node in nodes for plugin in (*expected[node], *actual[node])}):
        theirs, ours = ([scores[node].get(plugin) for node in nodes] for scores in (expected, actual))
        if theirs != ours:
            reported = f"{plugin} of {_names(nodes)}: expected {_listed(theirs)}, got {_listed(ours)}"
            yield Difference(plugin, _SCORE, reported)


def _listed(scores: Iterable[int | None]) -> str:
    return ", ".join("none" if score is None else str(score) for score in scores)


def _names(nodes: Iterable[str]) -> str:
    return ", ".join(sorted(nodes))
