"""The head of an HTTP/1.1 request, as far as a server of calls reads it.

A call says how long its body is, as Go's client does; a body in chunks, or a compressed one, is refused. So is a head
that two readers could understand differently, and one that does not say once which host it is for.
Source: RFC 9112, 2.2 to 6.3; RFC 9110, 5 and 15.5.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.typedefs import Handler, Middleware

from scheduler.runtime.configuration import is_loopback_host

LARGEST_HEAD = 1 << 14
"""Bytes of a head."""

_REMEMBERED = 1 << 8
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, 5.6.2
_REQUEST_LINE = re.compile(rf"({_TOKEN}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*([^\r\n\0]*)")
_LENGTH = re.compile("[0-9]{1,18}")
_HOST = re.compile(r"(?:[!$&'()*+,;=%\w.~-]*|\[[\w:.%-]*\])(?::[0-9]*)?", re.ASCII)
_USUAL = 1 << 10
"""Bytes of a head that may be remembered."""


class RefusedCall(Exception):
    """A call is not answered, but gets this status and reason. is_last: nothing more is read of the connection."""

    def __init__(self, status: int, reason: str, *, is_last: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.is_last = is_last


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a request says."""

    method: str
    path: str
    """The path without the query."""
    fields: Mapping[str, str]
    """The header fields by name, in lower case."""
    length: int
    """How many bytes the body has."""
    stays_open: bool
    """Whether the client may send another call over the connection."""


def head_of(text: bytes) -> Head:
    """The head, of which `text` is all before the empty line. Raises RefusedCall."""
    return _remembered(text) if len(text) <= _USUAL else _head_of(text)


def _head_of(text: bytes) -> Head:
    first, *lines = text.decode("latin-1").split("\r\n")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise RefusedCall(400, "the request line is not that of HTTP/1.1")
    method, target, minor = request.groups()
    fields: dict[str, str] = {}
    hosts = 0
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise RefusedCall(400, "a header field is invalid")
        name, value = field[1].lower(), field[2].rstrip(" \t")
        hosts += name == "host"
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    if problem := host_problem(hosts, fields.get("host", ""), is_required=minor == "1"):
        raise RefusedCall(400, problem)
    options = [option.strip().lower() for option in fields.get("connection", "").split(",")]
    return Head(method, target.partition("?")[0], fields, _length(fields), minor == "1" and "close" not in options)


_remembered = lru_cache(maxsize=_REMEMBERED)(_head_of)  # a client sends the same again and again


def host_problem(number: int, host: str, *, is_required: bool) -> str:
    """What is wrong with the Host fields of a request, of which the last has that value; empty where nothing is."""
    if number > 1 or (is_required and not number):
        return "there must be one Host header"
    return "" if _HOST.fullmatch(host) else "the Host header is invalid"


def _length(fields: Mapping[str, str]) -> int:
    if "transfer-encoding" in fields:
        raise RefusedCall(411, "the body must have a Content-Length")
    if fields.get("content-encoding", "identity").lower() != "identity":
        raise RefusedCall(415, "the body must not be compressed")
    length = fields.get("content-length", "0")
    if not _LENGTH.fullmatch(length):
        raise RefusedCall(400, "Content-Length must be a number")
    return int(length)


# Over plain HTTP, requests are answered that name this machine, and no others.
#
# Plain HTTP is served on loopback, where a browser of the machine reaches it. A web page whose name is resolved to a
# loopback address after it was loaded (DNS rebinding) counts as of the same origin, and could read everything. Its
# requests have its own name in the Host header. Source: RFC 9110, 7.2 (Host) and 15.5.20 (421 Misdirected Request).


MISDIRECTED = 421


def misdirection(header: str | None, allowed: Collection[str]) -> str:
    """Why a request over plain HTTP is not answered; empty where it is. header: its Host.

    allowed: names beside those of loopback, in lower case. A request of HTTP/1.0 needs no such header, and is answered:
    no browser sends one.
    """
    if header is None or _is_own(header, allowed):
        return ""
    return (
        f"host {ascii(header)[1:-1]} is not served over plain HTTP: use localhost or a loopback address, "
        "or add the name to secureServing.allowedHosts"
    )


def _is_own(header: str, allowed: Collection[str]) -> bool:
    try:
        host = (urlsplit(f"//{header}").hostname or "").removesuffix(".")
    except ValueError:  # such as an IPv6 address that is none
        return False
    return is_loopback_host(host) or host in allowed


class _AnswerInOurVersion(web.Response):
    """An answer to a request of a version that is not ours; aiohttp would answer in that version."""

    async def _write_headers(self) -> None:
        assert self._payload_writer is not None
        await self._payload_writer.write_headers(f"HTTP/1.1 {self.status} {self.reason}", self.headers)


@web.middleware
async def requiring_http_1(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers in the place of what is served, where the request is of another version, which the parser takes."""
    if request.version in (HttpVersion10, HttpVersion11):
        return await handler(request)
    refusal = _AnswerInOurVersion(status=505, text="only HTTP/1.1 and HTTP/1.0 are served\n")
    refusal.force_close()
    return refusal


@web.middleware
async def requiring_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers in the place of what is served, where the request does not say once which host it is for."""
    hosts = request.headers.getall("Host", ())
    is_required = request.version >= HttpVersion11
    if problem := host_problem(len(hosts), hosts[-1] if hosts else "", is_required=is_required):
        return web.Response(status=400, text=f"{problem}\n")
    return await handler(request)


def answering_own(allowed: Collection[str]) -> Middleware:
    """Answers in the place of what is served, where the request names another machine."""

    @web.middleware
    async def own(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.secure and (reason := misdirection(request.headers.get("Host"), allowed)):
            return web.Response(status=MISDIRECTED, text=f"{reason}\n")
        return await handler(request)

    return own
