"""Serves verbs over HTTP: TLS, allowed clients, and limits of size, concurrency and time.

A body is read only after its caller is identified, and only while all bodies together fit into the memory limit.

A call that cannot be answered gets a status other than 200, with the reason in the program's own format. No client sees
a traceback.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.attempt.attempts import INTERNAL
from scheduler.runtime.listening import Limits, listening
from scheduler.runtime.own_hosts import MISDIRECTED, misdirection
from scheduler.runtime.tls import is_allowed, names_in

LARGEST_BODY = 10 * 1024 * 1024
"""Bytes of a call: the objects of some thousand nodes, or the names of half a million."""

MOST_BYTES = 128 * 1024 * 1024
"""Of bodies that are in memory at the same time: of a thousand calls that name 5,000 nodes each."""

READ_S = 10.0
"""For so long the body of a call may take to come."""

IDLE_S = 120.0
"""For so long a connection may bring no call, or no whole head of one; kube-scheduler closes one after 90 s."""

_LOG = logging.getLogger(__name__)

Verb = Callable[[bytes], bytes | Awaitable[bytes]]
"""From the body of a call to the body of its answer. Raises Malformed."""


class Malformed(ValueError):
    """A request that cannot be read; the message names what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ServedVerbs:
    """The served verbs. prefix: of all paths, such as `/v1`. verbs: by name, which is the rest of the path.

    error: the body of an answer that is nothing but an error. clients: names that a client's certificate may have; any
    where there are none. most_calls: calls of one verb under way at the same time, beyond which further calls get 503.
    called: called for each call that was answered: the verb, the status, and how long it took. limits: of connections.
    most_bytes: of bodies in memory at the same time. read_s: for so long the body of a call may take to come. idle_s:
    for so long a connection is kept that brings no call. hosts: as `misdirection` takes them.
    """

    prefix: str
    verbs: Mapping[str, Verb]
    error: Callable[[str], bytes]
    clients: Collection[str]
    most_calls: int
    called: Callable[[str, int, float], None]
    limits: Limits = field(default_factory=Limits)
    most_bytes: int = MOST_BYTES
    read_s: float = READ_S
    idle_s: float = IDLE_S
    hosts: Collection[str] = ()


@asynccontextmanager
async def serving(address: str, context: ssl.SSLContext | None, served: ServedVerbs) -> AsyncIterator[str]:
    """Serves while the context is open. address: HOST:PORT, port 0 for any that is free; gives the URL up to the verb.

    context: None for plain HTTP. Raises CannotServe.
    """
    async with listening("address", address, _application(served), context, served.limits) as where:
        yield f"{'https' if context else 'http'}://{where}{served.prefix}"


def _application(served: ServedVerbs) -> web.Application:
    application = web.Application(client_max_size=LARGEST_BODY, handler_args={"keepalive_timeout": served.idle_s})
    room = _Room(served.most_bytes)
    for name, verb in served.verbs.items():
        application.router.add_post(f"{served.prefix}/{name}", _handler(name, verb, served, room))
    return application


def _handler(name: str, verb: Verb, served: ServedVerbs, room: "_Room") -> Handler:
    under_way = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal under_way
        began, under_way = time.monotonic(), under_way + 1
        try:
            _check(request, served, under_way)
            with room.of(request):
                found = verb(await _body(request, served.read_s))
                answer = _answer(200, found if isinstance(found, bytes) else await found)
        except _RefusedCall as refused:
            answer = _answer(refused.status, served.error(refused.reason))
        except Malformed as problem:
            answer = _answer(400, served.error(str(problem)))
        except Exception:  # noqa: BLE001 - whatever it is, the caller gets an error, and the others their answers
            _LOG.exception("a call failed", extra={"verb": name})
            answer = _answer(500, served.error(INTERNAL))
        finally:
            under_way -= 1
        served.called(name, answer.status, time.monotonic() - began)
        return answer

    return handle


class _RefusedCall(Exception):
    """A call is not answered."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class _Room:
    """How many bytes of bodies may still come into memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most = self._left = most_bytes

    @contextmanager
    def of(self, request: web.Request) -> Iterator[None]:
        """Room for the body of the call, while the context is open. Raises _RefusedCall."""
        needed = _largest_of(request)
        if needed > self._left:
            raise _RefusedCall(503, f"the calls in progress already use the limit of {self._most} bytes")
        self._left -= needed
        try:
            yield
        finally:
            self._left += needed


def _largest_of(request: web.Request) -> int:
    """The largest size of the body, in bytes. Raises _RefusedCall if it is too large."""
    length = request.content_length
    if length is not None and length > LARGEST_BODY:
        raise _too_large()
    return LARGEST_BODY if length is None or "Content-Encoding" in request.headers else length


def _too_large() -> _RefusedCall:
    return _RefusedCall(413, f"the body is larger than {LARGEST_BODY} bytes")


def _check(request: web.Request, served: ServedVerbs, under_way: int) -> None:
    """Raises _RefusedCall where the caller may not call, or not now."""
    if reason := misdirection(request, served.hosts):
        raise _RefusedCall(MISDIRECTED, reason)
    if "Origin" in request.headers:
        raise _RefusedCall(403, "calls of web pages are not answered")  # a page may send some without reading answers
    if served.clients:
        certificate = request.get_extra_info("peercert")
        if not is_allowed(certificate, served.clients):
            names = ", ".join(names_in(certificate)) or "no name"
            _LOG.warning("rejected a client: none of its names is allowed", extra={"names": names})
            raise _RefusedCall(403, f"the client's certificate has {names}, none of which is allowed")
    if under_way > served.most_calls:
        raise _RefusedCall(503, f"{served.most_calls} calls of this verb are already in progress")


async def _body(request: web.Request, timeout_s: float) -> bytes:
    """Raises _RefusedCall."""
    try:
        async with asyncio.timeout(timeout_s):
            return await request.read()
    except TimeoutError as error:
        raise _RefusedCall(408, f"the body did not arrive within {timeout_s:g} s") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large() from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise _RefusedCall(400, f"the body cannot be read: {error}") from error


def _answer(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")
