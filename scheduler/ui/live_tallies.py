"""Devices counted by group over all pools, kept up to date pool by pool."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from allocator.status.pool_status import DeviceState
from scheduler.status.tally import Tally


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
        for one in old:
            self._sums[one.name].subtract(one)
        for one in new:
            self._sums.setdefault(one.name, _Sum()).add(one)

    def tallies(self, known: Iterable[str] = ()) -> Sequence[Tally]:
        """The groups with devices, and those of `known`. Cost: O(groups, and claims that hold devices)."""
        names = {name for name, one in self._sums.items() if one.states.total()} | set(known)
        return [self._tally(name) for name in sorted(names)]

    def _tally(self, name: str) -> Tally:
        one = self._sums.get(name) or _Sum()
        return Tally(name, one.states, set(one.claims))
