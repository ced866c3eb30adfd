"""Creates and allocates the claim for a pod's extended resources.

All attempts for a pod use the same name, so that there is at most one such claim. If a claim of that name belongs to
somebody else, the pod waits until it is gone.
Source: KEP-5004; kube-scheduler's DynamicResources plugin, PreBind.
"""

from dataclasses import dataclass, field

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import WrittenClaim
from scheduler.attempt.claim_objects import Json, key_of
from scheduler.attempt.claim_step import ClaimStep
from scheduler.attempt.claim_writes import MARK, check_kept
from scheduler.attempt.decision import AttemptEnded, ExtendedPlan, Retry
from scheduler.attempt.intent import intent_of
from scheduler.attempt.repeated_edits import until_answered
from scheduler.attempt.steps.claim_allocation import allocate, check_devices, with_time
from scheduler.attempt.tries import TRIES, pause
from scheduler.attempt.write_outcome import WriteOutcome, write_outcome
from scheduler.client.errors import CallFailed


@dataclass(eq=False)
class MakeClaim(ClaimStep):
    """The claim that the pod's extended resources need.

    is_making: it may have been made, though no answer says so.
    """

    plan: ExtendedPlan
    is_making: bool = field(default=False, init=False)

    async def do(self) -> None:
        """Make the claim with finalizer and intent, and allocate it. Raises AttemptEnded."""
        check_devices(self.binder, self.attempt)
        stored = await self._created()
        self.written = self._noted(stored)
        self.is_making = False
        self.written.note(stored)
        check_kept(self.written, MARK, is_kept=claim_objects.is_marked(stored, self.attempt.intent))
        self.binder.watched.made(self.plan.claim.claim.uid, self.written.key)
        self.written.allocation = wanted = with_time(self.binder, self.plan.allocation)
        await allocate(self.binder, self.attempt, self.written, stored, wanted)

    @property
    def is_idle(self) -> bool:
        """Whether it is known if the claim was made, and each write to it was answered."""
        return not self.is_making and super().is_idle

    @property
    def may_be_relied_on(self) -> bool:
        """Whether the claim may be there."""
        return self.is_making or super().may_be_relied_on

    def stays(self, node: str) -> bool:
        """Whether the pod's status names the claim, and its devices can be used on the node."""
        if self.attempt.decision.is_assigned or not self.attempt.pod.names_claim:
            return False
        return self.binder.watched.is_reached(node, self.plan.allocation.node_selector)

    async def undo(self, node: str) -> bool:
        """Delete the claim, if it was made."""
        if self.is_making:
            await self._look_for()
        return await super().undo(node)

    def _noted(self, stored: Json) -> WrittenClaim:
        written = WrittenClaim(key_of(stored), stored, None, is_own=True, is_made=True)
        self.attempt.note(written, "")
        return written

    async def _look_for(self) -> None:
        """Note the claim where it was made without an answer, so that it is taken back."""
        claim, pod = self.plan.claim.claim, self.attempt.decision.pod
        try:
            found = await until_answered(
                self.binder, lambda: claim_calls.find(self.binder, claim.namespace, claim.name), for_pod=pod.uid
            )
        except CallFailed:
            return  # it is the pod's, and goes with it; another attempt for the pod takes it away first
        if found is not None and intent_of(found) == self.attempt.intent:
            self.written = self._noted(found)
            self.written.may_be_stored = True

    async def _created(self) -> Json:
        pod, tries, is_unknown = self.attempt.decision.pod, 0, False
        claim = claim_objects.made(self.plan.claim, pod.name, pod.uid, self.attempt.intent)
        while tries < TRIES:
            tries += 1
            self.is_making = True
            try:
                return await claim_calls.create(self.binder, claim)
            except CallFailed as error:
                is_unknown |= write_outcome(error) is WriteOutcome.UNKNOWN
                self.is_making = is_unknown
                await pause(self.binder, self.attempt, error, f"claim {self.key}", tries)
            found = await self._read()
            if found is not None:
                return found
        raise AttemptEnded(Retry(f"claim {self.key} could not be created in {TRIES} attempts"))

    async def _read(self) -> Json | None:
        """The claim of ours; None where there is none. Raises AttemptEnded where it is another one."""
        claim = self.plan.claim.claim
        found = await claim_calls.found(self.binder, claim.namespace, claim.name, f"claim {self.key}")
        if found is not None and intent_of(found) != self.attempt.intent:
            raise AttemptEnded(Retry(f"claim {self.key} already exists", is_lost=True))
        return found

    @property
    def key(self) -> str:
        """Namespace and name of the claim."""
        claim = self.plan.claim.claim
        return f"{claim.namespace}/{claim.name}"
