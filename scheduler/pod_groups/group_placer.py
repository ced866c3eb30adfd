"""A group and its place: which of its members are placed, in which domain, and where; or what is missing.

Members in their order are greedily put on the best nodes, as most groups fit so. Only where that leaves one out, a
complete search says which subset has a place at once. A refused group takes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from allocator.bits import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.plugins.plugin import Refusal
from scheduler.pod_groups.group import GroupOfPods, group_of, key_of
from scheduler.pod_groups.group_members import GroupMembers, Member
from scheduler.pod_groups.group_result import (
    GroupDomain,
    GroupNotPlaced,
    GroupPlaced,
    GroupResult,
    GroupSteps,
    GroupUnknown,
    OutOfGroupSteps,
    PlacedMember,
)
from scheduler.pod_groups.group_search import (
    CountedSearch,
    GroupSearch,
    Placement,
    TreeSearch,
    best_subset,
    states_of,
)
from scheduler.state.claims import Waiting, full

GROUP_STEPS = 100_000
"""Steps of the search for one group; each is a question to a node, or a member that is put somewhere."""


def place_group(cluster: Cluster, group: GroupOfPods, most_steps: int = GROUP_STEPS) -> GroupResult:
    """What becomes of the group as things are; the cluster is afterwards what it was.

    Raises AllocationError, TooLong. Cost: a decision for each member if they fit one after the other; else as many
    steps as it takes, and no more than allowed.
    """
    if group.problem or group.held:
        return GroupNotPlaced(group.problem or group.held, held=not group.problem)
    members, unready = ready_members(cluster, group)
    if len(members) < group.missing:
        reason = next(iter(unready.values()), "no member waits for a node")
        return GroupNotPlaced(reason, held=True, needed=group.missing)
    steps = GroupSteps(most_steps)
    try:
        with cluster.time_limit.limited():
            return _GroupPlacer(cluster, group, members, steps).result()
    except OutOfGroupSteps:
        return GroupUnknown(most_steps)


def ready_members(cluster: Cluster, group: GroupOfPods) -> tuple[list[Member], Mapping[str, str]]:
    """The waiting members that can be placed now, and why the others cannot, by uid."""
    ready: list[Member] = []
    unready: dict[str, str] = {}
    for pod in group.waiting:
        claims = cluster.claims_of(pod)
        if pod.gates:
            unready[pod.uid] = f"pod {pod}: scheduling is gated by {', '.join(pod.gates)}"
        elif isinstance(claims, Waiting):
            unready[pod.uid] = f"pod {pod}: {claims.reason}"
        else:
            ready.append(Member(pod, tuple(one.claim for one in claims), tuple(full(pod, claims))))
    return ready, unready


@dataclass(frozen=True, slots=True)
class _NodeDomain:
    """Nodes with one value of a label; all nodes where the name is empty."""

    name: str
    nodes: Mask


_SubsetInDomain = tuple[_NodeDomain, GroupSearch, list[int]]
"""A domain with the members that are placed there."""


class _GroupPlacer:
    def __init__(self, cluster: Cluster, group: GroupOfPods, members: Sequence[Member], steps: GroupSteps) -> None:
        self._cluster = cluster
        self._group = group
        self._steps = steps
        self._members = GroupMembers(cluster, members, [cluster.fleet.all] * len(members))

    def result(self) -> GroupResult:
        """Raises OutOfGroupSteps."""
        domains = self._required()
        if isinstance(domains, str):
            return GroupNotPlaced(domains, needed=self._group.missing)
        everyone = list(range(len(self._members)))
        if (
            len(domains) == 1
            and not self._group.terms.preferred
            and (placement := self._one_by_one(everyone, domains[0]))
        ):
            return self._placed(placement, domains[0])
        searches = list(zip(domains, self._searches(domains), strict=True))
        subsets = [
            (domain, search, subset) for domain, search in searches if (subset := self._subset(search)) is not None
        ]
        if not subsets:
            return GroupNotPlaced(
                needed=self._group.missing,
                domains=sorted(
                    (self._why_not(domain, search) for domain, search in searches),
                    key=lambda one: (-len(one.largest), one.name),
                ),
                steps=self._steps.taken,
            )
        greatest = max(_rank(subset, everyone) for _, _, subset in subsets)
        best = [one for one in subsets if _rank(one[2], everyone) == greatest]
        domain, search, subset = self._narrowest([one[0] for one in best], best[0][2]) or min(best, key=self._fullest)
        return self._placed(self._one_by_one(subset, domain) or search.placement(subset), domain)

    def _subset(self, search: GroupSearch) -> list[int] | None:
        return best_subset(self._members, self._group.missing, search, self._steps)

    def _placed(self, found: Placement, domain: _NodeDomain) -> GroupPlaced:
        there = {one.pod.uid for one in found}
        left = tuple(pod for pod in self._group.waiting if pod.uid not in there)
        return GroupPlaced(tuple(found), left, domain.name, self._steps.taken)

    def _one_by_one(self, places: Sequence[int], domain: _NodeDomain) -> Placement | None:
        """Each member on the best node there; None as soon as one has none."""
        placement: list[PlacedMember] = []
        with ExitStack() as undo:
            for place in places:
                cycle = self._members.cycle(place)
                number = None if cycle.refused_everywhere() else cycle.best(domain.nodes)
                if number is None:
                    return None
                assert cycle.pod is not None
                member = PlacedMember(cycle.pod, cycle.placed(number))
                placement.append(member)
                undo.enter_context(self._cluster.assumed(member.pod, member.placed))
        return placement

    # -- domains

    def _required(self) -> list[_NodeDomain] | str:
        """The domains of which one has to have all members, or why there is none."""
        key = self._group.terms.required
        if not key:
            return [_NodeDomain("", self._cluster.fleet.all)]
        domains = self._domains(key)
        if not domains:
            return f"no node has the label {key}, by which group {self._group} is to be kept together"
        begun = {self._value(pod.node_name, key) for pod in self._group.bound}
        if len(begun) > 1:
            return f"pods of group {self._group} are already in several domains of {key}: {', '.join(sorted(begun))}"
        taken = self._taken(key)
        left = [one for one in domains if one.name not in taken and (not begun or one.name in begun)]
        if not left:
            names = ", ".join(sorted({str(other) for other in taken.values()}))
            return f"every domain of {key} is taken by other groups that are exclusive there: {names}"
        return left

    def _domains(self, key: str) -> list[_NodeDomain]:
        """By the values of the label; nodes without it, or with an empty one, are in none."""
        nodes_by_value: dict[str, Mask] = {}
        for number in bits(self._cluster.fleet.all):
            if value := self._cluster.fleet.node(number).labels.get(key):
                nodes_by_value[value] = nodes_by_value.get(value, 0) | 1 << number
        return [_NodeDomain(value, nodes) for value, nodes in sorted(nodes_by_value.items())]

    def _value(self, node: str, key: str) -> str:
        stored = self._cluster.node(node)
        return stored.labels.get(key, "") if stored else ""

    def _taken(self, key: str) -> Mapping[str, GroupOfPods]:
        """The domains that are closed to the group, with the group in the way."""
        own, taken = self._group, dict[str, GroupOfPods]()
        for number, pod in self._cluster.pods.on_nodes():
            if (other := key_of(pod)) is None or other == own.key:
                continue
            group = group_of(other, [pod], self._cluster.pod_groups)
            if group.terms.required == key and (group.terms.exclusive or own.terms.exclusive):
                taken[self._cluster.fleet.node(number).labels.get(key, "")] = group
        return taken

    def _narrowest(
        self, within: Sequence[_NodeDomain], subset: list[int]
    ) -> tuple[_NodeDomain, GroupSearch, list[int]] | None:
        """The preferred domain, of the narrowest level that has one, with the whole subset; None where no level has."""
        for key in reversed(self._group.terms.preferred):
            split = [
                replace(own, nodes=both)
                for outer in within
                for own in self._domains(key)
                if (both := own.nodes & outer.nodes)
            ]
            searches = zip(split, self._searches(split), strict=True)
            fitting = [(domain, search, subset) for domain, search in searches if search.fits(subset)]
            if fitting:
                return min(fitting, key=self._fullest)
        return None

    def _fullest(self, found: _SubsetInDomain) -> tuple[float, str]:
        """The least share of cpu and memory that is free goes first, so that large domains stay whole."""
        domain = found[0]
        numbers = list(bits(domain.nodes))
        free = 0.0
        for name in ("cpu", "memory"):
            column = self._cluster.infos.columns[name]
            free += float(column.free[numbers].sum()) / max(float(column.allocatable[numbers].sum()), 1.0)
        return free, domain.name

    def _searches(self, domains: Sequence[_NodeDomain]) -> Iterator[GroupSearch]:
        """One for each domain; what is known of kinds of nodes is known in all."""
        members = self._members
        if not members.are_independent:
            yield from (TreeSearch(members, self._steps, domain.nodes) for domain in domains)
            return
        kinds = list(members.kinds().values())
        states = states_of(members, kinds, self._steps)
        place_of = {number: place for place, domain in enumerate(domains) for number in bits(domain.nodes)}
        split: list[list[list[int]]] = [[[] for _ in kinds] for _ in domains]
        for kind, numbers in enumerate(kinds):
            for number in numbers:
                if (place := place_of.get(number)) is not None:
                    split[place][kind].append(number)
        yield from (CountedSearch(members, states, own) for own in split)

    # -- why not

    def _why_not(self, domain: _NodeDomain, search: GroupSearch) -> GroupDomain:
        subset = best_subset(self._members, 0, search, self._steps) or []
        left = [place for place in range(len(self._members)) if place not in subset]
        largest = tuple(self._members.members[place].pod for place in subset)
        with ExitStack() as undo:
            for member in search.placement(subset):
                undo.enter_context(self._cluster.assumed(member.pod, member.placed))
            if not left:
                return GroupDomain(domain.name, largest)
            return GroupDomain(
                domain.name, largest, self._members.members[left[0]].pod, self._refusal(left[0], domain.nodes)
            )

    def _refusal(self, place: int, nodes: Mask) -> Refusal:
        """Why none of these nodes has a place for the member beside those that are assumed."""
        cycle = self._members.cycle(place)
        if refused := cycle.refused_everywhere():
            return cycle.refused_by_all_nodes(*refused, nodes).refusal
        return cycle.not_placed(nodes).refusal


def _rank(subset: Sequence[int], everyone: Sequence[int]) -> tuple[bool, ...]:
    """The greatest is the subset to be placed."""
    return tuple(place in subset for place in everyone)


def missing_text(found: GroupNotPlaced, members: Sequence[Pod]) -> str:
    """One refusal for the group: the largest subset that fits, who is the next, and what is missing, by domain."""
    if found.problem:
        return found.problem
    lines = [_of_domain(one, len(members)) for one in found.domains[:_MOST_DOMAINS]]
    more = len(found.domains) - len(lines)
    also = f"; {more} more domains" if more else ""
    return f"{found.needed} of {len(members)} pods have to fit at once: {'; '.join(lines)}{also}"


_MOST_DOMAINS = 3


def _of_domain(one: GroupDomain, count: int) -> str:
    where = f"in {one.name}, " if one.name else ""
    if one.next_member is None:
        return f"{where}{len(one.largest)} of {count} fit"
    return f"{where}{len(one.largest)} of {count} fit; pod {one.next_member.name}: {one.why}"
