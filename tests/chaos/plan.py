"""What a round is, drawn from its seed: which pods come, end and go, in which order, and what goes wrong meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tests.chaos.objects import KINDS, SPREAD, SPREAD_PODS, Arrival, arrival

LEADER, STANDBY, SECOND, EXTENDER, KUBE_SCHEDULER = "ours-0", "ours-1", "second", "extender", "kube-scheduler"
GUARDS = ("guard-0", "guard-1")
OURS = (LEADER, STANDBY, SECOND, EXTENDER, *GUARDS)
API_SERVER, ETCD = "kube-apiserver", "etcd"
GROUPS = {"schedulers": (LEADER, STANDBY), "guards": GUARDS}
"""Of each one leads."""

PODS_MORE = 8
SCARCE_PODS = 7
LEAVES = 0.4
"""How often something leaves after something has come."""

FAULTS = (2, 4)
PAUSES = (0, 0, 2, 6)
"""Revisions between two steps of the load."""

_EVERY_PROGRAM = (*OURS, KUBE_SCHEDULER)
WAYS: dict[str, tuple[int, Sequence[str]]] = {
    # SECOND is spared, so that there is one whose memory can be looked at for long.
    "kill": (5, (LEADER, STANDBY, EXTENDER, KUBE_SCHEDULER)),
    "kill a guard": (1, GUARDS),
    "depose": (2, ("schedulers", "schedulers", "guards")),
    "kill the server": (2, (API_SERVER, ETCD)),
    "stop": (4, (*_EVERY_PROGRAM, API_SERVER, ETCD)),
    "cut": (3, OURS),
    "half-open": (3, OURS),
    "slow": (3, OURS),
    "errors": (4, OURS),
    "events": (3, (LEADER, STANDBY, SECOND)),
    "clock": (4, OURS),
    "door": (2, ("guards",)),
    "answers": (2, ("guards",)),
}
"""What goes wrong, how often, and with whom."""

JUMPS_S = (-400 * 86_400.0, -3600.0, -7.0, 30.0, 7200.0, 400 * 86_400.0)
DELAYS_S = (0.02, 0.1, 0.4, 1.5)
SHARES = (0.05, 0.15, 0.4)


class ChaosFault(NamedTuple):
    """Something that goes wrong from before one step of the load until before another.

    amount: seconds by which a clock jumps or a call is late, or the share of calls that fail.
    """

    way: str
    target: str
    begins: int
    ends: int
    amount: float = 0.0

    def __str__(self) -> str:
        amount = f" {self.amount:g}" if self.amount else ""
        return f"{self.way}{amount}: {self.target}, steps {self.begins} to {self.ends}"


class Step(NamedTuple):
    """One thing that users or kubelets do. act: come, end or leave. pause: so many revisions pass before it."""

    act: str
    arrival: Arrival
    pause: int


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round."""

    seed: int
    steps: Sequence[Step] = ()
    faults: Sequence[ChaosFault] = field(default_factory=tuple)


def planned(seed: int) -> RoundPlan:
    """The round of the seed: the same each time, and whatever rounds were before."""
    chance = Random(f"chaos {seed}")  # noqa: S311 - no secret
    steps = list(_steps(chance, seed))
    return RoundPlan(seed, steps, _faults(chance, len(steps)))


def _steps(chance: Random, seed: int) -> Iterator[Step]:
    coming = [*KINDS, *chance.choices(list(KINDS), [kind.often for kind in KINDS.values()], k=PODS_MORE)]
    coming += ["scarce"] * SCARCE_PODS + [SPREAD] * SPREAD_PODS
    chance.shuffle(coming)
    spread_scheduler = chance.choice(KINDS["gpu"].schedulers)
    there: list[Arrival] = []
    for number, kind in enumerate(coming):
        found = arrival(chance, f"r{seed}-{kind}-{number}", kind, spread_scheduler)
        yield Step("come", found, chance.choice(PAUSES))
        if kind != SPREAD:
            there.append(found)
        if there and chance.random() < LEAVES:
            leaving = there.pop(chance.randrange(len(there)))
            yield Step(chance.choice(("end", "leave")), leaving, chance.choice(PAUSES))


def _faults(chance: Random, steps: int) -> list[ChaosFault]:
    ways = list(WAYS)
    found: list[ChaosFault] = []
    for _ in range(chance.randint(*FAULTS)):
        (way,) = chance.choices(ways, [WAYS[one][0] for one in ways])
        target = chance.choice(WAYS[way][1])
        begins = chance.randrange(steps - 1)
        ends = min(steps, begins + chance.randint(1, steps // 2))
        fault = ChaosFault(way, target, begins, ends, _amount(chance, way))
        if not any(_meet(fault, other) for other in found):
            found.append(fault)
    return sorted(found, key=lambda one: one.begins)


def _meet(one: ChaosFault, other: ChaosFault) -> bool:
    """Whether the two would be in each other's way: of one target, or both of the control plane."""
    both = {one.target, other.target}
    return (
        len(both) == 1
        or both == {API_SERVER, ETCD}
        or bool(both & {*GROUPS} and both & {*GROUPS["schedulers"], *GROUPS["guards"]})
    )


def _amount(chance: Random, way: str) -> float:
    amounts = {"clock": JUMPS_S, "slow": DELAYS_S, "errors": SHARES}
    return chance.choice(amounts[way]) if way in amounts else 0.0
