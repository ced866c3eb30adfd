"""Over plain HTTP, requests are answered that name this machine, and no others.

Plain HTTP is served on loopback, where a browser of the machine reaches it. A web page whose name is resolved to a
loopback address after it was loaded (DNS rebinding) counts as of the same origin, and could read everything. Its
requests have its own name in the Host header.
Source: RFC 9110, 7.2 (Host) and 15.5.20 (421 Misdirected Request).
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import HttpVersion11, web
from aiohttp.typedefs import Handler, Middleware

from scheduler.runtime.configuration import is_loopback_host
from scheduler.runtime.http_head import host_problem

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
