"""Limits per tenant that the members of a group could exceed together, though each of them alone does not.

A limit is of no node: what a member gets leaves less of it to members anywhere. What each member needs at least is
found by asking for less and less until no node has it: so a group that is too much is refused without a search.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from allocator.cluster.snapshot import Snapshot
from allocator.limits.limit import Account, Binding
from scheduler.pod_groups.group_result import PlacedMember

if TYPE_CHECKING:  # they have the limits of theirs
    from scheduler.pod_groups.group_members import GroupMembers

TRIES = 8
"""Of two ways to place a member one may count for less: so many are compared, and beyond that nothing is said."""


class GroupLimits:
    """What limits leave to the members. Cost: nothing where they exceed none, whatever they get."""

    def __init__(self, members: "GroupMembers") -> None:
        self._members = members
        claims = {claim.uid: claim for place in range(len(members)) for claim in members.claims_of(place)}
        self._bindings = self._now.bindings(list(claims.values())) if self._now.limited.limits else ()

    def __bool__(self) -> bool:
        return bool(self._bindings)

    def exceeds(self, places: Sequence[int]) -> bool:
        """Whether these members are too much for a limit, wherever they are placed."""
        if not self._bindings:
            return False
        classes = [self._members.classes[place] for place in places]
        return any(
            sum(self._least[class_number][number] for class_number in classes) > binding.left
            for number, binding in enumerate(self._bindings)
        )

    def keep(self, placement: Iterable[PlacedMember]) -> bool:
        """Whether no limit is exceeded where they are placed like that."""
        with ExitStack() as undo:
            for member in placement:
                undo.enter_context(self._members.cluster.assumed(member.pod, member.placed))
            return all(self._used(limit.account) <= max(limit.most, limit.used) for limit in self._bindings)

    @property
    def _now(self) -> Snapshot:
        return self._members.cluster.fleet.current

    def _used(self, account: Account) -> int:
        return self._now.limited.used_of(account)

    @cached_property
    def _least(self) -> Sequence[Sequence[int]]:
        """By class, of each limit, what a member needs at least; 0 where that is not known."""
        return [[self._least_of(places[0], one) for one in self._bindings] for places in self._members.by_class]

    def _least_of(self, place: int, binding: Binding) -> int:
        if self._members.shares_claims(place):
            return 0
        amount = self._amount(place, binding.account)
        for _ in range(TRIES):
            if not amount:
                break
            with self._leaving(binding, amount - 1):
                less = self._amount(place, binding.account)
            if less is None:
                return amount
            amount = less
        return 0

    def _amount(self, place: int, account: Account) -> int | None:
        """What the member counts for on the best of its nodes; None where it has none."""
        cycle = self._members.cycle(place)
        number = None if cycle.refused_everywhere() else cycle.best(self._members.within[place])
        if number is None or cycle.pod is None:
            return None
        before = self._used(account)
        with self._members.cluster.assumed(cycle.pod, cycle.placed(number)):
            return self._used(account) - before

    @contextmanager
    def _leaving(self, binding: Binding, left: int) -> Iterator[None]:
        """As if the limit left no more than that."""
        charges = ((binding.account, binding.left - left),)
        self._now.limited.book(charges, 1)
        try:
            yield
        finally:
            self._now.limited.book(charges, -1)
