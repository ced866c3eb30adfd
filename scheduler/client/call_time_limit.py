"""The time limit of a call, counted only while the event loop is free.

A decision may block the loop for seconds, while an answer already waits in the socket. A limit that counted those
seconds would end the call, and a write that was stored would have an unknown outcome.
"""

import asyncio
from types import TracebackType
from typing import Self

TICKS = 8
"""Parts of a limit. However late one is counted, it counts once: so many turns the loop has, at least."""


class TimeLimit:
    """Raises TimeoutError in the context that it is where it lasts longer than seconds, an eighth more at most.

    Time in which the loop was held up is not counted. is_sent: whether the server may have heard of the call.
    """

    def __init__(self, seconds: float) -> None:
        self.is_sent = False
        self._tick_s = seconds / TICKS
        self._left = TICKS
        self._timeout = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def sent(self) -> None:
        """From here on the server may act; the time begins again: what was waited for before was none of its doing."""
        self.is_sent = True
        self._left = TICKS + 1  # the tick that runs is not a whole one

    def unsent(self) -> None:
        """The server has said that it did nothing; the time begins again."""
        self.is_sent = False
        self._left = TICKS + 1

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._count()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _count(self) -> None:
        self._handle = self._loop.call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._count()
        else:
            self._timeout.reschedule(self._loop.time())
