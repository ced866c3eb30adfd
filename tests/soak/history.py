"""The two watches that the checker follows, from the first object on to the last."""

import asyncio
from collections.abc import AsyncIterator, Callable
from time import monotonic

from tests.controlplane.rest import CLAIM, POD, Json
from tests.soak.client import Client, collection
from tests.soak.furnish import GPU, TEAMS, request
from tests.soak.objects import CLAIMS, PODS, a_claim, a_pod, create
from tests.soak.revisions import Revision, RevisionOrder, event_of

_LAST = "the-last"
_KINDS = {PODS: POD, CLAIMS: CLAIM}


class History:
    """feed: is given each revision in its turn. see: is told of each revision at once, in the order of its own kind."""

    def __init__(self, client: Client, feed: Callable[[Revision], None], see: Callable[[Revision], None]) -> None:
        self._client, self._feed, self._see = client, feed, see
        self._order = RevisionOrder(*_KINDS)
        self._versions: dict[str, str] = {}

    async def begin(self) -> None:
        """From now on everything is seen, whenever it is asked for. Raises ConnectionError."""
        for resource in _KINDS:
            found = await self._client.ask(f"{collection(resource)}?limit=1")
            self._versions[resource] = found["metadata"]["resourceVersion"]

    async def follow(self) -> None:
        """Watch until both have shown their last object. Raises ConnectionError or ValueError where one breaks."""
        await asyncio.gather(*(self._follow(resource) for resource in _KINDS))
        for revision in self._order.come():
            self._feed(revision)

    async def end(self) -> None:
        """Create the objects that are the last ones."""
        namespace = TEAMS[0]
        for obj in (a_claim(namespace, _LAST, [request(GPU)]), a_pod(namespace, _LAST, [], schedulerName="nobody")):
            answer = await self._client.send(create(obj))
            assert answer.is_yes, answer

    async def _follow(self, resource: str) -> None:
        async for event in self._events(resource):
            event["object"].setdefault("kind", _KINDS[resource].kind)
            self._order.put(resource, event, monotonic())
            if event["type"] != "BOOKMARK":
                self._see(Revision(0, monotonic(), event["type"] == "DELETED", event["object"]))
            for revision in self._order.come():
                self._feed(revision)
            if event["object"]["metadata"].get("name") == _LAST:
                return

    async def _events(self, resource: str) -> AsyncIterator[Json]:
        """All events, over as many watches as it takes."""
        path = collection(resource)
        while True:
            version = self._versions[resource]
            query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}"
            async for line in self._client.watch(f"{path}?{query}"):
                event = event_of(line)
                if event["type"] == "ERROR":
                    raise ConnectionError(f"the watch of {resource} told {event['object']}")
                self._versions[resource] = event["object"]["metadata"]["resourceVersion"]
                yield event
