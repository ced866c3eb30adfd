"""The decision once more, written to be read and not to be fast: the oracle of the property tests.

Every choice is tried in canonical order, device after device, and every condition is asked anew about all the devices
picked so far. Nothing is skipped, remembered or bounded, and of the allocator only the values (`model`, `gates`) and
the types of its errors are used. Where the features are strict, the checks come in kube-scheduler's order and whatever
fails on the way ends the attempt; where they are not, the deviations of docs/differences.md are taken.
Source: KEP-4381, resource.k8s.io/v1, and the KEPs of the features.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allocator.gates import (
    ADMIN_ACCESS,
    BINDING_CONDITIONS,
    CONSUMABLE_CAPACITY,
    DERIVED_ATTRIBUTES,
    PRIORITIZED_LIST,
)
from allocator.model import Allocation, Alternative, Claim, Node, Request
from allocator.outcome import InvalidClaim, InvalidPool
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.naive_devices import (
    Around,
    CannotJudge,
    Given,
    InUse,
    can_skip_operations,
    goes_with,
    has_counters,
    has_room,
    holds,
    is_shareable,
    is_tolerated,
    part_of,
    satisfied,
)
from tests.properties.allocator.naive_pools import Published, pools_of, reached
from tests.properties.allocator.naive_results import written

MOST_DEVICES = 32


class AllViolates(InvalidClaim):
    """All devices are asked for, and a constraint does not let one of them in."""


class NodeRefused(Exception):
    """All devices are asked for, and a pool on this node cannot be trusted."""


class NaiveRequest(NamedTuple):
    """An alternative that has been looked at. devices: to choose from in order, or those that `All` has to get."""

    claim: int
    alternative: Alternative
    devices: list[Published]

    @property
    def is_all(self) -> bool:
        return self.alternative.mode == "All"

    @property
    def need(self) -> int:
        return len(self.devices) if self.is_all else self.alternative.count


def answer(instance: Instance, node: Node, *, failures_show: bool = True) -> tuple[Allocation, ...] | None:
    """The first choice in canonical order, None where there is none. Raises InvalidClaim and InvalidPool.

    failures_show: a device on which something fails ends the attempt when it is met; otherwise it is just not taken.
    """
    return NaiveAllocator(instance, node, failures_show=failures_show).answer()


class NaiveAllocator:
    """One attempt on one node."""

    def __init__(self, instance: Instance, node: Node, *, failures_show: bool) -> None:
        self.instance = instance
        self.features = instance.features
        self.node = node
        self.failures_show = failures_show
        self.pools = pools_of(instance, node)
        self.classes = {one.name: one for one in instance.classes}
        self.in_use = InUse(instance)
        self.around = Around(self.pools, self.in_use, self.features)

    def answer(self) -> tuple[Allocation, ...] | None:
        try:
            asked = [one for number, claim in enumerate(self.instance.claims) for one in self.asked(number, claim)]
        except NodeRefused:
            return None
        picks = next(self.choices(asked, []), None)
        if picks is None:
            return None
        return tuple(
            written(claim, [pick for pick in picks if pick.claim == number], self.instance, self.node)
            for number, claim in enumerate(self.instance.claims)
        )

    # -- what is asked for

    def asked(self, number: int, claim: Claim) -> list[list[NaiveRequest]]:
        """The requests of a claim with their alternatives. Raises for what cannot be decided, as it is met."""
        requests, least = [], 0
        for request in claim.requests:
            for alternative in request.alternatives:
                self.check_gates(request, alternative)
            requests.append([self.one_asked(number, alternative) for alternative in request.alternatives])
            least += min(asked.need for asked in requests[-1])
            if least > MOST_DEVICES:
                raise InvalidClaim("more than 32 devices")
        for constraint in claim.constraints:
            if not constraint.match_attribute and not (constraint.distinct_attribute and self.features.knows_capacity):
                raise InvalidClaim("a constraint of an unknown kind")
        return requests

    def one_asked(self, number: int, alternative: Alternative) -> NaiveRequest:
        if alternative.class_name not in self.classes:
            raise InvalidClaim("no such class")
        if alternative.mode == "All":
            return NaiveRequest(number, alternative, self.every_meant(alternative))
        usable = [pool for pool in self.pools if not pool.defect]
        return NaiveRequest(number, alternative, [one for pool in usable for one in pool.devices])

    def every_meant(self, alternative: Alternative) -> list[Published]:
        """The devices that `All` has to get. Before 1.38, and where not strict, pools are looked at before devices."""
        ends = self.features.release.broken_pools_end
        if any(pool.defect for pool in self.pools) and (ends or not self.features.is_strict):
            raise InvalidPool("a pool cannot be trusted") if ends else NodeRefused
        found: list[Published] = []
        for pool in self.pools:
            if pool.defect:
                raise NodeRefused
            found += [one for one in pool.devices if self.is_meant_by_all(alternative, one)]
        return found

    def check_gates(self, request: Request, alternative: Alternative) -> None:
        """A field whose gate is off is not passed over."""
        sees_capacity = self.features.knows_capacity or not self.features.is_strict
        uses = {
            PRIORITIZED_LIST: request.is_first_available,
            CONSUMABLE_CAPACITY: alternative.capacity is not None and sees_capacity,
            DERIVED_ATTRIBUTES: bool(alternative.derived_attributes),
            ADMIN_ACCESS: alternative.admin_access is not None,
        }
        for gate, is_used in uses.items():
            if is_used and not self.features.has(gate):
                raise InvalidClaim(f"{gate} is off")

    def is_meant_by_all(self, alternative: Alternative, published: Published) -> bool:
        if not self.is_selectable(alternative, published):
            return False
        if not self.features.has(CONSUMABLE_CAPACITY):
            return True
        leaves_full = self.features.release.full_devices_leave_all
        pick = Given(0, alternative, published)
        return part_of(published.device, alternative, self.features) is not None and (
            not leaves_full or has_room(pick, [], self.around)
        )

    def is_selectable(self, alternative: Alternative, published: Published) -> bool:
        """All selectors of the class and then of the request hold, and the node reaches the device."""
        device, slice_ = published
        is_odd = bool(device.unknown_fields) and not self.features.is_strict
        if is_odd or (device.binding_conditions and not self.features.has(BINDING_CONDITIONS)):
            return False
        for expression in (*self.classes[alternative.class_name].selectors, *alternative.selectors):
            assert expression is not None
            if not holds(expression, self.features, device):
                return False
        try:
            return not slice_.reach.per_device or reached(device.reach, self.node)
        except InvalidPool as error:
            raise CannotJudge(str(error)) from error

    # -- the search

    def choices(self, asked: Sequence[list[NaiveRequest]], picks: list[Given]) -> Iterator[list[Given]]:
        """Every way to satisfy the requests that are left, in canonical order."""
        if not asked:
            yield picks
            return
        first, *rest = asked
        for alternative in first:
            if sum(pick.claim == alternative.claim for pick in picks) + alternative.need <= MOST_DEVICES:
                for grown in self.ways(alternative, picks):
                    yield from self.choices(rest, grown)

    def ways(self, asked: NaiveRequest, picks: list[Given]) -> Iterator[list[Given]]:
        if asked.is_all:
            return self.every_device(asked, picks)
        return self.combinations(asked, picks, asked.devices, asked.need)

    def combinations(
        self, asked: NaiveRequest, picks: list[Given], left: Sequence[Published], count: int
    ) -> Iterator[list[Given]]:
        """The picks with `count` devices for one request added, taken from those left, by ascending position."""
        if count == 0:
            yield picks
            return
        for position, published in enumerate(left):
            pick = Given(asked.claim, asked.alternative, published)
            if self.may_pick(pick, picks):
                yield from self.combinations(asked, [*picks, pick], left[position + 1 :], count - 1)

    def may_pick(self, pick: Given, picks: Sequence[Given]) -> bool:
        try:
            return (
                self.is_free(pick, picks)
                and self.is_selectable(pick.alternative, pick.published)
                and self.has_capacity(pick, picks)
                and self.is_allocatable(pick, picks)
                and self.within_constraints(pick, picks)
            )
        except CannotJudge:
            if self.failures_show:
                raise
            return False

    def every_device(self, asked: NaiveRequest, picks: list[Given]) -> Iterator[list[Given]]:
        """The picks with all devices of a request for all added, if there are any and all can be had."""
        for published in asked.devices:
            pick = Given(asked.claim, asked.alternative, published)
            if not self.is_free(pick, picks) or not self.is_allocatable(pick, picks):
                return
            if not self.within_constraints_of_all(pick, picks) or not self.has_capacity(pick, picks):
                return
            picks = [*picks, pick]
        if asked.devices:
            yield picks

    def within_constraints_of_all(self, pick: Given, picks: Sequence[Given]) -> bool:
        try:
            if self.within_constraints(pick, picks):
                return True
        except CannotJudge:
            if self.failures_show:
                raise
            return False
        if self.features.is_strict:
            raise AllViolates(str(pick.device.id))
        return False

    # -- one device

    def is_free(self, pick: Given, picks: Sequence[Given]) -> bool:
        """Nobody holds the device, and the attempt has not picked it, unless it can be shared or by admin access."""
        same = [other for other in picks if other.device.id == pick.device.id]
        if is_shareable(pick.device, self.features):
            same = []
        if pick.alternative.admin_access:
            return not any(other.claim == pick.claim for other in same)
        may_be_held = self.features.release.shares_hold_devices or not self.features.is_strict
        if may_be_held and pick.device.id in self.in_use.shares and not is_shareable(pick.device, self.features):
            return False
        if not self.features.is_strict:
            same = [other for other in same if other.claim == pick.claim or not other.alternative.admin_access]
        return pick.device.id not in self.in_use.whole and not same

    def has_capacity(self, pick: Given, picks: Sequence[Given]) -> bool:
        return not self.features.has(CONSUMABLE_CAPACITY) or has_room(pick, picks, self.around)

    def is_allocatable(self, pick: Given, picks: Sequence[Given]) -> bool:
        return (
            can_skip_operations(pick.published, self.node, self.features)
            and goes_with(pick, picks, self.around)
            and has_counters(pick, picks, self.around)
            and is_tolerated(pick.device, pick.alternative, self.features)
        )

    def within_constraints(self, pick: Given, picks: Sequence[Given]) -> bool:
        own = [one for one in (*picks, pick) if one.claim == pick.claim]
        constraints = self.instance.claims[pick.claim].constraints
        # A constraint that does not cover the pick holds as before.
        return all(satisfied(constraint, own, self.features) for constraint in constraints)
