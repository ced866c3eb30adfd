"""The state of the watches, for metrics and probes."""

from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.cache.reflector import Reflector
from scheduler.runtime.metrics import Watch

Reflectors = Iterable[Reflector[Any]]  # Any: of whatever kind


def watches(reflectors: Reflectors, now: float) -> Sequence[Watch]:
    """Each watch as the metrics show it. now: in seconds of the reflectors' own clock."""
    return [
        Watch(
            resource=reflector.resource.plural,
            objects=len(reflector.store),
            restarts=reflector.store.restarts,
            refused=len(reflector.store.undecoded),
            failures=reflector.store.failures,
            silence_s=reflector.silence_s(now),
            is_alive=reflector.is_alive(now),
        )
        for reflector in reflectors
    ]


def unfilled(reflectors: Reflectors) -> str:
    """Which resources have not been listed yet, and why not; empty where all have."""
    return "; ".join(
        _said(reflector, "not listed yet") for reflector in reflectors if not reflector.store.synced.is_set()
    )


def silent(reflectors: Reflectors, now: float) -> str:
    """Which watches were once filled and are dead now; empty where none is."""
    dead = (one for one in reflectors if one.store.synced.is_set() and not one.is_alive(now))
    return "; ".join(_said(reflector, f"not heard for {reflector.silence_s(now):.0f} s") for reflector in dead)


def _said(reflector: Reflector[Any], what: str) -> str:
    return f"{reflector.name}: {what}{f' ({reflector.trouble})' if reflector.trouble else ''}"
