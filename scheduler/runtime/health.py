"""The HTTP endpoints: probes, metrics, and the queue for debugging.

`/livez` fails if only a restart helps, `/readyz` while decisions cannot be made or trusted, such as before the caches
are filled; `/healthz` is the older name of `/livez`. Each is a list of named checks; failures are named. Why they fail
is for those who may read the queue: such texts name claims and pods of all namespaces.

Who may read what, the API server says, as for kube-scheduler: TokenReview, then SubjectAccessReview for the path; each
answer is cached for ten seconds. While the API server does not answer, only cached answers count. Anybody can make up
tokens. Those that nobody knows are reviewed at a limited rate, of each source and as a whole. Sources from which nobody
has asked have a rate of their own, and those from which somebody was let in are not limited by others. A token whose
owner was let in before is reviewed again without a limit, so that nobody keeps him out.
Source: the health endpoints of Kubernetes' components, with `?verbose` and `?exclude=NAME`; k8s.io/apiserver's
delegating authenticator and authorizer; authentication.k8s.io/v1, authorization.k8s.io/v1.
"""

import asyncio
import hashlib
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from fcntl import ioctl
from itertools import islice
from pathlib import Path
from termios import TIOCOUTQ
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from scheduler.client.connection import Api
from scheduler.client.errors import CallFailed
from scheduler.rates import TokenBucket
from scheduler.runtime.configuration import Common, is_loopback
from scheduler.runtime.listening import MISDIRECTED, REST_S, Limits, has_event, listening, misdirection
from scheduler.runtime.tls import Certificates, Files, self_signed
from scheduler.terminal_text import json_of, printable

REMEMBERED_S = 10.0
"""For so long an answer counts, whichever."""

MOST_REMEMBERED = 1000
"""Answers, tokens that were let in, and sources."""

MOST_ASKED = 8
"""Maximum number of concurrent reviews of unknown tokens; further callers are asked to retry."""

OF_SOURCE_AT_ONCE, OF_SOURCE_EVERY_S = 20, 1.0
"""Reviews of unknown tokens of one source: how many at once if it was quiet, and how long until one more."""

OF_ALL_AT_ONCE, OF_ALL_EVERY_S = 40, 0.125
"""The same of all sources together, and once more of those from which nobody has asked yet."""

REVIEW_TIMEOUT_S = 4.0

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """What a reader is answered; 200 where he may read."""

    status: int
    reason: str = ""


_ALLOWED = AccessAnswer(200)
_NO_TOKEN = AccessAnswer(401, "no valid bearer token")
_TOO_MANY = AccessAnswer(503, "too many requests are waiting for authorization")


_AccessKey = tuple[bytes, str, str]
"""The hash of a token, verb and path."""


class Access:
    """Lets readers in. clock: seconds that only go forward."""

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._answers: OrderedDict[_AccessKey, tuple[float, AccessAnswer]] = OrderedDict()
        self._refusals: OrderedDict[_AccessKey, tuple[float, AccessAnswer]] = (
            OrderedDict()
        )  # apart: others make up many
        self._let_in: OrderedDict[bytes, None] = OrderedDict()
        self._asking: dict[_AccessKey, asyncio.Task[AccessAnswer]] = {}
        self._let_in_from: OrderedDict[str, None] = OrderedDict()
        self._of_all = TokenBucket(OF_ALL_AT_ONCE, OF_ALL_EVERY_S)
        self._of_new = TokenBucket(OF_ALL_AT_ONCE, OF_ALL_EVERY_S)
        self._of_source: OrderedDict[str, TokenBucket] = OrderedDict()
        self._unknown_asked = 0

    async def answer(self, authorization: str, verb: str, path: str, source: str = "") -> AccessAnswer:
        """Whether the owner of the token may.

        authorization: the header; verb: in lower case, as RBAC has it; source: address of who asks.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or not token.isascii():  # RFC 6750: no others are tokens
            return _NO_TOKEN
        key = hashlib.sha256(token.strip().encode()).digest(), verb, path
        for remembered in (self._answers, self._refusals):
            until, answer = remembered.get(key, (0.0, _NO_TOKEN))
            if self._clock() < until:
                return answer
        if key not in self._asking and key[0] not in self._let_in and not self._may_ask(source):
            return _TOO_MANY
        answer = await asyncio.shield(self._asking.get(key) or self._ask(key, token.strip()))
        if answer.status == _ALLOWED.status:
            _remember(self._let_in_from, source, None)
        return answer

    def _may_ask(self, source: str) -> bool:
        """Whether a token that nobody knows may be reviewed now; if so, that counts."""
        now = self._clock()
        of_all = self._of_all if source in self._of_source else self._of_new
        bucket = self._of_source.get(source) or TokenBucket(OF_SOURCE_AT_ONCE, OF_SOURCE_EVERY_S)
        _remember(self._of_source, source, bucket)
        if source in self._let_in_from:  # a scraper's tokens change, too
            return bucket.take(now)
        if self._unknown_asked >= MOST_ASKED or bucket.is_empty(now):
            return False
        return of_all.take(now) and bucket.take(now)

    def _ask(self, key: _AccessKey, token: str) -> asyncio.Task[AccessAnswer]:
        """Ask once for all callers with the same question."""
        is_unknown = key[0] not in self._let_in
        self._unknown_asked += is_unknown
        task = self._asking[key] = asyncio.create_task(self._asked(key, token))

        def ended(_: object) -> None:
            del self._asking[key]
            self._unknown_asked -= is_unknown

        task.add_done_callback(ended)
        return task

    async def _asked(self, key: _AccessKey, token: str) -> AccessAnswer:
        hashed, verb, path = key
        try:
            answer = await self._review(token, verb, path)
        except CallFailed as error:
            return AccessAnswer(503, f"the API server cannot be asked who may read this: {error}")
        is_let_in = answer.status == _ALLOWED.status
        _remember(self._answers if is_let_in else self._refusals, key, (self._clock() + REMEMBERED_S, answer))
        if is_let_in:
            _remember(self._let_in, hashed, None)
        elif answer.status == _NO_TOKEN.status:
            self._let_in.pop(hashed, None)  # it has expired
        return answer

    async def _review(self, token: str, verb: str, path: str) -> AccessAnswer:
        who = await self._reviewed(_TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        user = who.get("user")
        name = user.get("username") if isinstance(user, dict) else None
        if who.get("authenticated") is not True or not isinstance(user, dict) or not isinstance(name, str) or not name:
            return _NO_TOKEN
        about = {field: user[field] for field in ("uid", "groups", "extra") if field in user}
        wanted = {**about, "user": name, "nonResourceAttributes": {"verb": verb, "path": path}}
        may = await self._reviewed(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", wanted)
        if may.get("allowed") is True and not may.get("denied"):
            return _ALLOWED
        return AccessAnswer(403, f'user "{name}" cannot {verb} path "{path}"')

    async def _reviewed(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status of a review."""
        review = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await self._api.request("POST", path, body=review, timeout_s=REVIEW_TIMEOUT_S)
        status = answer.get("status")
        return status if isinstance(status, dict) else {}


def _remember(known: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep it, in the place of what was kept longest ago if there is too much."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > MOST_REMEMBERED:
        known.popitem(last=False)


async def may_not(request: web.Request, access: Access, verb: str, path: str) -> AccessAnswer | None:
    """Why whoever sends the request may not; None where he may."""
    answer = await access.answer(request.headers.get("Authorization", ""), verb, path, request.remote or "")
    return None if answer.status == _ALLOWED.status else answer


def guarding(access: Access, open_paths: Collection[str]) -> Middleware:
    """Answers in the place of what is served, where the reader may not read it. open_paths: as `is_open` takes them."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_open(request.path, open_paths):
            return await handler(request)
        refusal = await may_not(request, access, request.method.lower(), request.path)
        if refusal is None:
            return await handler(request)
        return web.Response(status=refusal.status, text=f"{refusal.reason}\n", headers=_HEADERS.get(refusal.status))

    return guard


_HEADERS: Mapping[int, Mapping[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


def is_open(path: str, open_paths: Collection[str]) -> bool:
    """Whether everybody may read the path. open_paths: whole ones, or beginnings with a * after them."""
    return any(path.startswith(one[:-1]) if one.endswith("*") else path == one for one in open_paths)


# How probes and metrics are served outside loopback: HTTPS, and authorization.
#
# On loopback without a certificate they are served over plain HTTP, and everybody on the machine may read them.


@dataclass(frozen=True, slots=True)
class Secure:
    """What a server needs for it. open_paths: that everybody may read. trouble: why changed files are not in use."""

    context: ssl.SSLContext
    access: Access
    open_paths: Collection[str]
    trouble: Callable[[], str] = lambda: ""


def secure(configuration: Common, api: Api) -> Secure | None:
    """What the configuration asks for; None for plain HTTP on loopback. api: who is asked. Raises BadCertificates."""
    wanted = configuration.secure_serving
    access, open_paths = Access(api, time.monotonic), wanted.authorization_always_allow_paths
    if wanted.tls_cert_file:
        certificates = Certificates(Files(Path(wanted.tls_cert_file), Path(wanted.tls_private_key_file)))
        return Secure(certificates.context, access, open_paths, lambda: certificates.trouble)
    if is_loopback(configuration.health_address):
        return None
    context, _ = self_signed()
    return Secure(context, access, open_paths)


def answering_own(allowed: Collection[str]) -> Middleware:
    """Answers in the place of what is served, where the request names another machine."""

    @web.middleware
    async def own(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.secure and (reason := misdirection(_named_host(request), allowed)):
            return web.Response(status=MISDIRECTED, text=f"{reason}\n")
        return await handler(request)

    return own


def _named_host(request: web.Request) -> str | None:
    """The host that the request is for: that of its target, where it is a whole URL. Source: RFC 9112, 3.2.2."""
    target = request.raw_path
    if target == "*" or target.startswith("/"):
        return request.headers.get("Host")
    try:
        return urlsplit(target).netloc
    except ValueError:  # such as an IPv6 address that is none
        return ""


@web.middleware
async def after_the_last_answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Waits until the client has taken what it asked for before: nothing is worked out for those who read nothing."""
    while transport := request.transport:
        connection = transport.get_extra_info("socket")  # none of a TLS connection that is lost
        if connection is not None and has_event(connection):
            transport.abort()  # it is lost: as long as nothing is read from it, nobody else hears of that
        elif connection is not None and not transport.is_closing() and _has_taken_all(transport, connection):
            return await handler(request)
        await asyncio.sleep(REST_S)
    return _to_nobody()


def _to_nobody() -> web.Response:
    """The answer to a client that has gone. An error would keep all that it has sent until a garbage collection."""
    return web.Response()


def _has_taken_all(transport: asyncio.Transport, connection: socket.socket) -> bool:
    """Whether nothing waits to be sent, here or in the kernel, which takes megabytes of answers that nobody reads."""
    held = b""
    with suppress(OSError):  # of a system that does not say so
        held = ioctl(connection.fileno(), TIOCOUTQ, bytes(4))
    return not any(held) and not transport.get_write_buffer_size()


def one_by_one(first: Collection[str]) -> Middleware:
    """Lets one request in at each turn of the event loop, as they came. first: paths of those that need not wait.

    What is served may be many milliseconds of work: a hundred requests that have come at once would keep a probe
    waiting for all of them at each of its own steps.
    """
    place = asyncio.Lock()

    @web.middleware
    async def in_order(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in first:
            await place.acquire()
            asyncio.get_running_loop().call_soon(place.release)
            if request.transport is None:
                return _to_nobody()
        return await handler(request)

    return in_order


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
    lines += [f"warn: no check is named {printable(name)}" for name in sorted(left_out - checks.keys())]
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
        if request.method != hdrs.METH_HEAD:  # aiohttp leaves out the body of HEAD only where it is not a stream
            await _write_list(response, served.queue())
        return response

    guard = guarding(secured.access, secured.open_paths) if secured else answering_own(allowed_hosts)
    probes = _probes(served)
    application = web.Application(
        middlewares=[after_the_last_answer, guard, one_by_one([f"/{name}" for name in probes])]
    )
    application.router.add_get("/", index)
    application.router.add_get("/metrics", metrics)
    application.router.add_get(_QUEUE, queue)
    served.attach(application)
    for name, checks in probes.items():
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
