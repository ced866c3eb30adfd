"""The published slices with the taints of the DeviceTaintRules in force, as the fleet gets them.

A changed rule only affects the slices that it selects, before or after. Pools in which an unreadable claim may hold any
device are withheld from the fleet.
Source: KEP-5055, feature gate DRADeviceTaintRules.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from allocator.api import TaintRule
from allocator.fleet.fleet import Fleet
from allocator.model import Device, PoolID, Slice

# DeviceTaintRules: their taints on the devices that they select, as if the driver had published them.
#
# Source: KEP-5055, DeviceTaintRule.


def tainted(slices: Sequence[Slice], rules: Sequence[TaintRule]) -> list[Slice]:
    """The slices with the taints of the rules on their devices; those that no rule touches are the same objects."""
    return [_with_taints(slice_, rules) for slice_ in slices]


def _with_taints(slice_: Slice, rules: Sequence[TaintRule]) -> Slice:
    ours = [rule for rule in rules if may_select(rule, slice_)]
    if not ours:
        return slice_
    return replace(slice_, devices=tuple(_tainted(device, ours) for device in slice_.devices))


def _tainted(device: Device, rules: Sequence[TaintRule]) -> Device:
    taints = tuple(rule.taint for rule in rules if rule.selector and rule.selector.device in (None, device.name))
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def may_select(rule: TaintRule, slice_: Slice) -> bool:
    """False where the rule selects no device of the slice, whatever their names."""
    selector = rule.selector
    if selector is None:
        return False
    return selector.driver in (None, slice_.driver) and selector.pool in (None, slice_.pool)


class TaintedSlices:
    """The slices by name. has_rules: the gate is on; where it is off, rules change nothing."""

    def __init__(self, fleet: Fleet, *, has_rules: bool) -> None:
        self._fleet = fleet
        self._has_rules = has_rules
        self._rules: dict[str, TaintRule] = {}
        self._published: dict[str, Slice] = {}
        self._given: dict[str, Slice] = {}
        self._left_alone: dict[str, tuple[PoolID, ...]] = {}

    @property
    def given(self) -> Mapping[str, Slice]:
        """The slices by name, as the fleet has them."""
        return self._given

    def set(self, slice_: Slice) -> None:
        """The slice is published, or has changed."""
        self._published[slice_.name] = slice_
        self._give(slice_)

    def remove(self, name: str) -> None:
        """The slice is gone. Raises KeyError where it was not there."""
        del self._published[name]
        self._take_back(name)

    def set_rule(self, rule: TaintRule) -> None:
        """The rule is there, or has changed. Cost: O(slices) looks, and O(devices) of those that it selects."""
        old = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._give_again((rule,) if old is None else (old, rule))

    def remove_rule(self, name: str) -> None:
        """The rule is gone, if it was there."""
        gone = self._rules.pop(name, None)
        self._give_again((gone,) if gone else ())

    def leave_alone(self, claim_uid: str, pools: tuple[PoolID, ...]) -> None:
        """The claim has unknown devices of these pools; a pool without a name: any of the driver's.

        It replaces what was said for the claim before.
        """
        before = self._left_alone.pop(claim_uid, ())
        if pools:
            self._left_alone[claim_uid] = pools
        if before != pools:
            for slice_ in list(self._published.values()):
                self._give(slice_)

    def _give_again(self, rules: Iterable[TaintRule]) -> None:
        if not self._has_rules:
            return
        rules = tuple(rules)
        for slice_ in self._published.values():
            if any(may_select(rule, slice_) for rule in rules):
                self._give(slice_)

    def _is_left_alone(self, slice_: Slice) -> bool:
        named = {PoolID(slice_.driver, slice_.pool), PoolID(slice_.driver, "")}
        return any(not named.isdisjoint(pools) for pools in self._left_alone.values())

    def _take_back(self, name: str) -> None:
        given = self._given.pop(name, None)
        if given is not None:
            self._fleet.remove_slice(given)

    def _give(self, slice_: Slice) -> None:
        """Let the fleet have the slice as it is now, in place of what it has."""
        if self._is_left_alone(slice_):
            self._take_back(slice_.name)
            return
        rules = [self._rules[name] for name in sorted(self._rules)] if self._has_rules else []
        (now,) = tainted((slice_,), rules)
        old = self._given.get(slice_.name)
        if old is not None:
            if old == now:
                return
            self._fleet.remove_slice(old)
        self._given[slice_.name] = now
        self._fleet.add_slice(now)
