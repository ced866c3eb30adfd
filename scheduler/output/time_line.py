"""What a running program did: its last decisions, and what it was at over the last hour, as numbers.

Samples are taken always, so that the page has them when it opens. A sample reads counters that exist anyway. The share
of each class's devices that is allocated is counted pool by pool, a few milliseconds a sample: a pool that has not
changed is not counted again, and what is left waits for the next one.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from allocator.cluster.snapshot import Snapshot
from allocator.model import Allocation, DeviceClass, DeviceID, PoolID
from allocator.status import DeviceState, Membership, pool_status
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster

EVERY_S = 10.0
"""Pause between two samples."""

MOST_SAMPLES = 360
"""Samples that are kept: those of an hour."""

WORK_S = 0.005
"""For so long a sample counts devices, or for one pool: a sample costs no more on a larger cluster."""

NOT_COUNTED = "..."
"""In place of the shares until every pool has been counted once."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment. time: seconds since 1970. waiting: pods. decisions: a second, since the sample before.

    shares: of the devices of each class, those that claims hold, from 0 to 1; None while they are being counted.
    """

    time: float
    waiting: int
    decisions: float
    shares: Mapping[str, float] | None

    def cells(self) -> list[str]:
        """As the page has them."""
        moment = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="seconds").removesuffix("+00:00")
        shares = self.shares
        listed = NOT_COUNTED if shares is None else ", ".join(f"{name} {part:.1%}" for name, part in shares.items())
        return [f"{moment}Z", str(self.waiting), f"{self.decisions:.1f}", listed or "-"]


@dataclass(frozen=True, slots=True)
class _PoolShares:
    """Devices of a pool by class: all, and those that are held. seen: of what they were counted."""

    seen: Sequence[object]
    devices: Counter[str]
    held: Counter[str]


class AllocatedShares:
    """The allocated share of each class, brought up to date a little at a time. clock: seconds that only go forward."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._members: Mapping[str, tuple[DeviceClass, Membership]] = {}
        self._pools: dict[PoolID, _PoolShares] = {}
        self._devices: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._left: Iterator[PoolID] | None = None
        self._is_whole = False

    def catch_up(self) -> None:
        """Count what has changed, for `WORK_S`; a round over all pools goes on where the last call left it."""
        until = self._clock() + WORK_S
        self._find_classes()
        if self._left is None:
            self._left = iter([*{**dict.fromkeys(self._snapshot.by_pool), **self._pools}])
        for pool_id in self._left:
            self._count(pool_id)
            if self._clock() >= until:
                return
        self._left = None
        self._is_whole = True

    def shares(self) -> Mapping[str, float] | None:
        """By class, in the order of the names; None until every pool has been counted once."""
        if not self._is_whole:
            return None
        return {name: self._held[name] / of if (of := self._devices[name]) else 0.0 for name in self._members}

    @property
    def _snapshot(self) -> Snapshot:
        return self._cluster.fleet.current

    def _find_classes(self) -> None:
        """After a change of a class, all pools are counted anew."""
        snapshot = self._snapshot
        if {name: one for name, (one, _) in self._members.items()} == dict(snapshot.classes):
            return
        environment = snapshot.features.environment
        self._members = {name: (one, Membership(one, environment)) for name, one in sorted(snapshot.classes.items())}
        self._pools, self._devices, self._held = {}, Counter(), Counter()
        self._left, self._is_whole = None, False

    def _count(self, pool_id: PoolID) -> None:
        snapshot = self._snapshot
        usage = snapshot.usage
        seen = (snapshot.by_pool.get(pool_id), usage.holders.get(pool_id), usage.shares.get(pool_id))
        known = self._pools.get(pool_id)
        if known and all(status is other for status, other in zip(known.seen, seen, strict=True)):
            return
        if known:
            del self._pools[pool_id]
            self._devices.subtract(known.devices)
            self._held.subtract(known.held)
        if seen[0] is None:
            return
        counted = self._pools[pool_id] = _PoolShares(seen, Counter(), Counter())
        for status in pool_status(snapshot, pool_id).devices:
            classes = [name for name, (_, members) in self._members.items() if members.has(status.device)]
            counted.devices.update(classes)
            if status.state in (DeviceState.ALLOCATED, DeviceState.SHARED):
                counted.held.update(classes)
        self._devices.update(counted.devices)
        self._held.update(counted.held)


class TimeLine:
    """The samples of the last hour. number: of all so far.

    decided: the number of decisions since the start. now: seconds since 1970; clock: seconds that only go forward.
    """

    def __init__(
        self,
        shares: AllocatedShares,
        waiting: Callable[[], int],
        decided: Callable[[], int],
        now: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.number = 0
        self._shares = shares
        self._waiting, self._decided = waiting, decided
        self._now, self._clock = now, clock
        self._last = (clock(), decided())
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                self.sample()
            except Exception:  # noqa: BLE001 - whatever it is, the program goes on
                _LOG.exception("the time line of the page has no sample of this moment")

    def sample(self) -> None:
        """One more, in place of the oldest."""
        before, last = self._last
        self._last = at, decided = self._clock(), self._decided()
        self._shares.catch_up()
        rate = (decided - last) / (at - before) if at > before else 0.0
        self._samples.append(Sample(self._now(), self._waiting(), rate, self._shares.shares()))
        self.number += 1

    def kept(self) -> Iterator[tuple[int, Sample]]:
        """The samples with their numbers, the newest first."""
        return zip(range(self.number, 0, -1), reversed(self._samples), strict=False)


MOST = 200
"""Decisions that are kept."""

MOST_DEVICES = 64
"""Devices of a decision that are named."""

MOST_REASON = 4096
"""Characters of a reason."""

WAITS = "waits: the reason is below"
"""In place of the reason of a pod that the page lists among those that wait."""


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision."""

    time: float
    """Seconds since 1970."""
    pod: str
    result: str
    """Such as `placed`."""
    node: str = ""
    devices: Sequence[DeviceID] = ()
    """The first of those that it gives."""
    more: int = 0
    """How many others."""
    reason: str = ""
    """Why there is no node, or empty."""

    def cells(self, waiting: Container[str] = ()) -> list[str]:
        """Time, pod, result, node, and devices or the reason; waiting: pods whose reason stands in their own rows."""
        moment = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        devices = ", ".join([*map(str, self.devices), *([f"and {self.more:,} more"] if self.more else [])])
        reason = WAITS if self.reason and self.pod in waiting else self.reason
        return [f"{moment}Z", self.pod, self.result, self.node or "-", reason or devices or "-"]


class DecisionLog:
    """Keeps the last decisions. number: of all so far. Cost of a decision: one entry; texts are made by who reads."""

    def __init__(self) -> None:
        self.number = 0
        self._last: deque[LoggedDecision] = deque(maxlen=MOST)

    def placed(self, time: float, pod: Pod, node: str, allocations: Sequence[Allocation]) -> None:
        """The pod has a node, and devices, which are written next."""
        number = sum(len(one.results) for one in allocations)
        first = tuple(islice((result.id for one in allocations for result in one.results), MOST_DEVICES))
        self._add(LoggedDecision(time, str(pod), "placed", node, first, number - len(first)))

    def answered(self, time: float, pod: str, result: str, reason: str, node: str = "") -> None:
        """Any other result. pod: NAMESPACE/NAME."""
        cut = reason if len(reason) <= MOST_REASON else f"{reason[:MOST_REASON]}..."
        self._add(LoggedDecision(time, pod, result, node, reason=cut))

    def kept(self) -> Iterator[tuple[int, LoggedDecision]]:
        """The last decisions with their numbers, the newest first."""
        return zip(range(self.number, 0, -1), reversed(self._last), strict=False)

    def _add(self, decision: LoggedDecision) -> None:
        self.number += 1
        self._last.append(decision)
