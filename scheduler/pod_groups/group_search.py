"""Where members of a group have a place, all at once: a complete search that takes back what it has chosen.

Two ways, with the same answers. Where members see each other only by what is left on their node, members and nodes are
counted (`packing`). Otherwise one after the other is assumed on each node that can take it, the best first, with each
choice of devices, until all have a place.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from allocator.bits import Mask, bits, union
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import Placed
from scheduler.pod_groups.group_members import GroupMembers
from scheduler.pod_groups.group_result import GroupSteps, PlacedMember
from scheduler.pod_groups.packing import NodeCounts, NodeLoad, NodeState, NodeStates, Packing

Placement = Sequence[PlacedMember]

T = TypeVar("T")
SearchSteps = Generator["SearchSteps[Any]", Any, T]  # Any: what a step answers to the one that asked for it
"""A search whose steps ask for others, by `yield`."""


def unrolled(first: SearchSteps[T]) -> T:
    """What the search finds. Its steps are no calls in calls: Python has fewer of those than a group has members."""
    steps: list[SearchSteps[Any]] = [first]
    answer: Any = None
    try:
        while True:
            try:
                steps.append(steps[-1].send(answer))
                answer = None
            except StopIteration as end:
                steps.pop()
                answer = end.value
                if not steps:
                    return cast(T, answer)
    finally:
        while steps:  # the innermost first: what it has assumed is taken back before that of those around it
            steps.pop().close()


def states_of(members: GroupMembers, kinds: Sequence[Sequence[int]], steps: GroupSteps) -> NodeStates:
    """What nodes of each kind, all of which are alike, have room for."""

    def fits(state: NodeState, one: int) -> bool:
        kind, load = state
        number = kinds[kind][0]
        has_more = load[one] < len(members.by_class[one])
        return has_more and bool(members.allowed[one] >> number & 1) and members.fits_beside(number, load, one)

    return NodeStates(fits, steps)


class GroupSearch(Protocol):
    """Finds places for subsets of a group; all of its methods raise OutOfGroupSteps."""

    def fits(self, places: Sequence[int]) -> bool:
        """Whether these members have a place at once."""
        ...

    def placement(self, places: Sequence[int]) -> Placement:
        """Where they go; they fit."""
        ...


NodesByKind = Mapping[int, Sequence[int]]
"""The numbers of nodes, by their kind; kinds of which there are none are left out."""


class CountedSearch:
    """Members that see each other only by what is left on their node. kinds: the nodes, by kind."""

    def __init__(self, members: GroupMembers, packing: Packing, kinds: NodesByKind) -> None:
        self._members = members
        self._kinds = kinds
        self._packing = packing

    def fits(self, places: Sequence[int]) -> bool:
        """Whether these members have a place at once."""
        load = self._load(places)
        # One look at the totals, where a search would try every way to leave too little; one class needs no search.
        numbers = [number for numbers in self._kinds.values() for number in numbers] if sum(map(bool, load)) > 1 else []
        return not (numbers and self._members.exceeds(places, numbers)) and self._packing.feasible(load) is not None

    def _load(self, places: Sequence[int]) -> NodeLoad:
        counts = Counter(self._members.classes[place] for place in places)
        return tuple(counts[one] for one in range(len(self._members.by_class)))

    def placement(self, places: Sequence[int]) -> Placement:
        """Each member in order on the best node of those that the found states leave to it."""
        counts = self._packing.feasible(self._load(places))
        assert counts is not None, "members without a place"
        nodes = _NodesToFill(self._kinds, counts)
        by_node: dict[int, list[int]] = {}
        cycles: dict[int, PodCycle] = {}
        cluster = self._members.cluster
        with ExitStack() as undo:
            for place in places:
                class_number = self._members.classes[place]
                cycle = cycles[place] = self._members.cycle(place)
                number = cycle.best(nodes.of(class_number))
                if number is None:  # one whose devices are taken by what will be given out anew below
                    number = next(bits(nodes.of(class_number)))
                nodes.take(number, class_number)
                by_node.setdefault(number, []).append(place)
                pod = self._members.members[place].pod
                cluster.pods.assume(pod, cluster.name_of(number))
                undo.callback(cluster.pods.forget, pod.uid)
        by_place: dict[int, PlacedMember] = {}
        for number, there in by_node.items():
            devices = self._members.devices(number, there)
            assert devices is not None, "members that fit together get their devices together"
            for place in there:
                placed = self._members.placed(cycles[place], number, devices[place])
                by_place[place] = PlacedMember(self._members.members[place].pod, placed)
        return [by_place[place] for place in places]


class _NodesToFill:
    """The nodes that come to a state, and what each still lacks."""

    def __init__(self, kinds: NodesByKind, counts: NodeCounts) -> None:
        self._kind_of = {number: kind for kind, numbers in kinds.items() for number in numbers}
        self._unused = {kind: union(1 << number for number in numbers) for kind, numbers in kinds.items()}
        self._ends: dict[int, Counter[NodeLoad]] = {kind: Counter() for kind in kinds}
        for (kind, load), count in counts.items():
            if any(load):
                self._ends[kind][load] += count
        self._left: dict[int, list[int]] = {}

    def of(self, one: int) -> Mask:
        """The nodes that lack a member of the class."""
        begun = union(1 << number for number, left in self._left.items() if left[one])
        fresh = (self._unused[kind] for kind, ends in self._ends.items() if any(load[one] for load in ends))
        return begun | union(fresh)

    def take(self, number: int, one: int) -> None:
        """A member of the class goes to the node."""
        if number not in self._left:
            kind = self._kind_of[number]
            load = max((load for load in self._ends[kind] if load[one]), key=lambda load: (load[one], load))
            self._ends[kind][load] -= 1
            if not self._ends[kind][load]:
                del self._ends[kind][load]
            self._unused[kind] ^= 1 << number
            self._left[number] = list(load)
        self._left[number][one] -= 1


NOWHERE = -1
"""In place of a domain: where a run that is in several already would have to go."""

NO_RUN = -1
"""Of a member that may go to any domain."""


class RunsOfMembers(NamedTuple):
    """Members that are in one domain with the others of their run. runs: of each. homes: the domains of begun ones."""

    runs: Sequence[int]
    homes: Mapping[int, int]
    domains: Sequence[Mask]

    def domain_of(self, number: int) -> int | None:
        """Of a node."""
        return next((domain for domain, nodes in enumerate(self.domains) if nodes >> number & 1), None)

    def begun(self, places: Sequence[int], numbers: Sequence[int]) -> Mapping[int, int | None]:
        """By run the domain of its members that are on these nodes."""
        on_nodes = zip(places, numbers, strict=False)
        return {self.runs[place]: self.domain_of(number) for place, number in on_nodes if self.runs[place] != NO_RUN}

    def left_to(self, place: int, begun: Mapping[int, int | None]) -> Mask:
        """The nodes of the member's domain, or of all where its run has none yet."""
        run = self.runs[place]
        if run == NO_RUN:
            return -1
        domain = begun.get(run, self.homes.get(run))
        if domain is None:
            return union(self.domains)
        return 0 if domain == NOWHERE else self.domains[domain]


Begun = Sequence[Mapping[int, int | None]]
"""The domains of runs that members have begun, for each label."""


def begun_of(runs: Sequence[RunsOfMembers], members: GroupMembers, places: Sequence[int], found: Placement) -> Begun:
    """What these members have begun, which have these places."""
    numbers = [members.cluster.number_of(one.placed.node) for one in found] if runs else []
    return [one.begun(places, [number for number in numbers if number is not None]) for one in runs]


def left_in_runs(nodes: Mask, runs: Sequence[RunsOfMembers], place: int, begun: Begun) -> Mask:
    """Those of the nodes that its runs leave to the member."""
    for of_label, own in zip(runs, begun, strict=True):
        nodes &= of_label.left_to(place, own)
    return nodes


class _RememberingSearch(ABC):
    """What was asked for once is not searched again."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Placement | None] = {}

    def fits(self, places: Sequence[int]) -> bool:
        """Whether these members have a place at once."""
        return self._search(tuple(places)) is not None

    def placement(self, places: Sequence[int]) -> Placement:
        """Where they go; they fit."""
        placement = self._search(tuple(places))
        assert placement is not None, "members without a place"
        return placement

    def _search(self, places: tuple[int, ...]) -> Placement | None:
        if places not in self._found:
            self._found[places] = self._placement(places)
        return self._found[places]

    @abstractmethod
    def _placement(self, places: tuple[int, ...]) -> Placement | None:
        """Where they go; None where they do not fit."""


class TreeSearch(_RememberingSearch):
    """Members of which one may change what is left to another one anywhere.

    runs: of those that are in one domain, for each label that makes domains.
    """

    def __init__(
        self, members: GroupMembers, steps: GroupSteps, nodes: Mask = -1, runs: Sequence[RunsOfMembers] = ()
    ) -> None:
        super().__init__()
        self._members = members
        self._steps = steps
        self._nodes = nodes
        self._runs = runs

    def _placement(self, places: tuple[int, ...]) -> Placement | None:
        """Each member in order on the best node that leaves a place to the others."""
        placement: list[PlacedMember] = []
        is_found = not self._members.limits.exceeds(places) and unrolled(self._extend(places, placement, set()))
        return placement if is_found else None

    def _extend(self, places: Sequence[int], found: list[PlacedMember], dead: set[Hashable]) -> SearchSteps[bool]:
        """Place the rest of the members; what was found stays assumed until all are placed."""
        if len(found) == len(places):
            return True
        key = self._key(places, found)
        if key in dead:
            return False
        place = places[len(found)]
        cycle = self._members.cycle(place)
        left = 0 if cycle.refused_everywhere() else self._members.within[place] & self._nodes
        left = left_in_runs(left, self._runs, place, self._begun(places, found))
        tried: set[Hashable] = set()
        while (number := cycle.best(left)) is not None:
            self._steps.look()
            left &= ~(1 << number)
            if (kind := self._kind(cycle, number)) in tried:
                continue
            tried.add(kind)
            if (yield self._extend_on(number, cycle, places, found, dead)):
                return True
        dead.add(key)
        return False

    def _extend_on(
        self, number: int, cycle: PodCycle, places: Sequence[int], found: list[PlacedMember], dead: set[Hashable]
    ) -> SearchSteps[bool]:
        pod = cycle.pod
        assert pod is not None
        for placed in self._members.placements(cycle, number):
            self._steps.take()
            found.append(PlacedMember(pod, placed))
            with self._members.cluster.assumed(pod, placed):
                if (yield self._extend(places, found, dead)):
                    return True
            found.pop()
        return False

    def _key(self, places: Sequence[int], found: Sequence[PlacedMember]) -> Hashable:
        """Equal where the same is left to the rest: members of one class may be exchanged."""
        there = Counter(
            (self._members.classes[place], one.placed.node, _devices(one.placed))
            for place, one in zip(places, found, strict=False)
        )
        runs = tuple(frozenset(begun.items()) for begun in self._begun(places, found))
        return len(found), frozenset(there.items()), runs

    def _begun(self, places: Sequence[int], found: Sequence[PlacedMember]) -> Sequence[Mapping[int, int | None]]:
        return begun_of(self._runs, self._members, places, found)

    def _kind(self, cycle: PodCycle, number: int) -> Hashable:
        """Equal for nodes that are the same to all members, as things are now."""
        if self._members.has_terms:
            return number
        cluster = self._members.cluster
        fleet, infos = cluster.fleet, cluster.infos
        free = tuple(column.free.item(number) for column in infos.columns.values())
        passes = tuple(mask >> number & 1 for mask in self._members.allowed)
        hardware = tuple(self._hardware_of(places[0], number) for places in self._members.by_class)
        used = fleet.usage_on(number), fleet.shared_on(number), cycle.view.nominated.get(number) and number
        domains = tuple(one.domain_of(number) for one in self._runs)
        return free, passes, hardware, used, domains

    def _hardware_of(self, place: int, number: int) -> Hashable:
        claims = self._members.claims_of(place)
        return self._members.cluster.fleet.kinds(claims).of(number) if claims else None


def _devices(placed: Placed) -> Hashable:
    return tuple(sorted(result.id for one in placed.allocations for result in one.results))


class LimitedSearch(_RememberingSearch):
    """Members that see each other by what is left on their node, and by what a limit of their tenant leaves.

    As long as it keeps the limits, what is found without them is taken. Else members have to be placed otherwise, or
    with other devices, than without limits: then one after the other changes what is left to the rest.
    """

    def __init__(self, members: GroupMembers, counted: CountedSearch, tree: TreeSearch) -> None:
        super().__init__()
        self._limits = members.limits
        self._counted = counted
        self._tree = tree

    def _placement(self, places: tuple[int, ...]) -> Placement | None:
        if self._limits.exceeds(places) or not self._counted.fits(places):
            return None
        placement = self._counted.placement(places)
        if self._limits.keep(placement):
            return placement
        return self._tree.placement(places) if self._tree.fits(places) else None


Placeable = Callable[[Sequence[int]], list[int] | None]
"""Those of some members who may be placed if all others are not; None where they are too few."""


def best_subset(
    members: GroupMembers, placeable: Placeable, search: GroupSearch, steps: GroupSteps, runs: Sequence[Hashable] = ()
) -> list[int] | None:
    """The members to place: each in order, if with those before it enough have a place at once.

    So it is the lexicographically greatest subset; of equal members the first ones. None where there is no such subset.
    runs: of members, where equal ones of different runs cannot be exchanged.
    """
    order = [place for place in range(len(members)) if place not in members.refused]
    classes = list(zip(members.classes, runs, strict=True)) if runs else members.classes
    return unrolled(_SubsetSearch(classes, placeable, search, steps).extended([], order, frozenset()))


class _SubsetSearch:
    def __init__(
        self, classes: Sequence[Hashable], placeable: Placeable, search: GroupSearch, steps: GroupSteps
    ) -> None:
        self._classes = classes
        self._placeable = placeable
        self._search = search
        self._steps = steps

    def extended(
        self, chosen: list[int], rest: Sequence[int], left_out: frozenset[Hashable]
    ) -> SearchSteps[list[int] | None]:
        """The greatest subset of these and of the rest. left_out: classes of which a member was left out before."""
        self._steps.take()
        # Equal members can be exchanged: who leaves one out leaves out all that follow.
        whole = self._placeable_with(chosen, [place for place in rest if self._classes[place] not in left_out])
        if whole is None:
            return None
        left = whole[len(chosen) :]
        if self._search.fits(whole):
            return whole
        ends = {self._classes[place]: place for place in left}.values()
        if all(self._placeable_with(chosen, [place for place in left if place != end]) is None for end in ends):
            return None  # none of them can be left out
        most = self._longest(chosen, left)
        for count in range(most, -1, -1):
            out = left_out | {self._classes[left[count]]}
            subset: list[int] | None = yield self.extended([*chosen, *left[:count]], left[count + 1 :], out)
            if subset is not None:
                return subset
        return None

    def _placeable_with(self, chosen: Sequence[int], left: Sequence[int]) -> list[int] | None:
        subset = self._placeable([*chosen, *left])
        return None if subset is None or subset[: len(chosen)] != chosen else subset

    def _longest(self, chosen: Sequence[int], left: Sequence[int]) -> int:
        """How many of them in order have a place beside the chosen ones: not all. Cost: O(log members) questions."""
        fewest, most = 0, len(left)
        while most - fewest > 1:
            middle = (fewest + most) // 2
            if self._search.fits([*chosen, *left[:middle]]):
                fewest = middle
            else:
                most = middle
        return fewest


# Members in runs, each run in one domain: which run goes to which domain, so that all have a place at once.
#
# Domains do not see each other, so a run fits in one if it does beside the runs that are there already. Runs with the
# same members, and domains of the same nodes, are interchangeable; what came to nothing is not tried again.


_Loads = tuple[tuple[int, ...], ...]
"""By domain the members that go there."""


class SliceSearch:
    """domains: a search for each. alike: equal for those of the same nodes. runs: of each member.

    homes: the domains of those that have begun, NOWHERE for one that cannot be kept together any more.
    """

    def __init__(  # noqa: PLR0913 - what runs and domains are
        self,
        members: GroupMembers,
        domains: Sequence[GroupSearch],
        alike: Sequence[Hashable],
        *,
        runs: Sequence[int],
        homes: Mapping[int, int],
        steps: GroupSteps,
    ) -> None:
        self._members = members
        self._domains = domains
        self._alike = alike
        self._runs = runs
        self._homes = homes
        self._steps = steps
        self._known: dict[tuple[int, ...], _Loads | None] = {}

    def fits(self, places: Sequence[int]) -> bool:
        """Whether these members have a place at once."""
        return self._assigned(tuple(places)) is not None

    def placement(self, places: Sequence[int]) -> Placement:
        """Where they go; they fit."""
        loads = self._assigned(tuple(places))
        assert loads is not None, "members without a place"
        by_place = {
            place: placed
            for search, there in zip(self._domains, loads, strict=True)
            for place, placed in zip(there, search.placement(there) if there else (), strict=True)
        }
        return [by_place[place] for place in places]

    def _assigned(self, places: tuple[int, ...]) -> _Loads | None:
        if places not in self._known:
            by_run: dict[int, list[int]] = {}
            for place in places:
                by_run.setdefault(self._runs[place], []).append(place)
            # Those that have begun have no choice, and those of many members have little.
            order = sorted(by_run.items(), key=lambda item: (item[0] not in self._homes, -len(item[1]), item[0]))
            empty: _Loads = tuple(() for _ in self._domains)
            self._known[places] = unrolled(self._extended(order, 0, empty, set()))
        return self._known[places]

    def _extended(
        self, order: Sequence[tuple[int, Sequence[int]]], done: int, loads: _Loads, dead: set[Hashable]
    ) -> SearchSteps[_Loads | None]:
        if done == len(order):
            return loads
        key = done, tuple(map(self._counts, loads))
        if key in dead:
            return None
        run, own = order[done]
        tried: set[Hashable] = set()
        for domain in self._allowed(run):
            kind = self._alike[domain], self._counts(loads[domain])
            if kind in tried:
                continue
            tried.add(kind)
            self._steps.take()
            there = tuple(sorted((*loads[domain], *own)))
            if self._domains[domain].fits(there):
                loads_of_all: _Loads | None = yield self._extended(
                    order, done + 1, (*loads[:domain], there, *loads[domain + 1 :]), dead
                )
                if loads_of_all is not None:
                    return loads_of_all
        dead.add(key)
        return None

    def _allowed(self, run: int) -> Sequence[int]:
        home = self._homes.get(run)
        if home is None:
            return range(len(self._domains))
        return [] if home == NOWHERE else [home]

    def _counts(self, places: Sequence[int]) -> Hashable:
        return frozenset(Counter(self._members.classes[place] for place in places).items())
