"""Completes or removes what an earlier process left unfinished: found by its intents, at the start.

An intent without an allocation is removed. An allocation whose pod is not bound gets our intent: the pod is decided
again, with that claim. Both writes change the claim's version, so that a write that the other process may still have in
flight cannot be stored. Claims whose pods are bound are complete.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, Json, allocation_of, key_of
from scheduler.attempt.intent import Intent, intent_of
from scheduler.attempt.repeated_edits import Send, edit_alone

CONCURRENT = 16
"""Maximum number of claims that are recovered at the same time."""

TRIES = 3
"""For each claim. One that cannot be written then is left to the sweep: nobody's pods wait for it."""


WAIT_S = 10.0
"""For each claim: nobody's pods wait for a webhook that takes longer."""

_LOG = logging.getLogger(__name__)

LAST_EPOCH = 2**63 - 2
"""What is later was written by nobody of ours, but for a clock that is millions of years ahead."""


def epoch_after(binder: Binder, claims: Iterable[Claim]) -> int:
    """The epoch of a process that begins by its own clock: later than all of ours that have left an intent on a claim.

    The clock may have been set back since, or the other process may have run where it is ahead.
    """
    intents = map(intent_of, claims)
    ours = [one.epoch for one in intents if one and one.scheduler == binder.scheduler and one.epoch < LAST_EPOCH]
    return max([binder.epoch, *(epoch + 1 for epoch in ours)])


async def recover(binder: Binder, claims: Iterable[Claim], is_bound: Callable[[str], bool]) -> int:
    """Settle all unfinished claims and say how many these were.

    claims: as listed when the other process can send no more writes, or later. is_bound: of a pod's uid. Cost: a write
    for each that is unfinished.
    """
    found = [claim for claim in claims if is_unfinished(binder, claim, is_bound)]
    limit = asyncio.Semaphore(CONCURRENT)

    async def end(claim: Claim) -> None:
        key = key_of(claim)
        async with limit:
            try:
                async with asyncio.timeout(WAIT_S):
                    await edit_alone(
                        binder, key, lambda current: _ending(binder, current, is_bound), claim, tries_max=TRIES
                    )
            except TimeoutError:
                _LOG.warning("claim %s: not recovered within %g s, left to the sweep", key, WAIT_S)

    await asyncio.gather(*(end(claim) for claim in found))
    return len(found)


def is_unfinished(binder: Binder, claim: Claim, is_bound: Callable[[str], bool]) -> bool:
    """Whether an older epoch of ours may not have ended what it began with the claim."""
    intent = intent_of(claim)
    return intent is not None and _is_older(binder, intent) and not (allocation_of(claim) and is_bound(intent.podUID))


def _is_older(binder: Binder, intent: Intent) -> bool:
    return intent.scheduler == binder.scheduler and intent.epoch < binder.epoch


def _ending(binder: Binder, claim: Claim, is_bound: Callable[[str], bool]) -> tuple[Send, Json] | None:
    intent = intent_of(claim)
    if intent is None or not is_unfinished(binder, claim, is_bound):
        return None
    if allocation_of(claim):
        return claim_calls.put, claim_objects.marked(claim, replace(intent, epoch=binder.epoch, process=binder.process))
    return claim_calls.put, claim_objects.unmarked(claim)
