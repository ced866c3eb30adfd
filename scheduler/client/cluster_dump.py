"""Lists every object of a cluster that allocation depends on, with read-only calls."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import orjson

from scheduler.client import api_resources
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Connection, Json
from scheduler.client.discovery import Served
from scheduler.client.errors import ApiError, Unanswered

PAGE = 500
"""Objects of one call, as kubectl asks for."""

LIST_TIMEOUT_S = 60.0

_FORBIDDEN, _NOT_FOUND, _GONE = 403, 404, 410

_BESIDE = (
    api_resources.NODES,
    api_resources.PODS,
    api_resources.NAMESPACES,
    api_resources.PRIORITY_CLASSES,
    api_resources.VOLUME_CLAIMS,
    api_resources.VOLUMES,
    api_resources.STORAGE_CLASSES,
    api_resources.CSI_NODES,
    api_resources.CSI_DRIVERS,
    api_resources.CSI_CAPACITIES,
    api_resources.ATTACHMENTS,
    api_resources.SERVICES,
    api_resources.REPLICATION_CONTROLLERS,
    api_resources.REPLICA_SETS,
    api_resources.STATEFUL_SETS,
)
"""Resources beside those of the devices. One that is not served or may not be read is left out."""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """A resource with its objects. problem: why there are none, or empty."""

    resource: Resource
    objects: Sequence[Json] = ()
    problem: str = ""


async def dump(connection: Connection, served: Served) -> AsyncIterator[ListedResource]:
    """Every resource, one after the other. Raises CallFailed where devices and claims cannot be read."""
    for resource in (served.slices, served.classes, served.claims):
        yield ListedResource(resource, await _all(connection, resource))
    rules = [served.taint_rules] if served.taint_rules else []
    for resource in (served.templates, *rules, *_BESIDE):
        try:
            found = ListedResource(resource, await _all(connection, resource))
        except ApiError as error:
            if error.status not in (_FORBIDDEN, _NOT_FOUND):
                raise
            found = ListedResource(resource, problem=str(error))
        yield found


async def _all(connection: Connection, resource: Resource) -> Sequence[Json]:
    """All objects in all namespaces. A list that takes so long that its pages expire is begun again, in one piece."""
    try:
        return await _pages(connection, resource, {"limit": str(PAGE)})
    except ApiError as error:
        if error.status != _GONE:
            raise
        return await _pages(connection, resource, {})


async def _pages(connection: Connection, resource: Resource, query: dict[str, str]) -> Sequence[Json]:
    found: list[Json] = []
    token = ""
    while True:
        whole_query = {**query, **({"continue": token} if token else {})}
        page = _page(resource, await connection.text(resource.path(), whole_query, LIST_TIMEOUT_S))
        # Objects in a list carry neither apiVersion nor kind.
        version = {"apiVersion": resource.api_version, "kind": resource.kind}
        found.extend({**version, **one} for one in page.get("items") or ())
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return found


def _page(resource: Resource, text: bytes) -> Json:
    try:
        page = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unanswered(f"GET {resource.path()}", f"the response is not JSON: {error}", is_ambiguous=False) from error
    if not isinstance(page, dict):
        raise Unanswered(f"GET {resource.path()}", "the response is not a list of objects", is_ambiguous=False)
    return page
