"""Groups of groups: what a CompositePodGroup asks of the groups in it, down to those that have pods.

A tree is placed as one group whose members are those of all its PodGroups. Each group in it has all it needs, or none
of its members is placed; and it keeps to a domain of its own where it says so.
Source: KEP-5732's CompositePodGroup; kube-scheduler 1.38's validatePodGroupHierarchy.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from allocator.words import agreeing
from scheduler.core_v1.group_terms import GroupTerms
from scheduler.core_v1.pod_group import AnyPodGroup, CompositePodGroup, PodGroup
from scheduler.state.pods import PodGroupIndex

MOST_LEVELS = 4
"""Of a tree, with that of its PodGroups."""

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

    def lacking(self, counts: PodCounts) -> str:
        """Which of its groups has too few pods, with how many it has."""
        leaf = next((one for one in self.pod_groups if not one.is_met(counts)), None)
        if leaf is None:
            return f"it has {len(self.children or ())} of {self.minimum} groups"
        return f"PodGroup {leaf.name} has {counts.get(leaf.name, 0)} of {leaf.minimum} pods"


Terms = Callable[[PodGroup], tuple[GroupTerms, str]]


def tree_of(root: CompositePodGroup, index: PodGroupIndex, terms_of: Terms) -> tuple[GroupTree, str]:
    """The tree, and what is wrong with it, if anything. terms_of: where pods of a PodGroup go, and what is wrong."""
    problems: list[str] = []

    def read(group: AnyPodGroup, above: tuple[CompositePodGroup, ...]) -> GroupTree:
        problems.extend(_problems(group, above))
        required = group.topology[0] if group.topology else ""
        if isinstance(group, PodGroup):
            terms, problem = terms_of(group)
            if not problem and terms != GroupTerms(terms.required):
                problem = "in a CompositePodGroup, only annotation dra-scheduler.dev/topology-required is supported"
            problems.extend([f"PodGroup {group}: {problem}"] if problem else [])
            return GroupTree(group.name, group.minimum or 1, required or terms.required)
        is_too_deep = len(above) >= MOST_LEVELS - 1
        below = () if is_too_deep else (read(child, (*above, group)) for child in index.children_of(group.key))
        return GroupTree(group.name, group.minimum or 1, required, tuple(below))

    if index.is_in_a_circle(root):
        return GroupTree(root.name, 1, children=()), f"CompositePodGroup {root}: is an ancestor of itself"
    tree = read(root, ())
    return tree, next(iter(problems), "")


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
