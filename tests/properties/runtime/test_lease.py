"""Several electors whose clocks disagree, behind calls that are late or lost: never may two of them write."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, count
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.runtime.leader_election import Durations, Elector

DRIFT = 0.05
"""A clock may be so much faster or slower than the true time."""

MARGIN = (1 + DRIFT) / (1 - DRIFT)
"""So much longer than the renew deadline the lease has to be, for clocks that differ by that."""

UNTIL = 150.0
ELECTORS = 3
LOST, LATE = 0.15, 0.15
WALL = datetime(2026, 1, 1, tzinfo=UTC)

seeds = st.integers(0, 2**32)
durations = st.builds(
    lambda deadline, extra, share: Durations(int(deadline * MARGIN) + 1 + extra, deadline, deadline * share),
    st.floats(2, 12),
    st.integers(0, 3),
    st.floats(0.05, 0.8),
)


class WriteConflict(Exception):
    """The lease is not as the writer has read it."""


@dataclass
class World:
    """True time, what happens in it one after the other, and the lease as it is stored."""

    chance: Random
    now: float = 0.0
    lease: Mapping[str, Any] | None = None
    _versions: "count[int]" = field(default_factory=lambda: count(1))
    _coming: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def at(self, moment: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (moment, next(self._numbers), what))

    def run(self) -> None:
        while self._coming and self._coming[0][0] < UNTIL:
            self.now, _, what = heapq.heappop(self._coming)
            what()

    def put(self, lease: Mapping[str, Any]) -> Mapping[str, Any]:
        found = (self.lease or {}).get("metadata")
        if lease.get("metadata") != found:
            raise WriteConflict
        self.lease = {**lease, "metadata": {"resourceVersion": str(next(self._versions))}}
        return self.lease

    def delay_s(self, timeout_s: float) -> float:
        """Of a message; one that is late comes after nobody waits for it any more."""
        return self.chance.uniform(0, 2 * timeout_s if self.chance.random() < LATE else timeout_s / 4)

    def is_lost(self) -> bool:
        return self.chance.random() < LOST


class Process:
    """One that tries to lead, as a program does. terms: of true time, in which it believed that it might write."""

    def __init__(self, world: World, name: str, durations: Durations) -> None:
        chance = world.chance
        self.terms: list[tuple[float, float]] = []
        self.epochs: list[tuple[float, int]] = []
        self._world = world
        self._elector = Elector(name, durations)
        self._rate, self._offset = chance.uniform(1 - DRIFT, 1 + DRIFT), chance.uniform(0, 1e6)
        self._wall = WALL + timedelta(seconds=chance.uniform(-1e5, 1e5))
        self._timeout_s = durations.renew_deadline / 2
        self._calls = 0
        world.at(chance.uniform(0, 10), self._try)

    def _clock(self) -> float:
        return self._offset + self._world.now * self._rate

    def _true(self, clock: float) -> float:
        return (clock - self._offset) / self._rate

    def _try(self) -> None:
        elector = self._elector
        if elector.has_led and not elector.leads(self._clock()):
            return
        if elector.has_led and self._world.chance.random() < 0.02:
            self._release()
        elif elector.must_read:
            self._call(lambda: self._world.lease, self._read)
        else:
            self._write()

    def _read(self, lease: Mapping[str, Any] | None, _: float) -> None:
        self._elector.read(lease, self._clock())
        self._write()

    def _write(self) -> None:
        wanted = self._elector.lease_to_write(self._clock(), self._wall + timedelta(seconds=self._world.now))
        if wanted is None:
            self._elector.unsure()
            self._again()
        else:
            self._call(lambda: self._world.put(wanted), self._wrote)

    def _wrote(self, lease: Mapping[str, Any], began: float) -> None:
        elector, had_led = self._elector, self._elector.has_led
        elector.wrote(lease, began, self._clock())
        if elector.leads(self._clock()):
            self.terms.append((self._world.now, self._true(elector.leads_until)))
            if not had_led:
                self.epochs.append((self._world.now, elector.epoch))
        self._again()

    def _release(self) -> None:
        wanted = self._elector.released(self._wall)
        self._elector.stop()
        self.terms = [(begin, min(end, self._world.now)) for begin, end in self.terms]
        if wanted is not None:
            self._call(lambda: self._world.put(wanted), lambda *_: None)

    def _again(self) -> None:
        pause_s = self._elector.pause_s(self._clock(), self._world.chance.random())
        self._world.at(self._world.now + pause_s / self._rate, self._try)

    def _call(self, carry_out: Callable[[], Any], answered: Callable[[Any, float], None]) -> None:
        """A call whose request or answer may be lost or late; one that was given up may be carried out all the same."""
        world, began = self._world, self._clock()
        self._calls += 1
        number, gives_up = self._calls, world.now + self._timeout_s / self._rate

        def fail() -> None:
            if number == self._calls:
                self._calls += 1
                self._elector.unsure()
                self._again()

        def arrive() -> None:
            try:
                answer = carry_out()
            except WriteConflict:
                fail()
                return
            if not world.is_lost():
                world.at(world.now + world.delay_s(self._timeout_s), lambda: hear(answer))

        def hear(answer: Any) -> None:
            if number == self._calls:
                self._calls += 1
                answered(answer, began)

        world.at(gives_up, fail)
        if not world.is_lost():
            world.at(world.now + world.delay_s(self._timeout_s), arrive)


def played(seed: int, durations: Durations) -> list[Process]:
    world = World(Random(seed))  # noqa: S311 - no secret
    processes = [Process(world, f"replica-{number}", durations) for number in range(ELECTORS)]
    world.run()
    return processes


def overlaps(processes: list[Process]) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    return [
        (one, other)
        for first, second in combinations(processes, 2)
        for one in first.terms
        for other in second.terms
        if one[0] < other[1] and other[0] < one[1]
    ]


@given(seeds, durations)
def test_never_may_two_write_at_the_same_moment(seed: int, durations: Durations) -> None:
    assert overlaps(played(seed, durations)) == []


@given(seeds, durations)
def test_epoch_of_each_leader_is_larger_than_that_of_every_leader_before(seed: int, durations: Durations) -> None:
    """Though their times of day differ by a day."""
    elected = sorted(found for process in played(seed, durations) for found in process.epochs)
    epochs = [epoch for _, epoch in elected]
    assert epochs == sorted(set(epochs))


def test_another_leads_where_one_is_lost() -> None:
    """What the two above are about happens: in most worlds several lead one after the other."""
    worlds = [played(seed, Durations(15, 10, 2)) for seed in range(50)]
    leaders = [sum(bool(process.terms) for process in world) for world in worlds]
    assert min(leaders) >= 1
    assert sum(number > 1 for number in leaders) > len(worlds) / 2


def test_a_lease_that_is_shorter_than_the_renew_deadline_would_let_two_write() -> None:
    """What the configuration forbids; the worlds are such that it would be noticed."""
    worlds = [played(seed, Durations(5, 10, 2)) for seed in range(50)]
    assert any(map(overlaps, worlds))
