"""Edits a claim repeatedly, each time as its current state requires, until nothing is left to do.

After a conflict or a lost answer, the claim is read again: the edit is stored, or is sent again for the same version,
or can no longer be stored.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from scheduler.attempt import claim_calls
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import Claim, ClaimKey, Json
from scheduler.attempt.write_outcome import may_pass
from scheduler.client.errors import CallFailed

Send = Callable[[Binder, Claim], Awaitable[Json]]

Next = Callable[[Claim], tuple[Send, Json] | None]
"""The next write to a claim, as the call and what it sends; None once nothing is left to do."""

Before = Callable[[Claim, Send], Awaitable[None]]
"""What has to be done before a write, with the claim as it was read."""

Answer = TypeVar("Answer")

EDITS_MAX = 10
"""Edits of one claim that are stored, though four are all that any needs: webhooks and users may change it back."""

PAUSE_MAX_S = 10.0
"""The longest pause between two tries."""

_LOG = logging.getLogger(__name__)


async def nothing_before(_claim: Claim, _send: Send) -> None:
    """The write needs nothing before it."""


async def edit_until_done(  # noqa: PLR0913 - what is edited, and how
    binder: Binder,
    key: ClaimKey,
    following: Next,
    known: Claim | None = None,
    *,
    before: Before = nothing_before,
    tries_max: int | None = None,
    for_pod: str = "",
) -> bool:
    """Write until `following` has nothing more; False where the claim stays as it is, which is logged.

    known: the claim if it was read already. A claim that is gone is done. before: is awaited before each write.
    While the API server does not answer it goes on trying, tries_max times if that is given: until then nobody knows
    what is stored. for_pod: as for `until_answered`.
    """
    current = known

    async def write_next() -> bool:
        nonlocal current
        read, current = current, None
        claim = read or await claim_calls.get(binder, key)
        write = claim and following(claim)
        if not claim or not write:
            return True
        send, edited = write
        await before(claim, send)
        # For this call alone: attempts that held a place while they waited for another would wait for each other.
        async with binder.repairs.of(key.namespace):
            current = await send(binder, edited)
        return False

    try:
        for _ in range(EDITS_MAX):
            if await until_answered(binder, write_next, tries_max, for_pod=for_pod):
                return True
    except CallFailed as error:
        _LOG.warning("cannot update claim %s: %s", key, error)
    else:
        _LOG.warning("cannot update claim %s: it was changed back after each of %d edits", key, EDITS_MAX)
    return False


async def edit_alone(
    binder: Binder, key: ClaimKey, following: Next, known: Claim | None = None, *, tries_max: int | None = None
) -> bool:
    """The same, for one of many claims: whatever goes wrong with it is logged, and costs no other one."""
    try:
        return await edit_until_done(binder, key, following, known, tries_max=tries_max)
    except Exception:  # noqa: BLE001 - as it says
        _LOG.exception("cannot update claim %s", key)
        return False


async def until_answered(
    binder: Binder, act: Callable[[], Awaitable[Answer]], tries_max: int | None = None, *, for_pod: str = ""
) -> Answer:
    """What `act` gives, tried again while the API server does not answer, or is in trouble.

    for_pod: the uid of the pod whose attempt waits for it. Raises CallFailed for what is refused for good, and after
    tries_max.
    """
    tries = 0
    while True:
        try:
            return await act()
        except CallFailed as error:
            tries += 1
            binder.progress.failed(for_pod, error)
            if not may_pass(error) or tries == tries_max:
                raise
        await binder.time.sleep(pause_s(tries, binder.time, most_s=PAUSE_MAX_S))
