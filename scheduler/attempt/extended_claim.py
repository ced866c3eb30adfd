"""The claim for a pod's extended resources: made with all that protects it, found again where the answer never came.

Its name is the same on every attempt for the pod, so that there is at most one; whoever finds one that is not its own
leaves it alone, and the pod waits until it is gone.
Source: KEP-5004; kube-scheduler's DynamicResources plugin, PreBind.
"""

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, Touched
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Json, key_of
from scheduler.attempt.decision import AttemptEnded, ExtendedPlan, Retry
from scheduler.attempt.intent import intent_of
from scheduler.attempt.tries import TRIES, pause
from scheduler.attempt.undo import until_heard
from scheduler.attempt.write_outcome import Verdict, verdict
from scheduler.client.errors import CallFailed


async def make(binder: Binder, attempt: Attempt, plan: ExtendedPlan) -> Touched:
    """The claim, which is stored with our intent and not allocated yet. Raises AttemptEnded."""
    stored = await _created(binder, attempt, plan)
    touched = Touched(key_of(stored), stored, None, is_own=True, is_made=True)
    attempt.touch(touched, "")
    attempt.is_making = False
    touched.note(stored)
    binder.observed.made(plan.claim.claim.uid, touched.key)
    return touched


async def look_for(binder: Binder, attempt: Attempt) -> None:
    """Touch the claim where it may have been made without an answer, so that it is taken back."""
    extended = attempt.decision.extended
    if not attempt.is_making or extended is None:
        return
    claim = extended.claim.claim
    try:
        found = await until_heard(binder, None, lambda: claim_calls.find(binder, claim.namespace, claim.name))
    except CallFailed:
        return  # it is the pod's, and goes with it; another attempt for the pod takes it away first
    if found is not None and intent_of(found) == attempt.intent:
        attempt.touch(Touched(key_of(found), found, None, is_own=True, may_be_stored=True, is_made=True), "")


async def _created(binder: Binder, attempt: Attempt, plan: ExtendedPlan) -> Json:
    claim, pod, tries, is_unknown = plan.claim.claim, attempt.decision.pod, 0, False
    subject = f"claim {claim.namespace}/{claim.name}"
    while tries < TRIES:
        tries += 1
        attempt.is_making = True
        try:
            return await claim_calls.create(binder, claim_objects.made(plan.claim, pod.name, pod.uid, attempt.intent))
        except CallFailed as error:
            is_unknown |= verdict(error) is Verdict.UNKNOWN
            attempt.is_making = is_unknown
            await pause(binder, attempt, error, subject, tries)
        found = await _read(binder, attempt, subject)
        if found is not None:
            return found
    raise AttemptEnded(Retry(f"{subject} was not made in {TRIES} tries"))


async def _read(binder: Binder, attempt: Attempt, subject: str) -> Json | None:
    """The claim of ours; None where there is none. Raises AttemptEnded where it is another one."""
    assert attempt.decision.extended is not None
    claim = attempt.decision.extended.claim.claim
    found = await claim_calls.found(binder, claim.namespace, claim.name, subject)
    if found is not None and intent_of(found) != attempt.intent:
        raise AttemptEnded(Retry(f"{subject} is there already", is_lost=True))
    return found
