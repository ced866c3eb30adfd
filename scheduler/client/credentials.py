"""Address and credentials of the API server: kubeconfig, service account, exec plugins, mostly by kubernetes-asyncio.

The order is kubectl's: the given file, KUBECONFIG, ~/.kube/config, then the pod's service account. Credentials that
expire are loaded again, at most once a minute, and once more when the server answers 401. A client certificate is read
only once, because it belongs to the connection pool. Loading reads files, runs programs and asks servers, all in a
thread beside the event loop: calls continue with the old credentials, and only those that the server has rejected wait.
"""

import asyncio
import json
import logging
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from scheduler.client.errors import LASTS_S, NotConfigured
from scheduler.client.kubeconfig import KubeContext, address_problem, context_of, files_of, nothing_found
from scheduler.core_v1.pod import DEFAULT_NAMESPACE

# Programs that provide credentials: the exec plugin of a kubeconfig, and gcloud's for the older provider `gcp`.
#
# A program has a time limit, after which it is killed with all its children, and cannot ask anybody at a terminal. The
# functions block, and are called in a separate thread. Source: client.authentication.k8s.io/v1 ExecCredential; KEP-541.


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
        credential = _object(name, self._output(name, [plugin.command, *plugin.arguments], environment))
        if credential.get("apiVersion") != plugin.api_version:
            raise PluginFailed(
                f"{name}: returned apiVersion {credential.get('apiVersion')}, must be {plugin.api_version}"
            )
        status = credential.get("status")
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
        printed = json.loads(output)
    except ValueError as error:
        raise PluginFailed(f"{name}: did not print JSON: {error}") from error
    if not isinstance(printed, dict):
        raise PluginFailed(f"{name}: did not print an object but {type(printed).__name__}")
    return printed


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it has started, unless it has been waited for: its number may be another's by then."""
    if process.returncode is None:
        with suppress(ProcessLookupError):  # its own thread may wait for it at this moment
            os.killpg(process.pid, signal.SIGKILL)


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# Certificates and keys that stand in a kubeconfig, as the files that TLS libraries read.
#
# On Linux they are files in memory: a key is not left on a disk, and a read-only file system will do. Elsewhere they
# are temporary files, which are removed. Source: memfd_create(2); proc_pid_fd(5).


class InlineFiles:
    """The files, until `close`."""

    def __init__(self) -> None:
        self._paths: dict[bytes, str] = {}
        self._open: list[int] = []

    def put_into(self, section: MutableMapping[str, Any], fields: Iterable[str]) -> None:
        """Write into each field the path of a file with what `FIELD-data` holds. Raises ValueError if it is no base64.

        Source: kubeconfig (v1): the data go before a file that is named as well.
        """
        for field in fields:
            self._put_into(section, field)

    def _put_into(self, section: MutableMapping[str, Any], field: str) -> None:
        data = section.get(f"{field}-data")
        if not isinstance(data, str) or not data:
            return
        try:
            content = b64decode(data, validate=True)
        except Error as error:
            raise ValueError(f"{field}-data: is not base64: {error}") from error
        section[field] = self.path_of(content)
        del section[f"{field}-data"]

    def path_of(self, content: bytes) -> str:
        """The path of a file with this content; the same as long as nothing was closed."""
        if content not in self._paths:
            self._paths[content] = self._in_memory(content) if hasattr(os, "memfd_create") else _on_disk(content)
        return self._paths[content]

    def _in_memory(self, content: bytes) -> str:
        descriptor = os.memfd_create("kubeconfig")
        self._open.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        return f"/proc/self/fd/{descriptor}"

    def close(self) -> None:
        """Remove them; what was read from them stays in use."""
        for descriptor in self._open:
            os.close(descriptor)
        if not self._open:
            for path in self._paths.values():
                with suppress(OSError):
                    Path(path).unlink()
        self._open.clear()
        self._paths.clear()


def _on_disk(content: bytes) -> str:
    descriptor, path = tempfile.mkstemp()
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path


RENEW_S = 60.0
"""How long credentials are taken as they are before it is looked whether they have to be renewed."""

EARLY = timedelta(minutes=5)
"""So long before it expires what a plugin gave is renewed."""

_LOG = logging.getLogger(__name__)

Load = Callable[[bool], None]
"""Brings credentials up to date, in a thread: if need be, or in any case. What it raises names what went wrong."""


class Credentials:
    """What is sent with each call, kept fresh. configuration: the library's, with address, TLS and proxy.

    load: brings it up to date. trouble: why that failed the last time; empty where it did not. context: of the
    kubeconfig; empty for the service account of a pod.
    """

    def __init__(
        self, configuration: Configuration, load: Load, programs: Programs, files: InlineFiles, context: str = ""
    ) -> None:
        self.configuration = configuration
        self.context = context
        self.trouble = ""
        self._refused: tuple[float, float] | None = None
        self._load = load
        self._programs = programs
        self._files = files
        self._renewal: tuple[asyncio.Task[None], bool] | None = None
        self._renew_at = asyncio.get_running_loop().time() + RENEW_S

    def refused(self) -> None:
        """The server has said that it does not know us."""
        now = asyncio.get_running_loop().time()
        self._refused = (self._refused[0] if self._refused else now), now

    def accepted(self) -> None:
        """The server has given another answer."""
        self._refused = None

    @property
    def is_refused(self) -> bool:
        """Whether the server does not know us any more, and says so for longer than one that has just started.

        While credentials are renewed the calls that were refused wait: it is as if the server refused them still.
        """
        if self._refused is None:
            return False
        since, last = self._refused
        return (last if self._renewal is None else asyncio.get_running_loop().time()) - since >= LASTS_S

    def authorization(self) -> str:
        """The header's value; empty where a client certificate, or nothing, says who we are. Never waits."""
        if self._renewal is None and asyncio.get_running_loop().time() >= self._renew_at:
            self._begin(is_forced=False)
        return self._current()

    async def renewed(self, refused: str) -> bool:
        """True where there are other credentials than those that the server has just refused.

        Several calls are refused at once: one renewal is for all of them, and goes on where one waits no longer.
        """
        is_forced = False
        while self._current() == refused and not is_forced:
            task, is_forced = self._renewal or self._begin(is_forced=True)
            await asyncio.shield(task)
        return self._current() != refused

    def close(self) -> None:
        """Let nothing go on."""
        self._programs.close()
        self._files.close()
        if self._renewal is not None:
            self._renewal[0].cancel()

    def _begin(self, *, is_forced: bool) -> tuple[asyncio.Task[None], bool]:
        self._renewal = asyncio.get_running_loop().create_task(self._bring_up_to_date(is_forced=is_forced)), is_forced
        return self._renewal

    async def _bring_up_to_date(self, *, is_forced: bool) -> None:
        """Load again; where that fails the old ones stay, and the server is the judge of whether they still hold."""
        try:
            await beside(lambda: self._load(is_forced))
        except Exception as error:  # noqa: BLE001 - plugins and providers fail in their own ways
            self._failed(_problem(error))
        else:
            self.trouble = ""
        finally:
            self._renewal = None
            self._renew_at = asyncio.get_running_loop().time() + RENEW_S

    def _failed(self, problem: str) -> None:
        _LOG.warning("cannot renew the credentials: %s", problem)
        self.trouble = problem

    def _current(self) -> str:
        return str(self.configuration.api_key.get("BearerToken") or "")


async def beside(work: Callable[[], None]) -> None:
    """Run the work in a daemon thread: the program can end before it is done."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001 - the caller gets it
            error = raised
        with suppress(RuntimeError):  # the loop has ended, and with it who waited
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    await done


class _Loader(KubeConfigLoader):
    """The library's, with programs that end, and without temporary files."""

    def __init__(self, config: Mapping[str, Any], programs: Programs, files: InlineFiles) -> None:
        super().__init__(config, None, self._gcloud, config_base_path=None)
        self._programs = programs
        self._files = files
        self._lasts_until: datetime | None = None

    def load(self, configuration: Configuration, *, is_forced: bool) -> None:
        """Bring the configuration up to date; waits."""
        if is_forced:
            self._lasts_until = None
        for node, fields in ((self._cluster, _OF_CLUSTER), (self._user, _OF_USER)):
            section = node.value if node is not None else None
            if isinstance(section, dict):
                self._files.put_into(section, fields)
        asyncio.run(asyncio.wait_for(self.load_and_set(configuration), PLUGIN_S + 1))

    async def load_from_exec_plugin(self) -> bool:
        """Take what the plugin gives, where what it gave before does not last."""
        if self._lasts_until is not None and datetime.now(UTC) < self._lasts_until - EARLY:
            return True
        assert self._user is not None
        status = self._programs.status_of(exec_of(self._user["exec"].value))
        if "token" in status:
            self.token = f"Bearer {status['token']}"
        if "clientCertificateData" in status:
            self.cert_file: str | None = self._files.path_of(str(status["clientCertificateData"]).encode())
            self.key_file: str | None = self._files.path_of(str(status["clientKeyData"]).encode())
        expires = status.get("expirationTimestamp")
        self._lasts_until = datetime.fromisoformat(expires) if expires else _FOR_EVER
        return True

    def _gcloud(self) -> SimpleNamespace:
        assert self._user is not None
        config = self._user["auth-provider"]["config"]
        credential = self._programs.gcloud(str(config["cmd-path"]), str(config["cmd-args"]))
        return SimpleNamespace(token=credential["access_token"], expiry=credential["token_expiry"])


_OF_CLUSTER, _OF_USER = ("certificate-authority",), ("client-certificate", "client-key")
"""Fields of a kubeconfig that name files, and have a twin that holds the content."""

_NAMESPACE_OF_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_FOR_EVER = datetime.max.replace(tzinfo=UTC)
"""Until the server refuses it."""


async def load(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], home: Path) -> Credentials:
    """The credentials that `kubeconfig` names, or those of the environment. Raises NotConfigured.

    context: of the kubeconfig; its current one by default.
    """
    files = files_of(kubeconfig, environ, home)
    if not files and "KUBERNETES_SERVICE_HOST" not in environ:
        raise NotConfigured(nothing_found(home))
    chosen = await asyncio.to_thread(context_of, files, context) if files else None
    configuration, programs, inline = Configuration(), Programs(), InlineFiles()
    try:
        load_again = (
            _of_kubeconfig(chosen, configuration, programs, inline) if chosen is not None else _of_pod(configuration)
        )
        await beside(lambda: load_again(False))
        _require_addresses(configuration)
    except Exception as error:
        inline.close()
        raise NotConfigured(f"{files or 'the service account of this pod'}: {_problem(error)}") from error
    except asyncio.CancelledError:
        programs.close()
        inline.close()
        raise
    return Credentials(configuration, load_again, programs, inline, chosen.name if chosen is not None else "")


def context_namespace(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], home: Path) -> str:
    """The namespace of that context, or of the pod that this runs in; `default` without one. Raises NotConfigured."""
    if files := files_of(kubeconfig, environ, home):
        return context_of(files, context).namespace
    return _NAMESPACE_OF_POD.read_text().strip() if _NAMESPACE_OF_POD.is_file() else DEFAULT_NAMESPACE


def _of_kubeconfig(context: KubeContext, configuration: Configuration, programs: Programs, inline: InlineFiles) -> Load:
    # The user's file is left as it is: the library could write renewed tokens into it.
    loader = _Loader(context.as_config(), programs, inline)
    return lambda is_forced: loader.load(configuration, is_forced=is_forced)


def _require_addresses(configuration: Configuration) -> None:
    """Raises ValueError where the API server, or the proxy on the way to it, cannot be called."""
    if problem := address_problem(str(configuration.host)):
        raise ValueError(f"server: {problem}")
    if configuration.proxy and (problem := address_problem(str(configuration.proxy))):
        raise ValueError(f"proxy-url: {problem}")


def _of_pod(configuration: Configuration) -> Load:
    def load_again(_: bool) -> None:  # noqa: FBT001 - as it is called
        load_incluster_config(configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]

    return load_again


def _problem(error: Exception) -> str:
    """What went wrong; the library takes a file for what it should be, and stumbles over another."""
    if isinstance(error, TypeError | AttributeError | LookupError | AssertionError):
        return "is not a valid kubeconfig"
    if isinstance(error, TimeoutError):
        return f"nothing came within {PLUGIN_S:g} s"
    return f"{error.filename}: {_said(error)}" if isinstance(error, OSError) and error.filename else str(error)
