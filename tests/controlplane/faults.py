"""Faults for `tests.controlplane.proxy`: what becomes of one request on its way to the API server and back.

A fault is given the request's way on (`forward`) and answers in its place: before it, instead of it, after it, or by
changing what comes back. An answer's body is a stream of chunks, of lines for a watch, so that one that has begun can
still go wrong.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import Enum

from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import Cause, Json


class FaultsCut(Exception):
    """The connection to the client is to be reset, without another byte."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client is given. body: in chunks; it may end in a `Cut`."""

    status: int
    headers: Mapping[str, str]
    body: AsyncGenerator[bytes, None]


Forward = Callable[[], Awaitable[Answer]]
"""Sends the request on and gives the API server's answer; at most once."""

Fault = Callable[[Forward], Awaitable[Answer]]


def refuse(
    status: int, reason: str, message: str = "injected", causes: Sequence[Cause] = (), retry_after_s: int | None = None
) -> Fault:
    """Answers instead of the API server, with a Status as it would write it."""
    headers = {"Content-Type": "application/json"}
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    body = json.dumps(status_object(status, reason, message, causes, retry_after_s)).encode()

    async def answer(_: Forward) -> Answer:
        return Answer(status, headers, one_chunk(body))

    return answer


async def cut_before(_: Forward) -> Answer:
    """The request never reaches the API server, and the connection is reset."""
    raise FaultsCut


async def lose_answer(forward: Forward) -> Answer:
    """The API server carries it out, and the connection is reset before a byte of the answer."""
    await forward()
    raise FaultsCut


async def withhold_answer(forward: Forward) -> Answer:
    """The API server carries it out, and no answer comes for as long as the client waits."""
    answer = await forward()
    await asyncio.Event().wait()
    return answer


@dataclass(frozen=True, slots=True)
class HangUp:
    """No answer comes, and the connection is reset after a while. is_done: the API server carries it out anyway."""

    seconds: float
    is_done: bool

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        if self.is_done:
            await forward()
        await asyncio.sleep(self.seconds)
        raise FaultsCut


class CutAndGoOn:
    """The connection is reset at once, and the request goes on all the same, with that fault."""

    def __init__(self, then: Fault) -> None:
        self._then = then
        self._going_on: set[asyncio.Task[Answer]] = set()

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        task = asyncio.ensure_future(self._then(forward))
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        raise FaultsCut


def send_twice(status: int, reason: str) -> Fault:
    """Somebody on the way repeats what was carried out already, and the client is told of the second time alone."""
    refused = refuse(status, reason)

    async def act(forward: Forward) -> Answer:
        await forward()
        return await refused(forward)

    return act


def meanwhile(action: Callable[[], object]) -> Fault:
    """Somebody else acts first: the action is done (in a thread of its own), then the request goes on."""

    async def act(forward: Forward) -> Answer:
        await asyncio.to_thread(action)
        return await forward()

    return act


@dataclass(frozen=True, slots=True)
class Delay:
    """The request, and a watch as well as any, comes so much later."""

    seconds: float

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        await asyncio.sleep(self.seconds)
        return await forward()


class Hold:
    """The request waits on the way there until `release`, and goes on even if the client has given up by then."""

    def __init__(self, then: Fault | None = None) -> None:
        self._then = then
        self._released: Future[None] = Future()

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        await asyncio.shield(asyncio.wrap_future(self._released))
        return await (self._then(forward) if self._then else forward())

    def release(self) -> None:
        """Let it go on, and all that come later; from any thread."""
        if not self._released.done():
            self._released.set_result(None)


class Then(Enum):
    """How a watch ends. END: in good order, as after its timeoutSeconds. SILENCE: nothing comes and nothing says so."""

    END = "end"
    RESET = "reset"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch that goes wrong after so many whole lines, bookmarks counted. last: what is still sent before its end."""

    after_lines: int
    then: Then
    last: bytes = b""

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        answer = await forward()
        return replace(answer, body=self._ended(answer.body))

    async def _ended(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(lines):
            for _ in range(self.after_lines):
                if not (line := await anext(lines, b"")):
                    return
                yield line
        if self.last:
            yield self.last
        if self.then is Then.RESET:
            raise FaultsCut
        if self.then is Then.SILENCE:
            await asyncio.Event().wait()


class Rewrite:
    """What comes back is changed: a page as a whole, a watch line by line. change: may be set anew at any time."""

    def __init__(self, change: Callable[[bytes], bytes] = bytes) -> None:
        self.change = change

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        answer = await forward()
        return replace(answer, body=self._changed(answer.body))

    async def _changed(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield self.change(chunk)


@dataclass(slots=True)
class Lag:
    """A watch that is so many lines behind, for as long as `is_on`; what is kept back comes with the next line then."""

    lines: int
    is_on: bool = False

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        answer = await forward()
        return replace(answer, body=self._late(answer.body))

    async def _late(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        kept: deque[bytes] = deque()
        async with aclosing(lines):
            async for line in lines:
                kept.append(line)
                while len(kept) > (self.lines if self.is_on else 0):
                    yield kept.popleft()


HALF_A_LINE = b'{"type":"MODIFIED","object":{"apiVersion":"v1","me'


def error_event(status: int, reason: str, message: str = "injected") -> bytes:
    """The line by which a server says that a watch cannot go on."""
    event = {"type": "ERROR", "object": status_object(status, reason, message)}
    return json.dumps(event).encode() + b"\n"


def status_object(
    status: int, reason: str, message: str, causes: Sequence[Cause] = (), retry_after_s: int | None = None
) -> Json:
    """The Status of a refusal."""
    reported = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    details: Json = {"causes": reported} if reported else {}
    if retry_after_s is not None:
        details["retryAfterSeconds"] = retry_after_s
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**kind, "message": message, "reason": reason, "details": details, "code": status}


async def one_chunk(body: bytes) -> AsyncGenerator[bytes, None]:
    """A body that is there as a whole."""
    yield body


class Meeting:
    """That something has happened, told from one thread to another."""

    def __init__(self) -> None:
        self._happened: Future[None] = Future()

    def happen(self) -> None:
        """It has, the first time or again."""
        if not self._happened.done():
            self._happened.set_result(None)

    def wait(self, timeout_s: float = TIMEOUT_S) -> None:
        """Block until it has; TimeoutError otherwise."""
        self._happened.result(timeout_s)

    async def reached(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until it has; TimeoutError otherwise."""
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._happened)), timeout_s)
