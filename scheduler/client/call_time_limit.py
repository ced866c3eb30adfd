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
    """Raises TimeoutError in the context that it is where it lasts longer than it may, an eighth more at most.

    send_s: until the call is sent. answer_s: from then on. Time in which the loop was held up is not counted. is_sent:
    whether the server may have heard of the call.
    """

    def __init__(self, send_s: float, answer_s: float) -> None:
        self.is_sent = False
        self._send_s = send_s
        self._answer_s = answer_s
        self._tick_s = send_s / TICKS
        self._left = TICKS
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle | None = None
        self._task = asyncio.current_task(self._loop)
        self._cancelled = 0

    def sent(self) -> None:
        """From here on the server may act; the time begins again: what was waited for before was none of its doing."""
        self.is_sent = True
        self._begin(self._answer_s)

    def unsent(self) -> None:
        """The server has said that it did nothing; the time begins again."""
        self.is_sent = False
        self._begin(self._send_s)

    def _begin(self, seconds: float) -> None:
        if seconds == self._tick_s * TICKS:
            self._left = TICKS + 1  # the tick that runs is not a whole one
            return
        self._tick_s, self._left = seconds / TICKS, TICKS
        if self._handle is not None:
            self._handle.cancel()
            self._count()

    def __enter__(self) -> Self:
        assert self._task is not None, "there is no task to cancel"
        self._cancelled = self._task.cancelling()
        self._count()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._handle is not None
        assert self._task is not None
        self._handle.cancel()
        # As asyncio.timeout, which needs two coroutines for it: whoever else has cancelled the task goes first.
        if self._is_over and self._task.uncancel() <= self._cancelled and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _count(self) -> None:
        self._handle = self._loop.call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._count()
        else:
            self._handle = self._loop.call_soon(self._end)  # an answer that is here by now comes first

    def _end(self) -> None:
        assert self._task is not None
        self._is_over = True
        self._task.cancel()
