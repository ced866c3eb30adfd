"""A small client of the API server for tests: raw JSON objects in and out, nothing cached, nothing retried.

Kinds are found by discovery, so that it knows any that the server serves. Bodies are validated strictly unless a test
says otherwise: a field that the server does not know is an error and not dropped, since a test that misspells one would
prove nothing.
"""

import http.client
import json
import select
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from weakref import finalize

from tests.controlplane.polling import TIMEOUT_S, PollTimeoutError

Json = dict[str, Any]  # Any: what an object holds depends on its kind
Objects = list[Json]


class Kind(NamedTuple):
    """A kind of object in one version."""

    api_version: str
    kind: str


POD = Kind("v1", "Pod")
NODE = Kind("v1", "Node")
NAMESPACE = Kind("v1", "Namespace")
CLAIM = Kind("resource.k8s.io/v1", "ResourceClaim")
TEMPLATE = Kind("resource.k8s.io/v1", "ResourceClaimTemplate")
CLASS = Kind("resource.k8s.io/v1", "DeviceClass")
SLICE = Kind("resource.k8s.io/v1", "ResourceSlice")
VOLUME = Kind("v1", "PersistentVolume")
VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim")
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass")
CSI_DRIVER = Kind("storage.k8s.io/v1", "CSIDriver")
CSI_CAPACITY = Kind("storage.k8s.io/v1", "CSIStorageCapacity")
CSI_NODE = Kind("storage.k8s.io/v1", "CSINode")
ATTACHMENT = Kind("storage.k8s.io/v1", "VolumeAttachment")
SERVICE = Kind("v1", "Service")


@dataclass(frozen=True, slots=True)
class Cause:
    """One violated rule, as the server reports it. field: in Kubernetes' notation."""

    field: str
    reason: str
    message: str


class ApiError(Exception):
    """The server refused. status: of HTTP; reason, message and causes: of the Status object."""

    def __init__(self, call: str, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", ""))
        causes = (body.get("details") or {}).get("causes") or ()
        self.causes = tuple(Cause(c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in causes)
        super().__init__(f"{call}: {status} {self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class _ApiResource:
    path: str
    is_namespaced: bool


class RestClient:
    """One identity at one API server; a connection per call at a time, so that threads may share it.

    timeout_s: of a call.
    """

    def __init__(self, server: str, ca_file: Path, token: str, timeout_s: float = TIMEOUT_S) -> None:
        self._host = urlsplit(server).netloc
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._token = token
        self._resources: dict[Kind, _ApiResource] = {}
        self._idle: list[http.client.HTTPSConnection] = []
        finalize(self, _close, self._idle)

    def create(self, obj: Mapping[str, Any], *, is_dry: bool = False, is_strict: bool = True) -> Json:
        """The object as stored; is_dry: as it would be."""
        path = self._collection(_kind_of(obj), _namespace_of(obj))
        return self._call("POST", path, obj, _write(is_dry=is_dry, is_strict=is_strict))

    def create_text(self, kind: Kind, namespace: str, text: bytes) -> None:
        """Create the object of that text, which may be nested deeper than could be written here."""
        with self._answer("POST", self._collection(kind, namespace), text) as answer:
            answer.read()

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        """The object of that name."""
        return self._call("GET", self._path(kind, name, namespace))

    def list(self, kind: Kind, namespace: str = "") -> Objects:
        """All objects of the kind, with their kind and version named as kubectl does; of all namespaces by default."""
        return self._list(kind, namespace)[0]

    def replace(self, obj: Mapping[str, Any], *, is_dry: bool = False, is_strict: bool = True) -> Json:
        """PUT of the object: all but its status is taken."""
        return self._call("PUT", self._path_of(obj), obj, _write(is_dry=is_dry, is_strict=is_strict))

    def replace_status(self, obj: Mapping[str, Any], *, is_dry: bool = False, is_strict: bool = True) -> Json:
        """PUT of the object's status: nothing else of it is taken."""
        return self._call("PUT", f"{self._path_of(obj)}/status", obj, _write(is_dry=is_dry, is_strict=is_strict))

    def change(self, kind: Kind, name: str, namespace: str, changed: Callable[[Json], Json]) -> Json:
        """PUT of the object, made of how it is; made anew where somebody else writes it meanwhile."""
        return self._change(self.replace, kind, name, namespace, changed)

    def change_status(self, kind: Kind, name: str, namespace: str, changed: Callable[[Json], Json]) -> Json:
        """The same of its status. changed: the object with its new status."""
        return self._change(self.replace_status, kind, name, namespace, changed)

    def _change(
        self,
        write: Callable[[Json], Json],
        kind: Kind,
        name: str,
        namespace: str,
        changed: Callable[[Json], Json],
    ) -> Json:
        while True:
            try:
                return write(changed(self.get(kind, name, namespace)))
            except ApiError as error:
                if error.status != http.client.CONFLICT:
                    raise

    def delete(self, kind: Kind, name: str, namespace: str = "", *, grace_s: int = 0) -> None:
        """Delete at once; what has finalizers stays until they are gone. grace_s: what a pod's node has to end it."""
        self._call("DELETE", self._path(kind, name, namespace), {"gracePeriodSeconds": grace_s})

    def read(self, path: str) -> Json:
        """GET of any path, such as /version."""
        return self._call("GET", path)

    def serves(self, kind: Kind) -> bool:
        """Whether the server serves the kind in this version."""
        try:
            self._resource(kind)
        except ApiError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return False
        except LookupError:
            return False
        return True

    def resource(self, kind: Kind) -> str:
        """The name of the kind in paths, such as resourceclaims."""
        return self._resource(kind).path

    def changes(self, kind: Kind, namespace: str = "", timeout_s: float = TIMEOUT_S) -> Iterator[Json]:
        """The events of the kind as they come: all from this call on, though they may be asked for later.

        A watch that the server ends, as it does with readers that are slow, is resumed. Raises PollTimeoutError.
        """
        _, version = self._list(kind, namespace)
        return self._changes(kind, namespace, version, time.monotonic() + timeout_s)

    def _changes(self, kind: Kind, namespace: str, version: str, deadline: float) -> Iterator[Json]:
        """Raises PollTimeoutError at the deadline, so that it never just ends."""
        while time.monotonic() < deadline:
            for event in self._watch(kind, namespace, version, deadline):
                if event["type"] == "ERROR":
                    raise ApiError(f"watch of {kind.kind}", event["object"]["code"], event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
                yield event
        raise PollTimeoutError(f"{kind.kind}: its changes did not come to an end")

    def await_all(
        self, kind: Kind, holds: Callable[[Sequence[Json]], bool], namespace: str = "", timeout_s: float = TIMEOUT_S
    ) -> Objects:
        """The objects of the kind as soon as `holds` is true of them all; found by a watch. Raises PollTimeoutError."""
        objects, version = self._list(kind, namespace)
        state = {_key(obj): obj for obj in objects}
        if holds(objects):
            return objects
        try:
            for event in self._changes(kind, namespace, version, time.monotonic() + timeout_s):
                obj = event["object"]
                state.pop(_key(obj), None)
                if event["type"] != "DELETED":
                    state[_key(obj)] = obj
                if holds(list(state.values())):
                    return list(state.values())
        except PollTimeoutError:
            last = list(state.values())[-1:]
            raise PollTimeoutError(
                f"{kind.kind}: not within {timeout_s:.0f} s; there are {len(state)}, the last {last}"
            ) from None
        raise AssertionError("changes end by raising only")

    def _list(self, kind: Kind, namespace: str) -> tuple[Objects, str]:
        answer = self._call("GET", self._collection(kind, namespace))
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        return [{**named, **item} for item in answer["items"]], answer["metadata"]["resourceVersion"]

    def _watch(self, kind: Kind, namespace: str, version: str, deadline: float) -> Iterator[Json]:
        path = self._collection(kind, namespace)
        seconds = max(1, int(deadline - time.monotonic()))
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        # The server ends it in time; until then it may be silent for as long as nothing happens.
        with self._answer("GET", path, None, query, seconds + TIMEOUT_S) as answer:
            yield from map(json.loads, answer)

    def _path_of(self, obj: Mapping[str, Any]) -> str:
        return self._path(_kind_of(obj), obj["metadata"]["name"], _namespace_of(obj))

    def _path(self, kind: Kind, name: str, namespace: str) -> str:
        return f"{self._collection(kind, namespace)}/{name}"

    def _collection(self, kind: Kind, namespace: str) -> str:
        resource = self._resource(kind)
        within = f"namespaces/{namespace}/" if namespace and resource.is_namespaced else ""
        return f"{_root(kind)}/{within}{resource.path}"

    def _resource(self, kind: Kind) -> _ApiResource:
        if kind not in self._resources:
            for served in self._call("GET", _root(kind))["resources"]:
                if "/" not in served["name"]:
                    found = _ApiResource(served["name"], served["namespaced"])
                    self._resources[Kind(kind.api_version, served["kind"])] = found
        if kind not in self._resources:
            raise LookupError(f"{kind.api_version} does not serve {kind.kind}")
        return self._resources[kind]

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> Json:
        with self._answer(method, path, body, query) as answer:
            found: Json = json.loads(answer.read())
            return found

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        query: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection(timeout_s or self._timeout_s)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        url = f"{path}?{urlencode(query)}" if query else path
        answer = None
        try:
            text = body if body is None or isinstance(body, bytes) else json.dumps(body, separators=(",", ":"))
            connection.request(method, url, text, headers)
            answer = connection.getresponse()
            if answer.status >= http.client.BAD_REQUEST:
                raise ApiError(f"{method} {path}", answer.status, _status_object(answer.read()))
            yield answer
        finally:
            if connection.sock and answer and answer.isclosed():  # read to its end
                self._idle.append(connection)
            else:
                connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPSConnection:
        """One that is idle, or a new one."""
        with suppress(IndexError):  # another thread may take the last one
            while connection := self._idle.pop():
                if not _has_ended(connection):
                    connection.sock.settimeout(timeout_s)
                    return connection
                connection.close()
        return http.client.HTTPSConnection(self._host, timeout=timeout_s, context=self._tls)


def _close(connections: Iterable[http.client.HTTPSConnection]) -> None:
    for connection in connections:
        connection.close()


def _has_ended(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server has closed it: nothing else comes without a question."""
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))


def _status_object(body: bytes) -> Json:
    """The server's Status; what is no JSON (a path that is not served) becomes its message."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": body.decode(errors="replace")}


def _write(*, is_dry: bool, is_strict: bool) -> Mapping[str, str]:
    """The query of a write."""
    return {"fieldValidation": "Strict" if is_strict else "Ignore", **({"dryRun": "All"} if is_dry else {})}


def _root(kind: Kind) -> str:
    return f"/{'apis' if '/' in kind.api_version else 'api'}/{kind.api_version}"


def _kind_of(obj: Mapping[str, Any]) -> Kind:
    return Kind(obj["apiVersion"], obj["kind"])


def _namespace_of(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _key(obj: Mapping[str, Any]) -> tuple[str, str]:
    return _namespace_of(obj), obj["metadata"]["name"]
