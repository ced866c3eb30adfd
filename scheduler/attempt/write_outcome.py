"""What an error of a write means for the attempt, told by status and `details.causes`, not by the call.

A lack of rights on `resourceclaims/binding` comes as 422, and so do a lost race, a full claim and a claim that is being
deleted. A 403 is either RBAC's, which only an operator can mend, or a policy's, which speaks of this one object.
Source: k8s.io/kubernetes pkg/registry/resource/resourceclaim and pkg/apis/resource/validation, observed on 1.36.3.
"""

import re
from enum import Enum

from scheduler.attempt.decision import Fatal, Outcome, Refused, Retry
from scheduler.client.errors import ApiError, CallFailed, Cause, Withheld
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS, CLAIMS, DENIED

_BINDING = "resourceclaims/binding"
_OF_RBAC = re.compile(r'[^"]*("[^"]*" )?is forbidden: User ".*" cannot ')
"""At the beginning: a policy's message may hold whatever its object holds, this text among it."""


class Verdict(Enum):
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


_WORTH_A_LOOK = frozenset({Verdict.CONFLICT, Verdict.UNKNOWN, Verdict.NOT_SENT, Verdict.GONE})
_BY_STATUS = {404: Verdict.GONE, 409: Verdict.CONFLICT, 410: Verdict.GONE, 401: Verdict.DEFECT}


def verdict(error: CallFailed) -> Verdict:
    """What the error means. UNKNOWN: the write may have been carried out; every other: it was not."""
    if isinstance(error, Withheld):
        return Verdict.FAILED
    if error.is_ambiguous:
        return Verdict.UNKNOWN
    if not isinstance(error, ApiError):
        return Verdict.NOT_SENT
    if error.status == 403:
        return _of_forbidden(error)
    if error.status == 422:
        return _of_invalid(error.causes)
    return _BY_STATUS.get(error.status, Verdict.FAILED)


def may_pass(error: CallFailed) -> bool:
    """Whether the same may succeed once things were looked at again, or later: all but the server's considered no."""
    is_in_trouble = isinstance(error, ApiError) and (error.status >= 500 or error.status == 429)
    return is_in_trouble or verdict(error) in _WORTH_A_LOOK


def _of_forbidden(error: ApiError) -> Verdict:
    """RBAC names the user and the verb, and no causes; quota and policies speak of the object."""
    return Verdict.DEFECT if _OF_RBAC.match(error.message) and not error.causes else Verdict.DENIED


def _of_invalid(causes: tuple[Cause, ...]) -> Verdict:
    found = {_of_cause(cause) for cause in causes}
    # Where several rules are violated, the one that nobody but an operator can mend comes first.
    return next((verdict for verdict in _PRECEDENCE if verdict in found), Verdict.FAILED)


_PRECEDENCE = (Verdict.DEFECT, Verdict.NO_ADMIN_ACCESS, Verdict.STALE, Verdict.FULL, Verdict.CONFLICT)


def _of_cause(cause: Cause) -> Verdict:
    match cause.reason:
        case "FieldValueForbidden" if _BINDING in cause.message:
            return Verdict.DEFECT
        case "FieldValueForbidden" if cause.field.endswith(".adminAccess"):
            return Verdict.NO_ADMIN_ACCESS
        case "FieldValueForbidden" if cause.field == "status.reservedFor":
            return Verdict.STALE
        case "FieldValueTooMany" if cause.field == "status.reservedFor":
            return Verdict.FULL
        case "FieldValueInvalid" if cause.field == "status.allocation" and "field is immutable" in cause.message:
            return Verdict.CONFLICT
        case _:
            return Verdict.FAILED


_REFUSED_BY = {Verdict.NO_ADMIN_ACCESS: ADMIN_ACCESS, Verdict.DENIED: DENIED}


def outcome_of(error: CallFailed, subject: object) -> Outcome:
    """What the attempt ends with where the write of `subject`, such as `claim ns/a`, is not tried again."""
    match verdict(error):
        case Verdict.DEFECT:
            return Fatal(f"{subject}: {error}")
        case Verdict.GONE:
            return Retry(f"{subject} no longer exists")
        case Verdict.FULL:
            return Refused(f"{subject} is reserved for as many pods as can be: {error}", CLAIMS)
        case Verdict.NO_ADMIN_ACCESS | Verdict.DENIED as found:
            return Refused(f"{subject}: {error}", _REFUSED_BY[found])
        case Verdict.STALE:
            return Retry(f"{subject} is being deleted, or was deallocated")
        case _:
            return Retry(f"{subject}: {error}")
