"""What comes and goes around a program, and what it keeps of that: the containers that are reached from it.

The API server is in memory, and the program's watches show at once what is written to it.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from scheduler.client.errors import ApiError, ApiStatus, Unanswered
from scheduler.client.watch_states import Applied, Deleted, Entry, Key, Restarted
from scheduler.client.watcher import Reflector
from scheduler.kinds import BY_NAME, claim_of, namespace_of, node_of, pod_of, slice_of
from tests.builders import a_class

AT_ONCE = 20
"""Namespaces that are there at the same time, each with its node, its claim and its pods."""

FIRST = 24
"""Rounds after which what has a bound is as large as it gets."""

ROUNDS = 15
"""What is kept after so many more rounds is what was kept before."""

FEW = 4
"""Of what is bounded in number, and is forgotten all at once."""

LIMITS: Final = [{"name": "each", "namespaces": {"each": True}, "most": 9}, {"name": "together", "most": 9_999}]
"""Of tenants: what a namespace has is kept by itself."""

Json = dict[str, Any]
Decode = Callable[[Mapping[str, Any]], object]

VALUES = type | ModuleType | str | bytes | float | complex | None
"""What holds nothing, or nothing of the program's own."""


class ChurnServer:
    """An API server in memory; what is written to it comes back by the watch at once. fates: by namespace."""

    server = "memory"
    refused = trouble = ""

    def __init__(self, **decoders: Decode) -> None:
        """decoders: by resource, in place of the scheduler's own."""
        self._decoders = {**DECODERS, **decoders}
        self.versions = count(1)
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.fates: dict[str, str] = {}
        self.reflectors: dict[str, Reflector[Any]] = {}

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        async def lines() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        yield lines()

    async def text(self, *_: object) -> bytes:
        raise AssertionError("everything was listed")

    def fill(self, watched: Iterable[Reflector[Any]]) -> None:
        """All is listed: nothing is there but a class."""
        for reflector in watched:
            self.reflectors[reflector.resource.plural] = reflector
            reflector.store.take(Restarted((), next(self.versions)))
        self.put("deviceclasses", {"metadata": {"name": "gpu"}}, lambda _: a_class("gpu"))

    def put(self, plural: str, raw: Json, decode: Decode | None = None) -> Json:
        """The object is there, or has changed."""
        metadata: Json = {"uid": f"uid-{plural}-{raw['metadata'].get('namespace', '')}-{raw['metadata']['name']}"}
        metadata |= {**raw["metadata"], "resourceVersion": str(next(self.versions))}
        stored: Json = {**raw, "metadata": metadata}
        key = Key(metadata.get("namespace", ""), metadata["name"])
        self.objects[plural, *key] = stored
        value = (decode or self._decoders[plural])(json.loads(json.dumps(stored)))
        entry = Entry(key, metadata["uid"], int(metadata["resourceVersion"]), value)
        self._show(plural, Applied(entry))
        return stored

    def delete(self, plural: str, namespace: str, name: str) -> None:
        if found := self.objects.pop((plural, namespace, name), None):
            uid = found["metadata"]["uid"]
            self._show(plural, Deleted(Key(namespace, name), uid, next(self.versions)))

    def _show(self, plural: str, event: Applied[Any] | Deleted) -> None:
        if plural in self.reflectors:
            self.reflectors[plural].store.take(event)

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> Json:
        await asyncio.sleep(0)
        of_namespace = path.partition("/namespaces/")[2]
        namespace, plural, *names = of_namespace.split("/") if of_namespace else ("", *path.split("/")[-2:])
        fate = self.fates.get(namespace, "gone")
        call, found = f"{method} {path}", self.objects.get((plural, namespace, names[0] if names else ""))
        if plural == "events":
            return {}
        if plural == "resourceclaims" and fate == "unanswered" and method == "PUT":
            raise Unanswered(call, "no answer in time", is_ambiguous=True)
        if plural == "resourceclaims" and fate == "denied" and method == "PUT":
            raise ApiError(call, 403, ApiStatus("Forbidden", "a policy denies it"))
        if found is None:
            raise ApiError(call, 404, ApiStatus("NotFound", "not found"))
        if names[1:] == ["binding"]:
            return self.put(plural, {**found, "spec": {**found["spec"], "nodeName": body["target"]["name"]}})
        if method == "GET":
            return found
        if method == "PATCH":
            return self.put(plural, {**found, "status": {**found.get("status", {}), **body.get("status", {})}})
        return self.put(plural, body)

    def come(self, name: str, fate: str) -> None:
        """A namespace comes, with its node and device, its storage, its claim, and two pods that use it."""
        self.fates[name] = fate
        self.put("namespaces", {"metadata": {"name": name}})
        self.put("services", {"kind": "Service", "metadata": {"namespace": name, "name": "service"}, "spec": {}})
        labels = {"kubernetes.io/hostname": name}
        room = {"cpu": "4", "memory": "8Gi", "pods": "10", f"example.com/{name}": "1"}
        self.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room}})
        driver = f"{name}.example"
        handle = {"driver": driver, "volumeHandle": name}
        self.put("persistentvolumes", {"metadata": {"name": name}, "spec": {**VOLUME, "csi": handle}})
        attached = {"attacher": driver, "nodeName": name, "source": {"persistentVolumeName": name}}
        self.put("volumeattachments", {"metadata": {"name": name}, "spec": attached})
        measured = {"storageClassName": name, "nodeTopology": {"matchLabels": labels}, "capacity": "1Gi"}
        self.put("csistoragecapacities", {"metadata": {"namespace": name, "name": "capacity"}, **measured})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec: Json = {"driver": "gpu.example", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        published = {**RESOURCE, "kind": "ResourceSlice", "metadata": {"name": name}}
        self.put("resourceslices", {**published, "spec": spec})
        wanted = 2 if fate == "refused" else 1
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": wanted, "allocationMode": "ExactCount"}}
        metadata = {"namespace": name, "name": "claim"}
        spec = {"devices": {"requests": [request]}}
        self.put("resourceclaims", {**RESOURCE, "kind": "ResourceClaim", "metadata": metadata, "spec": spec})
        for pod in ("pod", "other"):
            spec = {
                "schedulerName": "dra-scheduler",
                "nodeSelector": labels,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}],
            }
            self.put("pods", {"metadata": {"namespace": name, "name": pod}, "spec": spec, "status": {}})

    def go(self, name: str) -> None:
        """All of it goes."""
        for pod in ("pod", "other"):
            self.delete("pods", name, pod)
        self.delete("resourceclaims", name, "claim")
        self.delete("services", name, "service")
        self.delete("csistoragecapacities", name, "capacity")
        for plural in ("volumeattachments", "persistentvolumes", "resourceslices", "nodes", "namespaces"):
            self.delete(plural, "", name)
        del self.fates[name]


RESOURCE = {"apiVersion": "resource.k8s.io/v1"}
VOLUME: Final = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}


DECODERS: Mapping[str, Decode] = {
    "namespaces": namespace_of,
    "nodes": node_of,
    "resourceslices": slice_of,
    "resourceclaims": claim_of,
    "pods": pod_of,
    "services": BY_NAME["Service"].watch_decoder,
    "persistentvolumes": BY_NAME["PersistentVolume"].watch_decoder,
    "volumeattachments": BY_NAME["VolumeAttachment"].watch_decoder,
    "csistoragecapacities": BY_NAME["CSIStorageCapacity"].watch_decoder,
}


async def settle() -> None:
    """Until nothing is under way any more."""
    for _ in range(400):
        await asyncio.sleep(0)


def entries(*roots: object) -> Counter[str]:
    """How many entries all containers have that are reached from here, by where they are."""
    found, seen = Counter[str](), set[int]()
    left: deque[tuple[str, object]] = deque((type(root).__name__, root) for root in roots)
    while left:
        place, one = left.popleft()
        if id(one) in seen or isinstance(one, VALUES | asyncio.AbstractEventLoop):
            continue
        seen.add(id(one))
        found[place] += _size(one)
        left.extend((f"{place}{step}", value) for step, value in _held(one))
    return found


def _size(one: object) -> int:
    if isinstance(one, int):
        return one.bit_length() // 64
    if isinstance(one, np.ndarray):
        return int(one.size)
    return len(one) if isinstance(one, dict | list | set | frozenset | tuple | deque) else 0


def _held(one: object) -> Iterator[tuple[str, object]]:
    if isinstance(one, dict):
        yield from (("[key]", key) for key in one)
        yield from (("[]", value) for value in one.values())
    elif isinstance(one, list | set | frozenset | tuple | deque):
        yield from (("[]", value) for value in one)
    elif isinstance(one, partial):
        yield from (("()", value) for value in (one.func, *one.args, *one.keywords.values()))
    elif isinstance(one, MethodType):
        yield "", one.__self__
    elif isinstance(one, FunctionType):
        yield from (("()", cell.cell_contents) for cell in one.__closure__ or () if cell.cell_contents is not None)
    else:
        names = {name for kind in type(one).__mro__ for name in _slots(kind)}
        yield from ((f".{name}", getattr(one, name)) for name in names if hasattr(one, name))
        yield from ((f".{name}", value) for name, value in getattr(one, "__dict__", {}).items())


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def assert_nothing_has_grown(before: Counter[str], after: Counter[str]) -> None:
    """What is kept after more rounds is what was kept before."""
    assert sum(before.values()) > AT_ONCE
    grown = {place: (before[place], number) for place, number in after.items() if number > before[place] + AT_ONCE}
    assert not grown, "\n".join(map(str, grown.items()))
