"""A head is read as RFC 9112 says, or refused."""

import pytest

from scheduler.runtime.listening import RefusedCall, _remembered, head_of


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
    head = head_of(text_of(f"POST / HTTP/{version}", "Host: a", f"Connection: {connection}"))
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
        (400, ["POST / HTTP/1.1", "Host: a", "no colon"]),
        (400, ["POST / HTTP/1.1", "Host: a", "Content-Length : 2"]),
        (400, ["POST / HTTP/1.1", "Host: a", "A: b", " folded"]),
        (400, ["POST / HTTP/1.1", "Host: a", "A: b\nContent-Length: 2"]),
        (400, ["POST / HTTP/1.1", "Host: a", "A: b\0"]),
        (400, ["POST / HTTP/1.1", "Host: a", "Content-Length: 2", "Content-Length: 3"]),
        (400, ["POST / HTTP/1.1", "Host: a", "Content-Length: +2"]),
        (400, ["POST / HTTP/1.1", "Host: a", "Content-Length: \xb2"]),
        (400, ["POST / HTTP/1.1", "Host: a", f"Content-Length: {'9' * 19}"]),
        (400, ["POST / HTTP/1.1"]),
        (400, ["POST / HTTP/1.1", "Host: a", "Host: a"]),
        (400, ["POST / HTTP/1.0", "Host: a", "HOST: b"]),
        (400, ["POST / HTTP/1.1", "Host: a b"]),
        (400, ["POST / HTTP/1.1", "Host: a, b:1:2"]),
        (400, ["POST / HTTP/1.1", "Host: user@a"]),
        (400, ["POST / HTTP/1.1", "Host: [::1"]),
        (411, ["POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "Content-Length: 2"]),
        (415, ["POST / HTTP/1.1", "Host: a", "Content-Encoding: gzip", "Content-Length: 2"]),
    ],
)
def test_head_that_is_not_understood_is_refused(status: int, lines: list[str]) -> None:
    with pytest.raises(RefusedCall) as refused:
        head_of(text_of(*lines))
    assert refused.value.status == status


@pytest.mark.parametrize("host", ["a", "a:1", "a.b:", "127.0.0.1:9444", "[::1]:9444", "[fe80::1%25eth0]", "", "%41"])
def test_host_may_be_any_name_or_address(host: str) -> None:
    assert head_of(text_of("POST / HTTP/1.1", f"Host: {host}")).fields["host"] == host


def test_clients_of_http_1_0_need_no_host() -> None:
    assert head_of(text_of("POST / HTTP/1.0")).fields == {}


def test_only_heads_of_usual_size_are_remembered() -> None:
    _remembered.cache_clear()
    for size in (100, 10_000):
        for _ in range(2):
            head_of(text_of("POST / HTTP/1.1", "Host: a", f"A: {'a' * size}"))
    assert _remembered.cache_info()[:2] == (1, 1)
    assert _remembered.cache_info().currsize == 1
