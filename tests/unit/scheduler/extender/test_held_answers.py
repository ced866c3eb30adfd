"""Which answers of bind wait, and what lets them go out."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from scheduler.extender.verbs import HeldAnswers

LONG_S = 3600.0


class Answering:
    """Answers by their numbers, in the order in which they go out."""

    def __init__(self, quiet_s: float = LONG_S, most: int = 8) -> None:
        self.held = HeldAnswers(quiet_s, most)
        self.out: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    def call(self) -> None:
        self.held.called()

    async def answer(self, calls: int = 1) -> None:
        """So many calls are to be answered."""
        for _ in range(calls):
            self.tasks.append(asyncio.create_task(self._answer(len(self.tasks))))
        await settled()

    async def _answer(self, number: int) -> None:
        await self.held.wait()
        self.out.append(number)


async def settled() -> None:
    """Every task has gone as far as it gets."""
    for _ in range(5):
        await asyncio.sleep(0)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def test_answers_that_come_as_regularly_as_calls_do_not_wait() -> None:
    async def act() -> None:
        answering = Answering()
        for number in range(5):
            answering.call()
            await answering.answer()
            assert answering.out == list(range(number + 1))

    run(act)


def test_of_answers_that_come_together_one_goes_out_and_one_more_with_each_call() -> None:
    async def act() -> None:
        answering = Answering()
        for _ in range(4):
            answering.call()
        await answering.answer(3)
        assert answering.out == [0]
        for number in (1, 2):
            answering.call()
            await settled()
            assert answering.out == list(range(number + 1))
        answering.call()
        await answering.answer()
        assert answering.out == [0, 1, 2, 3]

    run(act)


def test_oldest_answer_goes_out_where_too_many_would_wait() -> None:
    async def act() -> None:
        answering = Answering(most=2)
        answering.call()
        await answering.answer(4)
        assert answering.out == [0, 1]

    run(act)


def test_all_answers_go_out_once_no_call_comes_and_none_waits_from_then_on() -> None:
    async def act() -> None:
        answering = Answering(quiet_s=0.0)
        answering.call()
        await answering.answer(3)
        await asyncio.gather(*answering.tasks)
        await answering.answer(2)
        assert answering.out == [0, 1, 2, 3, 4]

    run(act)


def test_answer_that_nobody_waits_for_any_more_uses_no_call() -> None:
    async def act() -> None:
        answering = Answering()
        answering.call()
        await answering.answer(3)
        answering.tasks[1].cancel()
        answering.call()
        await settled()
        assert answering.out == [0]
        answering.call()
        await settled()
        assert answering.out == [0, 2]

    run(act)
