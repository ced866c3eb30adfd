"""Whatever happens in whatever order, what is in use is what the watch has shown together with what is in flight."""

from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.cluster.usage import occupying
from allocator.model import Claim, DeviceID, DeviceResult, PoolID
from tests.properties.state.claim_world import NAMES, World

STEPS = (
    *("show",) * 6,
    *("decide",) * 4,
    *("write",) * 4,
    *("answer",) * 3,
    *("undo", "bind", "touch", "foreign", "delete", "create", "list"),
)
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 63)), max_size=80)


def take(world: World, step: str, choice: int) -> None:
    uids, attempts = sorted(world.truth), world.attempts[-8:]
    match step:
        case "show":
            world.show_next()
        case "list":
            world.list_anew()
        case "create":
            world.create(NAMES[choice % len(NAMES)])
        case "decide" if world.watched:
            world.decide(sorted(world.watched)[choice % len(world.watched)])
        case "touch" if uids:
            world.touch(uids[choice % len(uids)])
        case "foreign" if uids:
            world.take_anything(uids[choice % len(uids)], choice // 4)
        case "delete" if uids:
            world.delete(uids[choice % len(uids)])
        case "write" | "answer" | "undo" | "bind" if attempts:
            getattr(world, step)(attempts[choice % len(attempts)])


def check(world: World) -> None:
    usage = world.cluster.fleet.usage
    assert usage == world.usage()
    in_use = {(pool, name) for pool in (*usage.holders, *usage.shares) for name in usage.allocated_in(pool)}
    for attempt in world.attempts:
        stored = world.truth.get(attempt.claim.uid)
        is_true = bool(stored and stored.allocation and stored.allocation.results == attempt.results)
        # A stranger may have cleared what was written; then the watch that shows it is right.
        if attempt.end != "undone" and (is_true or not attempt.is_answered):
            assert {(PoolID(one.driver, one.pool), one.device) for one in attempt.results} <= in_use
    by_device: dict[DeviceID, set[str]] = {}
    for uid, holding in world.cluster.claims._holdings.items():
        for result in occupying(holding.counted) if holding.counted else ():
            by_device.setdefault(result.id, set()).add(uid)
    assert {device: set(found) for device, found in world.cluster.claims._by_device.items()} == by_device


def results_of(claim: Claim | None) -> tuple[DeviceResult, ...]:
    return claim.allocation.results if claim and claim.allocation else ()


@given(steps)
@settings(max_examples=150)
def test_what_is_in_use_is_what_was_shown_and_what_is_in_flight(taken: list[tuple[str, int]]) -> None:
    world = World()
    for step, choice in taken:
        take(world, step, choice)
        check(world)


@given(steps)
@settings(max_examples=50)
def test_in_the_end_what_is_in_use_is_the_truth(taken: list[tuple[str, int]]) -> None:
    world = World()
    for step, choice in taken:
        take(world, step, choice)
    for attempt in world.attempts:
        world.answer(attempt)
        world.bind(attempt)
        world.undo(attempt)
    world.list_anew()
    check(world)
    index = world.cluster.claims
    assert set(index._holdings) == set(world.truth)
    assert all(holding.watched is not None for holding in index._holdings.values())
    assert not index._by_pod
    assert all(index.reservation(uid) is None for uid in world.truth)
    for uid, claim in world.truth.items():
        holding = index.holding(uid)
        assert holding is not None
        assert results_of(holding.counted) == results_of(claim)


@given(steps)
@settings(max_examples=100)
def test_no_two_of_our_attempts_have_one_device(taken: list[tuple[str, int]]) -> None:
    world = World()
    for step, choice in taken:
        if step != "foreign":
            take(world, step, choice)
        under_way = [one for one in world.attempts if one.end != "undone" and one.claim.uid in world.truth]
        whole = [result.id for one in under_way for result in one.results if not result.share_id]
        assert len(whole) == len(set(whole))
