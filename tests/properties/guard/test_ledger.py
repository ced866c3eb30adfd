"""Whatever comes in whatever order, the guard says what a naive sum says, and nothing stored is held twice."""

from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.model import DeviceResult
from tests.properties.guard.guarded_world import (
    ALTERNATIVES,
    DEVICES,
    NAMES,
    SHARED,
    SPELLINGS,
    WATCHING,
    World,
    a_result,
)

STEPS = (
    *("ask",) * 10,
    *("commit",) * 6,
    *("show",) * 8,
    *("tick",) * 3,
    *("list",) * 2,
    *("touch", "release", "delete", "create"),
)
Step = tuple[str, int, tuple[DeviceResult, ...]]


@st.composite
def results(draw: st.DrawFn) -> tuple[DeviceResult, ...]:
    """Of one to three devices, as allocators write them, or a fifth of them as nobody should."""
    is_careful = draw(st.integers(0, 4)) > 0
    names = draw(st.lists(st.sampled_from(DEVICES), min_size=1, max_size=3, unique=is_careful))
    return tuple(draw(result(name, is_careful=is_careful)) for name in names)


@st.composite
def result(draw: st.DrawFn, name: str, *, is_careful: bool) -> DeviceResult:
    """is_careful: as allocators write it, but for whole devices that could be shared."""
    is_admin = draw(st.integers(0, 9)) == 0
    is_share = (name in SHARED or not is_careful) and draw(st.integers(0, 5)) > 0
    share = f"share-{draw(st.integers(0, 2**30 if is_careful else 1))}" if is_share else ""
    request = draw(st.sampled_from(ALTERNATIVES))
    if is_careful:
        request = WATCHING if is_admin else request
    amount = draw(st.integers(1 if is_careful else -2, 3))
    capacity = draw(st.sampled_from(SPELLINGS if is_careful else (*SPELLINGS, "bandwidth")))
    return a_result(name, share, amount, capacity=capacity, is_admin=is_admin, request=request)


def take(world: World, step: Step) -> None:
    kind, choice, wanted = step
    uids, asked = sorted(world.truth), world.asked
    uid = uids[choice % len(uids)] if uids else ""
    match kind:
        case "show":
            world.show_next()
        case "list":
            world.list_anew()
        case "tick":
            world.clock += 1 + choice % 8
        case "create":
            world.create(NAMES[choice % len(NAMES)])
        case "commit" if asked:
            world.commit(asked[choice % len(asked)])
        case "ask" if uid:
            world.ask(uid, wanted)
        case "touch" if uid:
            world.store(world.truth[uid])
        case "release" if uid:
            world.release(uid)
        case "delete" if uid:
            world.delete(uid)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 63), results()), max_size=60))
@settings(max_examples=300)
def test_guard_says_what_the_sums_say_and_nothing_is_held_twice(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        take(world, step)
        world.check()


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 63), results()), max_size=60))
@settings(max_examples=100)
def test_in_the_end_nothing_is_open(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        take(world, step)
    world.clock += 100
    world.list_anew()
    assert world.ledger.open == 0
    world.check()
