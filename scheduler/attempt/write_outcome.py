"""What a failed write means for the attempt, by the kind of the error and `details.causes`.

422 may mean a missing permission for `resourceclaims/binding`, a lost race, a full claim, or a claim that is being
deleted.
Source: k8s.io/kubernetes pkg/registry/resource/resourceclaim and pkg/apis/resource/validation, as of 1.36.3.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from scheduler.attempt.decision import AttemptOutcome, Fatal, Retry, Unschedulable
from scheduler.client.errors import LASTS_S, ApiError, ApiErrorKind, CallFailed, Cause, Withheld
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS, CLAIMS

PUT_OFF_MAX_S = 300.0
"""The longest time for which a webhook can put a pod off by one answer."""

MUTATED = "a mutating webhook or policy changes what is written"
"""Why something is stored otherwise than it was sent."""

_BINDING = "resourceclaims/binding"


class WriteOutcome(Enum):
    """What a failed write means.

    CONFLICT: the object has changed. UNKNOWN: the write may have been carried out, or not. NOT_SENT: it was not, since
    the API server was not reached or no connection was free. GONE: the object is no more.
    STALE: the claim is being deleted, or is no longer allocated. FULL: it cannot be reserved for one more pod.
    NO_ADMIN_ACCESS: its namespace is not labelled for it. DENIED: a webhook, a policy or a quota refuses this object.
    PUT_OFF: the same, for now. DEFECT: the API server does not know this process, or a right is missing, which only an
    operator can mend. FAILED: anything else.
    """

    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    NOT_SENT = "not sent"
    GONE = "gone"
    STALE = "stale"
    FULL = "full"
    NO_ADMIN_ACCESS = "no admin access"
    DENIED = "denied"
    PUT_OFF = "put off"
    DEFECT = "defect"
    FAILED = "failed"


_WORTH_A_LOOK = frozenset({WriteOutcome.CONFLICT, WriteOutcome.UNKNOWN, WriteOutcome.NOT_SENT, WriteOutcome.GONE})
DENIED = frozenset({WriteOutcome.DENIED, WriteOutcome.PUT_OFF})
"""Somebody's considered no about this object."""

_BY_KIND: Mapping[ApiErrorKind, WriteOutcome] = {
    ApiErrorKind.DENIED: WriteOutcome.DENIED,
    ApiErrorKind.PUT_OFF: WriteOutcome.PUT_OFF,
    ApiErrorKind.UNAUTHENTICATED: WriteOutcome.DEFECT,
    ApiErrorKind.FORBIDDEN: WriteOutcome.DEFECT,
    ApiErrorKind.MISSING: WriteOutcome.GONE,
    ApiErrorKind.CONFLICT: WriteOutcome.CONFLICT,
    ApiErrorKind.EXPIRED: WriteOutcome.GONE,
}


def write_outcome(error: CallFailed) -> WriteOutcome:
    """What the error means. UNKNOWN: the write may have been carried out; every other: it was not."""
    if isinstance(error, Withheld):
        return WriteOutcome.FAILED
    if error.is_ambiguous:
        return WriteOutcome.UNKNOWN
    if not isinstance(error, ApiError):
        return WriteOutcome.NOT_SENT
    if error.kind is ApiErrorKind.INVALID:
        return _of_invalid(error.causes)
    return _BY_KIND.get(error.kind, WriteOutcome.FAILED)


def is_refused_for_good(error: CallFailed) -> bool:
    """Whether another try at once to evict for a pod would be refused as well.

    Its record is invalid where the pod's own annotations leave no room for it.
    """
    is_invalid = isinstance(error, ApiError) and error.kind is ApiErrorKind.INVALID
    return is_invalid or write_outcome(error) in {*DENIED, WriteOutcome.DEFECT}


def may_pass(error: CallFailed) -> bool:
    """Whether the same may succeed once things were looked at again, or later: all but the server's considered no."""
    is_in_trouble = isinstance(error, ApiError) and error.kind in (ApiErrorKind.TROUBLED, ApiErrorKind.BUSY)
    return is_in_trouble or write_outcome(error) in _WORTH_A_LOOK


def _of_invalid(causes: tuple[Cause, ...]) -> WriteOutcome:
    outcomes = {_of_cause(cause) for cause in causes}
    # Where several rules are violated, the one that nobody but an operator can mend comes first.
    return next((write_outcome for write_outcome in _PRECEDENCE if write_outcome in outcomes), WriteOutcome.FAILED)


_PRECEDENCE = (
    WriteOutcome.DEFECT,
    WriteOutcome.NO_ADMIN_ACCESS,
    WriteOutcome.STALE,
    WriteOutcome.FULL,
    WriteOutcome.CONFLICT,
)


def _of_cause(cause: Cause) -> WriteOutcome:
    match cause.reason:
        case "FieldValueForbidden" if _BINDING in cause.message:
            return WriteOutcome.DEFECT
        case "FieldValueForbidden" if cause.field.endswith(".adminAccess"):
            return WriteOutcome.NO_ADMIN_ACCESS
        case "FieldValueForbidden" if cause.field == "status.reservedFor":
            return WriteOutcome.STALE
        case "FieldValueTooMany" if cause.field == "status.reservedFor":
            return WriteOutcome.FULL
        case "FieldValueInvalid" if cause.field == "status.allocation" and "field is immutable" in cause.message:
            return WriteOutcome.CONFLICT
        case _:
            return WriteOutcome.FAILED


def outcome_of(error: CallFailed, subject: object) -> AttemptOutcome:
    """What the attempt ends with where the write of `subject`, such as `claim ns/a`, is not tried again."""
    match outcome := write_outcome(error):
        case WriteOutcome.GONE:
            return Retry(f"{subject} no longer exists")
        case WriteOutcome.STALE:
            return Retry(f"{subject} is being deleted, or was deallocated")
        case WriteOutcome.DEFECT:
            return Fatal(f"{subject}: {error}")
        case WriteOutcome.FULL:
            return Unschedulable(f"{subject} is reserved for the maximum number of pods: {error}", CLAIMS)
        case WriteOutcome.NO_ADMIN_ACCESS:
            return Unschedulable(f"{subject}: {error}", ADMIN_ACCESS)
        case _:
            # So is what is denied, as by kube-scheduler: nothing that is watched says when it will not be.
            return Retry(f"{subject}: {error}", after_s=_asked_s(error), is_denied=outcome in DENIED)


def _asked_s(error: CallFailed) -> float | None:
    """How long a webhook asks to wait, None for the queue's backoff. It decides about its own pods alone."""
    asked = error.retry_after_s if isinstance(error, ApiError) and error.kind is ApiErrorKind.PUT_OFF else None
    return min(asked, PUT_OFF_MAX_S) if asked else None


# Logs what others can have denied as often as they like: by its kind at once, and then at most once a minute.
#
# The kind is the namespace, of what webhooks, policies and quotas deny, or the reason why a client is rejected.


EVERY_S = 60.0
"""How often a kind is in the log."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Logged:
    """When a kind was logged, and how many denials have come since then that the log does not have."""

    at: float
    more: int = 0


def _is_recent(logged: _Logged, now: float) -> bool:
    """What was logged later than now was not: the clock was set back, and would not come to it soon."""
    return 0 <= now - logged.at < EVERY_S


class Denials:
    """The kinds that the log has named in the last minute. logger: the name of the one that writes."""

    def __init__(self, logger: str = __name__) -> None:
        self._logger = logger
        self._logged: dict[str, _Logged] = {}

    def __len__(self) -> int:
        return len(self._logged)

    def denied(self, kind: str, message: str, now: float) -> None:
        """Something of this kind was denied. message: in the words of who did it, the API server's for example."""
        logged = self._logged.get(kind)
        if logged and _is_recent(logged, now):
            logged.more += 1
            return
        more = f" ({logged.more} more since the last message)" if logged and logged.more else ""
        logging.getLogger(self._logger).warning("%s%s", message, more)
        self._logged = {name: one for name, one in self._logged.items() if _is_recent(one, now)}
        self._logged[kind] = _Logged(now)


# What keeps pods from being bound until an operator acts: the API server does not know us, or a right is missing.
#
# A right may be missing in one namespace alone, and an API server that has just started knows nobody for a second or
# two. So pods of a namespace where that was seen are tried one after the other, those of others as always, and it
# concerns the program as a whole only if it lasts and no pod is bound meanwhile.


PROBE_S = 1.0
"""How often one pod of all these namespaces is tried."""


@dataclass(slots=True)
class _Defect:
    """What was seen in one namespace. pod_uid: of the last pod that has shown it; since, last: when it was seen."""

    pod_uid: str
    reason: str
    since: float
    last: float


class Defects:
    """The defects, by namespace. is_tried: whether a pod, by its uid, is still one to be tried: only then it counts."""

    def __init__(self, is_tried: Callable[[str], bool]) -> None:
        self._is_tried = is_tried
        self._seen: dict[str, _Defect] = {}
        self._bound_at = -math.inf
        self._probe_at = -math.inf

    def __len__(self) -> int:
        return len(self._seen)

    def found(self, namespace: str, pod_uid: str, reason: str, now: float) -> None:
        """An attempt for the pod has failed for this reason; the first one stays, so that pods are told the same."""
        self._forget()
        defect = self._seen.get(namespace)
        since, first = (defect.since, defect.reason) if defect else (now, reason)
        self._seen[namespace] = _Defect(pod_uid, first, since, now)
        self._probe_at = now + PROBE_S

    def bound(self, namespace: str, now: float) -> None:
        """A pod of the namespace is bound. What was missing there is there, and most likely in the others as well."""
        self._bound_at = now
        if namespace in self._seen:
            self._seen.clear()

    def refused(self, pod_uid: str) -> None:
        """The pod shows nothing more: no node passes for it."""
        self._seen = {namespace: one for namespace, one in self._seen.items() if one.pod_uid != pod_uid}

    def objection(self, namespace: str, now: float) -> str:
        """Why no pod of the namespace is tried now; empty where one may be, which is then the only one for a while."""
        self._forget()
        if namespace not in self._seen:
            return ""
        if now < self._probe_at:
            return self._seen[namespace].reason
        self._probe_at = now + PROBE_S
        return ""

    @property
    def trouble(self) -> str:
        """Why no pod can be bound; empty while one can, or nothing is there that shows it, or not for long."""
        self._forget()
        lasting = (one for one in self._seen.values() if one.last - max(one.since, self._bound_at) >= LASTS_S)
        return next((one.reason for one in lasting), "")

    def _forget(self) -> None:
        if self._seen:
            self._seen = {namespace: one for namespace, one in self._seen.items() if self._is_tried(one.pod_uid)}
