"""The groups of the pods that are watched: who is in each, which of them wait for members, and for how long.

A member waits in the queue until its group has as many pods as it needs at once. Members that have just been put on a
node, and are not seen there yet, count as placed.
Source: KEP-4671.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import AnyPodGroup, PodGroup
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import (
    COMPOSITE,
    NO_KINDS,
    POD_GROUP,
    GroupKey,
    GroupOfPods,
    gate_of_tree,
    group_of,
    object_of,
    outermost,
    own_key_of,
)
from scheduler.state.cluster_changes import Event, PodChanged, PodGroupChanged

GroupsToWake = tuple[GroupKey, ...]
"""A group, after those in it that come first."""

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
        self._waiting: dict[GroupKey, dict[str, None]] = {}  # those of them without a node that `wake` looks at
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
        inside = self._cluster.pod_groups.pod_groups_in((key.namespace, key.name))
        own_keys = (GroupKey(POD_GROUP, one.namespace, one.name) for one in inside)
        return [uid for own in own_keys for uid in self._members.get(own, ())]

    def size(self, key: GroupKey) -> int:
        """How many pods the group has that are not over. Cost: O(1)."""
        if key.source == COMPOSITE:
            return self._cluster.pod_groups.state(key.namespace, key.name).pods
        return len(self._members.get(key, ()))

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
        return object_of(key, self._cluster.pod_groups)

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
        """Why the pod is not to be tried before others of its group come; "" where it may be.

        Cost: O(levels) of a group of groups, however many pods and groups are in it.
        """
        own = self._keys.get(pod.uid)
        if own is not None and not pod.node_name and pod.uid not in (waiting := self._waiting.setdefault(own, {})):
            waiting[pod.uid] = None
            if len(waiting) == 1:
                self._count(own)
        return self._gate(pod)

    def _gate(self, pod: Pod) -> str:
        key = self.key_of(pod)
        if key is None or pod.node_name:
            return ""
        if key.source == COMPOSITE:
            return gate_of_tree(key, pod, self._cluster.pod_groups)
        # With one member the group says how many it needs, and why it waits if they are too few.
        alone = self.of_one(key, pod)
        missing = alone.minimum - self.size(key)
        if key.source == POD_GROUP or not alone.held:
            return alone.held if missing > 0 or self.object_of(key) is None else ""
        return f"waiting for {missing} of {alone.minimum} pods of group {key}" if missing > 0 else ""

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
            "pods": self.size(key),
            "waiting": len(waiting),
            "minimum": alone.minimum,
            "reason": alone.problem or self._gate(waiting[0]),
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

    def on_event(self, event: Event) -> Sequence[GroupsToWake]:
        """Something has changed, and the cluster knows it; for `wake`."""
        if isinstance(event, PodGroupChanged):
            return self._on_object(event)
        if not isinstance(event, PodChanged):
            return ()
        before = next(filter(None, (self._forget(pod.uid) for pod in (event.old, event.new) if pod is not None)), None)
        now = self._keep(event.new) if event.new is not None and not event.new.is_over else None
        if before is None:
            return self._to_wake((now,), only_if_held=True)  # the pod that has come is tried itself
        if event.old and event.new and before == now and _counts_alike(event.old, event.new):
            return ()
        return self._to_wake((before, now))

    def _on_object(self, event: PodGroupChanged) -> Sequence[GroupsToWake]:
        changed = [one for one in (event.old, event.new) if one is not None]
        if len(changed) > 1 and replace(changed[0], is_scheduled=changed[1].is_scheduled) == changed[1]:
            return ()  # as when its condition is written
        index, group = self._cluster.pod_groups, changed[0]
        own = GroupKey(POD_GROUP if isinstance(group, PodGroup) else COMPOSITE, group.namespace, group.name)
        self._note_held(own)  # until now it may have been on its own
        roots = [GroupKey(COMPOSITE, one.namespace, root) for one in changed if (root := index.root_name(one))]
        woken = self._to_wake([own, *roots])
        # One that comes, goes or moves is what all in it wait for, or do not any more.
        return [*woken, (own,)] if len(changed) == 1 or changed[0].parent != changed[1].parent else woken

    def _to_wake(self, own: Iterable[GroupKey | None], *, only_if_held: bool = False) -> Sequence[GroupsToWake]:
        """These groups and those around them that wait for no others. only_if_held: and did so until now."""
        inner: dict[GroupKey, list[GroupKey]] = {}
        for key in own:
            if key is not None:
                inner.setdefault(self._outermost(key), []).append(key)
        were_held = {key for key in inner if key in self._held_since or key in self._late}
        complete = [key for key in inner if not self._note_held(key) and (key in were_held or not only_if_held)]
        return [tuple(dict.fromkeys((*inner[key], key))) for key in complete]

    def wake(self, groups: Iterable[GroupsToWake], look_again: Callable[[str], bool]) -> None:
        """Look again at waiting members of each of these, until one is tried: an attempt takes all that can be.

        look_again: by uid; whether the pod is tried. One that cannot be, since its claims are missing, is left alone
        until it asks for its gate: it costs nothing each time that something happens to the group. Where the one that
        is tried loses its claims before its turn, the queue asks the others within a minute.
        """
        for keys in groups:
            empty = set[GroupKey]()
            any(self._is_one_tried(own, look_again, empty) for key in keys for own in self._with_waiting(key))
            for own in empty:
                if not self._waiting.get(own):
                    self._waiting.pop(own, None)
                    self._count(own)

    def _is_one_tried(self, own: GroupKey, look_again: Callable[[str], bool], empty: set[GroupKey]) -> bool:
        waiting = self._waiting.get(own, {})
        for _ in range(len(waiting)):
            uid = next(iter(waiting))
            del waiting[uid]
            if look_again(uid):
                waiting[uid] = None
                return True
        empty.add(own)
        return False

    def _with_waiting(self, key: GroupKey) -> Iterable[GroupKey]:
        if key.source != COMPOSITE:
            return (key,)
        names = self._cluster.pod_groups.with_waiting(key.namespace, key.name)
        return (GroupKey(POD_GROUP, key.namespace, name) for name in names)

    def _keep(self, pod: Pod) -> GroupKey | None:
        """The pod is there; the group that it is a member of."""
        if (key := self._own_key_of(pod)) is not None:
            self._keys[pod.uid] = key
            self._members.setdefault(key, {})[pod.uid] = None
            if not pod.node_name:
                self._waiting.setdefault(key, {})[pod.uid] = None
            self._count(key)
        return key

    def _forget(self, uid: str) -> GroupKey | None:
        """The pod is gone; the group that it was a member of."""
        if (key := self._keys.pop(uid, None)) is not None:
            for pods in (self._members, self._waiting):
                pods.get(key, {}).pop(uid, None)
                if not pods.get(key):
                    pods.pop(key, None)
            self._count(key)
        return key

    def _count(self, key: GroupKey) -> None:
        if key.source == POD_GROUP:
            self._cluster.pod_groups.count(key.namespace, key.name, self.size(key), is_waiting=key in self._waiting)

    def _note_held(self, key: GroupKey) -> bool:
        """Whether the group waits for members; since when, is noted."""
        if self._outermost(key) != key or not self._is_held(key):
            self._held_since.pop(key, None)
            self._late.discard(key)
            return False
        if key not in self._late:
            self._held_since.setdefault(key, self._clock())
        return True

    def _is_held(self, key: GroupKey) -> bool:
        if not self.size(key):
            return False
        if key.source == COMPOSITE:
            state = self._cluster.pod_groups.state(key.namespace, key.name)
            return self.object_of(key) is None or not (state.is_met or state.is_wrong)
        first = next((pod for uid in self.members(key) if (pod := self._cluster.pods.known(uid)) is not None), None)
        return first is not None and bool(self._gate(replace(first, node_name="")))

    def _placed(self, pod: Pod) -> Pod:
        assumed = None if pod.node_name else self._cluster.pods.assumed_pod(pod.uid)
        return pod if assumed is None else replace(pod, node_name=assumed[1])


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Whether the pod counts for its group as before."""
    return (old.is_over, bool(old.node_name), old.gates) == (new.is_over, bool(new.node_name), new.gates)
