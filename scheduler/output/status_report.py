"""Devices and claims: tables, map and page.

`TABLES` names the function of each table of `dra status`, but for claims (`ClaimsReport`); `device_columns` and
`tally_columns` have most columns, which the page and the map show too. JSON is in `fields`, and does not follow from
them. The values are those of `Tally` (`scheduler.status`) and `DeviceStatus` (`allocator.status`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from allocator.api.versions import Json
from allocator.bits import bits
from allocator.constraints import lookup
from allocator.limit_use import LimitStatus, use_text
from allocator.model import Device, Reach
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT
from allocator.status import Amount, DeviceState, DeviceStatus, LargestClaim, PoolStatus
from allocator.words import agreeing, and_more, counted, listed_up_to
from scheduler.decision.cluster import Cluster
from scheduler.output.data_page import (
    DEVICE_STATES,
    DataPage,
    MapColumns,
    PageTable,
    StateLook,
    data_page,
)
from scheduler.output.report import PagedReport, age
from scheduler.output.table import ColumnTable
from scheduler.status import ClaimStatus, Tally, by_node

# The devices of a cluster and who holds them, as tables and as JSON (docs/status.md describes each field).


MOST_NODES = 3
"""Nodes that are named for the largest claim; of more, only the number is given."""

_ALWAYS = (DeviceState.FREE, DeviceState.ALLOCATED)
_HELD = (DeviceState.ALLOCATED,)
"""Of devices that claims hold: none of them is free."""
_NUMBERS = frozenset({"DEVICES", "CLAIMS", *(state.name for state in DeviceState)})


@dataclass(frozen=True, slots=True)
class ClassRoom:
    """The largest claim for devices of a class that still fits. name_of: the node with a number."""

    largest: LargestClaim
    name_of: Callable[[int], str]

    def nodes(self) -> Sequence[str]:
        """The names of the nodes that fit it, in order."""
        return sorted(map(self.name_of, bits(self.largest.nodes)))


@dataclass(frozen=True, slots=True)
class StatusReport(PagedReport):
    """What there is of devices, and who holds them."""

    kind = "Status"

    pools: Sequence[PoolStatus]
    drivers: Sequence[Tally]
    classes: Sequence[Tally]
    nodes: Sequence[Tally]
    namespaces: Sequence[Tally]
    rooms: Mapping[str, ClassRoom]
    """By class."""
    claims: Sequence[ClaimStatus]
    by: str = ""
    """The only table of the text; empty for the overview."""
    shown: str = ""
    """Of which claims alone, in words such as `in namespace ml`; empty for everything."""
    cluster: Cluster | None = None
    """Of a page."""
    limits: Sequence[LimitStatus] = ()

    @property
    def states(self) -> Sequence[DeviceState]:
        """Those that have a column in any case."""
        return _HELD if self.shown else _ALWAYS

    def blocks(self) -> Iterable[ColumnTable]:
        """The table of `by`; else drivers, classes with the largest claim that fits, and pools with problems."""
        if self.by:
            return [TABLES[self.by](self)]
        problems = problem_table(self)
        return [TABLES["driver"](self), class_table(self), *([problems] if problems.rows else [])]

    def nothing(self) -> str:
        """Why the tables of the text have headers alone; empty where one has more."""
        if any(table.rows for table in self.blocks()):
            return ""
        if self.by == "limit":
            return f"no limit holds {self.shown or 'for any namespace'}"
        if self.shown or self.by == "namespace":
            return f"no claim {self.shown} holds a device".replace("  ", " ")
        return "no device is published"

    def fields(self) -> Json:
        """Everything, whatever the tables show."""
        return {
            "drivers": [_tally(one) for one in self.drivers],
            "classes": [{**_tally(one), "largestClaim": _room(self.rooms.get(one.name))} for one in self.classes],
            "nodes": [_tally(one) for one in self.nodes],
            "namespaces": [_tally(one) for one in self.namespaces],
            "pools": [_pool(one) for one in self.pools],
            **({"limits": [_limit(one) for one in self.limits]} if self.limits else {}),
        }

    def html(self, head: Sequence[str] = ()) -> str:
        """Everything, with a map of the devices."""
        answer = [*(_limits_answer(self.limits) if self.by == "limit" else ()), *_status_answer(self)]
        tables = sorted(_tables(self), key=lambda one: not one.name.startswith(self.by))  # that of `by` stands first
        return data_page(DataPage("Devices", answer, tables, MAP), head)


def problem_table(report: StatusReport) -> ColumnTable:
    """A line for each problem of a pool."""
    rows = [[f"{one.id.driver}/{one.id.pool}", text] for one in report.pools for text in pool_problems(one)]
    return ColumnTable(["POOL", "PROBLEM"], rows)


def pool_problems(pool: PoolStatus) -> Iterator[str]:
    """What is wrong with the pool, or with who holds its devices."""
    if pool.problem:
        yield pool.problem
    for device, holders in pool.unpublished.items():
        yield f"device {device} is no longer published, but allocated to {', '.join(holders)}"


def largest_claim_text(room: ClassRoom) -> str:
    """How many devices the largest claim has, and where it fits."""
    if room.largest.error:
        return f"unknown: {room.largest.error.partition(chr(10))[0]}"
    if not room.largest.count:
        return "none fits"
    devices = counted(room.largest.count, "device")
    number = room.largest.nodes.bit_count()
    if number <= MOST_NODES:
        return f"{devices}, on {', '.join(room.nodes())}"
    return f"{devices}, on {number} nodes"


def class_table(report: StatusReport) -> ColumnTable:
    """A line for each class."""
    rooms = {name: largest_claim_text(room) for name, room in report.rooms.items()}
    return class_columns(report.classes, rooms, _shown_states(report.classes, report.states))


def class_columns(
    groups: Sequence[Tally], rooms: Mapping[str, str], states: Iterable[DeviceState] = DeviceState
) -> ColumnTable:
    """A line for each class. rooms: the largest claim by class, in words."""
    cells = [rooms.get(one.name, "-") for one in groups]
    return tally_columns("CLASS", groups, states).with_column("LARGEST CLAIM", cells)


def pool_table(report: StatusReport) -> ColumnTable:
    """A line for each pool, with the counters of which something is in use."""
    groups = []
    lines = []
    for pool in report.pools:
        group = Tally(f"{pool.id.driver}/{pool.id.pool}")
        for device in pool.devices:
            group.add(device)
        groups.append(group)
        lines.append("; ".join([*pool_problems(pool), *_used_counters(pool.counters)]) or "-")
    return _tally_table("POOL", groups, report.states).with_column("PROBLEM, OR LEFT OF COUNTERS", lines)


def _used_counters(counters: Mapping[tuple[str, str], Amount]) -> Iterator[str]:
    for (counter_set, name), amount in counters.items():
        if amount.left != amount.total:
            yield f"{counter_set}/{name} {_amount_text(amount)}"


def _amount_text(amount: Amount) -> str:
    return f"{amount.left} of {amount.total}"


def device_table(report: StatusReport) -> ColumnTable:
    """A line for each device, with its holders and what is left of it."""
    return device_columns(report.pools, report.claims)


def device_columns(pools: Iterable[PoolStatus], claims: Iterable[ClaimStatus]) -> ColumnTable:
    """A line for each device of the pools, in their order."""
    users = {str(one.claim): one.users for one in claims}
    rows = [_device_row(device, users) for pool in pools for device in pool.devices]
    return ColumnTable(["DEVICE", "NODE", "STATE", "CLAIMS", "USED BY", "CAPACITY LEFT"], rows)


def _device_row(device: DeviceStatus, users: Mapping[str, Sequence[str]]) -> list[str]:
    used_by = [user for holder in device.holders for user in users.get(holder, ())]
    left = [f"{name} {_amount_text(amount)}" for name, amount in device.capacity.items()]
    node = ",".join(by_node(device))
    return [str(device.device.id), node, device.state, _listed(device.holders), _listed(used_by), _listed(left)]


def _listed(names: Sequence[str]) -> str:
    return ",".join(names) or "-"


TABLES: Mapping[str, Callable[[StatusReport], ColumnTable]] = {
    "driver": lambda report: _tally_table("DRIVER", report.drivers, report.states),
    "class": class_table,
    "pool": pool_table,
    "node": lambda report: _tally_table("NODE", report.nodes, report.states),
    "namespace": lambda report: _tally_table("NAMESPACE", report.namespaces, _HELD),
    "device": device_table,
    "limit": lambda report: limit_table(report.limits),
}
"""What `--by` takes, but for claims, which have a table of their own."""


def limit_table(limits: Iterable[LimitStatus]) -> ColumnTable:
    """How much of each limit is in use."""
    rows = [
        [
            one.limit.name,
            one.namespace or "-",
            one.limit.text_of(one.used),
            one.limit.text_of(one.most),
            _percent(one),
            *_soft(one),
        ]
        for one in limits
    ]
    return ColumnTable(["LIMIT", "NAMESPACE", "USED", "MOST", "%", "SOFT"], rows, frozenset({"USED", "MOST", "%"}))


def _percent(limit: LimitStatus) -> str:
    return f"{limit.used * 100 / limit.most:.0f}" if limit.most else "-"


def _soft(limit: LimitStatus) -> list[str]:
    return ["soft" if limit.limit.soft else "-"]


def _limit(one: LimitStatus) -> Json:
    used, most = one.limit.text_of(one.used), one.limit.text_of(one.most)
    return {"name": one.limit.name, "namespace": one.namespace, "used": used, "most": most, "soft": one.limit.soft}


def _tally_table(title: str, groups: Sequence[Tally], always: Sequence[DeviceState]) -> ColumnTable:
    return tally_columns(title, groups, _shown_states(groups, always))


def _shown_states(groups: Sequence[Tally], always: Sequence[DeviceState]) -> Sequence[DeviceState]:
    """All but those that no device is in."""
    return [s for s in DeviceState if s in always or any(group.states[s] for group in groups)]


def tally_columns(title: str, groups: Sequence[Tally], states: Iterable[DeviceState] = DeviceState) -> ColumnTable:
    """A line for each group, with a column for each of the states, free devices first."""
    ordered = sorted(states, key=lambda state: state is not DeviceState.FREE)
    header = [title, "DEVICES", *(state.name for state in ordered), "CLAIMS"]
    rows = [
        [group.name, str(group.devices), *(str(group.states[state]) for state in ordered), str(len(group.claims))]
        for group in groups
    ]
    return ColumnTable(header, rows, _NUMBERS)


def _tally(group: Tally) -> Json:
    states = {str(state): group.states[state] for state in DeviceState}
    return {"name": group.name, "devices": group.devices, **states, "claims": len(group.claims)}


def _room(room: ClassRoom | None) -> Json | None:
    if room is None:
        return None
    if room.largest.error:
        return {"error": room.largest.error}
    return {"devices": room.largest.count, "nodes": room.nodes()}


def _pool(pool: PoolStatus) -> Json:
    return {
        "driver": pool.id.driver,
        "name": pool.id.pool,
        "problem": pool.problem or None,
        "devices": [_device(one) for one in pool.devices],
        "counters": [
            {"counterSet": counter_set, "name": name, **_amount(amount)}
            for (counter_set, name), amount in pool.counters.items()
        ],
        "unpublished": [{"name": name, "claims": list(claims)} for name, claims in pool.unpublished.items()],
    }


def _device(device: DeviceStatus) -> Json:
    return {
        "name": device.device.name,
        "node": next(iter(by_node(device))),
        "state": str(device.state),
        "claims": list(device.holders),
        "capacity": [{"name": name, **_amount(amount)} for name, amount in device.capacity.items()],
    }


def _amount(amount: Amount) -> Json:
    return {"total": str(amount.total), "left": str(amount.left)}


# The devices of a cluster as a table of a page, which its map shows: as they are, or compared with before a change.


DEVICES = "devices"
_SORTS = ("KIND", "PLACE", "CUT FROM")
MAP = MapColumns(
    DEVICES,
    name="DEVICE",
    node="NODE",
    state="STATE",
    holders="CLAIMS",
    kind=_SORTS[0],
    place=_SORTS[1],
    whole=_SORTS[2],
    nodes="closed",
)
"""The map of the devices."""

_PLACES = ((NUMA_NODE, "NUMA "), (PCIE_ROOT, ""))
"""Attributes that say where in its node a device is, and what stands before their values."""

_CHANGE = "CHANGE"
_SAME = "-"
_GONE = StateLook("gone", "G", 1, "no longer there")
_BEFORE = ("STATE BEFORE", "CLAIMS BEFORE")
CHANGE_MAP = replace(
    MAP, marks=_CHANGE, mark_text="the change concerns it", states=(*DEVICE_STATES, _GONE), before=_BEFORE
)
"""The maps of the devices before and after a change."""


class DeviceChange(StrEnum):
    """What a change does to a device."""

    TAKEN = "taken"
    RELEASED = "released"
    OTHER_CLAIMS = "other claims"
    ADDED = "added"
    GONE = "gone"


def device_map(pools: Iterable[PoolStatus], claims: Iterable[ClaimStatus], cluster: Cluster | None) -> PageTable:
    """A row for each device. cluster: knows the nodes that reach devices of several."""
    return PageTable(DEVICES, "Devices", map_columns(pools, claims, cluster))


CLOSED = MAP.nodes
_CLOSED_CAPTION = "Nodes that are cordoned, tainted or removed"
NO_NODE_IS_CLOSED = "No node is cordoned or tainted."


def closed_nodes(cluster: Cluster | None, before: Cluster | None = None, pools: Iterable[PoolStatus] = ()) -> PageTable:
    """Nodes that take no pods, or not all, those that were there before a change, and those that only pools name."""
    rows = _closed(cluster) if cluster is not None else {}
    if cluster is not None:
        named = {name for one in _all(pools) if (name := _reach(one).node_name)}
        rows |= {name: "removed: there is no such Node" for name in named if cluster.node(name) is None}
    if before is not None and cluster is not None:
        old = _closed(before)
        rows |= {name: "removed" for name in before.names() if cluster.node(name) is None}
        both = [[name, rows.get(name, "-"), old.get(name, "-")] for name in sorted({**rows, **old})]
        return PageTable(CLOSED, _CLOSED_CAPTION, ColumnTable(["NODE", "WHY", "BEFORE"], both), NO_NODE_IS_CLOSED)
    listed = [list(one) for one in sorted(rows.items())]
    return PageTable(CLOSED, _CLOSED_CAPTION, ColumnTable(["NODE", "WHY"], listed), NO_NODE_IS_CLOSED)


def _closed(cluster: Cluster) -> dict[str, str]:
    closed = {}
    for name in sorted(cluster.names()):
        node = cluster.node(name)
        assert node is not None
        reasons = ["cordoned"] if node.unschedulable else []
        reasons += [f"taint {one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in node.taints]
        if reasons:
            closed[name] = ", ".join(reasons)
    return closed


def map_columns(
    pools: Iterable[PoolStatus], claims: Iterable[ClaimStatus], cluster: Cluster | None = None
) -> ColumnTable:
    """A line for each device, with its kind, its place in the node, and what it is cut from, as the map shows them."""
    listed_pools = list(pools)
    table = device_columns(listed_pools, claims)
    nodes = [nodes_text(one, cluster) for one in _all(listed_pools)]
    rows = [
        [row[0], node, *row[2:], *_sorts(one.device)]
        for row, node, one in zip(table.rows, nodes, _all(listed_pools), strict=True)
    ]
    return ColumnTable([*table.header, *_SORTS], rows)


def nodes_text(device: DeviceStatus, cluster: Cluster | None) -> str:
    """The node that reaches the device; of several, the number and the first names."""
    reach = _reach(device)
    if reach.node_name or cluster is None or (reach.node_selector is None and not reach.all_nodes):
        return ",".join(by_node(device))
    if reach.all_nodes:
        names = sorted(cluster.names())
    else:
        assert reach.node_selector is not None
        names = sorted(map(cluster.name_of, bits(cluster.reached(reach.node_selector))))
    return f"{counted(len(names), 'node')}: {listed_up_to(names, MOST_NODES)}" if names else "0 nodes"


def _reach(device: DeviceStatus) -> Reach:
    return device.device.reach if device.slice.reach.per_device else device.slice.reach


def _sorts(device: Device) -> tuple[str, str, str]:
    """Its kind, such as `gpu`; NUMA node and PCIe root; and the counters that it shares with what is cut from the same.

    Its driver says the kind in the attribute `type`; otherwise it is the name without its number.
    """
    type_, value = lookup(device, f"{device.driver}/type") or ("", None)
    kind = str(value) if type_ == "string" else device.name.rstrip("0123456789").rstrip("-") or device.driver
    places = [(title, (lookup(device, name) or ("", None))[1]) for name, title in _PLACES]
    counter_sets = dict.fromkeys(one.counter_set for one in device.consumes_counters)
    return (
        kind,
        ", ".join(f"{title}{value}" for title, value in places if value is not None) or "-",
        _listed([*counter_sets]),
    )


def change_map(
    before: Sequence[PoolStatus],
    after: Sequence[PoolStatus],
    claims: Iterable[ClaimStatus],
    clusters: tuple[Cluster | None, Cluster | None],
) -> PageTable:
    """A row for each device as it is after a change, with what has changed, and for those that are gone."""
    old = {one.device.id: one for one in _all(before)}
    table = map_columns(after, claims, clusters[1])
    changes = zip(table.rows, _all(after), strict=True)
    rows = [[*row, *_before(old.get(one.device.id)), _change(old.get(one.device.id), one)] for row, one in changes]
    there = {one.device.id for one in _all(after)}
    rows += [_gone(status, clusters[0]) for one, status in old.items() if one not in there]
    return PageTable(DEVICES, "Devices after the change", ColumnTable([*table.header, *_BEFORE, _CHANGE], rows))


def _all(pools: Iterable[PoolStatus]) -> Iterator[DeviceStatus]:
    return (one for pool in pools for one in pool.devices)


def _before(old: DeviceStatus | None) -> tuple[str, str]:
    """State and holders; nothing of a device that was not there."""
    return ("-", "-") if old is None else (old.state, _listed(old.holders))


def _change(old: DeviceStatus | None, new: DeviceStatus) -> str:
    if old is None:
        return DeviceChange.ADDED
    if old.holders == new.holders:
        return _SAME
    if not old.holders:
        return DeviceChange.TAKEN
    return DeviceChange.OTHER_CLAIMS if new.holders else DeviceChange.RELEASED


def _gone(old: DeviceStatus, cluster: Cluster | None) -> list[str]:
    own = [str(old.device.id), nodes_text(old, cluster), _GONE.name, _listed(old.holders), "-", "-"]
    return [*own, *_sorts(old.device), *_before(old), DeviceChange.GONE]


# Claims as a table and as JSON (docs/status.md describes each field).


MOST_USERS = 3
MOST_DEVICES = 4
"""Users and devices that a line names; of more, the number of the rest is given."""


_CLAIM_COLUMNS = ("NAMESPACE", "NAME", "STATE", "DEVICES", "NODE", "USED BY")


@dataclass(frozen=True, slots=True)
class ClaimsReport(PagedReport):
    """Claims."""

    kind = "ClaimStatusList"

    claims: Sequence[ClaimStatus]
    shown: str
    """In words, such as `in namespace ml`."""
    now: datetime
    """For their ages."""
    pools: Sequence[PoolStatus] = ()
    cluster: Cluster | None = None
    """pools, cluster: of a page."""

    def blocks(self) -> Iterable[ColumnTable]:
        """A line for each claim."""
        rows = [[*claim_cells(one, MOST_DEVICES, MOST_USERS), age(one.created, self.now)] for one in self.claims]
        return [ColumnTable([*_CLAIM_COLUMNS, "AGE"], rows)] if rows else []

    def fields(self) -> Json:
        """All claims, with all their devices."""
        return {"items": [_object(one) for one in self.claims]}

    def html(self, head: Sequence[str] = ()) -> str:
        """The claims, with the devices that they hold in the map."""
        tables = [
            claims_table(self.claims),
            device_map(self.pools, self.claims, self.cluster),
            closed_nodes(self.cluster),
        ]
        return data_page(DataPage("Claims", list(_claims_answer(self)), tables, MAP), head)

    def nothing(self) -> str:
        """Why there is no line."""
        return f"there is no ResourceClaim {self.shown}"


def claim_cells(one: ClaimStatus, most_devices: int | None = None, most_users: int | None = None) -> list[str]:
    """Namespace, name, state, devices, node and users. Of more devices and users, the number of the rest is given."""
    return [
        one.claim.namespace,
        one.claim.name,
        ",".join(one.states),
        _listed_up_to([str(result.id) for result in one.devices], most_devices),
        one.node or "-",
        _listed_up_to(one.users, most_users),
    ]


def _listed_up_to(names: Sequence[str], most: int | None) -> str:
    shown = ",".join(names[:most])
    rest = len(names[most:]) if most is not None else 0
    return f"{shown} + {rest} more" if rest > 0 else shown or "-"


def _object(one: ClaimStatus) -> Json:
    return {
        "namespace": one.claim.namespace,
        "name": one.claim.name,
        "states": list(one.states),
        "node": one.node or None,
        "usedBy": list(one.users),
        "created": one.created or None,
        "devices": [
            {
                "request": result.request,
                "driver": result.driver,
                "pool": result.pool,
                "device": result.device,
                "adminAccess": result.admin_access,
                "shareID": result.share_id or None,
                "consumedCapacity": {name: str(amount) for name, amount in result.consumed_capacity.items()},
            }
            for result in one.devices
        ],
    }


# The devices of a cluster and who holds them, as a page (docs/status.md, docs/ui.md).


_MOST = 5
"""Problems and classes that the answer names."""


def _status_answer(report: StatusReport) -> Iterator[str]:
    states = states_of(report.pools)
    holding = {holder for pool in report.pools for device in pool.devices for holder in device.holders}
    where = f" {report.shown}" if report.shown else ""
    claims = f"{counted(len(holding), 'claim', style=',')}{where} {agreeing(len(holding), 'holds', 'hold')}"
    if report.shown:
        yield f"{claims} {counted(states.total(), 'device', style=',')}."
    else:
        yield states_text(states)
        yield f"{claims} devices."
    yield from _first([f"Pool {pool}: {problem}." for pool, problem in problem_table(report).rows])
    rooms = [(one.name, report.rooms[one.name]) for one in report.classes if one.name in report.rooms]
    texts = [f"The largest claim of class {name} that fits: {largest_claim_text(room)}." for name, room in rooms]
    yield from _first(texts)


def _limits_answer(limits: Sequence[LimitStatus]) -> Iterator[str]:
    """How many limits are used up, then those of which most is in use."""
    full = sum(one.used >= one.most for one in limits)
    yield f"{full:,} of {counted(len(limits), 'limit', style=',')} {agreeing(full, 'is', 'are')} used up."
    ordered = sorted(limits, key=lambda one: one.used / one.most if one.most else 1, reverse=True)
    yield from _first([f"{text[0].upper()}{text[1:]}." for text in map(use_text, ordered)])


def states_of(pools: Iterable[PoolStatus]) -> Counter[DeviceState]:
    """How many devices are in each state."""
    return Counter(device.state for pool in pools for device in pool.devices)


def states_text(states: Counter[DeviceState]) -> str:
    """The numbers as a sentence."""
    others = ", ".join(f"{states[one]:,} {one}" for one in DeviceState if one is not DeviceState.FREE and states[one])
    devices = counted(states.total(), "device is", "devices are", ",")
    free = f"{states[DeviceState.FREE]:,} of {devices} free"
    return f"{free}; {others}." if others else f"{free}."


def _first(sentences: Sequence[str]) -> Iterator[str]:
    yield from sentences[:_MOST]
    if more := and_more(len(sentences), _MOST, word="And"):
        yield f"{more}, which are in the tables."


def _tables(report: StatusReport) -> Iterator[PageTable]:
    yield PageTable("drivers", "Drivers", TABLES["driver"](report))
    yield PageTable("classes", "Classes", class_table(report))
    if report.limits:
        yield PageTable("limits", "Limits", limit_table(report.limits))
    yield PageTable("problems", "Pools with problems", problem_table(report), "No pool has problems.")
    yield device_map(report.pools, report.claims, report.cluster)
    yield closed_nodes(report.cluster)
    yield PageTable("nodes", "Nodes", TABLES["node"](report))
    yield PageTable("pools", "Pools", pool_table(report))
    yield PageTable("namespaces", "Namespaces", TABLES["namespace"](report))
    yield claims_table(report.claims)


def claims_table(claims: Iterable[ClaimStatus]) -> PageTable:
    """With when they were created: a page is read later, so that no age holds."""
    rows = [[*claim_cells(one), one.created or "-"] for one in claims]
    return PageTable("claims", "Claims", ColumnTable([*_CLAIM_COLUMNS, "CREATED"], rows))


def _claims_answer(report: ClaimsReport) -> Iterator[str]:
    states = Counter(" and ".join(one.states) for one in report.claims)
    by_state = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    claims = counted(len(report.claims), "claim is", "claims are", ",")
    yield f"{claims} {report.shown}{f': {by_state}' if by_state else ''}."
    devices = sum(len(pool.devices) for pool in report.pools)
    yield f"{agreeing(len(report.claims), 'It holds', 'They hold')} {counted(devices, 'device', style=',')}."
