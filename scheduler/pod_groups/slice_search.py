"""Members in runs, each run in one domain: which run goes to which domain, so that all have a place at once.

Domains do not see each other, so a run fits in one if it does beside the runs that are there already. Runs with the
same members, and domains of the same nodes, are interchangeable; what came to nothing is not tried again.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from scheduler.pod_groups.group_members import GroupMembers
from scheduler.pod_groups.group_result import GroupSteps
from scheduler.pod_groups.group_search import NOWHERE, GroupSearch, Placement

_Loads = tuple[tuple[int, ...], ...]
"""By domain the members that go there."""


class SliceSearch:
    """domains: a search for each. alike: equal for those of the same nodes. runs: of each member.

    homes: the domains of those that have begun, NOWHERE for one that cannot be kept together any more.
    """

    def __init__(  # noqa: PLR0913 - what runs and domains are
        self,
        members: GroupMembers,
        domains: Sequence[GroupSearch],
        alike: Sequence[Hashable],
        *,
        runs: Sequence[int],
        homes: Mapping[int, int],
        steps: GroupSteps,
    ) -> None:
        self._members = members
        self._domains = domains
        self._alike = alike
        self._runs = runs
        self._homes = homes
        self._steps = steps
        self._known: dict[tuple[int, ...], _Loads | None] = {}

    def fits(self, places: Sequence[int]) -> bool:
        """Whether these members have a place at once."""
        return self._assigned(tuple(places)) is not None

    def placement(self, places: Sequence[int]) -> Placement:
        """Where they go; they fit."""
        loads = self._assigned(tuple(places))
        assert loads is not None, "members without a place"
        by_place = {
            place: placed
            for search, there in zip(self._domains, loads, strict=True)
            for place, placed in zip(there, search.placement(there) if there else (), strict=True)
        }
        return [by_place[place] for place in places]

    def _assigned(self, places: tuple[int, ...]) -> _Loads | None:
        if places not in self._known:
            by_run: dict[int, list[int]] = {}
            for place in places:
                by_run.setdefault(self._runs[place], []).append(place)
            # Those that have begun have no choice, and those of many members have little.
            order = sorted(by_run.items(), key=lambda item: (item[0] not in self._homes, -len(item[1]), item[0]))
            empty: _Loads = tuple(() for _ in self._domains)
            self._known[places] = self._extended(order, 0, empty, set())
        return self._known[places]

    def _extended(
        self, order: Sequence[tuple[int, Sequence[int]]], done: int, loads: _Loads, dead: set[Hashable]
    ) -> _Loads | None:
        if done == len(order):
            return loads
        key = done, tuple(map(self._counts, loads))
        if key in dead:
            return None
        run, own = order[done]
        tried: set[Hashable] = set()
        for domain in self._allowed(run):
            kind = self._alike[domain], self._counts(loads[domain])
            if kind in tried:
                continue
            tried.add(kind)
            self._steps.take()
            there = tuple(sorted((*loads[domain], *own)))
            if self._domains[domain].fits(there):
                loads_of_all = self._extended(order, done + 1, (*loads[:domain], there, *loads[domain + 1 :]), dead)
                if loads_of_all is not None:
                    return loads_of_all
        dead.add(key)
        return None

    def _allowed(self, run: int) -> Sequence[int]:
        home = self._homes.get(run)
        if home is None:
            return range(len(self._domains))
        return [] if home == NOWHERE else [home]

    def _counts(self, places: Sequence[int]) -> Hashable:
        return frozenset(Counter(self._members.classes[place] for place in places).items())
