"""The proxy between a client and the API server: it passes on what it should, and does wrong what it is asked to."""

import asyncio
import gc
import http.client
import json
import socket
import ssl
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.controlplane.faults import (
    HALF_A_LINE,
    Hold,
    Rewrite,
    Stream,
    Then,
    cut_before,
    error_event,
    lose_answer,
    meanwhile,
    refuse,
)
from tests.controlplane.identities import ADMIN, OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import NODE, ApiError, Cause, Json, RestClient

NODES = "/api/v1/nodes"
LOST = (ConnectionResetError, http.client.RemoteDisconnected, ssl.SSLEOFError)
GONE = (ConnectionError, ssl.SSLError, http.client.IncompleteRead)
NOT_ENDED_S = 0.5  # a proxy that does not wait takes a tenth of a second
LISTENING = "0A"  # a state of /proc/net/tcp


def a_node(name: str = "a", **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@contextmanager
def a_watch(proxy: Proxy, plane: ControlPlane, version: str = "") -> Iterator[http.client.HTTPResponse]:
    """A running watch of the nodes, through the proxy."""
    tls = ssl.create_default_context(cafile=plane.ca_file)
    connection = http.client.HTTPSConnection(urlsplit(proxy.server).netloc, timeout=TIMEOUT_S, context=tls)
    headers = {"Authorization": f"Bearer {plane.token_file(ADMIN).read_text()}"}
    connection.request("GET", f"{NODES}?watch=1&resourceVersion={version}", headers=headers)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def an_event(watch: http.client.HTTPResponse) -> tuple[str, str]:
    """The next event's type, and the name or the reason of its object."""
    event = json.loads(watch.readline())
    return event["type"], event["object"].get("reason") or event["object"]["metadata"]["name"]


def test_calls_and_refusals_are_passed_on_for_each_identity(proxy: Proxy) -> None:
    admin = proxy.client()
    admin.create(a_node())
    assert [node["metadata"]["name"] for node in admin.list(NODE)] == ["a"]
    with pytest.raises(ApiError) as refused:
        proxy.client(OURS).list(NODE)
    assert refused.value.status == 403
    assert OURS.user in refused.value.message


def test_kubeconfig_leads_through_the_proxy(proxy: Proxy, plane: ControlPlane) -> None:
    own, proxied = (json.loads(path.read_text()) for path in (plane.kubeconfig(OURS), proxy.kubeconfig(OURS)))
    assert own["users"] == proxied["users"]
    assert proxied["clusters"][0]["cluster"]["server"] == proxy.server != plane.server


def test_requests_are_logged_with_what_was_sent_and_answered(proxy: Proxy) -> None:
    admin = proxy.client()
    admin.create(a_node())
    admin.list(NODE)
    (write,) = proxy.writes("/nodes$")
    assert (write.method, write.path, write.status) == ("POST", NODES, 201)
    assert write.sent["metadata"]["name"] == "a"
    assert write.query == {"fieldValidation": "Strict"}
    assert str(proxy.requests[-1]) == f"GET {NODES}: 200"


def test_refusal_is_a_status_with_causes_and_only_for_the_nth_match(proxy: Proxy, api: RestClient) -> None:
    causes = [Cause("spec.podCIDR", "FieldValueInvalid", "no")]
    rule = proxy.on("POST", "/nodes$", refuse(422, "Invalid", "wrong", causes), nth=2)
    admin = proxy.client()
    admin.create(a_node("first"))
    with pytest.raises(ApiError) as refused:
        admin.create(a_node("second"))
    admin.create(a_node("third"))
    assert (refused.value.status, refused.value.reason, refused.value.message) == (422, "Invalid", "wrong")
    assert list(refused.value.causes) == causes
    assert {node["metadata"]["name"] for node in api.list(NODE)} == {"first", "third"}
    assert rule.matched == 3


def test_rule_may_look_at_the_body_and_hold_for_all(proxy: Proxy) -> None:
    is_bad = "bad"
    proxy.on("POST", "nodes", refuse(409, "Conflict"), where=lambda r: r.sent["metadata"]["name"] == is_bad, times=None)
    admin = proxy.client()
    admin.create(a_node("good"))
    for _ in range(2):
        with pytest.raises(ApiError, match="409 Conflict"):
            admin.create(a_node(is_bad))
    proxy.forget_rules()
    admin.create(a_node(is_bad))


def test_too_many_requests_says_when_to_come_again(proxy: Proxy, plane: ControlPlane) -> None:
    proxy.on("GET", NODES, refuse(429, "TooManyRequests", retry_after_s=7))
    with a_watch(proxy, plane) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert json.loads(answer.read())["details"]["retryAfterSeconds"] == 7


def test_cut_request_never_reaches_the_server(proxy: Proxy, api: RestClient) -> None:
    proxy.on("POST", "nodes", cut_before)
    with pytest.raises(LOST):
        proxy.client().create(a_node())
    assert api.list(NODE) == []
    assert proxy.requests[-1].status == 0


def test_lost_answer_is_that_of_a_write_that_was_carried_out(proxy: Proxy, api: RestClient) -> None:
    proxy.on("POST", "nodes", lose_answer)
    with pytest.raises(LOST):
        proxy.client().create(a_node())
    assert [node["metadata"]["name"] for node in api.list(NODE)] == ["a"]


def test_somebody_else_may_write_first(proxy: Proxy, api: RestClient) -> None:
    stored = api.create(a_node())
    proxy.on("PUT", "nodes/a$", meanwhile(lambda: api.replace({**stored, **a_node(theirs="yes")})))
    with pytest.raises(ApiError, match="409 Conflict"):
        proxy.client().replace(stored)


def test_held_request_goes_on_when_it_is_released(proxy: Proxy, api: RestClient) -> None:
    hold = Hold()
    rule = proxy.on("POST", "nodes", hold)
    with ThreadPoolExecutor() as threads:
        created = threads.submit(proxy.client().create, a_node())
        rule.met.wait()
        assert api.list(NODE) == []
        hold.release()
        assert created.result(TIMEOUT_S)["metadata"]["uid"]


def test_held_write_is_carried_out_though_its_client_has_given_up(
    proxy: Proxy, plane: ControlPlane, api: RestClient
) -> None:
    hold = Hold()
    rule = proxy.on("POST", "nodes", hold)

    async def give_up() -> None:
        tls = ssl.create_default_context(cafile=plane.ca_file)
        headers = {"Authorization": f"Bearer {plane.token_file(ADMIN).read_text()}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            call = asyncio.ensure_future(session.post(f"{proxy.server}{NODES}", json=a_node(), headers=headers))
            await rule.met.reached()
            call.cancel()

    asyncio.run(give_up())
    assert api.list(NODE) == []
    hold.release()
    assert api.await_all(NODE, lambda nodes: len(nodes) == 1)


def test_watch_is_streamed_and_can_be_cut(proxy: Proxy, plane: ControlPlane, api: RestClient) -> None:
    with a_watch(proxy, plane) as watch:
        api.create(a_node())
        assert an_event(watch) == ("ADDED", "a")
        assert [request.path for request in proxy.watches("/nodes$")] == [NODES]
        assert proxy.cut_watches("/pods$") == 0
        assert proxy.cut_watches("/nodes$") == 1
        with pytest.raises(GONE):
            watch.read()
    assert proxy.watches() == []


def test_silenced_watch_stays_open_and_reports_nothing(proxy: Proxy, plane: ControlPlane, api: RestClient) -> None:
    with a_watch(proxy, plane) as watch:
        assert proxy.silence_watches("nodes") == 1
        api.create(a_node())
        with a_watch(proxy, plane) as later:
            assert an_event(later) == ("ADDED", "a")
        assert proxy.cut_watches() >= 1
        with pytest.raises(GONE) as lost:
            watch.read()
    assert not isinstance(lost.value, http.client.IncompleteRead) or lost.value.partial == b""


def test_watch_ends_as_asked_for(proxy: Proxy, plane: ControlPlane, api: RestClient) -> None:
    api.create(a_node())
    version = api.create(a_node("b"))["metadata"]["resourceVersion"]
    proxy.on("GET", NODES, Stream(1, Then.END))
    with a_watch(proxy, plane) as watch:
        assert len(watch.read().splitlines()) == 1
    proxy.on("GET", NODES, Stream(0, Then.END, error_event(410, "Expired")))
    with a_watch(proxy, plane, version) as watch:
        assert an_event(watch) == ("ERROR", "Expired")
        assert watch.read() == b""
    proxy.on("GET", NODES, Stream(1, Then.RESET, HALF_A_LINE))
    with a_watch(proxy, plane) as watch:
        assert an_event(watch)[0] == "ADDED"
        with pytest.raises(GONE):
            watch.read()


def test_answers_are_changed_on_their_way_back_page_by_page_and_line_by_line(
    proxy: Proxy, plane: ControlPlane, api: RestClient
) -> None:
    rewrite = Rewrite(lambda text: text.replace(b'"name":"a"', b'"name":"z"'))
    proxy.on("GET", NODES, rewrite, times=None)
    api.create(a_node())
    assert [node["metadata"]["name"] for node in proxy.client().list(NODE)] == ["z"]
    with a_watch(proxy, plane) as watch:
        assert an_event(watch) == ("ADDED", "z")
        rewrite.change = bytes
        api.delete(NODE, "a")
        assert an_event(watch)[1] == "a"


def test_large_objects_pass_whole(proxy: Proxy, plane: ControlPlane, api: RestClient) -> None:
    text = "x" * 200_000
    api.create({**a_node(), "metadata": {"name": "a", "annotations": {"example.com/long": text}}})
    with a_watch(proxy, plane) as watch:
        assert json.loads(watch.readline())["object"]["metadata"]["annotations"]["example.com/long"] == text


def test_proxy_ends_with_watches_and_held_requests_open(plane: ControlPlane) -> None:
    with ExitStack() as watching, ThreadPoolExecutor() as threads:
        with Proxy(plane) as proxy:
            rule = proxy.on("POST", "nodes", Hold())
            held = threads.submit(proxy.client().create, a_node())
            rule.met.wait()
            watch = watching.enter_context(a_watch(proxy, plane))
        assert isinstance(held.exception(TIMEOUT_S), LOST)
        with pytest.raises(GONE):
            watch.read()
    assert plane.client().list(NODE) == []


def test_proxy_ends_no_earlier_than_connections_that_it_was_shown_nothing_of(plane: ControlPlane) -> None:
    with warnings.catch_warnings(record=True) as reported, ThreadPoolExecutor() as threads:
        warnings.simplefilter("always")
        proxy = Proxy(plane)
        proxy.__enter__()
        where = urlsplit(proxy.server)
        address = (str(where.hostname), where.port or 0)
        with socket.create_connection(address) as begun:
            begun.sendall(b"\x16\x03\x01")  # of a handshake
            proxy.client().list(NODE)  # it was let in by now: this one came later
            ending = threads.submit(proxy.__exit__)
            while is_listening(address[1]):
                pass
            with pytest.raises(TimeoutError):
                ending.result(NOT_ENDED_S)
        ending.result(TIMEOUT_S)
        gc.collect()
    assert [str(one.message) for one in reported] == []


def is_listening(port: int) -> bool:
    """Whether anybody listens there; asked without a connection, which could be accepted in the last moment."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == LISTENING for line in lines)
