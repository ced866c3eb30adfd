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
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol, cast

from scheduler.attempt.attempts import INTERNAL
from scheduler.attempt.write_outcome import Denials
from scheduler.client.raw_json import has_more_values
from scheduler.runtime.listening import (
    LARGEST_HEAD,
    MISDIRECTED,
    STOPPED_S,
    Head,
    Limits,
    OpenConnection,
    RefusedCall,
    Standing,
    accepting,
    head_of,
    misdirection,
)
from scheduler.runtime.tls import is_allowed, names_in

# One client's connection to a server of calls: reads calls of HTTP/1.1, and writes their answers, one after the other.
#
# aiohttp's server takes more time for a call than TLS and most answers: it makes two tasks, and a dozen objects. Here,
# a call that has arrived is answered in the same turn of the event loop, and only an answer that is not ready is a
# task.
#
# A body is read only after its head was admitted; the rest of a refused one is discarded, so that its client, which is
# still writing, reads the answer. Who is sent away is not read any more: to decipher what he sends takes time as well.


StatusAndBody = tuple[int, bytes]
"""Status, and JSON."""

LEAVE_S = 1.0
"""For so long a client that is sent away may read why; what it sends meanwhile stays in the kernel."""

_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class AdmittedCall(Protocol):
    """A call whose head was admitted. Each one is told of its end, by `ended`."""

    def grow(self, size: int) -> None:
        """So many bytes more of its body are in memory. Raises RefusedCall."""
        ...

    def answer(self, body: bytes) -> StatusAndBody | Awaitable[StatusAndBody]:
        """The answer to its body, which has come as a whole. Raises RefusedCall, and nothing else."""
        ...

    def ended(self, status: int) -> None:
        """It was answered."""
        ...


class CallServer(Protocol):
    """What the connections of one server share.

    connections: those that are open, the oldest first. unfinished: those with a call whose body has not all come, the
    oldest first. read_s: for so long a body may take to come. idle_s: for so long a connection may bring no head.
    """

    connections: "dict[CallConnection, None]"
    unfinished: "dict[CallConnection, None]"
    read_s: float
    idle_s: float

    def admit(self, head: Head, connection: "CallConnection") -> AdmittedCall:
        """The call may send its body. Raises RefusedCall."""
        ...

    def error(self, reason: str) -> bytes:
        """The JSON of a refusal."""
        ...


class CallConnection(asyncio.Protocol):
    """A connection.

    task: of the answer that is being made; None where there is none, or it was ready at once. is_known: its client has
    sent a whole call that was admitted. is_leaving: it was sent away, and may read why.
    """

    transport: asyncio.Transport

    def __init__(self, server: CallServer) -> None:
        self.task: asyncio.Task[None] | None = None
        self.is_known = False
        self.is_leaving = False
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._is_full = False  # of answers that the client does not read
        self._unread = b""  # the beginning of a head, or what has come while it may not be read
        self._head: Head | None = None
        self._call: AdmittedCall | None = None  # None with a head: it was refused
        self._body: bytes | bytearray = b""  # not a list: its client may send it byte by byte
        self._left = 0  # bytes of the body
        self._late: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._is_last = False

    def give_up(self, problem: RefusedCall) -> None:
        """Refuse the call whose body has not all come, and send the client away."""
        call, self._call, self._body = self._call, None, b""
        self._server.unfinished.pop(self, None)
        self._is_last = True
        if call is not None:
            self._refuse(problem)
            call.ended(problem.status)
        self._send_away()

    def close_when_answered(self) -> None:
        """Take no further call."""
        self._is_last = True
        if self.task is None:
            self.transport.close()

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        self.transport = cast(asyncio.Transport, transport)
        self._server.connections[self] = None
        self._quiet_since = self._loop.time()
        self._idle = self._loop.call_later(self._server.idle_s, self._close_idle)

    def connection_lost(self, _: Exception | None) -> None:
        """The client has gone, or was sent away. An answer that is being made goes on."""
        del self._server.connections[self]
        self._server.unfinished.pop(self, None)
        # Until it is cancelled, a timer keeps the connection, with all the memory that it was read into.
        for timer in (self._idle, self._late, self._leaving):
            if timer is not None:
                timer.cancel()
        if self._call is not None and self.task is None:
            self._call.ended(400)
            self._call = None

    def pause_writing(self) -> None:
        """The client reads no answers: it shall not cause more of them."""
        self._is_full = True

    def resume_writing(self) -> None:
        """It does again."""
        self._is_full = False
        self._go_on()

    def data_received(self, data: bytes) -> None:
        """Answer what has come."""
        if self._unread:
            data, self._unread = self._unread + data, b""
        while data and self._may_read and not self.transport.is_closing():
            if self._head is None:
                text, end, rest = data.partition(_END)
                if len(text) > LARGEST_HEAD:
                    self._refuse_for_good(RefusedCall(431, f"the head is larger than {LARGEST_HEAD} bytes"))
                    return
                if not end:
                    break
                self._begin(text)
                data = rest
            data = self._read(data)
        self._unread = data
        if data and not self._may_read:
            self.transport.pause_reading()

    @property
    def _may_read(self) -> bool:
        return self.task is None and not self._is_full and not self.is_leaving

    def _go_on(self) -> None:
        self.data_received(b"")
        if self._may_read:
            self.transport.resume_reading()

    # -- a call

    def _begin(self, text: bytes) -> None:
        """Admit the call, or answer it at once."""
        try:
            head = head_of(text)
        except RefusedCall as problem:
            self._refuse_for_good(problem)
            return
        self._head, self._left = head, head.length
        self._is_last = self._is_last or not head.stays_open
        try:
            self._call = self._server.admit(head, self)
            self._server.unfinished[self] = None
        except RefusedCall as problem:
            if problem.is_last:
                self._refuse_for_good(problem)
            else:
                self._refuse(problem)

    def _read(self, data: bytes) -> bytes:
        """Take what has come of the body; what came after it."""
        if self._head is None:
            return b""
        if self._call is not None and not self._take(self._call, data[: self._left]):
            return b""
        rest = data[self._left :]
        self._left = max(self._left - len(data), 0)
        if self._left:
            self._wait_for_body(self._head)
        else:
            self._end_body()
        return rest

    def _take(self, call: AdmittedCall, data: bytes) -> bool:
        """Keep what has come of the body; False if there is no room for it."""
        try:
            call.grow(len(data))
        except RefusedCall as problem:
            self.give_up(problem)
            return False
        if isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body + data) if self._body else data
        return True

    def _wait_for_body(self, head: Head) -> None:
        if self._late is not None:
            return
        if self._call is not None and head.waits_to_go_on:
            self.transport.write(_CONTINUE)
        self._late = self._loop.call_later(self._server.read_s, self._give_up)

    def _end_body(self) -> None:
        """Answer the call, unless it was refused."""
        if self._late is not None:
            self._late.cancel()
            self._late = None
        call, body = self._call, bytes(self._body)
        self._body = b""
        if call is None:
            self._done()
            return
        self.is_known = True
        del self._server.unfinished[self]
        try:
            answer = call.answer(body)
        except RefusedCall as problem:
            answer = problem.status, self._server.error(problem.reason)
        if isinstance(answer, tuple):
            self._answer(call, answer)
        else:
            self.task = self._loop.create_task(self._answer_later(call, answer))

    async def _answer_later(self, call: AdmittedCall, found: Awaitable[StatusAndBody]) -> None:
        answer = await found
        self.task = None
        self._answer(call, answer)
        if self._unread and not self.transport.is_closing():
            self._go_on()

    def _answer(self, call: AdmittedCall, answer: StatusAndBody) -> None:
        self._call = None
        if not self.transport.is_closing():
            self._write(*answer)
        call.ended(answer[0])
        self._done()

    def _refuse(self, problem: RefusedCall) -> None:
        self._write(problem.status, self._server.error(problem.reason))

    def _refuse_for_good(self, problem: RefusedCall) -> None:
        """Where the next call begins is not known, or does not matter."""
        self._is_last = True
        self._refuse(problem)
        self._send_away()

    def _send_away(self) -> None:
        """Read nothing more, and cut the connection off once its client has had time to read the answer.

        A transport over TLS that is closed goes on to decipher, until its client has closed it as well.
        """
        self.is_leaving = True
        self.transport.pause_reading()
        self._leaving = self._loop.call_later(LEAVE_S, self.transport.abort)

    def _write(self, status: int, body: bytes) -> None:
        is_wanted = self._head is None or self._head.method != "HEAD"
        last = b"Connection: close\r\n" if self._is_last else b""
        self.transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
            % (status, _PHRASES[status], len(body), last, body if is_wanted else b"")
        )

    def _done(self) -> None:
        """The call was answered, and all of it has come: another one may."""
        self._head = None
        self._quiet_since = self._loop.time()
        if self._is_last:
            self.transport.close()

    # -- time

    def _close_idle(self) -> None:
        """Close the connection if it has brought no head for too long."""
        quiet_s = 0.0 if self._head is not None else self._loop.time() - self._quiet_since
        if quiet_s >= self._server.idle_s:
            self.transport.close()
        else:
            self._idle = self._loop.call_later(self._server.idle_s - quiet_s, self._close_idle)

    def _give_up(self) -> None:
        """The body takes too long, that of a refused call too."""
        self.give_up(RefusedCall(408, f"the body did not arrive within {self._server.read_s:g} s"))


_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}


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

_LOG = logging.getLogger(__name__)

Verb = Callable[[bytes], bytes | Awaitable[bytes]]
"""From the body of a call to the body of its answer. Raises Malformed."""


class Malformed(ValueError):
    """A request that cannot be read; the message names what is wrong with it."""


def require_few_values(body: bytes) -> None:
    """Raises Malformed where the JSON has more values than MOST_VALUES. Cost: O(size)."""
    if has_more_values(body, MOST_VALUES):
        raise Malformed(f"the body has more than {MOST_VALUES:,} values and names")


@dataclass(frozen=True, slots=True)
class ServedVerbs:
    """The served verbs."""

    prefix: str
    """What all paths begin with, such as `/v1`."""
    verbs: Mapping[str, Verb]
    """The verbs by name, which is the rest of the path."""
    error: Callable[[str], bytes]
    """The body of an answer that is nothing but an error."""
    clients: Collection[str]
    """Names that a client's certificate may have; any where there are none."""
    most_calls: int
    """Calls of one verb under way at the same time, beyond which further calls get 503."""
    called: Callable[[str, int, float], None]
    """Called for each call that was answered: the verb, the status, and how long it took."""
    limits: Limits = field(default_factory=Limits)
    """The limits of connections."""
    largest_body: int = LARGEST_BODY
    """How many bytes one call may have."""
    most_bytes: int = MOST_BYTES
    """How many bytes of bodies may be in memory at the same time, as far as they have come."""
    read_s: float = READ_S
    """How long the body of a call may take to come."""
    idle_s: float = IDLE_S
    """How long a connection is kept that brings no call."""
    hosts: Collection[str] = ()
    """Names that a call may be sent to, as `misdirection` takes them."""
    secret: Container[str] | None = None
    """The segments of which one has to follow the verb in a path; None if paths end with the verb."""


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
        self._rejections = Denials(__name__)

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
        try:
            self._check_client(connection.transport)
        except RefusedCall as problem:
            with suppress(RefusedCall):  # at another path it is no call of a verb
                self.served.called(self._verb_at(head.path), problem.status, 0.0)
            raise
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
        if head.length > self.served.largest_body:
            raise RefusedCall(413, f"the body is larger than {self.served.largest_body} bytes")

    def _check_client(self, transport: asyncio.Transport) -> None:
        """Raises RefusedCall where it may call nothing: nothing more is read of it, however many calls it sends."""
        if not self.served.clients:
            return
        certificate = transport.get_extra_info("peercert")
        if not is_allowed(certificate, self.served.clients):
            names = ", ".join(names_in(certificate)) or "no name"
            said = f"the client's certificate has {names}, none of which is allowed"
            self._rejections.denied(said, f"rejected a client: {said}", time.monotonic())
            raise RefusedCall(403, said, is_last=True)


@dataclass(slots=True)
class _VerbCall:
    """A call in progress."""

    server: _VerbServer
    name: str
    verb: Verb
    began: float
    connection: CallConnection
    size: int = 0
    """Bytes of its body that have come."""
    is_whole: bool = False
    """Its body has come whole, so that it counts among the calls under way."""

    def grow(self, size: int) -> None:
        """Take room for that part of the body. Raises RefusedCall."""
        self.server.make_room(size, self.connection)
        self.size += size

    def answer(self, body: bytes) -> StatusAndBody | Awaitable[StatusAndBody]:
        """What the verb answers. Raises RefusedCall."""
        most = self.server.served.most_calls
        if self.server.under_way[self.name] >= most:
            raise RefusedCall(503, f"{most} calls of this verb are already in progress")
        self.server.under_way[self.name] += 1
        self.is_whole = True
        try:
            answer = self.verb(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an error, and the others their answers
            return self._failed(error)
        return (200, answer) if isinstance(answer, bytes) else self._awaited(answer)

    async def _awaited(self, found: Awaitable[bytes]) -> StatusAndBody:
        try:
            return 200, await found
        except Exception as error:  # noqa: BLE001 - the same
            return self._failed(error)

    def _failed(self, error: Exception) -> StatusAndBody:
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
