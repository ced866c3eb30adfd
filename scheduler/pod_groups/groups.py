"""The groups of the pods that are watched: who is in each, which of them wait for members, and for how long.

A member waits in the queue until its group has as many pods as it needs at once. Members that have just been put on a
node, and are not seen there yet, count as placed.
Source: KEP-4671.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import AnyPodGroup, PodGroup
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import (
    COMPOSITE,
    NO_KINDS,
    POD_GROUP,
    GroupKey,
    GroupOfPods,
    group_of,
    outermost,
    own_key_of,
    quorum,
)
from scheduler.state.cluster_changes import Event, PodChanged, PodGroupChanged

HELD_S = 120.0
"""A group that waits longer for members says so in an event."""


class Groups:
    """The groups by their keys. recognized: kinds of controllers whose pods are groups, of `RECOGNIZED`.

    clock: seconds that only go forward. is_ours: whether a pod is for this scheduler; others are no members.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Callable[[], float],
        recognized: Collection[str] = NO_KINDS,
        is_ours: Callable[[Pod], bool] = lambda _: True,
    ) -> None:
        self._is_ours = is_ours
        self._cluster = cluster
        self._clock = clock
        self._recognized = recognized
        self._members: dict[GroupKey, dict[str, None]] = {}
        self._keys: dict[str, GroupKey] = {}
        self._held_since: dict[GroupKey, float] = {}  # the first first
        self._late: set[GroupKey] = set()

    def key_of(self, pod: Pod) -> GroupKey | None:
        """The group of the pod, None for a pod of its own."""
        own = self._own_key_of(pod)
        return None if own is None else self._outermost(own)

    def _own_key_of(self, pod: Pod) -> GroupKey | None:
        return own_key_of(pod, self._recognized) if self._is_ours(pod) else None

    def _outermost(self, own: GroupKey) -> GroupKey:
        return outermost(own, self._cluster.pod_groups)

    def members(self, key: GroupKey) -> Collection[str]:
        """The uids of the group's pods that are not over."""
        if key.source != COMPOSITE:
            return self._members.get(key, {}).keys()
        return [uid for own in self._pod_groups_in(key) for uid in self._members.get(own, ())]

    def _pod_groups_in(self, key: GroupKey) -> list[GroupKey]:
        """The PodGroups in a group of groups."""
        inside = self._cluster.pod_groups.pod_groups_in((key.namespace, key.name))
        return [GroupKey(POD_GROUP, one.namespace, one.name) for one in inside]

    def all(self) -> list[GroupOfPods]:
        """All groups, as they are now."""
        return [self.group(key) for key in dict.fromkeys(map(self._outermost, self._members))]

    def group(self, key: GroupKey) -> GroupOfPods:
        """The group as it is now, with assumed pods on their nodes. Cost: O(members log(members))."""
        known = ((uid, self._cluster.pods.known(uid)) for uid in self.members(key))
        pods = [self._placed(pod) for _, pod in known if pod is not None]
        return group_of(key, pods, self._cluster.pod_groups)

    def of_one(self, key: GroupKey, pod: Pod) -> GroupOfPods:
        """The group as if the pod were its only member. Cost: O(1)."""
        return group_of(key, [pod], self._cluster.pod_groups)

    def object_of(self, key: GroupKey) -> AnyPodGroup | None:
        """The PodGroup or CompositePodGroup that the key names."""
        index = self._cluster.pod_groups
        if key.source == COMPOSITE:
            return index.composite(key.namespace, key.name)
        return index.get(key.namespace, key.name) if key.source == POD_GROUP else None

    def objects_of(self, group: GroupOfPods) -> Iterator[tuple[AnyPodGroup, bool]]:
        """The object of the group, then those of the groups in it; each with whether it has what it needs."""
        whole, index = self.object_of(group.key), self._cluster.pod_groups
        if whole is not None:
            yield whole, group.has_enough
        counts = group.counts(group.bound)
        for branch in group.tree.all if group.tree else ():
            by_name = index.get if branch.children is None else index.composite
            own = by_name(group.key.namespace, branch.name)
            if own is not None and own is not whole:
                yield own, branch.is_met(counts)

    def gate(self, pod: Pod) -> str:
        """Why the pod is not to be tried before others of its group come; "" where it may be. Cost: O(1)."""
        key = self.key_of(pod)
        if key is None or pod.node_name:
            return ""
        if key.source == COMPOSITE:
            return self._gate_of_groups(key, pod)
        # With one member the group says how many it needs, and why it waits if they are too few.
        alone = self.of_one(key, pod)
        missing = alone.minimum - len(self.members(key))
        if key.source == POD_GROUP or not alone.held:
            return alone.held if missing > 0 or self.object_of(key) is None else ""
        return f"waiting for {missing} of {alone.minimum} pods of group {key}" if missing > 0 else ""

    def _gate_of_groups(self, key: GroupKey, pod: Pod) -> str:
        alone = self.of_one(key, pod)
        counts = {own.name: len(self.members(own)) for own in self._pod_groups_in(key)}
        if alone.tree is None or alone.problem:
            return "" if alone.problem else alone.held
        return "" if alone.tree.is_met(counts) else quorum(alone, counts)

    def waiting(self, pods: Iterable[Pod]) -> list[dict[str, object]]:
        """The groups of these pods, which wait, as JSON objects in their order. Cost: O(pods)."""
        by_key: dict[GroupKey, list[Pod]] = {}
        for pod in pods:
            if (key := self.key_of(pod)) is not None:
                by_key.setdefault(key, []).append(pod)
        return [self._waiting_object(key, members) for key, members in by_key.items()]

    def _waiting_object(self, key: GroupKey, waiting: Sequence[Pod]) -> dict[str, object]:
        alone = self.of_one(key, waiting[0])
        return {
            "group": str(key),
            "source": key.source,
            "pods": len(self.members(key)),
            "waiting": len(waiting),
            "minimum": alone.minimum,
            "reason": alone.problem or self.gate(waiting[0]),
        }

    def late(self, now: float) -> Iterator[tuple[GroupOfPods, str]]:
        """The groups that have been waiting for members for long, with what they wait for; each once."""
        while self._held_since and now - next(iter(self._held_since.values())) >= HELD_S:
            key = next(iter(self._held_since))
            del self._held_since[key]
            self._late.add(key)
            group = self.group(key)
            if group.held:
                yield group, self._waits(group)

    def _waits(self, group: GroupOfPods) -> str:
        if group.tree or (group.key.source in (POD_GROUP, COMPOSITE) and self.object_of(group.key) is None):
            return group.held
        missing = group.minimum - len(group.members)
        return f"waiting for {missing} of {group.minimum} pods of group {group} to be created"

    # -- what the watches show

    def on_event(self, event: Event) -> Collection[str]:
        """Something has changed, and the cluster knows it; the uids of the pods to be looked at again."""
        if isinstance(event, PodGroupChanged):
            pod_group = event.new or event.old
            assert pod_group is not None
            is_leaf = isinstance(pod_group, PodGroup)
            own = GroupKey(POD_GROUP if is_leaf else COMPOSITE, pod_group.namespace, pod_group.name)
            root = self._cluster.pod_groups.root_name(pod_group)
            key = GroupKey(COMPOSITE, pod_group.namespace, root) if root else own
            for changed in {own, key}:  # until now it may have been on its own, and from now on it may be
                self._note_held(changed)
            return list(dict.fromkeys((*self.members(own), *self.members(key))))
        if not isinstance(event, PodChanged):
            return ()
        pod, keys = event.new, []
        if event.old is not None and (before := self._keys.get(event.old.uid)) is not None:
            keys.append(before)
            self._forget(event.old.uid, before)
        if pod is not None and not pod.is_over and (now := self._own_key_of(pod)) is not None:
            keys.append(now)
            self._keys[pod.uid] = now
            self._members.setdefault(now, {})[pod.uid] = None
        # Of a group that waits for members all wait already: to look at each again with each that comes takes long.
        outer = dict.fromkeys(map(self._outermost, keys))
        complete = [changed for changed in outer if not self._note_held(changed)]
        is_same = event.old is not None and pod is not None and len(set(keys)) < 2 and _counts_alike(event.old, pod)
        return [] if is_same else list(chain.from_iterable(map(self.members, complete)))

    def _forget(self, uid: str, key: GroupKey) -> None:
        del self._keys[uid]
        members = self._members[key]
        members.pop(uid, None)
        if not members:
            del self._members[key]

    def _note_held(self, key: GroupKey) -> bool:
        """Whether the group waits for members; since when, is noted."""
        first = next((pod for uid in self.members(key) if (pod := self._cluster.pods.known(uid)) is not None), None)
        if first is None or self.key_of(first) != key or not self.gate(replace(first, node_name="")):
            self._held_since.pop(key, None)
            self._late.discard(key)
            return False
        if key not in self._late:
            self._held_since.setdefault(key, self._clock())
        return True

    def _placed(self, pod: Pod) -> Pod:
        assumed = None if pod.node_name else self._cluster.pods.assumed_pod(pod.uid)
        return pod if assumed is None else replace(pod, node_name=assumed[1])


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Whether the pod counts for its group as before."""
    return (old.is_over, bool(old.node_name), old.gates) == (new.is_over, bool(new.node_name), new.gates)
