"""Where the API server is and who we are: kubeconfig, service account, exec plugins, all by kubernetes-asyncio.

The order is kubectl's: the file that was named, KUBECONFIG, ~/.kube/config, then the pod's own account. What expires is
asked for again by the library, at most once a minute, and once more when the server says 401; only a client
certificate is read just once, since it belongs to the pool of connections.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config, load_kube_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from scheduler.client.errors import NotConfigured

RENEW_S = 60.0
"""How long credentials are taken as they are before the library is asked whether they have to be renewed."""

_HOME = Path(".kube") / "config"
_LOG = logging.getLogger(__name__)


class Credentials:
    """What is sent with each call, kept fresh. configuration: the library's, with address, TLS and proxy."""

    def __init__(self, configuration: Configuration, loader: KubeConfigLoader | None) -> None:
        self.configuration = configuration
        self._loader = loader
        self._renewing = asyncio.Lock()
        self._renew_at = asyncio.get_running_loop().time() + RENEW_S

    async def authorization(self) -> str:
        """The header's value; empty where a client certificate, or nothing, says who we are."""
        if self._loader and asyncio.get_running_loop().time() >= self._renew_at:
            await self._renew(self._loader)
        # Of the service account's token the library itself reads the file again.
        return await self.configuration.get_api_key_with_prefix("BearerToken") or ""

    async def renewed(self, refused: str) -> bool:
        """True where there are other credentials than those that the server has just refused."""
        async with self._renewing:
            # Several calls are refused at once; the first of them has renewed for all.
            if self._loader and await self._current() == refused:
                await self._load(self._loader, is_forced=True)
            return await self._current() != refused

    async def _current(self) -> str:
        return await self.configuration.get_api_key_with_prefix("BearerToken") or ""

    async def _renew(self, loader: KubeConfigLoader) -> None:
        async with self._renewing:
            if asyncio.get_running_loop().time() < self._renew_at:
                return
            await self._load(loader, is_forced=False)

    async def _load(self, loader: KubeConfigLoader, *, is_forced: bool) -> None:
        """Load anew; where that fails the old ones stay, and the server is the judge of whether they still hold."""
        if is_forced and hasattr(loader, "exec_plugin_expiry"):
            del loader.exec_plugin_expiry
        try:
            await loader.load_and_set(self.configuration)
        except Exception as error:  # noqa: BLE001 - plugins and providers fail in their own ways
            _LOG.warning("credentials could not be renewed: %s", error)
        self._renew_at = asyncio.get_running_loop().time() + RENEW_S


async def load(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], home: Path) -> Credentials:
    """The credentials that `kubeconfig` names, or those of the environment. Raises NotConfigured.

    context: of the kubeconfig; its current one by default.
    """
    configuration = Configuration()
    files = _files(kubeconfig, environ, home)
    if not files and "KUBERNETES_SERVICE_HOST" not in environ:
        raise NotConfigured(_nothing_found(home))
    try:
        if not files:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call] # the library left it untyped
            return Credentials(configuration, None)
        # The user's file is left as it is: persist_config would write renewed tokens into it.
        loader = await load_kube_config(files, context, configuration, persist_config=False)
    except Exception as error:
        raise NotConfigured(f"{files or 'the service account of this pod'}: {_problem(error)}") from error
    return Credentials(configuration, loader)


def _problem(error: Exception) -> str:
    """What went wrong; the library takes a file for what it should be, and stumbles over another."""
    if isinstance(error, TypeError | AttributeError | LookupError):
        return f"is no kubeconfig, or a part of it is of another type ({error})"
    if isinstance(error, FileNotFoundError) and not error.filename:
        return f"the program that exec.command names cannot be started: {error.strerror}"  # uvloop leaves out its name
    return str(error)


def _files(kubeconfig: Path | None, environ: Mapping[str, str], home: Path) -> str:
    """The kubeconfigs to read, as the library takes them: one, or several with the separator of PATH; "" for none."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise NotConfigured(f"kubeconfig {kubeconfig} is no file")
        return str(kubeconfig)
    if named := environ.get("KUBECONFIG"):
        return named
    return str(home / _HOME) if (home / _HOME).is_file() else ""


def _nothing_found(home: Path) -> str:
    return (
        f"no API server is configured: give --kubeconfig, set KUBECONFIG, or provide {home / _HOME}; "
        "in a pod, its service account is used (KUBERNETES_SERVICE_HOST is not set here)"
    )
