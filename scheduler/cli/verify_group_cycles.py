"""Recorded runs with groups, compared to the letter: kube-scheduler's own cycles, in the order of its queue.

Each group, and each pod of none, is tried once in each part of a run; nothing else wakes it. What is compared is how
many pods of each group got a node, whether anybody was evicted, the conditions of the groups and the messages of their
pods. Where the order of nodes or of domains decides, one of the possible outcomes has to be the recorded one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from allocator.gates import Features
from scheduler.cli.verify_groups import GroupCase, GroupCondition, GroupRun, RecordedRun, listed
from scheduler.input.inventory import Inventory
from scheduler.pod_groups.greedy_cycle import SCHEDULED, GreedyCycle, greedy_cycles
from scheduler.pod_groups.group import GroupOfPods


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
