"""Who says no by an answer, and to whom: the API server itself, or a webhook, a policy or a quota about one object.

`answers.json` has answers of a real API server (1.36.3), as it sent them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.attempt.write_outcome import WriteOutcome, may_pass, outcome_of, write_outcome
from scheduler.client.errors import ApiError, ApiErrorKind, api_error

ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text())
CALL = "PUT /apis/resource.k8s.io/v1/namespaces/work/resourceclaims/a"
DENIED_BY = 'admission webhook "hook.example.com" denied the request'
CODES = range(400, 600)
OWN: Mapping[int, ApiErrorKind] = {
    401: ApiErrorKind.UNAUTHENTICATED,
    403: ApiErrorKind.DENIED,  # authorization would name the user
    404: ApiErrorKind.MISSING,
    408: ApiErrorKind.TROUBLED,
    409: ApiErrorKind.CONFLICT,
    410: ApiErrorKind.EXPIRED,
    422: ApiErrorKind.INVALID,
    429: ApiErrorKind.BUSY,
}
"""The server's own codes; of the others, 5xx are its trouble."""


def answered(status: int, body: Mapping[str, Any]) -> ApiError:
    return api_error(CALL, status, json.dumps(body).encode())


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["what"])
def test_answer_of_a_real_server_is_told_by_its_words(answer: Mapping[str, Any]) -> None:
    assert answered(answer["status"], answer["body"]).kind is ApiErrorKind(answer["means"])


@pytest.mark.parametrize("code", CODES)
def test_code_of_the_server_itself_means_what_http_says(code: int) -> None:
    expected = OWN.get(code, ApiErrorKind.TROUBLED if code >= 500 else ApiErrorKind.REFUSED)
    assert answered(code, {"kind": "Status", "message": "no", "code": code}).kind is expected


DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=5),
        "retryAfterSeconds": st.integers(0, 1000),
        "causes": st.lists(
            st.fixed_dictionaries({"field": st.just("spec"), "message": st.text(max_size=5)}), max_size=2
        ),
    },
)


@given(
    code=st.sampled_from(CODES),
    reason=st.sampled_from(
        ["", "Unauthorized", "Forbidden", "NotFound", "Conflict", "Expired", "TooManyRequests", "Timeout"]
    ),
    words=st.sampled_from(
        ["", ": no", ': it is forbidden: User "ours" cannot update it', " without explanation", ": Unauthorized"]
    ),
    details=DETAILS,
)
def test_whatever_a_webhook_answers_concerns_its_object_alone_and_is_not_stored(
    code: int, reason: str, words: str, details: Mapping[str, Any]
) -> None:
    error = answered(code, {"message": DENIED_BY + words, "reason": reason, "details": details, "code": code})
    assert error.kind is (ApiErrorKind.PUT_OFF if code == 429 else ApiErrorKind.DENIED)
    assert not error.is_ambiguous
    assert not may_pass(error)
    assert write_outcome(error) in (WriteOutcome.DENIED, WriteOutcome.PUT_OFF)
    assert DENIED_BY in getattr(outcome_of(error, "claim work/a"), "reason", "")


@pytest.mark.parametrize("message", ["no: " + DENIED_BY, 'configmaps "x" is invalid: ' + DENIED_BY])
def test_words_of_a_webhook_elsewhere_in_a_message_are_not_the_servers(message: str) -> None:
    assert answered(401, {"message": message}).kind is ApiErrorKind.UNAUTHENTICATED
    assert answered(500, {"message": message}).kind is ApiErrorKind.TROUBLED


@pytest.mark.parametrize(
    ("code", "begin"), [(500, ""), (409, 'Operation cannot be fulfilled on pods/binding "a": ')], ids=["write", "bind"]
)
def test_what_is_too_large_for_etcd_is_not_stored(code: int, begin: str) -> None:
    message = f"{begin}etcdserver: request is too large"
    error = answered(code, {"message": message})
    assert error.kind is ApiErrorKind.DENIED
    assert not error.is_ambiguous
    assert answered(code, {"message": message.replace("is too large", "timed out")}).kind is not ApiErrorKind.DENIED
    assert answered(code, {"message": f"no: {message}"}).kind is not ApiErrorKind.DENIED


def test_401_with_details_is_not_about_who_calls() -> None:
    assert answered(401, {"message": "Unauthorized", "details": {"name": "a"}}).kind is ApiErrorKind.REFUSED


def test_page_of_a_proxy_that_lets_nobody_in_is_about_who_calls() -> None:
    assert api_error(CALL, 401, b"<html>log in</html>").kind is ApiErrorKind.UNAUTHENTICATED
