"""An extender that has seen many connections, namespaces, pods, claims and nodes come and go keeps nothing of them."""

import asyncio
import gc
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast
from urllib.parse import urlsplit

import orjson
import pytest

from scheduler.attempt.binder import Time
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.extender import program
from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.extender.program import Extender
from scheduler.runtime import core
from scheduler.runtime.core import Site
from scheduler.runtime.listening import _Acceptor
from scheduler.runtime.server import _VerbServer, serving
from tests.builders import kubernetes
from tests.unit.scheduler.churn import (
    AT_ONCE,
    FEW,
    FIRST,
    LIMITS,
    ROUNDS,
    ChurnServer,
    assert_nothing_has_grown,
    entries,
    settle,
)
from tests.unit.scheduler.extender.serving import served

CALL = b"POST /v1/filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


async def come_and_go(url: str) -> None:
    """Connections of which some bring a call, some half of one, and some nothing."""
    where = urlsplit(url)
    opened = [await asyncio.open_connection(where.hostname, where.port) for _ in range(AT_ONCE)]
    for number, (reader, writer) in enumerate(opened):
        call = CALL[: (0, len(CALL) // 2, len(CALL))[number % 3]]
        writer.write(call)
        if call == CALL:
            await reader.readline()
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()


def test_nothing_is_kept_of_connections_that_are_closed() -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        found = []
        async with serving("127.0.0.1:0", None, served()) as url:
            verbs, acceptor = parts_of_the_server()
            for number in (FIRST, ROUNDS):
                for _ in range(number):
                    await come_and_go(url)
                    while verbs.connections:  # noqa: ASYNC110 - the other end of each has to hear of it
                        await asyncio.sleep(0)
                found.append(entries(verbs, acceptor))
        return found[0], found[1]

    assert_nothing_has_grown(*asyncio.run(churn()))


def parts_of_the_server() -> tuple[_VerbServer, _Acceptor]:
    gc.collect()
    found = gc.get_objects()
    (verbs,) = (one for one in found if type(one) is _VerbServer)
    (acceptor,) = (one for one in found if type(one) is _Acceptor)
    return verbs, acceptor


FATES = ("bound", "refused", "unanswered", "denied", "gone")
"""What becomes of a namespace's pods: they are bound, ask too much, a write fails, or all goes before the binding."""

SCHEDULER = "dra-scheduler"


class Calls:
    """An extender, the calls of its kube-scheduler, and what comes and goes around it. passed_s: of its clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        self.server = ChurnServer()
        start = datetime(2026, 1, 1, tzinfo=UTC)

        def now() -> datetime:
            return start + timedelta(seconds=self.passed_s)

        async def sleep(_: float) -> None:
            await asyncio.sleep(0)

        for waited in ("DEBOUNCE_S", "ASKED_AGAIN_S"):
            monkeypatch.setattr(f"scheduler.extender.poke.{waited}", 0.0)
        monkeypatch.setattr("allocator.limit_use.MOST_NAMESPACES", FEW)
        monkeypatch.setattr("scheduler.state.node_infos.MOST_UNOFFERED", 0)
        monkeypatch.setattr(program, "now", now)
        monkeypatch.setattr(core, "TIME", Time(lambda: self.passed_s, now, sleep, lambda: 0.5))
        configuration = ExtenderConfiguration.model_validate({"schedulerNames": [SCHEDULER], "limits": LIMITS})
        site = Site(cast(Connection, self.server), Served("v1.37.0", "1.37", "v1", None), kubernetes())
        self.extender = Extender(configuration, site)
        self.numbers = count()

    async def rounds(self, number: int) -> None:
        for _ in range(number):
            names = [f"n-{next(self.numbers)}" for _ in range(AT_ONCE)]
            for position, name in enumerate(names):
                self.server.come(name, FATES[position % len(FATES)])
            asked = {
                asyncio.create_task(self._end_of(self._pod(name, uid), names)): self.server.fates[name]
                for name in names
                for uid in ("", "invented")
            }
            await asyncio.wait([task for task, fate in asked.items() if fate != "unanswered"])
            await settle()
            for name in self.server.fates.copy():
                self.server.go(name)
            ends = Counter(await asyncio.gather(*asked))  # what is not answered is tried until its claim has gone
            assert ends["bound"] == AT_ONCE // 5
            assert ends["not bound"] > AT_ONCE
            assert ends[""] >= 2 * AT_ONCE // 5
            self.passed_s += 3600
            self.extender._core.cluster.violations()  # looked at every few seconds

    def _pod(self, name: str, uid: str) -> dict[str, Any]:
        """The pod of the namespace as a watch has shown it; with that uid, one that no watch shows."""
        pod = self.server.objects["pods", name, "pod"]
        return {**pod, "metadata": {**pod["metadata"], "uid": f"{uid}-{name}"}} if uid else pod

    async def _end_of(self, pod: dict[str, Any], nodes: list[str]) -> str:
        """What becomes of a pod that kube-scheduler asks about; empty where no node passes."""
        name, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        passed = await self._ask("filter", {"Pod": pod, "NodeNames": [*nodes, "nowhere", *nodes]})
        await self._ask("prioritize", {"Pod": pod, "NodeNames": nodes})
        if not passed["NodeNames"]:
            return ""
        if self.server.fates.get(name) == "gone":
            self.server.go(name)
        args = {"PodName": "pod", "PodNamespace": name, "PodUID": uid, "Node": name}
        return "not bound" if (await self._ask("bind", args))["Error"] else "bound"

    async def _ask(self, verb: str, body: dict[str, Any]) -> Any:
        answer = self.extender.verbs()[verb](orjson.dumps(body))
        return orjson.loads(answer if isinstance(answer, bytes) else await answer)


def test_nothing_is_kept_of_namespaces_pods_claims_and_nodes_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        monkeypatch.setattr("scheduler.attempt.slots.QUICK_MAX", 16)  # that many namespaces are remembered
        monkeypatch.setattr("scheduler.decision.time_limits.MOST_NAMESPACES", 16)
        monkeypatch.setattr("allocator.memo.LEAST_CHANGES", 16)  # and changes, of which half are forgotten at a time
        world = Calls(monkeypatch)
        running = asyncio.create_task(world.extender.run(asyncio.Event()))
        world.server.fill(world.extender._core.watched)
        await settle()
        before = Counter[str]()
        for _ in range(FIRST // 2):
            await world.rounds(1)
            before |= entries(world.extender)
        await world.rounds(ROUNDS)
        after = entries(world.extender)
        running.cancel()
        await asyncio.wait([running])
        return before, after

    assert_nothing_has_grown(*asyncio.run(churn()))
