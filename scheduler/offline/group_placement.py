"""Groups of the input, each placed whole: as many of its members as its minimum at once, or nobody.

A group goes where the first of its pods would go. Members beyond the minimum that have no place are told what the group
lacks for the next of them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import Placed
from scheduler.input.identity import uid_of
from scheduler.offline.placement import PlacedPod, Placement, PodToPlace, Result, UnplacedPod
from scheduler.pod_groups.group import NO_KINDS, GroupOfPods, groups_of
from scheduler.pod_groups.group_members import Member
from scheduler.pod_groups.group_placer import ReadyMembers, missing_text
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced, GroupResult


class InputGroups:
    """The groups of these pods. recognized: as for `groups_of`."""

    def __init__(self, placement: Placement, pods: Sequence[Pod], recognized: Collection[str] = NO_KINDS) -> None:
        self._placement = placement
        self.groups = groups_of(pods, placement.cluster.pod_groups, recognized)
        self._by_pod = {pod.uid: group for group in self.groups for pod in group.members}
        self._is_told: set[str] = set()

    def of(self, pod: Pod) -> GroupOfPods | None:
        """The group of the pod, None for a pod of its own."""
        return self._by_pod.get(pod.uid)

    def named(self, key: NamespacedName) -> list[GroupOfPods]:
        """The groups of that name, or around one of it: a label may have the name of a PodGroup."""
        return [group for group in self.groups if group.key.namespace == key[0] and key[1] in group.names]

    def take(self, pod: Pod) -> list[Result] | None:
        """What becomes of the pod's group, empty after the first time; None for a pod of its own."""
        group = self.of(pod)
        if group is None or pod.node_name:
            return None
        if str(group.key) in self._is_told:
            return []
        self._is_told.add(str(group.key))
        return list(take_group(self._placement, group))


@dataclass(frozen=True, slots=True)
class DecidedGroup:
    """What becomes of a group, with its waiting pods as they were looked at, by uid."""

    group: GroupOfPods
    found: GroupResult
    looks: Mapping[str, PodToPlace]
    ready: ReadyMembers

    @property
    def unready(self) -> Mapping[str, str]:
        """By uid why waiting pods cannot be placed, whatever is free."""
        return self.ready[1]

    @property
    def reason(self) -> str:
        """Why it has no place; empty where it has."""
        match self.found:
            case GroupPlaced():
                return ""
            case GroupNotPlaced():
                return f"group {self.group}: {missing_text(self.found, self.group.waiting)}"
            case _:
                return f"group {self.group}: {self.found}"


def decide_group(
    placement: Placement, group: GroupOfPods, look: Callable[[Pod], PodToPlace] | None = None
) -> DecidedGroup:
    """What becomes of the group as things are; nothing is taken. look: in place of that of the placement."""
    look = look or partial(placement.look, joining=Counter())
    looks = {pod.uid: look(pod) for pod in group.waiting}
    members = [
        Member(one.pod, one.claims, one.full) for one in looks.values() if one.pod is not None and one.result is None
    ]
    unready = {
        uid: f"pod {one.pod}: {one.result.reason}" for uid, one in looks.items() if isinstance(one.result, UnplacedPod)
    }
    ready = members, unready
    return DecidedGroup(group, placement.decide_group(group, ready), looks, ready)


def take_group(placement: Placement, group: GroupOfPods) -> Iterator[Result]:
    """What becomes of each waiting pod of the group; what it gets is taken."""
    decided, makes_room = decide_group(placement, group), placement.makes_group_room
    if makes_room is not None and makes_room(group, decided.found, decided.ready):
        decided = decide_group(placement, group)
    if not isinstance(decided.found, GroupPlaced):
        for look in decided.looks.values():
            yield look.result or UnplacedPod(look.pod, look.claims, decided.reason)
        return
    placed = {one.pod.uid: one.placed for one in decided.found.members}
    now: dict[str, Pod] = {}
    for uid, own in placed.items():
        result = commit(placement, decided.looks[uid], own)
        assert result.pod is not None
        now[uid] = result.pod
        yield result
    if len(placed) < len(decided.looks):
        begun = replace(group, members=tuple(now.get(pod.uid, pod) for pod in group.members))
        reason = decide_group(placement, begun).reason
        for uid, look in decided.looks.items():
            if uid not in placed:
                yield look.result or UnplacedPod(look.pod, look.claims, reason)


def commit(placement: Placement, look: PodToPlace, chosen: Placed) -> PlacedPod:
    """A member has its node and devices: those of a claim that another member has already are there."""
    now = [placement.claims.objects[claim.namespace, claim.name].claim for claim in chosen.claims]
    return placement.commit(replace(look, claims=tuple(now)), chosen)


# -- how many more groups fit


@dataclass(frozen=True, slots=True)
class FittingGroups:
    """How many copies of a group fit. pods: how many each node has of them. stopped: why the next one does not fit."""

    number: int
    pods: Mapping[str, int]
    stopped: str = ""
    is_cut: bool = False


MOST_GROUPS = 10_000


def fit_groups(
    placement: Placement, group: GroupOfPods, most: int | None, progress: Callable[[int], None]
) -> FittingGroups:
    """Place copies of the group, whole, until one does not fit, or there are so many. What is placed stays placed."""
    pods: dict[str, int] = {}
    for number in range(MOST_GROUPS if most is None else most):
        decided = decide_group(placement, _copy(group, number))
        if not isinstance(decided.found, GroupPlaced):
            return FittingGroups(number, pods, decided.reason)
        for member in decided.found.members:
            commit(placement, decided.looks[member.pod.uid], member.placed)
            pods[member.placed.node] = pods.get(member.placed.node, 0) + 1
        progress(number + 1)
    return FittingGroups(MOST_GROUPS if most is None else most, pods, is_cut=most is None)


def _copy(group: GroupOfPods, number: int) -> GroupOfPods:
    """Like the group, of which nobody has a node."""
    members = []
    for pod in group.members:
        name = f"{pod.name}-copy-{number}"
        uid = uid_of("Pod", pod.namespace, name)
        plain = replace(pod, name=name, uid=uid, node_name="", nominated_node="", phase="", is_deleting=False)
        members.append(replace(plain, claim_statuses={}, conditions=(), device_fields=()))
    key = group.key._replace(name=f"{group.key.name}-copy-{number}")
    return replace(group, key=key, members=tuple(members))
