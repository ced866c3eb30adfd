"""Finds out what became of a pod that an attempt is about to bind, or has sent a binding for.

The API server answers every rejected binding with the same 409, so the pod is read to learn why: it is already bound to
our node, bound to another one, gone, or has just changed. A write whose answer is lost may still be stored while the
pod has the version that the write is based on. So the write is sent again with that version, or it is *fenced off*: a
write to the pod's status changes the version. Whoever takes back a claim on which another attempt for the pod may
depend fences the pod first.

The API server may not answer for as long as it likes. The watch ends the wait as soon as it shows what became of the
pod, and a pod for which it takes long is told so.
Source: k8s.io/kubernetes pkg/registry/core/pod/storage, BindingREST.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from allocator.api.versions import Json
from scheduler.attempt import pod_calls
from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder, pod_subject
from scheduler.attempt.claim_calls import until_answered
from scheduler.attempt.decision import Bound, BoundElsewhere, Fatal, Gone, Retry, Unschedulable
from scheduler.attempt.write_outcome import MUTATED, WriteOutcome, outcome_of, write_outcome
from scheduler.client.errors import CallFailed

# Tells a pod what its attempt waits for, if that takes long: an answer of the API server behind a slow webhook.
#
# The attempt itself writes the condition, since it binds the pod in the version that it knows: a condition that
# somebody else writes moves that version, and the attempt would have to verify all of its claims again.


REPORT_S = 5.0
"""A pod whose attempt waits for one thing for so long says so."""

END_S = 2.0
"""For so long the attempt waits for that to be written, before it goes on."""

TRIES = 2
"""How often the pod is read and written, where it changes in between."""

Pod = Mapping[str, Any]  # Any: as it came

_LOG = logging.getLogger(__name__)


async def write_status(binder: Binder, attempt: Attempt, status_of: Callable[[Pod], Json | None]) -> None:
    """Patch the status of the pod while it has no node. Nothing depends on it. Raises CallFailed.

    status_of: the fields for a pod that was read, None where nothing is to be written.
    """
    pod = attempt.decision.pod
    for _ in range(TRIES):
        stored_pod = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
        if stored_pod is None or stored_pod["spec"].get("nodeName") or not (status := status_of(stored_pod)):
            return
        try:
            stored = await pod_calls.patch_status(binder.api, stored_pod, status)
        except CallFailed as error:
            if write_outcome(error) is not WriteOutcome.CONFLICT:
                raise
        else:
            # Where the version had moved before, the binding has to find that out.
            if stored_pod["metadata"]["resourceVersion"] == attempt.pod.version:
                attempt.pod.version = stored["metadata"]["resourceVersion"]
            return


def waiting(binder: Binder, pod: Pod, message: str) -> Json:
    """The condition of a pod that waits for this."""
    condition = pod_calls.not_scheduled("BindingPending", message, pod["metadata"].get("generation") or 0)
    return pod_calls.status_with(condition, pod_calls.current_of(pod), binder.time.now())


@asynccontextmanager
async def reporting(binder: Binder, attempt: Attempt, awaited: str) -> AsyncIterator[None]:
    """While the context is open, the attempt waits for this; if that takes long, the pod says so."""
    tasks: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    timer = loop.call_later(REPORT_S, lambda: tasks.append(loop.create_task(_report(binder, attempt, awaited))))
    try:
        yield
        timer.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_S)
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()


async def _report(binder: Binder, attempt: Attempt, awaited: str) -> None:
    message = f"waiting for {awaited}"
    _LOG.info("pod %s: %s", attempt.decision.pod, message, extra={"node": attempt.decision.node})
    try:
        await write_status(binder, attempt, lambda pod: waiting(binder, pod, message))
    except CallFailed as error:
        _LOG.warning("pod %s: cannot write that it is waiting: %s", attempt.decision.pod, error)


GIVEN_UP = "the attempt was given up"
"""What a pod says whose attempt ended without a reason of its own."""

Unknown = Fatal | Unschedulable | Retry
"""It is unknown whether the pod is being bound: the API server refuses to say so, or to prevent it."""

Known = Bound | BoundElsewhere | Gone
"""What became of a pod for certain."""

Fate = Known | Unknown
"""What became of a pod that is not to be bound any more, or not by this attempt."""


Answer = TypeVar("Answer")


class UndoStopped(Exception):
    """The pod turned out to be bound, or that is unknown: what is left of the attempt's writes stays."""

    def __init__(self, fate: Fate) -> None:
        super().__init__(str(fate))
        self.fate = fate


async def look(binder: Binder, attempt: Attempt) -> Fate | Json:
    """The pod while it has no node, else what became of it; asks until the API server or the watch has answered."""
    return await _known(binder, attempt, lambda: _read(binder, attempt))


async def fence(binder: Binder, attempt: Attempt, version: str = "") -> Fate | None:
    """Let no binding of the pod be stored that was sent before now; its fate if it is too late for that.

    version: of the pod, under which one was sent; "" for any. Goes on until the API server or the watch has answered.
    """

    async def move() -> Fate | None:
        pod_or_fate = await _read(binder, attempt)
        if isinstance(pod_or_fate, Fate):
            return pod_or_fate
        if version in ("", pod_or_fate["metadata"]["resourceVersion"]):
            async with binder.repairs.of(attempt.decision.pod.namespace):
                stored = await pod_calls.patch_status(binder.api, pod_or_fate, _moved(binder, attempt, pod_or_fate))
            if stored["metadata"]["resourceVersion"] == pod_or_fate["metadata"]["resourceVersion"]:
                reason = f"pod {attempt.decision.pod} was stored without its condition: {MUTATED}"
                return Retry(reason, is_denied=True)
        return None

    fate = await _known(binder, attempt, move)
    if not isinstance(fate, Unknown):
        attempt.pod.sent = ""
    return fate


async def unless_shown(binder: Binder, attempt: Attempt, act: Callable[[], Awaitable[Answer]]) -> Answer | Known:
    """What `act` gives. It is cancelled as soon as the watch shows what became of the pod: then that."""
    fates: list[Known] = []

    def look_again() -> None:
        if not fates and (fate := _shown(binder, attempt)):
            fates.append(fate)
            limit.reschedule(asyncio.get_running_loop().time())

    try:
        # As asyncio.timeout, for it knows who else has cancelled the task.
        async with asyncio.timeout(None) as limit:
            with binder.changes.calling(look_again, [pod_subject(attempt.decision.pod)]):
                look_again()
                return await act()
    except TimeoutError:
        if not limit.expired():
            raise
        return fates[0]


async def _known(binder: Binder, attempt: Attempt, ask: Callable[[], Awaitable[Answer]]) -> Answer | Fate:
    """What `ask` gives, asked until there is an answer, unless the watch is faster; the pod is told if that takes long.

    The reservation in memory stays until then: the pod may be bound any moment.
    """
    uid = attempt.decision.pod.uid
    late = asyncio.get_running_loop().call_later(REPORT_S, _say_unknown, binder, attempt)
    try:
        return await unless_shown(binder, attempt, lambda: until_answered(binder, ask, for_pod=uid))
    except CallFailed as error:
        return _unknown(attempt, error)
    finally:
        late.cancel()


def _say_unknown(binder: Binder, attempt: Attempt) -> None:
    decision = attempt.decision
    trouble = binder.progress.trouble(decision.pod.uid) or "the API server does not answer"
    where = f" to node {decision.node}" if decision.node else ""
    reason = f"it is not known yet whether pod {decision.pod} is bound{where}: {trouble}"
    _LOG.warning(reason, extra={"pod": str(decision.pod), "node": decision.node})
    attempt.report(Retry(reason))


def _shown(binder: Binder, attempt: Attempt) -> Known | None:
    """What became of the pod, as the watch shows it; None while it may be bound yet, or only the API server can say."""
    decision, watched = attempt.decision, binder.volumes.pod(attempt.decision.pod)
    if watched is None:
        return None
    if not watched.node_name:
        return Gone(f"pod {decision.pod} is being deleted") if watched.is_deleting else None
    if decision.extended is not None and not attempt.pod.names_claim:
        return None  # whether the pod uses the claim that we make is in its status, which is not watched
    return Bound(watched.node_name) if watched.node_name == decision.node else BoundElsewhere(watched.node_name)


def _unknown(attempt: Attempt, error: CallFailed) -> Unknown:
    outcome = outcome_of(error, f"pod {attempt.decision.pod}")
    assert isinstance(outcome, Unknown), outcome
    return outcome


async def _read(binder: Binder, attempt: Attempt) -> Fate | Json:
    """As `look`, asked once. Raises CallFailed."""
    pod = attempt.decision.pod
    stored = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
    return _fate(attempt, stored) or stored or Gone(f"pod {pod} no longer exists")


def _fate(attempt: Attempt, found: Mapping[str, Any] | None) -> Fate | None:
    if found is None:
        return None
    pod, node = attempt.decision.pod, found["spec"].get("nodeName")
    if node:
        # By an attempt before, of the same name.
        attempt.pod.names_claim |= pod_calls.names_claim(found, attempt.decision)
        may_be_ours = attempt.pod.names_claim or attempt.decision.extended is None
        return Bound(node) if node == attempt.decision.node and may_be_ours else BoundElsewhere(node)
    return Gone(f"pod {pod} is being deleted") if found["metadata"].get("deletionTimestamp") else None


def _moved(binder: Binder, attempt: Attempt, pod: Mapping[str, Any]) -> Json:
    """A status that says why the attempt is given up, and moves the version of the pod.

    What is said stays the same from one attempt to the next: whoever compares it finds nothing new.
    """
    ended = attempt.ended
    message = getattr(ended, "reason", "") or GIVEN_UP
    kind: pod_calls.Reason = "Unschedulable" if isinstance(ended, Unschedulable) else "SchedulerError"
    condition = pod_calls.not_scheduled(kind, message, pod["metadata"].get("generation") or 0)
    return pod_calls.status_anew(condition, pod, binder.time.now())
