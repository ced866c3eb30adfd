"""The binding of a pod to its node, sent with the pod's uid and resourceVersion as preconditions.

The API server answers each refusal with the same 409, so the pod is read to learn why: it is bound to our node already,
bound to another one, gone, or has merely changed. A binding whose answer never came may still be stored for as long as
the pod has the version that it was sent with. So it is sent again with that version, or *fenced off*: a write to the
pod's status moves the version, and the binding can no longer be stored. Whoever takes a claim back that another attempt
for the pod may rely on fences the pod first; so a binding is sent under another version than that of the decision only
after all claims were found to be the attempt's once more.
Source: k8s.io/kubernetes pkg/registry/core/pod/storage, BindingREST.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.attempt import device_status, pod_calls, pod_condition
from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import Json, key_of
from scheduler.attempt.decision import AttemptEnded, Bound, BoundElsewhere, Fatal, Gone, PodKey, Refused, Retry
from scheduler.attempt.undo import until_heard
from scheduler.attempt.write import renew
from scheduler.attempt.write_outcome import may_pass, outcome_of
from scheduler.client.errors import CallFailed
from scheduler.client.resources import PODS

TRIES = 4
"""How often a binding is sent before the attempt ends."""

Unknown = Fatal | Refused | Retry
"""Nobody can tell whether the pod is being bound: the API server refuses to say, or to have it prevented."""

Fate = Bound | BoundElsewhere | Gone | Unknown
"""What became of a pod that is not to be bound any more, or not by this attempt."""


async def bind(binder: Binder, attempt: Attempt) -> Bound:
    """Bind the pod. Raises AttemptEnded where it cannot be bound, or not now."""
    decision = attempt.decision
    version, status, reason = attempt.pod_version, decision.pod_status or {}, ""
    for tries in range(1, TRIES + 1):
        attempt.binding = version
        try:
            # The pod is as it was decided, or as it was when its claims were found to be ours: nothing came between.
            version = attempt.binding = await device_status.write(binder, attempt, version, status)
            await _send(binder, decision.pod, version, decision.node)
        except CallFailed as error:
            reason = str(error)
            if not may_pass(error):
                attempt.binding = ""
                raise AttemptEnded(outcome_of(error, f"pod {decision.pod}")) from error
            _note_trouble(attempt, error)
        else:
            return Bound(decision.node)
        found = await look(binder, attempt)
        if isinstance(found, Bound):
            return found
        pod = _to_try_next(attempt, found)
        if attempt.slot.is_failing:
            break
        if (moved := str(pod["metadata"]["resourceVersion"])) != version:
            await renew(binder, attempt)
        version, status = moved, device_status.of_pod_now(decision, pod)
        await binder.time.sleep(pause_s(tries, binder.time, first_s=0.01))
    raise AttemptEnded(Retry(f"pod {decision.pod} was not bound in {tries} tries, the last: {reason}"))


def _note_trouble(attempt: Attempt, error: CallFailed) -> None:
    if error.is_ambiguous:
        attempt.slot.failed(str(error))


def _to_try_next(attempt: Attempt, found: BoundElsewhere | Gone | Unknown | Json) -> Json:
    """The pod, where it may be bound. Raises AttemptEnded where it may not."""
    if isinstance(found, BoundElsewhere | Gone):
        attempt.binding = ""
    if isinstance(found, BoundElsewhere | Gone | Unknown):
        raise AttemptEnded(found)
    if found["metadata"]["resourceVersion"] != attempt.binding:
        attempt.binding = ""  # it can never land
    if name := _claim_since(attempt, found):
        raise AttemptEnded(Retry(f"pod {attempt.decision.pod} uses claim {name} now, which was not decided"))
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


async def fence(binder: Binder, attempt: Attempt, version: str = "") -> Fate | None:
    """Let no binding of the pod land that was sent before now; what became of the pod if it is too late for that.

    version: of the pod, under which one was sent; "" for any. Goes on until the API server has answered.
    """

    async def move() -> Fate | None:
        found = await _seen(binder, attempt)
        if isinstance(found, Fate):
            return found
        if version in ("", found["metadata"]["resourceVersion"]):
            await pod_calls.patch_status(binder.api, found, _moved(binder, attempt, found))
        return None

    try:
        return await until_heard(binder, attempt.decision.pod.namespace, move)
    except CallFailed as error:
        return _unknown(attempt, error)


async def _send(binder: Binder, pod: PodKey, version: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "resourceVersion": version},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await binder.api.request("POST", PODS.path(pod.namespace, pod.name, "binding"), body=body)


async def look(binder: Binder, attempt: Attempt) -> Fate | Json:
    """The pod while it has no node, else what became of it; asks until the API server has answered."""
    try:
        return await until_heard(binder, None, lambda: _seen(binder, attempt))
    except CallFailed as error:
        return _unknown(attempt, error)


def _unknown(attempt: Attempt, error: CallFailed) -> Unknown:
    found = outcome_of(error, f"pod {attempt.decision.pod}")
    assert isinstance(found, Unknown), found
    return found


async def _seen(binder: Binder, attempt: Attempt) -> Fate | Json:
    """The same, asked once. Raises CallFailed."""
    pod = attempt.decision.pod
    found = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
    return _fate(attempt, found) or found or Gone(f"pod {pod} no longer exists")


def _fate(attempt: Attempt, found: Mapping[str, Any] | None) -> Fate | None:
    if found is None:
        return None
    pod, node = attempt.decision.pod, found["spec"].get("nodeName")
    if node:
        attempt.is_told |= device_status.names_claim(found, attempt.decision)  # by an attempt before, of the same name
        may_be_ours = attempt.is_told or attempt.decision.extended is None
        return Bound(node) if node == attempt.decision.node and may_be_ours else BoundElsewhere(node)
    return Gone(f"pod {pod} is being deleted") if found["metadata"].get("deletionTimestamp") else None


def _moved(binder: Binder, attempt: Attempt, pod: Mapping[str, Any]) -> Json:
    """A status that differs from the one that stands there: the same once more would leave the version as it is."""
    intent, metadata = attempt.intent, pod["metadata"]
    given_up = f"attempt {intent.epoch}/{intent.attempt} for node {intent.node} was given up"
    message = f"{given_up} at version {metadata['resourceVersion']}"
    condition = pod_condition.not_scheduled("SchedulerError", message, metadata.get("generation") or 0)
    return pod_condition.status_with(condition, pod_condition.current_of(pod), binder.time.now())
