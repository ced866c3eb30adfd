"""What a shell suggests: policies, gates, and namespaces and pods of the input."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from allocator.gates import DEFAULT_RELEASE, RELEASES
from allocator.policies import NAMES
from scheduler.client.api_resources import NAMESPACES, PODS, Resource
from scheduler.input.documents import STDIN, RawObject, read


def policies(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """Policies that are built in."""
    return _starting(NAMES, incomplete)


def gates(context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """The next gate of a list of them, by the release that is chosen."""
    release = context.params.get("release") or context.params.get("kubernetes") or DEFAULT_RELEASE
    before, comma, last = incomplete.rpartition(",")
    settings = (f"{gate}={value}" for gate in sorted(RELEASES[release].gates) for value in ("true", "false"))
    return [f"{before}{comma}{one}" for one in _starting(settings, last)]


def namespaces(context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """Namespaces of the files that are named already, or of the cluster."""
    paths = _paths(context)
    found = [own for own, _ in _names_of_files(paths)] if paths else [name for _, name in _live(context, NAMESPACES)]
    return _starting(sorted(set(found) - {""}), incomplete)


def pods(context: click.Context, _option: click.Parameter, incomplete: str) -> list[Any]:
    """Pods of the files that are named already, or of the cluster, as `namespace/name`; files where there are none."""
    paths = _paths(context)
    found = _names_of_files(paths, "Pod") if paths else _live(context, PODS)
    namespace = context.params.get("namespace") or ""
    names = [f"{own}/{name}" for own, name in found if namespace in ("", own)]
    return _starting(sorted(names), incomplete) or [CompletionItem(incomplete, type="file")]


def pods_or_files(context: click.Context, option: click.Parameter, incomplete: str) -> list[Any]:
    """Pods of the cluster for the first argument, files after it."""
    if context.params.get("arguments"):
        return [CompletionItem(incomplete, type="file")]
    return pods(context, option, incomplete)


def _starting(names: Iterable[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(start)]


def _paths(context: click.Context) -> Sequence[str]:
    """Of the command line so far; standard input is not there yet."""
    found = context.params.get("paths") or (context.params.get("arguments") or ())[1:]
    return [path for path in found if path != STDIN]


def _names_of_files(paths: Sequence[str], kind: str = "") -> Iterator[tuple[str, str]]:
    """Namespace and name of the objects of the kind, or of all."""
    for raw in (one.raw for one in read(paths) if isinstance(one, RawObject)):
        metadata = raw.get("metadata") if kind in ("", raw.get("kind")) else None
        if isinstance(metadata, dict) and metadata.get("name"):
            yield str(metadata.get("namespace") or ""), str(metadata["name"])


def _live(context: click.Context, resource: Resource) -> Sequence[tuple[str, str]]:
    from scheduler.cli.cluster_source import ClusterAccess
    from scheduler.cli.live_cluster import names_of  # with all that it takes to call a server

    access = ClusterAccess(context.params.get("kubeconfig") or "", context.params.get("context") or "")
    return names_of(access, resource)
