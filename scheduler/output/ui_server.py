"""`/ui` and its events over HTTP: read-only, with a bounded number of streams; without one, nothing is worked out.

A reader who does not read gets no more until he does, then all that has changed meanwhile; nobody waits for him.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiohttp import web

from scheduler.decision.cluster import Cluster
from scheduler.output.time_line import AllocatedShares, DecisionLog, TimeLine

if TYPE_CHECKING:
    from scheduler.output.live_view import LiveView


# What a program shows of itself at `/ui`.


@dataclass(frozen=True, slots=True)
class UiSource:
    """What a program shows."""

    title: str
    """Of the page."""
    cluster: Cluster
    decisions: DecisionLog
    queue: Callable[[], Iterable[Mapping[str, object]]]
    """Pods that wait, as JSON objects."""
    waiting: Callable[[], int]
    """How many they are."""
    troubles: Callable[[], Iterable[str]]
    """What keeps the program from its work, or an operator should know of."""
    cluster_name: str
    """Such as the context of the kubeconfig."""
    groups: Callable[[int], Iterable[Mapping[str, object]]] = lambda _: ()
    """The groups of the first so many pods that wait, as JSON objects."""


PATH, EVENTS_PATH = "/ui", "/ui/events"

MOST_STREAMS = 8
"""Readers at the same time; of the connections of the health address, most are left to probes and Prometheus."""

WRITE_S = 30.0
"""A reader who takes nothing for so long is let go."""

STREAM_S = 600.0
"""A stream ends after so long; the page opens the next one by itself, for which it is asked again who reads."""

ALIVE_S = 5.0
"""After so long without a change something is written, so that a reader who has gone is noticed."""

RETRY_MS = 1000
"""So soon a page whose stream has ended opens the next one."""

CHUNK_BYTES = 64 * 1024
"""About so much is written at once, and before more, the reader has to take it."""

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Ui:
    """Serves the page. Put its routes into an application before it runs."""

    def __init__(self, source: UiSource) -> None:
        self._source = source
        self._streams: set[asyncio.Task[Any]] = set()  # Any: of whichever handler
        self._view: LiveView | None = None
        self._following: asyncio.Task[None] | None = None
        self._sampling: asyncio.Task[None] | None = None
        shares = AllocatedShares(source.cluster, time.monotonic)
        self.time_line = TimeLine(
            shares, source.waiting, lambda: source.decisions.number, now=time.time, clock=time.monotonic
        )

    @property
    def readers(self) -> int:
        """How many look."""
        return len(self._streams)

    def attach(self, application: web.Application) -> None:
        """Add the routes."""
        application.router.add_get(PATH, self._page)
        application.router.add_get(EVENTS_PATH, self._events, allow_head=False)
        application.on_startup.append(self._begin)
        application.on_shutdown.append(self._end)

    async def _page(self, _: web.Request) -> web.Response:
        await asyncio.to_thread(_import)
        from scheduler.output.live_view import headers, live_page

        release = self._source.cluster.fleet.current.features.release.name
        text = live_page(self._source.title, [*filter(None, [self._source.cluster_name]), f"Kubernetes {release}"])
        return web.Response(text=text, content_type="text/html", headers={**_HEADERS, **headers()})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if len(self._streams) >= MOST_STREAMS:
            text = f"{MOST_STREAMS} pages are open already\n"
            return web.Response(status=503, text=text, headers={**_HEADERS, "Retry-After": "5"})
        task = asyncio.current_task()
        assert task
        self._streams.add(task)
        try:
            return await self._answered(request)
        finally:
            self._leave(task)

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(_import)
        view = self._view_of_all()
        # A proxy in between must not collect events before it passes them on.
        own = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers={**_HEADERS, **own})
        try:
            await response.prepare(request)
            async with asyncio.timeout(STREAM_S):
                await _follow(view, response)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()  # what he has not taken is not sent any more
        return response

    def _view_of_all(self) -> "LiveView":
        """The one of all readers; the first one starts the work."""
        from scheduler.output.live_view import LiveView

        if self._view is None:
            self._view = LiveView(self._source, self.time_line, time.monotonic)
            self._following = asyncio.create_task(self._view.run())
        return self._view

    def _leave(self, task: asyncio.Task[Any]) -> None:
        """The last one ends it."""
        self._streams.discard(task)
        if not self._streams and self._following is not None:
            self._following.cancel()
            self._view = self._following = None

    async def _begin(self, _: web.Application) -> None:
        self._sampling = asyncio.create_task(self.time_line.run())

    async def _end(self, _: web.Application) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
        for task in [*self._streams]:
            task.cancel()


def _import() -> None:
    """What the first reader needs: programs that nobody looks at do without, and none waits for it."""
    import_module("scheduler.output.live_view")


async def _follow(view: "LiveView", response: web.StreamResponse) -> None:
    """Write what changes until the reader goes. Raises ConnectionError, TimeoutError."""
    seen = 0
    await _write(response, b"retry: %d\n%s" % (RETRY_MS, _event("start", [])))
    while True:
        version, groups = view.version, view.since(seen)
        for chunk in _chunks(groups):
            await _write(response, _event("change", chunk))
        await _write(response, _event("now", []))
        seen = version
        while not await _is_changed(view, seen):
            await _write(response, _event("alive", []))


async def _is_changed(view: "LiveView", seen: int) -> bool:
    try:
        async with asyncio.timeout(ALIVE_S):
            await view.changed(seen)
    except TimeoutError:
        return False
    return True


async def _write(response: web.StreamResponse, text: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(text)


def _event(name: str, items: Sequence[bytes]) -> bytes:
    """An event whose data is a list of JSON values. Source: HTML, server-sent events."""
    return b"event: %s\ndata: [%s]\n\n" % (name.encode(), b",".join(items))


def _chunks(items: Sequence[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item)
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
