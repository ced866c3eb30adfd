"""Calls that hang in one namespace leave room for those of others."""

import asyncio

from scheduler.attempt.slots import CallLimit


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
