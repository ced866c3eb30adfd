"""The binding of a pod to its node, sent with the pod's uid and resourceVersion as preconditions.

The API server answers each refusal with the same 409, so the pod is read to learn why: it is bound to our node already,
bound to another one, gone, or has merely changed. A binding whose answer never came may still be stored for as long as
the pod has the version that it was sent with. So it is sent again with that version, or *fenced off*: a write to the
pod's status moves the version, and the binding can no longer be stored.
Source: k8s.io/kubernetes pkg/registry/core/pod/storage, BindingREST.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.binding import claim_calls, pod_calls, pod_condition
from scheduler.binding.attempt import Attempt
from scheduler.binding.binder import Binder, backoff_s
from scheduler.binding.claim_objects import Json, allocation_of, consumers_of
from scheduler.binding.decision import AttemptEnded, Bound, Fatal, Gone, PodKey, Retry
from scheduler.binding.rollback import is_of_another_attempt
from scheduler.binding.verdicts import may_pass, outcome_of
from scheduler.client.errors import CallFailed
from scheduler.client.resources import PODS

TRIES = 4
"""How often a binding is sent before the attempt ends."""

Fate = Bound | Gone | Fatal
"""What became of a pod that is not to be bound any more. Fatal: nobody can tell, since we may not ask."""


async def bind(binder: Binder, attempt: Attempt) -> Bound:
    """Bind the pod. Raises AttemptEnded where it cannot be bound, or not now."""
    decision = attempt.decision
    version, reason = attempt.pod_version, ""
    for tries in range(TRIES):
        attempt.binding = version
        try:
            await _send(binder, decision.pod, version, decision.node)
        except CallFailed as error:
            reason = str(error)
            if not may_pass(error):
                attempt.binding = ""
                raise AttemptEnded(outcome_of(error, f"pod {decision.pod}")) from error
        else:
            return Bound(decision.node)
        found = await _look(binder, attempt)
        if isinstance(found, Bound):
            return found
        version = _version_to_try_next(attempt, found)
        await _are_claims_ours(binder, attempt)
        await binder.time.sleep(backoff_s(tries, binder.time, least_s=0.01))
    raise AttemptEnded(Retry(f"pod {decision.pod} was not bound in {TRIES} tries, the last: {reason}"))


def _version_to_try_next(attempt: Attempt, found: Gone | Fatal | Json) -> str:
    if isinstance(found, Gone):
        attempt.binding = ""
    if isinstance(found, Gone | Fatal):
        raise AttemptEnded(found)
    version = str(found["metadata"]["resourceVersion"])
    if version != attempt.binding:
        attempt.binding = ""  # it can never land
    return version


async def fence(binder: Binder, attempt: Attempt) -> Fate | None:
    """Let no binding of the pod land that was sent before now; Bound or Gone if it is too late for that.

    Goes on until the API server has answered.
    """
    tries = 0
    while True:
        found = await _look(binder, attempt)
        if isinstance(found, Fate):
            return found
        if attempt.binding not in ("", found["metadata"]["resourceVersion"]) and not _has_taken_over(attempt):
            return None
        try:
            await pod_calls.patch_status(binder.api, found, _moved(binder, attempt, found))
        except CallFailed as error:
            if not may_pass(error):
                return Fatal(f"pod {attempt.decision.pod}: {error}")
        else:
            return None
        await binder.time.sleep(backoff_s(tries, binder.time))
        tries += 1


def _has_taken_over(attempt: Attempt) -> bool:
    """Whether another attempt may have sent a binding, under a version that is not known here."""
    return any(touched.is_taken_over for touched in attempt.touched)


def is_fence_needed(attempt: Attempt) -> bool:
    """Whether a binding of the pod may be under way, by this attempt or by one before or beside it.

    Never that of a pod which has its node already: that it has one says nothing of its claims.
    """
    return not attempt.decision.is_assigned and (bool(attempt.binding) or _has_taken_over(attempt))


async def _send(binder: Binder, pod: PodKey, version: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "resourceVersion": version},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await binder.api.request("POST", PODS.path(pod.namespace, pod.name, "binding"), body=body)


async def _look(binder: Binder, attempt: Attempt) -> Fate | Json:
    """The pod while it has no node, else what became of it; asks until the API server has answered."""
    pod, tries = attempt.decision.pod, 0
    while True:
        try:
            found = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
        except CallFailed as error:
            if not may_pass(error):
                return Fatal(f"pod {pod}: {error}")
        else:
            return _fate(attempt, found) or found or Gone(f"pod {pod} no longer exists")
        await binder.time.sleep(backoff_s(tries, binder.time))
        tries += 1


def _fate(attempt: Attempt, found: Mapping[str, Any] | None) -> Fate | None:
    if found is None:
        return None
    pod, node = attempt.decision.pod, found["spec"].get("nodeName")
    if node:
        is_ours = node == attempt.decision.node
        return Bound(node) if is_ours else Gone(f"pod {pod} was bound to {node} by somebody else")
    return Gone(f"pod {pod} is being deleted") if found["metadata"].get("deletionTimestamp") else None


async def _are_claims_ours(binder: Binder, attempt: Attempt) -> None:
    """Before another try: an attempt that has taken the claims over may be about to deallocate them."""
    for touched in attempt.touched:
        try:
            claim = await claim_calls.get(binder, touched.key)
        except CallFailed as error:
            raise AttemptEnded(outcome_of(error, f"claim {touched.key}")) from error
        is_ours = (
            claim is not None
            and allocation_of(claim) is not None
            and attempt.decision.pod.uid in consumers_of(claim)
            and not is_of_another_attempt(claim, attempt.intent)
        )
        if not is_ours:
            raise AttemptEnded(Retry(f"claim {touched.key} is no longer allocated for pod {attempt.decision.pod}"))


def _moved(binder: Binder, attempt: Attempt, pod: Mapping[str, Any]) -> Json:
    """A status that differs from the one that stands there: the same once more would leave the version as it is."""
    intent, metadata = attempt.intent, pod["metadata"]
    given_up = f"attempt {intent.epoch}/{intent.attempt} for node {intent.node} was given up"
    message = f"{given_up} at version {metadata['resourceVersion']}"
    condition = pod_condition.not_scheduled("SchedulerError", message, metadata.get("generation") or 0)
    return pod_condition.status_with(condition, pod_condition.current_of(pod), binder.time.now())
