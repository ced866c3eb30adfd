"""What a large group that has waited for long holds as it frees, so that small pods do not take each piece before it.

The group gets a plan: where it would go if the pods of a few nodes had ended. What the plan gives to its members counts
as taken for pods that do not go before the group, from the beginning: what is free already, and what frees later. Of
each priority the group that waits longest goes first, and one group holds a domain at a time. After as long again the
group gives up, and it is the turn of others. A namespace whose groups have held something in vain again and again
waits before they hold anything more, each time twice as long: many groups would hold the same in turns, for ever.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from allocator.bits import Mask, bits, union
from scheduler.core_v1.pod import Pod, belongs_to_node
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import GroupKey, GroupOfPods
from scheduler.pod_groups.group_placer import ReadyMembers, place_group
from scheduler.pod_groups.group_result import GroupPlaced
from scheduler.preemption.records import PreemptionRecord, PreemptionRecords
from scheduler.state.cluster_changes import GivenBack

MOST_IN_VAIN = 3
"""So many times in a row the groups of a namespace may hold something in vain before it waits."""

MOST_DOUBLINGS = 6
"""Of the time that it waits then."""

_Domain = tuple[str, str]
"""A label of nodes with its value; empty for all nodes."""

_EVERYWHERE: _Domain = ("", "")


@dataclass(slots=True)
class _WaitingGroup:
    """A group that was refused. since: from when its waiting counts."""

    priority: int
    since: float
    is_in_vain: bool = False
    """Every domain was held by another group when it was its turn."""


@dataclass(frozen=True, slots=True)
class GroupReservation:
    """What a group holds."""

    priority: int
    minimum: int
    """Of its pods."""
    domain: _Domain
    since: float
    records: tuple[PreemptionRecord, ...] = field(repr=False)
    """What each member that it needs gets."""

    @property
    def nodes(self) -> list[str]:
        """Where it holds something."""
        return sorted({record.node for record in self.records})


class GroupReservations:
    """The reservations of a scheduler.

    after_s: how long a group waits before it holds anything, and how long it holds it; 0: none ever does. size: the
    number of pods of a group. freed: is called with what is free for all again.
    """

    def __init__(
        self,
        cluster: Cluster,
        after_s: float,
        size: Callable[[GroupKey], int],
        freed: Callable[[GivenBack], None],
    ) -> None:
        self.after_s = after_s
        self._cluster = cluster
        self._size = size
        self._freed = freed
        self._records = PreemptionRecords(cluster)
        self._waiting: dict[GroupKey, _WaitingGroup] = {}
        self._held: dict[GroupKey, GroupReservation] = {}
        self._in_vain: dict[str, tuple[int, float]] = {}
        """By namespace, how often its groups have held something in vain, and until when they hold nothing."""

    def of(self, key: GroupKey) -> GroupReservation | None:
        """What the group holds."""
        return self._held.get(key)

    @contextmanager
    def seen_by(self, pod: Pod, key: GroupKey | None = None) -> Iterator[None]:
        """Decide for the pod, or for its group: what others hold counts as taken, unless the pod goes before them."""
        if not self._held:
            yield
            return
        own = self._held.get(key) if key is not None else None
        mine = [record.pod for record in own.records] if own else []
        with self._records.seen_by(pod, *mine), self._cluster.nominations.without([one.uid for one in mine]):
            yield

    def only_held(self) -> AbstractContextManager[None]:
        """While it is open nothing counts that others have who are to end first."""
        return self._records.only_held()

    # -- what becomes of groups

    def refused(self, group: GroupOfPods, since: float, now: float, ready: ReadyMembers | None = None) -> bool:
        """The group fits nowhere as things are; whether it holds something from now on. since: when it came.

        Not within `seen_by`. Raises AllocationError, TooLong. Cost: O(log nodes) looks, each like the placing of the
        group, if it is its turn.
        """
        if not self.after_s or group.key in self._held:
            return False
        own = self._waiting.setdefault(group.key, _WaitingGroup(group.priority, since))
        own.priority = group.priority
        if now - own.since < self.after_s or self._pauses(group.key, now) or not self._is_first(own, now):
            return False
        taken = [one for one in self._held.values() if one.priority >= group.priority]
        within = self._outside(group, [one.domain for one in taken])
        own.is_in_vain = not within
        if not within:
            return False
        with self._records.seen_by(group.waiting[0]):  # what lower ones hold is no obstacle
            plan = self._plan(group, within, ready)
        if plan is None:  # there is no place for it, whoever ends
            own.since = now
            return False
        self._hold(group, plan, now)
        return True

    def _is_first(self, own: _WaitingGroup, now: float) -> bool:
        for key in [key for key in self._waiting if not self._size(key)]:
            del self._waiting[key]
        return not any(
            other.priority == own.priority and other.since < own.since and not other.is_in_vain
            for key, other in self._waiting.items()
            if key not in self._held and now - other.since >= self.after_s and not self._pauses(key, now)
        )

    def placed(self, key: GroupKey) -> None:
        """The group has its place, or others go for it: it holds nothing any more, and waits no longer."""
        self._waiting.pop(key, None)
        if key in self._held:
            self._in_vain.pop(key.namespace, None)
        self._give_back(key)

    def end_old(self, now: float) -> None:
        """Groups that have held something for long enough, or have too few pods by now, hold nothing any more."""
        for key, held in list(self._held.items()):
            is_left = self._size(key) < held.minimum
            if is_left or now >= self._end(held):
                self._waiting[key] = _WaitingGroup(held.priority, now)
                self._give_back(key)
                self._pause(key.namespace, now)

    def _pause(self, namespace: str, now: float) -> None:
        most_s = self.after_s * 2**MOST_DOUBLINGS
        self._in_vain = {name: one for name, one in self._in_vain.items() if now < one[1] + most_s}
        times = self._in_vain.get(namespace, (0, 0.0))[0] + 1
        doublings = min(times - MOST_IN_VAIN, MOST_DOUBLINGS)
        self._in_vain[namespace] = times, now + (self.after_s * 2**doublings if doublings >= 0 else 0.0)

    def _pauses(self, key: GroupKey, now: float) -> bool:
        return now < self._in_vain.get(key.namespace, (0, 0.0))[1]

    def next_end(self) -> float | None:
        """When the first of those that hold something gives up."""
        return min(map(self._end, self._held.values()), default=None)

    def _end(self, held: GroupReservation) -> float:
        return held.since + self.after_s

    # -- where it would go

    def _outside(self, group: GroupOfPods, held: Iterable[_Domain]) -> Mask:
        """The nodes where no domain of the others is; none where the group is not kept to one."""
        every, domains = self._cluster.fleet.all, list(held)
        if _EVERYWHERE in domains or (domains and (not group.terms.required or group.terms.slice_size)):
            return 0
        nodes = ((number, self._cluster.fleet.node(number).labels) for number in bits(every))
        return every & ~union(1 << at for at, labels in nodes if any(labels.get(key) == own for key, own in domains))

    def _plan(self, group: GroupOfPods, within: Mask, ready: ReadyMembers | None) -> GroupPlaced | None:
        """Where it goes once everybody on as few nodes as it takes has ended, those with the fewest pods first."""
        on_node: dict[int, list[str]] = {number: [] for number in bits(within)}
        own = {pod.uid for pod in group.members}
        for number, pod in self._cluster.pods.on_nodes():
            if number in on_node and pod.uid not in own and not pod.is_static and not belongs_to_node(pod):
                on_node[number].append(pod.uid)
        by_pods = sorted(filter(None, on_node.values()), key=len)

        def without(count: int) -> GroupPlaced | None:
            with self._cluster.without([uid for uids in by_pods[:count] for uid in uids]):
                result = place_group(self._cluster, group, ready=ready, within=within)
                return result if isinstance(result, GroupPlaced) else None

        fewest, most, plan = 0, len(by_pods), without(len(by_pods))
        while plan is not None and fewest < most:
            middle = (fewest + most) // 2
            if (better := without(middle)) is not None:
                most, plan = middle, better
            else:
                fewest = middle + 1
        return plan

    def _hold(self, group: GroupOfPods, plan: GroupPlaced, now: float) -> None:
        kept_to_one = group.terms.required and not group.terms.slice_size
        domain = (group.terms.required, plan.domain) if kept_to_one else _EVERYWHERE
        for key, other in list(self._held.items()):
            if other.priority < group.priority and _meet(domain, other.domain):
                self._give_back(key)
        records = []
        for member in plan.members if group.tree else plan.members[: group.missing]:
            # Its nomination is of this process alone: under a uid of its own, what the watch shows leaves it alone.
            pod = replace(member.pod, uid=f"{member.pod.uid}/reservation", nominated_node=member.placed.node)
            record = PreemptionRecord.placed(pod, member.placed, since=now)
            self._records.set(record)
            self._cluster.nominations.set(pod)
            records.append(record)
        self._held[group.key] = GroupReservation(group.priority, group.minimum, domain, now, tuple(records))

    def _give_back(self, key: GroupKey) -> None:
        held = self._held.pop(key, None)
        for record in held.records if held else ():
            self._records.drop(record.pod.uid)
            self._cluster.nominations.remove(record.pod.uid)
            self._freed(GivenBack(record.pod, record.claims, record.node))


def _meet(one: _Domain, other: _Domain) -> bool:
    """Whether a node may be in both."""
    return one == other or _EVERYWHERE in (one, other) or one[0] != other[0]
