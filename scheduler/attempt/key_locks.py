"""One lock for each key: tasks that need the same key wait for each other.

Pods that share a claim reserve it one after the other; at the same time, all but one would get conflicts again and
again. Each passes the stored version on to the next one, because the watch may not have shown it yet.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Passed = TypeVar("Passed")


@dataclass(slots=True)
class KeyLock(Generic[Passed]):
    """The lock of one key. passed_on: what the holder before has stored, None where there was none.

    users: who holds the lock or waits for it; it is forgotten with the last.
    """

    passed_on: Passed | None = None
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class KeyLocks(Generic[Key, Passed]):
    """The locks by key."""

    def __init__(self) -> None:
        self._locks: dict[Key, KeyLock[Passed]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether the lock is held or waited for."""
        return key in self._locks

    @asynccontextmanager
    async def of(self, key: Key) -> AsyncIterator[KeyLock[Passed]]:
        """The lock, held for as long as the context is open."""
        found = self._locks.setdefault(key, KeyLock())
        found.users += 1
        try:
            async with found.lock:
                yield found
        finally:
            found.users -= 1
            if not found.users:
                del self._locks[key]
