"""An admission webhook on this machine, which answers as a test says."""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, NAMESPACE, ApiError, Json, Kind, RestClient

VALIDATING = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
MUTATING = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
WEBHOOK = "webhook.example.com"
LABEL = "webhook"
PROBE = "probe"

Decide = Callable[[Json], Json]
"""What the webhook says of a request to admit, as fields of its response; empty where it has nothing against it."""


class Webhook:
    """A webhook while its context is open, for our scheduler's writes in some namespaces. timeout_s: the API server's.

    configuration: its kind, which says whether it may change what is written. asked: the requests, in their order.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespaces: Sequence[str],
        decide: Decide,
        *,
        timeout_s: int = 30,
        configuration: Kind = VALIDATING,
    ) -> None:
        self.asked: list[Json] = []
        self._kind = configuration
        self._api = plane.client()
        self._namespaces = namespaces
        self._decide = decide
        self._timeout_s = timeout_s
        self._authority = plane.ca_file.read_bytes()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(plane.ca_file, plane.key_file)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook")

    def __enter__(self) -> Self:
        self._thread.start()
        for name in self._namespaces:
            ensure_namespace(self._api, name)
            self._api.change(NAMESPACE, name, "", _labelled)
        self._api.create(self._configuration())
        for name in self._namespaces:
            poll_until(bool, partial(is_denied, self._api, name), f"the webhook is asked about {name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def forget(self) -> None:
        """The API server asks it no more."""
        with suppress(ApiError):
            self._api.delete(self._kind, WEBHOOK)

    def _configuration(self) -> Json:
        resources = {
            "resource.k8s.io": ["resourceclaims", "resourceclaims/status"],
            "": ["pods/binding", "pods/status"],
        }
        rules = [
            {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": named}
            for group, named in resources.items()
        ]
        port = self._server.server_address[1]
        client = {"url": f"https://127.0.0.1:{port}/", "caBundle": b64encode(self._authority).decode()}
        webhook = {
            "name": WEBHOOK,
            "clientConfig": client,
            "rules": rules,
            "namespaceSelector": {"matchLabels": {LABEL: "yes"}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": self._timeout_s,
        }
        kind = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return {**kind, "metadata": {"name": WEBHOOK}, "webhooks": [webhook]}

    def _response(self, request: Json) -> Json:
        if request["name"] == PROBE:
            return {"allowed": False}
        if "dra-scheduler" not in request["userInfo"]["username"]:
            return {"allowed": True}
        self.asked.append(request)
        return {"allowed": True, **self._decide(request)}

    def _handler(webhook: Self) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - beside the handler's own self
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = review["request"]
                response = {"uid": request["uid"], **webhook._response(request)}
                body = json.dumps({**review, "request": None, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not at all."""

        return Handler


def denial(code: int, message: str, **status: object) -> Json:
    """The response that denies a request."""
    return {"allowed": False, "status": {"code": code, "message": message, **status}}


def patch(*operations: Json) -> Json:
    """The response that changes what is written. operations: of a JSON patch."""
    return {"patchType": "JSONPatch", "patch": b64encode(json.dumps(operations).encode()).decode()}


def is_denied(api: RestClient, namespace: str) -> bool:
    """Whether the webhook is asked about claims in the namespace: it denies the probe to everybody."""
    request = {"name": "r", "exactly": {"deviceClassName": "none"}}
    kind = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind}
    metadata = {"name": PROBE, "namespace": namespace}
    try:
        api.create({**kind, "metadata": metadata, "spec": {"devices": {"requests": [request]}}}, is_dry=True)
    except ApiError as error:
        return WEBHOOK in error.message
    return False


def _labelled(namespace: Json) -> Json:
    metadata = namespace["metadata"]
    return {**namespace, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), LABEL: "yes"}}}
