"""Answers of bind wait for each other, so that kube-scheduler keeps its connections.

Its client keeps two idle connections, one of which filter uses. A third one is closed, and a call that finds none opens
a new one: for nearly every pod, since pods are not bound as regularly as they are asked about. A TLS handshake costs
both sides more than the call. So an answer that would leave a third connection idle waits until the next call of bind
takes one.
Source: DefaultMaxIdleConnsPerHost of Go's net/http, which kube-scheduler's client of extenders does not change.
"""

import asyncio
from collections import deque

QUIET_S = 0.05
"""No answer waits any longer after so much time without a call of bind."""

MOST_HELD = 32
"""Answers that wait at the same time."""


class HeldAnswers:
    """The answers of bind that wait, the oldest first. quiet_s, most: as above."""

    def __init__(self, quiet_s: float = QUIET_S, most: int = MOST_HELD) -> None:
        self._quiet_s = quiet_s
        self._most = most
        self._has_room = True
        self._held: deque[asyncio.Future[None]] = deque()
        self._quiet: asyncio.TimerHandle | None = None

    def called(self) -> None:
        """A call of bind has taken a connection."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(self._quiet_s, self._release_all)
        if self._held:
            self._release()
        else:
            self._has_room = True

    async def wait(self) -> None:
        """Wait until the connection of an answer would be kept. Each answer comes after its call."""
        if self._has_room or self._quiet is None:
            self._has_room = False
            return
        if len(self._held) == self._most:
            self._release()
        held = asyncio.get_running_loop().create_future()
        self._held.append(held)
        await held

    def _release(self) -> None:
        held = self._held.popleft()
        if not held.done():  # its call may have been cancelled
            held.set_result(None)

    def _release_all(self) -> None:
        self._quiet = None
        while self._held:
            self._release()
