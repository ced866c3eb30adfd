"""What one attempt has begun: enough to undo it, whatever moment it is stopped at.

A claim is noted before its first write is sent, since a write whose answer never came may be stored.
"""

from dataclasses import dataclass, field

from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, ClaimKey, Json, version_of
from scheduler.attempt.decision import Decision
from scheduler.attempt.intent import Intent
from scheduler.attempt.slots import Slot, Slots


@dataclass(slots=True)
class Touched:
    """A claim that may have been written to.

    stored: as it was last read or written. allocation: what may be taken back, None where only the reservation is ours.
    sent: the version that a write was sent under which was not answered, "" if all were. is_own: this attempt allocates
    it. may_be_stored: something of it is, or nobody knows. written: the version of our last write that was answered.
    is_taken_over: it was reserved for the pod by somebody else, or may have been, so that another attempt may still
    bind the pod. is_made: this attempt has made it, and takes it away again.
    """

    key: ClaimKey
    stored: Claim
    allocation: Json | None
    sent: str = ""
    is_own: bool = False
    may_be_stored: bool = False
    written: str = ""
    is_taken_over: bool = False
    is_made: bool = False

    @property
    def version(self) -> int:
        """The version of `stored`; one resource's versions are ordered."""
        return int(version_of(self.stored))

    def note(self, stored: Json) -> Json:
        """The claim as it is stored now, by a write that was answered."""
        self.stored, self.sent, self.may_be_stored, self.written = stored, "", True, version_of(stored)
        return stored


@dataclass(slots=True)
class Attempt:
    """A decision under way.

    pod_version: of the pod as it was last read or written. slot: of the writers; given back before the attempt ends.
    touched: in the order of the writes. binding: the pod's version that a binding was sent under which may still land,
    "" where there is none. is_nominated: the pod may say where it is about to go. is_making: the claim for its extended
    resources may have been made, though no answer says so. is_told: the pod's status names that claim, or may.
    """

    decision: Decision
    intent: Intent
    pod_version: str
    slot: Slot
    touched: list[Touched] = field(default_factory=list)
    binding: str = ""
    is_nominated: bool = False
    is_making: bool = False
    is_told: bool = False

    def touch(self, claim: Touched, version: str) -> None:
        """The claim is about to be written to, under that version."""
        claim.sent = version
        self.forget(claim)
        self.touched.append(claim)

    def forget(self, claim: Touched) -> None:
        """Nothing of the claim is this attempt's to take back."""
        self.touched = [one for one in self.touched if one is not claim]


ALONE = 64
"""Slots of an attempt that shares them with no other: as many as it takes to tell one failure from many."""


def begun(binder: Binder, decision: Decision, slot: Slot | None = None) -> Attempt:
    """The attempt, before anything was written. slot: None for one that shares them with no other."""
    intent = Intent(binder.scheduler, binder.epoch, binder.process, decision.pod.uid, decision.node, decision.attempt)
    slot = slot or Slots(ALONE).take(decision.pod.namespace)
    return Attempt(decision, intent, decision.pod.resource_version, slot)
