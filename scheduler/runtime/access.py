"""Authentication and authorization of readers: the API server says who owns a token, and whether the owner may read.

As in kube-scheduler: TokenReview, then SubjectAccessReview for the path; each answer is cached for ten seconds. While
the API server does not answer, only cached answers count.
Source: k8s.io/apiserver's delegating authenticator and authorizer; authentication.k8s.io/v1, authorization.k8s.io/v1.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.client.api import Api
from scheduler.client.errors import CallFailed

REMEMBERED_S = 10.0
"""For so long an answer counts, whichever."""

MOST_REMEMBERED = 1000
MOST_ASKED = 8
"""Maximum number of concurrent access reviews; further callers are asked to retry."""

REVIEW_TIMEOUT_S = 4.0

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """What a reader is answered; 200 where he may read."""

    status: int
    reason: str = ""


_ALLOWED = AccessAnswer(200)
_NO_TOKEN = AccessAnswer(401, "no valid bearer token")
_TOO_MANY = AccessAnswer(503, "too many requests are waiting for authorization")


class Access:
    """Lets readers in. clock: seconds that only go forward."""

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._known: OrderedDict[tuple[bytes, str, str], tuple[float, AccessAnswer]] = OrderedDict()
        self._asking: dict[tuple[bytes, str, str], asyncio.Task[AccessAnswer]] = {}

    async def answer(self, authorization: str, verb: str, path: str) -> AccessAnswer:
        """Whether the owner of the token may. authorization: the header; verb: in lower case, as RBAC has it."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _NO_TOKEN
        key = hashlib.sha256(token.strip().encode()).digest(), verb, path
        until, known = self._known.get(key, (0.0, _NO_TOKEN))
        if self._clock() < until:
            return known
        if key not in self._asking and len(self._asking) >= MOST_ASKED:
            return _TOO_MANY
        return await asyncio.shield(self._asking.get(key) or self._ask(key, token.strip()))

    def _ask(self, key: tuple[bytes, str, str], token: str) -> asyncio.Task[AccessAnswer]:
        """Ask once for all callers with the same question."""
        task = self._asking[key] = asyncio.create_task(self._asked(key, token))
        task.add_done_callback(lambda _: self._asking.pop(key))
        return task

    async def _asked(self, key: tuple[bytes, str, str], token: str) -> AccessAnswer:
        _, verb, path = key
        try:
            found = await self._review(token, verb, path)
        except CallFailed as error:
            return AccessAnswer(503, f"the API server cannot be asked who may read this: {error}")
        self._known[key] = self._clock() + REMEMBERED_S, found
        self._known.move_to_end(key)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return found

    async def _review(self, token: str, verb: str, path: str) -> AccessAnswer:
        who = await self._reviewed(_TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not who.get("authenticated"):
            return _NO_TOKEN
        user = who.get("user") or {}
        name = str(user.get("username") or "")
        about = {field: user[field] for field in ("uid", "groups", "extra") if field in user}
        wanted = {**about, "user": name, "nonResourceAttributes": {"verb": verb, "path": path}}
        may = await self._reviewed(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", wanted)
        if may.get("allowed") and not may.get("denied"):
            return _ALLOWED
        return AccessAnswer(403, f'user "{name}" cannot {verb} path "{path}"')

    async def _reviewed(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status of a review."""
        review = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await self._api.request("POST", path, body=review, timeout_s=REVIEW_TIMEOUT_S)
        status = answer.get("status")
        return status if isinstance(status, dict) else {}


def guarding(access: Access, open_paths: Collection[str]) -> Middleware:
    """Answers in the place of what is served, where the reader may not read it. open_paths: as `is_open` takes them."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_open(request.path, open_paths):
            return await handler(request)
        authorization = request.headers.get("Authorization", "")
        found = await access.answer(authorization, request.method.lower(), request.path)
        if found.status == _ALLOWED.status:
            return await handler(request)
        return web.Response(status=found.status, text=f"{found.reason}\n", headers=_HEADERS.get(found.status))

    return guard


_HEADERS: Mapping[int, Mapping[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


def is_open(path: str, open_paths: Collection[str]) -> bool:
    """Whether everybody may read the path. open_paths: whole ones, or beginnings with a * after them."""
    return any(path.startswith(one[:-1]) if one.endswith("*") else path == one for one in open_paths)
