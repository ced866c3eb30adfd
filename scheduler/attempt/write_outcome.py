"""What a failed write means for the attempt, by the kind of the error and `details.causes`.

422 may mean a missing permission for `resourceclaims/binding`, a lost race, a full claim, or a claim that is being
deleted.
Source: k8s.io/kubernetes pkg/registry/resource/resourceclaim and pkg/apis/resource/validation, as of 1.36.3.
"""

from collections.abc import Mapping
from enum import Enum

from scheduler.attempt.decision import AttemptOutcome, Fatal, Retry, Unschedulable
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed, Cause, Withheld
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


def may_pass(error: CallFailed) -> bool:
    """Whether the same may succeed once things were looked at again, or later: all but the server's considered no."""
    is_in_trouble = isinstance(error, ApiError) and error.kind in (ApiErrorKind.TROUBLED, ApiErrorKind.BUSY)
    return is_in_trouble or write_outcome(error) in _WORTH_A_LOOK


def _of_invalid(causes: tuple[Cause, ...]) -> WriteOutcome:
    found = {_of_cause(cause) for cause in causes}
    # Where several rules are violated, the one that nobody but an operator can mend comes first.
    return next((write_outcome for write_outcome in _PRECEDENCE if write_outcome in found), WriteOutcome.FAILED)


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
    match found := write_outcome(error):
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
            return Retry(f"{subject}: {error}", after_s=_asked_s(error), is_denied=found in DENIED)


def _asked_s(error: CallFailed) -> float | None:
    """How long a webhook asks to wait, None for the queue's backoff. It decides about its own pods alone."""
    asked = error.retry_after_s if isinstance(error, ApiError) and error.kind is ApiErrorKind.PUT_OFF else None
    return min(asked, PUT_OFF_MAX_S) if asked else None
