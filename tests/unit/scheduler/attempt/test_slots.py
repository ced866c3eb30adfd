"""Writers are shared: a namespace whose writes fail has fewer of them, and what waits to be undone has none."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt import slots as slots_module
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_step import deallocate_one
from scheduler.attempt.decision import ClaimPlan, Decision, PodKey
from scheduler.attempt.slots import (
    BESIDE_MAX,
    CONTENDED_LEAST,
    FAILING_S,
    QUICK_BESIDE_MAX,
    QUICK_MAX,
    QUICK_SHARE,
    REASON_S,
    SLOW_MAX,
    SLOWNESS_S,
    UNDOING_MAX,
    UNTRIED_MAX,
    KeyLocks,
    Slot,
    Slots,
    Speeds,
)
from scheduler.client.api_resources import claims
from tests.builders import a_pod
from tests.unit.scheduler.attempt.raw_claims import a_raw_claim, an_allocation

MOST = 8


@pytest.fixture
def slots() -> Slots:
    return Slots(MOST, float)


def test_slots_are_full_when_all_are_taken_and_free_again_when_one_is_given_back(slots: Slots) -> None:
    taken = [slots.take("a") for _ in range(MOST)]
    assert slots.is_full
    taken[0].give_back()
    assert not slots.is_full


def test_slot_that_is_given_back_twice_is_one_slot(slots: Slots) -> None:
    taken = [slots.take("a") for _ in range(MOST)]
    taken[0].give_back()
    taken[0].give_back()
    slots.take("a")
    assert slots.is_full


def test_each_failure_halves_the_limit_of_its_namespace_down_to_one(slots: Slots) -> None:
    slot = slots.take("bad")
    reported = []
    for _ in range(5):
        slot.failed("500 webhook")
        reported.append(slot.is_failing)
    assert reported == [False, False, True, True, True]
    assert slots.objection("bad") == "writes in namespace bad fail, and its pods are tried 1 at a time: 500 webhook"
    assert slots.objection("good") == ""


def test_limit_names_why_the_last_write_failed_also_where_a_webhook_that_was_down_denies_now(slots: Slots) -> None:
    slot = slots.take("bad")
    for _ in range(3):
        slot.failed("500 webhook is down")
    slot.denied("403 no")
    assert slots.objection("bad") == "writes in namespace bad fail, and its pods are tried 1 at a time: 403 no"
    other = slots.take("good")
    other.denied("403 no")
    assert slots.objection("good") == ""


def test_pods_are_told_of_one_of_several_failures_that_differ_in_their_objects_alone() -> None:
    now = 0.0
    slots = Slots(1, lambda: now)
    slot = slots.take("bad")

    def told() -> str:
        return slots.objection("bad").rpartition(": ")[2]

    slot.failed("500 of claim a", "500")
    assert told() == "500 of claim a"
    for number in range(10):
        now = number
        slot.failed(f"500 of claim {number}", "500")
        assert told() == "500 of claim a"
    slot.denied("403 of claim b", "403")
    assert told() == "403 of claim b"
    for number in range(10):
        slot.denied(f"403 of claim {number}", "403")
        assert told() == "403 of claim b"
    now += REASON_S
    slot.denied("403 of claim c", "403")
    assert told() == "403 of claim c"


def test_denials_do_not_prolong_a_limit() -> None:
    now = 0.0
    slots = Slots(1, lambda: now)
    slot = slots.take("bad")
    slot.failed("500")
    now = FAILING_S - 1
    slot.denied("403 no")
    assert slots.objection("bad")
    now = FAILING_S
    assert slots.objection("bad") == ""


def test_successes_bring_the_limit_back(slots: Slots) -> None:
    slot = slots.take("bad")
    for _ in range(3):
        slot.failed("500")
    others = []
    for _ in range(MOST - 2):
        assert slots.objection("bad")
        slot.succeeded()
        assert slots.objection("bad") == ""
        others.append(slots.take("bad"))
    slot.succeeded()
    assert not slot.is_failing
    others[0].give_back()
    assert slots.objection("bad") == ""


def test_undoing_needs_no_slot(slots: Slots) -> None:
    taken = [slots.take("a") for _ in range(MOST)]
    with taken[0].undoing():
        assert not slots.is_full
    assert not slots.is_full


def test_namespace_that_has_very_much_to_undo_begins_nothing_new(slots: Slots) -> None:
    with ExitStack() as undoing:
        for _ in range(UNDOING_MAX):
            undoing.enter_context(slots.take("bad").undoing())
        assert slots.objection("bad") == f"{UNDOING_MAX} attempts in namespace bad have not undone their writes yet"
        assert slots.objection("good") == ""
    assert slots.objection("bad") == ""


def in_a_loop(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(act())


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_waits_gets_a_slot_in_the_order_of_coming(slots: Slots) -> None:
    order: list[str] = []

    async def wait(name: str) -> None:
        await slots.wait(name)
        order.append(name)

    async def act() -> None:
        taken = [slots.take("a") for _ in range(MOST)]
        tasks = [asyncio.create_task(wait(name)) for name in ("first", "second", "third")]
        await turns()
        assert order == []
        for slot in taken[:3]:
            slot.give_back()
        await turns()
        assert order == ["first", "second", "third"]
        assert slots.is_full
        assert all(task.done() for task in tasks)

    in_a_loop(act)


def test_who_waits_in_a_namespace_with_fewer_slots_goes_before_the_pile_of_another(slots: Slots) -> None:
    order: list[str] = []

    async def wait(namespace: str) -> None:
        await slots.wait(namespace)
        order.append(namespace)

    async def act() -> None:
        taken = [slots.take("pile") for _ in range(MOST)]
        tasks = [asyncio.create_task(wait(namespace)) for namespace in ("pile", "pile", "good", "good")]
        await turns()
        for slot in taken[:4]:
            slot.give_back()
        await turns()
        assert order == ["good", "good", "pile", "pile"]
        assert slots.is_full
        assert all(task.done() for task in tasks)

    in_a_loop(act)


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_slot_of_who_is_cancelled_while_waiting_goes_to_the_next(slots: Slots, is_handed_over: bool) -> None:  # noqa: FBT001
    async def act() -> None:
        taken = [slots.take("a") for _ in range(MOST)]
        first, second = (asyncio.create_task(slots.wait(name)) for name in ("first", "second"))
        await turns()
        if is_handed_over:
            taken[0].give_back()
            first.cancel()
        else:
            first.cancel()
            await turns()
            taken[0].give_back()
        await turns()
        assert first.cancelled()
        assert second.done()
        assert slots.is_full
        second.result().give_back()
        assert not slots.is_full

    in_a_loop(act)


async def decided(slots: Slots) -> int:
    """Decide for as long as one shall; how many attempts there were, each of which waits for its slot."""
    number = 0
    while not slots.has_enough:
        asyncio.get_running_loop().create_task(slots.wait("a"))
        await asyncio.sleep(0)
        number += 1
    return number


def test_half_as_many_as_there_are_slots_are_decided_ahead_and_the_next_once_none_of_them_waits(slots: Slots) -> None:
    async def act() -> list[int]:
        taken = [slots.take("a") for _ in range(MOST)]
        numbers = [await decided(slots)]
        for slot in taken[: MOST // 2]:
            slot.give_back()
            numbers.append(await decided(slots))
        return numbers

    assert asyncio.run(act()) == [MOST // 2, *([0] * (MOST // 2 - 1)), MOST // 2]


def test_nothing_is_decided_ahead_while_races_are_lost() -> None:
    async def act() -> int:
        slots = Slots(64, float)
        for _ in range(64):
            slots.take("a")
        slots.lost()
        return await decided(slots)

    assert asyncio.run(act()) == 0


def test_where_writes_of_one_namespace_fail_pods_of_others_are_decided_ahead_and_its_own_are_not() -> None:
    async def act() -> int:
        slots = Slots(64, float)
        for _ in range(64):
            slots.take("a")
        for _ in range(6):
            slots.failed("bad", "500 webhook")
        waiting = asyncio.create_task(slots.wait("bad"))
        assert not slots.objection("bad")
        await turns()
        assert slots.objection("bad")
        number = await decided(slots)
        waiting.cancel()
        await turns()
        assert not slots.objection("bad")
        return number

    assert asyncio.run(act()) == 31


def test_limit_of_a_namespace_ends_some_minutes_after_its_last_failure() -> None:
    now = 0.0
    slots = Slots(64, lambda: now)
    for _ in range(7):
        slots.failed("bad", "500 webhook")
    slot = slots.take("bad")
    now = FAILING_S - 1
    assert slot.is_failing
    slots.failed("bad", "500 webhook")
    now += FAILING_S - 1
    assert slots.objection("bad")
    now += 1
    assert not slots.objection("bad")
    assert not slot.is_failing


def test_namespaces_where_writes_failed_long_ago_are_forgotten() -> None:
    now = 0.0
    slots = Slots(64, lambda: now)
    for number in range(100_000):
        now += 1.0
        slots.failed(f"ns-{number}", "gone")
    assert len(slots._limits) <= FAILING_S


def test_nothing_is_decided_ahead_of_a_single_slot() -> None:
    assert asyncio.run(decided(Slots(1, float))) == 1


def room(slots: Slots) -> int:
    """How many attempts may be under way."""
    taken = []
    while not slots.is_full:
        taken.append(slots.take("a"))
    for one in taken:
        one.give_back()
    return len(taken)


def test_each_lost_race_halves_what_may_be_under_way_down_to_a_few() -> None:
    slots = Slots(64, float)
    rooms = []
    for _ in range(5):
        slots.lost()
        rooms.append(room(slots))
    assert rooms == [32, 16, CONTENDED_LEAST, CONTENDED_LEAST, CONTENDED_LEAST]


def test_each_success_after_lost_races_lets_one_more_be_under_way_up_to_all() -> None:
    slots = Slots(64, float)
    slots.lost()
    rooms = []
    for _ in range(34):
        slots.succeeded("a")
        rooms.append(room(slots))
    assert rooms == [*range(33, 65), 64, 64]


def test_where_there_are_few_slots_lost_races_take_none_of_them() -> None:
    slots = Slots(2, float)
    slots.lost()
    assert room(slots) == 2


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt takes long."""
    monkeypatch.setattr(slots_module, "SLOW_S", 0.0)
    monkeypatch.setattr(slots_module, "LONG_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_attempt_that_takes_long_goes_on_without_its_slot() -> None:
    async def act() -> list[bool]:
        slots = Slots(1, float)
        slot = slots.take("slow")
        full = [slots.is_full]
        with slot.not_for_long():
            await turns()
            full.append(slots.is_full)
            full.append(slot.is_slow)
        slot.give_back()
        return [*full, slots.is_full]

    assert asyncio.run(act()) == [True, False, True, False]


@pytest.mark.usefixtures("at_once")
def test_namespace_whose_attempts_take_long_begins_no_more_than_its_share_and_others_go_on() -> None:
    async def act() -> list[str]:
        slots = Slots(MOST, float)
        said = []
        with ExitStack() as writing:
            for _ in range(MOST // 2):
                said.append(slots.slowness("slow"))
                writing.enter_context((slot := slots.take("slow")).not_for_long())
                writing.callback(slot.give_back)
                await turns()
            said += [slots.slowness("slow"), slots.slowness("good")]
        return [*said, slots.slowness("slow")]

    told = f"writes in namespace slow take long, and its pods are tried {MOST // 2} at a time"
    assert asyncio.run(act()) == [*[""] * (MOST // 2), told, "", ""]


@pytest.mark.usefixtures("at_once")
def test_namespaces_whose_attempts_take_long_share_what_goes_on_without_slots() -> None:
    async def act() -> list[str]:
        slots = Slots(4 * BESIDE_MAX, float)
        slots.take("good").succeeded()
        with ExitStack() as writing:
            for namespace in range(BESIDE_MAX):
                writing.enter_context((slot := slots.take(f"namespace-{namespace}")).not_for_long())
                writing.callback(slot.give_back)
            await turns()
            return [slots.slowness("namespace-0"), slots.slowness("good")]

    told = "writes in namespace namespace-0 take long, and its pods are tried 1 at a time"
    assert asyncio.run(act()) == [told, ""]


async def begun(slots: Slots, namespace: str, most: int = 4 * BESIDE_MAX) -> list[Slot]:
    """The attempts that the namespace may begin now; each goes on for as long as the test keeps it."""
    under_way: list[Slot] = []
    while len(under_way) < most and not slots.slowness(namespace):
        under_way.append(await slots.wait(namespace))
    return under_way


def test_attempts_that_have_just_begun_in_a_slow_namespace_count_for_its_share() -> None:
    async def act() -> list[int]:
        slots = Slots(MOST, float)
        slots.speeds.took_long("slow")
        under_way = await begun(slots, "slow")
        return [len(under_way), len(await begun(slots, "slow")), room(slots)]

    assert asyncio.run(act()) == [MOST // 2, 0, MOST]


def test_slow_namespaces_together_begin_no_more_than_may_go_on_without_slots() -> None:
    async def act() -> list[object]:
        slots = Slots(4 * BESIDE_MAX, float)
        namespaces = [f"namespace-{number}" for number in range(2 * BESIDE_MAX)]
        for namespace in namespaces:
            slots.speeds.took_long(namespace)
        under_way = [await begun(slots, namespace, 1) for namespace in namespaces]
        return [sum(map(len, under_way)), slots.slowness(namespaces[-1]), slots.slowness("good")]

    told = f"writes in many namespaces take long, and pods such as those of namespace-63 are tried {SLOW_MAX} at a time"
    assert asyncio.run(act()) == [SLOW_MAX, told, ""]


def test_while_others_are_slow_namespaces_that_may_be_slow_share_what_these_leave_and_quick_ones_wait_for_none() -> (
    None
):
    async def act() -> list[int]:
        slots = Slots(4 * BESIDE_MAX, float)
        slots.take("quick").succeeded()
        slots.speeds.took_long("slow")
        slow = await begun(slots, "slow")
        untried = [await begun(slots, f"namespace-{number}", 3) for number in range(BESIDE_MAX)]
        quick = await begun(slots, "quick", 2 * BESIDE_MAX)
        return [len(slow), len(slow) + sum(map(len, untried)), len(quick)]

    assert asyncio.run(act()) == [SLOW_MAX, BESIDE_MAX, 2 * BESIDE_MAX]


@pytest.mark.usefixtures("at_once")
def test_namespaces_that_turn_out_to_be_slow_one_after_the_other_have_no_more_than_may_go_on_without_slots() -> None:
    """As many namespaces as you like, where nothing is known of any: only the first attempts begin unknowing."""

    async def act() -> int:
        slots = Slots(MOST, float)
        with ExitStack() as writing:
            number = 0
            for namespace in range(4 * BESIDE_MAX):
                if not slots.slowness(f"namespace-{namespace}"):
                    writing.enter_context((slot := slots.take(f"namespace-{namespace}")).not_for_long())
                    writing.callback(slot.give_back)
                    number += 1
                    await turns()
            return number

    assert asyncio.run(act()) == BESIDE_MAX


def test_namespace_where_attempts_take_somewhat_long_is_quick_still_and_has_places_that_slow_ones_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As all do where the API server has much to do."""
    monkeypatch.setattr(slots_module, "SLOW_S", 0.0)

    async def act() -> list[int]:
        slots = Slots(4 * BESIDE_MAX, float)
        slots.take("good").succeeded()
        slow = [str(number) for number in range(SLOW_MAX)]
        for namespace in slow:
            slots.speeds.took_long(namespace)
        hanging = [await begun(slots, namespace, 1) for namespace in slow]
        with ExitStack() as writing:
            number = 0
            while not slots.slowness("good"):
                writing.enter_context((slot := slots.take("good")).not_for_long())
                writing.callback(slot.give_back)
                await turns()
                number += 1
            slot.succeeded()
        assert "good" in slots.speeds.quick
        return [sum(map(len, hanging)), number]

    assert asyncio.run(act()) == [SLOW_MAX, QUICK_SHARE]


def test_quick_namespace_without_an_attempt_that_takes_long_waits_for_no_other() -> None:
    slots = Slots(MOST, float)
    for namespace in ("good", "worse"):
        slots.take(namespace).succeeded()
    with ExitStack() as writing:
        for namespace in ["worse", *map(str, range(QUICK_BESIDE_MAX))]:
            writing.enter_context(slots.beside(namespace))
        assert slots.slowness("good") == ""
        told = "writes in many namespaces take long, and pods such as those of worse are tried 40 at a time"
        assert slots.slowness("worse") == told


def test_namespace_has_few_attempts_until_one_has_succeeded() -> None:
    slots = Slots(64, float)
    taken = [slots.take("new") for _ in range(UNTRIED_MAX - 1)]
    assert slots.doubt("new") == ""
    with slots.beside("new"):
        told = "nothing is known yet of writes in namespace new, and its pods are tried 8 at a time"
        assert (slots.doubt("new"), slots.doubt("other")) == (told, "")
        taken[0].succeeded()
        assert slots.doubt("new") == ""


def test_attempts_that_wait_for_another_one_of_their_namespace_are_of_its_few() -> None:
    """Each of them writes as soon as the one has, and nothing is known of their writes yet."""
    slots = Slots(64, float)
    with ExitStack() as waiting:
        for _ in range(UNTRIED_MAX - 1):
            slots.take("new")
            waiting.enter_context(slots.lent("new"))
        assert slots.doubt("new") == ""
        slots.take("new")
        assert slots.doubt("new")


def test_without_slow_namespaces_any_begins_what_it_likes() -> None:
    async def act() -> int:
        return len(await begun(Slots(4 * BESIDE_MAX, float), "new", 2 * BESIDE_MAX))

    assert asyncio.run(act()) == 2 * BESIDE_MAX


@pytest.mark.usefixtures("at_once")
def test_namespace_is_slow_until_an_attempt_binds_its_pod_in_time_or_some_minutes_have_passed() -> None:
    now = 0.0
    slots = Slots(MOST, lambda: now)

    async def take_long() -> None:
        slot = slots.take("slow")
        with slot.not_for_long():
            await turns()
            slot.succeeded()  # too late
        slot.give_back()

    asyncio.run(take_long())
    assert slots.speeds.is_slow("slow")
    slots.take("slow").succeeded()
    assert not slots.speeds.is_slow("slow")
    asyncio.run(take_long())
    now = SLOWNESS_S - 1
    assert slots.speeds.is_slow("slow")
    now = SLOWNESS_S
    assert not slots.speeds.is_slow("slow")


def test_what_is_known_of_namespaces_has_a_bound() -> None:
    now = 0.0
    speeds = Speeds(lambda: now)
    for number in range(2 * QUICK_MAX):
        now += 1.0
        speeds.was_quick(f"quick-{number}")
        speeds.took_long(f"slow-{number}")
        assert speeds.is_slow(f"slow-{number}")
    assert len(speeds.quick) == QUICK_MAX
    assert len(speeds._slow) <= SLOWNESS_S


@pytest.mark.usefixtures("at_once")
def test_attempt_that_took_long_and_waits_for_its_devices_does_not_count() -> None:
    async def act() -> str:
        slots = Slots(2, float)
        slot = slots.take("slow")
        with slot.not_for_long():
            await turns()
            slot.give_back()
            return slots.slowness("slow")

    assert asyncio.run(act()) == ""


def test_attempt_that_is_short_keeps_its_slot() -> None:
    async def act() -> bool:
        slots = Slots(1, float)
        with slots.take("quick").not_for_long():
            await turns()
            return slots.is_full

    assert asyncio.run(act())


@pytest.mark.usefixtures("at_once")
def test_deallocation_whose_write_takes_long_goes_on_beside_others() -> None:
    slots = Slots(1, float)

    async def no_answer(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def act() -> None:
        claim = a_raw_claim(allocation=an_allocation("gpu-0"), reserved_for=["uid-pod"])
        decision = Decision(PodKey.of(a_pod()), "", (ClaimPlan(claim),), 1)
        parts: Any = {"api": SimpleNamespace(request=no_answer), "claims": claims("v1"), "scheduler": "ours"}
        binder = cast(Binder, SimpleNamespace(**parts, epoch=1, process="1"))
        task = asyncio.create_task(deallocate_one(binder, decision, slots.take("a")))
        for _ in range(MOST):
            await asyncio.sleep(0)
        assert not task.done()
        assert not slots.is_full
        task.cancel()
        await asyncio.wait([task])
        assert slots.slowness("a") == ""

    asyncio.run(act())


async def reserve(slot: Slot, locks: KeyLocks[str, str], may_write: asyncio.Event) -> None:
    """As an attempt does that reserves a claim which others of this process use as well."""
    with slot.not_for_long():
        async with locks.of("shared", slot.lent):
            await may_write.wait()
    slot.give_back()


def test_pods_that_wait_for_each_other_to_reserve_one_claim_keep_no_slots() -> None:
    async def act() -> list[object]:
        slots, locks, may_write = Slots(MOST, float), KeyLocks[str, str](), asyncio.Event()
        tasks = []
        for _ in range(3 * MOST):
            if not slots.slowness("shares"):
                tasks.append(asyncio.create_task(reserve(await slots.wait("shares"), locks, may_write)))
                await turns()
        begun, waits = len(tasks), slots.slowness("shares")
        free = len(await asyncio.wait_for(begun_ones(slots), 5))
        may_write.set()
        await asyncio.gather(*tasks)
        return [begun, waits, free, slots.slowness("shares"), room(slots)]

    told = f"{MOST} pods of namespace shares wait for each other to reserve claims that they share"
    assert asyncio.run(act()) == [MOST + 1, told, MOST - 1, "", MOST]


async def begun_ones(slots: Slots) -> list[Slot]:
    """As many attempts as can have a slot at once; they end at once."""
    slots_of_others = [await slots.wait("good") for _ in range(MOST - 1)]
    for one in slots_of_others:
        one.give_back()
    return slots_of_others


@pytest.mark.usefixtures("at_once")
def test_attempt_that_waits_for_another_one_is_not_slow_and_goes_on_with_a_slot_of_its_own() -> None:
    async def act() -> list[object]:
        slots = Slots(1, float)
        slot = slots.take("shares")
        with slot.not_for_long():
            async with slot.lent():
                other = await slots.wait("good")
                await turns()
                said: list[object] = [slot.is_slow, slots.speeds.is_slow("shares"), room(slots)]
                other.give_back()
            said.append(slots.is_full)
            await turns()
            said.append(slot.is_slow)
        slot.give_back()
        return [*said, room(slots)]

    assert asyncio.run(act()) == [False, False, 0, True, True, 1]


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_attempt_that_fails_while_it_waits_for_another_one_has_no_slot(error: type[BaseException]) -> None:
    async def act() -> int:
        slots = Slots(MOST, float)
        slot = slots.take("shares")
        with pytest.raises(error):
            async with slot.lent():
                raise error
        slot.give_back()
        return room(slots)

    assert asyncio.run(act()) == MOST
