"""Which call of filter waits for a call of bind, and until when."""

import asyncio
from collections.abc import Callable

import pytest

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import ClaimVolume, PodVolumes
from scheduler.extender.bind import ExpectedBind
from tests.builders import a_user

FIRST, SECOND = a_user("first"), a_user("second")
LONG_S = 3600.0


def after_first_call(expected_s: float = LONG_S) -> ExpectedBind:
    """A call of bind has come already."""
    expected = ExpectedBind(expected_s)
    expected.came("uid-any")
    return expected


async def waits(expected: ExpectedBind, pod: Pod, then: Callable[[], None]) -> bool:
    """Whether the question about the pod waits for what is done then."""
    asked = asyncio.ensure_future(expected.before(pod))
    await asyncio.sleep(0)
    is_waiting = not asked.done()
    then()
    await asyncio.wait_for(asked, LONG_S)
    return is_waiting


def nothing() -> None:
    """No call comes."""


def test_next_pod_waits_until_the_devices_of_the_pod_before_are_reserved() -> None:
    async def act() -> list[bool]:
        expected = after_first_call()
        expected.passed(FIRST)
        found = [await waits(expected, SECOND, lambda: expected.came(FIRST.uid))]
        return [*found, await waits(expected, SECOND, nothing)]

    assert asyncio.run(act()) == [True, False]


@pytest.mark.parametrize("pod", [FIRST, SECOND])
def test_nobody_waits_before_a_pod_has_passed(pod: Pod) -> None:
    assert not asyncio.run(waits(after_first_call(), pod, nothing))


def test_pod_that_is_asked_about_again_waits_for_no_bind_of_its_own() -> None:
    async def act() -> bool:
        expected = after_first_call()
        expected.passed(FIRST)
        return await waits(expected, FIRST, nothing)

    assert not asyncio.run(act())


def test_no_call_is_expected_for_a_pod_whose_volumes_may_have_to_be_bound_first() -> None:
    async def act() -> bool:
        expected = after_first_call()
        expected.passed(a_user("first", volumes=PodVolumes((ClaimVolume("data"),))))
        return await waits(expected, SECOND, nothing)

    assert not asyncio.run(act())


def test_call_of_another_pod_ends_no_wait() -> None:
    async def act() -> bool:
        expected = after_first_call()
        expected.passed(FIRST)
        asked = asyncio.ensure_future(expected.before(SECOND))
        expected.came(SECOND.uid)
        await asyncio.sleep(0)
        is_waiting = not asked.done()
        expected.came(FIRST.uid)
        await asked
        return is_waiting

    assert asyncio.run(act())


def test_wait_ends_where_the_pod_before_is_asked_about_again() -> None:
    async def act() -> bool:
        expected = after_first_call()
        expected.passed(FIRST)
        return await waits(expected, SECOND, lambda: expected.passed(FIRST))

    assert asyncio.run(act())


def test_call_that_does_not_come_is_given_up_and_none_is_expected_until_another_one_comes() -> None:
    async def act() -> list[bool]:
        expected = after_first_call(0.0)
        found = []
        for _ in range(2):
            expected.passed(FIRST)
            found.append(await waits(expected, SECOND, nothing))
        expected.came(FIRST.uid)
        expected.passed(FIRST)
        return [*found, await waits(expected, SECOND, nothing)]

    assert asyncio.run(act()) == [True, False, True]


def test_no_call_is_expected_before_one_has_come() -> None:
    async def act() -> bool:
        expected = ExpectedBind(LONG_S)
        expected.passed(FIRST)
        return await waits(expected, SECOND, nothing)

    assert not asyncio.run(act())
