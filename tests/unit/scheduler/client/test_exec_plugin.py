"""Programs that give credentials, and those that give none."""

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.client.credentials import Exec, PluginFailed, Programs, exec_of

API_VERSION = "client.authentication.k8s.io/v1"
NAME = f"exec.command {sys.executable}: "


def a_plugin(program: str, *arguments: str, **environment: str) -> Exec:
    return Exec(API_VERSION, sys.executable, ["-c", program, *arguments], environment)


def saying(output: object) -> Exec:
    return a_plugin(f"print({json.dumps(output)!r})")


def failure(plugin: Exec, limit_s: float = 60.0) -> str:
    with pytest.raises(PluginFailed) as failed:
        Programs(limit_s).status_of(plugin)
    return str(failed.value)


def test_plugin_gets_its_arguments_its_environment_and_what_is_asked() -> None:
    program = (
        "import json, os, sys; asked = json.loads(os.environ['KUBERNETES_EXEC_INFO']); "
        "print(json.dumps({**asked, 'status': {'token': sys.argv[1] + os.environ['OWN'], 'asked': asked}}))"
    )
    asked = {"apiVersion": API_VERSION, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert Programs().status_of(a_plugin(program, "a", OWN="b")) == {"token": "ab", "asked": asked}


def test_nobody_is_asked_at_the_terminal() -> None:
    program = (
        "import json, sys; "
        f"print(json.dumps({{'apiVersion': {API_VERSION!r}, 'status': {{'token': sys.stdin.read() + 'none'}}}}))"
    )
    assert Programs().status_of(a_plugin(program))["token"] == "none"  # noqa: S105 - of no server


def hanging(folder: Path) -> tuple[Exec, Path]:
    """A plugin that waits for its child, which holds the pipe open for as long as it lives."""
    held, silent = folder / "held", folder / "silent"
    os.mkfifo(held)
    os.mkfifo(silent)
    grandchild = (
        f"import os; pipe = os.open({str(held)!r}, os.O_WRONLY); os.write(pipe, b'.'); "
        f"os.read(os.open({str(silent)!r}, os.O_RDWR), 1)"
    )
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    return a_plugin(program), held


def test_plugin_that_hangs_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    plugin, held = hanging(tmp_path)
    programs, reported = Programs(), list[str]()

    def run() -> None:
        with pytest.raises(PluginFailed) as failed:
            programs.status_of(plugin)
        reported.append(str(failed.value))

    running = threading.Thread(target=run)
    running.start()
    with held.open("rb") as pipe:
        assert pipe.read(1) == b"."  # the child is there
        programs.close()
        assert pipe.read() == b""  # and is no more: nobody holds the other end
    running.join()
    assert reported == [f"{NAME}exited with code -9"]


def test_limit_ends_a_plugin_and_names_its_command(tmp_path: Path) -> None:
    plugin, _ = hanging(tmp_path)
    assert failure(plugin, limit_s=0.01) == f"{NAME}printed nothing within 0.01 s and was killed"


def test_nothing_runs_once_all_is_closed(tmp_path: Path) -> None:
    plugin, _ = hanging(tmp_path)
    programs = Programs()
    programs.close()
    with pytest.raises(PluginFailed, match="exited with code -9"):
        programs.status_of(plugin)


def test_plugin_that_complains_at_length_before_it_answers_does_not_stall() -> None:
    answer = json.dumps({"apiVersion": API_VERSION, "status": {"token": "t"}})
    plugin = a_plugin(f"import sys; sys.stderr.write('x' * 1000000); print({answer!r})")
    assert Programs().status_of(plugin) == {"token": "t"}


@pytest.mark.parametrize(
    ("plugin", "reported"),
    [
        (Exec(API_VERSION, "/nowhere/plugin", [], {}), "exec.command /nowhere/plugin: cannot start: No such file"),
        (a_plugin("import sys; sys.exit('log in first')"), f"{NAME}exited with code 1: log in first"),
        (a_plugin("pass"), f"{NAME}did not print JSON: "),
        (saying([]), f"{NAME}did not print an object but list"),
        (saying({"apiVersion": "v2"}), f"{NAME}returned apiVersion v2, must be {API_VERSION}"),
        (saying({"apiVersion": API_VERSION}), f"{NAME}returned no status.token or status.clientCertificateData"),
        (saying({"apiVersion": API_VERSION, "status": {}}), f"{NAME}returned no status.token or"),
        (
            saying({"apiVersion": API_VERSION, "status": {"clientCertificateData": "c"}}),
            f"{NAME}returned clientCertificateData without clientKeyData",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_plugin_that_gives_nothing_of_use_is_named_with_what_it_gave(plugin: Exec, reported: str) -> None:
    assert failure(plugin).startswith(reported)


@pytest.mark.parametrize(
    ("raw", "field"), [({}, "apiVersion"), ({"apiVersion": API_VERSION}, "command"), ({"apiVersion": 1}, "apiVersion")]
)
def test_field_that_a_plugin_needs_is_named(raw: Mapping[str, Any], field: str) -> None:
    with pytest.raises(PluginFailed, match=f"exec.{field} is required, as a string"):
        exec_of(raw)


def test_gcloud_gives_its_credential_in_a_form_of_its_own() -> None:
    credential = {"access_token": "t", "token_expiry": "2999-01-01T00:00:00Z"}
    program = f"print({json.dumps({'credential': credential})!r})".replace('"', '\\"')
    assert Programs().gcloud(sys.executable, f'-c "{program}"') == credential
    with pytest.raises(PluginFailed, match=r"^auth-provider.config.cmd-path .*: returned no credential$"):
        Programs().gcloud(sys.executable, "-c 'print(\"{}\")'")
