"""An attempt in progress: what its steps know of each other's writes, and of the attempts for others of its group.

A claim is recorded before its first write is sent, because a write whose answer is lost may be stored.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.api.versions import Json
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import ClaimRef, Intent, RawClaim, allocation_of, key_of, version_of
from scheduler.attempt.decision import AttemptEnded, AttemptOutcome, Decision, Gone, Retry
from scheduler.attempt.slots import Slot, Slots
from scheduler.attempt.write_outcome import WriteOutcome, outcome_of, write_outcome
from scheduler.client.errors import CallFailed
from scheduler.state.storage import ObjectKey


class Together:
    """The attempts of one group: none binds before all have written; all are undone if one fails before.

    They stay their own otherwise: each has its steps, its slot and its undoing. A claim that several of the pods share
    is allocated by one of the attempts, for which the others wait before they reserve it; and in undoing it waits for
    them, so that it finds the claim with no user and takes its devices back.

    decisions: one for each pod that is to be bound at once, in their order.
    is_released: all have written and none has failed, so that each may bind.
    """

    def __init__(self, group: str, decisions: Sequence[Decision]) -> None:
        self.group = group
        self._names = {one.pod.uid: str(one.pod) for one in decisions}
        self.is_released = False
        self._missing = set(self._names)
        self._under_way = set(self._names)
        self._failure: Retry | None = None
        self._sharers: dict[str, set[str]] = {}
        self._stored: dict[str, RawClaim] = {}
        self._changed = asyncio.Event()
        for decision in decisions:
            for plan in decision.claims:
                if plan.allocation is None and allocation_of(plan.claim) is None:
                    self._sharers.setdefault(key_of(plan.claim).uid, set()).add(decision.pod.uid)

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return not self._under_way

    def is_shared(self, claim: RawClaim) -> bool:
        """Whether others reserve the claim that one of the attempts allocates."""
        return key_of(claim).uid in self._sharers

    def fail(self, uid: str, outcome: AttemptOutcome | None) -> None:
        """The pod will not be bound with the others, unless these may bind already."""
        if self.is_released or self._failure is not None:
            return
        reason = getattr(outcome, "reason", "") or "its attempt was given up"
        after_s = outcome.after_s if isinstance(outcome, Retry) else None
        is_lost = isinstance(outcome, Retry) and outcome.is_lost
        self._failure = Retry(f"pod {self._names[uid]} of group {self.group}: {reason}", after_s, is_lost=is_lost)
        self._change()

    def gone(self, uid: str) -> None:
        """The pod was deleted; of a pod that is none of these nothing follows."""
        if uid in self._names:
            self.fail(uid, Gone("it was deleted"))

    def ended(self, uid: str, outcome: AttemptOutcome | None) -> None:
        """The attempt for the pod has ended, and nothing of it is in flight. outcome: None where it was cancelled."""
        self.fail(uid, outcome)
        self._under_way.discard(uid)
        for users in self._sharers.values():
            users.discard(uid)
        self._change()

    async def decided(self) -> None:
        """Return once each may bind, or all have ended."""
        await self._until(lambda: self.is_released or self.is_over)

    async def written(self, uid: str) -> None:
        """The attempt for the pod has written all: return once the others have. Raises AttemptEnded if one fails."""
        self._missing.discard(uid)
        self.is_released |= not self._missing and self._failure is None
        self._change()
        await self._until(lambda: self.is_released or self._failure is not None)
        self._check()

    def is_stored(self, claim: RawClaim) -> None:
        """A shared claim has its devices. claim: as it is stored."""
        self._stored[key_of(claim).uid] = claim
        self._change()

    async def allocated(self, claim: RawClaim) -> RawClaim:
        """The shared claim, once it has its devices. Raises AttemptEnded if another attempt fails before."""
        uid = key_of(claim).uid
        await self._until(lambda: uid in self._stored or self._failure is not None)
        self._check()
        return self._stored[uid]

    def lets_go(self, claim: RawClaim, uid: str) -> None:
        """The attempt for the pod has taken back its reservation of the shared claim."""
        self._sharers[key_of(claim).uid].discard(uid)
        self._change()

    async def let_go(self, claim: RawClaim) -> None:
        """Return once no other attempt has reserved the shared claim, or each may keep it."""
        await self._until(lambda: self.is_released or not self._sharers[key_of(claim).uid])

    def _check(self) -> None:
        if self._failure is not None and not self.is_released:
            raise AttemptEnded(self._failure)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()


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
            attempt.slot.failed(str(error), error.gist)
            if attempt.slot.is_failing or attempt.slot.is_slow:  # the next try would take as long
                raise AttemptEnded(Retry(f"{subject}: {error}")) from error
            await binder.time.sleep(pause_s(tries, binder.time))
        case WriteOutcome.NOT_SENT:  # nobody's writes can be, so it says nothing of the namespace
            await binder.time.sleep(pause_s(tries, binder.time))
        case _:
            raise ended(attempt, error, subject) from error


def ended(attempt: Attempt, error: CallFailed, subject: str) -> AttemptEnded:
    """What the attempt ends with for a write that is not sent again. What is put off counts against the namespace."""
    match write_outcome(error):
        case WriteOutcome.PUT_OFF:
            attempt.slot.failed(str(error), error.gist)
        case WriteOutcome.DENIED:
            attempt.slot.denied(str(error), error.gist)
    return AttemptEnded(outcome_of(error, subject))
