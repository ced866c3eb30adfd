"""Who wants the same gets it one after the other, with what was left; who wants another thing waits for nobody."""

import asyncio

import pytest

from scheduler.attempt.slots import KeyLocks


class World:
    """KeyLocks, and what was done in them, in its order."""

    def __init__(self) -> None:
        self.locks: KeyLocks[str, str] = KeyLocks()
        self.done: list[tuple[str, str | None]] = []
        self.may_end = asyncio.Event()

    def begin(self, name: str, key: str = "key") -> asyncio.Task[None]:
        """Somebody takes the lock as soon as he has it, and leaves his name once he may end."""
        return asyncio.get_running_loop().create_task(self._take(name, key))

    async def _take(self, name: str, key: str) -> None:
        async with self.locks.of(key) as lock:
            self.done.append((name, lock.passed_on))
            await self.may_end.wait()
            lock.passed_on = name


async def run_all() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_after_the_other_finds_what_was_left() -> None:
    async def scenario() -> None:
        world = World()
        tasks = [world.begin(name) for name in ("a", "b", "c")]
        await run_all()
        assert world.done == [("a", None)]
        world.may_end.set()
        await asyncio.gather(*tasks)
        assert world.done == [("a", None), ("b", "a"), ("c", "b")]

    asyncio.run(scenario())


def test_who_wants_another_thing_waits_for_nobody() -> None:
    async def scenario() -> None:
        world = World()
        tasks = [world.begin("a", "one"), world.begin("b", "another")]
        await run_all()
        assert world.done == [("a", None), ("b", None)]
        world.may_end.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_nothing_is_left_once_nobody_wants_it_any_more() -> None:
    async def scenario() -> None:
        world = World()
        world.may_end.set()
        task = world.begin("a")
        assert "key" not in world.locks
        await task
        assert "key" not in world.locks
        await world.begin("b")
        assert world.done == [("a", None), ("b", None)]

    asyncio.run(scenario())


@pytest.mark.parametrize("who", [0, 1], ids=["at work", "waiting"])
def test_who_is_cancelled_lets_the_others_have_it(who: int) -> None:
    async def scenario() -> None:
        world = World()
        tasks = [world.begin(name) for name in ("a", "b", "c")]
        await run_all()
        tasks[who].cancel()
        await run_all()
        assert "key" in world.locks
        world.may_end.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [name for name, _ in world.done][-1] == "c"
        assert "key" not in world.locks

    asyncio.run(scenario())
