"""A head is read as RFC 9112 says, or refused."""

import pytest

from scheduler.runtime.http_head import RefusedCall, head_of


def text_of(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


def test_head_of_a_call() -> None:
    head = head_of(text_of("POST /v1/filter?timeout=5s HTTP/1.1", "Host: a:1", "CONTENT-length:  12 ", "X: a", "x: b"))
    assert (head.method, head.path, head.length, head.stays_open) == ("POST", "/v1/filter", 12, True)
    assert head.fields == {"host": "a:1", "content-length": "12", "x": "a, b"}


@pytest.mark.parametrize(
    ("version", "connection", "stays_open"),
    [("1.1", "keep-alive", True), ("1.1", "x, Close", False), ("1.0", "keep-alive", False)],
)
def test_who_may_call_again(version: str, connection: str, *, stays_open: bool) -> None:
    head = head_of(text_of(f"POST / HTTP/{version}", f"Connection: {connection}"))
    assert (head.length, head.stays_open) == (0, stays_open)


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        (400, [""]),
        (400, ["POST /"]),
        (400, ["POST / HTTP/2.0"]),
        (400, ["POST  / HTTP/1.1"]),
        (400, ["POST /a b HTTP/1.1"]),
        (400, ["POST /\xe4 HTTP/1.1"]),
        (400, ["POST / HTTP/1.1", "no colon"]),
        (400, ["POST / HTTP/1.1", "Content-Length : 2"]),
        (400, ["POST / HTTP/1.1", "A: b", " folded"]),
        (400, ["POST / HTTP/1.1", "A: b\nContent-Length: 2"]),
        (400, ["POST / HTTP/1.1", "A: b\0"]),
        (400, ["POST / HTTP/1.1", "Content-Length: 2", "Content-Length: 3"]),
        (400, ["POST / HTTP/1.1", "Content-Length: +2"]),
        (400, ["POST / HTTP/1.1", "Content-Length: \xb2"]),
        (400, ["POST / HTTP/1.1", f"Content-Length: {'9' * 19}"]),
        (411, ["POST / HTTP/1.1", "Transfer-Encoding: chunked", "Content-Length: 2"]),
        (415, ["POST / HTTP/1.1", "Content-Encoding: gzip", "Content-Length: 2"]),
    ],
)
def test_head_that_is_not_understood_is_refused(status: int, lines: list[str]) -> None:
    with pytest.raises(RefusedCall) as refused:
        head_of(text_of(*lines))
    assert refused.value.status == status
