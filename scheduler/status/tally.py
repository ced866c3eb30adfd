"""Devices counted by state, in groups: of a driver, a class, a pool, a node, or a namespace that holds them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from allocator.model import Reach
from allocator.status.matching import Membership
from allocator.status.pool_status import DeviceState, DeviceStatus, PoolStatus

ALL_NODES = "(all nodes)"
NODE_SELECTOR = "(node selector)"
NO_NODE = "(no node)"
NO_CLASS = "(no class)"
"""Names of groups that no object can have."""

Names = Callable[[DeviceStatus], Iterable[str]]
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


def tallies(pools: Iterable[PoolStatus], names_of: Names, known: Iterable[str] = ()) -> Sequence[Tally]:
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


def by_class(classes: Sequence[Membership]) -> Names:
    """The classes that select the device: any number."""

    def names(device: DeviceStatus) -> Iterator[str]:
        selecting = [one.name for one in classes if one.has(device.device)]
        yield from selecting or (NO_CLASS,)

    return names
