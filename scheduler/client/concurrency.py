"""Limits what goes on at the same time, as long as it is short.

A call may take as long as the API server and its webhooks, which is more than a minute. What takes longer than `SLOW_S`
does not count any more, so that it delays no other. Who makes such calls limits them by namespace.
"""

import asyncio

SLOW_S = 1.0
"""A call that takes longer is not counted, and an attempt that does holds no slot any more."""


class ConcurrencyLimit:
    """So many calls at the same time; the next one begins when one of them has ended, or takes long."""

    def __init__(self, number: int) -> None:
        self._places = asyncio.Semaphore(number)

    def call(self) -> "LimitedCall":
        """The context of one call."""
        return LimitedCall(self._places)


class LimitedCall:
    """One call. Entering waits until it may begin."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._places.acquire()
        self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._end)

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._end()

    def _end(self) -> None:
        """Let the next one begin."""
        self._timer = None
        self._places.release()
