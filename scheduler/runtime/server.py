"""Serves verbs over HTTP: TLS, allowed clients, and limits of size, concurrency and time.

A body is read only after its caller is identified. No limit is reached by announcing a call: only what has come counts.
If bodies reach the memory limit, the oldest one that has not all come makes room.

A call that cannot be answered gets a status other than 200, with the reason in the program's own format. No client sees
a traceback.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scheduler.attempt.attempts import INTERNAL
from scheduler.client.raw_json import has_more_values
from scheduler.runtime.call_connection import Answer, CallConnection
from scheduler.runtime.http_head import Head, RefusedCall
from scheduler.runtime.listening import STOPPED_S, Limits, OpenConnection, Standing, accepting
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

MOST_VALUES = 1 << 20
"""Of the JSON of a call, names included. Each takes up to 180 bytes once it is read, and two in the body.

No two versions of an object that an API server stores have as many, and no nodes of a cluster.
"""

LONGEST_MESSAGE = 1 << 12
"""Characters that a caller is told."""

_LOG = logging.getLogger(__name__)

Verb = Callable[[bytes], bytes | Awaitable[bytes]]
"""From the body of a call to the body of its answer. Raises Malformed."""


class Malformed(ValueError):
    """A request that cannot be read; the message names what is wrong with it."""


def require_few_values(body: bytes) -> None:
    """Raises Malformed where the JSON has more values than MOST_VALUES. Cost: O(size)."""
    if has_more_values(body, MOST_VALUES):
        raise Malformed(f"the body has more than {MOST_VALUES:,} values and names")


def in_short(message: str) -> str:
    """At most LONGEST_MESSAGE characters of it: parts of a call may be in it."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 3]}..."


@dataclass(frozen=True, slots=True)
class ServedVerbs:
    """The served verbs. prefix: of all paths, such as `/v1`. verbs: by name, which is the rest of the path.

    error: the body of an answer that is nothing but an error. clients: names that a client's certificate may have; any
    where there are none. most_calls: calls of one verb under way at the same time, beyond which further calls get 503.
    largest_body: bytes of one call.
    called: called for each call that was answered: the verb, the status, and how long it took. limits: of connections.
    most_bytes: of bodies in memory at the same time, as far as they have come. read_s: for so long the body of a call
    may take to come. idle_s: for so long a connection is kept that brings no call. hosts: as `misdirection` takes them.
    secret: the segments of which one has to follow the verb in a path; None if paths end with the verb.
    """

    prefix: str
    verbs: Mapping[str, Verb]
    error: Callable[[str], bytes]
    clients: Collection[str]
    most_calls: int
    called: Callable[[str, int, float], None]
    limits: Limits = field(default_factory=Limits)
    largest_body: int = LARGEST_BODY
    most_bytes: int = MOST_BYTES
    read_s: float = READ_S
    idle_s: float = IDLE_S
    hosts: Collection[str] = ()
    secret: Container[str] | None = None


@asynccontextmanager
async def serving(address: str, context: ssl.SSLContext | None, served: ServedVerbs) -> AsyncIterator[str]:
    """Serves while the context is open. address: HOST:PORT, port 0 for any that is free; gives the URL up to the verb.

    context: None for plain HTTP. Raises CannotServe.
    """
    server = _VerbServer(served)
    try:
        async with accepting("address", address, server, context, served.limits) as where:
            yield f"{'https' if context else 'http'}://{where}{served.prefix}"
    finally:
        await server.stop()


class _VerbServer:
    """The calls of all verbs, and the connections over which they come; see `CallServer` and `Service`.

    room: how many bytes of bodies may still come into memory. under_way: calls, by verb.
    """

    def __init__(self, served: ServedVerbs) -> None:
        self.served = served
        self.connections: dict[CallConnection, None] = {}
        self.unfinished: dict[CallConnection, None] = {}
        self.read_s = served.read_s
        self.idle_s = served.idle_s
        self.room = served.most_bytes
        self.under_way = dict.fromkeys(served.verbs, 0)

    def __call__(self) -> CallConnection:
        return CallConnection(self)

    def standing(self, connection: OpenConnection) -> Standing:
        """Who the client is, as far as is known."""
        assert isinstance(connection, CallConnection)
        if connection.is_leaving:
            return Standing.CLOSING
        if connection.task is not None:
            return Standing.CALLING
        return Standing.KNOWN if connection.is_known else Standing.STRANGER

    async def stop(self) -> None:
        """Close all connections; calls in progress have a second to end."""
        for connection in list(self.connections):
            connection.close_when_answered()
        tasks = [connection.task for connection in self.connections if connection.task]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOPPED_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self.connections):
            connection.transport.close()

    def error(self, reason: str) -> bytes:
        """The body of an answer that is nothing but an error."""
        return self.served.error(reason)

    def make_room(self, size: int, connection: CallConnection) -> None:
        """Let so many bytes of a body into memory, at the cost of older bodies that have not all come."""
        while size > self.room:
            oldest = next(iter(self.unfinished), connection)
            problem = RefusedCall(503, f"the calls in progress already use the limit of {self.served.most_bytes} bytes")
            if oldest is connection:
                raise problem
            oldest.give_up(problem)
        self.room -= size

    def admit(self, head: Head, connection: CallConnection) -> "_VerbCall":
        """The call of a verb. Raises RefusedCall."""
        name = self._verb_at(head.path)
        verb = self.served.verbs[name]
        if head.method != "POST":
            raise RefusedCall(405, "verbs are called by POST")
        call = _VerbCall(self, name, verb, time.monotonic(), connection)
        try:
            self._check(head, connection.transport)
        except RefusedCall as problem:
            self.served.called(name, problem.status, call.duration_s())
            raise
        return call

    def _verb_at(self, path: str) -> str:
        """The name of the verb. Raises RefusedCall; of a stranger's call nothing more is read."""
        secret, rest = self.served.secret, path
        if secret is not None:
            rest, _, segment = path.rpartition("/")
            if segment not in secret:
                rest = ""
        prefix, _, name = rest.rpartition("/")
        if prefix != self.served.prefix or name not in self.served.verbs:
            raise RefusedCall(404, "there is nothing at this path", is_last=secret is not None)
        return name

    def _check(self, head: Head, transport: asyncio.Transport) -> None:
        """Raises RefusedCall where the caller may not call."""
        is_secure = transport.get_extra_info("sslcontext") is not None
        if not is_secure and (reason := misdirection(head.fields.get("host"), self.served.hosts)):
            raise RefusedCall(MISDIRECTED, reason)
        if "origin" in head.fields:  # a page may send calls whose answers it cannot read
            raise RefusedCall(403, "calls of web pages are not answered")
        self._check_client(transport)
        if head.length > self.served.largest_body:
            raise RefusedCall(413, f"the body is larger than {self.served.largest_body} bytes")

    def _check_client(self, transport: asyncio.Transport) -> None:
        if not self.served.clients:
            return
        certificate = transport.get_extra_info("peercert")
        if not is_allowed(certificate, self.served.clients):
            names = ", ".join(names_in(certificate)) or "no name"
            _LOG.warning("rejected a client: none of its names is allowed", extra={"names": names})
            raise RefusedCall(403, f"the client's certificate has {names}, none of which is allowed")


@dataclass(slots=True)
class _VerbCall:
    """A call in progress. size: of its body, as far as it has come. is_whole: it counts among those under way."""

    server: _VerbServer
    name: str
    verb: Verb
    began: float
    connection: CallConnection
    size: int = 0
    is_whole: bool = False

    def grow(self, size: int) -> None:
        """Take room for that part of the body. Raises RefusedCall."""
        self.server.make_room(size, self.connection)
        self.size += size

    def answer(self, body: bytes) -> Answer | Awaitable[Answer]:
        """What the verb answers. Raises RefusedCall."""
        most = self.server.served.most_calls
        if self.server.under_way[self.name] >= most:
            raise RefusedCall(503, f"{most} calls of this verb are already in progress")
        self.server.under_way[self.name] += 1
        self.is_whole = True
        try:
            found = self.verb(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an error, and the others their answers
            return self._failed(error)
        return (200, found) if isinstance(found, bytes) else self._awaited(found)

    async def _awaited(self, found: Awaitable[bytes]) -> Answer:
        try:
            return 200, await found
        except Exception as error:  # noqa: BLE001 - the same
            return self._failed(error)

    def _failed(self, error: Exception) -> Answer:
        if isinstance(error, Malformed):
            return 400, self.server.error(str(error))
        _LOG.error("a call failed", exc_info=error, extra={"verb": self.name})
        return 500, self.server.error(INTERNAL)

    def ended(self, status: int) -> None:
        """Make room for others."""
        self.server.room += self.size
        self.server.under_way[self.name] -= self.is_whole
        self.server.served.called(self.name, status, self.duration_s())

    def duration_s(self) -> float:
        """How long it takes so far."""
        return time.monotonic() - self.began
