"""When pods are first seen as somebody waits for them, found by a watch.

The API server ends a watch that does not keep up for a moment, which on a busy machine any may be: it is then opened
again where it ended, so that nothing is missed.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from time import monotonic

import orjson

from benchmarks.endtoend.workload import NAMESPACE, Json
from scheduler.client.api_resources import PODS
from scheduler.client.connection import Connection
from scheduler.client.errors import CallFailed

IDLE_S = 120.0
"""If nothing at all happens for so long, nothing will."""


class Stalled(Exception):
    """What was waited for did not come; the message says how much of it did."""


async def newest_version(connection: Connection) -> str:
    """The resourceVersion from which a watch shows what comes from now on."""
    answer = await connection.request("GET", PODS.path(NAMESPACE), query={"limit": "1"})
    return str(answer["metadata"]["resourceVersion"])


async def first_seen(
    connection: Connection, version: str, query: Mapping[str, str], number: int, is_wanted: Callable[[Json], bool]
) -> Sequence[float]:
    """When each of so many pods was first seen as it is wanted, of the monotonic clock.

    query: of the watch, which begins at the version. Raises Stalled where nothing comes any more.
    """
    times: dict[str, float] = {}
    try:
        async for pod in _watched(connection, version, query):
            uid = pod["metadata"]["uid"]
            if uid not in times and is_wanted(pod):
                times[uid] = monotonic()
                if len(times) == number:
                    break
    except CallFailed as error:
        raise Stalled(f"{len(times)} of {number} pods, then {error}") from error
    return list(times.values())


async def _watched(connection: Connection, version: str, query: Mapping[str, str]) -> AsyncIterator[Json]:
    """The pods of all events, without end."""
    while True:
        current = {**query, "watch": "1", "resourceVersion": version}
        async with connection.stream(PODS.path(NAMESPACE), current, IDLE_S) as lines:
            async for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise Stalled(f"the watch from version {version} told {line.decode()}")
                version = event["object"]["metadata"]["resourceVersion"]
                yield event["object"]
