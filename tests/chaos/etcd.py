"""Every revision of etcd, read from etcd itself: an API server that was killed would have forgotten the older ones.

The API server has to store JSON (`--storage-media-type=application/json`). Source: etcd's JSON gateway, /v3/watch.
"""

import http.client
import json
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Condition, Thread
from time import monotonic
from typing import Self

from tests.controlplane.rest import Json
from tests.soak.revisions import Revision

PREFIX = "/registry/"
PODS, CLAIMS, VOLUMES, VOLUME_CLAIMS = "pods", "resourceclaims", "persistentvolumes", "persistentvolumeclaims"
ENDPOINTS, LEASES = "endpointslices", "leases"
KEPT = frozenset({PODS, CLAIMS, VOLUMES, VOLUME_CLAIMS, ENDPOINTS, LEASES})
"""The resources whose objects are kept as they are now."""

_SILENT_S = 600.0


class EtcdHistory:
    """Follows etcd while its context is open. see: is given each revision of the kept resources, in their order.

    revisions: how many there were, of whatever. trouble: why it follows no more; empty while it does.
    """

    def __init__(self, port: int, see: Callable[[str, Revision], None]) -> None:
        self.revisions = 0
        self.trouble = ""
        self._port, self._see = port, see
        self._next = 1
        self._objects: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        self._changed = Condition()
        self._is_over = False
        self._thread = Thread(target=self._follow, name="etcd", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def objects(self, resource: str, namespace: str = "") -> list[Json]:
        """The objects of the resource as they are now (of a namespace)."""
        with self._changed:
            found = list(self._objects[resource].values())
        return [one for one in found if not namespace or one["metadata"].get("namespace") == namespace]

    def wait(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it holds, as soon as it does or the time is over. It is asked after each revision."""
        until = monotonic() + timeout_s
        with self._changed:
            while not holds():
                assert not self.trouble, self.trouble
                left_s = until - monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, 1.0))  # what is asked may be no matter of etcd's alone
        return True

    def _follow(self) -> None:
        while not self._is_over:
            try:
                self._watch()
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                continue  # etcd was killed, or is about to be there: from the next revision on
            except Exception as error:  # noqa: BLE001 - whoever waits has to hear of it
                with self._changed:
                    self.trouble = f"{type(error).__name__}: {error}"
                return

    def _watch(self) -> None:
        """One watch, until etcd ends it."""
        for answer in self._answers():
            result = answer["result"]
            assert not result.get("canceled"), result
            for event in result.get("events", ()):
                self._take(event)

    def _answers(self) -> Iterator[Json]:
        wanted = {"key": _text(PREFIX), "range_end": _text("/registry0"), "prev_kv": True, "start_revision": self._next}
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=_SILENT_S)) as connection:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": wanted}))
            answer = connection.getresponse()
            while line := answer.readline():
                yield json.loads(line)

    def _take(self, event: Json) -> None:
        is_gone = event.get("type") == "DELETE"
        key = b64decode(event["kv"]["key"]).decode()
        version = int(event["kv"]["mod_revision"])
        resource = key.removeprefix(PREFIX).partition("/")[0]
        with self._changed:
            self.revisions += 1
            self._next = version + 1
            if resource in KEPT:
                self._keep(resource, key, version, event["prev_kv" if is_gone else "kv"], is_gone=is_gone)
            self._changed.notify_all()

    def _keep(self, resource: str, key: str, version: int, entry: Json, *, is_gone: bool) -> None:
        found: Json = json.loads(b64decode(entry["value"]))
        found["metadata"]["resourceVersion"] = str(version)
        if is_gone:
            self._objects[resource].pop(key, None)
        else:
            self._objects[resource][key] = found
        self._see(resource, Revision(version, monotonic(), is_gone, found))


def _text(key: str) -> str:
    return b64encode(key.encode()).decode()
