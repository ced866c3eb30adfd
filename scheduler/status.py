"""Claims and devices as `dra status`, `dra claims` and the status page show them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import cel
from allocator.allocate import BUDGET_STEPS
from allocator.api.allocation import Consumer
from allocator.explain.selector_operands import OperandAnswers, SelectorOperand
from allocator.model import Claim, Device, DeviceID, DeviceResult, Reach
from allocator.outcome import Budget
from allocator.status import DeviceState, DeviceStatus, ExpressionAnswers, Membership, PoolStatus
from allocator.words import did_you_mean
from scheduler.core_v1.pod import Pod
from scheduler.plugins.node_affinity import named_nodes
from scheduler.state.claims import ClaimObject

# The devices that certain claims hold, out of all pools.


def held_by(pools: Iterable[PoolStatus], claims: Collection[str]) -> Iterator[PoolStatus]:
    """The pools of which the claims hold devices, with these devices alone and these claims as their only holders.

    claims: as `namespace/name`. The states of devices, and what is left of them, stay those of the whole pool.
    """
    for pool in pools:
        devices = tuple(
            replace(device, holders=_among(claims, device.holders))
            for device in pool.devices
            if _among(claims, device.holders)
        )
        unpublished = _unpublished(pool.unpublished, claims)
        if devices or unpublished:
            yield replace(pool, devices=devices, unpublished=unpublished)


def _unpublished(holders: Mapping[str, tuple[str, ...]], claims: Collection[str]) -> dict[str, tuple[str, ...]]:
    found = {name: _among(claims, names) for name, names in holders.items()}
    return {name: names for name, names in found.items() if names}


def _among(claims: Collection[str], holders: Iterable[str]) -> tuple[str, ...]:
    return tuple(holder for holder in holders if holder in claims)


# What a CEL expression selects of a fleet, what it costs, and on which devices it fails.


TABLES = ("attributes", "capacity")
"""What of a device has names of its own."""


@dataclass(frozen=True, slots=True)
class ExpressionSelection:
    """The answers of an expression. failures: the message of each device on which it fails, in order.

    estimated_cost: the worst case, which the API server limits; highest_cost: on these devices. unknown: drivers,
    attributes and capacities that it names and no device has, with what may be meant. operands: those of its `&&`,
    none if it is none.
    """

    expression: str
    devices: Sequence[Device]
    matching: Sequence[Device]
    failures: Mapping[DeviceID, str]
    estimated_cost: int
    highest_cost: int
    unknown: Sequence[str] = ()
    operands: Sequence[SelectorOperand] = ()


def select(expression: str, devices: Sequence[Device], environment: cel.Environment) -> ExpressionSelection:
    """The answers on all devices. Raises cel.CompileError. Cost: O(devices)."""
    answers, highest = ExpressionAnswers(expression, environment), 0
    matching, failures = list[Device](), dict[DeviceID, str]()
    for device in devices:
        outcome = answers.outcome(device)
        highest = max(highest, outcome.cost)
        if outcome.error is not None:
            failures[device.id] = outcome.error.message
        elif outcome.value:
            matching.append(device)
    program = cel.compile(expression, environment)
    unknown = list(known_names(devices).unknown_to(program.reads)) if devices else []
    operands = OperandAnswers(environment, Budget(BUDGET_STEPS).charge).of(expression, devices)
    return ExpressionSelection(
        expression, devices, matching, failures, program.estimated_cost, highest, unknown, operands
    )


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Of devices. drivers: those that publish them. qualified: attributes and capacities with domain, by `TABLES`."""

    drivers: Collection[str]
    qualified: Mapping[str, Collection[str]]

    def unknown_to(self, reads: cel.Reads) -> Iterator[str]:
        """What an expression reads or names and no device has, in words; one that reads a whole map names none."""
        drivers = {text for path, text in reads.texts if path == ("driver",)}
        for name in sorted(drivers.difference(self.drivers)):
            yield f"no device has the driver {name}{did_you_mean(name, self.drivers)}"
        read = {(path[0], f"{path[1]}/{path[2]}") for path in reads.paths if len(path) == 3 and path[0] in TABLES}
        for table, name in sorted(read):
            if name not in (known := self.qualified[table]):
                yield f"no device has {name} in its {table}{did_you_mean(name, known)}"


def known_names(devices: Sequence[Device]) -> KnownNames:
    """The names of these devices. Cost: O(devices)."""
    return KnownNames({one.driver for one in devices}, {table: fully_named(devices, table) for table in TABLES})


def fully_named(devices: Iterable[Device], table: str) -> Counter[str]:
    """The names with their domain of all `attributes`, or of all `capacity`, and how many devices have each."""
    return Counter(
        name if "/" in name else f"{device.driver}/{name}" for device in devices for name in getattr(device, table)
    )


# Devices counted by state, in groups: of a driver, a class, a pool, a node, or a namespace that holds them.


ALL_NODES = "(all nodes)"
NODE_SELECTOR = "(node selector)"
NO_NODE = "(no node)"
NO_CLASS = "(no class)"
"""Names of groups that no object can have."""

NamesOf = Callable[[DeviceStatus], Iterable[str]]
"""The groups that a device belongs to, by name."""


@dataclass(slots=True)
class Tally:
    """A group of devices. states: how many are in each. claims: that hold them, as `namespace/name`."""

    name: str
    states: Counter[DeviceState] = field(default_factory=Counter)
    claims: set[str] = field(default_factory=set)

    @property
    def devices(self) -> int:
        """All of them."""
        return self.states.total()

    def add(self, device: DeviceStatus) -> None:
        """One more device."""
        self.states[device.state] += 1
        self.claims.update(device.holders)


def tallies(pools: Iterable[PoolStatus], names_of: NamesOf, known: Iterable[str] = ()) -> Sequence[Tally]:
    """The groups by name; those of `known` also where they have no device. Cost: O(devices)."""
    found = {name: Tally(name) for name in known}
    for pool in pools:
        for device in pool.devices:
            for name in names_of(device):
                found.setdefault(name, Tally(name)).add(device)
    return [found[name] for name in sorted(found)]


def by_driver(device: DeviceStatus) -> Iterator[str]:
    """The driver that publishes the device."""
    yield device.device.driver


def by_pool(device: DeviceStatus) -> Iterator[str]:
    """The driver's pool."""
    yield f"{device.device.driver}/{device.device.pool}"


def by_node(device: DeviceStatus) -> Iterator[str]:
    """The node that alone reaches the device, or how several are chosen."""
    reach = device.device.reach if device.slice.reach.per_device else device.slice.reach
    yield reach.node_name or _several(reach)


def _several(reach: Reach) -> str:
    if reach.all_nodes:
        return ALL_NODES
    return NODE_SELECTOR if reach.node_selector is not None else NO_NODE


def by_namespace(device: DeviceStatus) -> Iterator[str]:
    """The namespaces of the claims that hold the device, or shares of it."""
    yield from {holder.partition("/")[0] for holder in device.holders}


def by_class(classes: Sequence[Membership]) -> NamesOf:
    """The classes that select the device: any number."""

    def names(device: DeviceStatus) -> Iterator[str]:
        selecting = [one.name for one in classes if one.has(device.device)]
        yield from selecting or (NO_CLASS,)

    return names


# Claims with their state, devices, node and users, in the words of `kubectl get resourceclaims`.


ANY_NODE = "(any)"
"""The node of an allocated claim that all nodes, or those of a selector, can use."""


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """A claim. states: `deleted`, `pending`, `allocated`, `reserved`: all that hold.

    node: of the pods that use it, else the one that reaches its devices; empty before it is allocated. users: for whom
    it is reserved, such as `pod/train-0`. created: RFC 3339, or empty.
    """

    claim: Claim
    states: tuple[str, ...]
    node: str
    users: tuple[str, ...]
    created: str

    @property
    def devices(self) -> tuple[DeviceResult, ...]:
        """What it holds."""
        return self.claim.allocation.results if self.claim.allocation else ()


def claim_statuses(claims: Iterable[ClaimObject], pods: Iterable[Pod]) -> list[ClaimStatus]:
    """The claims by namespace and name. pods: those of the cluster, for their nodes."""
    nodes = {pod.uid: pod.node_name for pod in pods if pod.uid}
    found = [_status(one, nodes) for one in claims]
    return sorted(found, key=lambda one: (one.claim.namespace, one.claim.name))


def _status(found: ClaimObject, nodes: Mapping[str, str]) -> ClaimStatus:
    users = tuple(_user_text(consumer) for consumer in found.reserved_for)
    used_on = {nodes[one.uid] for one in found.reserved_for if nodes.get(one.uid)}
    node = ",".join(sorted(used_on)) or _reached_node(found.claim)
    return ClaimStatus(found.claim, tuple(_states(found)), node, users, found.metadata.creation_timestamp)


def _states(found: ClaimObject) -> Iterable[str]:
    if found.metadata.deletion_timestamp:
        yield "deleted"
    if found.claim.allocation is None:
        yield "pending"
        return
    yield "allocated"
    if found.reserved_for:
        yield "reserved"


def _user_text(consumer: Consumer) -> str:
    kind = consumer.resource.removesuffix("s") if not consumer.api_group else consumer.resource
    return f"{kind}/{consumer.name}"


def _reached_node(claim: Claim) -> str:
    if claim.allocation is None:
        return ""
    names = named_nodes(claim.allocation.node_selector)
    return ",".join(sorted(names)) if names else ANY_NODE
