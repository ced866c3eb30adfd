"""Kubeconfigs: which files are read, what is wrong with them, and the cluster and user that a context names.

Several files are one: of entries of one name the first counts, and so does the first current-context. The library that
gets credentials is given one cluster and one user: it merges files in another way, and trusts them to be right.
Source: k8s.io/client-go/tools/clientcmd ClientConfigLoadingRules.Load, ConfirmUsable; api/v1 Config.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from allocator.words import did_you_mean
from scheduler.client.errors import NotConfigured
from scheduler.core_v1.pod import DEFAULT_NAMESPACE

_HOME = Path(".kube") / "config"

_ENTRIES: Mapping[str, str] = {"clusters": "cluster", "users": "user", "contexts": "context"}
"""The lists of a kubeconfig, and what an entry of each holds beside its name."""

_TEXTS: Mapping[str, tuple[str, ...]] = {
    "cluster": ("server", "certificate-authority", "proxy-url", "tls-server-name", "certificate-authority-data"),
    "user": (
        *("token", "tokenFile", "username", "password"),
        *("client-certificate", "client-key", "client-certificate-data", "client-key-data"),
    ),
    "context": ("cluster", "user", "namespace"),
}

_OBJECTS = ("exec", "auth-provider")
"""Fields of a user that are objects."""

_FILES: Mapping[str, Mapping[str, str]] = {
    "cluster": {"certificate-authority": "certificate-authority-data"},
    "user": {
        "client-certificate": "client-certificate-data",
        "client-key": "client-key-data",
        "tokenFile": "token",
    },
}
"""Fields that name files, from the folder of the kubeconfig, and those that hold the content in their place."""

_OF_OTHERS = ("as", "as-uid", "as-groups", "as-user-extra")
"""Fields by which a user acts as another one, with his rights."""

_ADDRESSES = ("http", "https")

KubeFields = dict[str, Any]
"""Of a cluster, user or context. Any: plugins have fields of their own."""


@dataclass(frozen=True, slots=True)
class KubeContext:
    """A context with what it names. cluster, user: their fields, with absolute paths of files."""

    name: str
    namespace: str
    cluster: KubeFields
    user: KubeFields

    def as_config(self) -> KubeFields:
        """A kubeconfig of this context alone."""
        return {
            "current-context": self.name,
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": self.name}}],
            "clusters": [{"name": self.name, "cluster": dict(self.cluster)}],
            "users": [{"name": self.name, "user": dict(self.user)}],
        }


def context_of(files: str, name: str | None) -> KubeContext:
    """The context of the files, by default the current one. Raises NotConfigured.

    files: as `files_of` finds them.
    """
    entries: dict[str, dict[str, KubeFields]] = {section: {} for section in _ENTRIES}
    current = ""
    for path in filter(None, files.split(os.pathsep)):
        file = _place(path)
        raw, problem = _read(file)
        if problem:
            raise NotConfigured(f"{path}: {problem}")
        current = current or raw.get("current-context") or ""
        for section, inner in _ENTRIES.items():
            for entry in raw.get(section) or ():
                fields = _from(file.parent, inner, entry.get(inner) or {})
                entries[section].setdefault(entry["name"], fields)
    chosen = name or current
    if problem := next(_problems_of_choice(chosen, entries), ""):
        raise NotConfigured(f"{files}: {problem}")
    context = entries["contexts"][chosen]
    user = entries["users"].get(context.get("user") or "", {})  # as for kubectl: a user that is not there has nothing
    return KubeContext(
        chosen, context.get("namespace") or DEFAULT_NAMESPACE, entries["clusters"][context["cluster"]], user
    )


def files_of(kubeconfig: Path | None, environ: Mapping[str, str], home: Path) -> str:
    """The kubeconfigs to read: one, or several with the separator of PATH; "" for none. Raises NotConfigured."""
    if kubeconfig is not None:
        if not os.path.isfile(kubeconfig):  # noqa: PTH113 - a name that is too long is no error for it
            raise NotConfigured(f"kubeconfig {kubeconfig} is not a file")
        return str(kubeconfig)
    if named := environ.get("KUBECONFIG"):
        if not (files := _existing(named)):
            raise NotConfigured(f"KUBECONFIG {named} is not a file")
        return files
    return str(home / _HOME) if os.path.isfile(home / _HOME) else ""  # noqa: PTH113 - the same


def nothing_found(home: Path) -> str:
    """What to give where there is no kubeconfig."""
    return (
        f"no API server is configured: give --kubeconfig, set KUBECONFIG, or provide {home / _HOME}; "
        "in a pod, its service account is used (KUBERNETES_SERVICE_HOST is not set here)"
    )


def address_problem(url: str) -> str:
    """Why the address of a server or proxy cannot be called; empty where it can be tried."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _ADDRESSES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or brackets without an address
        is_whole = False
    return "" if is_whole and url.isprintable() else f"{url!r:.80} is no address such as https://10.0.0.1:6443"


def _existing(paths: str) -> str:
    """Those of the files that are there, separated as they were: as for kubectl, a list may name files to come."""
    return os.pathsep.join(path for path in paths.split(os.pathsep) if path and os.path.exists(_place(path)))  # noqa: PTH110


def _place(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - an unknown user's home is no error


def _from(folder: Path, inner: str, fields: KubeFields) -> KubeFields:
    """The fields, with paths that do not depend on where the program runs."""
    paths = {name: str(folder.absolute() / fields[name]) for name in _FILES.get(inner, ()) if fields.get(name)}
    plugin = fields.get("exec") if inner == "user" else None
    command = plugin.get("command") if isinstance(plugin, dict) else None
    if isinstance(command, str) and os.sep in command:  # without a separator, it is looked for in PATH
        return {**fields, **paths, "exec": {**fields["exec"], "command": str(folder.absolute() / command)}}
    return {**fields, **paths}


# What is wrong with a file, and with what a context names, in words.


def _read(file: Path) -> tuple[KubeFields, str]:
    """What the file holds, and what is wrong with it; an empty one holds nothing."""
    try:
        raw = yaml.safe_load(file.read_bytes())
    except OSError as error:
        return {}, f"cannot be read: {error.strerror or error}"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return {}, f"is not valid YAML: {at}{error.problem}"
    except (ValueError, yaml.YAMLError, RecursionError):  # of what is no text, or nested without end
        return {}, "is not valid YAML"
    if not isinstance(raw, dict | None):
        return {}, "is not a valid kubeconfig: must be an object"
    problem = next(_problems_of_kubeconfig(raw or {}), "")
    return raw or {}, f"is not a valid kubeconfig: {problem}" if problem else ""


def _problems_of_kubeconfig(raw: Mapping[str, object]) -> Iterator[str]:
    if not isinstance(raw.get("current-context"), str | None):
        yield "current-context: must be a string"
    for name, inner in _ENTRIES.items():
        entries = raw.get(name)
        if not isinstance(entries, list | None):
            yield f"{name}: must be a list"
            return
        known = set[str]()
        for position, entry in enumerate(entries or ()):
            yield from _problems_of_entry(f"{name}[{position}]", entry, inner)
            if entry["name"] in known:
                yield f"{name}[{position}].name: {entry['name']!r:.200} is there twice"
            known.add(entry["name"])


def _problems_of_entry(path: str, entry: object, inner: str) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"{path}: must be an object"
    elif not isinstance(entry.get("name"), str):
        yield f"{path}.name: is required, as a string"
    elif not isinstance(fields := entry.get(inner), dict | None):
        yield f"{path}.{inner}: must be an object"
    else:
        for field in _TEXTS[inner]:
            value = (fields or {}).get(field)
            if not isinstance(value, str | None):
                yield f"{path}.{inner}.{field}: must be a string"
        for field in _OBJECTS:
            if inner == "user" and not isinstance((fields or {}).get(field), dict | None):
                yield f"{path}.{inner}.{field}: must be an object"


def _problems_of_choice(name: str, entries: Mapping[str, Mapping[str, KubeFields]]) -> Iterator[str]:
    """Why the context of that name cannot be used."""
    contexts = entries["contexts"]
    if not name:
        yield "current-context is not set, and no other context is named"
        return
    if name not in contexts:
        yield f"context {name!r:.200} does not exist{did_you_mean(name, contexts)}"
        return
    named = contexts[name].get("cluster") or ""
    if named not in entries["clusters"]:
        yield f"context {name!r}: cluster {named!r:.200} does not exist{did_you_mean(named, entries['clusters'])}"
        return
    if "server" not in entries["clusters"][named]:
        yield f"cluster {named!r}: server is required"
    yield from _problems_of_files(f"cluster {named!r}", "cluster", entries["clusters"][named])
    named = contexts[name].get("user") or ""
    user = entries["users"].get(named, {})
    yield from _problems_of_files(f"user {named!r}", "user", user)
    first, second = ("client-certificate", "client-key")
    for field in _OF_OTHERS:
        if user.get(field):
            yield f"user {named!r}: {field} is not supported, and calls without it could have other rights"
    if _is_given(user, first) and not _is_given(user, second):
        yield f"user {named!r}: {second} is required beside {first}"


def _is_given(user: KubeFields, field: str) -> bool:
    return bool(user.get(field) or user.get(_FILES["user"][field]))


def _problems_of_files(owner: str, inner: str, fields: KubeFields) -> Iterator[str]:
    for field, content in _FILES[inner].items():
        if (path := fields.get(field)) and not fields.get(content) and (problem := _problem_of_path(path)):
            yield f"{owner}: {field} {path}: {problem}"


def _problem_of_path(path: str) -> str:
    """Why a file cannot be read. It is not opened: a pipe is read once, and may have nothing to say for long."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - the path is a text
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    code = errno.EISDIR if is_folder else 0 if os.access(path, os.R_OK) else errno.EACCES
    return os.strerror(code) if code else ""
