"""The HTTP endpoints: probes, metrics, and the queue for debugging.

`/livez` fails if only a restart helps, `/readyz` while decisions cannot be made or trusted, such as before the caches
are filled; `/healthz` is the older name of `/livez`. Each is a list of named checks; failures are named. Why they fail
is for those who may read the queue: such texts name claims and pods of all namespaces.
Source: the health endpoints of Kubernetes' components, with `?verbose` and `?exclude=NAME`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.runtime.access import Secure, guarding, is_open, may_not
from scheduler.runtime.http_head import answering_own
from scheduler.runtime.listening import Limits, listening
from scheduler.terminal_text import json_of

_AT_ONCE = 100
_OK = 200
_UNAVAILABLE = 503
_READYZ = "readyz"
_QUEUE = "/debug/queue"
_WITHHELD = f"reason withheld: it is for those who may get {_QUEUE}"
_INDEX = "/healthz\n/livez\n/readyz\n/metrics\n/debug/queue\n"

Check = Callable[[], str]
"""Why it fails; empty while it does not. Asked at each probe: it only looks."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the endpoints return."""

    live: Mapping[str, Check]
    """Checks of liveness, by name."""
    ready: Mapping[str, Check]
    """Checks of readiness besides, by name."""
    warnings: Mapping[str, Check]
    """Checks that are shown, but do not count."""
    metrics: Callable[[str], tuple[bytes, str]]
    """Gives the body and its content type for an Accept header."""
    queue: Callable[[], Iterable[Mapping[str, object]]]
    """The pods that wait, as JSON objects."""
    attach: Callable[[web.Application], None] = lambda _: None
    """Adds what only this program serves, at more_paths."""
    more_paths: Sequence[str] = ()

    def troubles(self) -> Iterator[str]:
        """What fails, and what is only warned of, with the names of the checks."""
        for name, check in {**self.live, **self.ready, **self.warnings}.items():
            if trouble := check():
                yield f"{name}: {trouble}"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What a probe is answered. text: every check, one a line, and the result."""

    is_good: bool
    text: str


def withheld(checks: Mapping[str, Check]) -> Mapping[str, Check]:
    """The checks, which do not say why they fail."""

    def without_reason(check: Check) -> Check:
        return lambda: _WITHHELD if check() else ""

    return {name: without_reason(check) for name, check in checks.items()}


def probe_answer(
    probe: str, checks: Mapping[str, Check], warnings: Mapping[str, Check], excluded: Iterable[str] = ()
) -> ProbeAnswer:
    """The result of the checks. probe: its name in the text. excluded: checks that do not count this time."""
    left_out = frozenset(excluded)
    failures = {name: "" if name in left_out else check() for name, check in checks.items()}
    lines = [_line(name, failure, is_excluded=name in left_out) for name, failure in failures.items()]
    lines += [f"warn: no check is named {name}" for name in sorted(left_out - checks.keys())]
    lines += [f"warn: {name}: {trouble}" for name, check in warnings.items() if (trouble := check())]
    is_good = not any(failures.values())
    return ProbeAnswer(is_good, "\n".join([*lines, f"{probe} check {'passed' if is_good else 'failed'}", ""]))


def _line(name: str, failure: str, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: {failure}" if failure else f"[+]{name} ok"


@asynccontextmanager
async def serving(
    address: str, served: Endpoints, secured: Secure | None = None, allowed_hosts: Collection[str] = ()
) -> AsyncIterator[str]:
    """Serves while the context is open, and gives the URL. address: HOST:PORT, port 0 for any that is free.

    secured: None for plain HTTP, where everybody on the machine may read everything. allowed_hosts: see `misdirection`.
    Raises CannotServe.
    """
    context = secured.context if secured else None
    application = _application(served, secured, allowed_hosts)

    def is_for_all(path: str) -> bool:
        return secured is not None and is_open(path, secured.open_paths)

    async with listening("healthAddress", address, application, context, Limits(is_for_all=is_for_all)) as where:
        yield f"{'https' if secured else 'http'}://{where}"


def _application(served: Endpoints, secured: Secure | None, allowed_hosts: Collection[str]) -> web.Application:
    async def index(_: web.Request) -> web.Response:
        return web.Response(text=_INDEX + "".join(f"{path}\n" for path in served.more_paths))

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = served.metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def queue(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await _write_list(response, served.queue())
        return response

    guards = [guarding(secured.access, secured.open_paths) if secured else answering_own(allowed_hosts)]
    application = web.Application(middlewares=guards)
    application.router.add_get("/", index)
    application.router.add_get("/metrics", metrics)
    application.router.add_get(_QUEUE, queue)
    served.attach(application)
    for name, checks in _probes(served).items():
        warnings = {**served.warnings, "serving": secured.trouble} if secured else served.warnings
        application.router.add_get(f"/{name}", _probe(name, checks, warnings if name == _READYZ else {}, secured))
    return application


async def _write_list(response: web.StreamResponse, items: Iterable[Mapping[str, object]]) -> None:
    """Write JSON, one item a line, some at a time: however many they are, others have their turn in between."""
    before = b"["
    some = iter(items)
    while part := [json_of(item).encode() for item in islice(some, _AT_ONCE)]:
        await response.write(before + b",\n".join(part))
        before = b",\n"
        await asyncio.sleep(0)  # writing does not wait while there is room
    await response.write(b"[]\n" if before == b"[" else b"]\n")


def _probes(served: Endpoints) -> Mapping[str, Mapping[str, Check]]:
    return {"healthz": served.live, "livez": served.live, _READYZ: {**served.live, **served.ready}}


def _probe(name: str, checks: Mapping[str, Check], warnings: Mapping[str, Check], secured: Secure | None) -> Handler:
    async def probe(request: web.Request) -> web.Response:
        excluded = request.query.getall("exclude", ())
        answer = probe_answer(name, checks, warnings, excluded)
        if answer.is_good and "verbose" not in request.query:
            return web.Response(text="ok")
        if secured and not await _may_read_reasons(request, secured):
            answer = probe_answer(name, withheld(checks), withheld(warnings), excluded)
        return web.Response(text=answer.text, status=_OK if answer.is_good else _UNAVAILABLE)

    return probe


async def _may_read_reasons(request: web.Request, secured: Secure) -> bool:
    return is_open(_QUEUE, secured.open_paths) or not await may_not(request, secured.access, "get", _QUEUE)
