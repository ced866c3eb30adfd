"""A scheduler that has seen many namespaces, pods, claims and nodes come and go keeps nothing of them."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np
import pytest

from scheduler.attempt.binder import Time
from scheduler.cache.kinds import claim_of, namespace_of, node_of, pod_of, pod_selector_of, slice_of
from scheduler.cache.watch_events import Applied, Deleted, Entry, Key, Restarted
from scheduler.cache.watcher import Reflector
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.errors import ApiError, ApiStatus, Unanswered
from scheduler.live import program
from scheduler.live.program import Scheduler
from scheduler.runtime import core
from scheduler.runtime.configuration import Configuration
from scheduler.runtime.core import Site
from tests.builders import a_class, kubernetes

AT_ONCE = 20
"""Namespaces that are there at the same time, each with its node, its claim and its pods."""

FIRST = 24
"""Rounds after which what has a bound is as large as it gets."""

ROUNDS = 15
"""What is kept after so many more rounds is what was kept before."""

Json = dict[str, Any]

FATES = ("bound", "refused", "unanswered", "denied", "gone")
"""What becomes of a namespace's pods: they are bound, ask too much, a write fails, or all goes while they wait."""


VALUES = type | ModuleType | str | bytes | float | complex | None
"""What holds nothing, or nothing of the program's own."""


class ChurnServer:
    """An API server in memory; what is written to it comes back by the watch at once. fates: by namespace."""

    server = "memory"
    refused = trouble = ""

    def __init__(self) -> None:
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

    def fill(self, scheduler: Scheduler) -> None:
        for reflector in scheduler._watched:
            self.reflectors[reflector.resource.plural] = reflector
            reflector.store.take(Restarted((), next(self.versions)))
        self.put("deviceclasses", {"metadata": {"name": "gpu"}}, lambda _: a_class("gpu"))

    def put(self, plural: str, raw: Json, decode: Callable[[Mapping[str, Any]], object] | None = None) -> Json:
        """The object is there, or has changed."""
        metadata: Json = {"uid": f"uid-{plural}-{raw['metadata'].get('namespace', '')}-{raw['metadata']['name']}"}
        metadata |= {**raw["metadata"], "resourceVersion": str(next(self.versions))}
        stored: Json = {**raw, "metadata": metadata}
        key = Key(metadata.get("namespace", ""), metadata["name"])
        self.objects[plural, *key] = stored
        value = (decode or DECODERS[plural])(json.loads(json.dumps(stored)))
        entry = Entry(key, metadata["uid"], int(metadata["resourceVersion"]), value)
        self.reflectors[plural].store.take(Applied(entry))
        return stored

    def delete(self, plural: str, namespace: str, name: str) -> None:
        if found := self.objects.pop((plural, namespace, name), None):
            uid = found["metadata"]["uid"]
            self.reflectors[plural].store.take(Deleted(Key(namespace, name), uid, next(self.versions)))

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> Json:
        await asyncio.sleep(0)
        namespace, plural, *names = path.partition("/namespaces/")[2].split("/")
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


DECODERS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "namespaces": namespace_of,
    "nodes": node_of,
    "resourceslices": slice_of,
    "resourceclaims": claim_of,
    "pods": pod_of,
    "services": pod_selector_of,
}


class Churn:
    """A scheduler, and what comes and goes around it. passed_s: of its clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        self.server = ChurnServer()
        start = datetime(2026, 1, 1, tzinfo=UTC)

        def now() -> datetime:
            return start + timedelta(seconds=self.passed_s)

        async def sleep(_: float) -> None:
            await asyncio.sleep(0)

        monkeypatch.setattr(program, "now", now)
        monkeypatch.setattr(core, "TIME", Time(lambda: self.passed_s, now, sleep, lambda: 0.5))
        configuration = Configuration.model_validate({"leaderElection": {"leaderElect": False}})
        site = Site(cast(Connection, self.server), Served("v1.37.0", "1.37", "v1", None), kubernetes())
        self.scheduler = Scheduler(configuration, site, lambda: self.passed_s)
        self.numbers = count()

    async def rounds(self, number: int) -> None:
        for _ in range(number):
            names = [f"n-{next(self.numbers)}" for _ in range(AT_ONCE)]
            for position, name in enumerate(names):
                self._come(name, FATES[position % len(FATES)])
            for name in names:
                if self.server.fates[name] == "gone":
                    self._go(name)
            await self._settle()
            self._judge(names)
            for name in self.server.fates.copy():
                self._go(name)
            await self._settle()
            self.passed_s += 3600
            self.scheduler._loop.wake()
            await self._settle()
            self.scheduler._cluster.violations()  # looked at every few seconds

    def _come(self, name: str, fate: str) -> None:
        self.server.fates[name] = fate
        self.server.put("namespaces", {"metadata": {"name": name}})
        self.server.put("services", {"kind": "Service", "metadata": {"namespace": name, "name": "service"}, "spec": {}})
        labels = {"kubernetes.io/hostname": name}
        room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        self.server.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room}})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec: Json = {"driver": "gpu.example", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        published = {**RESOURCE, "kind": "ResourceSlice", "metadata": {"name": name}}
        self.server.put("resourceslices", {**published, "spec": spec})
        wanted = 2 if fate == "refused" else 1
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": wanted, "allocationMode": "ExactCount"}}
        metadata = {"namespace": name, "name": "claim"}
        spec = {"devices": {"requests": [request]}}
        self.server.put("resourceclaims", {**RESOURCE, "kind": "ResourceClaim", "metadata": metadata, "spec": spec})
        for pod in ("pod", "other"):
            spec = {
                "schedulerName": "dra-scheduler",
                "nodeSelector": labels,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}],
            }
            self.server.put("pods", {"metadata": {"namespace": name, "name": pod}, "spec": spec, "status": {}})

    def _go(self, name: str) -> None:
        for pod in ("pod", "other"):
            self.server.delete("pods", name, pod)
        self.server.delete("resourceclaims", name, "claim")
        self.server.delete("services", name, "service")
        for plural in ("resourceslices", "nodes", "namespaces"):
            self.server.delete(plural, "", name)
        del self.server.fates[name]

    def _judge(self, names: list[str]) -> None:
        """The test is of what happens: pods are bound, refused, and given up."""
        bound = {key[1] for key, one in self.server.objects.items() if key[0] == "pods" and one["spec"].get("nodeName")}
        assert bound == {name for name in names if self.server.fates.get(name) == "bound"}

    async def _settle(self) -> None:
        """Until nothing is under way any more."""
        for _ in range(400):
            await asyncio.sleep(0)


RESOURCE = {"apiVersion": "resource.k8s.io/v1"}


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


def test_nothing_is_kept_of_namespaces_pods_claims_and_nodes_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        world = Churn(monkeypatch)
        running = asyncio.create_task(world.scheduler.run(asyncio.Event()))
        world.server.fill(world.scheduler)
        await world.rounds(FIRST)
        before = entries(world.scheduler)
        await world.rounds(ROUNDS)
        after = entries(world.scheduler)
        running.cancel()
        await asyncio.wait([running])
        return before, after

    before, after = asyncio.run(churn())
    assert sum(before.values()) > 100
    grown = {place: (before[place], number) for place, number in after.items() if number > before[place] + AT_ONCE}
    assert not grown, "\n".join(map(str, grown.items()))
