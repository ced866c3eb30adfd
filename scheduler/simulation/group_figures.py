"""The figures of groups of pods: how long they wait for the place of their minimum, and who is kept in one domain.

A group counts by its minimum, with its first run: from the arrival of the pod with which its minimum is there, to the
moment at which so many have a node. Groups that need no pods at once (the basic policy) are none here.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import GroupKey, GroupOfPods
from scheduler.pod_groups.groups import Groups
from scheduler.simulation.result import GroupSummary, TogetherSummary, distribution


@dataclass(slots=True)
class _GroupRecord:
    """What became of a group."""

    minimum: int
    topology: dict[str, set[str]]
    """By label of nodes that it names the values that its members have there."""
    waiting: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    placed_once: set[str] = field(default_factory=set)
    is_counted: bool = False
    """Pods of it have waited: not so where all are there from the start."""
    complete_s: float | None = None
    """When its minimum has arrived."""
    waited_s: float | None = None
    """How long it waited from then on, once it has its place."""

    @property
    def lacks(self) -> bool:
        """Whether too few have a node."""
        return len(self.running) < self.minimum

    @property
    def is_waiting(self) -> bool:
        """Whether too few have a node, and there are others."""
        return bool(self.waiting) and self.lacks


@dataclass(slots=True)
class _OfSize:
    """The groups of one minimum that are over."""

    arrivals: int = 0
    waits: "array[float]" = field(default_factory=lambda: array("d"))


class GroupFigures:
    """Follows the pods of groups. Cost: O(1) for each thing that happens to a pod."""

    def __init__(self, cluster: Cluster, groups: Groups) -> None:
        self._cluster = cluster
        self._groups = groups
        self._records: dict[GroupKey, _GroupRecord] = {}
        self._sizes: dict[int, _OfSize] = {}
        self._named: Counter[str] = Counter()
        self._together: Counter[str] = Counter()

    # -- what happens

    def adopted(self, pod: Pod) -> None:
        """The pod has its node from the start."""
        if (record := self._record(pod)) is not None:
            self._run(record, pod, pod.node_name)

    def waits(self, pod: Pod, now: float) -> None:
        """The pod has arrived, or was evicted."""
        record = self._record(pod)
        if record is None:
            return
        record.running.discard(pod.uid)
        record.waiting.add(pod.uid)
        record.is_counted |= record.lacks
        if record.complete_s is None and len(record.waiting) + len(record.running) >= record.minimum:
            record.complete_s = now

    def placed(self, pod: Pod, node: str, now: float) -> None:
        """The pod has got its node."""
        record = self._record(pod)
        if record is None:
            return
        self._run(record, pod, node)
        if record.waited_s is None and not record.lacks:
            record.waited_s = now - (now if record.complete_s is None else record.complete_s)

    def left(self, pod: Pod) -> None:
        """The pod has ended, or was deleted."""
        record = self._record(pod)
        if record is None:
            return
        record.running.discard(pod.uid)
        record.waiting.discard(pod.uid)
        if not record.running and not record.waiting:
            key = self._groups.key_of(pod)
            assert key is not None, "the pod has a record"
            self._end(self._records.pop(key))

    def _record(self, pod: Pod) -> _GroupRecord | None:
        key = self._groups.key_of(pod)
        if key is None:
            return None
        record = self._records.get(key)
        if record is None:
            group = self._groups.of_one(key, pod)
            if not group.is_gang:
                return None
            record = self._records[key] = _GroupRecord(group.minimum, {name: set() for name in _topology(group)})
        return record

    def _run(self, record: _GroupRecord, pod: Pod, node: str) -> None:
        record.waiting.discard(pod.uid)
        record.running.add(pod.uid)
        if pod.uid in record.placed_once:
            return
        record.placed_once.add(pod.uid)
        stored = self._cluster.node(node)
        for name, values in record.topology.items():
            values.add(stored.labels.get(name, "") if stored else "")

    def _end(self, record: _GroupRecord) -> None:
        if not record.is_counted:
            return
        of_size = self._sizes.setdefault(record.minimum, _OfSize())
        of_size.arrivals += 1
        if record.waited_s is not None:
            of_size.waits.append(record.waited_s)
            self._named.update(list(record.topology))
            self._together.update(_kept(record))

    # -- what comes of it

    def by_size(self) -> tuple[GroupSummary, ...]:
        """The groups by their minimum, the smallest first."""
        counted = [one for one in self._records.values() if one.is_counted]
        return tuple(
            self._of_size(minimum, [one for one in counted if one.minimum == minimum])
            for minimum in sorted({*self._sizes, *(one.minimum for one in counted)})
        )

    def _of_size(self, minimum: int, there: list[_GroupRecord]) -> GroupSummary:
        over = self._sizes.get(minimum, _OfSize())
        waits = sorted([*over.waits, *(one.waited_s for one in there if one.waited_s is not None)])
        waiting = [one for one in there if one.is_waiting]
        return GroupSummary(
            minimum,
            over.arrivals + len(there),
            len(waits),
            len(waiting),
            sum(one.complete_s is None for one in waiting),
            distribution(waits),
        )

    def together(self) -> Mapping[str, TogetherSummary]:
        """By label of nodes, how many of the placed groups that name it have all their pods at one value of it."""
        named, kept = Counter(self._named), Counter(self._together)
        for record in self._records.values():
            if record.is_counted and record.waited_s is not None:
                named.update(list(record.topology))
                kept.update(_kept(record))
        return {
            name: TogetherSummary(number, kept[name], round(100 * kept[name] / number, 2))
            for name, number in sorted(named.items())
        }


def _topology(group: GroupOfPods) -> Iterator[str]:
    """The labels by which the group is to be kept together."""
    yield from dict.fromkeys(filter(None, (group.terms.required, *group.terms.preferred)))


def _kept(record: _GroupRecord) -> list[str]:
    return [name for name, values in record.topology.items() if len(values) == 1 and "" not in values]
