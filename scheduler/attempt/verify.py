"""Allocate, verify, bind: of several writers that take one device, at most the first can bind.

Each waits until its own watch has passed its write. One resource's events come in the order of their versions, so that
the later writer always sees the earlier one's claim, and gives way; the earlier one waits for that. The API server
itself never compares the devices of two claims.
"""

from collections.abc import Sequence
from typing import NoReturn

from scheduler.attempt.attempt import Touched
from scheduler.attempt.binder import Binder, Rival
from scheduler.attempt.claim_objects import allocation_of
from scheduler.attempt.decision import AttemptEnded, Retry
from scheduler.client.errors import CallFailed

BARRIER_S = 5.0
"""For so long our watch may take to show our own writes; then the claims are listed instead."""

PATIENCE_S = 2.0
"""For so long the earlier writer waits for a later one to give way; then it gives way itself."""

POLL_S = 0.02
"""Between two looks for rivals meanwhile."""

JITTER_LEAST_S = 0.05
JITTER_MOST_S = 0.5
"""The bounds of the random time after which a pod that gave way is tried again."""


async def verify(binder: Binder, touched: Sequence[Touched]) -> None:
    """Return once none of the claims has a rival. Raises AttemptEnded where the pod has to give way."""
    await _see(binder, touched)
    give_up_at = binder.time.monotonic() + PATIENCE_S
    while rivals := [(one, rival) for one in touched for rival in binder.observed.rivals(one.key)]:
        is_patient = binder.time.monotonic() < give_up_at
        for one, rival in rivals:
            if rival.resource_version < one.version or not is_patient:
                _give_way(binder, one, rival)
        await binder.time.sleep(POLL_S)


async def _see(binder: Binder, touched: Sequence[Touched]) -> None:
    """Wait until our view of the claims includes all that was written."""
    last = max((one.version for one in touched), default=0)
    if await binder.observed.reached(last, BARRIER_S):
        return
    try:
        await binder.observed.catch_up()
    except CallFailed as error:
        raise AttemptEnded(Retry(f"what else was allocated cannot be seen: {error}")) from error


def _give_way(binder: Binder, touched: Touched, rival: Rival) -> NoReturn:
    # Whoever allocated it, the claim can serve nobody as it is.
    touched.allocation = allocation_of(touched.stored)
    is_first = rival.resource_version < touched.version
    holds = "took its devices first" if is_first else "holds the same devices and does not give way"
    reason = f"claim {touched.key}: claim {rival.namespace}/{rival.name} {holds}"
    raise AttemptEnded(Retry(reason, _jitter_s(binder), is_lost=True))


def _jitter_s(binder: Binder) -> float:
    """Writers that met once shall not meet again."""
    return JITTER_LEAST_S + binder.time.random() * (JITTER_MOST_S - JITTER_LEAST_S)
