"""Taking back what an attempt wrote, until nothing of it is left: a small state machine that reads before each step.

An allocation that only this pod has goes, and then finalizer and intent; of a shared one, only the pod's reservation.
A write of the attempt that was never answered may still land: every step moves the claim's version, and where there is
nothing to take back a fence does, so that it lands never. A claim that another attempt has taken over is left to it.
"""

from collections.abc import Sequence

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, Touched
from scheduler.attempt.bind import Fate, fence
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, Json, allocation_of, consumers_of, key_of, version_of
from scheduler.attempt.decision import Gone
from scheduler.attempt.intent import Intent, intent_of, is_of_another_attempt
from scheduler.attempt.undo import Send, settle


def to_undo(binder: Binder, attempt: Attempt, node: str) -> list[Touched]:
    """The claims to be taken back. node: where the pod is bound, "" while it is not.

    A bound pod may rely on all of its claims that reach its node, whoever wrote them last: of those only what this
    attempt has allocated for another node goes, and what it has made without a word to the pod.
    """
    if not node:
        return list(attempt.touched)
    own = [touched for touched in attempt.touched if touched.is_own]
    if attempt.decision.is_assigned:
        return own  # for this very node, and of no use before all claims are there
    decided = {key_of(plan.claim): plan.allocation for plan in attempt.decision.claims}
    extended = attempt.decision.extended

    def is_kept(touched: Touched) -> bool:
        if touched.is_made and not attempt.is_told:
            return False  # the pod's kubelet will never hear of it
        allocation = extended.allocation if touched.is_made and extended else decided[touched.key]
        return allocation is None or binder.observed.is_reached(node, allocation.node_selector)

    return [touched for touched in own if not is_kept(touched)]


class Kept(Exception):
    """The pod turned out to be bound, or nobody can tell: what is left of the attempt's writes stays."""

    def __init__(self, fate: Fate) -> None:
        super().__init__(str(fate))
        self.fate = fate


async def roll_back(binder: Binder, attempt: Attempt, touched: Sequence[Touched], *, is_fenced: bool = False) -> bool:
    """Take back what was written, the last first; returns when no write is under way any more.

    False where the server refused for good: that claim is left as it is, and the sweep's to mend. is_fenced: no binding
    of the pod can land that relies on these claims. Raises Kept.
    """
    # Differs from kube-scheduler, which takes back its reservation and leaves the allocation to whoever comes.
    are_settled = [await _undo(binder, attempt, one, is_fenced=is_fenced) for one in reversed(touched)]
    return all(are_settled)


async def _undo(binder: Binder, attempt: Attempt, touched: Touched, *, is_fenced: bool) -> bool:
    """Take back what was written to one claim."""

    def following(claim: Claim) -> tuple[Send, Json] | None:
        step = next_step(claim, attempt.intent, touched)
        if step is None or is_fenced or not _may_be_relied_on(step, claim, touched):
            return step
        return _fenced(attempt, step)

    known = touched.stored if touched.written == version_of(touched.stored) and not touched.sent else None
    return await settle(binder, touched.key, following, known)


def _may_be_relied_on(step: tuple[Send, Json], claim: Claim, touched: Touched) -> bool:
    """Whether the step takes from the pod what another attempt for it may have found there.

    Whoever relies on a claim has written to it: nobody does while its version is that of our own last write, unless it
    was there before us.
    """
    is_taken_away = step[0] not in {claim_calls.put, claim_calls.delete}
    return is_taken_away and (touched.is_taken_over or bool(touched.sent) or touched.written != version_of(claim))


def _fenced(attempt: Attempt, step: tuple[Send, Json]) -> tuple[Send, Json]:
    """The same step, after which no binding can land that was sent before; read, fence, write, in this order."""
    send, edited = step

    async def fence_and_send(binder: Binder, claim: Claim) -> Json:
        fate = await fence(binder, attempt)
        if fate is not None and not isinstance(fate, Gone):
            raise Kept(fate)
        return await send(binder, claim)

    return fence_and_send, edited


def next_step(claim: Claim, intent: Intent, touched: Touched) -> tuple[Send, Json] | None:
    """The one write that is next, None once nothing of the attempt is left."""
    if claim_objects.is_fenced(claim):
        return claim_calls.put, claim_objects.unfenced(claim)
    if is_of_another_attempt(claim, intent):
        return None
    allocation = allocation_of(claim)
    if allocation and touched.allocation and claim_objects.is_same_allocation(allocation, touched.allocation):
        return _step_of_allocated(claim, intent)
    if intent.podUID in consumers_of(claim) and not touched.is_own:
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return _step_of_marked(claim, intent, touched) or _step_of_made(claim, touched)


def _step_of_made(claim: Claim, touched: Touched) -> tuple[Send, Json] | None:
    """A claim that the attempt has made goes; one that somebody else protects stays until they let it go."""
    if not touched.is_made or allocation_of(claim) or claim_objects.is_deleting(claim):
        return None
    return claim_calls.delete, dict(claim)


def _step_of_marked(claim: Claim, intent: Intent, touched: Touched) -> tuple[Send, Json] | None:
    if intent_of(claim) == intent:
        return claim_calls.put, claim_objects.unmarked(claim)
    if version_of(claim) == touched.sent:
        return claim_calls.put, claim_objects.fenced(claim, touched.sent)
    return None


def _step_of_allocated(claim: Claim, intent: Intent) -> tuple[Send, Json] | None:
    if not set(consumers_of(claim)) - {intent.podUID}:
        return claim_calls.put_status, claim_objects.deallocated(claim)
    # Others use it too; the intent stays, as it does on every allocation of ours.
    if intent.podUID in consumers_of(claim):
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return None
