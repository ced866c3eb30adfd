"""Recorded answers about groups of pods, for `dra verify scheduling`: all pods of a case are placed until all is quiet.

Pods without a node are placed in the order in which they were created, groups whole. What is compared of a run of
kube-scheduler is less than its words: it places greedily and gives up what fits, so ours may bind more. `expected.gang`
is the answer of an exhaustive search, to which ours is equal.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from allocator.bits import bits
from allocator.gates import Features
from scheduler.cli.recorded import InvalidCase, field_of, list_of, of_kind
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.input.inventory import Inventory
from scheduler.kinds import Raw
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement, PodToPlace
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.pod_groups.greedy_cycle import SCHEDULED, GreedyCycle, greedy_cycles
from scheduler.pod_groups.group import GroupOfPods, groups_of, key_of
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_preemption import preempt_for_group
from scheduler.pod_groups.group_result import GroupPlaced, GroupUnknown
from scheduler.preemption.preemption import Preemptor
from scheduler.preemption.victims import Reprieve, lower_units
from scheduler.state.claims import Waiting, full

SINGLE = ""
"""In place of the name of a group: the pods of none."""


class GroupCondition(NamedTuple):
    """What a PodGroup says of its scheduling."""

    status: str
    reason: str
    message: str = ""

    @staticmethod
    def of(group: str, raw: object) -> "GroupCondition":
        """Raises InvalidCase."""
        fields = of_kind(raw, f"condition of {group}", dict)
        return GroupCondition(
            field_of(fields, "status", str), field_of(fields, "reason", str), str(fields.get("message", ""))
        )


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What kube-scheduler did until all was quiet."""

    bound: Mapping[str, int]
    """By group how many pods."""
    evicted: frozenset[str]
    """Who went."""
    has_same_victims: bool = False
    """Whether these went in every run."""
    conditions: Mapping[str, GroupCondition] | None = None
    """Of the groups, None where they differed between runs."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """Of pods."""

    @staticmethod
    def of(raw: Raw, example: Raw, *, has_conditions: bool = True) -> "RecordedRun":
        """What a case holds of a run; what differed between runs is in `example` alone. Raises InvalidCase."""
        bound = of_kind(raw.get("bound") or {}, "bound", dict)
        counts = {group: of_kind(count, f"bound of {group}", int) for group, count in bound.items()}
        evicted = raw if "evicted" in raw else example
        conditions = of_kind(raw["podGroups"], "podGroups", dict) if has_conditions and "podGroups" in raw else None
        pods = {name: of_kind(pod, name, dict) for name, pod in of_kind(raw.get("pods") or {}, "pods", dict).items()}
        return RecordedRun(
            counts,
            frozenset(list_of(evicted, "evicted")),
            "evicted" in raw,
            None if conditions is None else {name: GroupCondition.of(name, one) for name, one in conditions.items()},
            {name: str(pod["message"]) for name, pod in pods.items() if pod.get("message")},
        )


@dataclass(frozen=True, slots=True)
class GroupCase:
    """A recorded case, decoded."""

    name: str
    inventory: Inventory
    later: Inventory
    """What is created when all is quiet."""
    deleted: frozenset[str] = frozenset()
    """Names of pods that go then."""
    first: RecordedRun | None = None
    after: RecordedRun | None = None
    late: RecordedRun | None = None
    """first, after, late: what was recorded of each part."""
    gang: tuple[Sequence[str], frozenset[str]] | None = None
    """Of an exhaustive search, members and victims."""
    by_topology: bool = False
    """Whether the gate for topology was on."""

    @staticmethod
    def of(raw: Raw, inventory: Inventory, later: Inventory) -> "GroupCase":
        """The case that a line holds. Raises InvalidCase."""
        expected = field_of(raw, "expected", dict)
        gang = of_kind(expected["gang"], "gang", dict) if "gang" in expected else None
        example = of_kind(expected.get("example") or {}, "example", dict)
        unstable = list_of(expected, "unstable")
        runs = {
            name: RecordedRun.of(
                of_kind(expected[name], name, dict), example, has_conditions=f"{prefix}podGroups" not in unstable
            )
            for name, prefix in _PARTS.items()
            if name in expected
        }
        if gang is None and "stable" not in runs:
            raise InvalidCase("expected has neither gang nor stable")
        return GroupCase(
            str(field_of(raw, "id")),
            inventory,
            later,
            frozenset(list_of(raw, "deleted")),
            runs.get("stable"),
            runs.get("after"),
            runs.get("late"),
            (tuple(list_of(gang, "members")), frozenset(list_of(gang, "victims"))) if gang is not None else None,
            TOPOLOGY_GATE in list_of(raw, "gates"),
        )


TOPOLOGY_GATE = "TopologyAwareWorkloadScheduling"
_PARTS = {"stable": "", "after": "after.", "late": "late."}
"""The parts of a run -> how what differed between runs begins there."""


def group_differences(case: GroupCase, features: Features) -> Iterator[str]:
    """Where our answer is a worse one. Raises AllocationError."""
    run = GroupRun(case.inventory, features)
    if case.gang is not None:
        yield from _by_gang(case.gang, run.gang())
        return
    run.until_quiet()
    ours, evicted = run.bound(), frozenset(run.evicted)
    yield from run.invalid()
    if case.first is not None:
        yield from _fewer("", case.first, ours)
    run.end_victims()
    run.until_quiet()
    yield from run.invalid()
    theirs = case.first.evicted if case.first is not None else frozenset()
    if case.after is not None:
        # kube-scheduler evicts for members beyond the minimum as well; where it does, only the minimum is compared.
        most = run.minimums() if len(evicted) < len(theirs) else {}
        yield from _fewer("after evictions, ", case.after, run.bound(), most)
        is_no_better = run.bound() == {**run.bound(), **case.after.bound} and not run.spares_more(evicted, theirs)
        if len(evicted) > len(theirs) and is_no_better:
            yield f"evicted: expected {listed(theirs)}, got {listed(evicted)}"
    if case.late is not None:
        run.change(case.later, case.deleted)
        run.until_quiet()
        yield from run.invalid()
        yield from _fewer("later, ", case.late, run.bound())


def _by_gang(
    expected: tuple[Sequence[str], frozenset[str]], actual: tuple[Sequence[str], frozenset[str]]
) -> Iterator[str]:
    for name, theirs, ours in zip(("members", "victims"), expected, actual, strict=True):
        if theirs != ours:
            yield f"{name}: expected {listed(theirs)}, got {listed(ours)}"


def _fewer(
    when: str, recorded: RecordedRun, ours: Mapping[str, int], most: Mapping[str, int] = MappingProxyType({})
) -> Iterator[str]:
    """most: by group how many of the recorded ones count, where not all do."""
    for group, bound in recorded.bound.items():
        count = min(bound, most.get(group, bound))
        if ours.get(group, 0) < count:
            whose = f"of group {group}" if group else "of no group"
            yield f"{when}pods {whose}: expected at least {count} bound, got {ours.get(group, 0)}"


def listed(names: Iterable[str]) -> str:
    """In words."""
    return ", ".join(sorted(names)) or "nobody"


class GroupRun:
    """The pods of a case, placed one group, or pod, after the other. evicted: who was to go by now."""

    def __init__(self, inventory: Inventory, features: Features) -> None:
        claims = Claims(inventory)
        self._cluster = cluster_of(inventory, claims, inventory.pods, features, assumes_room=False)
        self._placement = Placement(self._cluster, claims, ())
        self._pods = {pod.uid: pod for pod in inventory.pods}
        self._was_bound = {pod.uid for pod in inventory.pods if pod.node_name}
        self._waits: set[str] = set()
        self._first_free = self._free_amounts()
        self._order = self._of_importance()
        self._freed: list[str] = []
        self._wins_devices = not features.is_strict
        self.evicted: set[str] = set()

    def gang(self) -> tuple[Sequence[str], frozenset[str]]:
        """The members of the one group that have a place, and who goes for it; claims that nobody uses are free."""
        (group,) = (one for one in self._groups() if one.waiting)
        preemption = preempt_for_group(self._cluster, group)
        if isinstance(preemption, GroupUnknown):
            return (str(preemption),), frozenset()
        if preemption.placed is None and isinstance(placed := place_group(self._cluster, group), GroupPlaced):
            return tuple(one.pod.name for one in placed.members), frozenset()
        members = preemption.placed.members if preemption.placed else ()
        return tuple(one.pod.name for one in members), frozenset(pod.name for pod in preemption.pods)

    def until_quiet(self) -> None:
        """Try all that wait, in order of priority and creation, until nothing comes of it."""
        while any([self._try(one) for one in self._waiting()]):  # noqa: C419 - all of them are tried
            pass

    def _groups(self) -> list[GroupOfPods]:
        return groups_of(self._pods.values(), self._cluster.pod_groups)

    def _waiting(self) -> list[GroupOfPods | Pod]:
        groups = {group.key: group for group in self._groups()}
        waiting: dict[object, GroupOfPods | Pod] = {}
        for pod in self._pods.values():
            if not pod.node_name and not pod.is_over:
                key = key_of(pod, self._cluster.pod_groups)
                waiting.setdefault(key or pod.uid, groups[key] if key else pod)
        return sorted(waiting.values(), key=lambda one: -(one.priority or 0))

    def _try(self, one: GroupOfPods | Pod) -> bool:
        """Whether anything came of it."""
        return self._try_pod(one) if isinstance(one, Pod) else self._try_group(one)

    def _try_group(self, one: GroupOfPods) -> bool:
        result = place_group(self._cluster, one)
        if isinstance(result, GroupPlaced):
            for member in result.members:
                self._bind(member.pod, member.placed)
            return True
        if one.problem or one.held or str(one) in self._waits:
            return False
        wins = preempt_for_group(self._cluster, one)
        if isinstance(wins, GroupUnknown) or wins.placed is None:
            return False
        self._waits.add(str(one))
        self._freed += wins.claims
        self.evicted.update(pod.name for pod in wins.pods)
        return False

    def _try_pod(self, pod: Pod) -> bool:
        claims = self._cluster.claims_of(pod)
        if isinstance(claims, Waiting):
            return False
        own, used_up = [one.claim for one in claims], full(pod, claims)
        decided = decide(self._cluster, pod, own, used_up)
        if isinstance(decided, Placed):
            self._bind(pod, decided)
            return True
        if isinstance(decided, NotPlaced) and not decided.everywhere and pod.uid not in self._waits:
            cycle = PodCycle(self._cluster, pod, own, used_up)
            preemption = Preemptor(self._cluster, wins_devices=self._wins_devices, tries_all=True).preemption(
                cycle, decided
            )
            if preemption.candidate is not None:
                self._waits.add(pod.uid)
                self._freed += preemption.claims
                self.evicted.update(victim.name for victim in preemption.candidate.pods)
        return False

    def _bind(self, pod: Pod, placed: Placed) -> None:
        now = [self._placement.claims.objects[claim.namespace, claim.name].claim for claim in placed.claims]
        self._placement.commit(PodToPlace(pod, tuple(now)), placed)
        self._pods[pod.uid] = pod.changed(node_name=placed.node)

    def end_victims(self) -> None:
        """Whoever was to go is gone, with what is made of their claims."""
        self._end(self.evicted)
        for claim in dict.fromkeys(self._freed):
            self._free(claim)
        self._waits.clear()
        self._freed.clear()

    def _end(self, names: Iterable[str]) -> None:
        gone = frozenset(names)
        for uid, pod in list(self._pods.items()):
            if pod.name in gone:
                del self._pods[uid]
                self._cluster.remove_pod(uid)

    def _free(self, uid: str) -> None:
        claims = self._placement.claims
        for key, claim_object in claims.objects.items():
            if claim_object.claim.uid == uid and claim_object.claim.allocation is not None:
                decoded = replace(claim_object.decoded, reserved_for=())
                claims.objects[key] = replace(
                    claim_object, claim=replace(claim_object.claim, allocation=None), decoded=decoded, consumers=()
                )
                self._cluster.set_claim(claims.objects[key], _LATER)
                return

    def waiting_of(self, group: str) -> list[Pod]:
        """Its pods without a node."""
        return [pod for pod in self._pods.values() if pod.group == group and not pod.node_name]

    def change(self, later: Inventory, deleted: frozenset[str]) -> None:
        """What comes, and who goes, when all is quiet."""
        self._end(deleted)
        for group in later.of(PodGroup):
            self._cluster.pod_groups.set(group)
        for composite in later.of(CompositePodGroup):
            self._cluster.pod_groups.set(composite)
        self._pods.update((pod.uid, pod) for pod in later.pods)

    def bound(self) -> Mapping[str, int]:
        """By group how many pods have got their node."""
        bound_pods: Counter[str] = Counter()
        for pod in self._pods.values():
            if pod.node_name and pod.uid not in self._was_bound:
                bound_pods[pod.group or SINGLE] += 1
        return bound_pods

    def _of_importance(self) -> Sequence[str]:
        """The pods that could go, in the order in which they are spared."""
        highest = max((group.priority for group in self._groups()), default=0)
        numbers = bits(self._cluster.fleet.all)
        pods = [pod for number in numbers for pod in self._cluster.by_priority.on(number)]
        return [unit.pods[0].name for unit in Reprieve.of(lower_units(pods, highest), self._cluster.budgets).units]

    def spares_more(self, ours: frozenset[str], theirs: frozenset[str]) -> bool:
        """Whether the most important pod of those that only one of the two evicts is one of theirs."""
        return next((name in theirs for name in self._order if name in ours ^ theirs), False)

    def minimums(self) -> Mapping[str, int]:
        """By group how many of its pods have to be placed at once."""
        return {group.key.name: group.minimum for group in self._groups()}

    def invalid(self) -> Iterator[str]:
        """What cannot be at once; that nodes had too much on them before is not our doing."""
        for (resource, number), free in self._free_amounts().items():
            if free < min(0, self._first_free.get((resource, number), 0)):
                yield f"node {self._cluster.name_of(number)} has less than nothing of {resource}"

    def _free_amounts(self) -> Mapping[tuple[str, int], int]:
        columns, numbers = self._cluster.infos.columns, list(bits(self._cluster.fleet.all))
        return {(name, number): column.free.item(number) for name, column in columns.items() for number in numbers}


_LATER = 1 << 40
"""A version after all those of a case."""


# Recorded runs with groups, compared to the letter: kube-scheduler's own cycles, in the order of its queue.
#
# Each group, and each pod of none, is tried once in each part of a run; nothing else wakes it. What is compared is how
# many pods of each group got a node, whether anybody was evicted, the conditions of the groups and the messages of
# their pods. Where the order of nodes or of domains decides, one of the possible outcomes has to be the recorded one.


def cycle_differences(case: GroupCase, features: Features) -> Iterator[str]:
    """Where kube-scheduler's own cycle ends otherwise here. Raises AllocationError."""
    run = _CycleRun(case.inventory, features, by_topology=case.by_topology)
    run.until_quiet()
    if case.first is not None:
        yield from _differences("", case.first, run)
        theirs, ours = case.first.evicted, frozenset(run.evicted)
        if theirs != ours and (case.first.has_same_victims or not theirs or not ours):
            yield f"evicted: expected {listed(theirs)}, got {listed(ours)}"
    if case.after is not None:
        run.end_victims()
        run.until_quiet()
        yield from _differences("after evictions, ", case.after, run)
    if case.late is not None:
        run.change(case.later, case.deleted)
        run.until_quiet()
        yield from _differences("later, ", case.late, run)


def _differences(when: str, recorded: RecordedRun, run: "_CycleRun") -> Iterator[str]:
    ours = run.bound()
    for group, count in recorded.bound.items():
        if ours.get(group, 0) != count:
            whose = f"of group {group}" if group else "of no group"
            yield f"{when}pods {whose}: expected {count} bound, got {ours.get(group, 0)}"
    if recorded.conditions is None:
        return
    for group in sorted(recorded.conditions.keys() | run.conditions.keys()):
        expected, possible = recorded.conditions.get(group), run.conditions.get(group, {})
        if expected is None and possible:
            yield f"{when}group {group}: expected no condition, got {_text(next(iter(possible)))}"
        elif expected is not None and expected not in possible and not _is_bound(expected, possible):
            got = _text(next(iter(possible))) if possible else "none"
            yield f"{when}group {group}: expected {_text(expected)}, got {got}"
        elif expected in possible and (cycle := possible[expected]) is not None:
            yield from _by_member(when, recorded, run, group, cycle)


def _by_member(when: str, recorded: RecordedRun, run: "_CycleRun", group: str, cycle: GreedyCycle) -> Iterator[str]:
    for pod in run.waiting_of(group):
        theirs, ours = recorded.messages.get(pod.name), cycle.message_of(pod)
        if theirs is not None and theirs != ours:
            yield f"{when}pod {pod.name}: expected {theirs!r}, got {ours!r}"


def _is_bound(expected: GroupCondition, possible: Mapping[GroupCondition, object]) -> bool:
    """A condition that is True keeps the message of an older copy of the group, at times."""
    return expected.status == "True" and any(one.status == "True" for one in possible)


def _text(condition: GroupCondition) -> str:
    return f"{condition.status} {condition.reason} {condition.message!r}"


class _CycleRun(GroupRun):
    """conditions: by group, those that it may have, with the cycle that they are from."""

    def __init__(self, inventory: Inventory, features: Features, *, by_topology: bool) -> None:
        super().__init__(inventory, features)
        self._by_topology = by_topology
        self.conditions: dict[str, dict[GroupCondition, GreedyCycle | None]] = {}

    def until_quiet(self) -> None:
        """Try each once; a group that has begun is tried again at once for those that were left over."""
        tried: set[str] = set()
        while left := [one for one in self._waiting() if self._id(one) not in tried]:
            if not self._try(left[0]):
                tried.add(self._id(left[0]))

    def _groups(self) -> list[GroupOfPods]:
        """The members in the order in which they were created."""
        place = {uid: number for number, uid in enumerate(self._pods)}
        return [
            replace(group, members=tuple(sorted(group.members, key=lambda pod: place[pod.uid])))
            for group in super()._groups()
        ]

    @staticmethod
    def _id(one: object) -> str:
        return str(one.key) if isinstance(one, GroupOfPods) else f"pod {one}"

    def _try_group(self, one: GroupOfPods) -> bool:
        """Whether it is tried again at once."""
        cycles = greedy_cycles(self._cluster, one, by_topology=self._by_topology)
        if not cycles:
            return False
        name = one.key.name
        before = self.conditions.get(name, {}) if one.bound else {}
        self.conditions[name] = {**before, **{_condition(cycle): cycle for cycle in cycles}}
        cycle = cycles[0]
        if cycle.reason == SCHEDULED:
            for member in cycle.placed:
                assert member.placed is not None
                self._bind(member.pod, member.placed)
            return True
        if cycle.victims:
            self.evicted.update(pod.name for unit in cycle.victims for pod in unit.pods)
            for member in cycle.nominated:
                assert member.placed is not None
                self._nominate(member.pod.uid, member.placed.node)
        return False

    def _nominate(self, uid: str, node: str) -> None:
        pod = replace(self._pods[uid], nominated_node=node)
        self._pods[uid] = pod
        self._cluster.set_pod(pod)


def _condition(cycle: GreedyCycle) -> GroupCondition:
    return GroupCondition("True" if cycle.reason == SCHEDULED else "False", cycle.reason, cycle.message)
