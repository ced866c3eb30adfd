"""DeviceTaintRules: their taints on the devices that they select, as if the driver had published them.

Source: KEP-5055, DeviceTaintRule.
"""

from collections.abc import Sequence
from dataclasses import replace

from allocator.api import TaintRule
from allocator.model import Device, Slice


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
