"""What one attempt has begun: enough to undo it, whatever moment it is stopped at.

A claim is noted before its first write is sent, since a write whose answer never came may be stored.
"""

from dataclasses import dataclass, field

from scheduler.binding.binder import Binder
from scheduler.binding.claim_objects import Claim, ClaimKey, Json, version_of
from scheduler.binding.decision import Decision
from scheduler.binding.intent import Intent


@dataclass(slots=True)
class Touched:
    """A claim that may have been written to.

    stored: as it was last read or written. allocation: what may be taken back, None where only the reservation is ours.
    sent: the version that a write was sent under which was not answered, "" if all were. is_taken_over: it was reserved
    for the pod before, so that another attempt may still bind the pod.
    """

    key: ClaimKey
    stored: Claim
    allocation: Json | None
    sent: str = ""
    is_taken_over: bool = False

    @property
    def version(self) -> int:
        """The version of `stored`; one resource's versions are ordered."""
        return int(version_of(self.stored))


@dataclass(slots=True)
class Attempt:
    """A decision under way.

    pod_version: of the pod as it was last read or written. touched: in the order of the writes. binding: the pod's
    version that a binding was sent under which may still land, "" where there is none. is_nominated: the pod may say
    where it is about to go.
    """

    decision: Decision
    intent: Intent
    pod_version: str
    touched: list[Touched] = field(default_factory=list)
    binding: str = ""
    is_nominated: bool = False


def begun(binder: Binder, decision: Decision) -> Attempt:
    """The attempt, before anything was written."""
    intent = Intent(binder.scheduler, binder.epoch, decision.pod.uid, decision.node, decision.attempt)
    return Attempt(decision, intent, decision.pod.resource_version)
