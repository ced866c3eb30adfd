"""What is wrong with a kubeconfig, in words: the library that reads it trusts the file to be one, and stumbles.

Source: k8s.io/client-go/tools/clientcmd/api/v1 Config.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import yaml

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
_ADDRESSES = ("http", "https")


def existing(paths: str) -> str:
    """Those of the files that are there, separated as they were: as for kubectl, a list may name files to come."""
    return os.pathsep.join(path for path in paths.split(os.pathsep) if path and _is_there(_place(path)))


def problems(paths: str) -> Iterator[str]:
    """What is wrong with each of the files, with its name; nothing where the library can read them."""
    for path in filter(None, paths.split(os.pathsep)):
        if problem := _problem(_place(path)):
            yield f"{path}: {problem}"


def _place(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - as the library has it: an unknown user's home is no error


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a name that is too long, or below what may not be looked into
        return False


def _problem(file: Path) -> str:
    try:
        raw = yaml.safe_load(file.read_bytes())
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return (
            f"is not valid YAML: {f'line {mark.line + 1}, column {mark.column + 1}: ' if mark else ''}{error.problem}"
        )
    except (ValueError, yaml.YAMLError, RecursionError):  # of what is no text, or nested without end
        return "is not valid YAML"
    if not isinstance(raw, dict):
        return "is not a valid kubeconfig: must be an object"
    problem = next(_problems(raw), "")
    return f"is not a valid kubeconfig: {problem}" if problem else ""


def _problems(raw: Mapping[str, object]) -> Iterator[str]:
    if not isinstance(raw.get("current-context"), str | None):
        yield "current-context: must be a string"
    for name, inner in _ENTRIES.items():
        entries = raw.get(name)
        if not isinstance(entries, list | None):
            yield f"{name}: must be a list"
            return
        for position, entry in enumerate(entries or ()):
            yield from _problems_of_entry(f"{name}[{position}]", entry, inner)


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


def address_problem(url: str) -> str:
    """Why the address of a server or proxy cannot be called; empty where it can be tried."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _ADDRESSES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or brackets without an address
        is_whole = False
    return "" if is_whole and url.isprintable() else f"{url!r:.80} is no address such as https://10.0.0.1:6443"
