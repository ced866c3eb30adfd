"""Limits of tenants: the allocator gives what the naive search gives with them, and nobody ever gets more than that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import pytest

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.fleet import Fleet
from allocator.limit_use import LimitsInForce
from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from allocator.model import Allocation, Claim, DeviceClass, Node, Requirement
from allocator.outcome import Allocated, AllocationError, InvalidClaim, InvalidPool, LimitReached, Refused
from tests.extent import is_nightly
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import HAS_NUMA, TRUE_OF_A, an_instance
from tests.properties.allocator.naive import answer
from tests.properties.allocator.naive_limits import NANO, Counter, answer_within
from tests.properties.allocator.naive_results import SHARE_ID
from tests.properties.allocator.test_fleet import a_sequel
from tests.properties.allocator.test_fleet_events import World as FleetWorld
from tests.properties.allocator.test_fleet_events import a_node_event, a_slice_event
from tests.properties.allocator.test_naive_search import fault

ABOUT = ("basics", "alternatives", "admin", "capacity", "counters", "shares", "odd requests", "groups")
EACH = 60 if is_nightly() else 20
HISTORIES = 250 if is_nightly() else 12
"""Of each aspect: 2,000 at night."""

MOMENTS = 8
TEAMS = ("team-a", "team-b")
LABELS = {"team-a": {"tier": "gold"}, "team-b": {"tier": "gold"}, "team-c": {"tier": "iron"}}


def a_counted(draw: Choices) -> CountedDevices:
    unit, name = draw.pick(
        (("devices", ""), ("devices", ""), ("capacity", "memory"), ("capacity", "a.example/memory"), ("counters", "m"))
    )
    of = draw.pick(({}, {}, {"driver": "a.example"}, {"class_name": "odd"}, {"selectors": (TRUE_OF_A, HAS_NUMA)}))
    return CountedDevices(unit, name, **of)  # type: ignore[arg-type] # as the fields are


def a_limit(draw: Choices, number: int) -> TenantLimit:
    names = draw.pick((None, None, frozenset({"team-a"}), frozenset(TEAMS)))
    labels = draw.pick((None, None, (Requirement("tier", "In", ("gold",)),)))
    whom = Namespaces(names, labels, each=draw.pick((False, True)))
    most = draw.pick((1, 2, 0, 3, 4, 6)) * ONE_DEVICE
    return TenantLimit(f"limit-{number}", whom, a_counted(draw), most, soft=draw.rarely(8))


def limits_of(draw: Choices) -> tuple[TenantLimit, ...]:
    return tuple(a_limit(draw, number) for number in range(draw.pick((1, 1, 2, 3))))


@dataclass(frozen=True)
class LimitedInstance:
    """A cluster in which limits hold."""

    instance: Instance
    limits: tuple[TenantLimit, ...]

    def snapshot(self) -> Snapshot:
        return self.instance.snapshot().with_limits(LimitsInForce(self.limits, LABELS), self.instance.held)


def a_limited_instance(draw: Choices, about: str) -> LimitedInstance:
    base = an_instance(draw, about)
    claims = tuple(replace(claim, namespace="team-a") for claim in base.claims)
    held = tuple(replace(claim, namespace=draw.pick((*TEAMS, "team-c"))) for claim in base.held)
    return LimitedInstance(replace(base, claims=claims, held=held), limits_of(draw))


def naive(limited: LimitedInstance, node: Node) -> tuple[Allocation, ...] | type[AllocationError] | None:
    try:
        return answer_within(limited.instance, node, limited.limits, LABELS)
    except (InvalidClaim, InvalidPool) as error:
        return fault(error)


def ours(limited: LimitedInstance, node: Node) -> Allocated | Refused | type[AllocationError]:
    try:
        outcome = allocate(limited.snapshot(), node, limited.instance.claims, share_id=lambda _: SHARE_ID)
    except (InvalidClaim, InvalidPool) as error:
        return fault(error)
    assert isinstance(outcome, Allocated | Refused)
    return outcome


@pytest.mark.parametrize("aspect", ABOUT)
def test_answer_with_limits_is_that_of_the_naive_search(aspect: str) -> None:
    def check(limited: LimitedInstance) -> None:
        for node in limited.instance.nodes:
            answered, expected = ours(limited, node), naive(limited, node)
            if isinstance(answered, Allocated):
                assert answered.allocations == expected
            elif isinstance(answered, Refused):
                assert expected is None
                check_cause(limited, node, answered)
            else:
                assert answered in (expected, InvalidClaim)

    Values(partial(a_limited_instance, about=aspect)).hold_for("limits", EACH, check)


def check_cause(limited: LimitedInstance, node: Node, refused: Refused) -> None:
    """A limit is the reason exactly where there is an answer without any, and it has the right numbers."""
    cause = refused.cause
    if not isinstance(cause, LimitReached):
        return
    assert answer(limited.instance, node, failures_show=False) is not None
    assert cause.limit is not None
    counter = Counter(limited.instance.slices, limited.instance.classes, limited.instance.features, LABELS)
    used = counter.used(cause.limit.limit, "team-a", limited.instance.held)
    assert (cause.limit.used, cause.limit.most) == (int(used * NANO), cause.limit.limit.most)
    assert cause.limit.used + cause.asked > cause.limit.most


def test_limits_refuse_and_let_pass() -> None:
    """Without which the other tests would say nothing."""
    found = {"limit": 0, "other": 0, "allocated": 0, "otherwise": 0}
    for limited in Values(partial(a_limited_instance, about="alternatives"))("kinds", 150):
        for node in limited.instance.nodes:
            answered = ours(limited, node)
            if isinstance(answered, Refused):
                found["limit" if isinstance(answered.cause, LimitReached) else "other"] += 1
            elif isinstance(answered, Allocated):
                found["allocated"] += 1
                found["otherwise"] += answered.allocations != answer(limited.instance, node, failures_show=False)
    assert all(number > 5 for number in found.values()), found


# -- histories


class World(FleetWorld):
    """A fleet with limits, and all that it was told."""

    limits: tuple[TenantLimit, ...] = ()
    labels: dict[str, dict[str, str]]

    def counter(self) -> Counter:
        return Counter(self.slices, self.classes.values(), self.snapshot.features, self.labels)

    def set_limits(self, limits: Sequence[TenantLimit]) -> None:
        self.limits = tuple(limits)
        self.fleet.set_limits(LimitsInForce(self.limits, self.labels))

    def limited_anew(self) -> Fleet:
        anew = self.anew(list(self.held.values()))
        anew.add_allocated(self.held.values())
        anew.set_limits(LimitsInForce(self.limits, self.labels))
        return anew


@dataclass(frozen=True)
class History:
    about: str
    recorded: tuple[int, ...]


def a_history(draw: Choices, about: str) -> History:
    return History(about, tuple(draw.pick(range(1 << 16)) for _ in range(600)))


def a_world(draw: Choices, about: str) -> tuple[World, Sequence[Claim]]:
    sequel = a_sequel(draw, about)
    cluster = sequel.cluster
    world = World(
        replace(cluster, held=()).snapshot(),
        Fleet(Snapshot.of((), (), (), cluster.features)).policy,
        list(cluster.slices),
        {one.name: one for one in cluster.classes},
        dict(enumerate(cluster.nodes)),
    )
    world.labels = {name: dict(labels) for name, labels in LABELS.items()}
    world.set_limits(limits_of(draw))
    return world, [claim for claim, _ in sequel.questions]


def in_excess(world: World, namespace: str) -> set[str]:
    """The limits of the namespace of which more is in use than may be."""
    counter = world.counter()
    every = [one for one in world.limits if not one.soft and counter.holds_for(one, namespace)]
    return {one.name for one in every if counter.used(one, namespace, world.held.values()) * NANO > (one.most or 0)}


def live(history: History) -> int:
    """Lead the history: whoever gets devices exceeds no limit by them. How many did."""
    draw = Choices(history.recorded)
    world, spare = a_world(draw, history.about)
    given = 0
    for moment in range(MOMENTS):
        match draw.pick(("claim", "claim", "claim", "claim", "slice", "node", "class", "limits", "labels", "gone")):
            case "claim":
                given += a_claim_comes(draw, world, spare, moment)
            case "slice":
                a_slice_event(draw, world)
            case "node":
                a_node_event(draw, world)
            case "class":
                selectors = draw.pick(((), (TRUE_OF_A,), (HAS_NUMA,)))
                world.classes["odd"] = DeviceClass("odd", selectors)
                world.fleet.set_class(world.classes["odd"])
            case "limits":
                world.set_limits(limits_of(draw))
            case "labels":
                name = draw.pick(TEAMS)
                world.labels[name] = draw.pick(({"tier": "iron"}, {"tier": "gold"}, {}))
                world.fleet.namespace_changed(name)
            case _ if world.held:
                world.fleet.remove_allocated([world.held.pop(draw.pick(sorted(world.held)))])
        check_count(world)
    return given


def a_claim_comes(draw: Choices, world: World, spare: Sequence[Claim], moment: int) -> bool:
    claim = replace(draw.pick(spare), name=f"claim-{moment}", uid=f"uid-{moment}", namespace=draw.pick(TEAMS))
    allowed = world.fleet.all
    try:
        chosen = world.fleet.choose([claim], allowed)
    except AllocationError:
        return False
    expected = world.limited_anew().choose([claim], allowed)
    assert chosen == expected
    if chosen is None:
        refused = [outcome for outcome, _ in world.fleet.unable([claim], allowed)]
        for outcome in refused:
            if isinstance(outcome, Refused) and isinstance(outcome.cause, LimitReached):
                assert outcome.cause.limit is not None
                assert outcome.cause.limit.limit in world.limits
        return False
    before = in_excess(world, claim.namespace)
    world.held[claim.name] = replace(claim, allocation=chosen.allocated.allocations[0])
    world.fleet.add_allocated([world.held[claim.name]])
    after = in_excess(world, claim.namespace)
    counter = world.counter()
    taking = {
        one.name
        for one in world.limits
        if any(counter.of_result(one.counted, claim, result) for result in chosen.allocated.allocations[0].results)
    }
    assert not after & taking, "what was given takes more than a limit left"
    assert after <= before
    return True


def check_count(world: World) -> None:
    """What is counted as events come is what is counted anew."""
    limited = world.fleet.current.limited
    counter, held = world.counter(), list(world.held.values())
    for number, limit in enumerate(world.limits):
        for namespace in TEAMS if limit.namespaces.each else ("",):
            used = limited.used_of((number, namespace))
            assert Fraction(used, NANO) == (
                _each(counter, limit, namespace, held) if limit.namespaces.each else counter.used(limit, "", held)
            )


def _each(counter: Counter, limit: TenantLimit, namespace: str, held: Iterable[Claim]) -> Fraction:
    return counter.used(limit, namespace, held) if counter.holds_for(limit, namespace) else Fraction(0)


def check_life(history: History) -> None:
    live(history)


@pytest.mark.parametrize("aspect", ABOUT)
def test_nobody_gets_more_than_a_limit_leaves_whatever_happens(aspect: str) -> None:
    Values(partial(a_history, about=aspect)).hold_for("histories", HISTORIES, check_life)


def test_histories_give_devices() -> None:
    given = [live(history) for history in Values(partial(a_history, about="shares"))("given", 40)]
    assert sum(given) > 20
