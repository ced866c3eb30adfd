"""An attempt in progress: what its steps know of each other's writes.

A claim is recorded before its first write is sent, because a write whose answer is lost may be stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from allocator.api.versions import Json
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import ClaimRef, Intent, RawClaim, version_of
from scheduler.attempt.decision import AttemptEnded, AttemptOutcome, Decision, Retry
from scheduler.attempt.slots import Slot, Slots
from scheduler.attempt.together import Together
from scheduler.attempt.write_outcome import WriteOutcome, outcome_of, write_outcome
from scheduler.client.errors import CallFailed
from scheduler.state.storage import ObjectKey


@dataclass(slots=True, eq=False)
class WrittenClaim:
    """A claim that may have been written to."""

    key: ClaimRef
    stored: RawClaim
    """The claim as it was last read or written."""
    allocation: Json | None
    """The allocation that may be taken back; None where only the reservation is ours."""
    sent: str = ""
    """The version under which an unanswered write was sent; empty if all were answered."""
    is_own: bool = False
    """This attempt allocates the claim."""
    may_be_stored: bool = False
    """Something that this attempt wrote is stored, or nobody knows."""
    written: str = ""
    """The version of our last write that was answered."""
    is_taken_over: bool = False
    """Another one has reserved it for the pod, or may have, so that another attempt may still bind the pod."""
    is_made: bool = False
    """This attempt has made the claim, and takes it away again."""

    @property
    def version(self) -> int:
        """The version of `stored`; one resource's versions are ordered."""
        return int(version_of(self.stored))

    def note(self, stored: Json) -> Json:
        """The claim as it is stored now, by a write that was answered."""
        self.stored, self.sent, self.may_be_stored, self.written = stored, "", True, version_of(stored)
        return stored


@dataclass(slots=True)
class WrittenPod:
    """The pod, as the attempt writes to it before and when it binds it."""

    version: str
    """The version of the pod as it was last read or written."""
    status: Mapping[str, object]
    """Fields of the status that are to be written before the pod is bound; None for one that goes."""
    sent: str = ""
    """The version under which a write was sent that may still be stored; empty where there is none."""
    failures: int = 0
    """How many writes failed."""
    names_claim: bool = False
    """The pod's status names the claim for its extended resources, or may."""


Report = Callable[[AttemptOutcome], None]
"""Told why the pod is not bound, or not yet."""


def report_nothing(_: AttemptOutcome) -> None:
    """Nobody has to know."""


@dataclass(slots=True)
class Attempt:
    """A decision under way."""

    decision: Decision
    intent: Intent
    slot: Slot
    """A slot of the writers; given back before the attempt ends."""
    pod: WrittenPod
    claims: list[WrittenClaim] = field(default_factory=list)
    """The claims that may have been written to, in the order of the writes."""
    volumes: dict[ObjectKey, int] = field(default_factory=dict)
    """The versions that were stored of PersistentVolumes, by their names, and of claims of such, by namespace and name.
    """
    ended: AttemptOutcome | None = None
    """What the attempt ended with, once what it wrote is taken back."""
    report: Report = report_nothing
    """Called with why the pod is not bound, before what was written is taken back, and while nobody can say whether it
    is bound: both may take long.
    """
    together: Together | None = None
    """The attempts for the other pods of the group, where they are bound at once."""

    def note(self, claim: WrittenClaim, version: str) -> None:
        """The claim is about to be written to, under that version."""
        claim.sent = version
        self.forget(claim)
        self.claims.append(claim)

    def forget(self, claim: WrittenClaim) -> None:
        """Nothing of the claim is this attempt's to take back."""
        self.claims = [one for one in self.claims if one is not claim]


ALONE = 64
"""Slots of an attempt that shares them with no other: as many as it takes to distinguish one failure from many."""


def new_attempt(
    binder: Binder,
    decision: Decision,
    slot: Slot | None = None,
    report: Report = report_nothing,
    together: Together | None = None,
) -> Attempt:
    """The attempt, before anything was written. slot: None for one that shares them with no other."""
    intent = Intent(binder.scheduler, binder.epoch, binder.process, decision.pod.uid, decision.node, decision.attempt)
    slot = slot or Slots(ALONE, binder.time.monotonic).take(decision.pod.namespace)
    pod = WrittenPod(decision.pod.resource_version, decision.pod_status or {})
    return Attempt(decision, intent, slot, pod, report=report, together=together)


# How often a write is sent, and what its failure means for the next try of the pod.


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
