"""The tenant's admission webhook: it fails, hangs, or lets a claim be allocated and nothing after that."""

import asyncio
import ssl
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from typing import Self

import trustme
from aiohttp import web

from tests.soak.furnish import FAILING, HALF, HANGING

_LEFT_S = 0.1


class Webhook:
    """A TLS server on the loopback interface while its context is open. answers: how many, by path and what it did."""

    def __init__(self, folder: Path) -> None:
        self.answers: Counter[str] = Counter()
        authority = trustme.CA()
        self.authority = authority.cert_pem.bytes()
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        issued = authority.issue_cert("127.0.0.1")
        with issued.private_key_and_cert_chain_pem.tempfile(dir=str(folder)) as path:
            self._tls.load_cert_chain(path)

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_post(f"/{FAILING}", self._fail)
        application.router.add_post(f"/{HANGING}", self._hang)
        application.router.add_post(f"/{HALF}", self._let_allocate_only)
        self._runner = web.AppRunner(application, shutdown_timeout=_LEFT_S, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def address(self) -> str:
        """Where it is, with a slash at the end."""
        return f"https://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def _fail(self, _: web.Request) -> web.Response:
        self.answers["failed"] += 1
        return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _hang(self, _: web.Request) -> web.Response:
        self.answers["hung"] += 1
        await asyncio.Event().wait()
        raise AssertionError("nothing ends it but the client")

    async def _let_allocate_only(self, request: web.Request) -> web.Response:
        """The first write to a claim's status is let through; the binding, and what would take it back, are not."""
        asked = (await request.json())["request"]
        status = (asked.get("object") or {}).get("status") or {}
        is_let = asked["subResource"] == "status" and bool(status.get("allocation"))
        if not is_let:
            return await self._fail(request)
        self.answers["allowed"] += 1
        response = {"uid": asked["uid"], "allowed": True}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
