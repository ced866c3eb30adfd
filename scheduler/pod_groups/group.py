"""One model of a group, and its reading: by PodGroup, by our label, or by what some controllers write on their pods.

The first source that a pod names counts. A minimum is never guessed from the size of a controller: many create later
pods only once the first ones run, and a group of all of them would wait without end.
Source: KEP-4671; the labels of LeaderWorkerSet and of Kueue's plain pods.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from allocator.api.findings import shown
from allocator.words import agreeing
from scheduler.core_v1.group_terms import (
    GROUP,
    KUEUE_GROUP,
    KUEUE_TOTAL,
    LEADER_SIZE,
    MINIMUM,
    NO_TERMS,
    GroupTerms,
    group_terms,
    positive,
)
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_group import AnyPodGroup, CompositePodGroup, PodGroup
from scheduler.state.pod_groups import MOST_LEVELS, MOST_POD_GROUPS, PodGroupIndex

# Groups of groups: what a CompositePodGroup asks of the groups in it, down to those that have pods.
#
# A tree is placed as one group whose members are those of all its PodGroups. Each group in it has all it needs, or none
# of its members is placed; and it keeps to a domain of its own where it says so.
# Source: KEP-5732's CompositePodGroup; kube-scheduler 1.38's validatePodGroupHierarchy.

PodCounts = Mapping[str, int]
"""By PodGroup how many pods there are."""


@dataclass(frozen=True, slots=True)
class GroupTree:
    """A PodGroup, of which `minimum` pods are placed at once; or a CompositePodGroup, of which so many groups are."""

    name: str
    minimum: int
    required: str = ""
    """The node label of which all in it see one value."""
    children: tuple["GroupTree", ...] | None = None
    """None for a PodGroup."""

    @property
    def pod_groups(self) -> list["GroupTree"]:
        """Those in it that have pods, in their order."""
        if self.children is None:
            return [self]
        return [leaf for child in self.children for leaf in child.pod_groups]

    @property
    def kind(self) -> str:
        """Of its object."""
        return PodGroup.__name__ if self.children is None else CompositePodGroup.__name__

    @property
    def unit(self) -> str:
        """What the minimum counts."""
        return agreeing(self.minimum, *(("pod", "pods") if self.children is None else ("group", "groups")))

    def pods_of(self, counts: PodCounts) -> int:
        """How many pods it has."""
        return sum(counts.get(leaf.name, 0) for leaf in self.pod_groups)

    @property
    def all(self) -> Iterator["GroupTree"]:
        """Itself and all in it."""
        yield self
        for child in self.children or ():
            yield from child.all

    def is_met(self, counts: PodCounts) -> bool:
        """Whether it has what it needs."""
        if self.children is None:
            return counts.get(self.name, 0) >= self.minimum
        return sum(child.is_met(counts) for child in self.children) >= self.minimum

    def staying(self, counts: PodCounts) -> frozenset[str]:
        """The PodGroups that have what they need, like every group that they are in: the others place nobody."""
        if not self.is_met(counts):
            return frozenset()
        if self.children is None:
            return frozenset({self.name})
        return frozenset[str]().union(*(child.staying(counts) for child in self.children))

    def needs(self, counts: PodCounts) -> int:
        """So many more pods at least; a group that is not there yet has one."""
        if self.children is None:
            return max(self.minimum - counts.get(self.name, 0), 0)
        fewest = sorted(child.needs(counts) for child in self.children)
        return sum(fewest[: self.minimum]) + max(self.minimum - len(fewest), 0)

    def kept(self, outer: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
        """The groups in it that keep to a domain, as the label and their PodGroups; not where one around them does."""
        for child in self.children or ():
            if child.required and child.required not in outer:
                yield child.required, frozenset(leaf.name for leaf in child.pod_groups)
            yield from child.kept(outer | {child.required})


def tree_of(
    root: CompositePodGroup, index: PodGroupIndex, by_group: Mapping[str, Sequence[Pod]] = MappingProxyType({})
) -> tuple[GroupTree, str]:
    """The tree, and what is wrong with it, if anything. by_group: its pods, by their PodGroups."""
    problems: list[str] = []

    def read(group: AnyPodGroup, above: tuple[CompositePodGroup, ...]) -> GroupTree:
        problems.extend(_problems(group, above))
        required, problem = _kept_to(group, by_group.get(group.name, ()) if isinstance(group, PodGroup) else ())
        problems.extend([problem] if problem else [])
        if isinstance(group, PodGroup):
            return GroupTree(group.name, group.minimum or 1, required)
        is_too_deep = len(above) >= MOST_LEVELS - 1
        below = () if is_too_deep else (read(child, (*above, group)) for child in index.children_of(group.key))
        return GroupTree(group.name, group.minimum or 1, required, tuple(below))

    problem = f"CompositePodGroup {root}: is an ancestor of itself" if index.is_in_a_circle(root) else ""
    if (pod_groups := index.state(*root.key).pod_groups) > MOST_POD_GROUPS:
        named = "by their spec.parentCompositePodGroupName"
        problem = f"CompositePodGroup {root}: {pod_groups} PodGroups are in it {named}, more than {MOST_POD_GROUPS}"
    if problem:
        return GroupTree(root.name, 1, children=()), problem
    tree = read(root, ())
    return tree, next(iter(problems), "")


def _kept_to(group: AnyPodGroup, pods: Sequence[Pod]) -> tuple[str, str]:
    """The node label of which the group in a tree sees one value, and what is wrong with what says so."""
    terms, problem = _terms(pods, group.annotations)
    if not problem and terms != GroupTerms(terms.required):
        problem = "in a CompositePodGroup, only annotation dra-scheduler.dev/topology-required is supported"
    problem = f"{type(group).__name__} {group}: {problem}" if problem else ""
    return group.topology[0] if group.topology else terms.required, problem


def _problems(group: AnyPodGroup, above: tuple[CompositePodGroup, ...]) -> Iterator[str]:
    """What a group has to have in common with those that it is in, and has not."""
    name = f"{type(group).__name__} {group}"
    if len(above) >= MOST_LEVELS - 1 and isinstance(group, CompositePodGroup):
        yield f"{name}: hierarchy depth exceeds maximum allowed depth {MOST_LEVELS}"
    if not above:
        return
    root, parent = above[0], above[-1]
    if group.workload != root.workload:
        yield f'{name}: pod group workload does not match root workload, got: "{group.workload}" and "{root.workload}"'
    if (group.priority or 0) != (root.priority or 0):
        yield (
            "all pod groups in a hierarchy should have the same priority as the root pod group's priority, "
            f"got {group.priority or 0} ({name}) and {root.priority or 0} (CompositePodGroup {root})"
        )
    if group.preempts != root.preempts:
        yield f"all pod groups in a hierarchy should have the same preemption policy: {name} has another"
    if parent.minimum is not None and group.minimum is None:
        yield f"gang parent CompositePodGroup {parent} cannot have basic child {name}"
    if parent.goes_whole and not group.goes_whole:
        yield (
            f"parent CompositePodGroup {parent} with All disruption mode cannot have child {name} "
            "with Single disruption mode"
        )


POD_GROUP, COMPOSITE, LABEL, LEADER_WORKER_SET, KUEUE = (
    "PodGroup",
    "CompositePodGroup",
    "label",
    "LeaderWorkerSet",
    "Kueue",
)
"""Where it is said that pods are a group."""

RECOGNIZED: Mapping[str, tuple[str, str]] = {
    LEADER_WORKER_SET: ("leaderworkerset.sigs.k8s.io/group-key", LEADER_SIZE),
    KUEUE: (KUEUE_GROUP, KUEUE_TOTAL),
}
"""Of controllers that write the number of pods on each of them: the label of the group, and the annotation."""

NO_KINDS: frozenset[str] = frozenset()


class GroupKey(NamedTuple):
    """Which group a pod is in. source: one of POD_GROUP, COMPOSITE, LABEL and RECOGNIZED."""

    source: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GroupOfPods:
    """Pods that are placed together."""

    key: GroupKey
    members: tuple[Pod, ...]
    """All that there are, in the order in which they are placed."""
    minimum: int
    """As many have to have a place at once; 1 for one of the basic policy."""
    priority: int = 0
    is_gang: bool = True
    terms: GroupTerms = NO_TERMS
    uid: str = ""
    """Of its PodGroup."""
    claims: tuple[PodClaim, ...] = ()
    """Of the group."""
    claim_statuses: Mapping[str, str | None] = field(default_factory=dict)
    goes_whole: bool = False
    """Evicted only together."""
    problem: str = ""
    """Why it is refused whatever is free; empty where it is not."""
    held: str = ""
    """Why it waits for other objects; empty where it does not."""
    tree: GroupTree | None = None
    """What each of its groups needs, where it is a group of groups."""

    @property
    def bound(self) -> list[Pod]:
        """The members that have their node."""
        return [pod for pod in self.members if pod.node_name]

    @property
    def waiting(self) -> list[Pod]:
        """The members that have none."""
        return [pod for pod in self.members if not pod.node_name]

    @property
    def missing(self) -> int:
        """How many of the waiting ones have to be placed at once, at least; a group that has begun needs one."""
        needed = self.tree.needs(self.counts(self.bound)) if self.tree else self.minimum - len(self.bound)
        return max(needed, 1)

    @property
    def names(self) -> frozenset[str]:
        """Its own, and those of the groups in it."""
        return frozenset({self.key.name, *(one.name for one in (self.tree.all if self.tree else ()))})

    @property
    def has_enough(self) -> bool:
        """Whether as many members have their node as it needs."""
        return self.tree.is_met(self.counts(self.bound)) if self.tree else len(self.bound) >= self.minimum

    @staticmethod
    def counts(pods: Iterable[Pod]) -> Counter[str]:
        """Of these members how many are in each PodGroup."""
        return Counter(pod.group for pod in pods)

    def __str__(self) -> str:
        return str(self.key)


def key_of(pod: Pod, index: PodGroupIndex, recognized: Collection[str] = NO_KINDS) -> GroupKey | None:
    """The group of the pod, the outermost one; None for a pod of its own. recognized: as for `own_key_of`."""
    own = own_key_of(pod, recognized)
    return None if own is None else outermost(own, index)


def outermost(own: GroupKey, index: PodGroupIndex) -> GroupKey:
    """The group of groups that the group is in, or the group itself."""
    group = object_of(own, index)
    root = index.root_name(group) if group is not None else ""
    return GroupKey(COMPOSITE, own.namespace, root) if root else own


def object_of(key: GroupKey, index: PodGroupIndex) -> AnyPodGroup | None:
    """The PodGroup or CompositePodGroup that the key names."""
    if key.source == COMPOSITE:
        return index.composite(key.namespace, key.name)
    return index.get(key.namespace, key.name) if key.source == POD_GROUP else None


def own_key_of(pod: Pod, recognized: Collection[str] = NO_KINDS) -> GroupKey | None:
    """The group that the pod names; None for a pod of its own. recognized: the kinds of RECOGNIZED that are read."""
    if pod.group:
        return GroupKey(POD_GROUP, pod.namespace, pod.group)
    if name := pod.labels.get(GROUP):
        return GroupKey(LABEL, pod.namespace, name)
    for source, (label, _) in RECOGNIZED.items():
        if source in recognized and (name := pod.labels.get(label)):
            return GroupKey(source, pod.namespace, name)
    return None


def groups_of(pods: Iterable[Pod], index: PodGroupIndex, recognized: Collection[str] = NO_KINDS) -> list[GroupOfPods]:
    """The groups of these pods, those that are over aside, in the order of their first members."""
    by_key: dict[GroupKey, list[Pod]] = {}
    for pod in pods:
        if not pod.is_over and (key := key_of(pod, index, recognized)):
            by_key.setdefault(key, []).append(pod)
    return [group_of(key, members, index) for key, members in by_key.items()]


def group_of(key: GroupKey, pods: Iterable[Pod], index: PodGroupIndex) -> GroupOfPods:
    """The group of that key. pods: all of it that are not over."""
    members = tuple(sorted(pods, key=member_order))
    if key.source == COMPOSITE:
        return _of_composite(key, members, index)
    pod_group = index.get(key.namespace, key.name) if key.source == POD_GROUP else None
    if key.source == POD_GROUP and pod_group is None:
        held = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
        return GroupOfPods(key, members, 1, _priority(members), held=held)
    group = _of_object(key, members, pod_group) if pod_group is not None else _of_marks(key, members)
    problem = group.problem or next(_uneven(group), "")
    return replace(group, problem=problem, held=_few(group))


def member_order(pod: Pod) -> tuple[int, bool, str, str]:
    """Higher priority first, then the older one, then by name."""
    return -(pod.priority or 0), not pod.created, pod.created, pod.name


def _priority(members: Sequence[Pod]) -> int:
    return max((pod.priority or 0 for pod in members), default=0)


def _of_object(key: GroupKey, members: tuple[Pod, ...], found: PodGroup) -> GroupOfPods:
    terms, problem = _terms(members, found.annotations)
    if found.topology:
        terms = replace(terms, required=found.topology[0])
    return GroupOfPods(
        key,
        members,
        1 if found.minimum is None else found.minimum,
        _priority(members) if found.priority is None else found.priority,
        found.minimum is not None,
        terms,
        found.uid,
        found.claims,
        found.claim_statuses,
        found.goes_whole,
        problem,
    )


def _of_composite(key: GroupKey, members: tuple[Pod, ...], index: PodGroupIndex) -> GroupOfPods:
    """The members of all groups in it, one group after the other."""
    composite = index.composite(key.namespace, key.name)
    if composite is None:
        own = members[0].group if members else key.name
        return GroupOfPods(key, members, 1, _priority(members), held=not_created(own))
    by_group: dict[str, list[Pod]] = {}
    for pod in members:
        by_group.setdefault(pod.group, []).append(pod)

    tree, problem = tree_of(composite, index, by_group)
    places = {leaf.name: place for place, leaf in enumerate(tree.pod_groups)}
    group = GroupOfPods(
        key,
        tuple(sorted(members, key=lambda pod: places.get(pod.group, len(places)))),
        tree.needs({}),
        _priority(members) if composite.priority is None else composite.priority,
        composite.minimum is not None,
        GroupTerms(tree.required),
        composite.uid,
        goes_whole=composite.goes_whole,
        tree=tree,
    )
    counts = group.counts(members)
    few = next(
        ((leaf.name, counts[leaf.name], leaf.minimum) for leaf in tree.pod_groups if not leaf.is_met(counts)), None
    )
    held = "" if tree.is_met(counts) else _quorum(key, few, len(tree.children or ()), tree.minimum)
    return replace(group, problem=problem or next(_uneven(group), ""), held=held)


def not_created(name: str) -> str:
    """Why the pods of a PodGroup wait for others."""
    return f'pod group "{name}" or one of its composite pod group ancestors has not been created yet'


def _quorum(key: GroupKey, few: tuple[str, int, int] | None, groups: int, minimum: int) -> str:
    """What a group of groups waits for. few: a PodGroup that has too few pods, how many, and its minimum."""
    lacking = "PodGroup {} has {} of {} pods".format(*few) if few else f"it has {groups} of {minimum} groups"
    return f"waiting for {COMPOSITE} {key} to meet its quorum: {lacking}"


def gate_of_tree(key: GroupKey, pod: Pod, index: PodGroupIndex) -> str:
    """Why a pod of a group of groups is not to be tried before other objects come, by the pods that the index counts.

    "" where it may be, and where it would be refused whatever comes. Cost: O(levels).
    """
    composite, own, state = (
        index.composite(key.namespace, key.name),
        index.of(pod),
        index.state(key.namespace, key.name),
    )
    if composite is None or own is None:
        return not_created(pod.group)
    priority = _priority((pod,)) if composite.priority is None else composite.priority
    alone = GroupOfPods(key, (pod,), 1, priority, tree=GroupTree(key.name, 1, children=()))
    if state.is_met or state.is_wrong or _kept_to(own, (pod,))[1] or next(_uneven(alone), ""):
        return ""
    few = index.first_with_few(key.namespace, key.name)
    return _quorum(key, few and (few[0].name, few[1], few[0].minimum or 1), state.groups, composite.minimum or 1)


def _of_marks(key: GroupKey, members: tuple[Pod, ...]) -> GroupOfPods:
    """By what is written on the pods."""
    name = MINIMUM if key.source == LABEL else RECOGNIZED[key.source][1]
    terms, problem = _terms(members, {})
    minimum = 0
    for pod in members:
        count, errors = positive(pod.grouping, name)
        if errors:
            problem = problem or f"pod {pod}: {errors[0]}"
        elif not count:
            problem = problem or f"pod {pod}: metadata.annotations[{name}]: is required in group {key}"
        elif minimum and count != minimum:
            problem = (
                problem or f"pod {pod}: metadata.annotations[{name}]: {count}, but pod {members[0]} says {minimum}"
            )
        minimum = minimum or count
    return GroupOfPods(key, members, minimum or 1, _priority(members), terms=terms, problem=problem)


def _terms(members: Sequence[Pod], annotations: Mapping[str, str]) -> tuple[GroupTerms, str]:
    """Where the group is placed, and what is wrong with what says so. annotations: of its PodGroup."""
    texts = {name: text for name, text in annotations.items() if name not in _OF_NUMBERS}
    problem = ""
    for pod in members:
        own = {name: text for name, text in pod.grouping.items() if name not in _OF_NUMBERS}
        for name, text in own.items():
            known = texts.setdefault(name, text)
            if known != text:
                problem = problem or (
                    f"pod {pod}: metadata.annotations[{name}]: {shown(text)}, "
                    f"but others of the group say {shown(known)}"
                )
    terms, errors = group_terms(texts)
    return terms, problem or (str(errors[0]) if errors else "")


_OF_NUMBERS = (MINIMUM, LEADER_SIZE, KUEUE_TOTAL)


def _uneven(group: GroupOfPods) -> Iterator[str]:
    """What members have to have in common, and have not. Source: kube-scheduler 1.37's schedule_one_podgroup.go."""
    of_group = group.key.source in (POD_GROUP, COMPOSITE)
    scope, root = ("a pod group hierarchy", "root ") if group.tree else ("a single pod group", "")
    waiting = group.waiting
    for pod in (*waiting, *group.bound) if waiting else ():
        first = waiting[0]
        if pod.scheduler_name != first.scheduler_name:
            yield (
                f"all pods in {scope} should have the same .spec.schedulerName set, "
                f'got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
            )
        if (pod.priority or 0) != group.priority and of_group:
            yield (
                f"all pods in {scope} should have the same priority as the {root}pod group's priority, "
                f"got {pod.priority or 0} and {group.priority}"
            )
        if pod.preempts != first.preempts:
            yield (
                f"all pods in {scope} should have the same preemption policy, got {_policy(pod)} and {_policy(first)}"
            )


def _policy(pod: Pod) -> str:
    return "PreemptLowerPriority" if pod.preempts else "Never"


def _few(group: GroupOfPods) -> str:
    missing = group.minimum - len(group.members)
    if missing <= 0:
        return ""
    if group.key.source == POD_GROUP:
        return "waiting for minCount pods from a gang to appear in scheduling queue"
    return f"waiting for {missing} of {group.minimum} pods of group {group}"
