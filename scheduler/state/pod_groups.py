"""The PodGroups and CompositePodGroups of a cluster, and what each tree of them has.

What a tree has is kept by change: a pod or an object that comes or goes costs its own path to the root, however many
others there are. A path has few levels: in a tree that is deeper than allowed, or that is in itself, nothing is counted
beyond those, and it is refused.
Source: KEP-5732's CompositePodGroup; kube-scheduler 1.38's validatePodGroupHierarchy.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.core_v1.group_terms import GroupTerms, group_terms
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import AnyPodGroup, CompositePodGroup, PodGroup

MOST_LEVELS = 4
"""Of a tree, with that of its PodGroups."""

MOST_POD_GROUPS = 1000
"""Of a tree: to place one takes the longer the more there are."""


def index_of(groups: Iterable[PodGroup], composites: Iterable[CompositePodGroup] = ()) -> "PodGroupIndex":
    """These groups, and groups of groups."""
    index = PodGroupIndex()
    for group in groups:
        index.set(group)
    for composite in composites:
        index.set(composite)
    return index


class TreeState(NamedTuple):
    """What a group has, with all groups in it."""

    levels: int = 2
    groups: int = 0
    """Those that are in no other group in it."""
    pod_groups: int = 0
    pods: int = 0
    is_met: bool = False
    """It has what it needs."""
    is_wrong: bool = False
    """It, or a group in it, is not as it has to be."""
    has_few: bool = False
    """A PodGroup in it has too few pods."""
    has_waiting: bool = False
    """A PodGroup in it has pods without a node."""


NOTHING = TreeState()
_TOO_DEEP = TreeState(MOST_LEVELS + 1, is_wrong=True)


class _GroupPath(NamedTuple):
    """In the order in which groups of a group are placed."""

    namespace: str
    name: str
    kind: str


@dataclass(slots=True)
class _GroupNode:
    """A group, or a name that a group or a pod has for one. The counts are of the groups in it."""

    group: AnyPodGroup | None = None
    is_odd: bool = False
    """Its own annotations are not as they have to be."""
    pods: int = 0
    is_waiting: bool = False
    """One of these has no node."""
    state: TreeState = NOTHING
    children: dict[_GroupPath, AnyPodGroup] = field(default_factory=dict)
    few: list[_GroupPath] = field(default_factory=list)
    with_waiting: dict[_GroupPath, None] = field(default_factory=dict)
    levels: Counter[int] = field(default_factory=Counter)
    pod_groups: int = 0
    pods_in: int = 0
    met: int = 0
    wrong: int = 0
    traits: Counter[object] = field(default_factory=Counter)
    """What a group has to have in common with the one that it is in."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it any more."""
        return self.group is None and not self.pods and not self.children

    def add(self, key: _GroupPath, child: AnyPodGroup, state: TreeState, sign: int) -> None:
        """Count a group in it, or not any more."""
        if sign > 0:
            self.children[key] = child
        else:
            self.children.pop(key, None)
        self.levels[state.levels] += sign
        for trait in _traits(child):
            self.traits[trait] += sign
            if not self.traits[trait]:
                del self.traits[trait]
        self.pod_groups += sign * state.pod_groups
        self.pods_in += sign * state.pods
        self.met += sign * state.is_met
        self.wrong += sign * state.is_wrong
        if state.has_few and sign > 0:
            insort(self.few, key)
        elif state.has_few:
            del self.few[bisect_left(self.few, key)]
        if state.has_waiting and sign > 0:
            self.with_waiting[key] = None
        else:
            self.with_waiting.pop(key, None)

    def now(self) -> TreeState:
        """As the counts say."""
        group = self.group
        if isinstance(group, PodGroup):
            is_met = self.pods >= (group.minimum or 1)
            return TreeState(1, 0, 1, self.pods, is_met, self.is_odd, not is_met, self.is_waiting)
        levels = 1 + max((levels for levels, groups in self.levels.items() if groups), default=1)
        if levels > MOST_LEVELS:
            return _TOO_DEEP
        return TreeState(
            levels,
            len(self.children),
            self.pod_groups,
            self.pods_in,
            group is not None and self.met >= (group.minimum or 1),
            self.is_odd or self.wrong > 0 or self.pod_groups > MOST_POD_GROUPS or self._is_uneven(),
            bool(self.few),
            bool(self.with_waiting),
        )

    def _is_uneven(self) -> bool:
        """Whether a group in it has not in common with it what it has to have."""
        own = self.group
        if own is None or not self.children:
            return False
        return (
            self.traits[_same(own)] < len(self.children)
            or (own.minimum is not None and self.traits[_BASIC] > 0)
            or (own.goes_whole and self.traits[_SINGLE] > 0)
        )


_BASIC, _SINGLE = "basic", "single"


def _same(group: AnyPodGroup) -> tuple[object, ...]:
    return group.workload, group.priority or 0, group.preempts


def _traits(group: AnyPodGroup) -> Iterable[object]:
    yield _same(group)
    if group.minimum is None:
        yield _BASIC
    if not group.goes_whole:
        yield _SINGLE


def _key_of(group: AnyPodGroup) -> _GroupPath:
    return _GroupPath(group.namespace, group.name, type(group).__name__)


class PodGroupIndex:
    """The groups by namespace and name."""

    def __init__(self) -> None:
        self._nodes: dict[_GroupPath, _GroupNode] = {}

    def set(self, group: AnyPodGroup) -> None:
        """The group is there, or has changed."""
        self._put(_key_of(group), group)

    def remove(self, group: AnyPodGroup) -> None:
        """The group is gone."""
        self._put(_key_of(group), None)

    def count(self, namespace: str, name: str, pods: int, *, is_waiting: bool = False) -> None:
        """The PodGroup of that name, which may not be there, has so many pods. is_waiting: some have no node."""
        key = _GroupPath(namespace, name, PodGroup.__name__)
        node = self._nodes.setdefault(key, _GroupNode())
        node.pods, node.is_waiting = pods, is_waiting
        self._update(key)

    def state(self, namespace: str, name: str) -> TreeState:
        """What the group of groups of that name has, by the pods that were counted. Cost: O(1)."""
        node = self._nodes.get(_GroupPath(namespace, name, CompositePodGroup.__name__))
        return node.state if node else NOTHING

    def first_with_few(self, namespace: str, name: str) -> tuple[PodGroup, int] | None:
        """The first PodGroup in the group of groups that has too few pods, and how many. Cost: O(levels)."""
        node = self._nodes.get(_GroupPath(namespace, name, CompositePodGroup.__name__))
        while node is not None and node.few:
            node = self._nodes[node.few[0]]
        return (node.group, node.pods) if node and isinstance(node.group, PodGroup) else None

    def with_waiting(self, namespace: str, name: str) -> Iterator[str]:
        """The PodGroups in the group of groups that have pods without a node; none where it is too deep."""
        node = self._nodes.get(_GroupPath(namespace, name, CompositePodGroup.__name__))
        for child in node.with_waiting if node else ():
            if child.kind == PodGroup.__name__:
                yield child.name
            else:
                yield from self.with_waiting(namespace, child.name)

    def get(self, namespace: str, name: str) -> PodGroup | None:
        """The group of that name."""
        node = self._nodes.get(_GroupPath(namespace, name, PodGroup.__name__))
        return node.group if node and isinstance(node.group, PodGroup) else None

    def composite(self, namespace: str, name: str) -> CompositePodGroup | None:
        """The group of groups of that name."""
        node = self._nodes.get(_GroupPath(namespace, name, CompositePodGroup.__name__))
        return node.group if node and isinstance(node.group, CompositePodGroup) else None

    def of(self, pod: Pod) -> PodGroup | None:
        """The group of the pod, None where it is in none, or that is not there."""
        return self.get(pod.namespace, pod.group) if pod.group else None

    # -- what each has

    def _put(self, key: _GroupPath, group: AnyPodGroup | None) -> None:
        node = self._nodes.setdefault(key, _GroupNode())
        old, node.group, node.is_odd = node.group, None, False
        if old is not None and (parent := _parent_of(old)):
            self._nodes[parent].add(key, old, node.state, -1)
            self._update(parent)
        if group is not None:
            node = self._nodes.setdefault(key, node)  # one that is in itself may be gone by now
            node.group, node.is_odd = group, _is_odd(group)
            if parent := _parent_of(group):
                self._nodes.setdefault(parent, _GroupNode()).add(key, group, node.state, 1)
                self._update(parent)
        self._update(key)

    def _update(self, key: _GroupPath) -> None:
        """Say in the groups around it what it has now, as far as that is news. Cost: O(levels)."""
        at: _GroupPath | None = key
        while at is not None and (node := self._nodes.get(at)) is not None:
            before, node.state = node.state, node.now()
            if node.is_empty:
                del self._nodes[at]
            if before == node.state or node.group is None:
                return
            if (parent := _parent_of(node.group)) is not None:
                around = self._nodes[parent]
                around.add(at, node.group, before, -1)
                around.add(at, node.group, node.state, 1)
            at = parent

    # -- trees

    def children_of(self, key: NamespacedName) -> list[AnyPodGroup]:
        """The groups in that group of groups, by name."""
        node = self._nodes.get(_GroupPath(*key, CompositePodGroup.__name__))
        return [child for _, child in sorted(node.children.items(), key=_first)] if node else []

    def pod_groups_in(self, key: NamespacedName) -> list[PodGroup]:
        """The PodGroups in that group of groups, and in those in it, as deep as one is from its `root_name`."""
        pod_groups, level, seen = list[PodGroup](), [key], {key}
        for _ in range(MOST_LEVELS):
            children = [child for one in level for child in self.children_of(one)]
            pod_groups += [child for child in children if isinstance(child, PodGroup)]
            level = [child.key for child in children if isinstance(child, CompositePodGroup) and child.key not in seen]
            seen.update(level)
        return pod_groups

    def above(self, group: AnyPodGroup) -> list[CompositePodGroup]:
        """The groups of groups that it is in, from its own on, each once; as far as they are there.

        No more than one has whose tree is refused for being too deep.
        """
        around: dict[NamespacedName, CompositePodGroup] = {}
        parent = self.composite(group.namespace, group.parent) if group.parent else None
        while parent is not None and parent.key not in around and len(around) < MOST_LEVELS:
            around[parent.key] = parent
            parent = self.composite(parent.namespace, parent.parent) if parent.parent else None
        return list(around.values())

    def root_name(self, group: AnyPodGroup) -> str:
        """The name of the outermost group of groups that it is in, "" where it is in none; it may not be there.

        Of those that are in one another the first by name. Where there are more around it than a tree has, one whose
        tree is too deep.
        """
        above = self.above(group)
        if not above:
            return group.parent
        last = above[-1]
        if any(one.name == last.parent for one in above):
            return min(one.name for one in self.above(last))
        is_cut = last.parent and self.composite(last.namespace, last.parent) is not None
        return last.name if is_cut else last.parent or last.name

    def is_in_a_circle(self, group: CompositePodGroup) -> bool:
        """Whether it is in itself."""
        return group in self.above(group)

    def whole_of(self, pod: Pod) -> AnyPodGroup | None:
        """The largest group around the pod that is evicted only together."""
        own = self.of(pod)
        around: list[AnyPodGroup] = [own, *self.above(own)] if own is not None else []
        return next((one for one in reversed(around) if one.goes_whole), None)


def _first(item: tuple[_GroupPath, AnyPodGroup]) -> _GroupPath:
    return item[0]


def _parent_of(group: AnyPodGroup | None) -> _GroupPath | None:
    return _GroupPath(group.namespace, group.parent, CompositePodGroup.__name__) if group and group.parent else None


def _is_odd(group: AnyPodGroup) -> bool:
    terms, errors = group_terms(group.annotations)
    return bool(errors) or terms != GroupTerms(terms.required)
