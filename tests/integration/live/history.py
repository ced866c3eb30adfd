"""What became of all pods and claims, event by event: what must never be is looked for at every moment, not at the end.

Two watches run beside the test, one of each kind. etcd counts one version for all kinds, so that their events can be
put in the order in which they happened.
"""

from collections.abc import Iterator, Mapping
from threading import Thread
from types import TracebackType
from typing import Self

from scheduler.binding.claim_objects import allocation_of, consumers_of
from scheduler.cycle.claim_index import FINALIZER
from tests.controlplane.rest import CLAIM, POD, Json, Kind, RestClient
from tests.integration.live.crowd import NAMESPACE, a_claim, a_pod, devices_of, wrongs_of_pod

_LAST = "the-last"
_LASTS_S = 3600.0


class History:
    """What happens in the namespace of the crowd while the context is open; it has to be empty before."""

    def __init__(self, api: RestClient) -> None:
        self._api = api
        self._events: dict[Kind, list[Json]] = {POD: [], CLAIM: []}
        self._ended: set[Kind] = set()
        self._threads: list[Thread] = []

    def __enter__(self) -> Self:
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
        return list(_wrongs(self.events()))

    def _keep(self, kind: Kind, changes: Iterator[Json]) -> None:
        for event in changes:
            if event["object"]["metadata"].get("name") == _LAST:
                self._ended.add(kind)
                return
            self._events[kind].append(event)


def _wrongs(events: list[Json]) -> Iterator[str]:
    pods: dict[str, Json] = {}
    claims: dict[str, Json] = {}
    for event in events:
        now = event["object"]
        state, uid = (pods if now["kind"] == POD.kind else claims), now["metadata"]["uid"]
        before = state.pop(uid, None)
        if event["type"] != "DELETED":
            state[uid] = now
        if now["kind"] == CLAIM.kind and allocation_of(now) and FINALIZER not in now["metadata"].get("finalizers", ()):
            yield f"claim {now['metadata']['name']} is allocated without the finalizer"
        if uid in pods and _node_of(before) != _node_of(now):
            yield from wrongs_of_pod(now, claims.values())
        if _matters(before, now):
            yield from _taken_twice(pods, claims)


def _matters(before: Json | None, now: Json) -> bool:
    """Whether a device may have got another user."""
    return _use_of(before) != _use_of(now)


def _use_of(obj: Json | None) -> tuple[str, Json | None, tuple[str, ...]]:
    return (_node_of(obj), allocation_of(obj), consumers_of(obj)) if obj else ("", None, ())


def _node_of(pod: Json | None) -> str:
    return str(pod["spec"].get("nodeName", "")) if pod else ""


def _taken_twice(pods: Mapping[str, Json], claims: Mapping[str, Json]) -> Iterator[str]:
    taken: dict[str, str] = {}
    for claim in claims.values():
        if any(uid in pods and _node_of(pods[uid]) for uid in consumers_of(claim)):
            name = claim["metadata"]["name"]
            for device in devices_of(claim):
                if device in taken:
                    yield f"device {device} is used by bound pods of claims {taken[device]} and {name}"
                taken[device] = name
