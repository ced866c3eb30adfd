"""One write after the other to a claim, each decided by what the claim is now, until there is nothing left to write.

A conflict, or an answer that never came, is settled by reading the claim again: what was sent has landed, or is sent
once more under the same version, or can never land.
"""

import logging
from collections.abc import Awaitable, Callable

from scheduler.binding import claim_calls
from scheduler.binding.binder import Binder, backoff_s
from scheduler.binding.claim_objects import Claim, ClaimKey, Json
from scheduler.binding.verdicts import may_pass
from scheduler.client.errors import CallFailed

Send = Callable[[Binder, Claim], Awaitable[Json]]

Next = Callable[[Claim], tuple[Send, Json] | None]
"""The next write to a claim, as the call and what it sends; None once nothing is left to do."""

_LOG = logging.getLogger(__name__)


async def settle(binder: Binder, key: ClaimKey, following: Next, known: Claim | None = None) -> bool:
    """Write until `following` has nothing more; False where the server refuses for good, which is logged.

    known: the claim if it was read already. A claim that is gone is settled. While the API server does not answer it
    goes on trying: until then nobody knows what is stored.
    """
    tries = 0
    current = known
    while True:
        try:
            current = current or await claim_calls.get(binder, key)
            write = current and following(current)
            if not write:
                return True
            send, edited = write
            current = await send(binder, edited)
        except CallFailed as error:
            if not may_pass(error):
                _LOG.warning("claim %s stays as it is: %s", key, error)
                return False
            current = None
            await binder.time.sleep(backoff_s(tries, binder.time))
            tries += 1
