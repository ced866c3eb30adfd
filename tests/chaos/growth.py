"""What a program uses after each round, and whether that has grown in its life: memory, descriptors, tasks."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.chaos.cast import Player
from tests.soak.usage import usage_of

WARM, LOOKED_AT = 8, 5
"""Rounds of a life before it is looked at first, and how many are looked at together."""

OF_CONNECTIONS = frozenset({"RequestHandler.start"})
"""Tasks of those who ask: probes, metrics, the API server."""

ROOM = {"resident_mib": 8.0, "descriptors": 8.0, "tasks": 3.0}
"""What may be more without being growth: connections that are kept, and what the collector has not come to yet."""

TIMES = 1.1


class Use(NamedTuple):
    """Of one program after a round."""

    resident_mib: float
    descriptors: float
    tasks: float


def use_of(player: Player) -> Use:
    """What it uses now, while nothing is under way. Raises ProcessLookupError where it has ended."""
    pid = player.program.pid
    usage = usage_of(pid)
    if usage is None:
        raise ProcessLookupError(f"{player.name} has ended")
    tasks = player.under_way()["tasks"]
    own = sum(number for name, number in tasks.items() if name not in OF_CONNECTIONS)
    return Use(usage.resident_mib, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), own)


def grown(life: Sequence[Use]) -> Iterator[str]:
    """What has grown in the rounds of one life; nothing can be said of a short one."""
    if len(life) < WARM + 2 * LOOKED_AT:
        return
    for name, room in ROOM.items():
        before, now = (
            median(getattr(one, name) for one in some) for some in (life[WARM : WARM + LOOKED_AT], life[-LOOKED_AT:])
        )
        if now > before * TIMES + room:
            yield f"{name} has grown from {before:.0f} to {now:.0f} in {len(life)} rounds"
