"""One client's connection to a server of calls: reads calls of HTTP/1.1, and writes their answers, one after the other.

aiohttp's server takes more time for a call than TLS and most answers: it makes two tasks, and a dozen objects. Here, a
call that has arrived is answered in the same turn of the event loop, and only an answer that is not ready is a task.

A body is read only after its head was admitted; the rest of a refused one is discarded, so that its client, which is
still writing, reads the answer. Who is sent away is not read any more: to decipher what he sends takes time as well.
"""

import asyncio
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Protocol, cast

from scheduler.runtime.http_head import LARGEST_HEAD, Head, RefusedCall, head_of

Answer = tuple[int, bytes]
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

    def answer(self, body: bytes) -> Answer | Awaitable[Answer]:
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
        self._idle.cancel()
        if self._late is not None:
            self._late.cancel()
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
        if self._call is not None and head.fields.get("expect", "").lower() == "100-continue":
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
            found = call.answer(body)
        except RefusedCall as problem:
            found = problem.status, self._server.error(problem.reason)
        if isinstance(found, tuple):
            self._answer(call, found)
        else:
            self.task = self._loop.create_task(self._answer_later(call, found))

    async def _answer_later(self, call: AdmittedCall, found: Awaitable[Answer]) -> None:
        answer = await found
        self.task = None
        self._answer(call, answer)
        if self._unread and not self.transport.is_closing():
            self._go_on()

    def _answer(self, call: AdmittedCall, answer: Answer) -> None:
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
        self._loop.call_later(LEAVE_S, self.transport.abort)

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
