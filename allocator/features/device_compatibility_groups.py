"""Compatibility groups: devices that draw on one counter set must share a group, all of them a common one.

A device without groups goes only with others without. What is allocated counts, read from the slices
as they are now. With the gate off, slices with groups are left out of their pools (`allocator.cluster.pools`).
Source: feature gate DRADeviceCompatibilityGroups, field compatibilityGroups.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allocator.bits import Mask
from allocator.cluster.pools import NodeView
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import COMPATIBILITY_GROUPS
from allocator.memo import Topic
from allocator.model import Alternative, CounterConsumption, CounterSetID, Device, PoolID
from allocator.search.rules import Classes, DeviceSlot, Effort, Rule, Stage, Trail

GroupsBySet = tuple[tuple[CounterSetID, frozenset[str]], ...]
"""The counter sets that a device draws on, with its groups there."""

_CONSUMPTIONS: Final[Topic[Mapping[int, GroupsBySet]]] = Topic("compatibility groups")

UNGROUPED: Final = frozenset([""])
"""Stands for the groups of a device that declares none: it goes with its like only."""


class DeviceCompatibilityGroups(Feature):
    """Watches the groups of the devices on each counter set."""

    def concerns(self, view: NodeView) -> bool:
        """Only views with a device that consumes counters."""
        return "consumes_counters" in view.traits

    def taken(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that do not go with what is allocated."""
        rule = self.rule(attempt)
        if rule is not None:
            mask = sum(1 << position for position in rule.consumptions if not rule.admits(position))
            yield Stage("are incompatible with what is allocated of their counter set", mask)

    def rule(self, attempt: NodeAttempt) -> "CompatibleGroups | None":
        """The running intersection, begun with what is allocated."""
        if not attempt.features.has(COMPATIBILITY_GROUPS):
            return None
        consumptions = _consumptions(attempt.view)
        allocated = _allocated_groups(attempt)
        every = {own for sets in consumptions.values() for _, own in sets} | set(allocated.values())
        if every <= {UNGROUPED}:
            return None
        return CompatibleGroups(consumptions, attempt.shareable, attempt.shared & attempt.shareable, allocated)


@dataclass(slots=True, eq=False)
class CompatibleGroups(Rule):
    """One intersection for each counter set."""

    consumptions: Mapping[int, GroupsBySet]
    """Of each device, its counter sets with its groups there."""
    shareable: Mask
    """Devices of which a further share is not checked again."""
    shared: Mask
    """Those of which a share is held already."""
    groups: dict[CounterSetID, frozenset[str]] = field(default_factory=dict)
    """Those that all devices on a counter set have in common; nothing goes with devices that have none in common."""
    _again: Mask = 0

    def admits(self, device: int) -> bool:
        """True if the device goes with all that is on its counter sets."""
        if (self.shared | self._again) >> device & 1:
            return True
        return all(self.groups.get(key, own) & own for key, own in self.consumptions.get(device, ()))

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Intersect the groups of the device with those that are there."""
        consumption = self.consumptions.get(device)
        if consumption is None or (self.shared | self._again) >> device & 1:
            return True
        if not self.admits(device):
            return False
        trail.push(self._restore, (self._again, {key: self.groups.get(key) for key, _ in consumption}))
        self._again |= (1 << device) & self.shareable
        for counter_set, own in consumption:
            self.groups[counter_set] = self.groups.get(counter_set, own) & own
        return True

    def alike(self, device: int) -> Hashable:
        """Devices on the same counter sets with the same groups: what one of them goes with, all do.

        Those of which a share is held are no exception: their groups count among what is allocated.
        """
        return self.consumptions.get(device)

    def touched(self) -> Mask:
        """Devices of which this attempt has a share."""
        return self._again

    def fingerprint(self, classes: Classes) -> Hashable:
        """The groups of each counter set, and the devices that are not checked again."""
        return frozenset(self.groups.items()), self._again

    def effort(self, picks: int) -> Effort:
        """A pick looks at the groups of each counter set of the device."""
        groups = [sum(1 + len(groups) for _, groups in own) for own in self.consumptions.values()]
        return Effort(1 + max(groups, default=0), fingerprint=picks)

    def _restore(self, old: tuple[Mask, Mapping[CounterSetID, frozenset[str] | None]]) -> None:
        self._again, groups = old
        for counter_set, held in groups.items():
            if held is None:
                self.groups.pop(counter_set, None)
            else:
                self.groups[counter_set] = held


def _consumptions(view: NodeView) -> Mapping[int, GroupsBySet]:
    """The counter sets of each device that draws on any, with its groups there."""
    return view.memo.remember(_CONSUMPTIONS, lambda: _consumptions_of(view))


def _consumptions_of(view: NodeView) -> Mapping[int, GroupsBySet]:
    return {number: _groups_by_set(device) for number, device in enumerate(view.devices) if device.consumes_counters}


def _groups_by_set(device: Device) -> GroupsBySet:
    groups: dict[CounterSetID, frozenset[str]] = {}
    for consumption in device.consumes_counters:
        key, own = (PoolID(device.driver, device.pool), consumption.counter_set), _groups_of(consumption)
        groups[key] = groups.get(key, own) & own
    return tuple(groups.items())


def _groups_of(consumption: CounterConsumption) -> frozenset[str]:
    return frozenset(consumption.compatibility_groups) or UNGROUPED


def _allocated_groups(attempt: NodeAttempt) -> dict[CounterSetID, frozenset[str]]:
    """The groups that allocated devices have in common. If grouped and ungrouped ones meet, the first counts."""
    groups: dict[CounterSetID, frozenset[str]] = {}
    for pool in attempt.view.pools:
        for device in attempt.allocated_devices(pool):
            for consumption in device.consumes_counters:
                key, own = (pool.id, consumption.counter_set), _groups_of(consumption)
                held = groups.get(key, own)
                groups[key] = held if UNGROUPED in (held, own) else held & own
    return groups
