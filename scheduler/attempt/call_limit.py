"""Limits concurrent calls, in total and per namespace: a namespace where calls hang delays no other.

Calls that take long count for their namespace alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from scheduler.client.concurrency import ConcurrencyLimit


@dataclass(slots=True)
class _Lane:
    """The calls of one namespace. users: those under way and those that wait."""

    limit: asyncio.Semaphore
    users: int = 0


class CallLimit:
    """total: calls at the same time. each: of them in one namespace."""

    def __init__(self, total: int, each: int) -> None:
        self._total = ConcurrencyLimit(total)
        self._each = each
        self._lanes: dict[str, _Lane] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """One call, for as long as the context is open."""
        lane = self._lanes.setdefault(namespace, _Lane(asyncio.Semaphore(self._each)))
        lane.users += 1
        try:
            # First the namespace's own limit: what waits for it keeps nobody else from calling.
            async with lane.limit, self._total.call():
                yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[namespace]
