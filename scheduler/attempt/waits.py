"""Turns: of those who want the same thing at the same time, each waits until the one before has done with it.

Pods that share a claim reserve it so: all at once, each but one would conflict, again and again. Who has waited begins
with what the one before has left, which the watch may not have shown yet.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Left = TypeVar("Left")


@dataclass(slots=True)
class Turn(Generic[Left]):
    """left: what the one before has left for the next, None where nobody has; it goes with the last who wants it."""

    left: Left | None = None
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Turns(Generic[Key, Left]):
    """The turns by what is wanted."""

    def __init__(self) -> None:
        self._turns: dict[Key, Turn[Left]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether somebody has the turn, or waits for it."""
        return key in self._turns

    @asynccontextmanager
    async def of(self, key: Key) -> AsyncIterator[Turn[Left]]:
        """The turn, for as long as the context is open."""
        turn = self._turns.setdefault(key, Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield turn
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]
