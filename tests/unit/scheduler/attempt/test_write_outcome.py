"""What each refusal of the API server means, with the words of a real one."""

import pytest

from scheduler.attempt.decision import AttemptOutcome, Fatal, Retry, Unschedulable
from scheduler.attempt.write_outcome import PUT_OFF_MAX_S, WriteOutcome, may_pass, outcome_of, write_outcome
from scheduler.client.errors import ApiError, ApiStatus, CallFailed, Cause, Unanswered, Withheld

CALL = "PUT /apis/resource.k8s.io/v1/namespaces/work/resourceclaims/claim/status"
NO_RIGHT = (
    'Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
    'verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "u" cannot update'
)


def refusal(status: int, reason: str = "", message: str = "", *causes: Cause) -> ApiError:
    return ApiError(CALL, status, ApiStatus(reason, message, causes))


def invalid(*causes: Cause) -> ApiError:
    return refusal(422, "Invalid", "the claim is invalid", *causes)


FORBIDDEN_BINDING = Cause("status.allocation", "FieldValueForbidden", NO_RIGHT)
DELETING = Cause("status.reservedFor", "FieldValueForbidden", "Forbidden: new entries may not be added while ...")
FULL = Cause("status.reservedFor", "FieldValueTooMany", "Too many: 257: must have at most 256 items")
IMMUTABLE = Cause("status.allocation", "FieldValueInvalid", "Invalid value: {...}: field is immutable")
NO_LABEL = Cause("status.allocation.devices.results[0].adminAccess", "FieldValueForbidden", "Forbidden: admin access")
MISNAMED = Cause("status.allocation.devices.results[0].device", "FieldValueInvalid", "Invalid value: a lowercase ...")
OF_USER = 'resourceclaims.resource.k8s.io "claim" is forbidden: User "u" cannot update resource "resourceclaims/status"'
OF_WEBHOOK = 'admission webhook "w.example" denied the request: this pool cannot be used'
OF_POLICY = "ValidatingAdmissionPolicy 'v' with binding 'v' denied request: User \"u\" cannot have it"


@pytest.mark.parametrize(
    ("error", "meaning", "outcome"),
    [
        (refusal(409, "Conflict"), WriteOutcome.CONFLICT, Retry),
        (refusal(404, "NotFound"), WriteOutcome.GONE, Retry),
        (refusal(401, "Unauthorized"), WriteOutcome.DEFECT, Fatal),
        (refusal(403, "Forbidden", OF_USER), WriteOutcome.DEFECT, Fatal),
        (refusal(403, "Forbidden", OF_POLICY, Cause("", "", OF_POLICY)), WriteOutcome.DENIED, Retry),
        (refusal(403, "Forbidden", "exceeded quota: q"), WriteOutcome.DENIED, Retry),
        (refusal(403, "Forbidden", OF_WEBHOOK), WriteOutcome.DENIED, Retry),
        (refusal(429, "", OF_WEBHOOK), WriteOutcome.PUT_OFF, Retry),
        (invalid(FORBIDDEN_BINDING), WriteOutcome.DEFECT, Fatal),
        (invalid(IMMUTABLE, FORBIDDEN_BINDING), WriteOutcome.DEFECT, Fatal),
        (invalid(DELETING), WriteOutcome.STALE, Retry),
        (invalid(FULL), WriteOutcome.FULL, Unschedulable),
        (invalid(IMMUTABLE), WriteOutcome.CONFLICT, Retry),
        (invalid(NO_LABEL), WriteOutcome.NO_ADMIN_ACCESS, Unschedulable),
        (invalid(MISNAMED), WriteOutcome.FAILED, Retry),
        (invalid(), WriteOutcome.FAILED, Retry),
        (refusal(429, "TooManyRequests"), WriteOutcome.FAILED, Retry),
        (refusal(500, "InternalError"), WriteOutcome.UNKNOWN, Retry),
        (refusal(504, "Timeout"), WriteOutcome.UNKNOWN, Retry),
        (Unanswered(CALL, "cut", is_ambiguous=True), WriteOutcome.UNKNOWN, Retry),
        (Unanswered(CALL, "refused", is_ambiguous=False), WriteOutcome.NOT_SENT, Retry),
    ],
)
def test_refusal_is_reported_by_its_status_and_causes(
    error: CallFailed, meaning: WriteOutcome, outcome: type[AttemptOutcome]
) -> None:
    assert write_outcome(error) is meaning
    assert isinstance(outcome_of(error, "claim work/claim"), outcome)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (ApiError("GET /api/v1/namespaces/work/pods/pod", 500, ApiStatus("InternalError", "")), True),
        (refusal(429, "TooManyRequests"), True),
        (refusal(429, "TooManyRequests", OF_WEBHOOK), False),
        (refusal(409, "Conflict"), True),
        (refusal(400, "BadRequest"), False),
        (invalid(MISNAMED), False),
        (refusal(403, "Forbidden", OF_USER), False),
        (Unanswered(CALL, "cut", is_ambiguous=True), True),
        (Withheld(CALL), False),
    ],
)
def test_only_the_considered_no_of_the_server_is_final(error: CallFailed, may: bool) -> None:  # noqa: FBT001
    assert may_pass(error) is may


def test_outcome_names_the_object_and_keeps_the_words_of_the_server() -> None:
    outcome = outcome_of(invalid(FORBIDDEN_BINDING), "claim work/claim")
    assert isinstance(outcome, Fatal)
    assert outcome.reason.startswith("claim work/claim: PUT ")
    assert "the claim is invalid" in outcome.reason


@pytest.mark.parametrize(("asked_s", "after_s"), [(None, None), (7.0, 7.0), (1e9, PUT_OFF_MAX_S)])
def test_pod_that_is_put_off_comes_when_the_webhook_says_or_after_its_backoff(
    asked_s: float | None, after_s: float | None
) -> None:
    error = ApiError(CALL, 429, ApiStatus("", OF_WEBHOOK, retry_after_s=asked_s))
    outcome = outcome_of(error, "claim work/claim")
    assert isinstance(outcome, Retry)
    assert outcome.after_s == after_s
    assert outcome.is_denied
