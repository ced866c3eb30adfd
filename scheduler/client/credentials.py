"""Address and credentials of the API server: kubeconfig, service account, exec plugins, mostly by kubernetes-asyncio.

The order is kubectl's: the given file, KUBECONFIG, ~/.kube/config, then the pod's service account. Credentials that
expire are loaded again, at most once a minute, and once more when the server answers 401. A client certificate is read
only once, because it belongs to the connection pool. Loading reads files, runs programs and asks servers, all in a
thread beside the event loop: calls continue with the old credentials, and only those that the server has rejected wait.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from scheduler.client.errors import LASTS_S, NotConfigured
from scheduler.client.exec_plugin import PLUGIN_S, Programs, exec_of
from scheduler.client.inline_files import InlineFiles

RENEW_S = 60.0
"""How long credentials are taken as they are before it is looked whether they have to be renewed."""

EARLY = timedelta(minutes=5)
"""So long before it expires what a plugin gave is renewed."""

_HOME = Path(".kube") / "config"
_LOG = logging.getLogger(__name__)

Load = Callable[[bool], None]
"""Brings credentials up to date, in a thread: if need be, or in any case. What it raises names what went wrong."""


class Credentials:
    """What is sent with each call, kept fresh. configuration: the library's, with address, TLS and proxy.

    load: brings it up to date. trouble: why that failed the last time; empty where it did not.
    """

    def __init__(self, configuration: Configuration, load: Load, programs: Programs, files: InlineFiles) -> None:
        self.configuration = configuration
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
        """Whether the server does not know us any more, and says so for longer than one that has just started."""
        return self._refused is not None and self._refused[1] - self._refused[0] >= LASTS_S

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

    def __init__(  # Any: the library's own node
        self, config: Any, context: str | None, programs: Programs, files: InlineFiles
    ) -> None:
        super().__init__(config, context, self._gcloud, config_base_path=None)
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

_FOR_EVER = datetime.max.replace(tzinfo=UTC)
"""Until the server refuses it."""


async def load(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], home: Path) -> Credentials:
    """The credentials that `kubeconfig` names, or those of the environment. Raises NotConfigured.

    context: of the kubeconfig; its current one by default.
    """
    files = _files(kubeconfig, environ, home)
    if not files and "KUBERNETES_SERVICE_HOST" not in environ:
        raise NotConfigured(_nothing_found(home))
    configuration, programs, inline = Configuration(), Programs(), InlineFiles()
    try:
        if files:
            load_again = _of_kubeconfig(files, context, configuration, programs, inline)
        else:
            load_again = _of_pod(configuration)
        await beside(lambda: load_again(False))
    except Exception as error:
        inline.close()
        raise NotConfigured(f"{files or 'the service account of this pod'}: {_problem(error)}") from error
    except asyncio.CancelledError:
        programs.close()
        inline.close()
        raise
    return Credentials(configuration, load_again, programs, inline)


def context_name(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], home: Path) -> str:
    """The context that `load` uses; empty for the service account of a pod. Raises NotConfigured."""
    files = _files(kubeconfig, environ, home)
    if context or not files:
        return context or ""
    try:
        config = KubeConfigMerger(files).config
        return str(config["current-context"]) if config is not None else ""
    except Exception as error:
        raise NotConfigured(f"{files}: {_problem(error)}") from error


def _of_kubeconfig(
    files: str, context: str | None, configuration: Configuration, programs: Programs, inline: InlineFiles
) -> Load:
    # The user's file is left as it is: the library could write renewed tokens into it.
    loader = _Loader(KubeConfigMerger(files).config, context, programs, inline)
    return lambda is_forced: loader.load(configuration, is_forced=is_forced)


def _of_pod(configuration: Configuration) -> Load:
    def load_again(_: bool) -> None:  # noqa: FBT001 - as it is called
        load_incluster_config(configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]

    return load_again


def _problem(error: Exception) -> str:
    """What went wrong; the library takes a file for what it should be, and stumbles over another."""
    if isinstance(error, TypeError | AttributeError | LookupError | AssertionError):
        return f"is not a valid kubeconfig ({error})"
    if isinstance(error, TimeoutError):
        return f"nothing came within {PLUGIN_S:g} s"
    return str(error)


def _files(kubeconfig: Path | None, environ: Mapping[str, str], home: Path) -> str:
    """The kubeconfigs to read, as the library takes them: one, or several with the separator of PATH; "" for none."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise NotConfigured(f"kubeconfig {kubeconfig} is not a file")
        return str(kubeconfig)
    if named := environ.get("KUBECONFIG"):
        return named
    return str(home / _HOME) if (home / _HOME).is_file() else ""


def _nothing_found(home: Path) -> str:
    return (
        f"no API server is configured: give --kubeconfig, set KUBECONFIG, or provide {home / _HOME}; "
        "in a pod, its service account is used (KUBERNETES_SERVICE_HOST is not set here)"
    )
