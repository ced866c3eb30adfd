"""How large a soak is, and what it has to hold: every size is a parameter."""

from dataclasses import dataclass

BOUND_WITHIN_S = 2.0
"""From the moment that a pod's claims are there until it is bound, for 99 of 100 pods of the good namespaces."""

SHARE_IN_TIME = 0.99

GROWTH = 1.1
"""Resident memory at the end, of that after ten minutes, at most."""

WARM_S = 600.0
"""When memory is measured for the first time; a shorter run says nothing about it."""

READY_WITHIN_S = 15.0
"""After a kill: for longer than that, a process that is not ready is no excuse."""

ROOM_S = 2.0
"""What a gap lasts beyond its end: what the killed process had begun is taken over by the others after it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Rates are of objects a second; a kill_every_s of 0 kills nobody.

    replicas: of our scheduler, one or two. leader_elect: whether one of them leads, or all write. alive: how many
    objects of the hostile tenant are there at a time, and so how many devices it can hold at all. pending: how many
    good pods wait at most; those that come beyond are held back and counted, so that a scheduler that stands still does
    not bury itself. crowd: namespaces with one pod each, whose decision takes long; all are there from the beginning.
    """

    minutes: float = 2.0
    nodes: int = 100
    good_rate: float = 20.0
    hostile_rate: float = 20.0
    crowd: int = 0
    kill_every_s: float = 30.0
    replicas: int = 2
    leader_elect: bool = True
    seed: int = 1
    alive: int = 150
    pending: int = 600
    drain_s: float = 20.0
    bound_within_s: float = BOUND_WITHIN_S

    @property
    def load_s(self) -> float:
        """How long objects come."""
        return self.minutes * 60
