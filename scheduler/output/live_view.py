"""The page at `/ui`: that of `dra status`, and what it shows, brought up to date for as long as somebody looks.

It is worked out a little at a time beside the program's work: pool by pool, and only where something has changed.
Readers are not known here: each asks for what has changed since the version that it has seen.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import orjson

from allocator.cluster.snapshot import Snapshot
from allocator.model import DeviceClass, PoolID
from allocator.status import DeviceState, LargestClaims, Membership, PoolStatus, pool_status
from allocator.words import counted
from scheduler.output.data_page import DataPage, PageTable, data_page, live_policy
from scheduler.output.status_report import (
    CLOSED,
    DEVICES,
    MAP,
    ClassRoom,
    class_columns,
    closed_nodes,
    device_map,
    largest_claim_text,
    map_columns,
    pool_problems,
    states_text,
    tally_columns,
)
from scheduler.output.table import ColumnTable
from scheduler.output.time_line import TimeLine
from scheduler.output.ui_server import UiSource
from scheduler.state.claims import ClaimObject
from scheduler.status import Tally, by_class, by_driver, claim_statuses, tallies
from scheduler.terminal_text import printable

ANSWER, QUEUE, DECISIONS, PROBLEMS = "answer", "queue", "decisions", "problems"
GROUPS = "groups"
DRIVERS, CLASSES = "drivers", "classes"
TIME_LINE = "time-line"
"""Names of the tables; the answer is none, and has a line for each sentence."""

EVENTS = "ui/events"
"""Where the page gets its data, from the place of the page."""

_TIME_LINE = ("TIME", "PODS THAT WAIT", "DECISIONS A SECOND", "ALLOCATED DEVICES OF EACH CLASS")

_GROUP_NUMBERS = frozenset({"PODS", "WAITING", "MINIMUM"})

_TABLES = (
    PageTable(
        DECISIONS,
        "Last decisions",
        ColumnTable(["TIME", "POD", "RESULT", "NODE", "DEVICES, OR WHY THERE ARE NONE"], ()),
        "No decision since the program started.",
    ),
    PageTable(
        QUEUE,
        "Pods that wait",
        ColumnTable(["POD", "QUEUE", "PRIORITY", "ATTEMPTS", "REASON"], (), frozenset({"PRIORITY", "ATTEMPTS"})),
        "No pod waits.",
    ),
    PageTable(
        GROUPS,
        "Groups of pods that wait",
        ColumnTable(["GROUP", "SOURCE", "PODS", "WAITING", "MINIMUM", "REASON"], (), _GROUP_NUMBERS),
        "No group of pods waits.",
    ),
    PageTable(
        PROBLEMS, "Pools with problems", ColumnTable(["POOL", "PROBLEM"], ()), "No pool read so far has problems."
    ),
    PageTable(DRIVERS, "Drivers", tally_columns("DRIVER", ()), "No driver read so far."),
    PageTable(CLASSES, "Classes", class_columns((), {}), "No class read so far."),
    replace(device_map((), (), None), none="No device read so far."),
    closed_nodes(None),
    PageTable(
        TIME_LINE,
        "Numbers of the last hour",
        ColumnTable(_TIME_LINE, (), frozenset(_TIME_LINE[1:3])),
        "No sample so far: the program takes one every 10 seconds.",
    ),
)


def live_page(title: str, head: Sequence[str]) -> str:
    """The page, as HTML, without data."""
    return data_page(DataPage(title, ["Connecting ..."], _TABLES, MAP, events=EVENTS), head)


def headers() -> dict[str, str]:
    """Of the page: what it may do, which is what its own policy says, and where it may be shown."""
    return {
        "Content-Security-Policy": live_policy("frame-ancestors 'none'"),
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


# Devices counted by group over all pools, kept up to date pool by pool.


@dataclass(slots=True)
class _Sum:
    """A group of all pools. claims: in how many pools each holds devices of it."""

    states: Counter[DeviceState] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)

    def add(self, one: Tally) -> None:
        self.states.update(one.states)
        self.claims.update(one.claims)

    def subtract(self, one: Tally) -> None:
        self.states.subtract(one.states)
        self.claims.subtract(one.claims)
        for claim in one.claims:
            if not self.claims[claim]:
                del self.claims[claim]


class LiveTallies:
    """The groups of all pools by name."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}

    def replace(self, old: Iterable[Tally], new: Iterable[Tally]) -> None:
        """Count these groups of a pool in place of those that it had. Cost: O(groups and claims of the pool)."""
        for tally in old:
            self._sums[tally.name].subtract(tally)
        for tally in new:
            self._sums.setdefault(tally.name, _Sum()).add(tally)

    def tallies(self, known: Iterable[str] = ()) -> Sequence[Tally]:
        """The groups with devices, and those of `known`. Cost: O(groups, and claims that hold devices)."""
        names = {name for name, one in self._sums.items() if one.states.total()} | set(known)
        return [self._tally(name) for name in sorted(names)]

    def _tally(self, name: str) -> Tally:
        total = self._sums.get(name) or _Sum()
        return Tally(name, total.states, set(total.claims))


REFRESH_S = 1.0
"""Pause between two looks at everything."""

WORK_S = 0.002
REST_S = 0.008
RESTS_PER_WORK = 4
"""After so long at work, it rests, longer after longer work: scheduling goes on between, and has most of the time."""

POOLS_AT_ONCE = 500
"""So many pools are published together while the page is filled."""

MOST_WAITING = 1000
"""Pods that wait that are shown, those that came first."""

SEARCH_STEPS = 1000
"""Steps of a search for the largest claim: a few milliseconds; a device that is tried is one step."""

IN_QUEUE = "waits for a place: the reason is that of its pods"
"""Of a group that is refused by no more than what its pods are."""

NOT_YET = "..."
"""In place of a largest claim that is being worked out."""

FAILED_S = 5.0
"""Pause after an error."""

GONE_S = 1200.0
"""For so long rows that are gone are kept: longer than a reader goes on without beginning anew."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _PoolView:
    """A pool as it was last looked at."""

    seen: Sequence[object]
    """Of what it was made."""
    claims: Mapping[str, ClaimObject | None]
    """Those that hold its devices, by name."""
    states: Counter[DeviceState]
    drivers: Sequence[Tally]
    classes: Sequence[Tally]


@dataclass(frozen=True, slots=True)
class _ClassView:
    """A class, the devices that it selects, and the largest claim for some of them."""

    device_class: DeviceClass
    members: Membership
    largest: LargestClaims


@dataclass(frozen=True, slots=True)
class _ShownRows:
    """Rows of a table that change together, as JSON. version: of their last change."""

    version: int
    json: bytes


@dataclass(slots=True)
class _Breath:
    """Lets others work. clock: seconds."""

    clock: Callable[[], float]
    since: float = field(default=0.0)

    def begin(self) -> None:
        """Work begins: until now others had the time."""
        self.since = self.clock()

    async def take(self) -> None:
        worked_s = self.clock() - self.since
        if worked_s > WORK_S:
            await asyncio.sleep(min(max(REST_S, RESTS_PER_WORK * worked_s), REFRESH_S))
            self.begin()


class LiveView:
    """The rows of the page. version: of the last change that readers may see. clock: seconds that only go forward."""

    def __init__(self, source: UiSource, time_line: TimeLine, clock: Callable[[], float]) -> None:
        self.version = 0
        self._source = source
        self._time_line = time_line
        self._sampled = 0
        self._clock = clock
        self._breath = _Breath(clock)
        self._groups: dict[tuple[str, str], _ShownRows] = {}
        self._gone: deque[tuple[float, tuple[str, str], _ShownRows]] = deque()
        self._pools: dict[PoolID, _PoolView] = {}
        self._states: Counter[DeviceState] = Counter()
        self._drivers, self._classes = LiveTallies(), LiveTallies()
        self._class_views: Mapping[str, _ClassView] = {}
        self._rooms: dict[str, str] = {}
        self._rows_of: dict[str, set[str]] = {}
        self._is_whole = False
        self._is_changed = False
        self._published = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        while True:
            try:
                await self.refresh()
                await asyncio.sleep(REFRESH_S)
            except Exception:  # noqa: BLE001 - whatever it is, the program goes on
                _LOG.exception("the page cannot be brought up to date")
                await asyncio.sleep(FAILED_S)

    async def refresh(self) -> None:
        """Look at everything once."""
        self._breath.begin()
        self._forget_gone()
        self._find_classes()
        self._tables()
        snapshot = self._snapshot
        pools = {*snapshot.by_pool, *snapshot.usage.holders, *snapshot.usage.shares}
        for number, pool_id in enumerate(pools):
            self._look_at(pool_id)
            if number % POOLS_AT_ONCE == 0:
                self._publish()
            await self._breath.take()
        for pool_id in self._pools.keys() - pools:
            self._forget(pool_id)
        if not self._is_whole:
            self._is_whole = True
            self._tables()
            self._publish()
        await self._find_largest()
        self._tables()
        self._publish()

    def since(self, version: int) -> list[bytes]:
        """The groups that have changed after that version: `[table, group, rows]`, or null for rows that are gone.

        Devices come last: a new reader sees the answer before thousands of them are sent.
        """
        return sorted((one.json for one in reversed(self._newer(version))), key=_is_of_devices)

    async def changed(self, version: int) -> None:
        """Return once there is something newer."""
        while self.version <= version:
            await self._published.wait()

    def _newer(self, version: int) -> list[_ShownRows]:
        newer = []
        for group in reversed(self._groups.values()):
            if group.version <= version:
                break
            if group.version <= self.version:
                newer.append(group)
        return newer

    @property
    def _snapshot(self) -> Snapshot:
        """As of now: to be read before others work again."""
        return self._source.cluster.fleet.current

    # -- pools

    def _look_at(self, pool_id: PoolID) -> None:
        """The pool as it is now; nothing happens if nothing that it shows has changed."""
        snapshot = self._snapshot
        usage = snapshot.usage
        seen = (snapshot.by_pool.get(pool_id), usage.holders.get(pool_id), usage.shares.get(pool_id), self._class_views)
        known = self._pools.get(pool_id)
        if known and _are_same(known.seen, seen) and self._are_current(known.claims):
            return
        status = pool_status(snapshot, pool_id)
        claims = {name: self._claim(name) for one in status.devices for name in one.holders}
        states = Counter(one.state for one in status.devices)
        members = [one.members for one in self._class_views.values()]
        drivers, classes = tallies([status], by_driver), tallies([status], by_class(members))
        view = self._pools[pool_id] = _PoolView(seen, claims, states, drivers, classes)
        self._count(known, view)
        self._show(pool_id, status, claims)

    def _count(self, old: _PoolView | None, new: _PoolView | None) -> None:
        self._states.subtract(old.states if old else {})
        self._states.update(new.states if new else {})
        self._drivers.replace(old.drivers if old else (), new.drivers if new else ())
        self._classes.replace(old.classes if old else (), new.classes if new else ())

    def _show(self, pool_id: PoolID, status: PoolStatus, claims: Mapping[str, ClaimObject | None]) -> None:
        name = f"{pool_id.driver}/{pool_id.pool}"
        holding = claim_statuses([one for one in claims.values() if one is not None], ())
        self._set(DEVICES, name, map_columns([status], holding, self._source.cluster).rows)
        self._set(PROBLEMS, name, [[name, problem] for problem in pool_problems(status)])

    def _forget(self, pool_id: PoolID) -> None:
        self._count(self._pools.pop(pool_id), None)
        name = f"{pool_id.driver}/{pool_id.pool}"
        self._set(DEVICES, name, None)
        self._set(PROBLEMS, name, None)

    def _find_classes(self) -> None:
        """The classes as they are now; after a change of one, every pool is looked at anew."""
        classes = self._snapshot.classes
        if {name: one.device_class for name, one in self._class_views.items()} != dict(classes):
            self._class_views = {name: self._class_view(one) for name, one in sorted(classes.items())}
            self._rooms = {name: self._rooms.get(name, NOT_YET) for name in classes}

    def _class_view(self, one: DeviceClass) -> _ClassView:
        """One that has not changed keeps its answers."""
        known = self._class_views.get(one.name)
        if known and known.device_class == one:
            return known
        membership = Membership(one, self._snapshot.features.environment)
        return _ClassView(one, membership, LargestClaims(self._source.cluster.fleet, one.name, SEARCH_STEPS))

    async def _find_largest(self) -> None:
        """The largest claims, where something has changed."""
        for name, view in self._class_views.items():
            for _ in view.largest.catch_up():
                await self._breath.take()
            self._rooms[name] = largest_claim_text(ClassRoom(view.largest.largest, self._source.cluster.name_of))

    def _claim(self, name: str) -> ClaimObject | None:
        namespace, _, claim = name.partition("/")
        return self._source.cluster.claims.get(namespace, claim)

    def _are_current(self, claims: Mapping[str, ClaimObject | None]) -> bool:
        return all(self._claim(name) is claim for name, claim in claims.items())

    # -- what is small

    def _tables(self) -> None:
        source = self._source
        self._set(ANSWER, "", [[one] for one in self._answer()])
        if self._is_whole:
            self._set_all(DRIVERS, _by_name(tally_columns("DRIVER", self._drivers.tallies())))
            classes = self._classes.tallies(self._class_views)
            self._set_all(CLASSES, _by_name(class_columns(classes, self._rooms)))
        if self._sampled != self._time_line.number:
            self._sampled = self._time_line.number
            samples = self._time_line.kept()
            self._set_all(TIME_LINE, {_newest_first(number): one.cells() for number, one in samples})
        self._set_all(CLOSED, {row[0]: row for row in closed_nodes(source.cluster).table.rows})
        waiting = list(islice(source.queue(), MOST_WAITING))
        names = {str(one.get("pod")) for one in waiting}
        self._set_all(QUEUE, {f"{one.get('pod')} {one.get('uid')}": _waiting(one) for one in waiting})
        self._set_all(GROUPS, {f"{one['group']} {one['source']}": _group(one) for one in source.groups(MOST_WAITING)})
        self._set_all(DECISIONS, {_newest_first(number): one.cells(names) for number, one in source.decisions.kept()})

    def _answer(self) -> Iterator[str]:
        yield states_text(self._states) if self._is_whole else "The devices are being read."
        waiting = self._source.waiting()
        pods = counted(waiting, "pod waits", "pods wait", ",")
        yield f"{pods}; {self._source.decisions.number:,} decisions since the program started."
        yield from self._source.troubles()

    # -- versions

    def _set_all(self, table: str, rows: Mapping[str, Sequence[str]]) -> None:
        """One row for each group, and no other groups."""
        for group in self._rows_of.get(table, set()) - rows.keys():
            self._set(table, group, None)
        for group, row in rows.items():
            self._set(table, group, [row])
        self._rows_of[table] = set(rows)

    def _set(self, table: str, group: str, rows: Sequence[Sequence[str]] | None) -> None:
        """rows: None for a group that is gone."""
        shown = None if rows is None else [[printable(cell) for cell in row] for row in rows]
        text = orjson.dumps([table, group, shown])
        known = self._groups.get((table, group))
        if (known and known.json == text) or (known is None and not rows):
            return
        self._groups.pop((table, group), None)  # the order of the groups is that of their versions
        rows_now = self._groups[table, group] = _ShownRows(self.version + 1, text)
        self._is_changed = True
        if rows is None:
            self._gone.append((self._clock(), (table, group), rows_now))

    def _forget_gone(self) -> None:
        """Forget the rows that are gone for so long that every reader has seen it."""
        while self._gone and self._clock() - self._gone[0][0] > GONE_S:
            _, group, rows = self._gone.popleft()
            if self._groups.get(group) is rows:
                del self._groups[group]

    def _publish(self) -> None:
        if self._is_changed:
            self._is_changed = False
            self.version += 1
            self._published.set()
            self._published = asyncio.Event()


def _is_of_devices(group: bytes) -> bool:
    return group.startswith(b'["%s"' % DEVICES.encode())


def _are_same(old: Sequence[object], new: Sequence[object]) -> bool:
    return all(one is other for one, other in zip(old, new, strict=True))


def _by_name(table: ColumnTable) -> Mapping[str, Sequence[str]]:
    return {row[0]: row for row in table.rows}


def _newest_first(number: int) -> str:
    """A name for the group of the decision: the page shows groups in the order of their names."""
    return f"{10**12 - number:012}"


def _waiting(pod: Mapping[str, object]) -> list[str]:
    reason = pod.get("gate") or pod.get("message") or "-"
    return [str(pod.get(field, "-")) for field in ("pod", "queue", "priority", "attempts")] + [str(reason)]


def _group(group: Mapping[str, object]) -> list[str]:
    """The reason of one that waits for a place is that of its pods, which stands with them."""
    return [str(group[field]) for field in ("group", "source", "pods", "waiting", "minimum")] + [
        str(group["reason"] or IN_QUEUE)
    ]
