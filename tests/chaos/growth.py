"""What a program uses after each round, and whether that has grown in its life: memory, descriptors, tasks.

A leader has connections and tasks that a standby lacks, so rounds in which it led are compared with such rounds alone.
How many connections others hold to it is their choice; each has a task and a descriptor, and neither is counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.chaos.cast import Player
from tests.soak.usage import usage_of

WARM, LOOKED_AT = 8, 5
"""Rounds of a life before it is looked at first, and how many are looked at together."""

OF_CONNECTION = "RequestHandler.start"
"""The task of a connection that somebody else has opened: probes, metrics, the API server."""

ROOM = {"resident_mib": 8.0, "descriptors": 8.0, "tasks": 3.0}
"""What may be more without being growth: connections that are kept, and what the collector has not come to yet."""

TIMES = 1.1


class Use(NamedTuple):
    """Of one program after a round. leads: whether it led then."""

    resident_mib: float
    descriptors: float
    tasks: float
    leads: bool = False


def use_of(player: Player) -> Use:
    """What it uses now, while nothing is under way. Raises ProcessLookupError where it has ended."""
    leads = player.leads()
    usage = usage_of(player.program.pid)
    if usage is None:
        raise ProcessLookupError(f"{player.name} has ended")
    tasks = player.under_way()["tasks"]
    descriptors = sum(1 for _ in Path(f"/proc/{player.program.pid}/fd").iterdir())
    return own_use(usage.resident_mib, descriptors, tasks, leads=leads)


def own_use(resident_mib: float, descriptors: int, tasks: Mapping[str, int], *, leads: bool) -> Use:
    """What is used, without the connections of others. tasks: how many there are, by what they do."""
    connections = tasks.get(OF_CONNECTION, 0)
    return Use(resident_mib, descriptors - connections, sum(tasks.values()) - connections, leads)


def grown(life: Sequence[Use]) -> Iterator[str]:
    """What has grown in the rounds of one life, among those that are like the last; nothing can be said of few."""
    alike = [one for one in life if one.leads == life[-1].leads]
    if len(alike) < WARM + 2 * LOOKED_AT:
        return
    for name, room in ROOM.items():
        before, now = (
            median(getattr(one, name) for one in some) for some in (alike[WARM : WARM + LOOKED_AT], alike[-LOOKED_AT:])
        )
        if now > before * TIMES + room:
            yield f"{name} has grown from {before:.0f} to {now:.0f} in {len(alike)} rounds"
