"""What became of all pods and claims, event by event: what must never be is looked for at every moment, not at the end.

Two watches run beside the test, one of each kind. etcd counts one version for all kinds, so that their events can be
put in the order in which they happened.
"""

from collections.abc import Iterator
from threading import Thread
from types import TracebackType
from typing import Self

from scheduler.attempt.claim_objects import allocation_of
from scheduler.state.claims import FINALIZER
from tests.controlplane.rest import CLAIM, POD, SLICE, Json, Kind, RestClient
from tests.integration.live.crowd import NAMESPACE, a_claim, a_pod
from tests.soak.checker import Checker
from tests.soak.inventory import inventory_of
from tests.soak.revisions import Revision

_LAST = "the-last"
_LASTS_S = 3600.0


class History:
    """What happens in the namespace of the crowd while the context is open; it has to be empty before.

    The devices are those that are there when it is opened.
    """

    def __init__(self, api: RestClient) -> None:
        self._api = api
        self._events: dict[Kind, list[Json]] = {POD: [], CLAIM: []}
        self._ended: set[Kind] = set()
        self._threads: list[Thread] = []

    def __enter__(self) -> Self:
        self._inventory = inventory_of(self._api.list(SLICE))
        for kind in self._events:
            changes = self._api.changes(kind, NAMESPACE, _LASTS_S)
            self._threads.append(Thread(target=self._keep, args=(kind, changes), name=f"history of {kind.kind}"))
            self._threads[-1].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._api.create(a_claim(_LAST))
        self._api.create(a_pod(_LAST, scheduler="nobody"))
        for thread in self._threads:
            thread.join()
        if kind is None:
            assert self._ended == set(self._events), "a watch has broken"
        for ended in self._events:
            self._api.delete(ended, _LAST, NAMESPACE)

    def events(self) -> list[Json]:
        """All events, in their order."""
        every = [event for events in self._events.values() for event in events]
        return sorted(every, key=lambda event: int(event["object"]["metadata"]["resourceVersion"]))

    def wrongs(self) -> list[str]:
        """What should never have been, at whatever moment."""
        events, checker = self.events(), Checker(self._inventory, lambda _: False)
        for event in events:
            found = event["object"]
            checker.feed(Revision(int(found["metadata"]["resourceVersion"]), 0.0, event["type"] == "DELETED", found))
        return [*(f"{wrong.rule}: {wrong.text}" for wrong in checker.wrongs), *_without_finalizer(events)]

    def _keep(self, kind: Kind, changes: Iterator[Json]) -> None:
        for event in changes:
            if event["object"]["metadata"].get("name") == _LAST:
                self._ended.add(kind)
                return
            self._events[kind].append(event)


def _without_finalizer(events: list[Json]) -> Iterator[str]:
    for claim in (event["object"] for event in events):
        metadata = claim["metadata"]
        if claim["kind"] == CLAIM.kind and allocation_of(claim) and FINALIZER not in metadata.get("finalizers", ()):
            yield f"claim {metadata['name']} is allocated without the finalizer"
