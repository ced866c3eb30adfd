"""The waiting members of a group against the cluster, as it is with those of them that are assumed to have a place.

Members that ask for the same of every node are of one class, and nodes that give the same to every member are of one
kind: a search that tells them apart would try the same again and again.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

from allocator.bits import Mask, bits, union
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.alike import fingerprint_of
from allocator.limits import Account, Binding
from allocator.model import Allocation, Claim, DeviceID
from allocator.outcome import Allocated, Exhausted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.device_terms import NO_VALUES, ChosenValues, DeviceTerms
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import Placed
from scheduler.plugins.volume_binding import plan
from scheduler.pod_groups.group_result import OutOfGroupSteps, PlacedMember
from scheduler.state.masks import flags_of, numbers_of
from scheduler.state.volumes import NO_PLAN

# Limits per tenant that the members of a group could exceed together, though each of them alone does not.
#
# A limit is of no node: what a member gets leaves less of it to members anywhere. What each member needs at least is
# found by asking for less and less until no node has it: so a group that is too much is refused without a search.


TRIES = 8
"""Of two ways to place a member one may count for less: so many are compared, and beyond that nothing is said."""


class GroupLimits:
    """What limits leave to the members. Cost: nothing where they exceed none, whatever they get."""

    def __init__(self, members: "GroupMembers") -> None:
        self._members = members
        claims = {claim.uid: claim for place in range(len(members)) for claim in members.claims_of(place)}
        self._bindings = self._now.bindings(list(claims.values())) if self._now.limited.limits else ()

    def __bool__(self) -> bool:
        return bool(self._bindings)

    def exceeds(self, places: Sequence[int]) -> bool:
        """Whether these members are too much for a limit, wherever they are placed."""
        if not self._bindings:
            return False
        classes = [self._members.classes[place] for place in places]
        return any(
            sum(self._least[class_number][number] for class_number in classes) > binding.left
            for number, binding in enumerate(self._bindings)
        )

    def keep(self, placement: Iterable[PlacedMember]) -> bool:
        """Whether no limit is exceeded where they are placed like that."""
        with ExitStack() as undo:
            for member in placement:
                undo.enter_context(self._members.cluster.assumed(member.pod, member.placed))
            return all(self._used(limit.account) <= max(limit.most, limit.used) for limit in self._bindings)

    @property
    def _now(self) -> Snapshot:
        return self._members.cluster.fleet.current

    def _used(self, account: Account) -> int:
        return self._now.limited.used_of(account)

    @cached_property
    def _least(self) -> Sequence[Sequence[int]]:
        """By class, of each limit, what a member needs at least; 0 where that is not known."""
        return [[self._least_of(places[0], one) for one in self._bindings] for places in self._members.by_class]

    def _least_of(self, place: int, binding: Binding) -> int:
        if self._members.shares_claims(place):
            return 0
        amount = self._amount(place, binding.account)
        for _ in range(TRIES):
            if not amount:
                break
            with self._leaving(binding, amount - 1):
                less = self._amount(place, binding.account)
            if less is None:
                return amount
            amount = less
        return 0

    def _amount(self, place: int, account: Account) -> int | None:
        """What the member counts for on the best of its nodes; None where it has none."""
        cycle = self._members.cycle(place)
        number = None if cycle.refused_everywhere() else cycle.best(self._members.within[place])
        if number is None or cycle.pod is None:
            return None
        before = self._used(account)
        with self._members.cluster.assumed(cycle.pod, cycle.placed(number)):
            return self._used(account) - before

    @contextmanager
    def _leaving(self, binding: Binding, left: int) -> Iterator[None]:
        """As if the limit left no more than that."""
        charges = ((binding.account, binding.left - left),)
        self._now.limited.book(charges, 1)
        try:
            yield
        finally:
            self._now.limited.book(charges, -1)


@dataclass(frozen=True, slots=True)
class Member:
    """A waiting member with its claims as they are watched, each once. full: those that no further pod can use."""

    pod: Pod
    claims: tuple[Claim, ...] = ()
    full: tuple[Claim, ...] = ()


class GroupMembers:
    """The members by their place in the order of the group. within: by member the nodes that it may have.

    terms: what their devices have in common, and have not. bound: the claims of members that have their node. values:
    what was chosen of what devices have in common; those that have devices decide where nothing is.
    """

    def __init__(  # noqa: PLR0913 - the last three have defaults
        self,
        cluster: Cluster,
        members: Sequence[Member],
        within: Sequence[Mask],
        *,
        terms: DeviceTerms | None = None,
        bound: Sequence[Claim] = (),
        values: ChosenValues = NO_VALUES,
    ) -> None:
        self.cluster = cluster
        self.members = members
        self.within = within
        self._terms = terms
        self._bound = bound
        self._values = values

    def choosing(self, values: ChosenValues) -> "GroupMembers":
        """The same, whose devices have these values."""
        return GroupMembers(
            self.cluster, self.members, self.within, terms=self._terms, bound=self._bound, values=values
        )

    def __len__(self) -> int:
        return len(self.members)

    def cycle(self, place: int) -> PodCycle:
        """The member as things are now: a claim for which another one has taken devices has them. Raises Cancelled."""
        self.cluster.time_limit.look()
        member = self.members[place]
        claims = [self._now(claim) for claim in member.claims]
        cycle = PodCycle(self.cluster, member.pod, claims, member.full, is_member=True)
        if self._terms and cycle.pending:
            every = [*map(self._now, self._claims), *self._bound]
            cycle.pending = self._terms.joined(cycle.pending, every, self._values)
        return cycle

    @cached_property
    def _claims(self) -> Sequence[Claim]:
        """Of all members, each once."""
        return list({claim.uid: claim for member in self.members for claim in member.claims}.values())

    def _now(self, claim: Claim) -> Claim:
        holding = self.cluster.claims.holding(claim.uid)
        return holding.counted if holding is not None and holding.counted is not None else claim

    # -- classes of members, kinds of nodes

    @cached_property
    def refused(self) -> Mapping[int, str]:
        """The members that no node can take, whatever is free, with the reason."""
        refused: dict[int, str] = {}
        for place, cycle in enumerate(self._cycles):
            self.cluster.time_limit.look()
            if refusal := cycle.refused_everywhere():
                refused[place] = refusal[1]
        return refused

    @cached_property
    def classes(self) -> Sequence[int]:
        """Of each member; equal for those that ask for the same."""
        numbers: dict[Hashable, int] = {}
        return [numbers.setdefault(self._class(place), len(numbers)) for place in range(len(self))]

    @cached_property
    def by_class(self) -> Sequence[Sequence[int]]:
        """The members of each class, in their order."""
        places: list[list[int]] = [[] for _ in set(self.classes)]
        for place, class_number in enumerate(self.classes):
            places[class_number].append(place)
        return places

    def _class(self, place: int) -> Hashable:
        self.cluster.time_limit.look()
        cycle, pod = self._cycles[place], self.members[place].pod
        has = tuple(claim.uid for claim in cycle.claims if claim.allocation is not None or self._is_shared(claim))
        asks = tuple((one.nodes, one.requests.key, fingerprint_of(one.pending), one.problem) for one in cycle.asks)
        # Labels differ between the pods of most controllers, and matter only to those who select pods by them.
        seen = tuple(sorted(pod.labels.items())) if self.has_terms else ()
        terms = (pod.pod_affinity, pod.spread, pod.volumes.claims) if self.has_terms else ()
        return asks, has, self._eligible(place), pod.host_ports, pod.scheduler_name, seen, terms

    def _eligible(self, place: int) -> Mask:
        if place in self.refused:
            return 0
        cycle = self._cycles[place]
        return union(left for _, left in cycle.eligible) & cycle.reached & self.within[place]

    @cached_property
    def has_terms(self) -> bool:
        """Whether a member says something of other pods, or shares volumes: where one is matters to others then."""
        return any(map(_has_terms, self.members))

    @cached_property
    def _cycles(self) -> Sequence[PodCycle]:
        return [self.cycle(place) for place in range(len(self))]

    @cached_property
    def _users(self) -> Counter[str]:
        return Counter(claim.uid for member in self.members for claim in member.claims)

    @cached_property
    def limits(self) -> GroupLimits:
        """What they could exceed together."""
        return GroupLimits(self)

    def shares_claims(self, place: int) -> bool:
        """Whether another member uses a claim of this one as well: it counts once."""
        return any(map(self._is_shared, self.members[place].claims))

    def _is_shared(self, claim: Claim) -> bool:
        return self._users[claim.uid] > 1

    @cached_property
    def allowed(self) -> Sequence[Mask]:
        """By class the nodes that let a member pass as things were at first, devices aside."""
        return [self._eligible(places[0]) for places in self.by_class]

    @property
    def are_independent(self) -> bool:
        """Whether members see each other only by what is left on their own node: no member changes another one."""
        if self.has_terms or (self._terms and (self._terms.is_distinct or not self._values)):
            return False
        return not any(map(self._looks_further, self.by_class)) and not self._share_devices

    def _looks_further(self, places: Sequence[int]) -> bool:
        cycle = self._cycles[places[0]]
        is_shared = any(self._is_shared(claim) for claim in cycle.pending)
        return bool(is_shared or len(cycle.asks) > 1 or (cycle.counts_devices and cycle.claims))

    @cached_property
    def _share_devices(self) -> bool:
        """Whether a device that a member may get can be reached from several nodes."""
        if not any(self._cycles[places[0]].asks[0].pending for places in self.by_class):
            return False
        fleet = self.cluster.fleet
        return any(fleet.shared_on(next(bits(nodes))) for nodes in fleet.alike(union(self.allowed)))

    def kinds(self) -> Mapping[Hashable, Sequence[int]]:
        """The nodes that one of the members may have, by what they give to any of them."""
        within, infos = union(self.allowed), self.cluster.infos
        resources = sorted({name for places in self.by_class for name in self._cycles[places[0]].requests.amounts})
        names = [name for name in ("pods", *resources) if name in infos.columns]
        alone = any(self.members[places[0]].pod.host_ports for places in self.by_class)
        promised = {number for places in self.by_class for number in self._cycles[places[0]].view.nominated}
        numbers, passes = numbers_of(within), list[list[bool]]()
        for mask in dict.fromkeys(self.allowed):
            self.cluster.time_limit.look()
            passes.append(flags_of(mask, within.bit_length())[numbers].tolist())
        free = [infos.columns[name].free[numbers].tolist() for name in names]
        devices = self._devices_on(within)
        by_kind: dict[Hashable, list[int]] = {}
        for number, *own in zip(numbers.tolist(), *passes, *free, strict=True):
            kind = *own, devices.get(number), number if alone or number in promised else -1
            by_kind.setdefault(kind, []).append(number)
        return by_kind

    def _devices_on(self, within: Mask) -> Mapping[int, int]:
        """By node a number for its devices as the members see them, with their use; none where no member asks."""
        pending = [claim for places in self.by_class for claim in self._cycles[places[0]].asks[0].pending]
        if not pending:
            return {}
        fleet = self.cluster.fleet
        hardware, numbers = fleet.kinds(pending), dict[Hashable, int]()
        by_node: dict[int, int] = {}
        for nodes in fleet.alike(within):
            first = next(bits(nodes))
            number = numbers.setdefault((hardware.of(first), fleet.usage_on(first)), len(numbers))
            by_node.update(dict.fromkeys(bits(nodes), number))
        return by_node

    def claims_of(self, place: int) -> Sequence[Claim]:
        """The claims of the member that had no devices at first."""
        return self._cycles[place].pending

    @cached_property
    def weights(self) -> Sequence[tuple[int, ...]]:
        """By resource that a node has, and for devices, what a member of each class asks for."""
        amounts = [self._cycles[places[0]].requests.amounts for places in self.by_class]
        columns = self.cluster.infos.columns
        names = sorted({name for own in amounts for name in own if name in columns})
        devices = tuple(
            sum(
                min((one.count for one in request.alternatives), default=0)
                for claim in self._cycles[places[0]].pending
                for request in claim.requests
            )
            for places in self.by_class
        )
        return [*(tuple(own.get(name, 0) for own in amounts) for name in names), devices]

    def exceeds(self, places: Sequence[int], numbers: Sequence[int]) -> bool:
        """Whether these members request more of a resource than these nodes have left in all."""
        columns = self.cluster.infos.columns
        asked: Counter[str] = Counter()
        for place in places:
            asked.update(self._cycles[place].requests.amounts)
        return any(
            amount > int(columns[name].free[list(numbers)].clip(min=0).sum())
            for name, amount in asked.items()
            if amount and name in columns
        )

    # -- what is tried

    def fits_beside(self, number: int, load: Sequence[int], one: int) -> bool:
        """Whether one more of that class has a place on the node. load: by class, how many of it are there already.

        Raises OutOfGroupSteps where the allocator gave up.
        """
        there = [place for own, count in zip(self.by_class, load, strict=True) for place in own[:count]]
        place = self.by_class[one][load[one]]
        with self._present(number, there):
            cycle = self.cycle(place)
            if not union(left for _, left in cycle.eligible) >> number & 1:
                return False
        return self.devices(number, [*there, place]) is not None

    def devices(self, number: int, places: Sequence[int]) -> Mapping[int, tuple[Allocation, ...]] | None:
        """What the claims of these members get on the node, together; None where that is too much."""
        pending = [self._cycles[place].asks_of(number).pending for place in places]
        claims = [claim for own in pending for claim in own]
        if not claims:
            return dict.fromkeys(places, ())
        outcome = self.cluster.fleet_of(self.members[places[0]].pod).allocate(number, claims)
        if isinstance(outcome, Exhausted):
            raise OutOfGroupSteps
        if not isinstance(outcome, Allocated):
            return None
        rest = iter(outcome.allocations)
        return {place: tuple(next(rest) for _ in own) for place, own in zip(places, pending, strict=True)}

    @contextmanager
    def _present(self, number: int, places: Sequence[int]) -> Iterator[None]:
        """As if these members were on the node, devices aside."""
        name = self.cluster.name_of(number)
        with ExitStack() as undo:
            for place in places:
                pod = self.members[place].pod
                self.cluster.pods.assume(pod, name)
                undo.callback(self.cluster.pods.forget, pod.uid)
            yield

    def placed(self, cycle: PodCycle, number: int, allocations: tuple[Allocation, ...]) -> Placed:
        """The member of that cycle on a node that can take it, with these devices."""
        assert cycle.pod is not None
        required = cycle.asks_of(number)
        taken = cycle.with_devices(cycle.pod, required, allocations).taken if cycle.counts_devices else ()
        volumes = plan(cycle.view, number) if cycle.binds_volumes else NO_PLAN
        name = self.cluster.name_of(number)
        return Placed(name, tuple(cycle.claims), allocations, required.extended, taken, volumes)

    def placements(self, cycle: PodCycle, number: int) -> Iterator[Placed]:
        """The member on a node that can take it, with each choice of devices that leaves others to the rest.

        Of two choices of which one has all devices of the other, only that other one is of use: each choice after the
        first leaves out a device of an earlier one.
        """
        required = cycle.asks_of(number)
        if not required.pending:
            yield self.placed(cycle, number, ())
            return
        seen: set[frozenset[DeviceID]] = {frozenset()}
        queue = [frozenset[DeviceID]()]
        while queue:
            without = queue.pop()
            allocations = self._without(cycle, number, required.pending, without)
            if allocations is None:
                continue
            yield self.placed(cycle, number, allocations)
            for device in dict.fromkeys(result.id for one in allocations for result in one.results):
                if (fewer := without | {device}) not in seen:
                    seen.add(fewer)
                    queue.append(fewer)

    def _without(
        self, cycle: PodCycle, number: int, pending: Sequence[Claim], without: frozenset[DeviceID]
    ) -> tuple[Allocation, ...] | None:
        if not without:
            return cycle.allocate(number, cycle.asks_of(number))
        aside = self.cluster.set_aside(without)
        try:
            outcome = cycle.fleet.allocate(number, pending)
        finally:
            self.cluster.put_back(aside)
        if isinstance(outcome, Exhausted):
            raise OutOfGroupSteps
        return outcome.allocations if isinstance(outcome, Allocated) else None


def _has_terms(member: Member) -> bool:
    pod = member.pod
    spreads = any(one.is_hard for one in pod.spread)
    return bool(pod.pod_affinity.required or pod.pod_affinity.required_anti or spreads or pod.volumes.claims)
