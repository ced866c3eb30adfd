"""A proxy between a client and the API server that does wrong what a test asks for, and keeps a log of all requests.

It speaks TLS with the API server's own certificate, so that a kubeconfig through it differs by the address alone, and
passes on every header, the token among them. It runs on a thread of its own: tests may be synchronous or asyncio, and
the client another process. The faults are in `tests.controlplane.faults`; a request meets the first rule that applies.
"""

import asyncio
import json
import re
import selectors
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from scheduler.client.exchanges import LastWord
from tests.controlplane.faults import Answer, Fault, FaultsCut, Meeting, one_chunk
from tests.controlplane.identities import ADMIN, Identity, write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import Json, RestClient

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_CHUNK = 1 << 16
_LEFT_S = 0.1  # what requests that are open at the end have left
_OF_ONE_CONNECTION = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)


@dataclass(slots=True)
class Request:
    """One request as it came. status: what the client was answered; 0 while, or if, it was not."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    status: int = 0

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.query.get("watch", "").lower() in ("1", "true")

    @property
    def is_write(self) -> bool:
        """Whether it is meant to change something."""
        return self.method in WRITES

    @property
    def sent(self) -> Json:
        """The body, which has to be a JSON object."""
        found: Json = json.loads(self.body)
        return found

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.query.items())
        return f"{self.method} {self.path}{f'?{query}' if query else ''}: {self.status or 'no answer'}"


@dataclass(slots=True)
class Rule:
    """Which requests meet the fault. path: a regular expression, searched for in the path without its query.

    where: what else must hold of the request. nth: the first of the matching requests that meets it, from 1; times: how
    many do from there on, None for all. met: has happened as soon as a request has met it.
    """

    method: str
    path: str
    fault: Fault
    where: Callable[[Request], bool]
    nth: int = 1
    times: int | None = 1
    matched: int = 0
    met: Meeting = field(default_factory=Meeting)

    def applies(self, request: Request) -> bool:
        """Whether this request meets the fault; a request that matches is counted."""
        is_mine = request.method == self.method and re.search(self.path, request.path) and self.where(request)
        self.matched += bool(is_mine)
        is_over = self.times is not None and self.matched >= self.nth + self.times
        return bool(is_mine) and self.matched >= self.nth and not is_over


@dataclass(slots=True, eq=False)
class _OpenWatch:
    request: Request
    transport: asyncio.BaseTransport | None
    is_silent: bool = False


class PromptResponse(aiohttp.ClientResponse):
    """A response of the API server whose connection is closed at once, however it ends."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Wait for the head of the answer."""
        if connection.transport and (tls := connection.transport.get_extra_info("ssl_object")):
            tls.__class__ = LastWord
        return await super().start(connection)

    def close(self) -> None:
        """Drop the connection, and what was not sent yet."""
        if self.connection and self.connection.transport:
            self.connection.transport.abort()
        super().close()


class Proxy:
    """The proxy while its context is open. requests: all that came, in their order. name: where there are several."""

    def __init__(self, plane: ControlPlane, name: str = "proxied") -> None:
        self.requests: list[Request] = []
        self._plane = plane
        self._name = name
        self._rules: list[Rule] = []
        self._watches: set[_OpenWatch] = set()
        self._carried: set[asyncio.Task[Answer]] = set()
        self._port: Future[int] = Future()
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        self._port.result(TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def server(self) -> str:
        """The proxy's address."""
        return f"https://127.0.0.1:{self._port.result()}"

    def kubeconfig(self, identity: Identity) -> Path:
        """The path of a kubeconfig for the identity that leads through the proxy."""
        path = self._plane.folder / f"{identity.name}.{self._name}.kubeconfig"
        ca_file, token = self._plane.ca_file, self._plane.token_file(identity).read_text()
        write_kubeconfig(path, identity, server=self.server, ca_file=ca_file, token=token)
        return path

    def client(self, identity: Identity = ADMIN) -> RestClient:
        """A client that speaks for the identity, through the proxy."""
        return RestClient(self.server, self._plane.ca_file, self._plane.token_file(identity).read_text())

    def on(
        self,
        method: str,
        path: str,
        fault: Fault,
        *,
        where: Callable[[Request], bool] = lambda _: True,
        nth: int = 1,
        times: int | None = 1,
    ) -> Rule:
        """From now on, requests that match meet the fault; see `Rule`."""
        rule = Rule(method, path, fault, where, nth, times)
        self._rules.append(rule)
        return rule

    def forget_rules(self) -> None:
        """All requests go through again; what is held stays so until it is released."""
        self._rules.clear()

    def cut_watches(self, path: str = "") -> int:
        """Reset the running watches whose path matches, and say how many these were."""

        def cut(watch: _OpenWatch) -> None:
            self._watches.discard(watch)
            _abort(watch.transport)

        return self._at_watches(path, cut)

    def silence_watches(self, path: str = "") -> int:
        """Let the running watches whose path matches stay open without another byte, and say how many these were."""
        return self._at_watches(path, lambda watch: setattr(watch, "is_silent", True))

    def watches(self, path: str = "") -> Sequence[Request]:
        """The running watches whose path matches."""
        return [watch.request for watch in list(self._watches) if re.search(path, watch.request.path)]

    def writes(self, path: str = "") -> Sequence[Request]:
        """The writes whose path matches, in their order."""
        return [request for request in list(self.requests) if request.is_write and re.search(path, request.path)]

    @property
    def under_way(self) -> int:
        """Calls without an answer of the API server, also those whose client has hung up."""
        return len(self._carried)

    def _at_watches(self, path: str, act: Callable[[_OpenWatch], None]) -> int:
        async def act_on_all() -> int:
            chosen = [watch for watch in self._watches if re.search(path, watch.request.path)]
            for watch in chosen:
                act(watch)
            return len(chosen)

        return self._call(act_on_all())

    def _call(self, done: Coroutine[Any, Any, int]) -> int:
        return asyncio.run_coroutine_threadsafe(done, self._loop).result(TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(self._selector)) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        own_sockets = len(self._selector.get_map())
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._plane.ca_file, self._plane.key_file)
        trusted = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self._plane.ca_file), limit=0)
        no_timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=trusted, response_class=PromptResponse, auto_decompress=False, timeout=no_timeout
        ) as self._session:
            server = web.Server(self._handle, handler_cancellation=True)
            runner = web.ServerRunner(server, shutdown_timeout=_LEFT_S)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            self._port.set_result(runner.addresses[0][1])
            await self._stopped.wait()
            await site.stop()
            for task in self._carried:
                task.cancel()
            await self._cut_all(server, lambda: bool(server.connections))
            await runner.cleanup()
        # Of a connection that is in the middle of its handshake nobody is told.
        await self._cut_all(server, lambda: len(self._selector.get_map()) > own_sockets)

    async def _cut_all(self, server: web.Server, are_left: Callable[[], bool]) -> None:
        while are_left():  # TLS closes its socket in a few turns, and tells nobody
            for connection in server.connections:
                _abort(connection.transport)
            await asyncio.sleep(0)

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        headers = {key: value for key, value in incoming.headers.items() if key.lower() not in _OF_ONE_CONNECTION}
        request = Request(incoming.method, incoming.path, dict(incoming.query), headers, await incoming.read())
        self.requests.append(request)
        with suppress(FaultsCut, aiohttp.ClientError), ExitStack() as upstream:
            return await self._answered(incoming, request, upstream)
        _abort(incoming.transport)
        return web.Response()  # to nobody: aiohttp wants one

    async def _answered(self, incoming: web.BaseRequest, request: Request, upstream: ExitStack) -> web.StreamResponse:
        carried = asyncio.create_task(self._carry(request, incoming.rel_url, upstream))
        self._carried.add(carried)
        carried.add_done_callback(self._carried.discard)
        # A call goes on when its client has hung up: that is what makes an outcome unknown.
        answer = await (carried if request.is_watch else asyncio.shield(carried))
        request.status = answer.status
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        watch = _OpenWatch(request, incoming.transport)
        if request.is_watch:
            self._watches.add(watch)
        try:
            await response.prepare(incoming)
            async with aclosing(answer.body) as body:
                async for chunk in body:
                    if not watch.is_silent:
                        await response.write(chunk)
            await response.write_eof()
        finally:
            if request.is_watch:
                self._watches.discard(watch)
        return response

    async def _carry(self, request: Request, url: URL, upstream: ExitStack) -> Answer:
        async def forward() -> Answer:
            return await self._forward(request, url, upstream)

        for rule in list(self._rules):
            if rule.applies(request):
                rule.met.happen()
                return await rule.fault(forward)
        return await forward()

    async def _forward(self, request: Request, url: URL, upstream: ExitStack) -> Answer:
        target = URL(f"{self._plane.server}{url.raw_path_qs}", encoded=True)
        body = request.body or None
        answer = await self._session.request(request.method, target, headers=request.headers, data=body)
        if request.is_watch and answer.status == web.HTTPOk.status_code:
            upstream.callback(answer.close)
            return Answer(answer.status, _headers(answer.headers), _lines(answer))
        return Answer(answer.status, _headers(answer.headers), one_chunk(await answer.read()))


def _headers(headers: CIMultiDictProxy[str]) -> Mapping[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in _OF_ONE_CONNECTION}


async def _lines(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The answer's lines, however long."""
    rest = b""
    async for chunk in answer.content.iter_chunked(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _abort(transport: asyncio.BaseTransport | None) -> None:
    """Reset the connection; what was written and not sent yet is lost."""
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
