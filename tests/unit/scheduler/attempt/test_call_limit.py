"""Calls that hang in one namespace leave room for those of others."""

import asyncio

import pytest

from scheduler.attempt import slots as slots_module
from scheduler.attempt.slots import CallLimit
from scheduler.client import connection


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def under_way(*namespaces: str, total: int = 3, each: int = 2) -> list[str]:
    """Whose calls are under way where none ends."""
    found: list[str] = []

    async def call(limit: CallLimit, namespace: str) -> None:
        async with limit.of(namespace):
            found.append(namespace)
            await asyncio.Event().wait()

    async def act() -> None:
        limit = CallLimit(total, each)
        tasks = [asyncio.create_task(call(limit, namespace)) for namespace in namespaces]
        await turns()
        for task in tasks:
            task.cancel()

    asyncio.run(act())
    return found


def test_namespace_has_no_more_calls_than_its_own_limit() -> None:
    assert under_way("a", "a", "a") == ["a", "a"]


def test_calls_that_wait_for_their_namespace_keep_nobody_else_from_calling() -> None:
    assert under_way("a", "a", "a", "a", "b") == ["a", "a", "b"]


def test_all_namespaces_together_have_no_more_than_the_total() -> None:
    assert under_way("a", "b", "c", "d") == ["a", "b", "c"]


def test_call_that_ends_lets_the_next_of_its_namespace_go() -> None:
    order: list[int] = []

    async def call(limit: CallLimit, number: int) -> None:
        async with limit.of("a"):
            order.append(number)

    async def act() -> None:
        limit = CallLimit(1, 1)
        await asyncio.gather(*(call(limit, number) for number in range(5)))

    asyncio.run(act())
    assert order == [0, 1, 2, 3, 4]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any call takes long."""
    monkeypatch.setattr(slots_module, "LONG_S", 0.0)
    monkeypatch.setattr(connection, "SLOW_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_calls_of_slow_namespaces_together_have_no_more_than_the_total_and_others_go_on() -> None:
    """Four of them have three calls each that hang, of which the first shows it."""
    found: list[str] = []

    async def call(limit: CallLimit, namespace: str) -> None:
        async with limit.of(namespace):
            found.append(namespace)
            await asyncio.Event().wait()

    async def act() -> None:
        limit = CallLimit(total=1, each=8)
        tasks = []
        for namespace in "abcd":
            tasks.append(asyncio.create_task(call(limit, namespace)))
            await turns()
        tasks += [asyncio.create_task(call(limit, namespace)) for namespace in "aabbccdd"]
        await turns()
        tasks.append(asyncio.create_task(call(limit, "good")))
        await turns()
        for task in tasks:
            task.cancel()

    asyncio.run(act())
    assert sorted(found[:4]) == ["a", "b", "c", "d"]
    assert found[-1] == "good"
    assert len(found) == 4 + 1 + 1


@pytest.mark.usefixtures("at_once")
def test_while_others_are_slow_a_namespace_of_which_nothing_is_known_has_one_call_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []

    async def call(limit: CallLimit, namespace: str, answered: asyncio.Event) -> None:
        async with limit.of(namespace):
            found.append(namespace)
            await answered.wait()

    async def act() -> None:
        limit, never, now = CallLimit(total=8, each=8), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(call(limit, "slow", never))]
        await turns()
        monkeypatch.undo()
        tasks += [asyncio.create_task(call(limit, "new", now)) for _ in range(5)]
        await turns()
        assert found == ["slow", "new"]
        now.set()
        await turns()
        for task in tasks:
            task.cancel()

    asyncio.run(act())
    assert found == ["slow", *["new"] * 5]
