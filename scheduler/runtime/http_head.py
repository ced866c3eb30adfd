"""The head of an HTTP/1.1 request, as far as a server of calls reads it.

A call says how long its body is, as Go's client does; a body in chunks, or a compressed one, is refused. So is a head
that two readers could understand differently, and one that does not say once which host it is for.
Source: RFC 9112, 2.2 to 6.3; RFC 9110, 5 and 15.5.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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
    """path: without the query. fields: by name in lower case. length: bytes of the body.

    stays_open: whether the client may send another call over the connection.
    """

    method: str
    path: str
    fields: Mapping[str, str]
    length: int
    stays_open: bool


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
        found = _FIELD.fullmatch(line)
        if found is None:
            raise RefusedCall(400, "a header field is invalid")
        name, value = found[1].lower(), found[2].rstrip(" \t")
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
