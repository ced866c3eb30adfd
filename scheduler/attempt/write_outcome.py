"""What a failed write means for the attempt, by status and `details.causes`.

422 may mean a missing permission for `resourceclaims/binding`, a lost race, a full claim, or a claim that is being
deleted. 403 comes from RBAC, which only an operator can fix, or from a policy about this one object.
Source: k8s.io/kubernetes pkg/registry/resource/resourceclaim and pkg/apis/resource/validation, as of 1.36.3.
"""

import re
from enum import Enum

from scheduler.attempt.decision import AttemptOutcome, Fatal, Retry, Unschedulable
from scheduler.client.errors import ApiError, CallFailed, Cause, Withheld
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS, CLAIMS, DENIED

_BINDING = "resourceclaims/binding"
_OF_RBAC = re.compile(r'[^"]*("[^"]*" )?is forbidden: User ".*" cannot ')
"""At the beginning: a policy's message may hold whatever its object holds, this text among it."""


class WriteOutcome(Enum):
    """What a failed write means.

    CONFLICT: the object has changed. UNKNOWN: the write may have been carried out, or not. NOT_SENT: it was not, since
    the API server was not reached or no connection was free. GONE: the object is no more.
    STALE: the claim is being deleted, or is no longer allocated. FULL: it cannot be reserved for one more pod.
    NO_ADMIN_ACCESS: its namespace is not labelled for it. DENIED: a policy or a quota refuses this one object. DEFECT:
    a right is missing, which only an operator can grant. FAILED: anything else.
    """

    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    NOT_SENT = "not sent"
    GONE = "gone"
    STALE = "stale"
    FULL = "full"
    NO_ADMIN_ACCESS = "no admin access"
    DENIED = "denied"
    DEFECT = "defect"
    FAILED = "failed"


_WORTH_A_LOOK = frozenset({WriteOutcome.CONFLICT, WriteOutcome.UNKNOWN, WriteOutcome.NOT_SENT, WriteOutcome.GONE})
_BY_STATUS = {404: WriteOutcome.GONE, 409: WriteOutcome.CONFLICT, 410: WriteOutcome.GONE, 401: WriteOutcome.DEFECT}


def write_outcome(error: CallFailed) -> WriteOutcome:
    """What the error means. UNKNOWN: the write may have been carried out; every other: it was not."""
    if isinstance(error, Withheld):
        return WriteOutcome.FAILED
    if error.is_ambiguous:
        return WriteOutcome.UNKNOWN
    if not isinstance(error, ApiError):
        return WriteOutcome.NOT_SENT
    if error.status == 403:
        return _of_forbidden(error)
    if error.status == 422:
        return _of_invalid(error.causes)
    return _BY_STATUS.get(error.status, WriteOutcome.FAILED)


def may_pass(error: CallFailed) -> bool:
    """Whether the same may succeed once things were looked at again, or later: all but the server's considered no."""
    is_in_trouble = isinstance(error, ApiError) and (error.status >= 500 or error.status == 429)
    return is_in_trouble or write_outcome(error) in _WORTH_A_LOOK


def _of_forbidden(error: ApiError) -> WriteOutcome:
    """RBAC names the user and the verb, and no causes; quota and policies speak of the object."""
    return WriteOutcome.DEFECT if _OF_RBAC.match(error.message) and not error.causes else WriteOutcome.DENIED


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


_REFUSED_BY = {WriteOutcome.NO_ADMIN_ACCESS: ADMIN_ACCESS, WriteOutcome.DENIED: DENIED}


def outcome_of(error: CallFailed, subject: object) -> AttemptOutcome:
    """What the attempt ends with where the write of `subject`, such as `claim ns/a`, is not tried again."""
    match write_outcome(error):
        case WriteOutcome.DEFECT:
            return Fatal(f"{subject}: {error}")
        case WriteOutcome.GONE:
            return Retry(f"{subject} no longer exists")
        case WriteOutcome.FULL:
            return Unschedulable(f"{subject} is reserved for the maximum number of pods: {error}", CLAIMS)
        case WriteOutcome.NO_ADMIN_ACCESS | WriteOutcome.DENIED as found:
            return Unschedulable(f"{subject}: {error}", _REFUSED_BY[found])
        case WriteOutcome.STALE:
            return Retry(f"{subject} is being deleted, or was deallocated")
        case _:
            return Retry(f"{subject}: {error}")
