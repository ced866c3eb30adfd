"""The cache against a real API server: lists, watches, and everything that can happen to them."""

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allocator.api.versions import Json
from scheduler.client.api_resources import PODS, Resource, classes
from scheduler.client.connection import MERGE, Connection, connect
from scheduler.client.watch_states import Entry, Found, HistoryLost, Key, Undecodable
from scheduler.client.watcher import Reflector, WatchBackoff, Watcher
from tests.controlplane.binaries import Binaries
from tests.controlplane.faults import Answer, Fault, Forward, Hold, Stream, Then, error_event, one_chunk, refuse
from tests.controlplane.identities import ADMIN
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.profiles import DEFAULT
from tests.controlplane.proxy import Proxy, Request

CLASSES = classes("v1")
A_PAGE = 500

Value = tuple[str, str]
"""The name of an object and its label `v`."""

Cache = Reflector[Value]


def name_and_label(raw: Mapping[str, Any]) -> Value:
    metadata = raw["metadata"]
    label = (metadata.get("labels") or {}).get("v", "")
    if label == "bad":
        raise Undecodable(f"metadata.labels[v]: {label!r} is bad")
    return metadata["name"], label


class ClassCalls:
    """Writes device classes past the proxy; each write gives the version that it has led to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, name: str, label: str = "") -> int:
        raw = {"metadata": {"name": name, "labels": {"v": label}}, "spec": {}}
        return version_of(await self._connection.request("POST", CLASSES.path(), body=raw, timeout_s=TIMEOUT_S))

    async def create_all(self, names: list[str]) -> None:
        for start in range(0, len(names), 20):
            await asyncio.gather(*(self.create(name) for name in names[start : start + 20]))

    async def label(self, name: str, label: str) -> int:
        body = {"metadata": {"labels": {"v": label}}}
        path = CLASSES.path(name=name)
        return version_of(await self._connection.request("PATCH", path, body=body, content_type=MERGE))

    async def delete(self, name: str) -> int:
        """A version that is later than the deletion."""
        await self._connection.request("DELETE", CLASSES.path(name=name))
        return await self.create(f"after-{name}")


def version_of(raw: Json) -> int:
    return int(raw["metadata"]["resourceVersion"])


@asynccontextmanager
async def reflecting(kubeconfig: Path, resource: Resource = CLASSES, **options: Any) -> AsyncIterator[Cache]:
    """A reflector that runs and has listed."""
    async with connect(kubeconfig=kubeconfig) as connection:
        backoff = WatchBackoff(first_s=0.01)
        watcher = Watcher(connection, resource, name_and_label, lambda: 0.5, backoff=backoff, **options)
        reflector = Reflector(watcher, time.monotonic)
        running = asyncio.create_task(reflector.run())
        try:
            await asyncio.wait_for(reflector.store.synced.wait(), TIMEOUT_S)
            yield reflector
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def reported(cache: Cache, resource_version: int) -> Mapping[str, str]:
    """The labels by name, once everything up to that version is known."""
    assert await cache.store.reached(resource_version, TIMEOUT_S), cache.trouble
    return dict(cache.store.values())


Play = Callable[[Proxy, ClassCalls], Awaitable[None]]


def play(proxy: Proxy, plane: ControlPlane, course: Play) -> None:
    """Run the course with a writer that goes past the proxy."""

    async def run() -> None:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            await course(proxy, ClassCalls(connection))

    asyncio.run(run())


def watches(proxy: Proxy) -> list[Request]:
    return [request for request in proxy.requests if request.is_watch]


def lists(proxy: Proxy) -> list[Request]:
    """What was listed by pages; questions for the version alone are left out."""
    return [request for request in proxy.requests if request.method == "GET" and request.query.get("limit") == "500"]


@pytest.mark.parametrize("lists_by_watch", [True, False])
def test_objects_that_are_there_and_that_come_and_go_are_known(
    proxy: Proxy, plane: ControlPlane, *, lists_by_watch: bool
) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("a", "1")
        await api.create("b", "1")
        async with reflecting(proxy.kubeconfig(ADMIN), lists_by_watch=lists_by_watch) as cache:
            assert dict(cache.store.values()) == {"a": "1", "b": "1"}
            await api.label("a", "2")
            assert await reported(cache, await api.delete("b")) == {"a": "2", "after-b": ""}
            assert cache.store.restarts == 0
            assert cache.is_alive(time.monotonic())
        assert bool(lists(proxy)) is not lists_by_watch
        assert not [request for request in proxy.requests if request.query.get("resourceVersion") == "0"]

    play(proxy, plane, course)


def test_list_of_more_than_a_page_comes_in_pages(proxy: Proxy, plane: ControlPlane) -> None:
    names = [f"c{number:03}" for number in range(A_PAGE + 10)]

    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create_all(names)
        async with reflecting(proxy.kubeconfig(ADMIN), lists_by_watch=False) as cache:
            assert sorted(dict(cache.store.values())) == names
        assert len(lists(proxy)) == 2

    play(proxy, plane, course)


def test_cut_watch_goes_on_where_it_was(proxy: Proxy, plane: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            whole = await api.create("first")
            await reported(cache, await api.create("a"))
            proxy.on("GET", "/deviceclasses", refuse(503, "ServiceUnavailable"), times=3)
            assert proxy.cut_watches() == 1
            await api.create("b")
            assert await reported(cache, await api.delete("a")) == {"first": "", "b": "", "after-a": ""}
            assert cache.store.restarts == 0
        assert watches(proxy)[-1].query["resourceVersion"] == str(whole)

    play(proxy, plane, course)


@pytest.mark.parametrize("then", [Then.END, Then.RESET])
def test_watch_that_ends_in_the_midst_of_events_loses_none(proxy: Proxy, plane: ControlPlane, then: Then) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        half_a_line = b'{"type":"ADDED","object":{"me'
        proxy.on("GET", "/deviceclasses", Stream(2, then, half_a_line), where=resumes, times=3)
        async with reflecting(proxy.kubeconfig(ADMIN), lists_by_watch=False) as cache:
            names = [f"c{number}" for number in range(10)]
            for name in names:
                last = await api.create(name)
            assert sorted(await reported(cache, last)) == names
            assert cache.store.restarts == 0

    play(proxy, plane, course)


def resumes(request: Request) -> bool:
    """Whether it is a watch from a version on."""
    return request.is_watch and "resourceVersion" in request.query


def test_watch_that_falls_silent_is_opened_again(proxy: Proxy, plane: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        proxy.on("GET", "/deviceclasses", Stream(1, Then.SILENCE))  # after the end of what is there
        async with reflecting(proxy.kubeconfig(ADMIN), silence_s=0.5) as cache:
            assert await reported(cache, await api.create("a")) == {"a": ""}
            assert cache.store.restarts == 0

    play(proxy, plane, course)


def changes_of(cache: Cache) -> list[tuple[Value | None, Value | None]]:
    """A list that grows with every change that the store tells from now on."""
    changes: list[tuple[Value | None, Value | None]] = []
    cache.store.on_change(lambda old, new: changes.append((_value(old), _value(new))))
    return changes


def _value(found: Found[Value] | None) -> Value | None:
    return found.value if isinstance(found, Entry) else None


EXPIRED: Mapping[str, Fault] = {
    "answer": refuse(410, "Expired"),
    "line": Stream(0, Then.END, error_event(410, "Expired")),
}


@pytest.mark.parametrize("lists_by_watch", [True, False])
@pytest.mark.parametrize("expired", EXPIRED)
def test_expired_version_leads_to_a_new_list_that_reports_what_was_missed(
    proxy: Proxy, plane: ControlPlane, expired: str, *, lists_by_watch: bool
) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        for name in ("kept", "changed", "gone"):
            await api.create(name, "1")
        async with reflecting(proxy.kubeconfig(ADMIN), lists_by_watch=lists_by_watch) as cache:
            await reported(cache, await api.label("kept", "2"))  # the watch is open
            changes = changes_of(cache)
            hold = Hold(EXPIRED[expired])
            held = proxy.on("GET", "/deviceclasses", hold, where=resumes)
            proxy.cut_watches()
            await held.met.reached()
            await api.label("changed", "2")
            last = await api.delete("gone")
            hold.release()
            await reported(cache, last)
            assert changes[0] == (("gone", "1"), None)
            assert set(changes[1:]) == {(("changed", "1"), ("changed", "2")), (None, ("after-gone", ""))}
            assert cache.store.restarts == 1

    play(proxy, plane, course)


def test_object_made_again_while_nobody_watched_is_an_end_and_a_beginning(proxy: Proxy, plane: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("a", "1")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            changes = changes_of(cache)
            hold = Hold(EXPIRED["answer"])
            held = proxy.on("GET", "/deviceclasses", hold, where=resumes)
            proxy.cut_watches()
            await held.met.reached()
            await api.delete("a")
            last = await api.create("a", "2")
            hold.release()
            await reported(cache, last)
            assert changes.index((("a", "1"), None)) < changes.index((None, ("a", "2")))

    play(proxy, plane, course)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_server_that_cannot_answer_is_asked_again(proxy: Proxy, plane: ControlPlane, status: int) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        proxy.on("GET", "/deviceclasses", refuse(status, "Trouble"), times=4)
        await api.create("a")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            assert dict(cache.store.values()) == {"a": ""}
            assert cache.trouble == ""

    play(proxy, plane, course)


def test_list_by_watch_that_breaks_off_is_followed_by_pages(proxy: Proxy, plane: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        proxy.on("GET", "/deviceclasses", Stream(1, Then.RESET))
        await api.create("a")
        await api.create("b")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            assert dict(cache.store.values()) == {"a": "", "b": ""}
        assert len(lists(proxy)) == 1

    play(proxy, plane, course)


def test_object_that_cannot_be_decoded_is_left_out_until_it_is_mended(proxy: Proxy, plane: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("a", "bad")
        await api.create("b", "1")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            assert dict(cache.store.values()) == {"b": "1"}
            assert cache.store.undecoded[Key("", "a")].error == "metadata.labels[v]: 'bad' is bad"
            assert await reported(cache, await api.label("a", "good")) == {"a": "good", "b": "1"}
            assert await reported(cache, await api.label("b", "bad")) == {"a": "good"}
            assert await reported(cache, await api.delete("b")) == {"a": "good", "after-b": ""}
            assert not cache.store.undecoded

    play(proxy, plane, course)


def test_finished_pod_leaves_the_cache_of_those_that_are_not(plane: ControlPlane) -> None:
    selector = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

    async def course() -> None:
        async with (
            connect(kubeconfig=plane.kubeconfig()) as api,
            reflecting(plane.kubeconfig(), PODS, selector=selector) as cache,
        ):
            created = await api.request("POST", PODS.path("default"), body=pod)
            assert await reported(cache, version_of(created)) == {"a": ""}
            status, body = PODS.path("default", "a", "status"), {"status": {"phase": "Succeeded"}}
            finished = await api.request("PATCH", status, body=body, content_type=MERGE)
            assert await reported(cache, version_of(finished)) == {}

    asyncio.run(course())


def test_list_out_of_turn_shows_what_the_watch_has_not_reported_yet(proxy: Proxy, plane: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("a")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            proxy.silence_watches()
            await api.create("b")
            before = len(lists(proxy))
            last = await api.delete("a")
            await asyncio.gather(*(cache.catch_up() for _ in range(5)))
            assert await reported(cache, last) == {"b": "", "after-a": ""}
            assert len(lists(proxy)) - before == 2  # one had begun before the others asked
            proxy.cut_watches()
            assert await reported(cache, await api.create("c")) == {"b": "", "after-a": "", "c": ""}

    play(proxy, plane, course)


async def as_of_yesterday(forward: Forward) -> Answer:
    """What a server answers whose data were restored from a backup."""
    answer = await forward()
    listed = json.loads(b"".join([chunk async for chunk in answer.body]))
    listed["metadata"]["resourceVersion"] = "1"
    return replace(answer, body=one_chunk(json.dumps(listed).encode()))


def test_server_whose_data_are_older_than_what_it_reported_ends_the_reflector(
    proxy: Proxy, plane: ControlPlane
) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("a")
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            watcher = Watcher(connection, CLASSES, name_and_label, lambda: 0.5)
            reflector = Reflector(watcher, time.monotonic)
            running = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.store.synced.wait(), TIMEOUT_S)
            proxy.on("GET", "/deviceclasses", as_of_yesterday, where=lambda request: request.query.get("limit") == "1")
            proxy.cut_watches()
            with pytest.raises(HistoryLost, match="a list has resourceVersion 1, but "):
                await asyncio.wait_for(running, TIMEOUT_S)

    play(proxy, plane, course)


@pytest.fixture(scope="module")
def uncached(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that asks etcd for everything, so that what is compacted there is gone; it lists by pages only."""
    flags = {"kube-apiserver": ["--watch-cache=false", "--feature-gates=WatchList=false"]}
    with ControlPlane(
        binaries, tmp_path_factory.mktemp("uncached"), DEFAULT, controllers=("namespace-controller",), flags=flags
    ) as running:
        yield running


def compact(plane: ControlPlane, revision: int) -> None:
    """Let etcd forget what was before the revision."""
    body = json.dumps({"revision": str(revision), "physical": True}).encode()
    url = f"http://127.0.0.1:{plane._etcd_port}/v3/kv/compaction"
    with urllib.request.urlopen(url, body, timeout=TIMEOUT_S) as answer:
        assert answer.status == 200


def test_server_that_does_not_list_by_watch_is_asked_for_pages(uncached: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("pages")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            assert cache.store.get("pages") == ("pages", "")
        assert [request.status for request in proxy.requests[:2]] == [422, 200]
        # In however many pages: other tests have left classes on this server.
        assert len([page for page in lists(proxy) if "continue" not in page.query]) == 1

    with Proxy(uncached) as proxy:
        play(proxy, uncached, course)


def test_compaction_while_the_watch_was_cut_leads_to_a_new_list(uncached: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create("gone")
        async with reflecting(proxy.kubeconfig(ADMIN)) as cache:
            await reported(cache, await api.create("seen"))  # the watch is open
            hold = Hold()
            held = proxy.on("GET", "/deviceclasses", hold, where=resumes)
            proxy.cut_watches()
            await held.met.reached()
            last = await api.delete("gone")
            compact(uncached, last)
            hold.release()
            assert "gone" not in await reported(cache, last)
            assert cache.store.restarts == 1

    with Proxy(uncached) as proxy:
        play(proxy, uncached, course)


def test_continue_token_that_a_compaction_has_expired_leads_to_a_new_list(uncached: ControlPlane) -> None:
    async def course(proxy: Proxy, api: ClassCalls) -> None:
        await api.create_all([f"t{number:03}" for number in range(A_PAGE + 10)])
        last = await api.create("z")
        hold = Hold()
        held = proxy.on("GET", "/deviceclasses", hold, where=lambda request: "continue" in request.query)

        async def forget() -> None:
            await held.met.reached()
            compact(uncached, await api.create("zz"))
            hold.release()

        forgetting = asyncio.create_task(forget())
        async with reflecting(proxy.kubeconfig(ADMIN), lists_by_watch=False) as cache:
            await forgetting
            assert "zz" in await reported(cache, last)
            assert len([name for name in dict(cache.store.values()) if name.startswith("t")]) == A_PAGE + 10
        assert [request.status for request in lists(proxy)] == [200, 410, 200, 200]

    with Proxy(uncached) as proxy:
        play(proxy, uncached, course)
