"""The published slices with the taints of the DeviceTaintRules in force, as the fleet gets them.

A rule that changes touches the slices that it selects, before or after, and no others.
Source: KEP-5055, feature gate DRADeviceTaintRules.
"""

from collections.abc import Iterable

from allocator.api import TaintRule
from allocator.fleet import Fleet
from allocator.model import Slice
from scheduler.cycle.taint_rules import may_select, tainted


class TaintedSlices:
    """The slices by name. has_rules: the gate is on; where it is off, rules change nothing."""

    def __init__(self, fleet: Fleet, *, has_rules: bool) -> None:
        self._fleet = fleet
        self._has_rules = has_rules
        self._rules: dict[str, TaintRule] = {}
        self._published: dict[str, Slice] = {}
        self._given: dict[str, Slice] = {}

    def set(self, piece: Slice) -> None:
        """The slice is published, or has changed."""
        self._published[piece.name] = piece
        self._give(piece)

    def remove(self, name: str) -> None:
        """The slice is gone. Raises KeyError where it was not there."""
        del self._published[name]
        self._fleet.remove_slice(self._given.pop(name))

    def set_rule(self, rule: TaintRule) -> None:
        """The rule is there, or has changed. Cost: O(slices) looks, and O(devices) of those that it selects."""
        old = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._give_again((rule,) if old is None else (old, rule))

    def remove_rule(self, name: str) -> None:
        """The rule is gone. Raises KeyError where it was not there."""
        self._give_again((self._rules.pop(name),))

    def _give_again(self, rules: Iterable[TaintRule]) -> None:
        if not self._has_rules:
            return
        rules = tuple(rules)
        for piece in self._published.values():
            if any(may_select(rule, piece) for rule in rules):
                self._give(piece)

    def _give(self, piece: Slice) -> None:
        """Let the fleet have the slice as it is now, in place of what it has."""
        rules = [self._rules[name] for name in sorted(self._rules)] if self._has_rules else []
        (now,) = tainted((piece,), rules)
        old = self._given.get(piece.name)
        if old is not None:
            if old == now:
                return
            self._fleet.remove_slice(old)
        self._given[piece.name] = now
        self._fleet.add_slice(now)
