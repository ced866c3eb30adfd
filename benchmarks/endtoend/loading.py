"""A control plane is filled: many objects at a time, until its controller has made the claim of every pod."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from benchmarks.endtoend import workload
from benchmarks.endtoend.watch import first_seen, newest_version
from benchmarks.endtoend.workload import NAMESPACE, PLAIN, Asks, Json, Size
from scheduler.client.api_resources import NODES, PODS, Resource, classes, slices
from scheduler.client.connection import Connection

_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass")
_CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode")
_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume")
_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_AT_ONCE = 32
_CALL_S = 60.0

T = TypeVar("T")


async def load(connection: Connection, size: Size, schedulers: Sequence[str], asks: Asks = PLAIN) -> None:
    """Create everything, and wait for the claims. schedulers: of the pods. Raises CallFailed or Stalled."""
    await load_fleet(connection, size)
    if asks.volume:
        await _load_volumes(connection, size)
    await create(connection, _TEMPLATES.path(NAMESPACE), workload.template())
    version = await newest_version(connection)
    await asyncio.gather(
        first_seen(connection, version, {}, size.pods, _has_claim),
        _create_all(connection, PODS.path(NAMESPACE), workload.pods(size, schedulers, asks)),
    )


async def _load_volumes(connection: Connection, size: Size) -> None:
    """Create what pods with volumes need; each claim has its volume already."""
    await create(connection, _CLASSES.path(), workload.storage_class())
    await _create_all(connection, _CSI_NODES.path(), workload.csi_nodes(size))
    await _create_all(connection, _VOLUME_CLAIMS.path(NAMESPACE), workload.volume_claims(size))
    await _create_all(connection, _VOLUMES.path(), workload.volumes(size))


async def load_fleet(connection: Connection, size: Size) -> None:
    """Create nodes, slices and the class. Raises CallFailed."""
    await _create_all(connection, NODES.path(), workload.nodes(size))
    await _create_all(connection, slices("v1").path(), workload.slices(size))
    await create(connection, classes("v1").path(), workload.device_class())


def _has_claim(pod: Json) -> bool:
    return bool(pod["status"].get("resourceClaimStatuses"))


async def _create_all(connection: Connection, path: str, objects: Iterable[Json]) -> None:
    await for_each(objects, lambda obj: create(connection, path, obj))


async def for_each(objects: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do it with all of them, with many at a time."""
    rest = iter(objects)

    async def work() -> None:
        for obj in rest:  # all workers take from the same iterator
            await act(obj)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


async def create(connection: Connection, path: str, obj: Json) -> None:
    """Create one object. Raises CallFailed."""
    await connection.request("POST", path, body=obj, timeout_s=_CALL_S)
