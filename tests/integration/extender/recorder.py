"""An extender that lets everything pass, binds whatever it is told to, and keeps what kube-scheduler asked of it.

It stands in for ours where only kube-scheduler's side of the conversation is of interest.
"""

import json
from queue import Queue

from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import Json, RestClient
from tests.integration.extender.listener import Listener

VERBS = ("filter", "prioritize", "preempt", "bind")


class Recorder(Listener):
    """The extender while its context is open. api: who binds."""

    def __init__(self, api: RestClient) -> None:
        super().__init__(self._answer)
        self._api = api
        self._asked: dict[str, Queue[Json]] = {verb: Queue() for verb in VERBS}

    def asked(self, verb: str) -> Json:
        """The next request of the verb, as soon as it is there."""
        return self._asked[verb].get(timeout=TIMEOUT_S)

    def _answer(self, verb: str, body: bytes) -> tuple[int, bytes]:
        return 200, json.dumps(self._said(verb, json.loads(body))).encode()

    def _said(self, verb: str, request: Json) -> object:
        self._asked[verb].put(request)
        match verb:
            case "filter":
                return {"Nodes": request["Nodes"], "NodeNames": request["NodeNames"]}
            case "prioritize":
                return []
            case "preempt":
                return {"NodeNameToMetaVictims": request["NodeNameToMetaVictims"] or _meta(request)}
        self._api.create(_binding(request))
        return {"Error": ""}


def _meta(request: Json) -> Json:
    """The same victims by their uids alone, as they are answered in any case."""
    return {
        node: {**victims, "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]}
        for node, victims in request["NodeNameToVictims"].items()
    }


def _binding(request: Json) -> Json:
    metadata = {"namespace": request["PodNamespace"], "name": request["PodName"], "uid": request["PodUID"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": request["Node"]}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
