"""Where credentials are looked for."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import uvloop

from scheduler.client.credentials import Credentials, load
from scheduler.client.errors import NotConfigured


def a_kubeconfig(path: Path, server: str = "https://a.example", **user: object) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))
    return path


def host_of(home: Path, environ: Mapping[str, str], kubeconfig: Path | None = None, context: str | None = None) -> str:
    found = asyncio.run(load(kubeconfig, context, environ, home))
    return str(found.configuration.host)


def test_named_file_goes_before_the_environment_and_that_before_the_home(tmp_path: Path) -> None:
    named = a_kubeconfig(tmp_path / "named", "https://named.example")
    env = {"KUBECONFIG": str(a_kubeconfig(tmp_path / "env", "https://env.example"))}
    a_kubeconfig(tmp_path / ".kube" / "config", "https://home.example")
    assert host_of(tmp_path, env, named) == "https://named.example"
    assert host_of(tmp_path, env) == "https://env.example"
    assert host_of(tmp_path, {}) == "https://home.example"


def test_missing_file_and_missing_context_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"kubeconfig .*/nowhere is not a file"):
        host_of(tmp_path, {}, tmp_path / "nowhere")
    with pytest.raises(NotConfigured, match=r"config: context 'y' does not exist"):
        host_of(tmp_path, {}, a_kubeconfig(tmp_path / "config"), "y")


@pytest.mark.parametrize("content", ["[]", "5", "{clusters: 5, users: [], contexts: [], current-context: x}"], ids=repr)
def test_file_that_is_no_kubeconfig_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(NotConfigured, match=r"/config: is not a valid kubeconfig"):
        host_of(tmp_path, {}, path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("x: [", r"is not valid YAML: line 1, column 5: expected"),
        (b"\xff\xfe\x00", "is not valid YAML"),
        ('{"clusters": [5]}', r"is not a valid kubeconfig: clusters\[0\]: must be an object"),
        ('{"users": [{"user": {}}]}', r"is not a valid kubeconfig: users\[0\].name: is required, as a string"),
        ('{"contexts": [{"name": "x", "context": []}]}', r"contexts\[0\].context: must be an object"),
        ('{"users": [{"name": "u", "user": {"token": 5}}]}', r"users\[0\].user.token: must be a string"),
        ('{"users": [{"name": "u", "user": {"exec": [1]}}]}', r"users\[0\].user.exec: must be an object"),
        ('{"current-context": 5}', "is not a valid kubeconfig: current-context: must be a string"),
        ("[" * 5000, "is not valid YAML"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_what_is_wrong_with_a_kubeconfig_is_said_in_words(
    content: str | bytes, problem: str, tmp_path: Path, *, is_named: bool
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(NotConfigured, match=f"/config: .*{problem}"):
        host_of(tmp_path, {} if is_named else {"KUBECONFIG": str(path)}, path if is_named else None)


@pytest.mark.parametrize("server", ["", "foo://x", "https://127.0.0.1:99999", "https://", "https://[::1", "a b", "a"])
def test_server_that_cannot_be_called_is_named(server: str, tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"/config: server: .* is no address such as https://"):
        host_of(tmp_path, {}, a_kubeconfig(tmp_path / "config", server))


@pytest.mark.parametrize("named", ["/nowhere/config", ":", "/nowhere/config:/nowhere/other", "~nobody/x", "x" * 5000])
def test_environment_that_names_no_file_is_quoted(named: str, tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"KUBECONFIG .* is not a file"):
        host_of(tmp_path, {"KUBECONFIG": named})


def test_of_several_files_those_that_are_there_are_read(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path / "config", "https://there.example")
    assert host_of(tmp_path, {"KUBECONFIG": f"/nowhere/config:{path}"}) == "https://there.example"
    with pytest.raises(NotConfigured, match="cannot be read: Is a directory"):
        host_of(tmp_path, {"KUBECONFIG": f"{path}:{tmp_path}"})


def test_plugin_that_is_not_there_is_reported_on_the_loop_of_the_program(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/plugin"}
    path = a_kubeconfig(tmp_path / "config", exec=plugin)
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        pytest.raises(NotConfigured, match=r"exec.command /nowhere/plugin: cannot start: No such file or directory"),
    ):
        runner.run(load(path, None, {}, tmp_path))


def test_nothing_configured_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="no API server is configured: give --kubeconfig"):
        host_of(tmp_path, {})


def test_pod_without_its_token_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="the service account of this pod: "):
        host_of(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


PLUGIN = "client.authentication.k8s.io/v1"


def a_plugin(program: str) -> dict[str, object]:
    return {"apiVersion": PLUGIN, "command": sys.executable, "args": ["-c", program]}


def a_status(token: str, expires: str = "2999-01-01T00:00:00Z") -> str:
    status = {"token": token, "expirationTimestamp": expires}
    return json.dumps({"apiVersion": PLUGIN, "kind": "ExecCredential", "status": status})


class CredentialsAnswers:
    """What a plugin gives, by pipes: for as long as nothing is given, it hangs."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "answer"
        os.mkfifo(self._path)
        self.user = a_plugin(f"print(open({str(self._path)!r}).read())")

    def give(self, status: str) -> None:
        """Returns once a plugin runs and has been given it."""
        self._path.write_text(status)


def test_plugin_that_hangs_leaves_what_it_gave_before_in_use_and_all_that_are_refused_wait_for_one_run(
    tmp_path: Path,
) -> None:
    answers = CredentialsAnswers(tmp_path)
    path = a_kubeconfig(tmp_path / "config", exec=answers.user)

    async def used() -> list[object]:
        loading = asyncio.create_task(load(path, None, {}, tmp_path))
        await asyncio.to_thread(answers.give, a_status("t1"))
        credentials = await loading
        waiting = [asyncio.create_task(credentials.renewed("Bearer t1")) for _ in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await credentials.renewed("Bearer t1")
        meanwhile = credentials.authorization()
        await asyncio.to_thread(answers.give, a_status("t2"))
        return [meanwhile, *await asyncio.gather(*waiting), credentials.authorization()]

    assert asyncio.run(used()) == ["Bearer t1", True, True, True, "Bearer t2"]


def test_what_the_server_refused_counts_as_refused_for_as_long_as_the_plugin_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = CredentialsAnswers(tmp_path)
    path = a_kubeconfig(tmp_path / "config", exec=answers.user)
    monkeypatch.setattr("scheduler.client.credentials.LASTS_S", 1e-9)

    async def refused() -> list[bool]:
        loading = asyncio.create_task(load(path, None, {}, tmp_path))
        await asyncio.to_thread(answers.give, a_status("t1"))
        credentials = await loading
        credentials.refused()
        said = [credentials.is_refused]  # once, and nobody waits: it may have been a server that has just started
        waiting = asyncio.create_task(credentials.renewed("Bearer t1"))
        await asyncio.sleep(0)
        said.append(credentials.is_refused)
        credentials.accepted()
        said.append(credentials.is_refused)
        await asyncio.to_thread(answers.give, a_status("t2"))
        await waiting
        return said

    assert asyncio.run(refused()) == [False, True, False]


def test_what_expires_soon_is_renewed_beside_the_calls(tmp_path: Path) -> None:
    answers = CredentialsAnswers(tmp_path)
    path = a_kubeconfig(tmp_path / "config", exec=answers.user)

    async def used() -> tuple[str, str]:
        loading = asyncio.create_task(load(path, None, {}, tmp_path))
        await asyncio.to_thread(answers.give, a_status("t1", expires="2000-01-01T00:00:00Z"))
        credentials = await loading
        credentials._renew_at = 0
        at_once = credentials.authorization()
        await asyncio.to_thread(answers.give, a_status("t2"))
        assert credentials._renewal is not None
        await credentials._renewal[0]
        return at_once, credentials.authorization()

    assert asyncio.run(used()) == ("Bearer t1", "Bearer t2")


def test_what_lasts_is_not_asked_for_again(tmp_path: Path) -> None:
    answers = CredentialsAnswers(tmp_path)
    path = a_kubeconfig(tmp_path / "config", exec=answers.user)

    async def used() -> str:
        loading = asyncio.create_task(load(path, None, {}, tmp_path))
        await asyncio.to_thread(answers.give, a_status("t1"))
        credentials = await loading
        credentials._renew_at = 0
        credentials.authorization()
        assert credentials._renewal is not None
        await credentials._renewal[0]  # another run would wait for ever
        return credentials.authorization()

    assert asyncio.run(used()) == "Bearer t1"


def test_plugin_that_fails_is_reported_until_it_succeeds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    answers = CredentialsAnswers(tmp_path)
    path = a_kubeconfig(tmp_path / "config", exec=answers.user)

    async def troubles() -> tuple[bool, str, bool, str]:
        loading = asyncio.create_task(load(path, None, {}, tmp_path))
        await asyncio.to_thread(answers.give, a_status("t1"))
        credentials = await loading
        failing = asyncio.create_task(credentials.renewed("Bearer t1"))
        await asyncio.to_thread(answers.give, "")
        failed, trouble = await failing, credentials.trouble
        renewing = asyncio.create_task(credentials.renewed("Bearer t1"))
        await asyncio.to_thread(answers.give, a_status("t2"))
        return failed, trouble, await renewing, credentials.trouble

    failed, trouble, is_renewed, after = asyncio.run(troubles())
    assert (failed, is_renewed, after) == (False, True, "")
    assert trouble.startswith(f"exec.command {sys.executable}: did not print JSON")
    assert f"cannot renew the credentials: {trouble}" in caplog.text


def test_closing_ends_a_plugin_that_hangs(tmp_path: Path) -> None:
    answers = CredentialsAnswers(tmp_path)
    path = a_kubeconfig(tmp_path / "config", exec=answers.user)

    async def closed() -> None:
        loading = asyncio.create_task(load(path, None, {}, tmp_path))
        await asyncio.to_thread(answers.give, a_status("t1"))
        credentials = await loading
        waiting = asyncio.create_task(credentials.renewed("Bearer t1"))
        await asyncio.sleep(0)
        credentials.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(closed())


def test_file_of_a_token_that_cannot_be_read_at_once_holds_nothing_up(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t1")
    path = a_kubeconfig(tmp_path / "config", tokenFile=str(file))

    async def used() -> tuple[str, bool, str]:
        credentials = await load(path, None, {}, tmp_path)
        file.unlink()
        os.mkfifo(file)
        renewing = asyncio.create_task(credentials.renewed("Bearer t1"))
        await asyncio.sleep(0)
        meanwhile = credentials.authorization()
        await asyncio.to_thread(file.write_text, "t2")
        return meanwhile, await renewing, credentials.authorization()

    assert asyncio.run(used()) == ("Bearer t1", True, "Bearer t2")


def test_refused_token_of_a_plugin_is_renewed_once_for_all_calls(tmp_path: Path) -> None:
    counter = tmp_path / "runs"
    program = (
        f"import json; runs = open({str(counter)!r}, 'a+'); runs.write('.'); runs.seek(0); "
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', "
        "'status': {'token': f't{len(runs.read())}', 'expirationTimestamp': '2999-01-01T00:00:00Z'}}))"
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", program]}

    async def refused() -> tuple[str, list[bool], str]:
        credentials = await load(a_kubeconfig(tmp_path / "config", exec=plugin), None, {}, tmp_path)
        first = credentials.authorization()
        renewed = await asyncio.gather(*(credentials.renewed(first) for _ in range(3)))
        return first, renewed, credentials.authorization()

    assert asyncio.run(refused()) == ("Bearer t1", [True, True, True], "Bearer t2")
    assert counter.read_text() == ".."


def test_token_that_stays_the_same_is_not_tried_again(tmp_path: Path) -> None:
    async def renewed() -> bool:
        credentials: Credentials = await load(a_kubeconfig(tmp_path / "config", token="t"), None, {}, tmp_path)  # noqa: S106 - of no server
        return await credentials.renewed(credentials.authorization())

    assert not asyncio.run(renewed())
