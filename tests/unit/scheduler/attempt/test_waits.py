"""Several waits at the same time."""

import asyncio
from dataclasses import dataclass, field

import pytest

from scheduler.attempt.decision import AttemptEnded, AttemptOutcome, Pending, Retry, Step
from scheduler.attempt.steps.pod import Waits


@dataclass(eq=False)
class WaitsWaiting(Step):
    """A wait that ends when it is told to. log: whether it was cancelled."""

    outcome: AttemptOutcome | None = None
    ends: asyncio.Event = field(default_factory=asyncio.Event)
    is_cancelled: bool = False

    async def do(self) -> Pending | None:
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        if self.outcome is None or isinstance(self.outcome, Pending):
            return self.outcome
        raise AttemptEnded(self.outcome)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_it_ends_with_the_last_of_them() -> None:
    async def run() -> None:
        first, second = WaitsWaiting(), WaitsWaiting()
        waits = asyncio.create_task(Waits([first, second]).do())
        second.ends.set()
        await turn()
        assert not waits.done()
        first.ends.set()
        assert await waits is None

    asyncio.run(run())


def test_what_fails_first_ends_the_others() -> None:
    async def run() -> None:
        first, second = WaitsWaiting(), WaitsWaiting(Retry("failed"))
        second.ends.set()
        with pytest.raises(AttemptEnded) as ended:
            await Waits([first, second]).do()
        assert ended.value.outcome == Retry("failed")
        assert first.is_cancelled

    asyncio.run(run())


def test_one_that_is_pending_is_reported() -> None:
    async def run() -> None:
        first, second = WaitsWaiting(Pending("later")), WaitsWaiting()
        first.ends.set()
        second.ends.set()
        assert await Waits([first, second]).do() == Pending("later")

    asyncio.run(run())


def test_cancelled_it_cancels_all() -> None:
    async def run() -> None:
        first, second = WaitsWaiting(), WaitsWaiting()
        waits = asyncio.create_task(Waits([first, second]).do())
        await turn()
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert first.is_cancelled
        assert second.is_cancelled

    asyncio.run(run())
