"""A step that writes to one claim, with the undo that all such steps share."""

from abc import abstractmethod
from dataclasses import dataclass, field

from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import is_marked
from scheduler.attempt.claim_undo import undo_claim
from scheduler.attempt.step import Step


@dataclass(eq=False)
class ClaimStep(Step):
    """A step that writes to one claim. written: what may be stored of it, None before the first write."""

    binder: Binder
    attempt: Attempt
    written: WrittenClaim | None = field(default=None, init=False)

    @abstractmethod
    def stays(self, node: str) -> bool:
        """Whether the pod, which another process has bound to the node, needs what this step has written."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Namespace and name of the claim."""

    @property
    def subject(self) -> str:
        """The claim."""
        return f"claim {self.key}"

    @property
    def to_undo(self) -> WrittenClaim | None:
        """What this attempt has to undo."""
        return next((one for one in self.attempt.claims if one is self.written), None)

    @property
    def is_idle(self) -> bool:
        """Whether every write to the claim was answered."""
        return not (self.to_undo and self.to_undo.sent)

    @property
    def may_be_relied_on(self) -> bool:
        """Whether the claim may be reserved for the pod."""
        one = self.to_undo
        return one is not None and (not one.is_own or is_marked(one.stored, self.attempt.intent))

    async def undo(self, node: str) -> bool:
        """Take the claim back, unless the pod needs it on the node."""
        written = self.to_undo
        if written is None or (node and self.stays(node)):
            return False
        if await undo_claim(self.binder, self.attempt, written, is_fenced=bool(node)):
            self.attempt.forget(written)
        return True
