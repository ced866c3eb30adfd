"""What an answer that is no success says, and whether the write may have happened."""

import orjson
import pytest

from scheduler.client.errors import READ_MAX, TEXT_MAX, ApiError, ApiStatus, Cause, Unanswered, api_error


def test_refusal_carries_the_fields_of_the_status() -> None:
    body = (
        b'{"kind":"Status","reason":"Invalid","message":"no","details":{"causes":'
        b'[{"field":"status.allocation","reason":"FieldValueForbidden","message":"why"}],"retryAfterSeconds":2}}'
    )
    error = api_error("PUT /x", 422, body)
    assert str(error) == "PUT /x: 422 Invalid: no"
    assert error.causes == (Cause("status.allocation", "FieldValueForbidden", "why"),)
    assert error.retry_after_s == 2.0


@pytest.mark.parametrize(
    ("message", "reported"),
    [
        ('spec: Invalid value: {"a":{"password":"x}"}}: is immutable', "spec: Invalid value: ...: is immutable"),
        ('a: Invalid value: ["x"]: no, b: Bad value: {"y":1}: no', "a: Invalid value: ...: no, b: Bad value: ...: no"),
        ('spec: Invalid value: {"a":{"password":"x', "spec: Invalid value: ..."),
        ("spec: Invalid value: " + "[" * 100_000, "spec: Invalid value: ..."),
        ('status.x: Invalid value: "nope": must be a name', 'status.x: Invalid value: "nope": must be a name'),
    ],
)
def test_objects_that_a_refusal_repeats_are_left_out(message: str, reported: str) -> None:
    cause = {"field": "spec", "reason": "FieldValueInvalid", "message": message}
    error = api_error("PUT /x", 422, orjson.dumps({"message": message, "details": {"causes": [cause]}}))
    assert str(error) == f"PUT /x: 422: {reported}"
    assert error.causes[0].message == reported


def test_what_a_webhook_says_at_length_is_cut() -> None:
    long = "x" * 700_000
    cause = {"field": long, "reason": long, "message": long}
    error = api_error("PUT /x", 403, orjson.dumps({"reason": long, "message": long, "details": {"causes": [cause]}}))
    shortened = "x" * TEXT_MAX + "..."
    assert str(error) == f"PUT /x: 403 {shortened}: {shortened}"
    assert error.causes == (Cause(shortened, shortened, shortened),)


def test_no_more_than_so_much_of_what_a_webhook_says_is_looked_at() -> None:
    """Nor is an object told of which the end is not seen."""
    message = f'value: {{"secret": "{"x" * READ_MAX}"}}: at its end'
    assert str(api_error("PUT /x", 403, orjson.dumps({"message": message}))) == "PUT /x: 403: value: ..."


@pytest.mark.parametrize("url", ["https://localhost:9444/v1/x/66e4", "https://dra-guard.kube-system.svc:443/66e4"])
@pytest.mark.parametrize("quote", ['"', '\\"'])
def test_path_of_a_webhook_that_does_not_answer_is_not_told(url: str, quote: str) -> None:
    begin = 'Internal error occurred: failed calling webhook "guard.dra-scheduler.dev": failed to call webhook: '
    error = api_error("PUT /x", 500, orjson.dumps({"message": f"{begin}Post {quote}{url}?timeout=5s{quote}: EOF"}))
    host = url.split("/")[2]
    assert str(error) == f"PUT /x: 500: {begin}Post {quote}https://{host}/...{quote}: EOF"


def test_link_in_the_message_of_a_webhook_stays() -> None:
    message = 'admission webhook "a.example.com" denied the request: see https://example.com/rules/gpus?of=team-a'
    assert api_error("PUT /x", 403, orjson.dumps({"message": message})).message == message


def test_page_of_a_proxy_becomes_the_message() -> None:
    assert str(api_error("GET /x", 502, b"<html>Bad Gateway</html>\n")) == "GET /x: 502: <html>Bad Gateway</html>"


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("", None), ("Wed, 21 Oct 2015 07:28:00 GMT", None)])
def test_retry_after_is_read_where_it_gives_seconds(header: str, seconds: float | None) -> None:
    assert api_error("GET /x", 429, b"{}", header).retry_after_s == seconds


@pytest.mark.parametrize(
    ("call", "status", "is_ambiguous"),
    [
        ("PUT /x", 409, False),
        ("PUT /x", 422, False),
        ("PUT /x", 429, False),
        ("PUT /x", 408, True),
        ("POST /x", 500, True),
        ("PATCH /x", 503, True),
        ("PUT /x", 504, True),
        ("GET /x", 500, False),
    ],
)
def test_write_is_ambiguous_where_the_server_was_in_trouble(call: str, status: int, *, is_ambiguous: bool) -> None:
    assert api_error(call, status, b"").is_ambiguous is is_ambiguous


DENIED = 'admission webhook "quiet.example" denied the request: not today'


@pytest.mark.parametrize(
    ("call", "namespace", "told"),
    [
        ("DELETE /api/v1/namespaces/a/pods/x", "a", f"DELETE /api/v1/namespaces/a/pods/x: 403 Forbidden: {DENIED}"),
        ("GET /api/v1/nodes/n", "a", f"GET /api/v1/nodes/n: 403 Forbidden: {DENIED}"),
        (
            "PATCH /api/v1/namespaces/a/pods/x/status",
            "b",
            "a call for an object of another namespace failed: the API server answered 403",
        ),
    ],
)
def test_of_another_namespace_neither_names_are_told_nor_what_its_webhooks_say(
    call: str, namespace: str, told: str
) -> None:
    assert ApiError(call, 403, ApiStatus("Forbidden", DENIED)).message_in(namespace) == told


def test_of_another_namespace_it_is_told_that_no_answer_came() -> None:
    error = Unanswered("DELETE /api/v1/namespaces/a/pods/x", "timed out", is_ambiguous=True)
    assert error.message_in("a") == str(error)
    assert error.message_in("b") == "a call for an object of another namespace failed: the API server did not answer"


def test_gone_is_expired() -> None:
    assert api_error("GET /x", 410, b"").is_expired
    assert not api_error("GET /x", 404, b"").is_expired


def test_unanswered_call_names_itself() -> None:
    assert str(Unanswered("PUT /x", "no answer in time", is_ambiguous=True)) == "PUT /x: no answer in time"
