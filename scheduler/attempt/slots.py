"""Limits concurrent attempts: in total, and further in namespaces where writes fail.

An attempt holds a slot while it writes, and releases it before it waits for devices or undoes its steps. Each write
that fails without an answer (a webhook that is down, or hangs) halves the limit of its namespace; each success raises
it by one, and a namespace where none has failed for minutes has no limit. At least one slot stays, to find out when
writes succeed again. In the same way, each race lost to another
scheduler halves the total, down to `CONTENDED_LEAST`: the more bindings two schedulers have in progress without seeing
each other's choices, the more races each of them loses.

While no race is lost, attempts are decided ahead, and wait for a slot: half as many as there are slots, in a row, once
none of the last ones waits any more. In a row, a decision takes less time than alone between the writes of others
(docs/benchmarks.md). Those that wait already keep their turn, whatever fails meanwhile; they count for the limit of
their namespace.

An attempt that takes longer than `SLOW_S`, such as behind a slow webhook, goes on beside the others without a slot. It
counts for its namespace's share: a namespace that has used it up begins no further attempts, and delays no other.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from scheduler.client.connection import SLOW_S, ConcurrencyLimit

UNDOING_MAX = 256
"""Attempts of one namespace that may be taking back what they wrote; with more, it begins no further ones."""


CONTENDED_LEAST = 8
"""Attempts that may be under way however many races are lost: enough to keep an API server busy."""

FAILING_S = 300.0
"""A namespace where no write has failed for so long has no limit: a later attempt finds out whether writes succeed."""


BESIDE_MAX = 64
"""Attempts without a slot, which namespaces share; each has half as many as there are slots, at the most.

The API server's own limit for service accounts is 98 calls at a time by default, and a call that waits for a webhook
counts: with more, those of all other namespaces wait in its queues.
"""


class _Limit(NamedTuple):
    """Of a namespace where writes fail. most: attempts. reason: of the last failure, which was at this time."""

    most: int
    reason: str
    failed_at: float


class Slots:
    """The slots of one process. most: over all. on_room: called when a further attempt may be decided.

    clock: seconds that only go forward.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_room: Callable[[], None] = lambda: None
        self._clock = clock
        self._most = most
        self._uncontended = most
        self._free = most
        self._taken: Counter[str] = Counter()
        self._undoing: Counter[str] = Counter()
        self._beside: Counter[str] = Counter()
        self._limits: dict[str, _Limit] = {}  # in the order of their last failures
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._waiting_in: Counter[str] = Counter()
        self._ahead = most // 2
        self._was_ahead = False  # whether that many have waited at once since none waited

    @property
    def is_full(self) -> bool:
        """Whether no further attempt may begin now."""
        return self._most - self._free >= self._uncontended

    @property
    def has_enough(self) -> bool:
        """Whether no further attempt is to be decided now, not even one that has to wait for its slot."""
        is_contended = self._uncontended < self._most
        return self.is_full and (is_contended or self._was_ahead or len(self._waiting) >= self._ahead)

    def objection(self, namespace: str) -> str:
        """Why no further attempt may begin in the namespace for now; empty where one may."""
        limit = self._limit_of(namespace)
        under_way = self._taken[namespace] + self._waiting_in[namespace] + self._beside[namespace]
        if limit and under_way >= limit.most:
            return (
                f"writes in namespace {namespace} fail, and its pods are tried {limit.most} at a time: {limit.reason}"
            )
        if self._undoing[namespace] >= UNDOING_MAX:
            return f"{UNDOING_MAX} attempts in namespace {namespace} have not undone their writes yet"
        return ""

    def slowness(self, namespace: str) -> str:
        """Why a further attempt in the namespace has to wait for others of it; empty where none has to."""
        share = max(min(self._most // 2, BESIDE_MAX // max(len(self._beside), 1)), 1)
        if self._beside[namespace] < share:
            return ""
        return f"writes in namespace {namespace} take long, and its pods are tried {share} at a time"

    @contextmanager
    def beside(self, namespace: str) -> Iterator[None]:
        """While the context is open, an attempt in the namespace goes on without a slot."""
        self._beside[namespace] += 1
        try:
            yield
        finally:
            _count_down(self._beside, namespace)
            if not self.has_enough:
                self.on_room()

    def take(self, namespace: str) -> "Slot":
        """A slot, of which one has to be free."""
        assert self._free, "no slot is free"
        self._free -= 1
        return self._given(namespace)

    async def wait(self, namespace: str) -> "Slot":
        """A slot, as soon as one is free for the caller that has waited longest."""
        if self._free:
            return self.take(namespace)
        handed_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(handed_over)
        self._waiting_in[namespace] += 1
        self._was_ahead = self._was_ahead or len(self._waiting) >= self._ahead
        try:
            await handed_over
        except asyncio.CancelledError:
            if handed_over.done() and not handed_over.cancelled():
                self._hand_over()
            raise
        finally:
            _count_down(self._waiting_in, namespace)
        return self._given(namespace)

    def _given(self, namespace: str) -> "Slot":
        self._taken[namespace] += 1
        return Slot(self, namespace)

    def give_back(self, namespace: str) -> None:
        """A slot of the namespace is free again."""
        _count_down(self._taken, namespace)
        self._hand_over()
        if not self.has_enough:
            self.on_room()

    def _hand_over(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                break
        else:
            self._free += 1
        self._was_ahead = self._was_ahead and bool(self._waiting)

    def failed(self, namespace: str, reason: str) -> None:
        """A write in the namespace failed because the API server did not answer."""
        limit = self._limit_of(namespace)
        self._limits.pop(namespace, None)
        most = limit.most if limit else self._most
        self._limits[namespace] = _Limit(max(most // 2, 1), reason, self._clock())
        while self._is_over(next(iter(self._limits.values()))):
            del self._limits[next(iter(self._limits))]

    def lost(self) -> None:
        """An attempt lost its devices to another scheduler."""
        self._uncontended = max(self._uncontended // 2, min(CONTENDED_LEAST, self._most))

    def succeeded(self, namespace: str) -> None:
        """All writes of an attempt in the namespace succeeded."""
        self._uncontended = min(self._uncontended + 1, self._most)
        limit = self._limit_of(namespace)
        if limit and limit.most + 1 < self._most:
            self._limits[namespace] = limit._replace(most=limit.most + 1)
        else:
            self._limits.pop(namespace, None)

    def is_failing(self, namespace: str) -> bool:
        """Whether writes fail so often that the namespace has one slot left."""
        limit = self._limit_of(namespace)
        return limit is not None and limit.most == 1

    def _limit_of(self, namespace: str) -> _Limit | None:
        limit = self._limits.get(namespace)
        return None if limit is None or self._is_over(limit) else limit

    def _is_over(self, limit: _Limit) -> bool:
        return self._clock() - limit.failed_at >= FAILING_S

    @contextmanager
    def undoing(self, namespace: str) -> Iterator[None]:
        """While the context is open, an attempt in the namespace takes back what it wrote."""
        self._undoing[namespace] += 1
        try:
            yield
        finally:
            _count_down(self._undoing, namespace)


class Slot:
    """The slot of one attempt. is_slow: it took long, and went on without."""

    def __init__(self, slots: Slots, namespace: str) -> None:
        self._slots = slots
        self._namespace = namespace
        self._is_taken = True
        self._beside = ExitStack()
        self.is_slow = False

    @contextmanager
    def not_for_long(self) -> Iterator[None]:
        """While the context is open, the attempt writes; it gives its slot back where that takes long."""
        timer = asyncio.get_running_loop().call_later(SLOW_S, self._go_beside)
        try:
            yield
        finally:
            timer.cancel()

    def _go_beside(self) -> None:
        if self._is_taken:
            self._is_taken, self.is_slow = False, True
            self._beside.enter_context(self._slots.beside(self._namespace))
            self._slots.give_back(self._namespace)

    def give_back(self) -> None:
        """The attempt writes no more, or has only to wait; another time it does nothing."""
        if self._is_taken:
            self._is_taken = False
            self._slots.give_back(self._namespace)
        self._beside.close()

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """While the context is open, the attempt takes back what it wrote; that needs no slot."""
        self.give_back()
        with self._slots.undoing(self._namespace):
            yield

    def failed(self, reason: str) -> None:
        """A write of the attempt failed because the API server did not answer."""
        self._slots.failed(self._namespace, reason)

    def succeeded(self) -> None:
        """All writes of the attempt succeeded."""
        self._slots.succeeded(self._namespace)

    @property
    def is_failing(self) -> bool:
        """Whether writes of the namespace fail so often that a second try is not worth a slot."""
        return self._slots.is_failing(self._namespace)


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


# Limits concurrent calls, in total and per namespace: a namespace where calls hang delays no other.
#
# Calls that take long count for their namespace alone.


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


# One lock for each key: tasks that need the same key wait for each other.
#
# Pods that share a claim reserve it one after the other; at the same time, all but one would get conflicts again and
# again. Each passes the stored version on to the next one, because the watch may not have shown it yet.


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
