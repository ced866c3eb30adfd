"""So many calls at a time, as long as they are short."""

import asyncio

import pytest

from scheduler.client import connection
from scheduler.client.connection import ConcurrencyLimit


async def some_turns_of_the_loop() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def began(limit: ConcurrencyLimit, number: int, ends: asyncio.Event) -> list[int]:
    """Which of so many calls have begun, of which each ends with the event."""
    found: list[int] = []

    async def call(one: int) -> None:
        async with limit.call():
            found.append(one)
            await ends.wait()

    tasks = [asyncio.create_task(call(one)) for one in range(number)]
    await some_turns_of_the_loop()
    before = list(found)
    ends.set()
    await asyncio.gather(*tasks)
    assert found == list(range(number))
    return before


def test_no_more_than_the_limit_are_under_way_at_a_time() -> None:
    async def act() -> list[int]:
        return await began(ConcurrencyLimit(3), 5, asyncio.Event())

    assert asyncio.run(act()) == [0, 1, 2]


def test_what_takes_long_does_not_count_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SLOW_S", 0.0)

    async def act() -> list[int]:
        return await began(ConcurrencyLimit(3), 5, asyncio.Event())

    assert asyncio.run(act()) == [0, 1, 2, 3, 4]


def test_place_of_what_took_long_is_given_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> list[int]:
        limit = ConcurrencyLimit(1)
        with monkeypatch.context() as soon:
            soon.setattr(connection, "SLOW_S", 0.0)
            await began(limit, 3, asyncio.Event())
        return await began(limit, 3, asyncio.Event())

    assert asyncio.run(act()) == [0]
