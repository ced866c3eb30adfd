"""Somebody between kube-scheduler and our extender, who keeps every call with its answer, and loses answers on request.

kube-scheduler speaks plain HTTP with it, and it speaks mutual TLS with the extender.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.controlplane.faults import Meeting
from tests.controlplane.polling import TIMEOUT_S, PollTimeoutError
from tests.controlplane.rest import Json
from tests.integration.extender.beside import Door
from tests.integration.extender.listener import Listener


@dataclass(frozen=True, slots=True)
class Call:
    """A call and its answer, whether or not kube-scheduler was given it. status: of HTTP."""

    verb: str
    request: Json
    status: int
    answer: Any

    @property
    def pod(self) -> str:
        """The name of the pod that it is about."""
        return str(self.request["PodName"] if self.verb == "bind" else self.request["Pod"]["metadata"]["name"])


class Between(Listener):
    """The way through while its context is open. port: of the extender. context: as whom it calls it."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(self._answer)
        self.calls: list[Call] = []
        self._port = port
        self._context = context
        self._losing: dict[str, Meeting] = {}
        self._is_answered = threading.Condition()

    def lose_answer(self, verb: str) -> Meeting:
        """The next call of the verb gets no answer, though there is one, which is when it happens."""
        self._losing[verb] = Meeting()
        return self._losing[verb]

    def of(self, verb: str, pod: str) -> Sequence[Call]:
        """The calls of the verb about the pod that were answered so far, in their order."""
        return [one for one in list(self.calls) if (one.verb, one.pod) == (verb, pod)]

    def await_calls(self, verb: str, pod: str, holds: Callable[[Call], bool] = lambda _: True) -> Sequence[Call]:
        """The same, as soon as there is one of which `holds` is true. PollTimeoutError otherwise."""
        with self._is_answered:
            if not self._is_answered.wait_for(lambda: any(map(holds, self.of(verb, pod))), TIMEOUT_S):
                raise PollTimeoutError(f"{verb} of {pod}: {self.of(verb, pod)}")
            return self.of(verb, pod)

    def _answer(self, verb: str, body: bytes) -> tuple[int, bytes] | None:
        """Status and body, None where it is lost."""
        status, answer = call(self._port, self._context, verb, body)
        with self._is_answered:
            self.calls.append(Call(verb, json.loads(body), status, json.loads(answer)))
            self._is_answered.notify_all()
        if lost := self._losing.pop(verb, None):
            lost.happen()
            return None
        return status, answer


def call(port: int, context: ssl.SSLContext, verb: str, body: bytes) -> tuple[int, bytes]:
    """Status and body of what the extender answers. Raises OSError where it does not."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=context)
    try:
        connection.request("POST", f"/v1/{verb}", body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def bind(door: Door, pod: Json, node: str = "node-0") -> str:
    """What the extender says to a call of bind, made in kube-scheduler's place."""
    metadata = pod["metadata"]
    names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
    context = door.certificates.context(door.certificates.client)
    status, answer = call(door.port, context, "bind", json.dumps({**names, "Node": node}).encode())
    assert status == 200
    return str(json.loads(answer)["Error"])
