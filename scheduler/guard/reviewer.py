"""What the guard answers to the API server: whether it may, and whether the update fits.

The check and what it allows are one step, without an await in between: no other question is answered meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from scheduler.guard import review
from scheduler.guard.ledger import UNKNOWN, Denial, Ledger
from scheduler.guard.metrics import ALLOWED, NOT_LEADING, NOTHING_ADDED, UNREADABLE, GuardMetrics
from scheduler.guard.review import Review

WAIT_S = 1.0
"""How long to wait for a device that is not published yet: its allocator may have seen a newer slice."""

UNFILLED = "the caches are not filled yet"
DEPOSED = "this guard is no longer the leader"

_LOOK_S = 0.05

_LOG = logging.getLogger(__name__)


class Reviewer:
    """Answers questions while nothing stands against it, and this process leads.

    waits_for: why no question may be answered, whoever leads; empty while one may. lasts_s: for so long an update that
    was allowed may still be stored. monotonic: the clock of `is_leading`.
    """

    def __init__(
        self,
        ledger: Ledger,
        metrics: GuardMetrics,
        is_leading: Callable[[], bool],
        monotonic: Callable[[], float],
        lasts_s: float,
    ) -> None:
        self.waits_for = UNFILLED
        self._ledger = ledger
        self._metrics = metrics
        self._is_leading = is_leading
        self._monotonic = monotonic
        self._lasts_s = lasts_s

    def answer(self, body: bytes) -> bytes | Awaitable[bytes]:
        """The AdmissionReview that answers the one of `body`; later, if it has a device that is not published yet.

        Raises Malformed.
        """
        question = review.read(body)
        found = self._judged(question)
        return found if isinstance(found, bytes) else self._patient(question, found)

    async def _patient(self, question: Review, unknown: Denial) -> bytes:
        """The answer once all devices are published, or were waited for long enough."""
        until = self._monotonic() + WAIT_S
        while self._monotonic() < until:
            await asyncio.sleep(_LOOK_S)
            found = self._judged(question)
            if isinstance(found, bytes):
                return found
            unknown = found
        return self._denied(question, unknown)

    def _judged(self, question: Review) -> bytes | Denial:
        """The answer, or that a device is unknown. The check and what it allows are one step."""
        if unready := self._unready():
            return self._refused(question, NOT_LEADING, HTTPStatus.SERVICE_UNAVAILABLE, unready)
        if question.error:
            return self._refused(question, UNREADABLE, HTTPStatus.UNPROCESSABLE_ENTITY, question.error)
        update = question.update
        if update is None:
            self._metrics.answered(NOTHING_ADDED)
            return review.allowed(question.uid)
        until = self._monotonic() + self._lasts_s
        refusal = self._ledger.refusal(update) if question.is_dry else self._ledger.admit(update, until)
        if refusal is None:
            self._metrics.answered(ALLOWED)
            return review.allowed(question.uid)
        return refusal if refusal.cause == UNKNOWN else self._denied(question, refusal)

    def _denied(self, question: Review, refusal: Denial) -> bytes:
        assert question.update is not None
        claim = question.update.claim
        _LOG.info("claim %s: refused: %s", claim, refusal.message, extra={"holders": list(refusal.names)})
        return self._refused(question, refusal.cause, HTTPStatus.CONFLICT, refusal.message)

    def _unready(self) -> str:
        """Why no question may be answered now: by the clock, since a process that was stopped has heard nothing."""
        return self.waits_for or ("" if self._is_leading() else DEPOSED)

    def _refused(self, question: Review, cause: str, status: HTTPStatus, message: str) -> bytes:
        self._metrics.answered(cause)
        return review.refused(question.uid, status, _REASONS[status], message)


_REASONS = {
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}
"""metav1.StatusReason by status."""
