"""The client against a real API server: answers, refusals, cut connections, and what the server serves."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from allocator.api.versions import Json
from scheduler.client.api_resources import NAMESPACES, claims, classes
from scheduler.client.connection import Connection, connect
from scheduler.client.discovery import NotServed, Served, discover
from scheduler.client.errors import ApiError, NotConfigured, Unanswered
from tests.controlplane.binaries import Binaries
from tests.controlplane.faults import Stream, Then, lose_answer, refuse, withhold_answer
from tests.controlplane.identities import ADMIN
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.profiles import ALL, DEFAULT
from tests.controlplane.proxy import Proxy
from tests.integration.conftest import Planes

CLASSES = classes("v1")
CLAIMS = claims("v1")
A_CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


async def created(connection: Connection) -> Json:
    return await connection.request("POST", CLASSES.path(), body=A_CLASS)


def test_object_goes_there_and_back(plane: ControlPlane) -> None:
    async def trip() -> tuple[Json, Json]:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            await created(connection)
            found = await connection.request("GET", CLASSES.path(name="gpu"))
            listed = await connection.request("GET", CLASSES.path(), query={"fieldSelector": "metadata.name=gpu"})
            return found, listed

    found, listed = asyncio.run(trip())
    assert found["metadata"]["name"] == listed["items"][0]["metadata"]["name"] == "gpu"


def test_stale_version_is_a_conflict_and_an_invalid_object_reports_its_causes(plane: ControlPlane) -> None:
    async def refused() -> tuple[ApiError, ApiError]:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            stale = await created(connection)
            labelled = {**stale, "metadata": {**stale["metadata"], "labels": {"a": "b"}}}
            await connection.request("PUT", CLASSES.path(name="gpu"), body=labelled)
            with pytest.raises(ApiError) as conflict:
                await connection.request("PUT", CLASSES.path(name="gpu"), body=labelled)
            misnamed = {**A_CLASS, "metadata": {"name": "NO"}}
            with pytest.raises(ApiError) as invalid:
                await connection.request("POST", CLASSES.path(), body=misnamed)
            return conflict.value, invalid.value

    conflict, invalid = asyncio.run(refused())
    assert (conflict.status, conflict.reason, conflict.is_ambiguous) == (409, "Conflict", False)
    assert (invalid.status, invalid.causes[0].field) == (422, "metadata.name")


def test_token_that_nobody_knows_is_refused(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "stranger"
    token = plane.token_file(ADMIN).read_text()
    kubeconfig.write_text(plane.kubeconfig().read_text().replace(token, "stranger"))

    async def refused() -> ApiError:
        async with connect(kubeconfig=kubeconfig) as connection:
            with pytest.raises(ApiError) as error:
                await connection.request("GET", NAMESPACES.path())
            return error.value

    assert asyncio.run(refused()).status == 401


def test_token_that_the_server_no_longer_takes_is_renewed_by_its_plugin(plane: ControlPlane, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    program = (
        f"import json, pathlib; asked = pathlib.Path({str(asked)!r}); "
        f"token = pathlib.Path({str(plane.token_file(ADMIN))!r}).read_text() if asked.exists() else 'old'; "
        "asked.write_text('once'); "
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', "
        "'status': {'token': token, 'expirationTimestamp': '2999-01-01T00:00:00Z'}}))"
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", program]}
    config = json.loads(plane.kubeconfig().read_text())
    config["users"][0]["user"] = {"exec": plugin}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))

    async def several() -> list[Json]:
        async with connect(kubeconfig=kubeconfig) as connection:
            return await asyncio.gather(*(connection.request("GET", NAMESPACES.path(name="default")) for _ in range(3)))

    assert [found["metadata"]["name"] for found in asyncio.run(several())] == ["default"] * 3


def test_refused_connection_was_certainly_not_carried_out(plane: ControlPlane, tmp_path: Path) -> None:
    nobody = f"https://127.0.0.1:{free_ports(1)[0]}"
    kubeconfig = tmp_path / "nobody"
    kubeconfig.write_text(plane.kubeconfig().read_text().replace(plane.server, nobody))

    async def unanswered() -> Unanswered:
        async with connect(kubeconfig=kubeconfig) as connection:
            with pytest.raises(Unanswered) as error:
                await created(connection)
            return error.value

    error = asyncio.run(unanswered())
    assert not error.is_ambiguous
    assert "POST /apis/resource.k8s.io/v1/deviceclasses: Cannot connect" in str(error)


def test_answer_that_comes_too_late_leaves_the_outcome_open(proxy: Proxy) -> None:
    proxy.on("POST", "/deviceclasses", withhold_answer)

    async def unanswered() -> Unanswered:
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            with pytest.raises(Unanswered) as error:
                await connection.request("POST", CLASSES.path(), body=A_CLASS, timeout_s=0.2)
            return error.value

    error = asyncio.run(unanswered())
    assert error.is_ambiguous
    assert str(error).endswith("no answer in time")


async def labelled(connection: Connection) -> Json:
    """A class that is written once more, over a connection that has served already."""
    stored = await created(connection)
    metadata = {**stored["metadata"], "labels": {"a": "b"}}
    return await connection.request("PUT", CLASSES.path(name="gpu"), body={**stored, "metadata": metadata})


def test_write_whose_answer_is_lost_is_not_sent_again(proxy: Proxy) -> None:
    proxy.on("PUT", "/deviceclasses/gpu", lose_answer)

    async def lost() -> tuple[Unanswered, Json]:
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            with pytest.raises(Unanswered) as error:
                await labelled(connection)
            return error.value, await connection.request("GET", CLASSES.path(name="gpu"))

    error, found = asyncio.run(lost())
    assert error.is_ambiguous
    assert found["metadata"]["labels"] == {"a": "b"}
    assert [request.method for request in proxy.writes()] == ["POST", "PUT"]


def test_call_that_is_put_off_is_made_again_when_the_server_says(proxy: Proxy) -> None:
    proxy.on("PUT", "/deviceclasses/gpu", refuse(429, "TooManyRequests", retry_after_s=0), times=3)

    async def put_off() -> Json:
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            return await labelled(connection)

    assert asyncio.run(put_off())["metadata"]["labels"] == {"a": "b"}
    assert [request.status for request in proxy.writes()] == [201, 429, 429, 429, 200]


def test_call_that_is_put_off_too_often_fails(proxy: Proxy) -> None:
    proxy.on("PUT", "/deviceclasses/gpu", refuse(429, "TooManyRequests", retry_after_s=0), times=None)

    async def put_off() -> ApiError:
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            with pytest.raises(ApiError) as error:
                await labelled(connection)
            return error.value

    error = asyncio.run(put_off())
    assert (error.status, error.is_ambiguous, len(proxy.writes("gpu"))) == (429, False, 5)


def test_trouble_of_the_server_leaves_the_outcome_of_a_write_open(proxy: Proxy) -> None:
    proxy.on("PUT", "/deviceclasses/gpu", refuse(504, "Timeout"))

    async def refused() -> ApiError:
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            with pytest.raises(ApiError) as error:
                await labelled(connection)
            return error.value

    assert asyncio.run(refused()).is_ambiguous


def test_lines_of_a_watch_come_one_by_one_and_end_with_it(proxy: Proxy) -> None:
    proxy.on("GET", "/deviceclasses", Stream(1, Then.END))

    async def lines() -> list[bytes]:
        async with connect(kubeconfig=proxy.kubeconfig(ADMIN)) as connection:
            await created(connection)
            async with connection.stream(CLASSES.path(), {"watch": "1"}, idle_s=TIMEOUT_S) as found:
                return [line async for line in found]

    (line,) = asyncio.run(lines())
    assert line.startswith(b'{"type":"ADDED"')
    assert line.endswith(b"}")


def test_silent_watch_is_reported(plane: ControlPlane) -> None:
    async def silent() -> Unanswered:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            with pytest.raises(Unanswered) as error:
                async with connection.stream(CLAIMS.path(), {"watch": "1"}, idle_s=0.05) as found:
                    assert [line async for line in found] == []
            return error.value

    assert "no answer in time" in str(asyncio.run(silent()))


def test_kubeconfig_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    async def opened() -> None:
        async with connect(kubeconfig=tmp_path / "none"):
            pass

    with pytest.raises(NotConfigured, match="none is not a file"):
        asyncio.run(opened())


async def discovered(kubeconfig: Path) -> Served:
    async with connect(kubeconfig=kubeconfig) as connection:
        return await discover(connection)


def test_server_as_it_comes_serves_v1_and_no_rules(planes: Planes) -> None:
    found = asyncio.run(discovered(planes.of(DEFAULT).kubeconfig()))
    assert (found.kubernetes, found.release, found.version, found.taint_rules) == ("v1.36.3", "1.36", "v1", None)


@pytest.mark.parametrize(
    ("versions", "found"), [({"v1beta1": True}, "v1beta1"), ({"v1beta1": True, "v1beta2": True}, "v1beta2")]
)
def test_older_version_is_used_where_v1_is_not_served(
    binaries: Binaries, tmp_path: Path, versions: dict[str, bool], found: str
) -> None:
    shown = ",".join(
        f"resource.k8s.io/{name}={str(is_on).lower()}" for name, is_on in {"v1": False, **versions}.items()
    )
    flags = {"kube-apiserver": [f"--runtime-config={shown}"]}
    with ControlPlane(binaries, tmp_path, DEFAULT, controllers=("namespace-controller",), flags=flags) as plane:
        assert asyncio.run(discovered(plane.kubeconfig())).version == found


def test_server_without_device_allocation_is_refused(binaries: Binaries, tmp_path: Path) -> None:
    flags = {"kube-apiserver": ["--runtime-config=resource.k8s.io/v1=false"]}
    message = r"Kubernetes v1\.36\.3 serves resource\.k8s\.io not at all"
    with (
        ControlPlane(binaries, tmp_path, DEFAULT, controllers=("namespace-controller",), flags=flags) as plane,
        pytest.raises(NotServed, match=message),
    ):
        asyncio.run(discovered(plane.kubeconfig()))


def test_rules_are_found_in_the_best_version_that_has_them(planes: Planes) -> None:
    found = asyncio.run(discovered(planes.of(ALL).kubeconfig()))
    assert found.version == "v1"
    assert found.taint_rules is not None
    assert found.taint_rules.api_version == "resource.k8s.io/v1beta2"
