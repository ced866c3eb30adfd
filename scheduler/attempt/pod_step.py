"""A write to the pod, based on the version that was read; repeated if the pod, read again, may still be bound.

A write is sent with a newer version than the decision's only after all claims were verified once more to be the
attempt's. It is undone by fencing it off, which the attempt does before anything else (`scheduler.attempt.run`).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.attempt import pod_calls, pod_device_fields
from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import Json, key_of
from scheduler.attempt.claim_writes import renew
from scheduler.attempt.decision import AttemptEnded, Bound, BoundElsewhere, Gone, Retry
from scheduler.attempt.pod_fate import Known, Unknown, look, unless_shown
from scheduler.attempt.step import Point, Step
from scheduler.attempt.tries import ended
from scheduler.attempt.write_outcome import MUTATED, may_pass
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod_status import EXTENDED_STATUS

FAILURES_MAX = 4
"""Writes to one pod that may fail before its attempt ends."""


@dataclass(eq=False)
class PodStep(Step):
    """A step that writes to the pod."""

    point: ClassVar[Point] = "Bind"

    binder: Binder
    attempt: Attempt

    @abstractmethod
    async def send(self) -> Bound | None:
        """Write to the pod under its version; what `do` returns. Raises CallFailed."""

    async def do(self) -> Bound | None:
        """Write to the pod; Bound where it is bound by then. Raises AttemptEnded where it cannot be, or not now."""
        bound, is_sent = None, False
        while not (is_sent or bound):
            self.attempt.pod.sent = self.attempt.pod.version
            try:
                # The pod is as it was decided, or as it was when its claims were found to be ours.
                found, is_sent = await unless_shown(self.binder, self.attempt, self.send), True
            except CallFailed as error:
                bound = await self._failed(error)
            else:
                bound = _bound(self.attempt, found)
        self.attempt.pod.sent = ""
        if bound:
            self.attempt.slot.succeeded()
        return bound

    @property
    def is_idle(self) -> bool:
        """Whether no write to the pod can be stored later."""
        return not self.attempt.pod.sent

    async def undo(self, node: str) -> bool:
        """Nothing: what was in flight is fenced off, and what is left of a status goes with the next binding."""
        assert self.is_idle, f"a write to pod {self.attempt.decision.pod} is in flight"
        return False

    async def _failed(self, error: CallFailed) -> Bound | None:
        """Find out why; return where the write is to be sent again. Raises AttemptEnded where it is not."""
        attempt, pod = self.attempt, self.attempt.pod
        self.binder.progress.failed(attempt.decision.pod.uid, error)
        if not may_pass(error):
            pod.sent = ""
            raise ended(attempt, error, f"pod {attempt.decision.pod}") from error
        if error.is_ambiguous:
            attempt.slot.failed(str(error))
        pod.failures += 1
        found = await look(self.binder, attempt)
        if isinstance(found, Bound):
            return found
        current = _to_try_next(attempt, found)
        if attempt.slot.is_failing or (error.is_ambiguous and attempt.slot.is_slow):
            raise AttemptEnded(_not_bound(attempt, error))
        if (moved := str(current["metadata"]["resourceVersion"])) != pod.version:
            await renew(self.binder, attempt)
        pod.version, pod.status = moved, pod_device_fields.of_pod_now(attempt.decision, current)
        await self.binder.time.sleep(pause_s(pod.failures, self.binder.time, first_s=0.01))
        if pod.failures == FAILURES_MAX:
            raise AttemptEnded(_not_bound(attempt, error))
        return None


async def write_status(binder: Binder, attempt: Attempt) -> None:
    """Write what the pod's status has to say, if anything. Raises CallFailed, and AttemptEnded where it does not stay.

    Nothing can have happened to the pod between the version before and the one after.
    """
    pod = attempt.pod
    if not pod.status:
        return
    named_claim, pod.names_claim = pod.names_claim, pod.names_claim or bool(pod.status.get(EXTENDED_STATUS))
    try:
        stored = await pod_calls.replace_status(binder.api, attempt.decision.pod, pod.version, pod.status)
    except CallFailed as error:
        if not error.is_ambiguous:
            pod.names_claim = named_claim
        raise
    pod.version = pod.sent = str(stored["metadata"]["resourceVersion"])
    if pod.status.get(EXTENDED_STATUS) and not pod_device_fields.names_claim(stored, attempt.decision):
        pod.sent, pod.names_claim = "", named_claim
        reason = f"pod {attempt.decision.pod} was stored without status.{EXTENDED_STATUS}: {MUTATED}"
        raise AttemptEnded(Retry(reason, is_denied=True))
    pod.status = {}


def _bound(attempt: Attempt, found: Known | None) -> Bound | None:
    """Whether the write has bound the pod. Raises AttemptEnded where it cannot be bound any more."""
    if isinstance(found, BoundElsewhere | Gone):
        attempt.pod.sent = ""
        raise AttemptEnded(found)
    return found


def _not_bound(attempt: Attempt, error: CallFailed) -> Retry:
    return Retry(f"pod {attempt.decision.pod} was not bound in {attempt.pod.failures} tries, the last: {error}")


def _to_try_next(attempt: Attempt, found: BoundElsewhere | Gone | Unknown | Json) -> Json:
    """The pod, where it may be bound. Raises AttemptEnded where it may not."""
    if isinstance(found, BoundElsewhere | Gone):
        attempt.pod.sent = ""
    if isinstance(found, BoundElsewhere | Gone | Unknown):
        raise AttemptEnded(found)
    if found["metadata"]["resourceVersion"] != attempt.pod.sent:
        attempt.pod.sent = ""  # it can never be stored
    if name := _claim_since(attempt, found):
        raise AttemptEnded(
            Retry(f"pod {attempt.decision.pod} uses claim {name} now, which is not part of the decision")
        )
    return found


def _claim_since(attempt: Attempt, pod: Mapping[str, Any]) -> str:
    """A claim that the pod uses now and did not when it was decided; empty where there is none.

    kube-controller-manager makes a second claim for an entry where it does not see its first one in time.
    """
    decided = {key_of(plan.claim).name for plan in attempt.decision.claims}
    status = pod.get("status") or {}
    entries = (*(pod["spec"].get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    names = (entry.get("resourceClaimName") for entry in entries)
    return next((name for name in names if name and name not in decided), "")
