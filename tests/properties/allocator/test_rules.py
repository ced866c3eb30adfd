"""What the search takes for granted of every rule: monotone, independent of order, sound bounds, exact undo."""

import importlib
import inspect
import pkgutil
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain, combinations, permutations, product
from typing import Any, NamedTuple

import pytest

import allocator
from allocator.bits import Mask, bits
from allocator.candidates import problem_of
from allocator.constraints import DistinctAttribute, MatchAttribute
from allocator.features.admin_access import Occupation
from allocator.features.consumable_capacity import Capacity
from allocator.features.contract import attempt_of
from allocator.features.device_compatibility_groups import CompatibleGroups
from allocator.features.partitionable_devices import CounterRule
from allocator.features.tenant_limits import LimitRule
from allocator.limit_use import LimitsInForce
from allocator.limits import ONE_DEVICE, CountedDevices, TenantLimit
from allocator.model import CounterConsumption, CounterSet, Device, Request, RequestPolicy
from allocator.search.rules import UNBOUNDED, Candidates, Classes, DeviceSlot, Rule, Trail
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_result,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    an_alternative,
    distinct,
    kubernetes,
    match,
    strings,
)
from tests.properties.allocator.choices import Choices, Values

RULES = (Occupation, Capacity, CompatibleGroups, CounterRule, LimitRule, MatchAttribute, DistinctAttribute)
DEVICES = 4
EACH = 10
EVERYTHING = kubernetes(
    DRAListTypeAttributes=True, DRADeviceCompatibilityGroups=True, DRADerivedAttributes=True, DRAConsumableCapacity=True
)

every_rule = pytest.mark.parametrize("rule_type", RULES, ids=lambda rule_type: rule_type.__name__)


def is_rule(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Rule) and not inspect.isabstract(value)


def rules_of_the_package() -> Iterator[type]:
    for module in pkgutil.walk_packages(allocator.__path__, "allocator."):
        for name, value in inspect.getmembers(importlib.import_module(module.name), is_rule):
            if not name.startswith("_"):
                yield value


def test_every_rule_of_the_allocator_is_held_to_the_contract() -> None:
    assert set(rules_of_the_package()) == set(RULES)


# -- situations


class Move(NamedTuple):
    """A device picked for a request. position: of the request among all."""

    request: int
    device: int


class Situation(NamedTuple):
    """A rule before any pick, and the requests of the attempt in order: two of one claim, one of another."""

    rule: Rule
    requests: tuple[Candidates, ...]
    devices: int

    def steps(self, moves: Sequence[Move], trail: Trail) -> bool:
        """Makes the moves one after the other, as the search does: what is narrowed away is not even tried."""
        for index, (request, device) in enumerate(moves):
            slot = DeviceSlot(self.requests[request], index)
            if self.rule not in slot.candidates.rules:
                continue
            is_left = self.rule.narrow(slot, slot.candidates.mask) >> device & 1
            if not is_left or not self.rule.take(slot, device, trail):
                return False
        return True

    def accepts(self, moves: Sequence[Move]) -> bool:
        trail = Trail()
        is_accepted = self.steps(moves, trail)
        trail.rewind(0)
        return is_accepted

    def moves_of(self, request: int, most: int) -> list[tuple[Move, ...]]:
        """What may be picked for a request: up to so many of its candidates, each once, in ascending order."""
        devices = list(bits(self.requests[request].mask))
        sets = chain.from_iterable(combinations(devices, size) for size in range(most + 1))
        return [tuple(Move(request, device) for device in chosen) for chosen in sets]

    def accepted(self, *most: int) -> list[tuple[Move, ...]]:
        """Every accepted choice of up to so many devices for each request in order."""
        choices = product(*(self.moves_of(request, number) for request, number in enumerate(most)))
        return [moves for parts in choices if self.accepts(moves := tuple(chain.from_iterable(parts)))]

    def classes(self) -> list[Mask]:
        """The devices that neither the rule nor a request tells apart, as masks."""
        found: dict[Hashable, Mask] = {}
        for device in range(self.devices):
            key = (self.rule.alike(device), *(c.mask >> device & 1 for c in self.requests))
            found[key] = found.get(key, 0) | 1 << device
        return list(found.values())

    def kinds(self) -> Classes:
        """The classes, as the search tells them."""
        several = [members for members in self.classes() if members.bit_count() > 1]
        return Classes(several, sum(self.classes()) - sum(several))

    def most(self, moves: Sequence[Move], further: Sequence[tuple[Move, ...]]) -> int:
        """The largest of the further choices that is accepted after the moves."""
        return max(len(chosen) for chosen in further if self.accepts((*moves, *chosen)))


def a_member(draw: Choices, name: str) -> Device:
    """A device that every rule has something to say about."""
    more: dict[str, Any] = {}
    if draw.pick((True, False)):
        more = {"capacity": {"memory": draw.pick(("4", "3"))}, "allow_multiple_allocations": True}
        if draw.pick((True, False)):
            more["policies"] = {"memory": RequestPolicy(default=Quantity.parse("1"))}
    amounts = draw.pick(({"set-0": "1"}, {"set-0": "2"}, {"set-1": "1"}, {"set-0": "1", "set-1": "1"}, {}))
    consumes = tuple(
        CounterConsumption(name, {"m": Quantity.parse(amount)}, draw.pick(((), ("a",), ("a",), ("a", "b"), ("b",))))
        for name, amount in amounts.items()
    )
    values = draw.pick((0, 0, 1, strings("left", "right"), strings("right"), strings("left"), None))
    return a_device(name, {} if values is None else {"numa": values}, consumes_counters=consumes, **more)


def a_wish(draw: Choices, name: str) -> Request:
    more: dict[str, Any] = {"admin_access": draw.pick((None, None, None, None, True)), "count": 2}
    if draw.pick((True, False)):
        more["capacity"] = {"memory": Quantity.parse(draw.pick(("1", "2")))}
    if draw.pick((True, False, False)):
        more["derived_attributes"] = ((f"{DRIVER}/numa", draw.pick(("0", '["left"]'))),)
    return Request(name, (an_alternative(name, **more),))


def some_limits(draw: Choices) -> list[TenantLimit]:
    """One or two, of which little may be had."""
    counted = [
        draw.pick((CountedDevices(), CountedDevices("capacity", "memory"), CountedDevices("counters", "m"))),
        CountedDevices(driver="other"),
    ]
    if draw.rarely(2):
        counted.append(CountedDevices(selectors=(f'has(device.attributes["{DRIVER}"].numa)',)))
    return [TenantLimit("", counted=one, most=draw.pick((2, 3, 4)) * ONE_DEVICE) for one in counted]


def a_situation(draw: Choices, rule_type: type) -> Situation:
    """A node with four devices, of which a share may be held, and the requests of two claims."""
    sets = tuple(CounterSet(f"set-{n}", {"m": Quantity.parse("3")}) for n in range(2))
    members = [a_member(draw, f"d{n}") for n in range(DEVICES)]
    share = a_result("d0", share_id="s", consumed_capacity={"memory": Quantity.parse("1")})
    held = [an_allocated_claim(share)] if members[0].allow_multiple_allocations and draw.rarely(3) else []
    slices = a_slice(*members, name="a", slice_count=2), a_slice(name="b", slice_count=2, counter_sets=sets)
    features = EVERYTHING.strictly() if draw.rarely(3) else EVERYTHING
    snapshot = a_snapshot(*slices, held=held, features=features)
    numa = f"{DRIVER}/numa"
    claims = [
        a_claim(a_wish(draw, "r0"), a_wish(draw, "r1"), name="a", constraints=[match(numa), distinct(numa)]),
        a_claim(a_wish(draw, "r2"), name="b"),
    ]
    if rule_type is LimitRule:
        snapshot = snapshot.with_limits(LimitsInForce(some_limits(draw)), held)
    bindings = snapshot.bindings(claims)
    attempt = attempt_of(snapshot, snapshot.view(a_node()), lambda _: "", bindings=bindings)
    requests = tuple(alternatives[0] for alternatives in problem_of(snapshot, attempt, claims).requests)
    rule = next((r for c in requests for r in c.rules if isinstance(r, rule_type)), None)
    return a_situation(draw, rule_type) if rule is None else Situation(rule, requests, DEVICES)


def situations(rule_type: type) -> Iterator[Situation]:
    return Values(lambda draw: a_situation(draw, rule_type))(rule_type.__name__, EACH)


@every_rule
def test_situations_are_neither_all_allowed_nor_all_refused(rule_type: type) -> None:
    shares = []
    for situation in situations(rule_type):
        every = len(situation.moves_of(0, 2)) * len(situation.moves_of(1, 2)) * len(situation.moves_of(2, 1))
        shares.append(len(situation.accepted(2, 2, 1)) / every)
    assert sum(0 < share < 1 for share in shares) >= EACH * 0.4


# -- the contract


@every_rule
def test_more_picks_never_repair_what_was_refused(rule_type: type) -> None:
    for situation in situations(rule_type):
        for moves in situation.accepted(2, 2, 1):
            for left_out in range(len(moves)):
                assert situation.accepts(moves[:left_out] + moves[left_out + 1 :])


def orders(moves: Sequence[Move]) -> Iterator[tuple[Move, ...]]:
    """The moves with those of each request in every order; the order of requests stays."""
    of_requests = [[move for move in moves if move.request == request] for request in range(3)]
    for parts in product(*map(permutations, of_requests)):
        yield tuple(chain.from_iterable(parts))


@every_rule
def test_order_of_picks_of_a_request_does_not_matter(rule_type: type) -> None:
    for situation in situations(rule_type):
        accepted = set(situation.accepted(2, 2, 1))
        for moves in accepted:
            assert all(situation.accepts(order) for order in orders(moves))
            assert len({state_after(situation, order) for order in orders(moves)}) == 1
        refused = [m for m in situation.accepted(2, 0, 0) if m not in accepted]
        assert not any(situation.accepts(order) for moves in refused for order in orders(moves))


def state_after(situation: Situation, moves: Sequence[Move]) -> Hashable:
    trail = Trail()
    assert situation.steps(moves, trail)
    state = situation.rule.fingerprint(situation.kinds())
    trail.rewind(0)
    return state


@every_rule
def test_narrowing_keeps_within_the_domain_and_loses_nothing_that_would_be_taken(rule_type: type) -> None:
    for situation in situations(rule_type):
        for moves in situation.accepted(2, 1, 0):
            trail = Trail()
            assert situation.steps(moves, trail)
            for number, candidates in enumerate(situation.requests):
                if situation.rule in candidates.rules:
                    assert_narrows_soundly(situation.rule, DeviceSlot(candidates, 0), picked(moves, number), trail)
            trail.rewind(0)


def picked(moves: Sequence[Move], request: int) -> Mask:
    return sum(1 << move.device for move in moves if move.request == request)


def assert_narrows_soundly(rule: Rule, slot: DeviceSlot, own: Mask, trail: Trail) -> None:
    """own: what the request has already, which the search does not offer to it again."""
    for domain in (slot.candidates.mask, slot.candidates.mask & 0b0101, slot.candidates.mask & 0b1110):
        narrowed = rule.narrow(slot, domain)
        assert narrowed & ~domain == 0
        for device in bits(domain & ~narrowed & ~own):
            mark = trail.mark()
            assert rule.hides or not rule.take(slot, device, trail)
            trail.rewind(mark)


@every_rule
def test_room_never_denies_a_request_that_could_be_satisfied(rule_type: type) -> None:
    for situation in situations(rule_type):
        for moves in situation.accepted(2, 2, 2):
            trail = Trail()
            if len(moves) == sum(candidates.need for candidates in situation.requests):
                for index, move in enumerate(moves):
                    candidates = situation.requests[move.request]
                    if situation.rule in candidates.rules:
                        slot = DeviceSlot(candidates, index % 2)
                        behind = candidates.mask & ~picked(moves[:index], move.request)
                        room = situation.rule.room(slot, situation.rule.narrow(slot, behind))
                        assert room >= candidates.need - slot.position
                    assert situation.steps([move], trail)
            trail.rewind(0)


@every_rule
def test_joint_room_is_never_less_than_what_could_be_picked_together(rule_type: type) -> None:
    for situation in situations(rule_type):
        last = [candidates for candidates in situation.requests[1:] if situation.rule in candidates.rules]
        both = [(*one, *other) for one in situation.moves_of(1, 3) for other in situation.moves_of(2, 3)]
        if len(last) < 2:
            both = situation.moves_of(1, 3)
        for moves in situation.accepted(2, 0, 0):
            trail = Trail()
            assert situation.steps(moves, trail)
            domain = 0
            for candidates in last:
                domain |= situation.rule.narrow(DeviceSlot(candidates, 0), candidates.mask)
            room = situation.rule.joint_room(last, len(last), domain, UNBOUNDED)
            two = situation.rule.joint_room(last, len(last), domain, 2)
            trail.rewind(0)
            assert room >= situation.most(moves, both)
            assert min(two, 2) == min(room, 2), "it may stop once there is enough"


@every_rule
def test_devices_that_are_alike_and_not_touched_can_stand_for_each_other(rule_type: type) -> None:
    for situation in situations(rule_type):
        for moves in situation.accepted(2, 1, 0):
            trail = Trail()
            assert situation.steps(moves, trail)
            touched = situation.rule.touched() | sum(1 << device for device in {move.device for move in moves})
            trail.rewind(0)
            for members, request in product(situation.classes(), range(1, 3)):
                free = members & ~touched & situation.requests[request].mask
                assert len({situation.accepts((*moves, Move(request, device))) for device in bits(free)}) <= 1


@every_rule
def test_equal_states_leave_equal_possibilities(rule_type: type) -> None:
    for situation in situations(rule_type):
        left: dict[Hashable, int] = {}
        for moves in situation.accepted(2, 2, 0):
            further = situation.moves_of(2, 2)
            most = situation.most(moves, further)
            assert left.setdefault(state_after(situation, moves), most) == most


@every_rule
def test_rewinding_restores_all_state(rule_type: type) -> None:
    for situation in situations(rule_type):
        for moves in situation.accepted(2, 2, 1):
            trail, seen = Trail(), []
            for length in range(1, len(moves) + 1):
                seen.append((trail.mark(), everything(situation.rule)))
                assert situation.steps(moves[length - 1 : length], trail)
            for mark, before in reversed(seen):
                trail.rewind(mark)
                assert everything(situation.rule) == before


def everything(rule: Rule) -> Mapping[str, object]:
    """All fields of a rule, those that it does not tell included."""
    names = [name for kind in type(rule).__mro__ for name in getattr(kind, "__slots__", ())]
    assert names
    values = ((name, getattr(rule, name)) for name in names)
    return {name: deepcopy(value) if isinstance(value, list | dict | set) else value for name, value in values}


@every_rule
def test_effort_is_known_before_the_first_pick_and_stays(rule_type: type) -> None:
    for situation in situations(rule_type):
        before = situation.rule.effort(4)
        assert before.whole > 0
        assert min(before.narrow, before.room, before.fingerprint) >= 0
        for moves in situation.accepted(2, 0, 0):
            trail = Trail()
            assert situation.steps(moves, trail)
            assert situation.rule.effort(4) == before
            trail.rewind(0)


@every_rule
def test_picks_alone_change_the_state(rule_type: type) -> None:
    for situation in situations(rule_type):
        rule, before = situation.rule, everything(situation.rule)
        for candidates in situation.requests:
            if rule in candidates.rules:
                rule.narrow(DeviceSlot(candidates, 0), candidates.mask)
                rule.room(DeviceSlot(candidates, 0), candidates.mask)
                rule.joint_room([candidates], 1, candidates.mask, UNBOUNDED)
        rule.fingerprint(situation.kinds())
        rule.effort(4)
        rule.touched()
        assert everything(rule) == before
