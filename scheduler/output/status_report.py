"""The devices of a cluster and who holds them, as tables and as JSON (docs/status.md describes each field)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocator.search.rules import bits
from allocator.status.largest_claim import LargestClaim
from allocator.status.pool_status import Amount, DeviceState, DeviceStatus, PoolStatus
from scheduler.output.columns import ColumnTable
from scheduler.status.claim_status import ClaimStatus
from scheduler.status.tally import Tally, by_node

API_VERSION = "dra-scheduler.dev/v1alpha1"
KIND = "Status"

MOST_NODES = 3
"""Nodes that are named for the largest claim; of more, only the number is given."""

_ALWAYS = (DeviceState.FREE, DeviceState.ALLOCATED)
_NUMBERS = frozenset({"DEVICES", "CLAIMS", *(state.name for state in DeviceState)})

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class ClassRoom:
    """The largest claim for devices of a class that still fits. name_of: the node with a number."""

    largest: LargestClaim
    name_of: Callable[[int], str]

    def nodes(self) -> Sequence[str]:
        """The names of the nodes that fit it, in order."""
        return sorted(map(self.name_of, bits(self.largest.nodes)))


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What there is to be shown. rooms: by class."""

    pools: Sequence[PoolStatus]
    drivers: Sequence[Tally]
    classes: Sequence[Tally]
    nodes: Sequence[Tally]
    namespaces: Sequence[Tally]
    rooms: Mapping[str, ClassRoom]
    claims: Sequence[ClaimStatus]


def overview(report: StatusReport) -> str:
    """Drivers, classes with the largest claim that fits, and pools with problems."""
    tables = [driver_table(report), class_table(report)]
    if (problems := problem_table(report)).rows:
        tables.append(problems)
    return "\n\n".join(map(str, tables))


def problem_table(report: StatusReport) -> ColumnTable:
    """A line for each problem of a pool."""
    found = [[f"{one.id.driver}/{one.id.pool}", text] for one in report.pools for text in pool_problems(one)]
    return ColumnTable(["POOL", "PROBLEM"], found)


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
    devices = f"{room.largest.count} device{'' if room.largest.count == 1 else 's'}"
    number = room.largest.nodes.bit_count()
    if number <= MOST_NODES:
        return f"{devices}, on {', '.join(room.nodes())}"
    return f"{devices}, on {number} nodes"


def class_table(report: StatusReport) -> ColumnTable:
    """A line for each class."""
    rooms = {name: largest_claim_text(room) for name, room in report.rooms.items()}
    return class_columns(report.classes, rooms, _shown_states(report.classes))


def class_columns(
    groups: Sequence[Tally], rooms: Mapping[str, str], states: Iterable[DeviceState] = DeviceState
) -> ColumnTable:
    """A line for each class. rooms: the largest claim by class, in words."""
    cells = [rooms.get(one.name, "-") for one in groups]
    return _with_column(tally_columns("CLASS", groups, states), "LARGEST CLAIM", cells)


def driver_table(report: StatusReport) -> ColumnTable:
    """A line for each driver."""
    return _tally_table("DRIVER", report.drivers)


def node_table(report: StatusReport) -> ColumnTable:
    """A line for each node with devices, or without any."""
    return _tally_table("NODE", report.nodes)


def namespace_table(report: StatusReport) -> ColumnTable:
    """A line for each namespace whose claims hold devices."""
    return _tally_table("NAMESPACE", report.namespaces)


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
    return _with_column(_tally_table("POOL", groups), "PROBLEM, OR LEFT OF COUNTERS", lines)


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
    "driver": driver_table,
    "class": class_table,
    "pool": pool_table,
    "node": node_table,
    "namespace": namespace_table,
    "device": device_table,
}
"""What `--by` takes, but for claims, which have a table of their own."""


def _tally_table(title: str, groups: Sequence[Tally]) -> ColumnTable:
    return tally_columns(title, groups, _shown_states(groups))


def _shown_states(groups: Sequence[Tally]) -> Sequence[DeviceState]:
    """All but those that no device is in."""
    return [s for s in DeviceState if s in _ALWAYS or any(group.states[s] for group in groups)]


def _with_column(table: ColumnTable, title: str, cells: Sequence[str]) -> ColumnTable:
    """The table with one more column at the end."""
    rows = [[*row, cell] for row, cell in zip(table.rows, cells, strict=True)]
    return ColumnTable([*table.header, title], rows, table.numbers)


def tally_columns(title: str, groups: Sequence[Tally], states: Iterable[DeviceState] = DeviceState) -> ColumnTable:
    """A line for each group, with a column for each of the states, free devices first."""
    ordered = sorted(states, key=lambda state: state is not DeviceState.FREE)
    header = [title, "DEVICES", *(state.name for state in ordered), "CLAIMS"]
    rows = [
        [group.name, str(group.devices), *(str(group.states[state]) for state in ordered), str(len(group.claims))]
        for group in groups
    ]
    return ColumnTable(header, rows, _NUMBERS)


def object_of(report: StatusReport) -> Json:
    """Everything, whatever the tables show."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "drivers": [_tally(one) for one in report.drivers],
        "classes": [{**_tally(one), "largestClaim": _room(report.rooms.get(one.name))} for one in report.classes],
        "nodes": [_tally(one) for one in report.nodes],
        "namespaces": [_tally(one) for one in report.namespaces],
        "pools": [_pool(one) for one in report.pools],
    }


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
