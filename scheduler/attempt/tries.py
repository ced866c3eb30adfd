"""How often a write is sent, and what its failure means for the next try of the pod."""

from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.decision import AttemptEnded, Retry
from scheduler.attempt.write_outcome import WriteOutcome, outcome_of, write_outcome
from scheduler.client.errors import CallFailed

TRIES = 5
"""How often one write is sent before the attempt ends."""

CONFLICT_PAUSE_S = 0.01
"""Before an object is read again that somebody else has changed."""


async def pause(binder: Binder, attempt: Attempt, error: CallFailed, subject: str, tries: int) -> None:
    """Wait before the object is read again; what reading cannot mend ends the attempt. Raises AttemptEnded.

    subject: such as `claim ns/a`. tries: how often the write was sent.
    """
    binder.progress.failed(attempt.decision.pod.uid, error)
    match write_outcome(error):
        case WriteOutcome.CONFLICT:
            await binder.time.sleep(CONFLICT_PAUSE_S)
        case WriteOutcome.UNKNOWN:
            attempt.slot.failed(str(error))
            if attempt.slot.is_failing or attempt.slot.is_slow:  # the next try would take as long
                raise AttemptEnded(Retry(f"{subject}: {error}")) from error
            await binder.time.sleep(pause_s(tries, binder.time))
        case WriteOutcome.NOT_SENT:  # nobody's writes can be, so it says nothing of the namespace
            await binder.time.sleep(pause_s(tries, binder.time))
        case _:
            raise ended(attempt, error, subject) from error


def ended(attempt: Attempt, error: CallFailed, subject: str) -> AttemptEnded:
    """What the attempt ends with for a write that is not sent again. What is put off counts against the namespace."""
    if write_outcome(error) is WriteOutcome.PUT_OFF:
        attempt.slot.failed(str(error))
    return AttemptEnded(outcome_of(error, subject))
