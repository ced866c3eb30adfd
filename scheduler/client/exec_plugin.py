"""Programs that provide credentials: the exec plugin of a kubeconfig, and gcloud's for the older provider `gcp`.

A program has a time limit, after which it is killed with all its children, and cannot ask anybody at a terminal. The
functions block, and are called in a separate thread.
Source: client.authentication.k8s.io/v1 ExecCredential; KEP-541.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

PLUGIN_S = 60.0
"""For so long a program may run: most ask a server, some wait until somebody has logged in."""

_STDERR_CHARACTERS = 500


class PluginFailed(Exception):
    """A program gave no credentials; the message names its command."""


@dataclass(frozen=True, slots=True)
class Exec:
    """What a kubeconfig says in `users[].user.exec`. environment: on top of our own."""

    api_version: str
    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class Programs:
    """Runs programs, one at a time. Several threads may call `close`, one calls the others."""

    def __init__(self, limit_s: float = PLUGIN_S) -> None:
        self._limit_s = limit_s
        self._running: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def close(self) -> None:
        """Kill what runs, and start nothing any more."""
        self._is_closed = True
        if self._running is not None:
            _kill(self._running)

    def status_of(self, plugin: Exec) -> Mapping[str, Any]:
        """The status of the ExecCredential that the plugin gives. Raises PluginFailed."""
        asked = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        name = f"exec.command {plugin.command}"
        found = _object(name, self._output(name, [plugin.command, *plugin.arguments], environment))
        if found.get("apiVersion") != plugin.api_version:
            raise PluginFailed(f"{name}: returned apiVersion {found.get('apiVersion')}, must be {plugin.api_version}")
        status = found.get("status")
        if not isinstance(status, dict) or not ("token" in status or "clientCertificateData" in status):
            raise PluginFailed(f"{name}: returned no status.token or status.clientCertificateData")
        if "clientCertificateData" in status and "clientKeyData" not in status:
            raise PluginFailed(f"{name}: returned clientCertificateData without clientKeyData")
        return status

    def gcloud(self, command: str, arguments: str) -> Mapping[str, Any]:
        """The credential that gcloud's configuration helper gives. Raises PluginFailed."""
        name = f"auth-provider.config.cmd-path {command}"
        credential = _object(name, self._output(name, [command, *shlex.split(arguments)], os.environ)).get("credential")
        if not isinstance(credential, dict):
            raise PluginFailed(f"{name}: returned no credential")
        return credential

    def _output(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> bytes:
        # In a process group of its own: what it starts is killed with it, and Ctrl-C is for us.
        try:
            process = self._running = subprocess.Popen(  # noqa: S603 - the kubeconfig's owner says what is run
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            raise PluginFailed(f"{name}: cannot start: {_said(error)}") from error
        with process:
            if self._is_closed:
                _kill(process)
            return self._result(name, process)

    def _result(self, name: str, process: subprocess.Popen[bytes]) -> bytes:
        try:
            output, errors = process.communicate(timeout=self._limit_s)
        except subprocess.TimeoutExpired as error:
            _kill(process)
            raise PluginFailed(f"{name}: printed nothing within {self._limit_s:g} s and was killed") from error
        finally:
            self._running = None
        if process.returncode:
            text = errors.decode(errors="replace").strip()[-_STDERR_CHARACTERS:]
            raise PluginFailed(f"{name}: exited with code {process.returncode}{f': {text}' if text else ''}")
        return output


def exec_of(raw: Mapping[str, Any]) -> Exec:
    """What `users[].user.exec` says. Raises PluginFailed."""
    for field in ("apiVersion", "command"):
        if not isinstance(raw.get(field), str):
            raise PluginFailed(f"exec.{field} is required, as a string")
    environment = {str(one["name"]): str(one["value"]) for one in raw.get("env") or ()}
    return Exec(raw["apiVersion"], raw["command"], [str(one) for one in raw.get("args") or ()], environment)


def _object(name: str, output: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(output)
    except ValueError as error:
        raise PluginFailed(f"{name}: did not print JSON: {error}") from error
    if not isinstance(found, dict):
        raise PluginFailed(f"{name}: did not print an object but {type(found).__name__}")
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it has started, unless it has been waited for: its number may be another's by then."""
    if process.returncode is None:
        with suppress(ProcessLookupError):  # its own thread may wait for it at this moment
            os.killpg(process.pid, signal.SIGKILL)


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
