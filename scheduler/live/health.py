"""What is served over HTTP for those who watch the scheduler: probes, metrics, and the queue for a curious person.

`/livez` fails where only a restart helps, `/readyz` while decisions cannot be made or trusted, such as before the
caches are filled; `/healthz` is the older name of `/livez`. Each is a list of named checks; what fails is named.
Source: the health endpoints of Kubernetes' components, with `?verbose` and `?exclude=NAME`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.live.listening import listening

_OK = 200
_UNAVAILABLE = 503
_READYZ = "readyz"
_INDEX = "/healthz\n/livez\n/readyz\n/metrics\n/debug/queue\n"

Check = Callable[[], str]
"""Why it fails; empty while it does not. Asked at each probe: it only looks."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the endpoints tell. live, ready: checks by name; being ready takes both. warnings: told and not counted.

    metrics: gives the body and its content type for an Accept header. queue: the pods that wait, as JSON objects.
    """

    live: Mapping[str, Check]
    ready: Mapping[str, Check]
    warnings: Mapping[str, Check]
    metrics: Callable[[str], tuple[bytes, str]]
    queue: Callable[[], Iterable[Mapping[str, object]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe is answered. text: every check, one a line, and what it comes to."""

    is_good: bool
    text: str


def verdict(
    probe: str, checks: Mapping[str, Check], warnings: Mapping[str, Check], excluded: Iterable[str] = ()
) -> Verdict:
    """What the checks come to. probe: its name in the text. excluded: checks that do not count this time."""
    left_out = frozenset(excluded)
    failures = {name: "" if name in left_out else check() for name, check in checks.items()}
    lines = [_line(name, failure, is_excluded=name in left_out) for name, failure in failures.items()]
    lines += [f"warn: no check is named {name}" for name in sorted(left_out - checks.keys())]
    lines += [f"warn: {name}: {trouble}" for name, check in warnings.items() if (trouble := check())]
    is_good = not any(failures.values())
    return Verdict(is_good, "\n".join([*lines, f"{probe} check {'passed' if is_good else 'failed'}", ""]))


def _line(name: str, failure: str, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: {failure}" if failure else f"[+]{name} ok"


def serving(address: str, served: Served) -> AbstractAsyncContextManager[str]:
    """Serves while the context is open, and gives the address. address: HOST:PORT, port 0 for any that is free.

    Raises CannotServe.
    """
    return listening("healthAddress", address, _application(served))


def _application(served: Served) -> web.Application:
    async def index(_: web.Request) -> web.Response:
        return web.Response(text=_INDEX)

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = served.metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def queue(_: web.Request) -> web.Response:
        body = orjson.dumps(list(served.queue()), option=orjson.OPT_INDENT_2)
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.router.add_get("/", index)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/debug/queue", queue)
    for name, checks in _probes(served).items():
        warnings = served.warnings if name == _READYZ else {}
        application.router.add_get(f"/{name}", _probe(name, checks, warnings))
    return application


def _probes(served: Served) -> Mapping[str, Mapping[str, Check]]:
    return {"healthz": served.live, "livez": served.live, _READYZ: {**served.live, **served.ready}}


def _probe(name: str, checks: Mapping[str, Check], warnings: Mapping[str, Check]) -> Handler:
    async def probe(request: web.Request) -> web.Response:
        found = verdict(name, checks, warnings, request.query.getall("exclude", ()))
        if found.is_good and "verbose" not in request.query:
            return web.Response(text="ok")
        return web.Response(text=found.text, status=_OK if found.is_good else _UNAVAILABLE)

    return probe
