"""Input from a live cluster: what `kubectl get` of all kinds that count would print, read with read-only calls."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from scheduler.cli.cluster_source import ClusterAccess
from scheduler.cli.ending import print_to_stderr, stop
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Connection, connect
from scheduler.client.credentials import context_namespace
from scheduler.client.discovery import ListedResource, NotServed, Served, discover, dump
from scheduler.client.errors import CallFailed, NotConfigured
from scheduler.input.documents import Place, RawObject
from scheduler.kinds import KINDS

SUGGESTION_S = 3.0
"""How long a shell waits for suggestions."""


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The objects of a cluster, and what its API server serves. name: the context, or the server."""

    objects: Sequence[RawObject]
    served: Served
    name: str


def read_cluster(access: ClusterAccess) -> LiveCluster:
    """All of the cluster; the command ends where it cannot be read."""
    try:
        return asyncio.run(_read(access))
    except (NotConfigured, NotServed, CallFailed) as error:
        stop(str(error))


def namespace_of(access: ClusterAccess) -> str:
    """The namespace of the context, as kubectl takes it; the command ends where there is no such context."""
    kubeconfig = Path(access.kubeconfig) if access.kubeconfig else None
    try:
        return context_namespace(kubeconfig, access.context or None, os.environ, Path.home())
    except NotConfigured as error:
        stop(str(error))


@asynccontextmanager
async def connected(access: ClusterAccess) -> AsyncIterator[tuple[Connection, Served, str]]:
    """A connection while the context is open, what the API server serves, and which cluster it is, which is printed.

    Raises NotConfigured, NotServed, CallFailed.
    """
    kubeconfig = Path(access.kubeconfig) if access.kubeconfig else None
    async with connect(kubeconfig=kubeconfig, context=access.context or None) as connection:
        served = await discover(connection)
        where = f"context {connection.context}" if connection.context else "the cluster of this pod"
        print_to_stderr([f"reading {where}: {connection.server}, {served.release_text}"])
        yield connection, served, where


async def _read(access: ClusterAccess) -> LiveCluster:
    async with connected(access) as (connection, served, name):
        listed = [one async for one in dump(connection, served, (kind.resource for kind in KINDS))]
    print_to_stderr(problems(listed))
    return LiveCluster([_raw(connection.server, found) for one in listed for found in one.objects], served, name)


def names_of(access: ClusterAccess, resource: Resource) -> Sequence[tuple[str, str]]:
    """Namespace and name of each object of a resource; none where they cannot be had soon."""
    try:
        return asyncio.run(asyncio.wait_for(_names(access, resource), SUGGESTION_S))
    except (NotConfigured, CallFailed, TimeoutError, orjson.JSONDecodeError):
        return ()


async def _names(access: ClusterAccess, resource: Resource) -> Sequence[tuple[str, str]]:
    kubeconfig = Path(access.kubeconfig) if access.kubeconfig else None
    async with connect(kubeconfig=kubeconfig, context=access.context or None) as connection:
        page = orjson.loads(await connection.text(resource.path(), {}, SUGGESTION_S))
    named = [one["metadata"] for one in page.get("items") or ()]
    return [(one.get("namespace", ""), one["name"]) for one in named]


def problems(listed: Sequence[ListedResource]) -> list[str]:
    """What is missing, and what does not go with the rest, as warnings."""
    moment = next((one.moment for one in listed if one.moment), "")
    late = [str(one.resource) for one in listed if one.moment != moment and not one.problem]
    return [
        *(f"warning: {one.resource} cannot be read and are left out: {one.problem}" for one in listed if one.problem),
        *([f"warning: {', '.join(late)} were read later than the rest, and may not match it"] if late else []),
    ]


def _raw(server: str, found: dict[str, object]) -> RawObject:
    return RawObject(Place(server), found, is_named=False)
