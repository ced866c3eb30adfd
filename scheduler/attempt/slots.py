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

An attempt that takes longer than `SLOW_S`, such as behind a slow webhook, goes on beside the others without a slot. One
that takes longer than `LONG_S` makes its namespace slow: until an attempt there takes less, each goes on beside the
others from the start. Slow namespaces share `SLOW_MAX` of these; those of which nothing is known yet share what is left
of `BESIDE_MAX`; quick ones have a few more, since all of them take a second where the API server has much to do. A
namespace that has used up its share begins no further attempts, and delays no other. Until one has succeeded there, a
namespace has `UNTRIED_MAX` of all kinds.

An attempt that waits for another one of this process to write a claim that both use (`Slot.lent`) holds no slot
meanwhile: many pods of one claim write one after the other, and would keep all slots from those who could write.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from scheduler.client.connection import SLOW_S, ConcurrencyLimit

UNDOING_MAX = 256
"""Attempts of one namespace that may be taking back what they wrote; with more, it begins no further ones."""


CONTENDED_LEAST = 8
"""Attempts that may be under way however many races are lost: enough to keep an API server busy."""

FAILING_S = 300.0
"""A namespace where no write has failed for so long has no limit: a later attempt finds out whether writes succeed."""


LONG_S = 4.0
"""What takes longer makes its namespace slow: far more than where the API server only has much to do."""

SLOWNESS_S = 300.0
"""A namespace where nothing has taken long for so long is not slow: a later attempt finds out whether it still is."""

QUICK_MAX = 4096
"""Namespaces that are known to be quick: those where something succeeded last."""

BESIDE_MAX = 32
"""Attempts without a slot, which namespaces share; each has half as many as there are slots, at the most.

The API server's own limit for service accounts is 98 calls at a time by default, and a call that waits for a webhook
counts, a write as up to two: with more, those of all other namespaces, and of controllers, wait in its queues.
"""

SLOW_MAX = 24
"""Those that slow namespaces begin: the rest is for namespaces that may be slow, until that is known of them."""

UNTRIED_MAX = 8
"""Attempts of a namespace of which nothing is known: behind a slow webhook all that have begun hang as long as it does.

`Slots.doubt` says so; the extender asks for none, since kube-scheduler begins as many as it likes.
"""

QUICK_SHARE = 8
"""Attempts without a slot of a namespace that is not slow, however many namespaces have some."""

QUICK_BESIDE_MAX = 40
"""With so many, quick namespaces that have some begin no further ones either: they may have become slow."""


REASON_S = 60.0
"""For so long its pods are told of one of several failures that differ in their objects alone.

With the newest one each retry would have another message, and conditions and events are written for these.
"""


class _FailureReason(NamedTuple):
    """Why a write failed, with an answer or without. gist: what that says whatever object it is about."""

    text: str
    gist: str
    at: float

    def or_newer(self, newer: "_FailureReason") -> "_FailureReason":
        """What pods are told after a newer failure."""
        return self if newer.gist == self.gist and newer.at - self.at < REASON_S else newer


class _Limit(NamedTuple):
    """Of a namespace where writes fail. most: attempts. failed_at: when the last write without an answer failed."""

    most: int
    reason: _FailureReason
    failed_at: float


class Speeds:
    """Which namespaces are known to be slow, and which to be quick. clock: seconds that only go forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slow: dict[str, float] = {}  # when something there last took long, the oldest first
        self._quick: dict[str, None] = {}  # the one that was quick last comes last

    @property
    def has_slow(self) -> bool:
        """Whether there are slow namespaces."""
        self._expire()
        return bool(self._slow)

    @property
    def quick(self) -> AbstractSet[str]:
        """The namespaces that were quick."""
        return self._quick.keys()

    def is_slow(self, namespace: str) -> bool:
        """Whether the namespace is slow."""
        self._expire()
        return namespace in self._slow

    def took_long(self, namespace: str) -> None:
        """Something takes long in the namespace."""
        self._quick.pop(namespace, None)
        self._slow.pop(namespace, None)
        self._slow[namespace] = self._clock()

    def was_quick(self, namespace: str) -> None:
        """Something in the namespace succeeded and did not take long."""
        self._slow.pop(namespace, None)
        self._quick.pop(namespace, None)
        self._quick[namespace] = None
        if len(self._quick) > QUICK_MAX:
            del self._quick[next(iter(self._quick))]

    def _expire(self) -> None:
        while self._slow and self._clock() - next(iter(self._slow.values())) >= SLOWNESS_S:
            del self._slow[next(iter(self._slow))]


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
        self._all_beside = 0
        self._lent: Counter[str] = Counter()
        self.speeds = Speeds(clock)
        self._limits: dict[str, _Limit] = {}  # in the order of their last failures
        self._waiting: dict[asyncio.Future[None], str] = {}  # their namespaces, in the order in which they came
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
        under_way += self._lent[namespace]
        if limit and under_way >= limit.most:
            return (
                f"writes in namespace {namespace} fail, and its pods are tried {limit.most} at a time: "
                f"{limit.reason.text}"
            )
        if self._undoing[namespace] >= UNDOING_MAX:
            return f"{UNDOING_MAX} attempts in namespace {namespace} have not undone their writes yet"
        return ""

    def slowness(self, namespace: str) -> str:
        """Why a further attempt in the namespace has to wait for slow ones, there or elsewhere; else empty.

        Cost: O(attempts with a slot or waiting for one).
        """
        if self._lent[namespace] >= self._most:
            return f"{self._most} pods of namespace {namespace} wait for each other to reserve claims that they share"
        is_slow = self.speeds.is_slow(namespace)
        share = max(BESIDE_MAX // max(len(self._beside), 1), 1 if is_slow else QUICK_SHARE)
        share = min(share, max(self._most // 2, 1))
        under_way = self._beside[namespace]
        if is_slow:  # those that still have a slot began before it was known
            under_way += self._taken[namespace] + self._waiting_in[namespace]
        if under_way >= share:
            return f"writes in namespace {namespace} take long, and its pods are tried {share} at a time"
        number, most = self._all_beside, SLOW_MAX
        if namespace in self.speeds.quick:
            most = QUICK_BESIDE_MAX if self._beside[namespace] else number + 1
        elif not is_slow:
            if not (self._beside or self.speeds.has_slow):
                return ""
            number, most = number + self._untried(), BESIDE_MAX
        if number < most:
            return ""
        return f"writes in many namespaces take long, and pods such as those of {namespace} are tried {most} at a time"

    def doubt(self, namespace: str) -> str:
        """Why a further attempt has to wait for the first ones of a namespace of which nothing is known; else empty."""
        if namespace in self.speeds.quick or self.speeds.is_slow(namespace):
            return ""
        under_way = self._taken[namespace] + self._waiting_in[namespace] + self._beside[namespace]
        under_way += self._lent[namespace]
        if under_way < UNTRIED_MAX:
            return ""
        return (
            f"nothing is known yet of writes in namespace {namespace}, and its pods are tried {UNTRIED_MAX} at a time"
        )

    def _untried(self) -> int:
        """How many attempts have a slot, or wait for one, in namespaces of which nothing is known."""
        namespaces = (self._taken.keys() | self._waiting_in.keys()) - self.speeds.quick
        return sum(self._taken[one] + self._waiting_in[one] for one in namespaces)

    @contextmanager
    def beside(self, namespace: str) -> Iterator[None]:
        """While the context is open, an attempt in the namespace goes on without a slot."""
        self._beside[namespace] += 1
        self._all_beside += 1
        try:
            yield
        finally:
            self._all_beside -= 1
            _count_down(self._beside, namespace)
            if not self.has_enough:
                self.on_room()

    @contextmanager
    def lent(self, namespace: str) -> Iterator[None]:
        """While the context is open, an attempt in the namespace waits for another one, and somebody has its slot."""
        self._lent[namespace] += 1
        self.give_back(namespace)
        try:
            yield
        finally:
            _count_down(self._lent, namespace)

    def take(self, namespace: str) -> "Slot":
        """A slot, of which one has to be free."""
        assert self._free, "no slot is free"
        self._free -= 1
        self._taken[namespace] += 1
        return Slot(self, namespace)

    async def wait(self, namespace: str) -> "Slot":
        """A slot, as soon as one is free; in a slow namespace none is needed.

        Of those that wait the first is next whose namespace has the fewest: the pile of one delays no other.
        """
        if self.speeds.is_slow(namespace):
            return Slot(self, namespace, is_taken=False)
        if self._free:
            return self.take(namespace)
        handed_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[handed_over] = namespace
        self._waiting_in[namespace] += 1
        self._was_ahead = self._was_ahead or len(self._waiting) >= self._ahead
        try:
            await handed_over
        except asyncio.CancelledError:
            if self._waiting.pop(handed_over, None) is None:
                self.give_back(namespace)
            else:
                _count_down(self._waiting_in, namespace)
            raise
        return Slot(self, namespace)

    def give_back(self, namespace: str) -> None:
        """A slot of the namespace is free again."""
        _count_down(self._taken, namespace)
        self._hand_over()
        if not self.has_enough:
            self.on_room()

    def _hand_over(self) -> None:
        if waiting := [one for one in self._waiting if not one.done()]:
            first = min(waiting, key=lambda one: self._taken[self._waiting[one]])
            namespace = self._waiting.pop(first)
            _count_down(self._waiting_in, namespace)
            self._taken[namespace] += 1
            first.set_result(None)
        else:
            self._free += 1
        self._was_ahead = self._was_ahead and bool(self._waiting)

    def failed(self, namespace: str, reason: str, gist: str = "") -> None:
        """A write in the namespace failed because the API server did not answer.

        gist: what the reason says whatever object it is about; "" if it names none.
        """
        limit, now = self._limit_of(namespace), self._clock()
        self._limits.pop(namespace, None)
        most = limit.most if limit else self._most
        newer = _FailureReason(reason, gist or reason, now)
        self._limits[namespace] = _Limit(max(most // 2, 1), limit.reason.or_newer(newer) if limit else newer, now)
        while self._is_over(next(iter(self._limits.values()))):
            del self._limits[next(iter(self._limits))]

    def denied(self, namespace: str, reason: str, gist: str = "") -> None:
        """A write in the namespace was denied; if it has a limit, that is why its pods wait from now on.

        gist: as of `failed`.
        """
        if limit := self._limits.get(namespace):
            newer = _FailureReason(reason, gist or reason, self._clock())
            self._limits[namespace] = limit._replace(reason=limit.reason.or_newer(newer))

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
    """The slot of one attempt. is_taken: False for one that goes on beside the others. is_slow: it took long."""

    def __init__(self, slots: Slots, namespace: str, *, is_taken: bool = True) -> None:
        self._slots = slots
        self._namespace = namespace
        self._is_taken = is_taken
        self._is_counted = True  # with a slot or beside the others
        self._beside = ExitStack()
        self._timers: Sequence[asyncio.TimerHandle] = ()
        self._is_long = False
        self.is_slow = False
        if not is_taken:
            self._beside.enter_context(slots.beside(namespace))

    @contextmanager
    def not_for_long(self) -> Iterator[None]:
        """While the context is open, the attempt writes; it gives its slot back where that takes long."""
        self._begin()
        try:
            yield
        finally:
            self._pause()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """While the context is open, the attempt waits for another one of ours, whose writes it does not answer for.

        It goes on with the slot that is free then; after an exception it has none.
        """
        if not self._is_taken:
            yield
            return
        self._pause()
        self._is_taken = False
        with self._slots.lent(self._namespace):
            yield
        again = await self._slots.wait(self._namespace)
        self._is_taken, self._beside = again._is_taken, again._beside  # noqa: SLF001 - it becomes this one
        self._begin()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._timers = loop.call_later(SLOW_S, self._go_beside), loop.call_later(LONG_S, self._took_long)

    def _pause(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _go_beside(self) -> None:
        self.is_slow = self._is_counted
        if self._is_taken:
            self._is_taken = False
            self._beside.enter_context(self._slots.beside(self._namespace))
            self._slots.give_back(self._namespace)

    def _took_long(self) -> None:
        if self._is_counted:
            self._is_long = True
            self._slots.speeds.took_long(self._namespace)

    def give_back(self) -> None:
        """The attempt writes no more, or has only to wait; another time it does nothing."""
        self._is_counted = False
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

    def failed(self, reason: str, gist: str = "") -> None:
        """A write of the attempt failed because the API server did not answer. gist: as of `Slots.failed`."""
        self._slots.failed(self._namespace, reason, gist)

    def denied(self, reason: str, gist: str = "") -> None:
        """A write of the attempt was denied. gist: as of `Slots.failed`."""
        self._slots.denied(self._namespace, reason, gist)

    def succeeded(self) -> None:
        """All writes of the attempt succeeded."""
        self._slots.succeeded(self._namespace)
        if not self._is_long:
            self._slots.speeds.was_quick(self._namespace)

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
# A call that takes long no longer counts for the total. Its namespace is slow then, and slow namespaces share a total
# of their own, for which their calls count until they end. While there are some, a namespace of which nothing is known
# has one call at a time.


@dataclass(slots=True)
class _Lane:
    """The calls of one namespace. users: those under way and those that wait. first: held by one that finds out."""

    limit: asyncio.Semaphore
    first: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class CallLimit:
    """total: calls at the same time, and as many of slow namespaces. each: of them in one namespace."""

    def __init__(self, total: int, each: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = ConcurrencyLimit(total)
        self._slow = asyncio.Semaphore(total)
        self._speeds = Speeds(clock)
        self._each = each
        self._lanes: dict[str, _Lane] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """One call, for as long as the context is open."""
        lane = self._lanes.setdefault(namespace, _Lane(asyncio.Semaphore(self._each)))
        lane.users += 1
        try:
            # First the namespace's own limit: what waits for it keeps nobody else from calling.
            async with lane.limit, AsyncExitStack() as held:
                await held.enter_async_context(lane.first)
                if not self._is_in_doubt(namespace):
                    await held.aclose()
                is_slow = self._speeds.is_slow(namespace)
                async with self._slow if is_slow else self._total.call():
                    with self._timed(namespace):
                        yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[namespace]

    def _is_in_doubt(self, namespace: str) -> bool:
        """Whether calls of other namespaces take long, and nothing is known of this one."""
        speeds = self._speeds
        return speeds.has_slow and not speeds.is_slow(namespace) and namespace not in speeds.quick

    @contextmanager
    def _timed(self, namespace: str) -> Iterator[None]:
        """While the context is open, a call is under way."""
        loop = asyncio.get_running_loop()
        slow_at = loop.time() + LONG_S
        timer = loop.call_at(slow_at, self._speeds.took_long, namespace)
        try:
            yield
            if loop.time() < slow_at:
                self._speeds.was_quick(namespace)
        finally:
            timer.cancel()


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
    async def of(
        self, key: Key, waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    ) -> AsyncIterator[KeyLock[Passed]]:
        """The lock, held for as long as the context is open. waiting: a context for the time until then, if any."""
        lock = self._locks.setdefault(key, KeyLock())
        lock.users += 1
        try:
            async with AsyncExitStack() as held:
                async with nullcontext() if lock.users == 1 else waiting():
                    await held.enter_async_context(lock.lock)
                yield lock
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[key]
