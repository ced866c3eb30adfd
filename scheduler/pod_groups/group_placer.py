"""A group and its place: which of its members are placed, in which domain, and where; or what is missing.

Members in their order are greedily put on the best nodes, as most groups fit so. Only where that leaves one out, a
complete search says which subset has a place at once. A refused group takes nothing.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import and_

from allocator.bits import Mask, bits, union
from allocator.model import Claim
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.device_terms import NOBODYS, ChosenValues, DeviceTerms
from scheduler.decision.pod_cycle import PodCycle, classes_of
from scheduler.plugins.plugin import OF_GROUP, Refusal
from scheduler.pod_groups.group import COMPOSITE, POD_GROUP, GroupKey, GroupOfPods, group_of, key_of
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
    NO_RUN,
    NOWHERE,
    CountedSearch,
    GroupSearch,
    LimitedSearch,
    NodesByKind,
    Placeable,
    Placement,
    RunsOfMembers,
    SliceSearch,
    TreeSearch,
    begun_of,
    best_subset,
    left_in_runs,
    states_of,
)
from scheduler.pod_groups.packing import Packing
from scheduler.state.claims import Waiting, full
from scheduler.state.pods import pod_requests

GROUP_STEPS = 100_000
"""Steps of the search for one group; each is a question to a node, or a member that is put somewhere."""


ReadyMembers = tuple[Sequence[Member], Mapping[str, str]]
"""The members that can be placed now, and by uid why the others cannot."""


def place_group(
    cluster: Cluster,
    group: GroupOfPods,
    most_steps: int = GROUP_STEPS,
    ready: ReadyMembers | None = None,
    within: Mask = -1,
) -> GroupResult:
    """What becomes of the group as things are; the cluster is afterwards what it was.

    ready: as `ready_members` answers, which is asked where it is left out. within: the nodes that it may have.
    Raises AllocationError, TooLong. Cost: a decision for each member if they fit one after the other; else as many
    steps as it takes, and no more than allowed.
    """
    if group.problem or group.held:
        return GroupNotPlaced(group.problem or group.held, held=not group.problem)
    steps = GroupSteps(most_steps, cluster.time_limit.look)
    try:
        with cluster.time_limit.limited():
            members, unready = ready or ready_members(cluster, group)
            if placeable_of(group, members)(range(len(members))) is None:
                reason = next(iter(unready.values()), "no member waits for a node")
                return GroupNotPlaced(reason, held=True, needed=group.missing)
            return _GroupPlacer(cluster, group, members, steps, cluster.fleet.all & within).result()
    except OutOfGroupSteps:
        return GroupUnknown(most_steps)


def placeable_of(group: GroupOfPods, members: Sequence[Member]) -> Placeable:
    """Which of some of these members may be placed if no others are."""
    if (tree := group.tree) is None:
        missing = group.missing
        return lambda places: list(places) if len(places) >= missing else None
    bound = group.counts(group.bound)

    def enough(places: Sequence[int]) -> list[int] | None:
        staying = tree.staying(bound + group.counts(members[place].pod for place in places))
        return [place for place in places if members[place].pod.group in staying] or None

    return enough


MOST_CLAIMS = 1 << 14
"""Entries of all waiting pods of a group together: for each the whole claim is held while the group is written."""


def ready_members(cluster: Cluster, group: GroupOfPods) -> ReadyMembers:
    """The waiting members that can be placed now, and why the others cannot, by uid."""
    if (number := sum(len(pod.claims) for pod in group.waiting)) > MOST_CLAIMS:
        # Differs from kube-scheduler, which resolves any number.
        entries = f"{number:,} entries in spec.resourceClaims of its pods"
        reason = f"group {group} has {entries}; at most {MOST_CLAIMS:,} are looked at"
        return [], {pod.uid: reason for pod in group.waiting}
    ready: list[Member] = []
    unready: dict[str, str] = {}
    joining: Counter[str] = Counter()
    for pod in group.waiting:
        cluster.time_limit.look()
        claims = cluster.claims_of(pod)
        if pod.gates:
            unready[pod.uid] = f"pod {pod}: scheduling is gated by {', '.join(pod.gates)}"
        elif isinstance(claims, Waiting):
            unready[pod.uid] = f"pod {pod}: {claims.reason}"
        else:
            ready.append(Member(pod, tuple(one.claim for one in claims), tuple(full(pod, claims, joining))))
    return ready, unready


@dataclass(frozen=True, slots=True)
class _NodeDomain:
    """Nodes with one value of a label; all nodes where the name is empty. values: that devices there are to have."""

    name: str
    nodes: Mask
    values: ChosenValues = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """As a refusal names it."""
        return ", ".join(filter(None, [self.name, *(f"{name} {value}" for name, (_, value) in self.values.items())]))


_SubsetInDomain = tuple[_NodeDomain, GroupSearch, list[int]]
"""A domain with the members that are placed there."""


class _GroupPlacer:
    def __init__(
        self, cluster: Cluster, group: GroupOfPods, members: Sequence[Member], steps: GroupSteps, within: Mask
    ) -> None:
        self._within = within
        self._cluster = cluster
        self._group = group
        self._steps = steps
        self._terms = DeviceTerms(cluster.fleet, group.terms, cluster.time_limit.look)
        everywhere = [within] * len(members)
        bound = list(_claims_of(cluster, group.bound))
        self._members = GroupMembers(cluster, members, everywhere, terms=self._terms, bound=bound)
        self._placeable = placeable_of(group, members)
        self._by_values: dict[Hashable, GroupMembers] = {}
        self._of_runs: Sequence[_NodeDomain] = ()

    def result(self) -> GroupResult:
        """Raises OutOfGroupSteps."""
        domains = self._required()
        if isinstance(domains, str):
            return GroupNotPlaced(domains, needed=self._group.missing)
        everyone = list(range(len(self._members)))
        if (
            len(domains) == 1
            and not self._group.terms.preferred
            and (placement := self._one_by_one(self._placeable(everyone) or (), domains[0]))
        ):
            return self._placed(placement, domains[0])
        if self._terms.matches:
            domains = [one for domain in domains for one in self._with_values(domain)]
        searches = list(zip(domains, self._searches(domains), strict=True))
        subsets = [
            (domain, search, subset)
            for domain, search in searches
            if (subset := self._subset(domain, search)) is not None
        ]
        if not subsets:
            return self._without_attribute(domains) or GroupNotPlaced(
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

    def _without_attribute(self, domains: Sequence[_NodeDomain]) -> GroupNotPlaced | None:
        """Where it is an attribute that nobody has which keeps them out."""
        unknown = [{name for name, value in one.values.items() if value == NOBODYS} for one in domains]
        if not (names := reduce(and_, unknown)):
            return None
        problem = f"no device has the attribute {', '.join(sorted(names))}"
        return GroupNotPlaced(
            f"{problem}, which the devices of group {self._group} must have in common", needed=self._group.missing
        )

    def _subset(self, domain: _NodeDomain, search: GroupSearch) -> list[int] | None:
        return best_subset(self._members_in(domain), self._placeable, search, self._steps, self._runs)

    def _with_values(self, domain: _NodeDomain) -> Iterator[_NodeDomain]:
        claims = (claim for member in self._members.members for claim in member.claims)
        for values in self._terms.choices(domain.nodes, claims):
            self._steps.take()
            yield replace(domain, values=values)

    def _members_in(self, domain: _NodeDomain) -> GroupMembers:
        """The members, with the values that are chosen there."""
        if not domain.values:
            return self._members
        key = frozenset(domain.values.items())
        if key not in self._by_values:
            self._by_values[key] = self._members.choosing(domain.values)
        return self._by_values[key]

    def _placed(self, found: Placement, domain: _NodeDomain) -> GroupPlaced:
        there = {one.pod.uid for one in found}
        left = tuple(pod for pod in self._group.waiting if pod.uid not in there)
        return GroupPlaced(tuple(found), left, domain.name, self._steps.taken)

    def _one_by_one(self, places: Sequence[int], domain: _NodeDomain) -> Placement | None:
        """Each member on the best node there; None as soon as one has none, and where some are kept together."""
        if self._kept:
            return None
        members = self._members_in(domain)
        placement: list[PlacedMember] = []
        with ExitStack() as undo:
            for place in places:
                cycle = members.cycle(place)
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
        labels = {one.required: f"{one.kind} {one.name}" for one in (self._group.tree.all if self._group.tree else ())}
        for label, name in {key: f"group {self._group}", **labels}.items():
            if label and not self._domains(label):
                return f"no node has the label {label}, by which {name} must be kept together"
        if not key:
            return [_NodeDomain("", self._within)]
        domains = self._domains(key)
        begun = {self._value(pod.node_name, key) for pod in self._group.bound}
        if self._group.terms.slice_size:
            begun = set()
        if len(begun) > 1:
            return f"pods of group {self._group} are already in several domains of {key}: {', '.join(sorted(begun))}"
        taken = self._taken(key)
        left = [one for one in domains if one.name not in taken and (not begun or one.name in begun)]
        if not left:
            names = ", ".join(sorted({str(other) for other in taken.values()}))
            return f"every domain of {key} is taken by other groups that are exclusive there: {names}"
        if self._group.terms.slice_size:
            self._of_runs = left
            return [_NodeDomain("", union(one.nodes for one in left))]
        return left

    def _domains(self, key: str) -> list[_NodeDomain]:
        """By the values of the label; nodes without it, or with an empty one, are in none."""
        by_value = self._cluster.fleet.table.by_value(key)
        domains = ((value, by_value[value].nodes & self._within) for value in sorted(by_value) if value)
        return [_NodeDomain(value, nodes) for value, nodes in domains if nodes]

    def _value(self, node: str, key: str) -> str:
        stored = self._cluster.node(node)
        return stored.labels.get(key, "") if stored else ""

    def _taken(self, key: str) -> Mapping[str, GroupOfPods]:
        """The domains that are closed to the group, with the group in the way."""
        own, taken, index = self._group, dict[str, GroupOfPods](), self._cluster.pod_groups
        trees: dict[GroupKey, GroupOfPods] = {}  # each is read once, and not for each of its pods
        for number, pod in self._cluster.pods.on_nodes():
            self._cluster.time_limit.look()
            if (other := key_of(pod, index)) is None or other == own.key:
                continue
            group = trees.get(other) or group_of(other, [pod], index)
            if group.tree:
                trees[other] = group
            keys = {group.terms.required, *(one.required for one in (group.tree.all if group.tree else ()))}
            if key in keys and (group.terms.exclusive or own.terms.exclusive):
                taken[self._cluster.fleet.node(number).labels.get(key, "")] = group
        return taken

    def _narrowest(
        self, within: Sequence[_NodeDomain], subset: list[int]
    ) -> tuple[_NodeDomain, GroupSearch, list[int]] | None:
        """The preferred domain, of the narrowest level that has one, with the whole subset; None where no level has."""
        for key in reversed(self._group.terms.preferred):
            domains, split = self._domains(key), list[_NodeDomain]()
            for outer in within:
                self._cluster.time_limit.look()
                inner = [(own, both) for own in domains if (both := own.nodes & outer.nodes)]
                split += [replace(own, nodes=both, values=outer.values) for own, both in inner]
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
        """One for each domain; what is known of kinds of nodes is known in all of the same values."""
        by_members: dict[int, list[_NodeDomain]] = {}
        for domain in domains:
            by_members.setdefault(id(self._members_in(domain)), []).append(domain)
        by_domain: dict[int, GroupSearch] = {}
        for own in by_members.values():
            members = self._members_in(own[0])
            searches = map(self._in_runs, own) if self._kept else self._of_domains(members, own)
            by_domain.update((id(domain), search) for domain, search in zip(own, searches, strict=True))
        yield from (by_domain[id(domain)] for domain in domains)

    def _of_domains(self, members: GroupMembers, domains: Sequence[_NodeDomain]) -> Iterator[GroupSearch]:
        if not members.are_independent:
            yield from (TreeSearch(members, self._steps, domain.nodes) for domain in domains)
            return
        kinds = list(members.kinds().values())
        states = states_of(members, kinds, self._steps)
        kind_of = _kind_of(kinds)
        packings: dict[Hashable, Packing] = {}
        for domain in domains:
            self._cluster.time_limit.look()
            split = _split(kind_of, domain.nodes)
            # Domains with as many nodes of each kind have the same answers.
            counts = _counts(split)
            if counts not in packings:
                packings[counts] = Packing(states, dict(counts), len(members.by_class), members.weights)
            counted = CountedSearch(members, packings[counts], split)
            tree = TreeSearch(members, self._steps, domain.nodes)
            yield LimitedSearch(members, counted, tree) if members.limits else counted

    @cached_property
    def _kept(self) -> Sequence[tuple[Mapping[str, int], Sequence[_NodeDomain]]]:
        """Which members are in one domain with which others, inside of the group: by uid their run; and the domains."""
        members = self._group.members
        if size := self._group.terms.slice_size:
            return [({pod.uid: place // size for place, pod in enumerate(members)}, self._of_runs)]
        by_label: dict[str, dict[str, int]] = {}
        by_group: dict[str, list[Pod]] = {}
        for pod in members:
            by_group.setdefault(pod.group, []).append(pod)
        kept = self._group.tree.kept(frozenset({self._group.terms.required})) if self._group.tree else ()
        for run, (label, names) in enumerate(kept):
            inside = (pod for name in names for pod in by_group.get(name, ()))
            by_label.setdefault(label, {}).update((pod.uid, run) for pod in inside)
        return [(run_of, self._domains(label)) for label, run_of in by_label.items()]

    @cached_property
    def _runs(self) -> Sequence[Hashable]:
        """Of the members that wait: those of different ones cannot be exchanged. None where all can."""
        waiting = [member.pod for member in self._members.members]
        if self._group.tree:
            return [pod.group for pod in waiting]
        return [run_of[pod.uid] for run_of, _ in self._kept for pod in waiting]

    def _runs_in(self, whole: _NodeDomain) -> tuple[list[RunsOfMembers], list[_NodeDomain]]:
        """For each label the runs with the domains that they have there; and the domains of the last one."""
        runs, domains = [], list[_NodeDomain]()
        for run_of, everywhere in self._kept:
            domains = [replace(one, nodes=both) for one in everywhere if (both := one.nodes & whole.nodes)]
            domain_of = {number: at for at, one in enumerate(domains) for number in bits(one.nodes)}
            homes: dict[int, int] = {}
            for pod in self._group.bound:
                if (run := run_of.get(pod.uid)) is not None:
                    number = self._cluster.number_of(pod.node_name)
                    home = NOWHERE if number is None else domain_of.get(number, NOWHERE)
                    homes[run] = home if homes.get(run, home) == home else NOWHERE
            own = [run_of.get(member.pod.uid, NO_RUN) for member in self._members.members]
            runs.append(RunsOfMembers(own, homes, [one.nodes for one in domains]))
        return runs, domains

    def _in_runs(self, whole: _NodeDomain) -> GroupSearch:
        """Each run of members in one of the domains."""
        members = self._members_in(whole)
        runs, domains = self._runs_in(whole)
        if len(runs) > 1 or NO_RUN in runs[0].runs or not members.are_independent or members.limits:
            return TreeSearch(members, self._steps, whole.nodes, runs)
        kind_of = _kind_of(list(members.kinds().values()))
        alike = [_counts(_split(kind_of, one.nodes)) for one in domains]
        searches = list(self._of_domains(members, domains))
        return SliceSearch(members, searches, alike, runs=runs[0].runs, homes=runs[0].homes, steps=self._steps)

    # -- why not

    def _why_not(self, domain: _NodeDomain, search: GroupSearch) -> GroupDomain:
        members = self._members_in(domain)
        subset = best_subset(members, list, search, self._steps, self._runs) or []
        left = [place for place in range(len(members)) if place not in subset]
        largest = tuple(members.members[place].pod for place in subset)
        placement, (runs, _) = search.placement(subset), self._runs_in(domain)
        with ExitStack() as undo:
            for member in placement:
                undo.enter_context(self._cluster.assumed(member.pod, member.placed))
            if not left:
                return GroupDomain(domain.text, largest)
            # Why none of these nodes has a place for the member beside those that are assumed.
            nodes = left_in_runs(domain.nodes, runs, left[0], begun_of(runs, members, subset, placement))
            pod = members.members[left[0]].pod
            child = f"{POD_GROUP} {pod.group}" if self._group.tree else ""
            return GroupDomain(domain.text, largest, pod, refusal_of(members.cycle(left[0]), nodes), child)


def _claims_of(cluster: Cluster, pods: Iterable[Pod]) -> Iterator[Claim]:
    for pod in pods:
        claims = cluster.claims_of(pod)
        if not isinstance(claims, Waiting):
            yield from (one.claim for one in claims)


def _kind_of(kinds: Sequence[Sequence[int]]) -> Mapping[int, int]:
    return {number: kind for kind, numbers in enumerate(kinds) for number in numbers}


def _split(kind_of: Mapping[int, int], nodes: Mask) -> NodesByKind:
    """Those of the nodes, by kind in its order. Cost: O(nodes): where each is a kind of its own, so is each domain."""
    split: dict[int, list[int]] = {}
    for number in bits(nodes):
        if (kind := kind_of.get(number)) is not None:
            split.setdefault(kind, []).append(number)
    return dict(sorted(split.items()))


def _counts(split: NodesByKind) -> tuple[tuple[int, int], ...]:
    return tuple((kind, len(numbers)) for kind, numbers in split.items())


def refusal_of(cycle: PodCycle, nodes: Mask) -> Refusal:
    """Why none of these nodes has a place for the pod."""
    if refused := cycle.refused_everywhere():
        return cycle.refused_by_all_nodes(*refused, nodes).refusal
    return cycle.not_placed(nodes).refusal


def _rank(subset: Sequence[int], everyone: Sequence[int]) -> tuple[bool, ...]:
    """The greatest is the subset to be placed."""
    placed = frozenset(subset)
    return tuple(place in placed for place in everyone)


def missing_text(found: GroupNotPlaced, members: Sequence[Pod]) -> str:
    """One refusal for the group: the largest subset that fits, who is the next, and what is missing, by domain."""
    if found.problem:
        return found.problem
    lines = [_of_domain(one, len(members)) for one in found.domains[:_MOST_DOMAINS]]
    more = len(found.domains) - len(lines)
    also = f"; {more} more domains" if more else ""
    return f"{found.needed} of {len(members)} pods have to fit at once: {'; '.join(lines)}{also}"


_MOST_DOMAINS = 3


def group_refusal(found: GroupNotPlaced, group: GroupOfPods, claims: Iterable[Claim]) -> Refusal:
    """One for all: what helps any of its members may help the group. claims: of those that wait."""
    refusals = [one.refusal for one in found.domains if one.refusal is not None]
    problem = f"{COMPOSITE if group.tree else 'pod group'} {group} does not fit"
    return Refusal(
        frozenset({OF_GROUP}.union(*(one.reasons for one in refusals))),
        _NOTHING,
        classes_of(claims),
        frozenset[str]().union(*(one.resources for one in refusals)),
        f"{problem}: {missing_text(found, group.waiting)}",
        f"{problem}: {'; '.join(sorted({one.gist or one.message for one in refusals}))}",
    )


def refusal_of_member(pod: Pod, refusal: Refusal) -> Refusal:
    """The group's refusal as it stands for one of its pods."""
    return replace(refusal, requests=pod_requests(pod))


_NOTHING = pod_requests(Pod("", ""))


def _of_domain(one: GroupDomain, count: int) -> str:
    where = f"in {one.name}, " if one.name else ""
    if one.next_member is None:
        return f"{where}{len(one.largest)} of {count} fit"
    of_child = f" of {one.child}" if one.child else ""
    return f"{where}{len(one.largest)} of {count} fit; pod {one.next_member.name}{of_child}: {one.why}"
